"""dot_general: contraction over named axes with batch axes; output axes are batch, lhs, rhs."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray, dtype_of, ndim_of
from calque.core.errors import explain
from calque.core.lists import other_axes
from calque.core.primitive import Primitive, is_linear
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.transforms.jvp import bilinear_jvp

Dims = tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]

dot_general_p = Primitive("dot_general", memory="folds", kernel="nest")


def dot_general(x: Any, y: Any, dims: Dims, precision: Any = None, preferred: Any = None) -> Any:
    return dot_general_p.bind(x, y, dimension_numbers=dims, precision=precision,
                              preferred_element_type=preferred, out_sharding=None)


def _fail(what: str, fix: str = "") -> Exception:
    return TypeError(explain(f"dot_general {what}", fix=fix))


def _dot_abstract(x: ShapedArray, y: ShapedArray, *, dimension_numbers: Dims, precision: Any,
                  preferred_element_type: Any, out_sharding: Any = None) -> ShapedArray:
    (xc, yc), (xb, yb) = dimension_numbers
    for name, axes, a in (("lhs", (*xc, *xb), x), ("rhs", (*yc, *yb), y)):
        if any(not 0 <= i < a.ndim for i in axes):
            raise _fail(f"requires {name} dimension numbers to be nonnegative and less than the "
                        f"number of axes of the {name} value, got {axes} for shape {a.shape}.")
        if len(set(axes)) != len(axes):
            raise _fail(f"requires {name} dimension numbers to be distinct, got {axes}.")
    if len(xb) != len(yb) or [x.shape[i] for i in xb] != [y.shape[i] for i in yb]:
        raise _fail(f"requires lhs batch dimensions and rhs batch dimensions to have the same "
                    f"shape, got {[x.shape[i] for i in xb]} and {[y.shape[i] for i in yb]}.")
    if len(xc) != len(yc) or [x.shape[i] for i in xc] != [y.shape[i] for i in yc]:
        raise _fail(f"requires contracting dimensions to have the same shape, got "
                    f"{tuple(x.shape[i] for i in xc)} and {tuple(y.shape[i] for i in yc)}.",
                    "transpose or slice one operand so that the contracted sizes agree.")
    shape = ([x.shape[i] for i in xb] + [x.shape[i] for i in other_axes(x.ndim, xc, xb)]
             + [y.shape[i] for i in other_axes(y.ndim, yc, yb)])
    dtype = _common(x.dtype, y.dtype)
    if preferred_element_type is not None:
        wanted = np.dtype(preferred_element_type)
        # (floats may be rounded)
        if dtypes.is_integer(dtype) and dtypes.itemsize_bits(wanted) < dtypes.itemsize_bits(dtype):
            raise TypeError(explain(
                "`preferred_element_type` must not be narrower than the original type, got "
                f"preferred_element_type of {wanted.name} for result type of {dtype.name}.",
                fix="convert the result with .astype."))
        dtype = wanted
    weak = x.weak_type and y.weak_type and preferred_element_type is None
    return ShapedArray(shape, dtype, weak)


def _common(x: Any, y: Any) -> Any:
    """The dtype of products: the higher kind, the larger size, lhs's; signed of equal integers."""
    if x == y:
        return x

    def rank(d: Any) -> tuple[int, int]:
        kind = 1 if dtypes.is_integer(d) else {"b": 0, "c": 3}.get(d.kind, 2)
        return kind, dtypes.itemsize_bits(d)

    if rank(x) == rank(y):
        return y if dtypes.is_unsigned(x) else x
    return max(x, y, key=rank)


def _dot_transpose(ct: Any, x: Any, y: Any, *, dimension_numbers: Dims, precision: Any,
                   preferred_element_type: Any, out_sharding: Any = None) -> list[Any]:
    (xc, yc), (xb, yb) = dimension_numbers
    if is_linear(x):
        return [_pull(ct, x.aval, y, (xc, yc), (xb, yb), False, precision), None]
    return [None, _pull(ct, y.aval, x, (yc, xc), (yb, xb), True, precision)]


def _pull(ct: Any, aval: ShapedArray, other: Any, contract: Any, batch: Any, swapped: bool,
          precision: Any) -> Any:
    """The cotangent of the operand of type `aval`: ct contracted with the other operand."""
    (mine_c, other_c), (mine_b, other_b) = contract, batch
    mine_free = other_axes(aval.ndim, mine_c, mine_b)
    other_free = other_axes(ndim_of(other), other_c, other_b)
    nb, first = len(mine_b), len(other_free) if swapped else len(mine_free)
    if swapped:
        ct_other = tuple(range(nb, nb + first))
    else:
        ct_other = tuple(range(nb + first, nb + first + len(other_free)))
    ct = ew.convert(ct, dtype_of(other)) if dtype_of(ct) != dtype_of(other) else ct
    # out's axes: batch, my free axes, then my contracted axes in the other operand's axis order
    order = [mine_c[i] for i in np.argsort(other_c)] if other_c else []
    axes, turned = [*mine_b, *mine_free, *order], [*mine_b, *order, *mine_free]
    (x, y), ((xc, xb), (yc, yb)) = (ct, other), ((ct_other, range(nb)), (other_free, other_b))
    if axes != sorted(axes) and turned == sorted(turned):  # so that there is no transposition
        x, y, xc, xb, yc, yb, axes = other, ct, yc, yb, xc, xb, turned
    out = dot_general(x, y, ((tuple(xc), tuple(yc)), (tuple(xb), tuple(yb))), precision,
                      aval.dtype if aval.dtype != dtype_of(other) else None)
    return sh.transpose(out, tuple(map(int, np.argsort(axes))))


def _dot_batch(size: int, args: Sequence[Any], dims: Sequence[int | None], *,
               dimension_numbers: Dims, **params: Any) -> Any:
    (x, y), (dx, dy) = args, dims
    (xc, yc), (xb, yb) = dimension_numbers

    def shift(axes: Sequence[int], d: int | None) -> tuple[int, ...]:
        return tuple(axes) if d is None else tuple(a + (a >= d) for a in axes)

    xc, xb, yc, yb = shift(xc, dx), shift(xb, dx), shift(yc, dy), shift(yb, dy)
    if dx is not None and dy is not None:
        new: Dims = ((xc, yc), ((dx, *xb), (dy, *yb)))
        return dot_general_p.bind(x, y, dimension_numbers=new, **params), 0
    out = dot_general_p.bind(x, y, dimension_numbers=((xc, yc), (xb, yb)), **params)
    if dx is not None:
        return out, len(xb) + other_axes(ndim_of(x), xc, xb).index(dx)
    free_x = len(other_axes(ndim_of(x), xc, xb))
    return out, len(xb) + free_x + other_axes(ndim_of(y), yc, yb).index(dy)


dot_general_p.abstract, dot_general_p.jvp = _dot_abstract, bilinear_jvp(dot_general_p)
dot_general_p.transpose, dot_general_p.batch = _dot_transpose, _dot_batch
