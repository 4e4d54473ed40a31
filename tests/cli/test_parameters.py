"""Captured arrays in an archive beside the artifact."""
from __future__ import annotations

import functools
import gc
import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import aot, lax
from calque.runtime import ArtifactError
from calque.runtime.aot import read_records

RNG = np.random.default_rng(0)
W = RNG.normal(size=(64, 32)).astype(np.float32)
ARRAYS = {"w": W, "u": np.arange(600, dtype=np.uint32), "i": np.arange(-300, 300, dtype=np.int16),
          "h": np.arange(600).astype(ml_dtypes.bfloat16), "small": np.arange(3, dtype=np.float32)}


def compiled(**options: Any) -> aot.Artifact:
    captured = {k: calque.device_put(v) for k, v in ARRAYS.items()}

    def f(x: Any, i: Any) -> Any:
        written = lax.dynamic_update_slice(captured["w"], jnp.ones((1, 32), jnp.float32), (i, 0))
        return (x @ captured["w"], captured["u"] + 1, captured["i"] * 2, captured["h"],
                captured["small"], written, captured["w"])

    return aot.compile(f, "f32[4,64]", "i32", parameters=True, **options)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled().save(tmp_path_factory.mktemp("model") / "m.vmfb")


def check(call: Any) -> None:
    """Twice, because a program may not write to its parameters."""
    x = np.ones((4, 64), np.float32)
    for i in (0, 5):
        out = [b.numpy() for b in call(x, np.int32(i))]
        np.testing.assert_allclose(out[0], x @ W, rtol=1e-5, atol=1e-5)  # order of f32 sums
        np.testing.assert_array_equal(out[1], ARRAYS["u"] + 1)
        np.testing.assert_array_equal(out[2], ARRAYS["i"] * 2)
        assert out[3].tobytes() == ARRAYS["h"].tobytes()
        np.testing.assert_array_equal(out[4], ARRAYS["small"])
        want = W.copy()
        want[i] = 1
        np.testing.assert_array_equal(out[5], want)
        np.testing.assert_array_equal(out[6], W)


def test_values_come_from_the_archive(saved: Path) -> None:
    check(aot.load(saved).f)
    (record,) = read_records(saved)
    assert [str(p) for p in record.parameters] == [
        "captured['h']: bfloat16[600]", "captured['i']: int16[600]",
        "captured['small']: float32[3]", "captured['u']: uint32[600]",
        "captured['w']: float32[64,32]"]
    assert W.tobytes() not in saved.read_bytes()
    assert compiled().vmfb == saved.read_bytes()  # the same input, the same bytes


def test_archives_are_shared_and_linked(saved: Path, tmp_path: Path) -> None:
    """Programs that captured the same variable read the same array."""
    captured = {"w": calque.device_put(W)}
    other = aot.compile(lambda x: captured["w"].sum() + x, "f32", parameters=True, name="g")
    assert set(other.parameters) < set(compiled().parameters)
    both = aot.link(compiled(), other)
    path = both.save(tmp_path / "both.vmfb", tmp_path / "shared.irpa")
    model = aot.load(path, parameters=tmp_path / "shared.irpa")
    check(model.f)
    want = W.sum(dtype=np.float64) + 1
    np.testing.assert_allclose(model.g(np.float32(1))[0].numpy(), want, rtol=1e-5)
    other.save(tmp_path / "g.vmfb", tmp_path / "unused.irpa")
    aot.load(tmp_path / "g.vmfb", parameters=saved.with_suffix(".irpa"))
    # files are linked with the archives beside them
    other.save(tmp_path / "g.vmfb")
    path = aot.link(saved, tmp_path / "g.vmfb").save(tmp_path / "files.vmfb")
    model = aot.load(path, check_parameters=True)
    check(model.f)
    np.testing.assert_allclose(model.g(np.float32(1))[0].numpy(), want, rtol=1e-5)


def test_one_name_of_two_arrays_is_not_linked() -> None:
    captured = {"w": calque.device_put(W + 1)}
    other = aot.compile(lambda x: captured["w"].sum() + x, "f32", parameters=True, name="g")
    with pytest.raises(ArtifactError, match=r"(?s)have a parameter captured\['w'\], and not the "
                       "same values.*Fix: give one of the variables another name"):
        aot.link(compiled(), other)


class Layer:
    """A model with weights of its own, of no registered type."""

    def __init__(self, k: float) -> None:
        self.k = calque.device_put(np.full(3, k, np.float32))

    def __call__(self, x: Any) -> Any:
        return x * self.k


