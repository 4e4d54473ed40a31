"""Methods of arrays that speak of memory and devices, and the Array API's inspection: tobytes,
platform, __contains__, __array_namespace__, __array_namespace_info__.

Installed by methods.py; what is spread over devices is in dispatch/array.py and
dispatch/sharded/shards.py and parts.py.
"""
from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import dtype_of
from calque.core.errors import ConcretizationTypeError, explain
from calque.core.trace import Tracer, concretization_error
from calque.dispatch import devices as dv
from calque.dispatch.array import Array
from calque.dispatch.eager import lazy_eval
from calque.dispatch.sharded import parts, shards
from calque.numpy import convert, reductions, ufuncs, util
from calque.numpy.creation import array as make_array
from calque.primitives import shape as sh

__array_api_version__ = "2024.12"


# ---- of arrays and tracers
def _tobytes(self: Any, order: str = "C") -> bytes:
    """The elements' bytes.

    Args:
      order: 'C' (row-major) or 'F' (column-major).

    Returns:
      A bytes object.

    Raises:
      ConcretizationTypeError: the array is traced.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.array([1, 2], dtype="uint8").tobytes()
      b'\\x01\\x02'
    """
    if isinstance(self, Tracer):
        raise concretization_error(
            self, f"Abstract tracer value encountered where concrete value is expected: tobytes() "
            f"of a traced {self.aval}.", "take the bytes outside of the transformation.",
            ConcretizationTypeError)
    return np.asarray(self).tobytes(order)  # type: ignore[arg-type]


def _contains(self: Any, value: Any) -> bool:
    """Whether a value is among the elements of a vector."""
    if len(self.shape) != 1:
        raise ValueError(explain(
            "Array.__contains__: search array must be one-dimensional, got arr.shape="
            f"{self.shape}.",
            fix="use (x == value).any()."))
    if getattr(value, "shape", ()):
        raise ValueError(explain(
            f"Array.__contains__: query value must be a scalar, got shape {value.shape}.",
            fix="use jnp.isin(values, x)."))
    with lazy_eval("contains"):
        found = reductions.any(ufuncs.equal(self, value))
    return bool(found)


def _namespace(self: Any, *, api_version: str | None = None, device: Any = None) -> Any:
    """The module of array functions (the Array API standard)."""
    if api_version not in (None, __array_api_version__):
        raise ValueError(explain(
            f"api_version={api_version!r} is not available; available versions are: "
            f"[{__array_api_version__!r}]"))
    return importlib.import_module("calque.numpy")


def _flat(self: Any) -> Any:
    """Not there: an iterator over a flat view; use x.ravel().

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.ones(2).flat
      Traceback (most recent call last):
      NotImplementedError: ...
    """
    raise NotImplementedError(explain(
        "JAX Arrays do not implement the arr.flat property: consider arr.flatten() instead.",
        fix="x.flatten()"))


