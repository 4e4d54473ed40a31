"""Targets: names, flags, the host's resolution, refusals."""
import json
import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from support.harness import partly_slow

import calque
from calque import aot, runtime
from calque.core.config import config
from calque.dispatch import eager
from calque.lowering.compiler.compile import compile_module, compile_to
from calque.lowering.driver import cache
from calque.lowering.target import targets
from calque.lowering.target.targets import (
    Target,
    TargetError,
    cpu_target,
    host_target,
    parse_target,
)

TRIVIAL = "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }"
ADD = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %a, %a : tensor<4xf32>
  return %0 : tensor<4xf32> }"""


@pytest.fixture(autouse=True)
def host_level() -> Iterator[None]:
    """These tests say themselves what is compiled for, whatever CALQUE_CPU says."""
    with config.context("calque_cpu", "host"):
        yield


@pytest.mark.parametrize("name", ["cpu", "host", "cpu:host"])
def test_the_host_has_a_name_and_a_feature_list(name):
    target = parse_target(name)
    assert target is host_target() and target.name == "cpu"
    assert target.cpu not in ("", "host") and target.features
    assert all("host" not in flag for flag in target.flags())


V2 = ["cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"]
V3 = [*V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"]


@pytest.mark.parametrize(("arch", "has", "level"), [
    ("x86_64", [*V3, "avx512f", "avx512bw", "amx-tile"], "cpu:x86-64-v3"),
    ("x86_64", V3, "cpu:x86-64-v3"), ("x86_64", [f for f in V3 if f != "fma"], "cpu:x86-64-v2"),
    ("x86_64", ["sse3"], "cpu"), ("aarch64", ["sve2", "dotprod"], "cpu:aarch64")])
def test_artifacts_are_for_a_level_that_others_have(monkeypatch, arch, has, level):
    host = Target("llvm-cpu", "cpu", cpu="own", features=tuple(has), arch=arch)
    monkeypatch.setattr(targets, "host_target", lambda: host)
    targets._lacking.cache_clear()
    try:
        assert targets.portable_target().name == level
        with config.context("calque_cpu", "x86-64-v2"):
            assert targets.portable_target().name == "cpu:x86-64-v2"
    finally:
        targets._lacking.cache_clear()


def test_the_explicit_host_is_what_the_compiler_means_by_host():
    implicit = compile_to(TRIVIAL + "\n", Target(
        "llvm-cpu", "probe", cpu="host", arch=host_target().arch), "executable-targets")
    found = targets._TARGET_TEXT.search(implicit)
    explicit = targets._TARGET_TEXT.search(compile_to(TRIVIAL, host_target(), "executable-targets"))
    assert found and explicit and found[1] == explicit[1] == host_target().cpu

    def final(text):
        """The last word on each feature; those never mentioned or off are the same: not there."""
        return {entry[1:] for entry in {e[1:]: e for e in text.split(",")}.values()
                if entry[0] == "+"} - {"64bit"}
    assert final(found[2]) - {targets.HALVES} == final(explicit[2])


def test_halves_are_rounded_as_numpy_rounds_them():
    """Whatever the CPU has: products and sums are not fused in halves."""
    x, y, z = np.random.default_rng(0).standard_normal((3, 4096)).astype(np.float16)
    got = calque.jit(lambda x, y, z: (x * y + z, 1 - x * y * z))(x, y, z)
    np.testing.assert_array_equal(got[0], x * y + z)
    np.testing.assert_array_equal(got[1], 1 - x * y * z)


def test_what_the_cpu_model_has_and_the_machine_hides_is_switched_off():
    target = Target("llvm-cpu", "x", cpu="znver4", features=("avx2",), absent=("avx512f",),
                    arch="x86_64")
    assert "--iree-llvmcpu-target-cpu-features=+avx2,-avx512f" in target.flags()


def test_the_host_is_asked_once_per_boot(tmp_path):
    script = """
