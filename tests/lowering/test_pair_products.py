"""Products of 8 and 16 bits that are multiplied two at a time (kernels/gemm.pair_product): layouts,
batches and results of other dtypes, against NumPy; which products are."""
from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.lowering.kernels import gemm
from calque.lowering.target.targets import cpu_target

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
RNG = np.random.default_rng(0)
DIMS = {"plain": (((1,), (0,)), ((), ())), "transposed": (((0,), (1,)), ((), ())),
        "rows": (((1,), (1,)), ((), ())), "batch": (((2,), (1,)), ((0,), (0,))),
        "two axes": (((0, 2), (1, 0)), ((), ()))}
SHAPES = {"plain": ((40, 70), (70, 33)), "transposed": ((70, 40), (33, 70)),
          "rows": ((40, 70), (33, 70)), "batch": ((3, 40, 70), (3, 70, 33)),
          "two axes": ((7, 40, 10), (10, 7, 33))}
has_pairs = pytest.mark.skipif(not gemm.takes(cpu_target(), "int32"), reason="no C kernels")


def drawn(shape: tuple[int, ...], dtype: Any) -> Any:
    if dtype == BFLOAT16:
        return RNG.normal(size=shape).astype(dtype)
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def exact(x: Any, y: Any, dims: Any) -> Any:
    """In float64 or int64."""
    wide = np.float64 if x.dtype == BFLOAT16 else np.int64
    (xc, yc), (xb, _) = dims
    if xb:
        return x.astype(wide) @ y.astype(wide)
    return np.tensordot(x.astype(wide), y.astype(wide), (xc, yc))


@has_pairs
@pytest.mark.parametrize("name", DIMS)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", BFLOAT16], ids=str)
def test_layouts(name: str, dtype: Any) -> None:
    dtype, dims = np.dtype(dtype), DIMS[name]
    x, y = (drawn(s, dtype) for s in SHAPES[name])
    want, wide = exact(x, y, dims), "float32" if dtype == BFLOAT16 else "int32"
    f = calque.jit(lambda x, y: (
        lax.dot_general(x, y, dims),
        lax.dot_general(x, y, dims, preferred_element_type=wide)))
    half, whole = f(x, y)
    assert half.dtype == dtype and whole.dtype == wide
    if dtype == BFLOAT16:
        np.testing.assert_allclose(np.asarray(whole), want, rtol=1e-5, atol=1e-4)
        np.testing.assert_array_equal(np.asarray(half), np.asarray(whole).astype(dtype))
    else:
        np.testing.assert_array_equal(np.asarray(whole), want.astype("i4"))
        np.testing.assert_array_equal(np.asarray(half), want.astype(dtype))


@has_pairs
def test_which_are() -> None:
    """Of one dtype, of enough rows and columns; and of bfloat16 where there is an instruction."""
    def paired(x: Any, y: Any, **options: Any) -> bool:
        text = calque.jit(lambda x, y: lax.dot(x, y, **options)).lower(x, y).as_text()
        return "@calque_pairs" in str(text)
    x, y = drawn((40, 70), "int8"), drawn((70, 33), "int8")
    assert paired(x, y) and paired(x, y, preferred_element_type="int32")
    assert not paired(x[:4], y) and not paired(x[:, :4], y[:4])
    assert not paired(x, y[:, 0]) and not paired(x.astype("i4"), y.astype("i4"))
    assert not paired(x, y.astype("uint8"), preferred_element_type="int32")
    assert paired(*[v.astype(BFLOAT16) for v in (x, y)]) == (
        "avx512bf16" in cpu_target().features)


def test_gradients_of_bfloat16() -> None:
    x, y = drawn((64, 96), BFLOAT16), drawn((96, 80), BFLOAT16)
    dx, dy = calque.jit(calque.grad(lambda x, y: jnp.sum((x @ y).astype("f4")), (0, 1)))(x, y)
    ones = np.ones((64, 80))
    for got, want in ((dx, ones @ y.astype("f8").T), (dy, x.astype("f8").T @ ones)):
        np.testing.assert_allclose(np.asarray(got).astype("f8"), want, rtol=1e-2, atol=0.2)


def test_what_is_not_finite_stays_in_its_row() -> None:
    x, y = drawn((32, 64), BFLOAT16), drawn((64, 48), BFLOAT16)
    x[3, 7], x[5, 0] = np.nan, np.inf
    got = np.isfinite(np.asarray(calque.jit(jnp.matmul)(x, y)).astype("f4"))
    assert not got[3].any() and not got[5].any() and got[np.delete(np.arange(32), [3, 5])].all()
