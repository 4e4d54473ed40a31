"""Complex functions against longdouble, relative to |result|, and their special values."""
from __future__ import annotations

import numpy as np
import pytest
from math_harness import CLONG, F32, F64, Functions, complex_array, parameters

from calque.lowering.math import TABLE, convert, integer_pow

# the oracles meet NaN and overflow on purpose
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")

C64, C128 = np.dtype(np.complex64), np.dtype(np.complex128)
UNARY = {
    "abs": np.abs, "sign": lambda z: z / np.abs(z), "exp": np.exp, "expm1": np.expm1,
    "log": np.log, "sqrt": np.sqrt, "rsqrt": lambda z: 1 / np.sqrt(z), "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "logistic": lambda z: 1 / (1 + np.exp(-z)),
}
# |got - want| / |want| in units of eps
TOLERANCE = {
    "logistic": 30,  # |1 + e^-z| is small near its poles, as in XLA
    "log1p": 2.5, "pow": 1000,  # c128: the error of w log z, times its size, as in XLA
}
SIZE = 1 << 14
# by default: every other function in one of the dtypes, and what the other tests call
FIRST = {C64: {*[*UNARY][1::4], "log1p", "cube", "inverse", "real"},
         C128: {*[*UNARY][::4], "abs", "log", "sqrt", "div", "pow"}}
MODULE = {d.name: Functions({**{n: (TABLE[n], [d]) for n in (*UNARY, "log1p")},
                             "div": (TABLE["div"], [d, d]), "pow": (TABLE["pow"], [d, d]),
                             "cube": (lambda b, x: integer_pow(b, x, 3), [d]),
                             "inverse": (lambda b, x: integer_pow(b, x, -1), [d]),
                             "real": (lambda b, x: convert(b, x, np.float32), [d])},
                            size=SIZE, first=FIRST[d]) for d in (C64, C128)}
PARTS = {C64: F32, C128: F64}