import calque.lowering.target.targets as t
calls = []
ask = t._ask_compiler
t._ask_compiler = lambda: calls.append(1) or ask()
print(t.host_target().cpu, len(calls))
"""

    def run():
        return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                              cwd=tmp_path, check=True, env={
                                  "HOME": str(tmp_path), "TMPDIR": str(tmp_path / "tmp"),
                                  "PYTHONPATH": os.environ.get("PYTHONPATH", "")}).stdout
    (tmp_path / "tmp").mkdir()
    first = run()
    assert first.endswith(" 1\n")
    assert run() == first.replace(" 1\n", " 0\n")
    assert not list((tmp_path / "tmp").iterdir())
    (saved,) = tmp_path.glob(".cache/calque/host-*")
    saved.write_text("{ broken")
    assert run() == first
    assert json.loads(saved.read_text())["cpu"] == host_target().cpu


@pytest.mark.parametrize("name", [
    "cpu", "cpu:x86-64", "cpu:x86-64-v2", "cpu:x86-64-v3", "cpu:x86-64-v4", "cpu:aarch64",
    "cuda:sm_80", "cuda:sm_89", "vulkan:lavapipe", "vulkan:ampere"])
def test_every_kind_of_target_compiles(name):
    target = parse_target(name)
    assert target.name == name and parse_target(target) is target
    assert len(compile_module(ADD, target)) > 1000


@pytest.mark.parametrize("name", partly_slow(targets._VULKAN_PROFILES + targets._CUDA, 0.2))
def test_every_listed_gpu_compiles(name):
    kind = "cuda" if name in targets._CUDA else "vulkan"
    assert len(compile_module(ADD, parse_target(f"{kind}:{name}"))) > 1000


@pytest.mark.parametrize("name, sm, ptx", [("sm_90", "sm_90", "8.0"), ("h200", "sm_90", "8.0"),
                                           ("b200", "sm_100", "8.6"), ("sm_80", "sm_80", "7.6")])
def test_code_is_for_the_card_that_is_named(name, sm, ptx):
    target = parse_target(f"cuda:{name}")
    assert target.name == f"cuda:{sm}" and target.sm == sm
    code = compile_module(ADD, target)
    assert f".target {sm}".encode() in code and f".version {ptx}".encode() in code
    assert target.uses() == (f"ptx={ptx}", f"sm={sm[3:-1]}.{sm[-1]}")


@pytest.mark.parametrize("card, driver, name", [
    ((9, 0), None, "sm_90"), ((9, 0), (8, 0), "sm_90"), ((9, 0), (7, 8), "sm_86"),
    ((7, 5), None, "sm_75"), ((8, 7), None, "sm_86"), ((10, 3), None, "sm_100"),
    ((12, 1), None, "sm_120"), ((12, 0), (8, 6), "sm_100"), ((5, 2), None, "sm_60"),
    ((6, 1), (6, 5), "sm_60")])
def test_names_of_cards(card, driver, name):
    assert targets.cuda.name_of(card, driver) == name


@pytest.mark.parametrize("there, here, host", [
    (((9, 0), (12, 4)), "sm_80", "sm_90"), (((7, 5), (12, 4)), "sm_75", "sm_75"),
    (((12, 0), (12, 4)), "sm_80", "sm_90"), ((None, None), "sm_80", "sm_80")])
def test_programs_for_the_card_at_hand(there, here, host, monkeypatch):
    card = runtime.Device("cuda", 0, "a card", "GPU-0")
    monkeypatch.setattr(runtime.cuda, "capability", lambda index: there[0])
    monkeypatch.setattr(runtime.cuda, "driver_version", lambda: there[1])
    monkeypatch.setattr(eager, "devices", lambda platform: [card])
    assert eager.target_of(card).name == f"cuda:{here}"
    assert eager.named_target("cuda:host").name == f"cuda:{host}"


def test_there_is_no_card_to_name(monkeypatch):
    def none(platform):
        raise RuntimeError("Unable to initialize backend 'cuda': no driver")
    monkeypatch.setattr(eager, "devices", none)
    with pytest.raises(TargetError, match="'cuda:host': Unable to initialize backend 'cuda'"):
        eager.named_target("cuda:host")


@pytest.mark.parametrize(
    "name", ["", "tpu", "cpu:znver99", "cuda:sm_1", "vulkan:", "cpu:x86-64-v9"])
def test_unknown_targets_list_the_valid_ones(name):
    with pytest.raises(TargetError, match=r"unknown target .*\n  Fix: choose one of .*sm_80"):
        parse_target(name)


def test_records_say_what_the_code_needs():
    record = parse_target("cpu:x86-64-v3").record()
    assert record["backend"] == "llvm-cpu" and record["arch"] == "x86_64"
    assert "avx2" in record["features"] and "sm" not in record
    assert parse_target("cuda").record() == {
        "backend": "cuda", "name": "cuda:sm_80", "sm": "sm_80", "features": ["ptx=7.6", "sm=8.0"]}


def test_platforms_are_the_runtimes_words():
    assert [parse_target(n).platform for n in ("cpu", "cuda", "vulkan:lavapipe")] == [
        "cpu", "cuda", "vulkan"]


@pytest.mark.parametrize("dtype, half", [("float64", "float32"), ("uint64", "uint32"),
                                         ("complex128", "complex64")])
def test_numbers_that_a_device_lacks_are_refused_by_name(dtype: str, half: str) -> None:
    """Before anything is compiled; IREE's own error names its internals."""
    with calque.enable_x64(True), pytest.raises(NotImplementedError) as caught:
        aot.compile(lambda x: x + x, calque.ShapeDtypeStruct((4,), dtype),
                    targets=["vulkan:adreno"])
    assert f"add of {dtype}[4]: vulkan:adreno has no numbers of 64 bits." in str(caught.value)
    assert f"x.astype('{half}')" in str(caught.value) and "test_targets.py" in str(caught.value)


