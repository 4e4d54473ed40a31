"""The C kernel of fft: lines of every kind of length, laid out in memory in every way."""
from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calque.lowering.kernels import fft_tables
from tests.native.kernels import FOLDER, call, compiler, matrices, object_that_needs_nothing, real

DTYPES = ("complex64", "complex128")
# every radix alone, every pair of kinds, generic primes, the largest one
SIZES = (1, 2, 3, 4, 5, 7, 8, 11, 16, 22, 32, 35, 61, 64, 120, 122, 143, 512)
# rms error in eps: each pass adds about 0.6, a generic prime r up to sqrt(r) / 4
BOUND = 4.0


@dataclass(frozen=True)
class Lines:
    """One call: strides of (outer, elements, lanes) in x and y, in complex elements."""

    outer: int
    n: int
    lanes: int
    read: tuple[int, int, int]
    written: tuple[int, int, int]
    whole: int = 0
    inverse: bool = False
    scale: float = 1.0
    real_x: bool = False
    real_y: bool = False

    def scalars(self) -> list[int]:
        return [1 if self.real_x else 2, 1 if self.real_y else 2, self.outer, self.n, self.lanes,
                *self.read, *self.written, fft_tables.packed(fft_tables.passes(self.n)),
                int(self.whole > 0), int(self.inverse)]

    def table(self) -> Any:
        lanes = self.lanes if self.whole else 0
        return fft_tables.line_table(self.n, self.scale, lanes, self.whole)

    def work(self, dtype: Any, groups: int) -> int:
        return groups * (4 * self.n + 8) * (64 // real(dtype).itemsize)

    def expected(self, x: Any) -> Any:
        """y, by NumPy in double precision."""
        at = np.arange(self.n) * self.read[1]
        where = (np.arange(self.outer)[:, None, None] * self.read[0] + at[:, None]
                 + np.arange(self.lanes) * self.read[2])
        block = x.astype(np.complex128)[where]
        made = np.fft.ifft(block, axis=1) * self.n if self.inverse else np.fft.fft(block, axis=1)
        if self.whole:
            turns = np.outer(np.arange(self.n), np.arange(self.lanes)) / self.whole
            made = made * np.exp((2j if self.inverse else -2j) * np.pi * turns)
        y = np.zeros(self.outer * self.n * self.lanes, np.complex128)
        to = (np.arange(self.outer)[:, None, None] * self.written[0]
              + np.arange(self.n)[:, None] * self.written[1]
              + np.arange(self.lanes) * self.written[2])
        y[to] = made * self.scale
        return y


def run(c: Lines, x: Any, groups: int) -> Any:
    dtype = x.dtype
    y, _ = call("fft", "fft", dtype, [x.view(real(dtype)) if c.real_x else x,
                                      c.table().astype(real(dtype))],
                [((2 * x.size,), real(dtype)) if c.real_y else ((x.size,), dtype),
                 ((c.work(dtype, groups),), real(dtype))], c.scalars(), groups)
    return y.view(dtype)


def rms(x: Any) -> float:
    return float(np.sqrt(np.mean(np.abs(x) ** 2)))


def close(c: Lines, x: Any, got: Any) -> None:
    want = c.expected(x)
    eps = float(np.finfo(real(x.dtype)).eps)
    assert rms(got - want) <= BOUND * eps * rms(want), (c, rms(got - want) / eps / rms(want))


def rows(n: int, count: int, **rest: Any) -> Lines:
    return Lines(1, n, count, (0, 1, n), (0, 1, n), **rest)


def columns(n: int, count: int, outer: int = 1, **rest: Any) -> Lines:
    return Lines(outer, n, count, (n * count, count, 1), (n * count, count, 1), **rest)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_and_columns(dtype: str) -> None:
    for n in SIZES:
        for count in (1, 3, 16, 21):
            x = matrices(n, count * n, dtype=dtype)
            for c in (rows(n, count), columns(n, count), rows(n, count, inverse=True, scale=1 / n)):
                close(c, x, run(c, x, groups=1 + n % 3))


@pytest.mark.parametrize("dtype", DTYPES)
def test_turns_transpositions_and_real_memory(dtype: str) -> None:
    for p, q in ((8, 6), (20, 35), (16, 32)):
        x = matrices(p, 2 * p * q, dtype=dtype)
        for inverse in (False, True):
            for c in (columns(p, q, 2, whole=p * q, inverse=inverse),
                      Lines(2, q, p, (p * q, 1, q), (p * q, p, 1), inverse=inverse, scale=0.5),
                      columns(p, q, 2, real_x=True), rows(p, 2 * q, real_y=True)):
                close(c, x, run(c, x, groups=2))


def test_what_is_not_finite_stays_in_its_line() -> None:
    x = matrices(1, 5 * 12, dtype="complex64")
    x[13], x[25] = np.nan, np.inf
    y = run(rows(12, 5), x, 1).reshape(5, 12)
    assert not np.isfinite(y[1:3]).any()
    assert np.isfinite(y[[0, 3, 4]]).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_real_numbers_in_pairs(dtype: str) -> None:
    """The transform of 2 m real numbers from that of m complex ones, and back."""
    kind = real(np.dtype(dtype))
    for m in (1, 2, 3, 4, 9, 32):
        for count in (1, 3):
            for groups in (1, 2):
                x = matrices(m, count, 2 * m).astype(kind)
                table = fft_tables.real_table(m).astype(kind)
                half = np.fft.fft(x.astype(np.float64).reshape(count, m, 2) @ [1, 1j]).astype(dtype)
                (y,) = call("fft", "fft_real", dtype, [half, table], [((count, m + 1), dtype)],
                            [count, m, 0], groups)
                want = np.fft.rfft(x.astype(np.float64))
                eps = float(np.finfo(kind).eps)
                assert rms(y - want) < BOUND * eps * rms(want)
                marked = want.astype(dtype)
                marked[:, [0, -1]] += 1j  # not read
                (z,) = call("fft", "fft_real", dtype, [marked, table], [((count, m), dtype)],
                            [count, m, 1], groups)
                assert rms(z - half) < BOUND * eps * rms(half)


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_with_a_table(dtype: str) -> None:
    """Cropped, padded with zeros, with parts exchanged; groups end anywhere in a row."""
    for n, nx, ny in ((5, 5, 12), (5, 12, 5), (7, 7, 7), (1, 4, 3)):
        x, t = matrices(n, 3, nx, dtype=dtype), matrices(1, n, dtype=dtype)
        for swap in (0, 1):
            for groups in (1, 4):
                (y,) = call("fft", "fft_times", dtype, [x, t.view(real(t.dtype))],
                            [((3, ny), dtype)], [3, n, nx, ny, swap], groups)
                want = np.zeros((3, ny), dtype)
                want[:, :n] = x[:, :n] * (t.conj() if swap else t)
                eps = float(np.finfo(real(t.dtype)).eps)
                np.testing.assert_allclose(y, want, rtol=4 * eps, atol=4 * eps)


@pytest.mark.parametrize("level", (FOLDER / "LEVELS").read_text("utf-8").splitlines())
def test_the_object_needs_nothing(level: str, tmp_path: Path) -> None:
    object_that_needs_nothing("fft", level, tmp_path)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("fft") / "driver"
    made = subprocess.run(
        [compiler(), "-std=gnu11", "-O1", "-g", "-march=native", "-Wall", "-Wno-psabi",
         "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-o", str(out),
         str(Path(__file__).with_name("fft_driver.c")), str(FOLDER / "fft.c")],
        capture_output=True, text=True, check=False)
    if made.returncode and "san" in made.stderr:
        pytest.skip("no sanitizers on this machine")
    assert not made.returncode, made.stderr
    return out


@pytest.mark.slow
def test_under_sanitizers(driver: Path, tmp_path: Path) -> None:
    """Exact buffers: nothing outside them, no undefined arithmetic, the same results."""
    cases = [rows(61, 3), rows(12, 21, inverse=True, scale=1 / 12), columns(40, 18, 2),
             columns(16, 35, whole=560), Lines(2, 6, 20, (120, 1, 6), (120, 20, 1)),
             rows(1, 1), columns(64, 16), rows(8, 16, real_x=True, real_y=True)]
    for dtype in DTYPES:
        for i, c in enumerate(cases):
            x = matrices(i, c.outer * c.n * c.lanes, dtype=dtype)
            kind = real(dtype)
            table, groups = c.table().astype(kind), 1 + i % 3
            head = [kind.itemsize, 2 * x.size, table.size, 2 * x.size, c.work(dtype, groups),
                    len(c.scalars()), groups, 0]
            (tmp_path / "in").write_bytes(np.array([*head, *c.scalars()], np.int64).tobytes()
                                          + x.tobytes() + table.tobytes())
            done = subprocess.run([str(driver), str(tmp_path / "in"), str(tmp_path / "out")],
                                  capture_output=True, text=True, check=False)
            assert not done.returncode, (c, done.stderr[-2000:])
            close(c, x, np.frombuffer((tmp_path / "out").read_bytes(), dtype))