GLOBAL = {"a": [np.arange(3, dtype=np.float32), calque.device_put(np.ones(3, np.float32))]}


def helper(x: Any) -> Any:
    return x * GLOBAL["a"][0] + GLOBAL["a"][1]


def of_arguments(params: Any, x: Any, *, more: Any) -> Any:
    return x * params["p"] + more


def names(f: Any) -> list[str]:
    return sorted(aot.compile(f, "f32[3]", parameters=True, name="f").parameters)


def test_names_come_from_variables() -> None:
    """Whatever holds the arrays: globals of functions that are called, partial, jit, closures."""
    one, two = (np.full(3, k, np.float32) for k in (5, 6))
    large = np.arange(512, dtype=np.float32)
    of_tree = ["GLOBAL['a'][0]", "GLOBAL['a'][1]"]
    assert names(helper) == of_tree
    assert names(calque.jit(lambda x: calque.jit(helper)(x))) == of_tree
    partly = functools.partial(of_arguments, {"p": one}, more=two)
    assert names(partly) == ["more", "params['p']"]
    assert names(lambda x, y=one: x + y if isinstance(y, np.ndarray) else x) == ["y"]
    assert names(lambda x: x + np.full(3, 2, np.float32)) == []  # nowhere held, and small
    (by_contents,) = names(lambda x: x + np.arange(512, dtype=np.float32)[:, None])
    assert by_contents.startswith("float32[512,1]-")
    # two variables of one name have none
    first = (lambda w: lambda x: x + w)(large[:, None])
    second = (lambda w: lambda x: x - w)(large[:, None] + 1)
    assert all(n.startswith("float32[512,1]-") for n in names(lambda x: first(x) * second(x)))
    # odd keys
    odd = {'a"b\\\n': one, "\u03b1 '": two, 3: large[:3]}
    got = aot.load(aot.compile(lambda x: x + odd['a"b\\\n'] * odd["\u03b1 '"] + odd[3], "f32[3]",
                               parameters=True, name="f")).f
    np.testing.assert_array_equal(got(one)[0].numpy(), one + one * two + large[:3])


def test_other_values_take_their_place_without_compiling(tmp_path: Path) -> None:
    path = aot.compile(helper, "f32[3]", parameters=True).save(tmp_path / "m.vmfb")
    x = np.array([1, 2, 3], np.float32)
    other = {"GLOBAL": {"a": [np.float32([4, 5, 6]), np.float32([7, 8, 9])]}}
    want = x * other["GLOBAL"]["a"][0] + other["GLOBAL"]["a"][1]
    for name in ("other.irpa", "other.safetensors", "m.irpa"):
        archive = aot.save_parameters(tmp_path / name, other)
        model = aot.load(path, parameters=archive)
        np.testing.assert_array_equal(model.helper(x)[0].numpy(), want)
        for k, v in aot.parameters(archive).items():
            np.testing.assert_array_equal(v, other["GLOBAL"]["a"][int(k[-2])])
            assert v.dtype == np.float32 and not v.flags.writeable
    np.testing.assert_array_equal(aot.load(path).helper(x)[0].numpy(), want)
    assert [*aot.parameters(path)] == ["GLOBAL['a'][0]", "GLOBAL['a'][1]"]
    np.testing.assert_array_equal(aot.load(path, parameters=other).helper(x)[0].numpy(), want)
    with pytest.raises(ArtifactError, match="is not what was compiled"):
        aot.load(path, check_parameters=True)
    with pytest.raises(ArtifactError, match="is not what was compiled"):
        aot.load(path, parameters=other, check_parameters=True)
    aot.load(path, parameters={"GLOBAL": GLOBAL}, check_parameters=True)
    swapped = dict(aot.parameters(path))
    swapped["GLOBAL['a'][1]"] = swapped["GLOBAL['a'][0]"].astype(np.int32)
    for archive in (aot.save_parameters(tmp_path / "int.irpa", swapped),
                    aot.save_parameters(tmp_path / "int.safetensors", swapped), swapped):
        with pytest.raises(ArtifactError, match=r"(?s)parameter GLOBAL\['a'\]\[1\] of .* is "
                           r"int32\[3\], the artifact wants float32\[3\].*In .*Fix: "):
            aot.load(path, parameters=archive)
    with pytest.raises(ArtifactError, match=r"(?s)has no parameter GLOBAL\['a'\]\[1\].*it has "
                       r"GLOBAL\['a'\]\[0\]"):
        aot.load(path, parameters={"GLOBAL": {"a": [x]}})


