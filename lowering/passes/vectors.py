"""Products with a vector for each of a batch, as sums of what is multiplied element by element.

Of `einsum("bi,bi->b", x, y)`, of a vmapped `jnp.dot`, of many small matrices times a vector each,
and of many of up to 4 x 4 times one another, every product is too small for a kernel of products:
taken one after another, 4096 dot products of 128 numbers cost 20 times what a multiplication and a
sum along rows cost, which are one pass over memory and run along whichever axis lies in it (10,000
products of 3 x 3 four times).  A matrix from LEAST_VECTOR elements on is read by the kernel of
kernels/gemm.vector_product.  Start reading at `with_vectors_summed`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.lists import other_axes
from calque.core.primitive import registry
from calque.core.program import Atom, Equation, Program, Var
from calque.core.types import Dtype
from calque.lowering.emit.dtypes import BOOL, summed
from calque.lowering.passes import cost
from calque.lowering.plan.switches import off

LEAST = 1 << 12  # elements of all matrices: less is one kernel's either way
TINY, LEAST_TINY = 4, 1 << 14  # sizes of matrices that go the same way, and elements of all of them


def with_vectors_summed(p: Program) -> Program:
    """p with such products written so, at any depth, but for loops that are kernels."""
    return p if off("sums") else p.derived("vectors summed", lambda: _with_vectors_summed(p))


def _with_vectors_summed(p: Program) -> Program:
    equations: list[Equation] = []
    for e in p.equations:
        if e.name == "dot_general" and _is_of_vectors(e):
            equations += _summed(e)
        else:
            equations.append(e if cost.is_kernel(e) else e.with_inner(with_vectors_summed))
    return p if tuple(equations) == p.equations else p.replace(equations=equations)


def _is_of_vectors(e: Equation) -> bool:
    """Whether one operand is a vector of each of a batch, and the other none for the kernel."""
    if cost.is_dynamic(e):
        return False
    (x, y), ((xc, yc), (xb, _)) = (a.aval for a in e.inputs), e.params["dimension_numbers"]
    batch, k = (math.prod(x.shape[i] for i in axes) for axes in (xb, xc))
    if min(x.size, y.size, k) < 2:
        return False
    rows, columns = x.size // (batch * k), y.size // (batch * k)
    if batch == 1:  # all of both, in another order each
        return x.size >= LEAST and rows == columns == 1 and sorted(yc) != [
            axis for _, axis in sorted(zip(xc, yc))]
    matrix = max(rows, columns)
    if batch * k * matrix < LEAST:
        return False
    if min(rows, columns) > 1:
        return max(matrix, k) <= TINY and batch * k * matrix >= LEAST_TINY
    return matrix == 1 or not cost.has_vector_kernel(matrix, k)


def _summed(e: Equation) -> list[Equation]:
    (x, y), out = e.inputs, e.outputs[0]
    (xc, yc), (xb, yb) = e.params["dimension_numbers"]
    swapped = y.aval.size > x.aval.size
    if swapped:
        x, y, xc, yc, xb, yb = y, x, yc, xc, yb, xb
    made = list[Equation]()

    def emit(name: str, inputs: Sequence[Atom], shape: Sequence[int], dtype: Dtype,
             /, **params: Any) -> Var:
        v = Var(ShapedArray(tuple(shape), dtype))
        made.append(Equation(registry[name], tuple(inputs), (v,), params, e.source, e.scope))
        return v

    def converted(a: Atom, dtype: Dtype) -> Atom:
        return a if a.aval.dtype == dtype else emit(
            "convert_element_type", [a], a.aval.shape, dtype, new_dtype=dtype, weak_type=False)

    def reshaped(a: Atom, shape: Sequence[int]) -> Atom:
        return a if a.aval.shape == tuple(shape) else emit(
            "reshape", [a], shape, a.aval.dtype,
            new_sizes=tuple(shape), dimensions=None, sharding=None)

    def transposed(a: Atom, order: Sequence[int]) -> Atom:
        return a if list(order) == list(range(a.aval.ndim)) else emit(
            "transpose", [a], [a.aval.shape[i] for i in order], a.aval.dtype,
            permutation=tuple(order))

    dtype = out.aval.dtype
    wide = summed(dtype)
    yf = [i for i in other_axes(y.aval.ndim, yc, yb) if y.aval.shape[i] > 1]
    places = dict(zip((*yb, *yc, *yf), (*xb, *xc, *range(x.aval.ndim, x.aval.ndim + len(yf)))))
    shape = (*x.aval.shape, *[y.aval.shape[i] for i in yf])

    def spread(a: Atom, places: Sequence[int]) -> Atom:
        return a if a.aval.shape == shape else emit(
            "broadcast_in_dim", [a], shape, wide, shape=shape,
            broadcast_dimensions=tuple(places), sharding=None)

    order = sorted(places, key=places.__getitem__)
    ones = [i for i in range(y.aval.ndim) if i not in places]
    y = reshaped(transposed(converted(y, wide), [*order, *ones]),
                 [y.aval.shape[i] for i in order])
    names = ("and", "reduce_or") if wide == BOOL else ("mul", "reduce_sum")
    products = emit(names[0], [spread(converted(x, wide), range(x.aval.ndim)),
                               spread(y, sorted(places.values()))], shape, wide)
    left = other_axes(len(shape), xc)
    sums = emit(names[1], [products], [shape[i] for i in left], wide, axes=tuple(xc),
                out_sharding=None)
    free = [other_axes(x.aval.ndim, xc, xb), tuple(range(x.aval.ndim, len(shape)))]
    order = [left.index(i) for axes in (xb, *(reversed(free) if swapped else free)) for i in axes]
    converted(reshaped(transposed(sums, order), out.aval.shape), dtype)
    return [*made[:-1], made[-1].replace(outputs=(out,))]
