"""Tables, plans and both forms of fft; how long lengths compile; whether IREE's own has grown."""
from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque.core.config import config
from calque.core.dtypes import real_dtype
from calque.lowering.compiler.compile import CompileError, compile_module, compile_to
from calque.lowering.kernels import fft_tables, native
from calque.lowering.target.targets import TargetError, cpu_target, runnable_target


@pytest.fixture
def portable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """As if no C compiler had been there at install."""
    calque.clear_caches()
    monkeypatch.setattr(native, "OBJECTS", tmp_path)
    yield
    calque.clear_caches()


def test_roots_are_correctly_rounded() -> None:
    """Long double leaves one in a thousand or so on the wrong side, by next to nothing."""
    for n in (1, 2, 3, 5, 8, 12, 97, 1000, 1 << 18):
        k = np.arange(n) if n <= 1000 else np.random.default_rng(0).integers(0, n, 300)
        with mpmath.workdps(40):
            want = [mpmath.expjpi(-2 * mpmath.mpf(int(i)) / n) for i in k]
            for part, name in zip(fft_tables.roots(n, k), ("real", "imag")):
                for got, w in zip(part.tolist(), want):
                    gap = abs(mpmath.mpf(got) - getattr(w, name))
                    assert gap <= 0.501 * np.spacing(max(abs(got), 1e-40)), (n, got)


def test_plans() -> None:
    for n in (*range(1, 300), 1000, 1 << 18, 61**2, 2 * 67, 10**6):
        smooth = fft_tables.is_smooth(n)
        assert smooth == (max(fft_tables.primes(n), default=1) <= 61)
        assert np.prod(fft_tables.primes(n), initial=1) == n
        if smooth:
            assert np.prod(fft_tables.passes(n), initial=1) == n
            assert fft_tables.packed(fft_tables.passes(n)) < 1 << 63
        p, q = fft_tables.halves(n)
        assert p * q == n and p >= q
        parts = fft_tables.radices(n, 64)
        assert (parts is None) == (max(fft_tables.primes(n), default=1) > 64)
        assert parts is None or (np.prod(parts, initial=1) == n and max(parts, default=1) <= 64)
        m = fft_tables.padded(n)
        assert m >= n and max(fft_tables.primes(m), default=1) <= 5
    assert fft_tables.halves(1 << 18) == (512, 512)


def rms(x: Any) -> float:
    return float(np.sqrt(np.mean(np.abs(x) ** 2)))


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_lines_side_by_side(level: str) -> None:
    """Lengths that blocks of lanes divide and that they do not, full vectors of lines and less, and
    real ones, whose elements are paired from both ends."""
    try:
        with config.context("calque_cpu", level):
            runnable_target()
    except TargetError as error:
        pytest.skip(str(error).splitlines()[0])
    rng = np.random.default_rng(3)
    with config.context("calque_cpu", level), calque.enable_x64(True):
        for count, n in ((16, 64), (7, 30), (33, 100), (5, 9), (19, 22), (40, 14), (3, 2), (17, 6),
                         (20, 250), (9, 128)):
            x = rng.standard_normal((count, n)) + 1j * rng.standard_normal((count, n))
            for dtype, bound in ((np.complex64, 4e-7), (np.complex128, 8e-16)):
                z, r = x.astype(dtype), x.real.astype(real_dtype(np.dtype(dtype)))
                want, half = np.fft.fft(z.astype(complex)), np.fft.rfft(r.astype(float))
                got = calque.jit(lambda z, r: (jnp.fft.fft(z), jnp.fft.rfft(r), jnp.fft.irfft(
                    jnp.fft.rfft(r), r.shape[1]), jnp.fft.ifft(z)))(z, r)
                # a few roundings a pass, in rms (docs/fft.md)
                for made, right in zip(got, (want, half, r, np.fft.ifft(z.astype(complex)))):
                    assert rms(made - right) <= bound * rms(right), (count, n, dtype)


Sizes = list[tuple[int, ...]]


def errors(sizes: Sizes, dtype: Any) -> list[tuple[Any, str, float]]:
    """rms errors in eps, over every kind of transform."""
    rng = np.random.default_rng(1)
    real = np.empty(0, dtype).real.dtype
    xs = [(rng.standard_normal(s) + 1j * rng.standard_normal(s)).astype(dtype) for s in sizes]
    rs = [x.real.copy() for x in xs]
    hs = [np.fft.rfft(r).astype(dtype) for r in rs]
    outs = calque.jit(lambda xs, rs, hs: [
        (jnp.fft.fft(x), jnp.fft.ifft(x), jnp.fft.rfft(r), jnp.fft.irfft(h, r.shape[-1]))
        for x, r, h in zip(xs, rs, hs)])(xs, rs, hs)
    found = []
    for s, x, r, h, out in zip(sizes, xs, rs, hs, outs):
        wide = x.astype(np.complex128)
        wants = (np.fft.fft(wide), np.fft.ifft(wide), np.fft.rfft(r.astype(np.float64)),
                 np.fft.irfft(h.astype(np.complex128), s[-1]))
        for name, o, w in zip(("fft", "ifft", "rfft", "irfft"), out, wants):
            assert o.shape == w.shape and o.dtype == (real if name == "irfft" else dtype)
            gap = rms(np.asarray(o).astype(w.dtype) - w) / max(rms(w), 1e-300)
            found.append((s, name, gap / float(np.finfo(dtype).eps)))
    return found


