"""astype and view: the same values in another dtype, the same bytes as another dtype."""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.dispatch.sharded.placing import made_on
from calque.numpy import util
from calque.numpy.creation import array as make_array
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh


def astype(x: Any, dtype: Any, /, *, copy: bool = False, device: Any = None) -> Any:
    """An array in another dtype; floats become integers by truncation.

    Args:
      x: array or scalar.
      dtype: the dtype; None for float32 (float64 with x64).
      copy: always return a new array.
      device: where to put it: a Device or a Sharding.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is no array.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.astype(jnp.array([1.5]), "int32")
      Array([1], dtype=int32)
    """
    x = util.one_array("astype", x)
    wanted = dtypes.default_dtype(float) if dtype is None else util.user_dtype("astype", dtype)
    own = dtype_of(x)
    if own.kind == "c" and not (dtypes.is_key(wanted) or wanted.kind == "c"):
        util.warn("Casting from complex to real dtypes will soon raise a ValueError. Please "
                  "first use jnp.real or jnp.imag to take the real/imaginary component of "
                  "your input.", DeprecationWarning)

    def make() -> Any:
        if own == wanted and not util.weak_of(x) and not copy:
            return util.array(x)
        if own == wanted and copy:
            return make_array(x, dtype=wanted)
        with util.lazy_eval("astype"):
            if own.kind == "c" and not dtypes.is_key(wanted) and wanted.kind != "c" and (
                    wanted == dtypes.bool_):
                return ew.ne(x, ew.const(x, 0))
            return util.array(util.cast(x, wanted))

    return made_on("astype", device, None, make, shape_of(x))


def view(self: Any, dtype: Any = None, type: None = None) -> Any:
    """The bytes of the array read as another dtype.

    Args:
      dtype: the dtype (None: the array's own); a wider one joins elements of the last axis, a
        narrower one splits them.
      type: must be None.

    Returns:
      An array.

    Raises:
      ValueError: the bytes of the last axis do not divide into elements of the dtype, or the array
        has no axis and the itemsize changes.
      NotImplementedError: `type` is given.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.asarray([1.0, -0.0]).view(jnp.uint32)
      Array([1065353216, 2147483648], dtype=uint32)
    """
    if type is not None:
        raise NotImplementedError(explain("`type` argument of array.view() is not supported."))
    wanted = dtype_of(self) if dtype is None else util.user_dtype("view", dtype)
    with util.lazy_eval("view"):
        return _viewed(self, wanted)


def _viewed(x: Any, wanted: Any) -> Any:
    own = dtype_of(x)
    if own == wanted:
        return util.cast(x, wanted)
    old, new = dtypes.itemsize_bits(own), dtypes.itemsize_bits(wanted)
    if old != new and not shape_of(x):
        raise ValueError(explain("view() of a 0d array is only supported if the itemsize is "
                                 "unchanged.", fix="add an axis with x[None]."))
    if new > old and shape_of(x)[-1] * old % new:
        raise ValueError(explain(
            "When changing to a larger dtype, its size must be a divisor of the total size in "
            "bytes of the last axis of the array."))
    if own == dtypes.bool_:
        return _viewed(ew.convert(x, np.dtype("uint8")), wanted)
    if wanted == dtypes.bool_:
        return ew.ne(_viewed(x, np.dtype("uint8")), np.uint8(0))
    if own.kind == "c":
        parts = [sh.reshape(p, (*shape_of(x), 1))
                 for p in (ew.real(x), ew.imag(x))]
        flat = sh.concatenate(parts, ndim_of(x))
        shape_ = shape_of(x)
        return _viewed(sh.reshape(flat, (*shape_[:-1], 2 * shape_[-1])), wanted)
    if wanted.kind == "c":
        flat = _viewed(x, dtypes.real_dtype(wanted))
        n = shape_of(flat)[-1]
        pairs = sh.reshape(flat, (*shape_of(flat)[:-1], n // 2, 2))
        axis = ndim_of(pairs) - 1
        return ew.complex_(*[sh.squeeze(sh.slice_in_dim(pairs, i, i + 1, axis), (axis,))
                             for i in (0, 1)])
    if new > old:
        own_shape = shape_of(x)
        ratio = new // old
        x = sh.reshape(x, (*own_shape[:-1], own_shape[-1] // ratio, ratio))
        return ew.bitcast_convert_type(x, new_dtype=wanted)
    out = ew.bitcast_convert_type(util.cast(x, own), new_dtype=wanted)
    if new == old:
        return out
    size = shape_of(out)
    return sh.reshape(out, (*size[:-2], size[-2] * size[-1]))


__all__ = ["astype"]
