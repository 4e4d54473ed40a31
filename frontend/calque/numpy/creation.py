"""Making arrays: array, asarray, zeros, ones, full, empty and their _like forms, arange, linspace,
eye, tri.  Values that are known on the host become one buffer when called eagerly; under a
transformation they are recorded as JAX records them.  Start reading at `array`.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core import dims, dtypes
from calque.core.avals import aval_of, dtype_of, refuse_masked, shape_of
from calque.core.config import config
from calque.core.errors import explain
from calque.core.trace import Tracer, at_bottom
from calque.core.types import Ndarray, Shape
from calque.dispatch import strings, transfers
from calque.dispatch.array import Array, from_numpy, from_scalar
from calque.dispatch.eager import lazy_eval, stands_for_number
from calque.dispatch.sharded.placing import beside, made_on
from calque.lax.make import spread_scalar, varying_as
from calque.lax.operands import as_size, as_sizes, numpy_operand
from calque.numpy import many, util
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.primitives.random import filled_key, impl_of, random_wrap_p

SMALL = 65536  # bytes up to which a list of arrays is put together on the host


# ---- array, asarray
def array(object: Any, dtype: Any = None, *args: Any, copy: bool = True, order: str | None = "K",
          ndmin: int = 0, device: Any = None, out_sharding: Any = None) -> Any:
    """An array with the values of a number, a sequence (nested), a NumPy array or an array.

    Args:
      object: what to convert; lists may hold arrays and traced values (a masked array: its data).
      dtype: the dtype; by default that of the values (Python scalars: int32, float32, complex64,
        weakly typed when they stand alone).
      copy: False lets an array be returned as it is (args: copy, order, ndmin by position).
      order: 'K' (memory order is not a property of arrays here).
      ndmin: the least number of axes; axes of size 1 are put in front.
      device: where to put it: a Device or a Sharding.
      out_sharding: the same over Explicit axes: a NamedSharding, or a PartitionSpec over the
        context's mesh.

    Returns:
      An Array.

    Raises:
      TypeError: a value is not numeric.
      ValueError: nested sequences of unequal lengths.
      OverflowError: a Python int does not fit the dtype.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.array([1, 2.5])
      Array([1. , 2.5], dtype=float32)
    """
    if args:
        copy, order, ndmin = util.by_position(args, copy, order, ndmin)
    if order not in (None, "K"):
        raise NotImplementedError(explain(
            f"array: order={order!r} is not supported: only implemented for order='K'.",
            fix="leave order out."))
    if isinstance(object, np.ndarray) and type(object) is not np.ndarray:
        object = np.asarray(object)  # noqa: A001 (a masked one's data)
    named = strings.asked(dtype, object)
    wanted = named if named or dtype is None else util.user_dtype("array", dtype)
    made = made_on("array", device, out_sharding, lambda: _convert(object, wanted, copy),
                   of=object)
    missing = ndmin - made.ndim
    if missing > 0:
        shape = (1,) * missing + made.shape
        made = sh.broadcast_in_dim(made, shape, tuple(range(missing, ndmin)))
    return made


def asarray(a: Any, dtype: Any = None, order: str | None = None, *, copy: bool | None = None,
            device: Any = None, out_sharding: Any = None) -> Any:
    """The values of `a` as an array; an array of the right dtype is returned as it is.

    Args:
      a: as in array.
      dtype: the dtype; that of the values by default.
      order: None or 'K'.
      copy: True copies, False and None copy where it is necessary.
      device: where to put it: a Device or a Sharding.
      out_sharding: the same over Explicit axes: a NamedSharding, or a PartitionSpec over the
        context's mesh.

    Returns:
      An Array.

    Raises:
      TypeError: a value is not numeric.
      OverflowError: a Python int does not fit the dtype.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.asarray(1.0)
      Array(1., dtype=float32, weak_type=True)
    """
    if isinstance(a, np.ndarray):
        refuse_masked(a)
    return array(a, dtype, copy=bool(copy), order=order, device=device,
                 out_sharding=out_sharding)


def copy(a: Any, order: str | None = None) -> Any:
    """A copy of an array.

    Args:
      a: an array.
      order: None or 'K'.

    Returns:
      An Array.

    Raises:
      TypeError: a is no array.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.copy(jnp.ones(2))
      Array([1., 1.], dtype=float32)
    """
    x = util.one_array("copy", a)
    return array(x, copy=True, order=order)


def _convert(x: Any, dtype: Any, copy: bool) -> Any:
    if isinstance(x, Array):
        aval = aval_of(x)
        if dtype is not None and (aval.dtype != dtype or aval.weak_type):
            return ew.convert(x, dtype)
        if isinstance(x, Tracer):
            return ew.copy(x) if copy or stands_for_number(x) else x
        return x.__copy__() if copy and x._pending is None else x
    if x is None:
        raise ValueError(explain("None is not a valid value for jnp.array",
                                 fix="pass jnp.nan for missing values."))
    if isinstance(x, (bool, int, float, complex)) and not isinstance(x, np.generic):
        return _scalar(x, dtype)
    if isinstance(x, (np.ndarray, np.generic)):
        return _from_numpy(x, dtype) if x.dtype.kind != "T" else strings.of_numpy(x, dtype)
    if isinstance(x, (list, tuple, range)):
        return _sequence(x, dtype)
    if hasattr(x, "__jax_array__"):
        return _convert(x.__jax_array__(), dtype, copy)
    if hasattr(x, "__array__"):
        return _from_numpy(np.asarray(x), dtype)
    if isinstance(x, (str, bytes, set, dict)) and not (x == b"" and dtype == dtypes.float0):
        raise util.not_numeric(x)
    value = np.asarray(x, dtype if isinstance(x, bytes) else None)  # a buffer, b"" of float0, ...
    if value.dtype.kind not in "OSUMm":
        return _from_numpy(value, dtype)
    raise util.not_numeric(x)


def _scalar(x: Any, dtype: Any) -> Array:
    x = dtypes.plain_number(x)
    if dtype is None:
        dtypes.check_fits(x)
        return from_scalar(x)
    return from_numpy(_host(x, dtype))


def _host(x: Any, dtype: Any) -> Ndarray:
    """np.asarray of Python values with its errors in three parts."""
    try:
        return np.asarray(x, dtype=dtype)
    except OverflowError as error:
        raise OverflowError(explain(
            f"{error}", fix="use a wider dtype (64-bit ones need x64), or floats.")) from None
    except (ValueError, TypeError) as error:
        raise type(error)(explain(str(error), fix="check the values given to array.")) from None


def _from_numpy(x: Any, dtype: Any) -> Array:
    value = numpy_operand("array", x, dtype)
    if dtype is not None and value.dtype != dtype:
        with np.errstate(all="ignore"):
            value = (value.real if dtype.kind != "c" and value.dtype.kind == "c"
                     else value).astype(dtype)
    return from_numpy(value)


def _sequence(x: Any, dtype: Any) -> Any:
    """Nested lists: on the host when everything is there, else stacked."""
    leaves: list[Any] = []
    _collect(x, leaves)
    if any(hasattr(v, "__jax_array__") for v in leaves):
        return _sequence(_with_arrays(x), dtype)
    arrays = [v for v in leaves if isinstance(v, Array)]
    if dtype is None:
        dtype = dtypes.promote([dtypes.dtype_and_weak(_leaf(v)) for v in leaves])[0] if (
            leaves) else dtypes.default_dtype(float)
    if not arrays:
        return from_numpy(_host(x if leaves is not None else [], dtype))
    if all(type(v) is Array and v._pending is None and not dtypes.is_key(v.dtype)
           and not (dtypes.is_integer(dtype) and dtypes.is_inexact(v.dtype)) for v in arrays
           ) and at_bottom() and sum(v.nbytes for v in arrays) <= (
               SMALL if len(arrays) < many.MANY else many.MOST):
        made = _host(_values(x), dtype)
        return transfers.explicit(lambda: from_numpy(made), "ours") if (
            len(arrays) == len(leaves)) else from_numpy(made)  # (arrays joined are no transfer)
    with lazy_eval("array"):
        return _stacked(x, dtype)


def _collect(x: Any, leaves: list[Any]) -> None:
    for v in x:
        if isinstance(v, (list, tuple, range)):
            _collect(v, leaves)
        elif v is None:
            raise ValueError(explain("None is not a valid value for jnp.array",
                                     fix="pass jnp.nan for missing values."))
        else:
            leaves.append(v)


def _with_arrays(x: Any) -> Any:
    """Nested lists with arrays for what can become one: symbolic sizes, wrappers of arrays."""
    if isinstance(x, (list, tuple, range)):
        return [_with_arrays(v) for v in x]
    return x.__jax_array__() if hasattr(x, "__jax_array__") else x


def _leaf(v: Any) -> Any:
    """A leaf of a list as something with a dtype."""
    if type(v) is int:
        return v
    if isinstance(v, (bool, int, float, complex, np.generic, np.ndarray)) or hasattr(v, "aval"):
        return util.one_array("array", v)
    if isinstance(v, (str, bytes)):
        raise util.not_numeric(v)
    return numpy_operand("array", np.asarray(v))


def _values(x: Any) -> Any:
    """Nested lists with the NumPy values of their arrays."""
    if isinstance(x, (list, tuple, range)):
        return [_values(v) for v in x]
    return x._numpy() if type(x) is Array else x


def _stacked(x: Any, dtype: Any) -> Any:
    """Nested lists with traced values: each level is one concatenate."""
    if not isinstance(x, (list, tuple, range)):
        x = dtypes.filling(x, dtype) if dtypes.is_inexact(dtype) else dtypes.held(x, dtype)
        return util.cast(util.one_array("array", _leaf(x)), dtype)
    parts = [_stacked(v, dtype) for v in x]
    if not parts:
        return from_numpy(np.zeros((0,), dtype))
    raised = [sh.broadcast_in_dim(p, (1, *shape_of(p)), tuple(range(1, len(shape_of(p)) + 1)))
              for p in parts]
    return raised[0] if len(raised) == 1 else sh.concatenate(raised, 0)


# ---- filled arrays
def _filled(name: str, shape: Any, value: Any, dtype: Any, device: Any, sharding: Any) -> Any:
    wanted: Any = dtypes.default_dtype(float) if dtype is None else util.user_dtype(name, dtype)
    sizes = as_sizes(name, shape)
    _check_sizes(name, sizes)
    if config.guards:
        transfers.check("host_to_device", value)
    if dtypes.is_key(wanted):  # a key's words are the value
        key = filled_key(wanted, value)
        return made_on(name, device, sharding, lambda: util.broadcast_to(key, sizes), sizes)
    return made_on(name, device, sharding, lambda: spread_scalar(value, sizes, wanted), sizes)


def _check_sizes(name: str, sizes: Shape) -> None:
    if any(n < 0 for n in sizes):
        raise TypeError(explain(f"{name}: shape must have every element be nonnegative, got "
                                f"{sizes}."))


def zeros(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """An array of zeros.

    Args:
      shape: sizes of the axes, or one size.
      dtype: the dtype; float32 (float64 with x64) by default.
      device: where to put it: a Device or a Sharding.
      out_sharding: the same over Explicit axes: a NamedSharding, or a PartitionSpec over the
        context's mesh.

    Returns:
      An Array of the shape and dtype.

    Raises:
      TypeError: shape is not a sequence of non-negative ints.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.zeros(2)
      Array([0., 0.], dtype=float32)
    """
    return _filled("zeros", shape, 0, dtype, device, out_sharding)


def ones(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """An array of ones.

    Args:
      shape: sizes of the axes, or one size.
      dtype: the dtype; float32 (float64 with x64) by default.
      device: where to put it: a Device or a Sharding.
      out_sharding: the same over Explicit axes: a NamedSharding, or a PartitionSpec over the
        context's mesh.

    Returns:
      An Array of the shape and dtype.

    Raises:
      TypeError: shape is not a sequence of non-negative ints.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.ones(2, "int32")
      Array([1, 1], dtype=int32)
    """
    return _filled("ones", shape, 1, dtype, device, out_sharding)


def empty(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """An array of zeros (arrays without values do not exist here).

    Args:
      shape: sizes of the axes, or one size.
      dtype: the dtype; float32 (float64 with x64) by default.
      device: where to put it: a Device or a Sharding.
      out_sharding: the same over Explicit axes: a NamedSharding, or a PartitionSpec over the
        context's mesh.

    Returns:
      An Array of the shape and dtype.

    Raises:
      TypeError: shape is not a sequence of non-negative ints.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.empty(2).shape
      (2,)
    """
    return _filled("empty", shape, 0, dtype, device, out_sharding)


def full(shape: Any, fill_value: Any, dtype: Any = None, *, device: Any = None,
         out_sharding: Any = None) -> Any:
    """An array of one value, or of an array broadcast to a shape.

    Args:
      shape: sizes of the axes, or one size.
      fill_value: a scalar, or an array that broadcasts to shape.
      dtype: the dtype; that of fill_value by default (weak if that is weak).
      device: where to put it: a Device or a Sharding.
      out_sharding: the same over Explicit axes: a NamedSharding, or a PartitionSpec over the
        context's mesh.

    Returns:
      An Array of the shape and dtype.

    Raises:
      TypeError: fill_value is not an array, or shape no shape.
      ValueError: fill_value does not broadcast to shape.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.full(2, 7.0)
      Array([7., 7.], dtype=float32, weak_type=True)
    """
    wanted = None if dtype is None else util.user_dtype("full", dtype)
    value = util.one_array("full", fill_value if wanted is None else dtypes.filling(
        fill_value, wanted))
    sizes = as_sizes("full", shape)
    _check_sizes("full", sizes)
    return _full(value, sizes, "full", wanted, None, device, out_sharding)


def _full(value: Any, sizes: Shape, name: str, dtype: Any, default: Any, device: Any,
          sharding: Any = None) -> Any:
    """default: (dtype, weak) where dtype is None; those of the value when it is None too."""
    found, weak = (dtype, False) if dtype is not None else default or dtypes.dtype_and_weak(value)

    def make() -> Any:
        if isinstance(found, dtypes.KeyDtype) and type(value) is int:
            return spread_scalar(filled_key(found, value), sizes, found)
        if shape_of(value) == ():
            return spread_scalar(value, sizes, found, weak)
        from calque.numpy.shapes import broadcast_to
        with lazy_eval(name):
            return broadcast_to(util.cast(value, found, weak), sizes)

    return made_on(name, device, sharding, make, sizes)


def _like(name: str, a: Any, value: Any, dtype: Any, shape: Any, device: Any,
          sharding: Any = None) -> Any:
    if not hasattr(a, "shape") or not hasattr(a, "dtype"):
        a = util.one_array(name, 0 if type(a) is int else a)  # (its value does not matter)
    sizes = shape_of(a) if shape is None else as_sizes(name, shape)
    if shape is None and not hasattr(a, "aval"):
        sizes = tuple(np.shape(a)) if not hasattr(a, "shape") else tuple(a.shape)
    _check_sizes(name, sizes)
    if dtype is not None:
        dtype = util.user_dtype(name, dtype)
    keys: Any = getattr(a, "dtype", None) if dtype is None else dtype
    value = util.one_array(name, value if keys is None else dtypes.filling(value, keys), 1)
    if dtypes.is_key(keys) and dtype_of(value) == keys:
        from calque.numpy.shapes import broadcast_to
        return made_on(name, device, sharding, lambda: broadcast_to(value, sizes), sizes)
    if dtypes.is_key(keys):  # all words
        words = _full(value, (*sizes, keys.words), name, np.dtype("u4"), None, device, sharding)
        return random_wrap_p.bind(words, **impl_of(keys))
    made = _full(value, sizes, name, dtype, dtypes.dtype_and_weak(a), device, sharding)
    if shape is None and device is None:
        made = beside(a, made)
    return varying_as(a, made)


def zeros_like(a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None,
               out_sharding: Any = None) -> Any:
    """Zeros in the shape and dtype of an array.

    Args:
      a: an array, or anything with shape and dtype.
      dtype: the dtype; a's by default.
      shape: the shape; a's by default.
      device: where to put it: a Device or a Sharding.
      out_sharding: the same over Explicit axes: a NamedSharding, or a PartitionSpec over the
        context's mesh.

    Returns:
      An Array.

    Raises:
      TypeError: a is no array.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.zeros_like(jnp.arange(2))
      Array([0, 0], dtype=int32)
    """
    return _like("zeros_like", a, 0, dtype, shape, device, out_sharding)


def ones_like(a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None,
              out_sharding: Any = None) -> Any:
    """Ones in the shape and dtype of an array.

    Args:
      a: an array, or anything with shape and dtype.
      dtype: the dtype; a's by default.
      shape: the shape; a's by default.
      device: where to put it: a Device or a Sharding.
      out_sharding: the same over Explicit axes: a NamedSharding, or a PartitionSpec over the
        context's mesh.

    Returns:
      An Array.

    Raises:
      TypeError: a is no array.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.ones_like(jnp.arange(2))
      Array([1, 1], dtype=int32)
    """
    return _like("ones_like", a, 1, dtype, shape, device, out_sharding)


def empty_like(prototype: Any, dtype: Any = None, shape: Any = None, *,
               device: Any = None) -> Any:
    """Zeros in the shape and dtype of an array (arrays without values do not exist here).

    Args:
      prototype: an array, or anything with shape and dtype.
      dtype: the dtype; prototype's by default.
      shape: the shape; prototype's by default.
      device: where to put it: a Device or a Sharding.

    Returns:
      An Array.

    Raises:
      TypeError: prototype is no array.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.empty_like(jnp.arange(2)).shape
      (2,)
    """
    return _like("empty_like", prototype, 0, dtype, shape, device)


def full_like(a: Any, fill_value: Any, dtype: Any = None, shape: Any = None, *,
              device: Any = None, out_sharding: Any = None) -> Any:
    """One value in the shape and dtype of an array.

    Args:
      a: an array, or anything with shape and dtype.
      fill_value: a scalar, or an array that broadcasts to the shape.
      dtype: the dtype; a's by default.
      shape: the shape; a's by default.
      device: where to put it: a Device or a Sharding.
      out_sharding: the same over Explicit axes: a NamedSharding, or a PartitionSpec over the
        context's mesh.

    Returns:
      An Array.

    Raises:
      TypeError: a or fill_value is no array.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.full_like(jnp.arange(2), 7)
      Array([7, 7], dtype=int32)
    """
    return _like("full_like", a, fill_value, dtype, shape, device, out_sharding)


# ---- identity and triangles
def eye(N: int, M: int | None = None, k: Any = 0, dtype: Any = None, *,
        device: Any = None) -> Any:
    """A matrix with ones on a diagonal and zeros elsewhere.

    Args:
      N: number of rows.
      M: number of columns; N by default.
      k: the diagonal: 0 the main one, positive above, negative below.
      dtype: the dtype; float32 (float64 with x64) by default.
      device: where to put it: a Device or a Sharding.

    Returns:
      An Array of shape (N, M).

    Raises:
      TypeError: N or M is no int.
      ValueError: N or M is negative.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.eye(2)
      Array([[1., 0.],
             [0., 1.]], dtype=float32)
    """
    wanted = dtypes.default_dtype(float) if dtype is None else util.user_dtype("eye", dtype)
    rows, columns = as_size("eye", N), as_size("eye", N if M is None else M)
    if rows < 0 or columns < 0:
        raise ValueError(explain(f"negative dimensions are not allowed, got {N} and {M}"))
    if not hasattr(k, "__index__"):
        raise ValueError(explain(f"k must be a scalar integer; got {k!r}", fix="use int(k)."))

    def make() -> Any:
        at = max(-rows, min(int(k), columns)) if isinstance(k, (int, np.integer)) and not (
            dims.is_symbolic_dim(rows) or dims.is_symbolic_dim(columns)) else k
        if at_bottom() and isinstance(at, int):
            with util.on_host("eye"):
                return from_numpy(np.eye(rows, columns, at, dtype=np.int8).astype(wanted))
        with lazy_eval("eye"):
            row = sh.iota(dtypes.int32, (rows, columns), 0)
            column = sh.iota(dtypes.int32, (rows, columns), 1)
            shift = util.cast(util.one_array("eye", at), dtypes.int32)
            return ew.convert(ew.eq(ew.add(row, shift), column), wanted)

    return made_on("eye", device, None, make, (rows, columns))


def identity(n: int, dtype: Any = None) -> Any:
    """The identity matrix.

    Args:
      n: number of rows and columns.
      dtype: the dtype; float32 (float64 with x64) by default.

    Returns:
      An Array of shape (n, n).

    Raises:
      TypeError: n is no int.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.identity(2, "int32")
      Array([[1, 0],
             [0, 1]], dtype=int32)
    """
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Any:
    """A matrix with ones on and below a diagonal and zeros above.

    Args:
      N: number of rows.
      M: number of columns; N by default.
      k: the diagonal.
      dtype: the dtype; float32 (float64 with x64) by default.

    Returns:
      An Array of shape (N, M).

    Raises:
      TypeError: N or M is no int.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.tri(2)
      Array([[1., 0.],
             [1., 1.]], dtype=float32)
    """
    wanted = dtypes.default_dtype(float) if dtype is None else util.user_dtype("tri", dtype)
    rows = as_size("tri", N)
    columns = rows if M is None else as_size("tri", M)
    if not isinstance(k, Tracer):
        k = 0 if 0 in (rows, columns) else int(np.int32(int(k)))
        if at_bottom():
            with util.on_host("tri"):
                return from_numpy(np.tri(rows, columns, k, dtype=np.int8).astype(wanted))
    return ew.convert(below(rows, columns, k), wanted)


def below(rows: int, columns: int, k: Any) -> Any:
    """The bool matrix of tri, recorded."""
    k = max(-2**30, min(k, 2**30)) if type(k) is int and -2**31 <= k < 2**31 else k  # no wrap
    row = sh.iota(dtypes.int32, (rows, columns), 0)
    column = sh.iota(dtypes.int32, (rows, columns), 1)
    return ew.ge(ew.add(row, ew.match_shape(ew.convert(k, dtypes.int32), (rows, columns))),
                 column)


__all__ = ["array", "asarray", "copy", "empty", "empty_like", "eye", "full", "full_like",
           "identity", "ones", "ones_like", "tri", "zeros", "zeros_like"]