# one row, few rows and many; split lines; both sides of each limit; large prime factors
SIZES = [(1, 67), (20, 67), (2, 1009), (3, 256), (1, 2100), (40, 90), (2, 4096),
         (20, 2048), (9, 5000)]
# c128: the oracle is double precision itself; chirps are three transforms of twice the length
BOUND = 5.0


@pytest.mark.parametrize("dtype, linked, portable", [
    ("complex64", SIZES[1::6], SIZES[:1]),
    *[pytest.param(d, SIZES, sizes, marks=pytest.mark.slow)
      for d, sizes in (("complex64", SIZES[::4]), ("complex128", SIZES))]],
    ids=["some", "complex64", "complex128"])
def test_both_forms_are_accurate(dtype: str, linked: Sizes, portable: Sizes, x64: None,
                                 monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert not [e for e in errors(linked, np.dtype(dtype)) if e[2] > BOUND]
    with monkeypatch.context() as without:
        without.setattr(native, "OBJECTS", tmp_path)
        calque.clear_caches()
        assert not [e for e in errors(portable, np.dtype(dtype)) if e[2] > BOUND]
    calque.clear_caches()


@pytest.mark.parametrize("portable_form", [False, True])
def test_long_lines(portable_form: bool, request: pytest.FixtureRequest) -> None:
    """Passes, however long a line is (some hundred lines of module), and right."""
    if portable_form:
        request.getfixturevalue("portable")
    n = 1 << 18
    rng = np.random.default_rng(3)
    x = (rng.standard_normal(n) + 1j * rng.standard_normal(n)).astype(np.complex64)
    f = calque.jit(jnp.fft.fft)
    assert f.lower(x).as_text().count("\n") < 500
    y = np.asarray(f(x))
    want = np.fft.fft(x.astype(np.complex128))
    assert rms(y - want) < BOUND * 6e-8 * rms(want)


def test_axes_in_the_middle() -> None:
    """Columns where they are, narrow ones by transpositions."""
    rng = np.random.default_rng(4)
    shapes = [(3, 12, 40), (5, 12, 3), (2, 4200, 2), (16, 16, 16)]
    xs = [(rng.standard_normal(s) + 1j * rng.standard_normal(s)).astype(np.complex64)
          for s in shapes]
    outs = calque.jit(lambda xs: [(jnp.fft.fft(x, axis=1), jnp.fft.ifftn(x)) for x in xs])(xs)
    for x, (one, every) in zip(xs, outs):
        for got, want in ((one, np.fft.fft(x.astype(complex), axis=1)),
                          (every, np.fft.ifftn(x.astype(complex)))):
            assert rms(np.asarray(got) - want) < 2e-7 * rms(want)


def test_iree_still_lacks_other_lengths_than_powers_of_two() -> None:
    """rules/fft never emits stablehlo.fft; when this compiles, it may be worth another look."""
    text = """module @m {
func.func @main(%x: tensor<6xcomplex<f64>>) -> tensor<6xcomplex<f64>> {
  %y = "stablehlo.fft"(%x) {fft_type = #stablehlo<fft_type FFT>, fft_length = array<i64: 6>}
    : (tensor<6xcomplex<f64>>) -> tensor<6xcomplex<f64>>
  return %y : tensor<6xcomplex<f64>>
}}"""
    with pytest.raises(CompileError):
        compile_module(text.encode() + b"\0", cpu_target())


RACE = """module @m {
func.func @main(%x: tensor<1051xf64>) -> tensor<1050xf64> {
  %z = stablehlo.constant dense<0.0> : tensor<1xf64>
  %s = stablehlo.add %x, %x : tensor<1051xf64>
  %a = iree_tensor_ext.compute_barrier.start %s : tensor<1051xf64> -> tensor<1051xf64>
  %b = stablehlo.slice %a [1:1050] : (tensor<1051xf64>) -> tensor<1049xf64>
  %c = stablehlo.concatenate %z, %b, %z, dim = 0
    : (tensor<1xf64>, tensor<1049xf64>, tensor<1xf64>) -> tensor<1051xf64>
  %d = iree_tensor_ext.compute_barrier.start %c : tensor<1051xf64> -> tensor<1051xf64>
  %i = stablehlo.slice %d [0:1050] : (tensor<1051xf64>) -> tensor<1050xf64>
  %e = iree_tensor_ext.compute_barrier.start %i : tensor<1050xf64> -> tensor<1050xf64>
  %f = stablehlo.reverse %d, dims = [0] : tensor<1051xf64>
  %g = stablehlo.slice %f [0:1050] : (tensor<1051xf64>) -> tensor<1050xf64>
  %h = stablehlo.add %e, %g : tensor<1050xf64>
  return %h : tensor<1050xf64>
}}"""


def test_slices_of_concatenations_still_race() -> None:
    """IREE puts the copy that reads a joined array beside those that write it.  rules/fft masks
    instead of joining where it slices; when this fails, it need not."""
    text = compile_to(RACE, cpu_target(), "stream")
    racing = False
    for block in re.findall(r"stream\.cmd\.concurrent \{(.*?)\n\s*\}\n", text, re.S):
        copies = re.findall(r"stream\.cmd\.copy (%\w+)\[.*?\], (%\w+)\[", block)
        written = {to for _, to in copies}
        racing |= any(source in written for source, _ in copies)
    assert racing
