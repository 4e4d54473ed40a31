"""Ranges of numbers: arange, linspace, logspace, geomspace, meshgrid, indices.

Of numbers that are known they are NumPy's, in float64, rounded once: a point that is exact stays
so, and in jit they are constants (up to LONGEST values).  Start reading at `_between`, which is the
form for traced ends.
"""
from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ndim_of, shape_of
from calque.core.dims import Dim, max_dim, number, sign
from calque.core.errors import ConcretizationTypeError, explain
from calque.core.trace import Tracer, at_bottom, concretization_error
from calque.dispatch.array import Array, from_numpy
from calque.dispatch.eager import lazy_eval
from calque.dispatch.sharded.placing import made_on
from calque.lax.operands import as_size, as_sizes, canonical_axis
from calque.numpy import util
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh

LONGEST = 1 << 16  # values of a line that is a constant of a program


def _concrete(name: str, x: Any) -> Any:
    """A bound of arange as a Python or NumPy scalar."""
    if isinstance(x, Tracer):
        known = x.concrete()
        if known is None:
            raise concretization_error(
                x, f"It arose in the jnp.arange argument '{name}': a traced value {x.aval} was "
                "used where a concrete one is needed.",
                "mark the argument that it comes from as static.", ConcretizationTypeError)
        x = known
    if not util.is_arraylike(x):
        raise TypeError(explain(f"arange: {name} must be real number, not {type(x).__name__}"))
    if isinstance(x, Dim):
        return x
    if np.ndim(x) if not hasattr(x, "aval") else x.ndim:
        raise ValueError(explain(f"jax.numpy.arange: arguments must be scalars; got {name}={x}"))
    value = x._numpy()[()] if type(x) is Array else x[()] if isinstance(x, np.ndarray) else x
    if np.iscomplexobj(value):
        raise ValueError(explain(
            "arange: complex start, stop and step are not supported.",
            fix="build the real and imaginary parts apart."))
    return value


def arange(start: Any, stop: Any = None, step: Any = None, dtype: Any = None, *,
           device: Any = None, out_sharding: Any = None) -> Any:
    """Evenly spaced values in the half-open interval [start, stop).

    Args:
      start: the first value; with one argument the end, and 0 is the first value.
      stop: the end, not included.
      step: the distance of neighbours, 1 by default.
      dtype: the dtype; that of the arguments by default.
      device: where to put it: a Device or a Sharding.
      out_sharding: the same over Explicit axes: a NamedSharding, or a PartitionSpec over the
        context's mesh.

    Returns:
      An Array of ceil((stop - start) / step) elements.

    Raises:
      TypeError: an argument is no number.
      ConcretizationTypeError: an argument is traced (the length must be known).

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.arange(1, 7, 2)
      Array([1, 3, 5], dtype=int32)
    """
    wanted = None if dtype is None else util.user_dtype("arange", dtype)
    if stop is None and step is None:
        start, stop = 0, _concrete("stop", start)
        given = [stop]
    else:
        start = _concrete("start", start)
        given = [start]
        if stop is None:
            start, stop = 0, start
        else:
            stop = _concrete("stop", stop)
            given.append(stop)
        if step is not None:
            step = _concrete("step", step)
            given.append(step)
    found = dtypes.result_type(*given) if wanted is None else wanted
    if found == dtypes.bool_:
        raise TypeError(explain("iota does not accept dtype bool. Accepted dtypes are subtypes of "
                                "integer, floating, complexfloating."))
    return made_on("arange", device, out_sharding,
                   lambda: _arange(start, stop, 1 if step is None else step, found))


