"""Elements of an array by position or condition, and arrays changed there: take, put, choose,
compress, piecewise and their kin.  Start reading at `take`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import aval_of, dtype_of, ndim_of, shape_of
from calque.core.dims import min_dim
from calque.core.errors import explain
from calque.core.lists import replaced
from calque.core.trace import Tracer
from calque.core.types import Function, Shape
from calque.dispatch.array import Array
from calque.dispatch.eager import lazy_eval
from calque.lax.gather import parse_mode, python_fill
from calque.lax.index import counting_far, wrap_negative
from calque.lax.operands import canonical_axis
from calque.numpy import advanced, rounding, util
from calque.numpy import arithmetic as ar
from calque.numpy.arithmetic import as_truth
from calque.numpy.at import At
from calque.numpy.creation import asarray
from calque.numpy.indexing import widened
from calque.numpy.shapes import ravel, with_axis
from calque.numpy.util import concrete_value, needed
from calque.primitives import elementwise as ew
from calque.primitives import gather as ga
from calque.primitives import shape as sh
from calque.primitives.gather import GatherScatterMode
from calque.transforms.vmap import move_axis, vmap_flat


def refuse_in_place(name: str, inplace: bool) -> None:
    if inplace:
        raise ValueError(explain(
            f"jax.numpy.{name} cannot modify arrays in-place, because JAX arrays are immutable. "
            "Pass inplace=False to instead return an updated array."))


def check_integer(x: Any) -> None:
    if not dtypes.is_integer(dtype_of(x)):
        raise ValueError(explain("indices must have an integer type",
                                 fix="convert them with .astype(int)."))


def _wrapped(index: Any, size: int) -> Any:
    """Positions modulo a size."""
    host = concrete_value(index) if not isinstance(index, Array) else None
    return np.mod(host, size) if host is not None else ar.remainder(widened(index, size), size)


def _clamped(index: Any, size: int) -> Any:
    index = widened(asarray(index), size)
    return rounding.clip(index, 0, min_dim(size - 1, int(dtypes.iinfo(dtype_of(index)).max)))


# ---- take
@counting_far
@util.planned
def take(a: Any, indices: Any, axis: Any = None, out: None = None, mode: Any = None,
         unique_indices: bool = False, indices_are_sorted: bool = False,
         fill_value: Any = None) -> Any:
    """The elements of a at indices along an axis.

    Args:
      a: array.
      indices: integer array or scalar; negative ones count from the end (not with 'clip').
      axis: the axis; None takes from the raveled array.
      out: must be None.
      mode: 'fill' (the default: positions outside give fill_value), 'wrap' or 'clip'.
      unique_indices: a promise that no index occurs twice.
      indices_are_sorted: a promise that the indices are ascending.
      fill_value: by default NaN, the smallest signed or the largest unsigned integer, or True.

    Returns:
      An array of a's dtype: a's shape with the axis replaced by the indices' shape.

    Raises:
      TypeError: an argument is not an array.
      ValueError: the indices are no integers, or the mode is unknown.
      IndexError: something is taken from an axis of size 0.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.take(jnp.array([10, 20, 30]), jnp.array([2, 0]))
      Array([30, 10], dtype=int32)
    """
    util.refuse_out("take", out)
    dtypes.check_fits(indices)
    x, i = util.check_arrays("take", a, indices)
    if not aval_of(i).size:  # none may be of any type
        i = asarray(np.zeros(shape_of(i), np.int32))
    if dtype_of(i) != dtypes.bool_ or mode not in (None, "fill", "wrap"):
        check_integer(i)
    with lazy_eval("take"):
        x = asarray(x)
        if dtype_of(i) == dtypes.bool_:  # True is position 1
            i = util.cast(i, dtypes.int32)
        x, axis = (ravel(x), 0) if axis is None else (x, axis)
        shape = shape_of(x)
        axis = canonical_axis(axis, len(shape)) if shape else 0
        if not shape:
            x, shape = sh.reshape(x, (1,)), (1,)
        if not shape[axis] and aval_of(i).size:
            raise IndexError(explain("Cannot do a non-empty jnp.take() from an empty axis."))
        parsed = GatherScatterMode.FILL_OR_DROP
        if mode == "raise":
            raise NotImplementedError(explain("The 'raise' mode to jnp.take is not supported.",
                                              fix="use mode='fill' and look for NaN."))
        if mode in ("wrap", "clip"):
            i = (_wrapped if mode == "wrap" else _clamped)(i, shape[axis])
            parsed = GatherScatterMode.CLIP
        elif mode not in (None, "fill"):
            raise ValueError(explain(f"Invalid mode {mode!r} for np.take",
                                     fix="use 'fill', 'wrap' or 'clip'."))
        fancy = advanced.plan((*[slice(None)] * axis, advanced.as_index(i)), shape)
        return advanced.read(x, fancy, parsed, fill_value, indices_are_sorted, unique_indices)


@counting_far
@util.planned
def take_along_axis(arr: Any, indices: Any, axis: Any = -1, mode: Any = None,
                    fill_value: Any = None, *, wrap_negative_indices: bool | None = None) -> Any:
    """Elements of arr along an axis at indices that go with the other axes (as argsort's do).

    Args:
      arr: array.
      indices: integer array of arr's rank; its other axes equal arr's or broadcast.
      axis: the axis; None takes from the raveled array.
      mode: 'fill' (the default), 'clip', 'promise_in_bounds' or 'one_hot' (outside gives 0).
      fill_value: what positions outside give; see take.
      wrap_negative_indices: whether negative indices count from the end (by default they do).

    Returns:
      An array of arr's dtype and the broadcast shape.

    Raises:
      TypeError: the indices are no integers.
      ValueError: the ranks differ or the shapes do not broadcast.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.take_along_axis(jnp.array([[3, 1], [2, 5]]), jnp.array([[1], [0]]), axis=1)
      Array([[1],
             [2]], dtype=int32)
    """
    x, i = util.check_arrays("take_along_axis", arr, indices)
    if not dtypes.is_integer(dtype_of(i)):
        raise TypeError(explain("take_along_axis indices must be of integer type, got "
                                f"{dtype_of(i).name}", fix="use .astype(int)."))
    if mode is not None and GatherScatterMode.from_any(mode) is GatherScatterMode.ONE_HOT:
        mode, fill_value = GatherScatterMode.FILL_OR_DROP, 0
    parsed = parse_mode("take_along_axis", mode, GatherScatterMode.FILL_OR_DROP)
    with lazy_eval("take_along_axis"):
        x, i = asarray(x), asarray(i)
        if axis is None:
            if ndim_of(i) != 1:
                raise ValueError(explain("take_along_axis indices must be 1D if axis=None, got "
                                         f"shape {shape_of(i)}"))
            x, axis = ravel(x), 0
        n, rank = ndim_of(x), ndim_of(i)
        if n != rank:
            raise ValueError(explain("indices and arr must have the same number of dimensions; "
                                     f"{rank} vs. {n}"))
        axis = canonical_axis(axis, n)
        if wrap_negative_indices is not False and not dtypes.is_unsigned(dtype_of(i)):
            i = wrap_negative(widened(i, shape_of(x)[axis]), shape_of(x)[axis])
        return _along(x, i, axis, parsed, fill_value)


def _along(x: Any, i: Any, axis: int, mode: GatherScatterMode, fill_value: Any) -> Any:
    """One gather: equal axes go together, axes of size 1 of either side are spread."""
    shape, sizes = shape_of(x), shape_of(i)
    spread = [d for d, (a, b) in enumerate(zip(shape, sizes)) if d != axis and a == 1 != b]
    windows = [d for d, b in enumerate(sizes) if d != axis and b == 1]
    for d, (a, b) in enumerate(zip(shape, sizes)):
        if d != axis and a != b and d not in spread and d not in windows:
            others = replaced(shape, axis, 1)
            raise ValueError(explain(
                f"Incompatible shapes for broadcasting: shapes={[sizes, others]}",
                fix="the other axes of indices and arr must be equal or 1."))
    result = tuple(n if d in windows else sizes[d] for d, n in enumerate(shape))
    if 0 in result or 0 in shape:  # (as JAX has it: of an empty array zeros)
        return sh.broadcast_in_dim(dtype_of(x).type(0), result, ()) if not dtypes.is_key(
            dtype_of(x)) else sh.reshape(x, result)
    together = [d for d in range(len(shape)) if d not in (axis, *spread, *windows)]
    x = sh.squeeze(x, tuple(spread)) if spread else x
    left = [d for d in range(len(shape)) if d not in spread]  # axes of the operand now
    i = sh.reshape(i, (*[n for d, n in enumerate(sizes) if d not in windows], 1))
    batch = [d for d in range(len(shape)) if d not in windows]  # axes of the indices now
    place = left.index(axis)
    numbers = ga.GatherDimensionNumbers(
        tuple(windows), (place,), (place,), tuple(left.index(d) for d in together),
        tuple(batch.index(d) for d in together))
    window = [shape[d] if d in windows else 1 for d in left]
    fill = python_fill(fill_value, dtype_of(x)) if (
        mode is GatherScatterMode.FILL_OR_DROP) else None
    return ga.gather(x, i, numbers, window, mode=mode, fill_value=fill)


# ---- put
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any, inplace: bool = True, *,
                   mode: Any = None) -> Any:
    """arr with elements along an axis, at indices that go with the other axes, set to values.

    Args:
      arr: array.
      indices: integer array of arr's rank; its other axes equal arr's or broadcast.
      values: array or scalar that broadcasts to the indices.
      axis: the axis; None counts in the raveled array.
      inplace: must be False, since arrays are immutable.
      mode: 'drop' (the default: positions outside change nothing), 'clip' or 'promise_in_bounds'.

    Returns:
      An array of arr's shape and dtype.

    Raises:
      ValueError: inplace is True.
      TypeError: an argument is not an array.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.put_along_axis(jnp.zeros((2, 2), int), jnp.array([[1], [0]]), 7, 1, inplace=False)
      Array([[0, 7],
             [7, 0]], dtype=int32)
    """
    refuse_in_place("put_along_axis", inplace)
    x, i, v = util.check_arrays("put_along_axis", arr, indices, values)
    with lazy_eval("put_along_axis"):
        x = asarray(x)
        shape = shape_of(x)
        if axis is None:
            changed = At(ravel(x))[advanced.as_index(i)].set(v, mode=mode)
            return sh.reshape(changed, shape)
        n = len(shape)
        axis = canonical_axis(axis, n)
        index = tuple(advanced.as_index(i) if d == axis else np.arange(size).reshape(
            [-1 if k == d else 1 for k in range(n)]) for d, size in enumerate(shape))
        return At(x)[index].set(v, mode=mode)


def put(a: Any, ind: Any, v: Any, mode: Any = None, *, inplace: bool = True) -> Any:
    """a with elements, counted in the raveled array, set to v (repeated as often as needed).

    Args:
      a: array.
      ind: integer array.
      v: array or scalar.
      mode: None (negative positions count from the end, those outside are clipped), 'clip' or
        'wrap'.
      inplace: must be False, since arrays are immutable.

    Returns:
      An array of a's shape and dtype.

    Raises:
      ValueError: inplace is True, or the mode is unknown.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.put(jnp.zeros(4, int), jnp.array([0, 2]), 9, inplace=False)
      Array([9, 0, 9, 0], dtype=int32)
    """
    refuse_in_place("put", inplace)
    x, i, v = util.check_arrays("put", a, ind, v)
    with lazy_eval("put"):
        x, i, v = asarray(x), ravel(asarray(i)), ravel(asarray(v))
        count, given, size = (aval_of(w).size for w in (i, v, x))
        if mode == "raise":
            raise NotImplementedError(explain("The 'raise' mode to jnp.put is not supported."))
        if mode not in (None, "clip", "wrap"):
            raise ValueError(explain(f"mode should be one of 'wrap' or 'clip'; got mode={mode!r}"))
        if not count or not given or not size:
            return x
        if mode is not None:
            i = (_wrapped if mode == "wrap" else _clamped)(i, size)
        if count > given:
            times = -(-count // given)
            v = sh.reshape(sh.broadcast_in_dim(v, (times, given), (1,)), (times * given,))
        v = sh.slice_(v, (0,), (count,))
        return sh.reshape(At(ravel(x))[i].set(v, mode="clip"), shape_of(x))


def place(arr: Any, mask: Any, vals: Any, *, inplace: bool = True) -> Any:
    """arr with the elements where mask holds set to vals in order (repeated as often as needed).

    Args:
      arr: array.
      mask: array of as many elements.
      vals: array with at least one element.
      inplace: must be False, since arrays are immutable.

    Returns:
      An array of arr's shape and dtype.

    Raises:
      ValueError: inplace is True, sizes differ, or vals is empty.

    Example:
      >>> import calque.numpy as jnp
      >>> x = jnp.arange(4)
      >>> jnp.place(x, x > 1, jnp.array([7]), inplace=False)
      Array([0, 1, 7, 7], dtype=int32)
    """
    from calque.lax.cumulative import cumsum
    refuse_in_place("place", inplace)
    x, m, v = util.check_arrays("place", arr, mask, vals)
    with lazy_eval("place"):
        x, m, v = asarray(x), asarray(m), ravel(asarray(v))
        if aval_of(x).size != aval_of(m).size:
            raise ValueError(explain("place: arr and mask must be the same size"))
        if not aval_of(v).size:
            raise ValueError(explain("Cannot place values from an empty array"))
        if not aval_of(x).size:
            return x
        flat = ravel(as_truth(m))
        number = ew.sub(cumsum(ew.convert(flat, dtypes.int32)), np.int32(1))
        fancy = advanced.plan(_wrapped(number, aval_of(v).size), shape_of(v))
        picked = util.cast(advanced.read(v, fancy), dtype_of(x))
        made = ew.select_n(flat, ravel(x), picked)
        return sh.reshape(made, shape_of(x))


@util.planned
def fill_diagonal(a: Any, val: Any, wrap: bool = False, *, inplace: bool = True) -> Any:
    """a with its main diagonal set to val.

    Args:
      a: array of 2 or more axes (of equal size if more than 2).
      val: scalar, or values along the diagonal (repeated as often as needed).
      wrap: must be False.
      inplace: must be False, since arrays are immutable.

    Returns:
      An array of a's shape and dtype.

    Raises:
      ValueError: inplace is True, or the shape has no diagonal.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.fill_diagonal(jnp.zeros((2, 2), int), 5, inplace=False)
      Array([[5, 0],
             [0, 5]], dtype=int32)
    """
    refuse_in_place("fill_diagonal", inplace)
    if wrap:
        raise NotImplementedError(explain("wrap=True is not implemented, must use wrap=False"))
    x, v = util.check_arrays("fill_diagonal", a, val)
    with lazy_eval("fill_diagonal"):
        x, v = asarray(x), ravel(asarray(v))
        shape = shape_of(x)
        if len(shape) < 2:
            raise ValueError(explain("array must be at least 2-d"))
        if len(shape) > 2 and len(set(shape)) > 1:
            raise ValueError(explain("All dimensions of input must be of equal length"))
        n, given = min(shape), aval_of(v).size
        if not n or not given:
            return x
        if given > 1:
            v = advanced.read(v, advanced.plan(np.arange(n) % given, (given,)))
        return At(x)[(np.arange(n),) * len(shape)].set(v, unique_indices=True)


# ---- choices
@util.planned
def choose(a: Any, choices: Any, out: None = None, mode: str = "raise") -> Any:
    """The element of the a-th choice, elementwise.

    Args:
      a: integer array: which choice.
      choices: arrays (or one array, along its first axis); shapes broadcast, dtypes are promoted.
      out: must be None.
      mode: 'raise' (an entry outside is an error; not under jit), 'wrap' or 'clip'.

    Returns:
      An array of the broadcast shape.

    Raises:
      ValueError: an entry is outside, the mode is unknown, or a is no integer array.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.choose(jnp.array([0, 1]), [jnp.array([1, 2]), jnp.array([3, 4])])
      Array([1, 4], dtype=int32)
    """
    util.refuse_out("choose", out)
    which = util.one_array("choose", a)
    if not dtypes.is_integer(dtype_of(which)):
        raise ValueError(explain("`a` array must be integer typed"))
    with lazy_eval("choose"):
        cases = list(choices) if isinstance(choices, (list, tuple)) else [
            choices[k] for k in range(len(choices))]
        cases = util.promote("choose", *cases)
        count = len(cases)
        shapes = [shape_of(v) for v in (which, *cases)]
        try:
            shape = np.broadcast_shapes(*shapes)
        except ValueError:
            raise ValueError(explain(
                f"Incompatible shapes for broadcasting: shapes={shapes}")) from None
        if mode == "raise":
            value = needed("choose", which, "The error occurred because jnp.choose was "
                           "jit-compiled with mode='raise'.",
                           "use mode='wrap' or mode='clip' instead.")
            if ((value < 0) | (value >= count)).any():
                raise ValueError(explain("invalid entry in choice array"))
        elif mode in ("wrap", "clip"):
            which = (_wrapped if mode == "wrap" else _clamped)(which, count)
        else:
            raise ValueError(explain(
                f"mode={mode!r} not understood. Must be 'raise', 'wrap', or 'clip'"))
        columns = [util.broadcast_to(asarray(c), shape) for c in cases]
        stacked = sh.concatenate([sh.reshape(c, (1, *shape)) for c in columns], 0)
        index = sh.reshape(util.broadcast_to(asarray(which), shape), (1, *shape))
        picked = _along(stacked, widened(index, count), 0, GatherScatterMode.CLIP, None)
        return util.cast(sh.reshape(picked, shape), dtype_of(picked))  # numbers, too: strong


def compress(condition: Any, a: Any, axis: Any = None, *, size: int | None = None,
             fill_value: Any = 0, out: None = None) -> Any:
    """The slices of a along an axis where condition holds.

    Args:
      condition: vector, not longer than the axis but for zeros.
      a: array.
      axis: the axis; None takes elements of the raveled array.
      size: the number of slices to return (static; needed under jit); the rest is fill_value.
      fill_value: scalar.
      out: must be None.

    Returns:
      An array of a's dtype.

    Raises:
      ValueError: condition is no vector, or holds beyond the axis.
      NonConcreteBooleanIndexError: condition is traced and size is not given.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.compress(jnp.array([False, True, True]), jnp.array([5, 6, 7]))
      Array([6, 7], dtype=int32)
    """
    from calque.numpy.positions import flatnonzero
    util.refuse_out("compress", out)
    c, x = util.check_arrays("compress", condition, a)
    if ndim_of(c) != 1:
        raise ValueError(explain("condition must be a 1D array",
                                 fix="jnp.extract takes a condition of a's shape."))
    x = asarray(x)
    x, axis = with_axis(x, axis)
    n = shape_of(x)[axis]
    value = concrete_value(c)
    if value is not None and (value[n:] != 0).any():
        raise ValueError(explain("condition contains entries that are out of bounds"))
    mask = as_truth(asarray(c)[:n])
    if size is None:
        value = np.zeros(n, bool)
        given = advanced.as_index(mask)
        value[:len(given)] = given
        return asarray(x)[(slice(None),) * axis + (value,)]
    if not 0 <= size <= n:
        raise ValueError(explain(
            "compress: size must be positive and not greater than the size of the array axis; "
            f"got size={size} for {n} elements.", fix="use a smaller size."))
    with lazy_eval("compress"):
        where = flatnonzero(mask, size=size, fill_value=n)
        return take(x, where, axis=axis, mode="fill", fill_value=fill_value)


def extract(condition: Any, arr: Any, *, size: int | None = None, fill_value: Any = 0) -> Any:
    """The elements of arr where condition holds, in order.

    Args:
      condition: array, read raveled.
      arr: array, read raveled.
      size: the number of elements to return (static; needed under jit); the rest is fill_value.
      fill_value: scalar.

    Returns:
      A vector of arr's dtype.

    Raises:
      ValueError: condition holds beyond arr.

    Example:
      >>> import calque.numpy as jnp
      >>> x = jnp.arange(4)
      >>> jnp.extract(x > 1, x)
      Array([2, 3], dtype=int32)
    """
    c, x = util.check_arrays("extract", condition, arr)
    return compress(ravel(asarray(c)), ravel(asarray(x)), size=size, fill_value=fill_value)


def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Any:
    """A function given by pieces: the function (or number) of the last condition that holds.

    Args:
      x: array.
      condlist: bool arrays (or one array, along its first axis).
      funclist: as many functions of a scalar or numbers; one more is the value elsewhere (else 0).
      args: passed on to the functions.
      kw: passed on to the functions.

    Returns:
      An array of x's shape and dtype.

    Raises:
      ValueError: the numbers of conditions and functions do not fit.

    Example:
      >>> import calque.numpy as jnp
      >>> x = jnp.arange(4)
      >>> jnp.piecewise(x, [x < 1, x > 2], [-1, lambda v: v * 10, 7])
      Array([-1,  7,  7, 30], dtype=int32)
    """
    x = util.one_array("piecewise", x)
    if isinstance(condlist, (list, tuple)) and any(
            hasattr(c, "dtype") or isinstance(c, (list, tuple)) for c in condlist):
        conditions = [asarray(c) for c in condlist]
    else:
        condlist = asarray(condlist)
        conditions = [condlist[k] for k in range(len(condlist))] if condlist.ndim else [condlist]
    n, given = len(conditions), len(funclist)
    if given not in (n, n + 1):
        raise ValueError(explain(f"with {n} condition(s), either {n} or {n + 1} functions are "
                                 f"expected; got {given}"))
    cases = [funclist[-1] if given == n + 1 else 0, *funclist[:n]]
    with lazy_eval("piecewise"):
        x = asarray(x)
        shape, dtype = shape_of(x), dtype_of(x)
        which = _which(x, conditions, shape)
        values = [_each(f, x if which is None else ar.choose(
                        ew.eq(which, np.int32(k)), x, ew.stop_gradient(x)), args, kw)
                  if callable(f) else util.cast(util.one_array("piecewise", f), dtype)
                  for k, f in enumerate(cases)]
        out = util.broadcast_to(asarray(util.cast(values[0], dtype)), shape)
        for c, v in zip(conditions, values[1:]):
            out = ar.choose(util.broadcast_to(as_truth(c), shape), util.cast(v, dtype), out)
        return out


def _which(x: Any, conditions: Sequence[Any], shape: Shape) -> Any:
    """The number of each element's case where x may be differentiated: the other functions see a
    constant, since their derivatives may be infinite there (0 of them would be NaN)."""
    if not isinstance(x, Tracer) or not dtypes.is_inexact(dtype_of(x)):
        return None
    which = sh.broadcast_in_dim(np.int32(0), shape, ())
    for k, c in enumerate(conditions):
        which = ar.choose(util.broadcast_to(as_truth(c), shape), np.int32(k + 1), which)
    return which


def _each(f: Function, x: Any, args: Sequence[Any], kw: dict[str, Any]) -> Any:
    """f of every element."""
    aval = aval_of(x)
    (out,), (axis,) = vmap_flat(lambda v: [asarray(f(v, *args, **kw))], aval.size,
                                [sh.reshape(x, (aval.size,))], [0])
    if axis is None:
        return out
    return sh.reshape(move_axis(out, axis, 0), aval.shape)


__all__ = ["choose", "compress", "extract", "fill_diagonal", "piecewise", "place", "put",
           "put_along_axis", "take", "take_along_axis"]
