"""The adjugate of a matrix, det(a) * inv(a), which exists at matrices of rank n - 1, too.

From a = P L U it is det(P) adj(U) inv(L) P^T, and U x = det(U) y is solved from the last row up:
there the pivot stands on both sides, so that it may be 0.  A pivot that is 0 elsewhere says that
its column is a sum of those before it: with that column moved to the end it is the last one.
Start reading at `adjugate`.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core.avals import dtype_of, shape_of
from calque.numpy import cumulative, picking, reductions
from calque.numpy.join import concatenate
from calque.numpy.logic import where
from calque.primitives import elementwise as ew
from calque.primitives import linalg as la
from calque.primitives import reduce as rd
from calque.primitives import shape as sh


def _diagonal(a: Any) -> Any:
    n = shape_of(a)[-1]
    on = np.broadcast_to(np.eye(n, dtype=bool), shape_of(a))
    zero = ew.match_shape(ew.const(a, 0), shape_of(a))
    return rd.reduce_sum(ew.select_n(on, zero, a), (len(shape_of(a)) - 1,))


def _columns(a: Any, order: Any) -> Any:
    """Each matrix with its columns in an order of its own."""
    return picking.take_along_axis(a, order[..., None, :], -1)


def adjugate(a: Any) -> Any:
    """The matrices of cofactors, transposed, of matrices of shape (..., n, n); n > 1."""
    shape, n = shape_of(a), shape_of(a)[-1]
    numbers = np.arange(n, dtype=np.int32)
    zeros = _diagonal(la.lu(a)[0]) == 0
    # the first zero pivot's column, or the last one, goes to the end
    moved = where(zeros.any(-1), reductions.argmax(zeros, -1), n - 1)[..., None]
    order = where(numbers < moved, numbers, where(numbers < n - 1, numbers + 1, moved))
    sign = where((n - 1 - moved[..., 0]) % 2 == 0, 1, -1)
    factors, pivots, permutation = la.lu(_columns(a, order))
    swaps = (pivots != numbers[:pivots.shape[-1]]).sum(-1)
    sign = where(swaps % 2 == 0, sign, -sign).astype(dtype_of(a))
    pivot = _diagonal(factors)
    short = (pivot[..., :-1] == 0).any(-1)[..., None, None]  # of rank below n - 1: all are 0
    products = cumulative.cumprod(pivot, -1) * sign[..., None]
    whole, but_last = products[..., -1], products[..., -2]
    last = np.diag(numbers == n - 1)
    upper = where(last, 1.0, factors)  # the last row: x = y * (the product of the other pivots)
    rows = np.eye(n, dtype=dtype_of(a))
    right = picking.take_along_axis(
        np.broadcast_to(rows, shape), permutation[..., None], -2)
    y = la.triangular_solve(factors, right, left_side=True, lower=True, unit_diagonal=True)
    y = concatenate([y[..., :-1, :] * whole[..., None, None],
                     y[..., -1:, :] * but_last[..., None, None]], -2)
    x = la.triangular_solve(upper, y, left_side=True, lower=False)
    x = where(short, ew.const(a, 0), x)
    back = where(numbers < moved, numbers, where(numbers == moved, n - 1, numbers - 1))
    return sh.reshape(picking.take_along_axis(x, back[..., None], -2), shape)


__all__ = ["adjugate"]
