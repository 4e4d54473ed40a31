"""Every command, and the round trip compile -> inspect -> run."""
import json
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from calque_cli import report

from calque import __version__
from calque.core.config import config
from calque.core.primitive import registry
from calque.lowering.target.targets import parse_target, portable_target

CPU = parse_target("cpu").name
DEFAULT = portable_target().name
X = np.arange(6, dtype=np.float32).reshape(2, 3)


# ---- compile, inspect, run
@pytest.mark.parametrize("dtype, function", [
    ("f64", "double"), ("bool", "flip"), ("bf16", "double"), *[
        pytest.param(d, "double", marks=pytest.mark.slow) for d in ("f32", "i32", "c64")]])
def test_round_trip(dtype, function, calque, folder):
    x = {"bool": np.array([True, False, True])}.get(
        dtype, np.array([1, -2, 3], {"c64": "complex64", "f64": "float64", "i32": "int32",
                                     "bf16": ml_dtypes.bfloat16}.get(dtype, "float32")))
    wanted = ~x if function == "flip" else x + x
    np.save("x.npy", x)
    said = calque("compile", f"model.py:{function}", "--arg", f"{dtype}[3]", "-o", "f.vmfb").out
    assert said.startswith(f"wrote f.vmfb for {DEFAULT} (") and said.endswith(" KiB)\n")
    assert f"argument x: {x.dtype}[3]" in calque("inspect", "f.vmfb").out
    assert calque("run", "f.vmfb", "--input", "x.npy").out == f"{wanted}\n"
    assert calque("run", "f.vmfb", "-i", "x.npy", "-o", "y.npy").out == "wrote y.npy\n"
    np.testing.assert_array_equal(np.load("y.npy").view(x.dtype), wanted)
    assert config.jax_enable_x64 is False  # on for the command only


def test_inspect(calque):
    calque("compile", "model.py:model", "--arg", '{"w": f32[2], "b": [f32[2]]}', "--arg", "f32[2]",
           "--donate", "1", "--target", "cpu:x86-64-v3", "--name", "net", "-o", "net.vmfb")
    lines = calque("inspect", "net.vmfb").out.splitlines()
    assert lines[0].startswith("net.vmfb (")
    assert lines[1:7] == [
        "  net", "    argument params['b'][0]: float32[2]", "    argument params['w']: float32[2]",
        "    argument x: float32[2]  (donated)", "    result ['h']: float32[2]",
        "    result ['parts'][0]: float32[2]"]
    assert lines[7] == "    result ['parts'][1]: float32[2]  (argument x itself)"
    assert lines[8] == "    target: cpu:x86-64-v3 (arch x86_64, cpu x86-64-v3)"
    assert "avx2" in lines[9]
    assert lines[10] == f"    versions: calque {__version__}, iree 3.13.0"
    shown = json.loads(calque("inspect", "net.vmfb", "--json").out)
    (function,) = shown["functions"]
    assert shown["file"] == "net.vmfb" and shown["bytes"] > 1000
    assert function["name"] == "net" and function["donated"] == [2]
    assert function["target"]["name"] == "cpu:x86-64-v3"


def test_trees_and_several_results(calque):
    calque("compile", "model.py:model", "-a", '{"w": f32[2], "b": [f32[2]]}', "-a", "f32[2]",
           "-o", "net.vmfb")
    inputs = ["-i", "f32[2]=1", "-i", "f32[2]=2,3", "-i", "f32[2]=10,20"]
    assert calque("run", "net.vmfb", *inputs).out == (
        "['h']: float32[2]\n[21. 61.]\n['parts'][0]: float32[2]\n[-21. -61.]\n"
        "['parts'][1]: float32[2]\n[10. 20.]\n")
    calque("run", "net.vmfb", *inputs, "--output", "y.npz")
    with np.load("y.npz") as saved:
        assert sorted(saved) == ["['h']", "['parts'][0]", "['parts'][1]"]
        np.testing.assert_array_equal(saved["['h']"], [21, 61])


def test_static_keyword_and_captured_arrays(calque):
    calque("compile", "model.py:power", "-a", "x=f32[2]", "--static", "n=3", "--static",
           "negative=True", "-o", "p.vmfb")
    assert calque("run", "p.vmfb", "-i", "f32[2]=2,3").out == "[ -8. -27.]\n"
    calque("compile", "model.py:weighted", "-a", "f32[2,3]", "-o", "w.vmfb")
    assert calque("run", "w.vmfb", "-i", "f32[2,3]=2").out == "[[ 0.  2.  4.]\n [ 6.  8. 10.]]\n"


def test_unused_empty_and_returned_arguments(calque):
    calque("compile", "model.py:passes", "-a", "f32[5]", "-a", "i8[0]", "-a", "f32[2]",
           "-o", "p.vmfb")
    assert "    argument unused: float32[5]  (not used)\n" in calque("inspect", "p.vmfb").out
    assert calque("run", "p.vmfb", "-i", "f32[5]=0", "-i", "i8[0]=", "-i", "f32[2]=1,2",
                  "--function", "passes").out == (
        "[0]: float32[2]\n[1. 2.]\n[1]: int8[0]\n[]\n[2]: float32[2]\n[-1. -2.]\n")


