"""Reductions, running sums and products of matrices by NumPy.

Integers, minima, maxima and positions are exact.  Sums of floats are pairwise along contiguous
lines, running sums are taken in f64, products of small matrices by BLAS.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from calque.core.lists import other_axes
from calque.core.types import Axes, Shape
from calque.dispatch.numpy_rules.elementwise import BF16, BOOL, COMPLEX, FLOATS, INTEGERS, WIDE

Value = np.ndarray[Any, Any]
Rule = Callable[..., Any]
PRODUCT_LIMIT = 1_000_000  # multiplications of a dot_general
_HALF = frozenset([np.dtype(np.float16), BF16])
_FACTORS = FLOATS | COMPLEX | INTEGERS

RULES: dict[str, Rule] = {}


def _lines(x: Value, axes: Axes) -> Value:
    """x with the reduced axes as one, last and contiguous: there NumPy adds pairwise."""
    if x.ndim == len(axes):
        return x.reshape(-1)
    kept = [i for i in range(x.ndim) if i not in axes]
    size = math.prod(x.shape[a] for a in axes)
    return np.ascontiguousarray(x.transpose(*kept, *axes)).reshape(
        *[x.shape[i] for i in kept], size)


def _folded(name: str, f: Any, accepts: frozenset[Any]) -> None:
    def rule(out: Any, x: Value, *, axes: Axes, out_sharding: Any = None) -> Any:
        if x.dtype not in accepts:
            return None
        if x.dtype in _HALF:
            return f(_lines(x.astype(np.float32), axes), -1, np.float32).astype(out.dtype)
        return f(_lines(x, axes), -1, x.dtype)

    RULES[name] = rule


_folded("reduce_sum", np.add.reduce, FLOATS | COMPLEX | INTEGERS)
_folded("reduce_prod", np.multiply.reduce, INTEGERS)
_folded("reduce_and", np.bitwise_and.reduce, INTEGERS | BOOL)
_folded("reduce_or", np.bitwise_or.reduce, INTEGERS | BOOL)
_folded("reduce_xor", np.bitwise_xor.reduce, INTEGERS | BOOL)


def _max(out: Any, x: Value, *, axes: Axes, out_sharding: Any = None) -> Any:
    if x.dtype not in FLOATS | INTEGERS | BOOL:
        return None
    lines = _lines(x, axes)
    if not lines.shape[-1]:
        return None
    made = np.asarray(np.maximum.reduce(lines, -1))
    if x.dtype in FLOATS and (made == 0).any():  # +0 above -0, whichever came first
        negative = (np.signbit(lines) | (lines != 0)).all(-1)
        made = np.where(made == 0, np.where(negative, -0.0, 0.0).astype(made.dtype), made)
    return made


def _min(out: Any, x: Value, *, axes: Axes, out_sharding: Any = None) -> Any:
    if x.dtype in FLOATS:
        made = _max(out, -x, axes=axes)
        return None if made is None else -made
    if x.dtype not in INTEGERS | BOOL or 0 in x.shape:
        return None
    return np.minimum.reduce(_lines(x, axes), -1)


RULES["reduce_max"], RULES["reduce_min"] = _max, _min


def _position(f: Any) -> Rule:
    def rule(out: Any, x: Value, *, axes: Axes, index_dtype: Any) -> Any:
        if x.dtype not in FLOATS | INTEGERS | BOOL or 0 in x.shape:
            return None
        x = x.astype(np.float32) if x.dtype == BF16 else x
        return f(x, axes[0]).astype(out.dtype)

    return rule


RULES["argmax"], RULES["argmin"] = _position(np.argmax), _position(np.argmin)


def _running(f: Any, accepts: frozenset[Any]) -> Rule:
    def rule(out: Any, x: Value, *, axis: int, reverse: bool) -> Any:
        if x.dtype not in accepts:
            return None
        wide = np.float64 if x.dtype in FLOATS else x.dtype
        lines = np.flip(x, axis) if reverse else x
        made = f(lines, axis, wide).astype(out.dtype)
        return np.flip(made, axis) if reverse else made

    return rule


RULES["cumsum"] = _running(np.add.accumulate, INTEGERS | (FLOATS - {np.dtype(np.float64)}))
RULES["cumprod"] = _running(np.multiply.accumulate, INTEGERS)
RULES["cummax"] = _running(np.maximum.accumulate, INTEGERS)
RULES["cummin"] = _running(np.minimum.accumulate, INTEGERS)


def _dot(out: Any, x: Value, y: Value, *, dimension_numbers: Any, precision: Any,
         preferred_element_type: Any, out_sharding: Any = None) -> Any:
    work = np.dtype(np.float32) if out.dtype in _HALF else out.dtype
    if work not in WIDE | COMPLEX | INTEGERS:
        return None
    if x.dtype not in _FACTORS or y.dtype not in _FACTORS:
        return None
    if work not in COMPLEX:  # (NumPy warns of parts that are lost)
        x, y = x.real, y.real
    form = _matrices(dimension_numbers, x.shape, y.shape)
    if form is None:
        return None
    (px, sx), (py, sy) = form
    a, b = x.transpose(px).reshape(sx), y.transpose(py).reshape(sy)
    a, b = a.astype(work, copy=False), b.astype(work, copy=False)
    if _is_gram(a, b):  # x @ x.T is symmetric to the last bit, which BLAS sees by the memory
        b = a.swapaxes(-1, -2)
    made = np.matmul(a, b)
    return made.astype(out.dtype, copy=False).reshape(out.shape)


def _is_gram(a: Value, b: Value) -> bool:
    """Whether a product of matrices is one of a matrix with its own transpose."""
    m, n = a.shape[-2], b.shape[-1]
    if m != n or m < 2 or not a.size or a.ndim == 2 and a[-1, 0] != b[0, -1]:
        return False
    return np.array_equal(a, b.swapaxes(-1, -2))


@functools.lru_cache(1024)
def _matrices(dimension_numbers: Any, x: Shape, y: Shape) -> Any:
    """Order of axes and shape of both operands as batches of matrices; None for many products."""
    (xc, yc), (xb, yb) = dimension_numbers
    xf, yf = other_axes(len(x), xc, xb), other_axes(len(y), yc, yb)
    batch, m, n, k = (math.prod(s) for s in (
        [x[i] for i in xb], [x[i] for i in xf], [y[i] for i in yf], [x[i] for i in xc]))
    if batch * m * n * k > PRODUCT_LIMIT:
        return None
    lead = (batch,) if xb else ()
    return ((*xb, *xf, *xc), (*lead, m, k)), ((*yb, *yc, *yf), (*lead, k, n))


RULES["dot_general"] = _dot
