"""Captured arrays in an archive beside the artifact."""
from __future__ import annotations

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
    assert sorted(p.name.partition("-")[0] for p in record.parameters) == [
        "bfloat16[600]", "float32[64,32]", "int16[600]", "uint32[600]"]
    assert W.tobytes() not in saved.read_bytes()
    assert compiled().vmfb == saved.read_bytes()  # the same input, the same bytes


def test_archives_are_shared_and_linked(saved: Path, tmp_path: Path) -> None:
    captured = calque.device_put(W)
    other = aot.compile(lambda x: captured.sum() + x, "f32", parameters=True, name="g")
    assert set(other.parameters) < set(compiled().parameters)
    both = aot.link(compiled(), other)
    path = both.save(tmp_path / "both.vmfb", tmp_path / "shared.irpa")
    model = aot.load(path, parameters=tmp_path / "shared.irpa")
    check(model.f)
    np.testing.assert_allclose(model.g(np.float32(1))[0].numpy(), W.sum(dtype=np.float64) + 1,
                               rtol=1e-5)
    other.save(tmp_path / "g.vmfb", tmp_path / "unused.irpa")
    aot.load(tmp_path / "g.vmfb", parameters=saved.with_suffix(".irpa"))


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
    with pytest.raises(ArtifactError, match=r"has no parameter \w+\[600\]-"):
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
    with pytest.raises(ArtifactError, match=r"(?s)parameter float32\[64,32\]-\w+ of .*broken.irpa "
                       "is not what was written.*Fix: copy the archive again"):
        aot.load(saved, parameters=broken, check_parameters=True)


def test_an_archive_has_the_mode_of_the_artifact(saved: Path) -> None:
    assert saved.with_suffix(".irpa").stat().st_mode == saved.stat().st_mode