def test_memory_of_given_arrays_may_be_let_go() -> None:
    made = aot.compile(helper, "f32[3]", parameters=True)
    x = np.ones(3, np.float32)
    model = aot.load(made, parameters={"GLOBAL": {"a": [x + 1, x + 2]}})
    gc.collect()
    np.testing.assert_array_equal(model.helper(x)[0].numpy(), x * 5)
    np.testing.assert_array_equal(aot.load(made).helper(x)[0].numpy(), helper(x))


def test_by_default_large_arrays_are_beside(tmp_path: Path) -> None:
    large = np.arange(1 << 18, dtype=np.float32)  # 1 MiB
    made = aot.compile(lambda x: x + large.sum(), "f32", parameters=None, name="f")
    assert made.parameters == {}  # NumPy computed the sum
    made = aot.compile(lambda x: x + large[:, None], "f32", parameters=None, name="f")
    (value,) = made.parameters.values()
    np.testing.assert_array_equal(value[:, 0], large)
    assert aot.compile(helper, "f32[3]", parameters=None).parameters == {}


def test_saved_trees_are_arrays() -> None:
    for tree, what in (([np.ones(3)], "a dictionary is wanted, got list"),
                       ({3: np.ones(3)}, "a dictionary is wanted"),
                       ({"w": "text"}, "w is a str, no array")):
        with pytest.raises(ArtifactError, match=what):
            aot.save_parameters("/nowhere/x.irpa", tree)  # type: ignore[arg-type]
    with pytest.raises(ArtifactError, match="its name says no format"):
        aot.save_parameters("/nowhere/x.npz", {"w": np.ones(3)})
    with pytest.raises(ArtifactError, match=r"(?s)there is no archive.*Fix: "):
        aot.parameters("/nowhere/x.irpa")


def test_safetensors(saved: Path, tmp_path: Path) -> None:
    header, data = {}, b""
    kinds = {"float32": "F32", "uint32": "U32", "int16": "I16", "bfloat16": "BF16"}
    for name, value in compiled().parameters.items():
        header[name] = {"dtype": kinds[value.dtype.name], "shape": list(value.shape),
                        "data_offsets": [len(data), len(data) + value.nbytes]}
        data += value.tobytes()
    text = json.dumps(header).encode()
    path = tmp_path / "m.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    check(aot.load(saved, parameters=path).f)


def test_what_is_wrong_with_an_archive(saved: Path, tmp_path: Path) -> None:
    whole = saved.with_suffix(".irpa").read_bytes()
    broken = tmp_path / "broken.irpa"
    for size in (0, 10, 200, 3000):
        broken.write_bytes(whole[:size])
        with pytest.raises(ArtifactError, match="broken.irpa cannot be read"):
            aot.load(saved, parameters=broken)
    broken.write_bytes(b"\xff" * 5000)
    with pytest.raises(ArtifactError, match="cannot be read"):
        aot.load(saved, parameters=broken)
    with pytest.raises(ArtifactError, match="there is no .*nowhere.irpa"):
        aot.load(saved, parameters=tmp_path / "nowhere.irpa")
    with pytest.raises(ArtifactError, match="is no parameter archive"):
        aot.load(saved, parameters=tmp_path / "nowhere.txt")
    other = aot.compile(lambda x: calque.device_put(np.ones(999, np.float32)) + x, "f32",
                        parameters=True, name="g")
    other.save(tmp_path / "g.vmfb")
    with pytest.raises(ArtifactError, match=r"has no parameter captured\['h'\]"):
        aot.load(saved, parameters=tmp_path / "g.irpa")
    with pytest.raises(ArtifactError, match="there is no"):
        aot.load(saved.read_bytes())


def test_a_changed_byte_is_found_where_it_is_asked_for(saved: Path, tmp_path: Path) -> None:
    archive = saved.with_suffix(".irpa")
    check(aot.load(saved, check_parameters=True).f)
    data = bytearray(archive.read_bytes())
    data[data.index(W.tobytes()) + 100] ^= 1
    broken = tmp_path / "broken.irpa"
    broken.write_bytes(data)
    aot.load(saved, parameters=broken)  # (an archive may be larger than memory)
    with pytest.raises(ArtifactError, match=r"(?s)parameter captured\['w'\] of .*broken.irpa "
                       "is not what was compiled.*Fix: copy the archive again"):
        aot.load(saved, parameters=broken, check_parameters=True)


def test_an_archive_has_the_mode_of_the_artifact(saved: Path) -> None:
    assert saved.with_suffix(".irpa").stat().st_mode == saved.stat().st_mode
