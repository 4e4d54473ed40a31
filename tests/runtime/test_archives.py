"""Files of named arrays: what is read of them, and what damaged ones do."""
from __future__ import annotations

import hashlib
import struct
from pathlib import Path
from typing import Any

import iree.runtime as rt
import numpy as np
import pytest

from calque import aot
from calque.runtime import ArtifactError
from calque.runtime.parameters import Parameter, check_digests

W = np.random.default_rng(0).normal(size=(64, 32)).astype(np.float32)
WEIGHTS = {"a": [np.arange(3, dtype=np.float32), np.ones(3, np.float32)]}


def scaled(x: Any) -> Any:
    return x * WEIGHTS["a"][0] + WEIGHTS["a"][1]


def of_gguf(arrays: dict[str, Any]) -> bytes:
    """A GGUF file as the format's description has it: settings of several kinds, float arrays."""
    def text(x: str) -> bytes:
        return struct.pack("<Q", len(x)) + x.encode()

    settings = [text("general.architecture") + struct.pack("<I", 8) + text("llama"),
                text("general.alignment") + struct.pack("<II", 4, 64),
                text("some.words") + struct.pack("<IIQ", 9, 8, 2) + text("x") + text("yy"),
                text("some.numbers") + struct.pack("<IIQ3h", 9, 3, 3, 1, 2, 3)]
    rows, data = b"", b""
    for name, a in arrays.items():
        data += bytes(-len(data) % 64)
        rows += text(name) + struct.pack(f"<I{a.ndim}QIQ", a.ndim, *a.shape[::-1], {
            "float32": 0, "float16": 1, "int16": 25}[a.dtype.name], len(data))
        data += a.tobytes()
    head = b"GGUF" + struct.pack("<IQQ", 3, len(arrays), len(settings)) + b"".join(settings) + rows
    return head + bytes(-len(head) % 64) + data


def test_gguf(tmp_path: Path) -> None:
    x = np.array([1, 2, 3], np.float32)
    one, two = np.float32([4, 5, 6]), np.float32([7, 8, 9])
    path = aot.compile(scaled, "f32[3]", parameters=True).save(tmp_path / "m.vmfb")
    archive = tmp_path / "m.gguf"
    arrays = {"WEIGHTS['a'][0]": one, "h": np.ones((2, 5), np.float16), "WEIGHTS['a'][1]": two,
              "i": np.arange(6, dtype=np.int16).reshape(3, 2)}
    archive.write_bytes(of_gguf(arrays))
    assert (aot.load(path, parameters=archive).scaled(x)[0].numpy() == x * one + two).all()
    for name, value in aot.parameters(archive).items():
        assert value.dtype == arrays[name].dtype
        np.testing.assert_array_equal(value, arrays[name])


def test_archives_of_earlier_versions_and_other_tools(tmp_path: Path) -> None:
    """Names that end in digests, and arrays of which an .irpa file says no type."""
    digest = hashlib.sha256(W.tobytes()).hexdigest()[:32]
    name = f"float32[64,32]-{digest}"
    path = tmp_path / "old.irpa"
    rt.save_archive_file({name: W.reshape(-1).view(np.uint8), "w": W + 1,
                          "splat": rt.SplatValue(np.float32([2.5]), 6)}, str(path))
    old = Parameter(name, W.dtype, W.shape)
    assert check_digests(path, [old], "old.vmfb") == 1
    assert check_digests(path, [Parameter("w", W.dtype, W.shape),
                                Parameter("splat", W.dtype, (2, 3))], "old.vmfb") == 0
    found = aot.parameters(path)
    np.testing.assert_array_equal(found[name].view(np.float32).reshape(W.shape), W)
    np.testing.assert_array_equal(found["splat"].view(np.float32), np.full(6, 2.5))
    with pytest.raises(ArtifactError, match=r"w of .*old.irpa has 8192 bytes, the artifact.* 8"):
        check_digests(path, [Parameter("w", W.dtype, (2,))], "old.vmfb")
    with pytest.raises(ArtifactError, match="is not what was compiled"):
        check_digests(path, [Parameter("w", W.dtype, W.shape, digest)], "old.vmfb")


DAMAGED = """
import random, sys
from pathlib import Path
from calque import runtime
from calque.runtime.parameters import Parameter, check_digests, load_arrays

folder, seed, rounds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
draw, refused = random.Random(seed), 0
ODD = [0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1, 64, 255, 4096]
for whole in sorted(folder.glob("whole.*")):
    data, path = whole.read_bytes(), folder / f"damaged{whole.suffix}"
    known = load_arrays(whole)
    wanted = [Parameter(k, v.dtype, v.shape) for k, v in known.items()]
    for round in range(rounds):
        made, kind = bytearray(data), draw.random()
        within = min(700, len(data)) if draw.random() < 0.8 else len(data)  # its tables
        if kind < 0.4:
            for _ in range(draw.choice([1, 1, 2, 8])):
                made[draw.randrange(within)] ^= 1 << draw.randrange(8)
        elif kind < 0.7:
            size, at = draw.choice([4, 8]), draw.randrange(within - 8)
            at -= at % draw.choice([1, 4, 8])
            made[at:at + size] = draw.choice(ODD).to_bytes(8, "little")[:size]
        elif kind < 0.85:
            made = made[:draw.randrange(len(data))]
        else:
            a, b = sorted(draw.randrange(len(data)) for _ in range(2))
            made = draw.choice([made[:a] + made[b:], made[:b] + made[a:], made + made])
        path.write_bytes(made)
        for look in (lambda: check_digests(path, wanted, "m.vmfb"),
                     lambda: [v.tobytes() for v in load_arrays(path).values()]):
            try:
                look()
            except runtime.ArtifactError as error:
                assert "Fix: " in str(error), str(error)
                refused += 1
print(refused)
"""


@pytest.mark.parametrize(("seed", "rounds"), [
    (1, 200), *[pytest.param(seed, 7000, marks=pytest.mark.slow) for seed in (2, 3, 4)]])
def test_damaged_archives_are_refused_or_read(run_python: Any, tmp_path: Path, seed: int,
                                              rounds: int) -> None:
    """In a process of its own: a crash is a failed test."""
    arrays = {"w['a']": W[:8, :16].copy(), "h": np.ones((3, 2), np.float16),
              "one": np.float32([1])}
    for suffix in (".irpa", ".safetensors"):
        aot.save_parameters(tmp_path / f"whole{suffix}", arrays)
    (tmp_path / "whole.gguf").write_bytes(of_gguf(arrays))
    done = run_python(f"import sys\nsys.argv = ['', {str(tmp_path)!r}, {seed}, {rounds}]\n"
                      + DAMAGED)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > rounds