def test_several_targets_and_functions_in_one_file(calque, folder):
    said = calque("compile", "model.py:double", "-a", "f32[8]", "--target",
                  "cuda:sm_80,cpu,vulkan:lavapipe", "-o", "out.vmfb").out
    assert said.split(" (")[0] == f"wrote out.vmfb for cuda:sm_80, {CPU}, vulkan:lavapipe"
    assert [p.name for p in folder.glob("*.vmfb")] == ["out.vmfb"]
    assert calque("inspect", "out.vmfb").out.count("argument x: float32[8]") == 3
    calque("compile", "model.py:flip", "-a", "i32[2]", "-t", "cpu")
    said = calque("link", "out.vmfb", "flip.vmfb", "-o", "both.vmfb").out
    assert said.startswith(
        f"wrote both.vmfb: double, flip for cuda:sm_80, {CPU}, vulkan:lavapipe (")
    assert calque("run", "both.vmfb", "-f", "flip", "-i", "i32[2]=0,1").out == "[-1 -2]\n"
    assert calque("run", "both.vmfb", "-f", "double", "-i", "f32[8]=1").out == (
        "[2. 2. 2. 2. 2. 2. 2. 2.]\n")
    assert "both.vmfb has double, flip" not in calque("run", "both.vmfb", code=2).err
    assert "comes twice" in calque("link", "out.vmfb", "both.vmfb", "-o", "x.vmfb", code=2).err


def test_bench(calque):
    calque("compile", "model.py:double", "-a", "f32[8]")
    said = calque("bench", "double.vmfb", "--repeat", "5").out
    assert said.startswith("double(x: float32[8]) -> float32[8] on cpu:0, 5 calls\n  result there")
    assert said.count("quartiles") == 2


def test_verify(calque, folder):
    calque("compile", "model.py:power", "-a", "f32[3]", "--static", "n=3")
    said = calque("verify", "power.vmfb", "model.py:power", "-a", "f32[3]", "--static", "n=3").out
    assert said.endswith("power of power.vmfb agrees with model.py:power\n")
    wrong = calque("verify", "power.vmfb", "model.py:power", "-a", "f32[3]", "--static", "n=2",
                   code=1).err
    assert "the result of power differs from model.py:power by" in wrong
    other = calque("verify", "power.vmfb", "model.py:power", "-a", "f32[4]", "--static", "n=3",
                   code=2).err
    assert "power of power.vmfb takes other arguments: power(x: float32[3]) -> float32[3]" in other


def test_the_name_of_the_output_is_the_functions(calque, folder):
    calque("compile", "model.py:double", "-a", "f32")
    assert (folder / "double.vmfb").is_file()


# ---- dump
@pytest.mark.parametrize("stage, part", [
    ("traced", "{ lambda ; a:f32[3]. let b:f32[3] = add a a in (b,) }"),
    ("stablehlo", "stablehlo.add %arg0, %arg0 : tensor<3xf32>"), ("flow", "flow.dispatch"),
    ("stream", "stream.cmd"), ("vm", "vm.module public @calque")])
def test_dump(stage, part, calque):
    assert part in calque("dump", "model.py:double", "-a", "f32[3]", "--stage", stage).out


def test_dump_is_stablehlo_for_a_target(calque):
    assert "func.func @main" in calque("dump", "model.py:double", "-a", "f64", "-t",
                                       "cuda:sm_80").out
    assert "return" in calque("dump", "model.py:nothing", "-a", "f32").out


# ---- explain, doctor, cache
def test_explain_shows_files_and_lines(calque):
    text = calque("explain", "sin").out
    assert text.startswith("sin\n  facts      elementwise, arity 1, function, weight ")
    assert "\n  abstract   calque/primitives/elementwise.py:" in text
    assert "  transpose  none (not linear in an operand)\n" in text
    assert "  lowering   calque/lowering/rules/elementwise.py:" in text
    assert 'sin_p = _function("sin"' in text
    assert text.endswith("sin can be compiled, differentiated, mapped by vmap and exported to "
                         "JAX.\n")
    assert max(map(len, text.splitlines())) <= 80
    assert calque("explain", "scan").out.startswith("scan\n  facts      weight 1, kernel loop")


@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_explain_knows_every_primitive(stride, calque):
    table = calque("explain").out
    head, *rows = table[:table.index(f"{len(registry)} primitives")].splitlines()
    assert head.split()[:3] == ["primitive", "abst", "jvp"]
    assert {line.split()[0] for line in rows} == set(registry)
    assert max(map(len, table.splitlines())) <= 80
    for name in list(registry)[::stride]:
        calque("explain", name)


def test_doctor(calque):
    text = calque("doctor").out
    for part in ("versions\n  python 3.", "  iree-base-compiler 3.13", "cpu\n", "  features: ",
                 "devices\n  cpu:0: ", "kernels of your own (calque.ffi)\n  C: ", "cache\n"):
        assert part in text
    assert "missing" in text
    assert text.splitlines()[-1].startswith(("Programs run on the CPU", "calque does not run"))
    assert max(len(line) for line in text.splitlines() if "/" not in line) <= 80


