"""Samplers in every dtype, and complex arguments: JAX 0.10.2's draws and classes of error.

data/samplers.npz has what the calls of sampler_calls.py gave there.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sampler_calls
from support.harness import both_ways, numpys, partly_slow

import calque
import calque.numpy as jnp
from calque import lax, nn, random
from calque.scipy import special

RECORDED = np.load(sampler_calls.DATA)
KEY = random.key(7)
Z = np.array([1 + 1j, 2 - 0.5j, -1.5 + 2j], np.complex64)
# of max(1, |value|): log, exp and erf_inv round otherwise than XLA's, and logarithms of numbers
# near 1 (`gumbel` in mode 'high', `f`) enlarge what is left of that
ULP = {"float16": 1, "bfloat16": 0, "float32": 16, "float64": 256}
DEFAULT = {"binomial/float16", "normal complex64/float32"}
# IREE keeps these in float32 between operations, where JAX rounds: up to eight times (wald)
ROUNDED = 5  # eps, of max(1, |value|)
WIDE = {f"{name}/bfloat16" for name in (
    "truncated_normal", "maxwell", "double_sided_maxwell", "pareto", "rayleigh", "weibull_min",
    "wald", "triangular", "gamma", "loggamma", "beta", "dirichlet", "chisquare", "t", "f",
    "generalized_normal", "ball")}


@pytest.mark.parametrize("name, jit", [
    *[pytest.param(*p.values, numpys, marks=p.marks, id=f"{p.values[0]}-numpy")
      for p in partly_slow(RECORDED.files, 0.35)],
    *[pytest.param(n, lambda f: f, marks=[] if n in DEFAULT else [pytest.mark.slow], id=n)
      for n in RECORDED.files]])
def test_draws(name: str, jit: Any) -> None:
    sampler, dtype = name.split("/")
    calque.config.update("jax_enable_x64", dtype == "float64")
    try:
        kind = sampler_calls.dtype_of(dtype)
        drawn = jit(lambda key: sampler_calls.SAMPLERS[sampler](random, key, kind))(KEY)
    finally:
        calque.config.update("jax_enable_x64", False)
    got, want = sampler_calls.words(drawn), RECORDED[name]
    assert got.shape == want.shape
    if want.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, want)
        return
    if want.dtype.kind == "c" and dtype != "float64":
        dtype = "float32"  # drawn as complex64
    differ = (got != want) & ~(np.isnan(got) & np.isnan(want))  # (halves overflow in both)
    if name == "t/float16":  # its gamma numbers underflow in JAX alone
        differ &= ~(np.isinf(want) & (np.abs(got) > 20))
    got, want = got[differ], want[differ]
    error = np.abs(got - want) / np.maximum(np.abs(want), 1)
    allowed = ROUNDED if name in WIDE else ULP[dtype]
    assert np.max(error, initial=0) <= allowed * float(jnp.finfo(dtype).eps), name


def test_complex_normals() -> None:
    """Their parts are multiplied by 1 / sqrt(2), not divided by sqrt(2)."""
    parts = [random.normal(k, (9,)) for k in random.split(KEY)]
    z = np.asarray(random.normal(KEY, (9,), "complex64"))
    half = np.float32(1) / np.float32(2) ** np.float32(0.5)
    np.testing.assert_allclose([z.real, z.imag], [np.asarray(p) * half for p in parts], rtol=2e-7)


A, C = np.ones(3, np.float32), np.ones(3, np.complex64)
REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    **{f"{name} of complex numbers": (lambda f=name: getattr(random, f)(KEY, C),
                                      calque.errors.TypePromotionError, "cannot safely cast")
       for name in ("pareto", "rayleigh", "wald", "lognormal", "chisquare", "t")},
    "a half of floats": (lambda: random.beta(KEY, A, A, dtype="float16"),
                         calque.errors.TypePromotionError, "type float32 to float16"),
    "geometric": (lambda: random.geometric(KEY, C), ValueError, "must be a float dtype"),
    "fold_in complex": (lambda: random.fold_in(KEY, 1j), TypeError, "integer"),
    "fold_in NaN": (lambda: random.fold_in(KEY, float("nan")), ValueError, "NaN"),
    "fold_in below 0": (lambda: random.fold_in(KEY, -1.5), OverflowError, "-1 out of"),
    "tolist": (lambda: KEY.tolist(), AttributeError, "tolist"),
    "bits of a key": (lambda: lax.bitcast_convert_type(KEY, "uint32"), ValueError, "dtype=key"),
    "a key of bits": (lambda: lax.bitcast_convert_type(np.zeros(2, np.uint32), KEY.dtype),
                      ValueError, "dtype=key"),
    **{f"lax.{name}": (lambda f=name: getattr(lax, f)(C, C), TypeError, "does not accept")
       for name in ("lt", "le", "gt", "ge")},
    **{f: (lambda f=f: getattr(special, f)(C, C), ValueError, "complex-valued")
       for f in ("beta", "kl_div", "rel_entr", "poch", "polygamma")},
    **{f: (lambda f=f: getattr(special, f)(C), ValueError, "complex-valued")
       for f in ("entr", "gammasgn")},
    "betainc": (lambda: special.betainc(A, A, C), ValueError, "complex-valued"),
    "special.i0": (lambda: special.i0(C), TypeError, "complex-valued"),
    "standardize": (lambda: nn.standardize(C), ValueError, "no ordering"),
    "an array as a dtype": (lambda: lax.convert_element_type(A, jnp.asarray(A)), ValueError,
                            "as a dtype"),
    "a tuple as an axis": (lambda: lax.cumsum(A, (0,)), TypeError, "integer")}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    f, kind, text = REFUSED[name]
    with pytest.raises(kind, match=text):
        calque.eval_shape(f)


def test_dtypes_of_draws() -> None:
    for dtype in ("bool", "int8", "uint32", "bfloat16", "complex64"):
        out = calque.eval_shape(lambda d=dtype: random.multinomial(KEY, 5, A / 3, dtype=d))
        assert out.dtype == dtype
    assert calque.eval_shape(lambda: random.weibull_min(KEY, C, A, (3,))).dtype == C.dtype


def test_numbers_that_keys_are_made_of() -> None:
    one = random.key_data(random.fold_in(KEY, 1))
    for value in (1.5, True, np.float32(1.5), np.True_):
        np.testing.assert_array_equal(random.key_data(random.fold_in(KEY, value)), one)
    np.testing.assert_array_equal(random.key_data(random.key(True)), [0, 1])


@both_ways
def test_complex_bounds_and_powers(jit: Any) -> None:
    np.testing.assert_array_equal(random.uniform(KEY, (3,), minval=0.5 + 1j),
                                  random.uniform(KEY, (3,), minval=0.5))
    w = np.array([.5 + .5j, 2, 0], np.complex64)
    boxed, plus = jit(lambda z, w: (special.boxcox(z, w), special.boxcox1p(z, w)))(Z, w)
    np.testing.assert_allclose(boxed, [
        0.10837483 + 0.75282979j, 1.375 - 1j, 0.91629076 + 2.2142975j], rtol=1e-5)
    np.testing.assert_allclose(plus, [
        0.65803385 + 0.7473520j, 3.8749998 - 1.4999998j, 0.7234595 + 1.8157749j], rtol=1e-5)
