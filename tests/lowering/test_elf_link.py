"""The C library's functions that the linker puts into programs: the machine code is what its source
says, and does what C's does.  Start reading at `library`."""
from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calque
import calque.lowering
import calque.numpy as jnp
from calque.lowering.compiler import elf_link
from calque.lowering.passes import loops

SOURCE = Path(calque.lowering.__file__).parent / "native" / "library.S"

pytestmark = [
    pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="x86-64 code"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The functions, from elf_link's bytes."""
    folder = tmp_path_factory.mktemp("library")
    lines = [".intel_syntax noprefix", ".text"]
    for name, code in elf_link.LIBRARY.items():
        lines += [f".globl {name}", f"{name}:",
                  ".byte " + ", ".join(map(str, code))]
    (folder / "bytes.S").write_text("\n".join([*lines, '.section .note.GNU-stack, ""', ""]))
    subprocess.run(["cc", "-shared", "-nostdlib", "bytes.S", "-o", "bytes.so"], cwd=folder,
                   check=True)
    found = ctypes.CDLL(str(folder / "bytes.so"))
    size, pointer = ctypes.c_size_t, ctypes.c_void_p
    for name in ("memcpy", "memmove"):
        move = getattr(found, name)
        move.restype, move.argtypes = pointer, [pointer, pointer, size]
    found.memset.restype, found.memset.argtypes = pointer, [pointer, ctypes.c_int, size]
    found.fmodf.restype, found.fmodf.argtypes = ctypes.c_float, [ctypes.c_float] * 2
    return found


def sections(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Names and contents of an object file's, as elf_link reads them."""
    at = int.from_bytes(data[40:48], "little")
    count = int.from_bytes(data[60:62], "little")
    names = int.from_bytes(data[62:64], "little")
    headers = [[int.from_bytes(data[at + 64 * i + a:at + 64 * i + b], "little")
                for a, b in ((0, 4), (24, 32), (32, 40))] for i in range(count)]
    text = data[headers[names][1]:]
    for name, offset, length in headers:
        yield text[name:text.index(b"\0", name)].decode(), data[offset:offset + length]


def test_the_bytes_are_what_the_source_assembles_to(tmp_path: Path) -> None:
    """Where this fails after a change of library.S: elf_link.py gets what it prints."""
    subprocess.run(["cc", "-c", str(SOURCE), "-o", "library.o"], cwd=tmp_path, check=True)
    found = {name.removeprefix(".text."): content.hex()
             for name, content in sections((tmp_path / "library.o").read_bytes())
             if name.startswith(".text.")}
    assert found == {name: code.hex() for name, code in elf_link.LIBRARY.items()
                     if name != "memcpy"}
    assert elf_link.LIBRARY["memcpy"] == elf_link.LIBRARY["memmove"]


def test_moves(library: Any) -> None:
    """Every length to 200 bytes and some longer, apart and overlapping either way; not a byte
    beside them is written."""
    rng = np.random.default_rng(0)
    for n in (*range(200), 255, 256, 257, 1000, 4099):
        for shift in (*range(-36, 37), -64, 64, -65, 65, -n, n, -n - 1, n + 1):
            data = rng.integers(0, 256, n + abs(shift) + 32, np.uint8)
            source = 16 + max(0, -shift)
            expected = data.copy()
            expected[source + shift:source + shift + n] = data[source:source + n].copy()
            at = data.ctypes.data + source
            apart = abs(shift) >= n
            given = (library.memcpy if apart else library.memmove)(at + shift, at, n)
            assert given == at + shift and (data == expected).all(), (n, shift)


def test_fills(library: Any) -> None:
    rng = np.random.default_rng(1)
    for n in (*range(200), 255, 256, 257, 1000, 4099):
        for offset, value in ((0, 0), (3, -1), (7, 0x1234)):  # (of the value, the last byte counts)
            data = rng.integers(0, 256, n + 40, np.uint8)
            expected = data.copy()
            expected[16 + offset:16 + offset + n] = value & 255
            at = data.ctypes.data + 16 + offset
            assert library.memset(at, value, n) == at and (data == expected).all(), (n, offset)


EDGES = np.array([0, 1, 1.5, 2, 3, 7, 1e-45, 3e-45, 1.1754944e-38, 5e-39, 3.4028235e38, 1e30,
                  np.inf, np.nan], np.float32)


def test_remainders(library: Any) -> None:
    """They are exact: the same bits as NumPy's, -0, infinities and denormals among them."""
    bits = np.random.default_rng(2).integers(0, 2**32, 400, np.uint64).astype(np.uint32)
    values = np.concatenate([EDGES, -EDGES, bits.view(np.float32)])
    for x in values:
        with np.errstate(invalid="ignore"):
            expected = np.fmod(np.full_like(values, x), values)
        found = np.array([library.fmodf(x, y) for y in values], np.float32)
        nan = np.isnan(expected)
        np.testing.assert_array_equal(np.isnan(found), nan)
        np.testing.assert_array_equal(found.view(np.uint32)[~nan], expected.view(np.uint32)[~nan])


def test_functions_of_the_first_file_give_way(tmp_path: Path) -> None:
    """IREE's memcpy is dropped where it is called, and what another file has of its own is not."""
    sources = {"first": """
        typedef unsigned long size;
        __attribute__((noipa)) static void *memcpy(void *a, const void *b, size n) { return 0; }
        __attribute__((noipa)) static void *memset(void *a, int v, size n) { return 0; }
        float fmodf(float, float); int other(void);
        int query(int x) {
          int a[100], b[100]; volatile size n = sizeof a;
          for (int i = 0; i < 100; i++) a[i] = x + i;
          memset(b, 1, n); int one = b[99] == 0x01010101;
          memcpy(b, a, n);
          return b[99] + 1000 * one + (int)fmodf(7, 4) + other(); }""", "second": """
        __attribute__((noipa)) static void *memset(void *a, int v, unsigned long n) {
          *(int *)a = 50000; return a; }
        int other(void) { int a; volatile unsigned long n = 4; memset(&a, 0, n); return a; }"""}
    files = []
    for name, source in sources.items():
        (tmp_path / f"{name}.c").write_text(source)
        subprocess.run(["cc", "-O1", "-fPIC", "-fno-builtin", "-ffunction-sections", "-c",
                        f"{name}.c"], cwd=tmp_path, check=True)
        files.append((tmp_path / f"{name}.o").read_bytes())
    (tmp_path / "a.so").write_bytes(elf_link.link(files, "query"))
    query = getattr(ctypes.CDLL(str(tmp_path / "a.so")), elf_link.EXPORTED)
    assert query(5) == 5 + 99 + 1000 + 3 + 50000


def test_programs_call_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """`fmod` of what IREE makes is ours: right in every sign, at the edges too."""
    monkeypatch.setattr(loops, "enabled", False)
    values = np.concatenate([EDGES, -EDGES])
    x, y = (v.reshape(-1) for v in np.meshgrid(values, values))
    with np.errstate(invalid="ignore"):
        expected = np.fmod(x, y)
    found = np.asarray(calque.jit(jnp.fmod)(x, y))
    np.testing.assert_array_equal(found, expected)
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(found)[zero], np.signbit(expected)[zero])