# ---- the switch: CALQUE_CPU, calque_cpu

@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"])
def test_the_switch_names_what_cpu_means(level: str) -> None:
    with config.context("calque_cpu", level):
        assert parse_target("cpu") is cpu_target() == parse_target(f"cpu:{level}")
        assert parse_target("host") is parse_target("cpu:host") is host_target()
    assert parse_target("cpu") is host_target()


def test_the_switch_is_part_of_every_key() -> None:
    x = calque.numpy.arange(70000.)  # (more than NumPy's rules take)
    seen = []

    def taken() -> str:
        (key,) = [k for k in eager._memory if k not in before]
        return str(key)

    f = calque.jit(lambda x: calque.numpy.cumsum(x) + 3)
    for level in ("host", "x86-64-v2"):
        before = set(eager._memory)
        with config.context("calque_cpu", level):
            np.testing.assert_allclose(f(x), np.cumsum(np.arange(70000.)) + 3, rtol=1e-6)
            seen.append((taken(), cache.cache_key(b"m", cpu_target()), config.key()))
    assert all(a != b for a, b in zip(*seen))
    assert f._cache_size() == 2


def test_a_level_that_the_host_lacks_is_refused_by_name_and_compiles_ahead(
        monkeypatch: pytest.MonkeyPatch) -> None:
    poor = Target("llvm-cpu", "cpu", cpu="x86-64-v2", arch="x86_64", features=targets._V2)
    monkeypatch.setattr(targets, "host_target", lambda: poor)
    targets._lacking.cache_clear()
    with config.context("calque_cpu", "x86-64-v3"):
        x = calque.numpy.arange(4.)
        with pytest.raises(TargetError, match=r"calque_cpu=x86-64-v3: this machine's CPU lacks "
                           r"avx, avx2.*\n  Fix: .*CALQUE_CPU=host.*--target cpu:x86-64-v3"):
            calque.jit(lambda x: calque.numpy.cumsum(x))(x)
        made = aot.compile(lambda x: x + 1, "f32[4]", targets=("cpu",))
        assert b"x86-64-v3" in made.vmfb
    with config.context("calque_cpu", "aarch64"):
        with pytest.raises(TargetError, match="lacks the architecture .aarch64; it is x86_64"):
            calque.jit(lambda x: calque.numpy.cumsum(x))(x)
    targets._lacking.cache_clear()


def test_a_level_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="calque_cpu takes one of .*'x86-64-v3'.*, got 'v3'"):
        config.update("calque_cpu", "v3")
