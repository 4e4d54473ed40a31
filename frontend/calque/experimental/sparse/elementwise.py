"""Element by element: sums, products, quotients and functions of BCOO and dense arrays.

What operators and sparsify's rules share.  Start reading at `multiply`.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calque.core.avals import ndim_of, shape_of
from calque.core.errors import explain
from calque.experimental.sparse.array import BCOO, _summed, in_range, parts, whole
from calque.experimental.sparse.dots import bcoo_multiply_dense, bcoo_multiply_sparse
from calque.experimental.sparse.shapes import bcoo_broadcast_in_dim, bcoo_update_layout
from calque.numpy import asarray, broadcast_shapes, concatenate, ones_like, promote_types, where

DENSE_FIX = "use sparse.todense() to make dense arrays of the operands, if that is meant."


def spread(mat: BCOO, shape: tuple[int, ...]) -> BCOO:
    """mat broadcast to a shape."""
    if mat.shape == shape:
        return mat
    first = len(shape) - mat.ndim
    return bcoo_broadcast_in_dim(mat, shape=shape,
                                 broadcast_dimensions=range(first, len(shape)))


def unique(mat: BCOO) -> BCOO:
    """mat with every place once, stored in as many elements."""
    return mat if mat.unique_indices else _summed(mat, mat.nse, False)


def applied(mat: BCOO, f: Callable[[Any], Any], linear: bool = False) -> BCOO:
    """f, which takes 0 to 0, of every element."""
    mat = mat if linear else unique(mat)
    return mat.with_data(f(mat.data))


def add(a: Any, b: Any) -> Any:
    """a + b: sparse, if both are; a dense operand must have the shape of the result."""
    if not isinstance(a, BCOO):
        a, b = b, a
    shape = broadcast_shapes(a.shape, shape_of(b))
    if not isinstance(b, BCOO):
        if shape_of(b) != shape:
            raise NotImplementedError(explain(
                "Addition between a sparse array X and a dense array Y is not implemented when the "
                f"output shape is larger than Y.shape: {a.shape} and {shape_of(b)}.",
                fix=DENSE_FIX))
        return spread(a, shape).todense() + b
    a, b = spread(a, shape), spread(b, shape)
    n_batch, n_dense = min(a.n_batch, b.n_batch), min(a.n_dense, b.n_dense)
    dtype = promote_types(a.dtype, b.dtype)
    a, b = (bcoo_update_layout(m, n_batch=n_batch, n_dense=n_dense) for m in (a, b))
    (data, indices), (more, places) = whole(a), whole(b)
    return BCOO((concatenate([data.astype(dtype), more.astype(dtype)], n_batch),
                 concatenate([indices, places], n_batch)), shape=shape)


def subtract(a: Any, b: Any) -> Any:
    """a - b of two sparse arrays."""
    if not (isinstance(a, BCOO) and isinstance(b, BCOO)):
        raise NotImplementedError(explain("Subtraction between sparse and dense array.",
                                          fix=DENSE_FIX))
    return add(a, b.with_data(-b.data))


def multiply(a: Any, b: Any) -> BCOO:
    """a * b: sparse."""
    if not isinstance(a, BCOO):
        a, b = b, a
    shape = broadcast_shapes(a.shape, shape_of(b))
    if isinstance(b, BCOO):
        return bcoo_multiply_sparse(spread(a, shape), spread(b, shape))
    if ndim_of(b) == 0:
        return a.with_data(a.data * b)
    a = spread(a, shape)
    return a.with_data(bcoo_multiply_dense(a, b))


def divide(a: Any, b: Any, how: Callable[[Any, Any], Any]) -> BCOO:
    """a / b of a sparse array by a dense one, by the division `how`."""
    if isinstance(b, BCOO) or not isinstance(a, BCOO):
        raise NotImplementedError(explain(
            "sparse rule for div is not implemented for a sparse divisor.", fix=DENSE_FIX))
    if ndim_of(b) == 0:
        return a.with_data(how(a.data, b))
    b = asarray(b)
    a = spread(a, broadcast_shapes(a.shape, b.shape))
    data, indices = whole(a)
    divisor = bcoo_multiply_dense(a.with_data(ones_like(data, b.dtype)), b)
    there = in_range(indices, parts(a)[1])
    there = there.reshape(there.shape + (1,) * a.n_dense)
    return a.with_data(how(data, where(there, divisor, ones_like(divisor))))