def numbers(dtype, seed):
    rng = np.random.default_rng(seed)
    n = SIZE
    top = 15
    size = np.where(rng.random(n) < 0.5, 1, 10.0 ** rng.uniform(-top, top, n))
    re, im = rng.normal(size=(2, n)) * size
    re[:n // 4], im[:n // 4] = rng.uniform(-30, 30, (2, n // 4))
    # close to the unit circle, and to the real and imaginary axes
    angle = rng.uniform(0, 7, n // 8)
    near = slice(n // 4, n // 4 + n // 8)
    re[near], im[near] = np.cos(angle) * (1 + 1e-4 * rng.normal(size=n // 8)), np.sin(angle)
    re[-n // 16:] *= 1e-6
    im[-n // 8:-n // 16] *= 1e-6
    part = PARTS[dtype]
    return complex_array(re.astype(part), im.astype(part))


def relative_error(got, want):
    f = np.finfo(got.dtype)
    size = np.abs(want)
    if want.dtype.kind == "c":  # a part below the normal range may be flushed
        re = np.where((np.abs(want.real) < f.tiny) & (got.real == 0), 0, want.real)
        im = np.where((np.abs(want.imag) < f.tiny) & (got.imag == 0), 0, want.imag)
        want = re + 1j * im
    error = np.abs(got.astype(CLONG) - want) / np.maximum(size, f.tiny) / f.eps
    free = (size > f.max) | (size < 8 * f.tiny) | ~np.isfinite(want)
    return np.where(free, 0, np.where(np.isnan(error), np.inf, error))


def check(name, got, want, xs):
    error = relative_error(got, want)
    worst = int(np.argmax(error))
    assert error[worst] <= TOLERANCE.get(name, 2.5), \
        (float(error[worst]), name, [x[worst] for x in xs], got[worst], complex(want[worst]))


@pytest.mark.parametrize("name, dtype", parameters(MODULE, UNARY))
def test_unary(name, dtype):
    z = numbers(np.dtype(dtype), 1)
    check(name, MODULE[dtype](name, z), UNARY[name](z.astype(CLONG)), [z])


@pytest.mark.parametrize("dtype", [
    "complex64", pytest.param("complex128", marks=pytest.mark.slow)])
def test_log1p(dtype):
    # NumPy's own loses digits near 0: expand there
    z = numbers(np.dtype(dtype), 1)
    w = z.astype(CLONG)
    series = w * (1 - w / 2 * (1 - w * 2 / 3 * (1 - w * 3 / 4 * (1 - w * 4 / 5))))
    x, y = w.real, w.imag
    exact = 0.5 * np.log1p(x * (2 + x) + y * y) + 1j * np.arctan2(y, 1 + x)
    exact = np.where(np.abs(w) > 0.5, np.log(1 + w), exact)
    want = np.where(np.abs(w) < 1e-4, series, exact)
    keep = np.abs(x * (2 + x) + y * y) > 0.1 * np.abs(w)
    keep |= np.abs(w) < 1e-4
    check("log1p", MODULE[dtype]("log1p", z)[keep], want[keep], [z[keep]])


@pytest.mark.parametrize("dtype", [
    pytest.param("complex64", marks=pytest.mark.slow), "complex128"])
def test_division_and_power(dtype):
    z, w = numbers(np.dtype(dtype), 1), numbers(np.dtype(dtype), 2)
    check("div", MODULE[dtype]("div", z, w), z.astype(CLONG) / w.astype(CLONG), [z, w])
    rng = np.random.default_rng(3)
    w = (3 * (rng.normal(size=SIZE) + 1j * rng.normal(size=SIZE))).astype(dtype)
    tiny = np.finfo(dtype).tiny
    want = np.power(z.astype(CLONG), w.astype(CLONG))
    keep = np.minimum(np.abs(want.real), np.abs(want.imag)) > 2 * tiny
    check("pow", MODULE[dtype]("pow", z, w)[keep], want[keep], [z[keep], w[keep]])


@pytest.mark.parametrize("dtype", [
    "complex64", pytest.param("complex128", marks=pytest.mark.slow)])
def test_integer_power_and_real_part(dtype):
    z = numbers(np.dtype(dtype), 1)[:SIZE // 4]
    wide = z.astype(CLONG)
    check("cube", MODULE[dtype]("cube", z), wide * wide * wide, [z])
    check("inverse", MODULE[dtype]("inverse", z), 1 / wide, [z])
    np.testing.assert_array_equal(MODULE[dtype]("real", z), z.real.astype(np.float32))


VALUES = np.array([0, 1, 0.5, 2, np.inf, np.nan, -0.0, -1, -0.5, -2, -np.inf])
# sign, rsqrt, logistic: NumPy has no function of its own to compare with
SPECIAL = [n for n in UNARY if n not in ("sign", "rsqrt", "logistic")]


@pytest.mark.parametrize("name, dtype", parameters(MODULE, SPECIAL))
def test_special_values_are_numpys(name, dtype):
    """Infinite, NaN, finite parts as in NumPy (C99), and the signs of zeros on the cuts."""
    re, im = (v.astype(PARTS[np.dtype(dtype)]) for v in np.meshgrid(VALUES, VALUES))
    z = complex_array(re.ravel(), im.ravel())
    got, want = MODULE[dtype](name, z), UNARY[name](z)
    if name == "expm1":  # NumPy's gives NaN where exp does not
        wide = np.exp(z.astype(C128))
        want = (wide - 1).astype(dtype)
        want.imag = wide.imag
        want.real = np.where(z == 0, z.real, want.real)
    # C99 leaves these open or NumPy departs from it: the imaginary part of f(inf + i nan)
    open_ = np.isnan(z.real) | np.isnan(z.imag) | np.isinf(z.real) & np.isinf(z.imag)
    for part in ("real", "imag"):
        g, w = np.atleast_1d(getattr(got, part)), np.atleast_1d(getattr(want, part))
        close = np.isclose(g, w, rtol=1e-6 if dtype == "complex64" else 1e-14, atol=1e-30,
                           equal_nan=True) | (open_ & ~np.isfinite(g) & ~np.isfinite(w))
        close |= open_ & (np.isnan(g) | np.isnan(w))
        # a NaN is as good where NumPy gives nan beside an infinite part
        assert close.all(), [(z[~close][:6], got[~close][:6], want[~close][:6])]
        zero = (w == 0) & ~open_ & np.isfinite(z)
        signs = np.signbit(g) == np.signbit(w)
        assert signs[zero].all(), (part, z[zero & ~signs], got[zero & ~signs], want[zero & ~signs])


@pytest.mark.parametrize("dtype", [
    pytest.param("complex64", marks=pytest.mark.slow), "complex128"])
def test_no_overflow_on_the_way(dtype):
    part = PARTS[np.dtype(dtype)]
    big = np.full(3, np.finfo(part).max / 4, part)
    z = complex_array(big, big)
    run = MODULE[dtype]
    np.testing.assert_allclose(run("abs", z), np.hypot(big, big), rtol=1e-6)
    np.testing.assert_allclose(run("div", z, z), np.ones(3), rtol=1e-6)
    np.testing.assert_allclose(run("log", z), np.log(z), rtol=1e-6)
    root = np.sqrt(z.astype(CLONG)).astype(dtype)
    np.testing.assert_allclose(run("sqrt", z), root, rtol=1e-6)
    zero, one = np.zeros(3, dtype), np.ones(3, dtype)
    assert np.isinf(run("div", one, zero).real).all()
    assert (run("pow", zero, one) == 0).all() and (run("pow", zero, zero) == 1).all()


@pytest.mark.parametrize("dtype, sizes", [("c8", (2, 3)), *[
    pytest.param(d, (1, 2, 3, 4, 5, 17), marks=pytest.mark.slow) for d in ("c8", "c16")]])
def test_folds_of_quotients(dtype, sizes) -> None:
    """IREE's own complex fold of two or three quotients was wrong (rules/reduce._complex_sum)."""
    import calque
    import calque.numpy as jnp
    from calque import lax
    rng = np.random.default_rng(0)
    matrices = [(rng.standard_normal((n, n)) + 1j * rng.standard_normal((n, n))).astype(dtype)
                for n in sizes]

    def f(a):
        on = jnp.eye(len(a), dtype=bool)
        diagonal = lax.reduce_sum(jnp.where(on, a, jnp.zeros_like(a)), (1,))
        size = jnp.abs(diagonal)
        signs = lax.div(diagonal, lax.complex(size, jnp.zeros_like(size)))
        return lax.reduce_prod(signs, (0,)), lax.reduce_sum(signs, (0,)), jnp.linalg.slogdet(a)

    close = 1e-6 if dtype == "c8" else 1e-14  # n roundings
    with calque.enable_x64(True):
        found = calque.jit(lambda matrices: [f(a) for a in matrices])(matrices)
    for a, (product, total, (sign, logdet)) in zip(matrices, found, strict=True):
        signs = (np.diagonal(a) / np.abs(np.diagonal(a))).astype("c16")
        np.testing.assert_allclose(product, signs.prod(), rtol=close * len(a))
        np.testing.assert_allclose(total, signs.sum(), rtol=close * len(a), atol=close)
        want = np.linalg.slogdet(a.astype("c16"))
        np.testing.assert_allclose(sign, want[0], rtol=20 * close, atol=20 * close)
        np.testing.assert_allclose(logdet, want[1], rtol=20 * close, atol=20 * close)