def _byteswap(self: Any) -> Any:
    """The array with the bytes of every element in reverse order.

    Returns:
      An array of the same dtype.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.array([1], dtype="uint16").byteswap()
      Array([256], dtype=uint16)
    """
    size = dtype_of(self).itemsize
    parts = 2 if util.is_complex(self) else 1
    if size == parts:
        return self
    with lazy_eval("byteswap"):
        x = sh.reshape(util.array(self), (*self.shape, 1))
        if parts == 2:
            x = convert.view(x, np.dtype(f"float{size * 4}"))
        raw = sh.reshape(convert.view(x, np.uint8), (*self.shape, parts, size // parts))
        turned = sh.rev(raw, (len(self.shape) + 1,))
        made = convert.view(sh.reshape(turned, (*self.shape, size)), dtype_of(x))
        made = convert.view(made, dtype_of(self)) if parts == 2 else made
        return sh.reshape(made, self.shape)


# ---- of arrays only
def _platform(self: Array) -> str:
    """The kind of device that holds the array.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.zeros(2).platform()
      'cpu'
    """
    return next(iter(self.devices())).platform


def _pointer(self: Array) -> int:
    """The address of the data, once it is there.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.zeros(2).unsafe_buffer_pointer() % 16
      0
    """
    return int(self._numpy().ctypes.data)


def _to_device(self: Array, device: Any, *, stream: Any = None) -> Any:
    """The array on a device.

    Args:
      device: where to.
      stream: not supported.

    Returns:
      An array.

    Raises:
      NotImplementedError: a stream is given.
      TypeError: device is none.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> jnp.zeros(2).to_device(calque.devices()[0])
      Array([0., 0.], dtype=float32)
    """
    if stream is not None:
        raise NotImplementedError(explain("to_device: stream argument is not supported."))
    return shards.device_put(self, device)


def _clone(self: Any) -> Any:
    """A copy in memory of its own.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.zeros(2).clone()
      Array([0., 0.], dtype=float32)
    """
    return make_array(self, copy=True)


def _size(self: Array) -> int:
    """Bytes that the array takes on its device.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.zeros(2).on_device_size_in_bytes()
      8
    """
    return self.nbytes


# ---- the parts that devices have
def _shards(self: Array) -> list[parts.Shard]:
    """The parts that this process's devices have, as Shards; data is made when it is asked for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.zeros(2).addressable_shards[0].device
      CpuDevice(id=0)
    """
    return parts.shards_of(self)


def _data(self: Array, index: int) -> Array:
    """One device's part.

    Args:
      index: number among the devices of this process.

    Returns:
      An Array on that device.

    Raises:
      IndexError: there are not so many devices.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.zeros(2).addressable_data(0)
      Array([0., 0.], dtype=float32)
    """
    return parts.shards_of(self)[index].data


def _addressable(self: Array) -> bool:
    """Whether this process's devices have all of the array: always, where there is one process.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.zeros(2).is_fully_addressable
      True
    """
    return self.sharding.is_fully_addressable


def _global(self: Array) -> list[parts.Shard]:
    """The parts that all devices have, as Shards; data is None for those of other processes.

    Example:
      >>> import calque.numpy as jnp
      >>> len(jnp.zeros(2).global_shards)
      1
    """
    return parts.shards_of(self, everywhere=True)


def _replicated(self: Array) -> bool:
    """Whether every device has the whole array.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.zeros(2).is_fully_replicated
      True
    """
    return self.sharding.is_fully_replicated


def _numpy_dtype(self: Any) -> Any:
    warnings.warn(
        "Implicit conversion of an array to a dtype is deprecated; rather than dtype=arr use "
        "dtype=arr.dtype.", DeprecationWarning, stacklevel=2)
    return self.dtype


# of arrays and of tracers
EVERYWHERE: dict[str, Any] = {
    "tobytes": _tobytes, "__contains__": _contains, "__array_namespace__": _namespace,
    "flat": property(_flat), "byteswap": _byteswap}
# of arrays with a buffer
CONCRETE: dict[str, Any] = {
    "platform": _platform, "clone": _clone, "__numpy_dtype__": property(_numpy_dtype),
    "unsafe_buffer_pointer": _pointer, "to_device": _to_device, "on_device_size_in_bytes": _size,
    "addressable_shards": property(_shards), "global_shards": property(_global),
    "addressable_data": _data, "is_fully_addressable": property(_addressable),
    "is_fully_replicated": property(_replicated)}


# ---- inspection
class ArrayNamespaceInfo:
    """What the Array API standard asks a namespace: dtypes, devices, capabilities.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.__array_namespace_info__().default_dtypes()["integral"]
      dtype('int32')
    """

    def capabilities(self) -> dict[str, Any]:
        """Which optional parts of the standard there are."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> None:
        """None: the default device is a setting (jax_default_device)."""

    def devices(self) -> list[Any]:
        """The devices that arrays may be put on; None stands for the default one."""
        return [None, *dv.devices()]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The dtypes of values that come without one."""
        whole = dtypes.default_dtype(int)
        return {"real floating": dtypes.default_dtype(float),
                "complex floating": dtypes.default_dtype(complex), "integral": whole,
                "indexing": whole}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """The dtypes of a kind (or of several: a tuple), by name."""
        names: dict[str, list[str]] = {
            "bool": ["bool"],
            "signed integer": ["int8", "int16", "int32", "int64"],
            "unsigned integer": ["uint8", "uint16", "uint32", "uint64"],
            "real floating": ["float32", "float64"],
            "complex floating": ["complex64", "complex128"]}
        names["integral"] = names["signed integer"] + names["unsigned integer"]
        names["numeric"] = names["integral"] + names["real floating"] + names["complex floating"]
        kinds = kind if isinstance(kind, tuple) else ((kind,) if kind else ("bool", "numeric"))
        unknown = [k for k in kinds if k not in names]
        if unknown:
            raise ValueError(explain(f"unrecognized dtype kind {unknown[0]!r}",
                                     fix=f"use one of {sorted(names)}."))
        found = [n for k in kinds for n in names[k]]
        return {n: np.dtype(n) for n in found if dtypes.canonical(np.dtype(n)) == np.dtype(n)}


def __array_namespace_info__() -> ArrayNamespaceInfo:  # noqa: N807 (the standard's name)
    """What this namespace offers, as the Array API standard asks it.

    Returns:
      An object with the methods capabilities, default_device, default_dtypes, devices, dtypes.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.__array_namespace_info__().capabilities()["max dimensions"]
      64
    """
    return ArrayNamespaceInfo()
