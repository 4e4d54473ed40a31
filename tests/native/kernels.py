"""The C kernels of lowering/native as a shared library of the host's compiler, called with ctypes.

`call(entry, dtype, inputs, results, sizes)` drives one entry for every group in turn.  Between the
buffers' ends and what the kernel was given lies a margin that is compared afterwards.
"""
from __future__ import annotations

import ctypes
import functools
import shutil
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calque.lowering.compiler.folders import temporary
from calque.lowering.kernels.native import object_of
from calque.lowering.native.toolchain import compiler_for
from calque.lowering.target.targets import cpu_target, parse_target

FOLDER = Path(__file__).resolve().parents[2] / "lowering" / "native"
FAMILIES = ("factor", "orthogonal", "eigen", "singular", "schur")
FLAGS = [*(FOLDER / "FLAGS").read_text("utf-8").split(), "-Wall", "-Wextra", "-Wno-psabi",
         "-Werror"]
SUFFIXES = {"float32": "f32", "float64": "f64", "complex64": "c64", "complex128": "c128"}
DTYPES = tuple(SUFFIXES)
HALVES = {"bfloat16": "bf16", "float16": "f16"}
INTEGERS = {"int8": "i8", "uint8": "u8", "int16": "i16", "int32": "i32", "int64": "i64"}
MARGIN = 3  # elements before each buffer's first: the offset that is passed


def families() -> list[str]:
    return [name for name in FAMILIES if (FOLDER / f"{name}.c").exists()]


def compiler() -> str:
    path = shutil.which("gcc") or shutil.which("clang")
    if path is None:
        pytest.skip("no C compiler on this machine")
    return path


def fresh(path: Path | None) -> bool:
    """Whether an object was built from the sources as they are."""
    newest = max(source.stat().st_mtime for source in FOLDER.glob("*.[ch]"))
    return path is not None and path.exists() and path.stat().st_mtime >= newest


@functools.cache
def library(family: str, level: str = "") -> ctypes.CDLL:
    """Of the object that programs on this machine (or for a level) link, or one compiled here."""
    out = temporary() / f"{family}.so"
    built = object_of(parse_target(f"cpu:{level}") if level else cpu_target(), family)
    if built is None or not fresh(built):
        built = out.with_suffix(".o")
        subprocess.run([compiler(), *FLAGS, f"-march={level or 'native'}", "-c",
                        str(FOLDER / f"{family}.c"), "-o", str(built)], check=True)
    shown = out.with_suffix(".shown.o")
    shown.write_bytes(unhidden(built.read_bytes()))
    subprocess.run([compiler(), "-shared", "-nostdlib", str(shown), "-o", str(out)], check=True)
    return ctypes.CDLL(str(out))


def unhidden(data: bytes) -> bytes:
    """An ELF object of 64 bits with its global symbols visible (st_other 0)."""
    made = bytearray(data)
    (sections,) = struct.unpack_from("<Q", made, 40)
    size, count = struct.unpack_from("<HH", made, 58)
    for i in range(count):
        kind, = struct.unpack_from("<I", made, sections + i * size + 4)
        offset, length = struct.unpack_from("<QQ", made, sections + i * size + 24)
        if kind != 2:  # SHT_SYMTAB
            continue
        for at in range(offset, offset + length, 24):
            if made[at + 4] >> 4 == 1:  # STB_GLOBAL
                made[at + 5] = 0
    return bytes(made)


def real(dtype: Any) -> np.dtype[Any]:
    return np.empty(0, dtype).real.dtype


def epsilon(dtype: Any) -> float:
    return float(np.finfo(dtype).eps)


def call(family: str, entry: str, dtype: Any, inputs: Sequence[np.ndarray[Any, Any]],
         results: Sequence[tuple[tuple[int, ...], Any]], sizes: Sequence[int],
         groups: int = 1, level: str = "") -> list[np.ndarray[Any, Any]]:
    """Results (shape, dtype) of calque_<entry>; inputs must come back unchanged."""
    suffix = {**SUFFIXES, **HALVES, **INTEGERS}[np.dtype(dtype).name]
    function = getattr(library(family, level), f"calque_{entry}_{suffix}")
    function.restype = None
    held, outs, arguments = [], [], []
    for x in inputs:
        buffer = np.full(x.size + 2 * MARGIN, 99, x.dtype)
        buffer[MARGIN:MARGIN + x.size] = np.ascontiguousarray(x).reshape(-1)
        held.append((buffer, buffer.copy()))
        arguments += [ctypes.c_void_p(buffer.ctypes.data), ctypes.c_int64(MARGIN)]
    for shape, kind in results:
        buffer = np.full(int(np.prod(shape)) + 2 * MARGIN, 99, kind)
        outs.append(buffer)
        arguments += [ctypes.c_void_p(buffer.ctypes.data), ctypes.c_int64(MARGIN)]
    arguments += [ctypes.c_int64(int(size)) for size in sizes]
    for group in range(groups):
        function(*arguments, ctypes.c_int64(group), ctypes.c_int64(groups))
    for buffer, before in held:
        np.testing.assert_array_equal(buffer.view("u1"), before.view("u1"))
    for buffer in outs:
        assert np.all(buffer[:MARGIN] == 99) and np.all(buffer[buffer.size - MARGIN:] == 99)
    return [b[MARGIN:b.size - MARGIN].reshape(shape)
            for b, (shape, _) in zip(outs, results, strict=True)]


def matrices(seed: int, *shape: int, dtype: Any = np.float64) -> np.ndarray[Any, Any]:
    """Normal numbers, the imaginary part too."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def adjoint(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.conj(np.swapaxes(x, -1, -2))


def wide(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """In double precision: residuals are computed with more digits than the kernels have."""
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def error(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any], dtype: Any, n: int) -> float:
    """max |x - y| over the largest of y, in units of n eps."""
    scale = max(float(np.max(np.abs(y), initial=0)), float(np.finfo(real(dtype)).tiny))
    gap = float(np.max(np.abs(wide(x) - wide(y)), initial=0))
    return gap / scale / (max(n, 1) * epsilon(dtype))


def object_that_needs_nothing(source: str, level: str, folder: Path) -> Path:
    """A source's object for a line of LEVELS: code and constants, nothing mutable or undefined."""
    name, arch, *flags = level.split()
    command = compiler_for(arch)
    if not command or not shutil.which("nm"):
        pytest.skip(f"no compiler for {arch} on this machine")
    made = FOLDER / "objects" / name / f"{source}.o"
    if not fresh(made):
        made = folder / f"{source}.o"
        subprocess.run([*command, *FLAGS, *flags, "-c", str(FOLDER / f"{source}.c"), "-o",
                        str(made)], check=True)
    symbols = subprocess.run(["nm", str(made)], check=True, capture_output=True, text=True).stdout
    assert {line.split()[-2] for line in symbols.splitlines()} <= {"T", "t", "r"}, symbols
    return made