def _arange(start: Any, stop: Any, step: Any, dtype: Any) -> Any:
    symbolic = any(isinstance(v, Dim) for v in (start, stop, step))
    if not isinstance(step, Dim) and step == 0:
        if symbolic:
            raise ValueError(explain("A symbolic arange has step == 0."))
        raise ZeroDivisionError(explain("arange: division by zero: step is 0."))
    if symbolic:
        if not all(isinstance(v, (Dim, int, np.integer)) for v in (start, stop, step)):
            raise ValueError(explain(
                "In symbolic arange the arguments must be either dimension expressions or "
                f"integers, got {start}, {stop}, {step}.", fix="scale the result instead."))
        forward = sign(step) if isinstance(step, Dim) else step > 0
        span, width = (stop - start, step) if forward else (start - stop, -step)
        line = sh.iota(dtype, (max_dim((span + width - 1) // width, 0),))
        if isinstance(step, Dim) or step != 1:
            line = ew.mul(line, number(step, dtype))
        return line if not isinstance(start, Dim) and start == 0 else ew.add(
            number(start, dtype), line)
    span = (np.float64(stop) - np.float64(start)) if any(
        isinstance(v, (float, np.floating)) for v in (start, stop)) else int(stop) - int(start)
    size = max(0, math.ceil(span / step)) if not isinstance(span, int) or not isinstance(
        step, (int, np.integer)) else max(0, -(-span // int(step)))
    first, distance = (np.asarray(v).astype(dtype)[()] for v in (start, step))
    whole = dtypes.is_integer(dtype) or start == int(start) and step == int(step)
    if at_bottom() or not whole and size <= LONGEST:
        wide = dtype if dtypes.is_integer(dtype) else np.dtype(np.float64)
        with np.errstate(all="ignore"), util.on_host("arange"):
            line = np.arange(size).astype(wide)
            line = line if step == 1 else line * np.asarray(step).astype(wide)
            line = line if start == 0 else np.asarray(start).astype(wide) + line
            line = line.astype(dtype)
        return from_numpy(line)
    line = sh.iota(dtype, (size,))
    if step != 1:
        line = ew.mul(line, distance)
    return line if start == 0 else ew.add(first, line)


def linspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False,
             dtype: Any = None, axis: int = 0, *, device: Any = None) -> Any:
    """num evenly spaced values from start to stop.

    Args:
      start: the first value, or an array of them.
      stop: the last value (not included without endpoint), or an array of them.
      num: the number of values (static).
      endpoint: whether stop is the last value.
      retstep: also return the distance of neighbours.
      dtype: the dtype; the float dtype of start and stop by default. Integers are rounded down.
      axis: where the axis of values stands, when start or stop is an array.
      device: where to put it: a Device or a Sharding.

    Returns:
      An Array of num values along axis; with retstep a pair of it and the step.

    Raises:
      ValueError: num is negative.
      TypeError: num is no int.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.linspace(0, 1, 5)
      Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    made = _kept_line if type(num) is int and num <= LONGEST else _line
    values, step = made(start, stop, num, endpoint, dtype, axis)
    values = made_on("linspace", device, None, lambda: values)
    return (values, step) if retstep else values


def _line(start: Any, stop: Any, num: Any, endpoint: bool, dtype: Any, axis: int
          ) -> tuple[Any, Any]:
    """The values of linspace, and their distance."""
    count = _count("linspace", num)
    start, stop = util.check_arrays("linspace", start, stop)
    wanted = dtypes.result_type(start, stop) if dtype is None else util.user_dtype(
        "linspace", dtype)
    if dtype is None:
        wanted = util.to_inexact(wanted)
    working = util.to_inexact(dtypes.result_type(
        start, stop, *([wanted] if dtypes.is_inexact(wanted) else [])))
    if _on_host(start, stop, count=count):
        return _linspace_host(start, stop, count, endpoint, working, wanted)
    with lazy_eval("linspace"):
        return _linspace(start, stop, count, endpoint, working, wanted, axis)


_kept_line = util.planned(_line)


def _count(name: str, num: Any) -> Any:
    if isinstance(num, Dim):
        return num
    if isinstance(num, Tracer):
        _ = as_size(name, num)
    count = operator.index(num)
    if count < 0:
        raise ValueError(explain(f"Number of samples, {num}, must be non-negative."))
    return count


def _on_host(*values: Any, count: Any = 0) -> bool:
    """Whether NumPy makes a line of so many values: what it gives is a constant of programs."""
    return (isinstance(count, int) and (at_bottom() or count <= LONGEST)
            and not any(hasattr(v, "aval") or np.ndim(v) for v in values))


def _rounded(line: Any, dtype: Any) -> Any:
    """NumPy's line, in float64, in the dtype asked for: a point that is exact stays so."""
    return from_numpy(np.asarray(dtypes.converted(
        np.asarray(np.floor(line) if dtypes.is_integer(dtype) else line), dtype)))


def _linspace_host(start: Any, stop: Any, count: int, endpoint: bool, working: Any,
                   wanted: Any) -> tuple[Any, Any]:
    """As _linspace, by NumPy, for scalars."""
    with np.errstate(all="ignore"), util.on_host("linspace"):
        first, last = (np.asarray(v).astype(
            complex if np.iscomplexobj(v) else float)[()] for v in (start, stop))
        line = np.linspace(first, last, count, endpoint)
        parts = count - 1 if endpoint else count
        step = (last - first) / parts if parts > 0 else np.nan
        return _rounded(line, wanted), from_numpy(np.asarray(step).astype(working))


def _between(first: Any, last: Any, parts: int, working: Any) -> Any:
    """first and last, of shape (1, *shape), and what lies between in parts equal parts; without
    the end.

    Their weights are whole numbers divided by a power of two, so that nothing overflows and the one
    division, at the end, is what rounds where the point is exact: 25 * 3 / 5 is 15, where 25 times
    0.6 is above.
    """
    real = dtypes.real_dtype(working)
    wide = real if real.itemsize > 2 else np.dtype(np.float32)
    made = np.result_type(wide, np.complex64) if working.kind == "c" else wide
    power = np.exp2(np.ceil(np.log2(parts)))
    shape = shape_of(first)
    i = ew.div(sh.iota(wide, (parts,)), wide.type(power))
    part = wide.type(parts / power)
    full = (parts, *shape[1:])
    column = [util.broadcast_to(ew.convert(sh.reshape(r, (parts, *(1,) * (len(shape) - 1))), made),
                                full) for r in (ew.sub(part, i), i)]
    ends = [util.broadcast_to(ew.convert(x, made), full) for x in (first, last)]
    total = ew.add(ew.mul(ends[0], column[0]), ew.mul(ends[1], column[1]))
    return ew.convert(ew.div(total, np.asarray(part).astype(made)[()]), working)


def _linspace(start: Any, stop: Any, count: int, endpoint: bool, working: Any, wanted: Any,
              axis: int) -> tuple[Any, Any]:
    first, last = (util.cast(v, working) for v in (start, stop))
    shape = util.common_shape("linspace", [shape_of(first), shape_of(last)])
    first, last = util.broadcast_to(first, shape), util.broadcast_to(last, shape)
    real = dtypes.real_dtype(working)
    parts = count - 1 if endpoint else count
    ones = (1,) * len(shape)

    def raised(x: Any) -> Any:
        return sh.reshape(x, (1, *shape))

    known = not isinstance(count, Dim)
    nan = np.asarray(np.nan).astype(working)[()]
    if not known or parts > 0:
        step = ew.div(ew.sub(last, first), number(parts, working))
    else:
        step = util.array(nan)
    if not known:  # it may be 1: then there is no step, and the one value is the first
        alone = ew.eq(number(parts, np.int32), np.int32(0))
        step = ew.select_n(alone, step, util.broadcast_to(nan, shape))
        last = ew.select_n(alone, last, first) if endpoint else last
    if count == 0:
        line = sh.broadcast_in_dim(working.type(0), (0, *shape), ())
    elif count == 1:
        line = raised(first)
    elif known:
        line = _between(raised(first), raised(last), parts, working)
        if endpoint:
            line = sh.concatenate([line, raised(last)], 0)
    else:
        ratio = ew.div(sh.iota(real, (parts,)), number(parts, real))
        rest = ew.sub(real.type(1), ratio)
        column = [ew.convert(sh.reshape(r, (parts, *ones)), working) for r in (rest, ratio)]
        full = (parts, *shape)
        line = ew.add(
            ew.mul(util.broadcast_to(raised(first), full), util.broadcast_to(column[0], full)),
            ew.mul(util.broadcast_to(raised(last), full), util.broadcast_to(column[1], full)))
        if endpoint:
            line = sh.concatenate([line, raised(last)], 0)
    if dtypes.is_integer(wanted) and not dtypes.is_integer(working):
        line = ew.floor(line)
    line = util.cast(line, wanted)
    axis = canonical_axis(axis, len(shape) + 1)
    if axis:
        order = [*range(1, axis + 1), 0, *range(axis + 1, len(shape) + 1)]
        line = sh.transpose(line, order)
    return line, step


@util.planned
def logspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0,
             dtype: Any = None, axis: int = 0) -> Any:
    """num values from base**start to base**stop, evenly spaced in their logarithms.

    Args:
      start: exponent of the first value.
      stop: exponent of the last value.
      num: the number of values (static).
      endpoint: whether base**stop is the last value.
      base: the base.
      dtype: the dtype; the float dtype of the arguments by default.
      axis: where the axis of values stands.

    Returns:
      An Array of num values along axis.

    Raises:
      ValueError: num is negative.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.logspace(0, 2, 3).round()
      Array([  1.,  10., 100.], dtype=float32)
    """
    from calque.numpy.arithmetic import power
    start, stop, base = util.check_arrays("logspace", start, stop, base)
    wanted = util.to_inexact(dtypes.result_type(start, stop, base)) if dtype is None else (
        util.user_dtype("logspace", dtype))
    working = util.to_inexact(dtypes.result_type(start, stop, base))
    if _on_host(start, stop, base, count=num):
        with np.errstate(all="ignore"), util.on_host("logspace"):
            return _rounded(np.logspace(start, stop, _count("logspace", num), endpoint, base),
                            wanted)
    with lazy_eval("logspace"):
        line = linspace(start, stop, num, endpoint, dtype=working, axis=axis)
        return util.cast(power(util.cast(base, working), line), wanted)


@util.planned
def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None,
              axis: int = 0) -> Any:
    """num values from start to stop with a constant ratio of neighbours.

    Args:
      start: the first value.
      stop: the last value, of the same sign.
      num: the number of values (static).
      endpoint: whether stop is the last value.
      dtype: the dtype; the float dtype of the arguments by default.
      axis: where the axis of values stands.

    Returns:
      An Array of num values along axis.

    Raises:
      ValueError: num is negative.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.geomspace(1, 100, 3).round()
      Array([  1.,  10., 100.], dtype=float32)
    """
    from calque.numpy import ufuncs as uf
    from calque.numpy.parts import log10
    start, stop = util.check_arrays("geomspace", start, stop)
    working = util.to_inexact(dtypes.result_type(start, stop))
    wanted = working if dtype is None else util.user_dtype("geomspace", dtype)
    if _on_host(start, stop, count=num) and start != 0 and stop != 0:
        with np.errstate(all="ignore"), util.on_host("geomspace"):
            return _rounded(np.geomspace(start, stop, _count("geomspace", num), endpoint), wanted)
    with lazy_eval("geomspace"):
        first, last = util.broadcast_all("geomspace", util.cast(start, working),
                                         util.cast(stop, working))
        sign = uf.sign(first)
        line = logspace(log10(uf.divide(first, sign)), log10(uf.divide(last, sign)), num,
                        endpoint=endpoint, base=10.0, axis=0)
        line = uf.multiply(line, sign)
        count = shape_of(line)[0]
        if count:
            first_row = sh.reshape(util.array(first), (1, *shape_of(first)))
            last_row = sh.reshape(util.array(last), (1, *shape_of(last)))
            inner = sh.slice_in_dim(line, 1, count - 1 if endpoint and count > 1 else count, 0)
            parts = [first_row, inner, *([last_row] if endpoint and count > 1 else [])]
            line = sh.concatenate(parts, 0)
        axis = canonical_axis(axis, ndim_of(line))
        order = [*range(1, axis + 1), 0, *range(axis + 1, ndim_of(line))]
        return util.cast(sh.transpose(line, order), wanted)


@util.planned
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> list[Any]:
    """Coordinate arrays of a grid from coordinate vectors.

    Args:
      *xi: vectors of coordinates.
      copy: must be True.
      sparse: leave the axes that do not vary at size 1.
      indexing: 'xy' (the first two axes exchanged) or 'ij'.

    Returns:
      A list with one Array for each vector.

    Raises:
      ValueError: an argument is no vector, or indexing is unknown.

    Example:
      >>> import calque.numpy as jnp
      >>> [g.shape for g in jnp.meshgrid(jnp.arange(3), jnp.arange(2))]
      [(2, 3), (2, 3)]
    """
    if not copy:
        raise ValueError(explain("jax.numpy.meshgrid only supports copy=True"))
    if indexing not in ("xy", "ij"):
        raise ValueError(explain(
            f"Valid values for indexing are 'xy' and 'ij', got {indexing}"))
    values = util.check_arrays("meshgrid", *xi)
    if any(ndim_of(v) != 1 for v in values):
        raise ValueError(explain(
            "Arguments to jax.numpy.meshgrid must be 1D, got shapes "
            f"{[shape_of(v) for v in values]}",
            fix="reshape them to vectors, for example with jnp.atleast_1d."))
    rank = len(values)
    axes = list(range(rank))
    if indexing == "xy" and rank >= 2:
        axes[0], axes[1] = 1, 0
    sizes = [math.prod(shape_of(v)) for v in values]
    shape = [0] * rank
    for axis, n in zip(axes, sizes):
        shape[axis] = n
    with lazy_eval("meshgrid"):
        made = []
        for axis, v in zip(axes, values):
            line = util.array(v)
            own = [shape_of(line)[0] if sparse and i == axis else (1 if sparse else shape[i])
                   for i in range(rank)]
            made.append(sh.broadcast_in_dim(line, own, (axis,)))
        return made


def indices(dimensions: Any, dtype: Any = None, sparse: bool = False) -> Any:
    """The index along every axis, at every position of a shape.

    Args:
      dimensions: a shape.
      dtype: the dtype; int32 (int64 with x64) by default.
      sparse: return a tuple of arrays that have size 1 on the other axes.

    Returns:
      An Array of shape (len(dimensions), *dimensions), or a tuple.

    Raises:
      TypeError: dimensions is no shape.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.indices((2,))
      Array([[0, 1]], dtype=int32)
    """
    sizes = as_sizes("indices", dimensions)
    wanted = dtypes.default_dtype(int) if dtype is None else util.user_dtype("indices", dtype)
    rank = len(sizes)
    if at_bottom():
        with util.on_host("indices"):
            grid = np.indices(sizes, sparse=sparse)  # type: ignore[call-overload]
            if sparse:
                return tuple(from_numpy(g.astype(wanted)) for g in grid)
            return from_numpy(np.asarray(grid).astype(wanted))
    if sparse:
        return tuple(sh.iota(wanted, [n if i == j else 1 for j in range(rank)], i)
                     for i, n in enumerate(sizes))
    if not rank:
        return sh.broadcast_in_dim(wanted.type(0), (0,), ())
    return sh.concatenate([sh.iota(wanted, (1, *sizes), i + 1) for i in range(rank)], 0)


__all__ = ["arange", "geomspace", "indices", "linspace", "logspace", "meshgrid"]
