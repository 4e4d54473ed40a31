"""sort and top_k: the elements along an axis in order.

sort orders one or more operands of one shape by the first num_keys of them, stably: NaN last, -0
equal to 0, complex numbers by real, then imaginary part.  top_k orders floats by their bits (0
before -0, NaN first, a NaN with a sign last) and gives values with their positions, equal ones by
lower position.  Start reading at `sort`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core import dtypes
from calque.core.avals import ShapedArray, aval_of, shape_of
from calque.core.dims import Dim
from calque.core.errors import explain
from calque.core.lists import replaced
from calque.core.primitive import Primitive
from calque.core.zeros import is_zero, zero_like
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.primitives.gather import GatherDimensionNumbers, GatherScatterMode, gather
from calque.transforms.vmap import all_to_front

sort_p = Primitive("sort", multiple_results=True, weight=16)
top_k_p = Primitive("top_k", multiple_results=True, weight=4)


def sort(xs: Sequence[Any], dimension: int, *, num_keys: int = 1,
         is_stable: bool = True) -> list[Any]:
    """The operands in the order of the first num_keys of them (is_stable or not: always stably)."""
    return sort_p.bind(
        *xs, dimension=dimension, is_stable=is_stable, num_keys=num_keys)


def top_k(x: Any, k: int, axis: int) -> list[Any]:
    """The k largest elements along an axis and their positions (int32)."""
    return top_k_p.bind(x, k=k, axis=axis)


def take_along(x: Any, positions: Any, axis: int) -> Any:
    """x at positions along an axis that go with the other axes (as sort's and top_k's do)."""
    aval, at = aval_of(x), aval_of(positions)
    if not aval.size or not at.size:
        return sh.broadcast_in_dim(ew.const(x, 0), at.shape, ())
    others = tuple(i for i in range(aval.ndim) if i != axis)
    numbers = GatherDimensionNumbers((), (axis,), (axis,), others, others)
    vectors = sh.reshape(positions, (*at.shape, 1))
    return gather(x, vectors, numbers, (1,) * aval.ndim, mode=GatherScatterMode.PROMISE_IN_BOUNDS)


# ---- sort
def _sort_abstract(*xs: ShapedArray, dimension: int, is_stable: bool,
                   num_keys: int) -> list[ShapedArray]:
    if not xs:
        raise TypeError(explain("Sort requires at least one operand"))
    if any(x.shape != xs[0].shape for x in xs):
        shapes = " ".join(str(x.shape) for x in xs)
        raise TypeError(explain(f"Arguments to sort must have equal shapes, got: {shapes}",
                                fix="broadcast them to one shape first."))
    if not 1 <= num_keys <= len(xs):
        raise ValueError(explain(
            f"num_keys={num_keys} must be between 1 and len(operand)={len(xs)}"))
    if not 0 <= dimension < xs[0].ndim:
        raise ValueError(explain(
            f"dimension {dimension} is out of bounds for array of dimension {xs[0].ndim}"))
    for i, x in enumerate(xs):
        if dtypes.is_key(x.dtype):
            raise TypeError(explain(
                f"sort does not accept dtype {x.dtype.name} at position {i}. Accepted dtypes at "
                f"position {i} are subtypes of integer, floating, bool, complex.",
                fix="sort positions, and take the keys at them."))
    return [ShapedArray(x.shape, x.dtype, x.weak_type) for x in xs]


def _sort_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, dimension: int,
              is_stable: bool, num_keys: int) -> Any:
    params = {"dimension": dimension, "is_stable": is_stable, "num_keys": num_keys}
    if all(is_zero(t) for t in tangents):
        outs = sort_p.bind(*primals, **params)
        return outs, [zero_like(o) for o in outs]
    positions = sh.iota(dtypes.int32, shape_of(primals[0]), dimension)
    *outs, order = sort_p.bind(*primals, positions, **params)
    return outs, [zero_like(o) if is_zero(t) else take_along(t, order, dimension)
                  for o, t in zip(outs, tangents)]


def _sort_batch(size: int, args: Sequence[Any], dims: Sequence[int | None], *, dimension: int,
                **params: Any) -> Any:
    first = dims[0]
    if first is not None and all(d == first for d in dims):
        moved = dimension + (first <= dimension)
        return sort_p.bind(*args, dimension=moved, **params), [first] * len(args)
    xs = all_to_front(args, dims, size)
    return sort_p.bind(*xs, dimension=dimension + 1, **params), [0] * len(args)


sort_p.abstract, sort_p.jvp, sort_p.batch = _sort_abstract, _sort_jvp, _sort_batch


# ---- top_k
def _top_k_abstract(x: ShapedArray, *, k: int, axis: int) -> list[ShapedArray]:
    if x.dtype.kind == "c" or dtypes.is_key(x.dtype):
        kind = "complex" if x.dtype.kind == "c" else x.dtype.name
        raise ValueError(explain(f"top_k is not compatible with {kind} inputs.",
                                 fix="order by a real number, for example jnp.abs(x)."))
    if k < 0:
        raise ValueError(explain(f"k argument to top_k must be nonnegative, got {k}"))
    if not 0 <= axis < x.ndim:
        raise ValueError(explain(
            f"axis {axis} is out of bounds for array of dimension {x.ndim}"))
    if k > x.shape[axis]:
        raise ValueError(explain(
            "k argument to top_k must be no larger than size along axis; got k="
            f"{k} with shape={list(x.shape)} and axis={axis}"))
    if not isinstance(n := x.shape[axis], Dim) and n > 2**31 - 1:
        raise ValueError(explain(
            "top_k returns int32 indices, which will overflow for array dimensions larger than the "
            f"maximum int32 ({2**31 - 1}). Got operand.shape={x.shape}",
            fix="work on parts of the array."))
    shape = replaced(x.shape, axis, k)
    return [ShapedArray(shape, x.dtype, x.weak_type), ShapedArray(shape, dtypes.int32)]


def _top_k_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, k: int, axis: int) -> Any:
    (x,), (t,) = primals, tangents
    values, positions = top_k(x, k, axis)
    none = zero_like(positions)
    if is_zero(t):
        return [values, positions], [zero_like(values), none]
    return [values, positions], [take_along(t, positions, axis), none]


def _top_k_batch(size: int, args: Sequence[Any], dims: Sequence[int], *, k: int,
                 axis: int) -> Any:
    d = dims[0]
    return top_k(args[0], k, axis + (d <= axis)), [d, d]


top_k_p.abstract, top_k_p.jvp, top_k_p.batch = _top_k_abstract, _top_k_jvp, _top_k_batch