def test_doctor_says_what_a_card_is(monkeypatch):
    from calque_cli import doctor

    from calque import runtime
    for name, value in (("capability", (9, 0)), ("total_memory", 80 << 30),
                        ("shares_managed_memory", False)):
        monkeypatch.setattr(runtime.cuda, name, lambda index, value=value: value)
    monkeypatch.setattr(runtime.cuda, "driver_version", lambda: (12, 4))
    assert doctor.cuda_card(runtime.Device("cuda", 0, "NVIDIA H100", "GPU-0")) == (
        "compute capability 9.0, driver of CUDA 12.4, reads PTX up to 8.4, 81920 MiB; arrays are "
        "in the card's own memory, of which up to 61440 MiB are kept for the next ones; managed "
        "memory: no, unused")
    for name in ("capability", "total_memory", "shares_managed_memory"):
        monkeypatch.setattr(runtime.cuda, name, lambda index: None)
    monkeypatch.setattr(runtime.cuda, "driver_version", lambda: None)
    assert doctor.cuda_card(runtime.Device("cuda", 0, "?")).startswith("there is no NVIDIA driver")


def test_cache_reports_and_clears(calque, tmp_path, monkeypatch):
    monkeypatch.setenv("CALQUE_CACHE_DIR", str(tmp_path / "cache"))
    calque("compile", "model.py:double", "-a", "f32[3]", "-o", "f.vmfb")
    assert "\n  1 programs, " in calque("cache").out
    assert calque("cache", "--clear").out == (
        f"deleted 1 programs\ncache\n  {tmp_path / 'cache'}\n  0 programs, 0 B of at most "
        "2.0 GiB\n")
    monkeypatch.setenv("CALQUE_CACHE", "0")
    assert calque("cache").out.startswith("cache (switched off by CALQUE_CACHE)\n")


# ---- the command itself
@pytest.mark.parametrize("words", [["--help"], ["--version"], ["compile", "--help"]])
def test_help_loads_neither_calque_nor_a_compiler(folder, words):
    code = (f"import sys; from calque_cli import main; sys.argv = ['calque', *{words}]\n"
            "try: main()\nexcept SystemExit as end: assert not end.code\n"
            "print('loaded:', [m for m in ('calque', 'iree', 'numpy') if m in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded: []"


def test_version_loads_no_compiler(folder):
    done = subprocess.run([sys.executable, "-X", "importtime", "-m", "calque", "--version"],
                          capture_output=True, text=True, check=True)
    assert done.stdout == f"calque {__version__}\n"
    assert "calque_cli.app" in done.stderr
    assert "iree.compiler" not in done.stderr and "rich.console" not in done.stderr


@pytest.mark.parametrize("command", ["compile", "run", "inspect", "dump", "explain", "doctor",
                                     "cache", "run-many"])
def test_help_has_examples(command, calque):
    text = calque(command, "--help").out
    assert "Example" in text and f"calque {command}" in text


def test_progress_is_shown_for_long_work(monkeypatch):
    import io
    import time

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(report, "PROGRESS_AFTER_S", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    with report.progress("tracing", 2) as advance:
        advance("compiling for cpu")
        deadline = time.monotonic() + 20
        while "compiling for cpu" not in terminal.getvalue():
            assert time.monotonic() < deadline
    shown = len(terminal.getvalue())
    monkeypatch.setattr(report, "PROGRESS_AFTER_S", 1000.0)
    with report.progress("short"):
        pass
    assert "short" not in terminal.getvalue()[shown:]


def test_sizes_known_at_the_call(calque, folder):
    calque("compile", "model.py:double", "-a", "f32[b,2]", "--constraint", "b <= 9", "-o", "d.vmfb")
    assert "argument x: float32[b,2]" in calque("inspect", "d.vmfb").out
    assert calque("run", "d.vmfb", "-i", "f32[3,2]=1").out.split() == ["[[2.", "2.]"] + [
        "[2.", "2.]"] + ["[2.", "2.]]"]
    assert "agrees with" in calque("verify", "d.vmfb", "model.py:double", "-a", "f32[4,2]").out
    assert "result there" in calque("bench", "d.vmfb", "-a", "f32[4,2]", "-n", "3").out
    assert "give --arg with the sizes to use" in calque("bench", "d.vmfb", code=2).err
    for words in (("run", "d.vmfb", "-i", "f32[10,2]=1"), ("bench", "d.vmfb", "-a", "f32[10,2]")):
        assert "b <= 9 must hold of the arguments' sizes, got b = 10." in calque(*words, code=2).err
    assert "x must be float32[b,2]" in calque("run", "d.vmfb", "-i", "f32[3,3]=1", code=2).err
    assert "Constraint parsing error" in calque(
        "compile", "model.py:double", "-a", "f32[b]", "--constraint", "b > 9", code=2).err
