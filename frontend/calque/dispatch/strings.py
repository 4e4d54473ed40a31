"""Arrays of strings: NumPy's `StringDType`, put on CPU devices for Python to read there.

Nothing is computed with them: they are placed, spread over devices, read part by part and given
back (`colocated_python` takes them).  `StringArray` is a class of its own, as arrays that span
processes are (sharded/spanning.py): it has no buffer, so whatever asks for one, `to_array` first of
all, is told that it is no operand.  Start reading at `StringArray`, then `placed`.
"""
from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from calque.core.avals import ShapedArray
from calque.core.errors import explain
from calque.core.sharding import SingleDeviceSharding
from calque.core.types import Ndarray
from calque.dispatch.array import Array, array_repr, current_device
from calque.runtime import Device

__all__ = ["StringArray", "asked", "holds", "is_dtype", "of_numpy", "part", "placed",
           "refuse"]


_KIND: Any = getattr(getattr(np, "dtypes", None), "StringDType", object())  # (NumPy 1 has none)


def is_dtype(dtype: Any) -> bool:
    """Whether a dtype argument is NumPy's StringDType, an instance or the class."""
    return type(dtype) is _KIND or dtype is _KIND


def holds(x: Any) -> bool:
    """Whether x is an array of strings, NumPy's or ours."""
    return type(x) is StringArray or type(x) is np.ndarray and x.dtype.kind == "T"


class _Held:
    """What an array of strings has in place of a buffer."""

    __slots__ = ("strings", "device")

    def __init__(self, strings: Ndarray | None, device: Device) -> None:
        self.strings, self.device = strings, device

    def wait(self) -> None:
        self.there()

    def is_ready(self) -> bool:
        return True

    def delete(self) -> None:
        self.strings = None

    def is_deleted(self) -> bool:
        return self.strings is None

    def there(self) -> Ndarray:
        if self.strings is None:
            raise RuntimeError(explain("Array has been deleted: it was one of strings."))
        return self.strings


class StringArray(Array):
    """An Array of strings."""

    __slots__ = ("_held",)

    def __init__(self, strings: Ndarray, device: Device, placement: Any) -> None:
        super().__init__(None, ShapedArray(strings.shape, strings.dtype).marked(placement))
        self._held = _Held(strings, device)

    @property
    def _memory(self) -> Any:
        return self._held

    @property
    def _buffer(self) -> NoReturn:
        raise _no_operand(self)

    def _row_major(self) -> NoReturn:
        raise _no_operand(self)

    def _numpy(self) -> NoReturn:
        raise _no_operand(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Ndarray:
        strings = self._held.there()
        if dtype is not None and np.dtype(dtype) != strings.dtype:
            return strings.astype(dtype)
        return strings.copy() if copy else strings

    def item(self, *args: int) -> Any:
        return self._held.there().item(*args)

    def tolist(self) -> Any:
        return self._held.there().tolist()

    def __dlpack__(self, **options: Any) -> NoReturn:
        raise BufferError(explain("the DLPack protocol has no strings.", fix="use np.asarray(x)."))

    def __str__(self) -> str:
        return str(self._held.there())

    def __repr__(self) -> str:
        return array_repr(self._held.there(), False)

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __copy__(self) -> Array:
        held = self._held
        return StringArray(held.there(), held.device, self.aval.placement)

    def __deepcopy__(self, memo: Any) -> Array:
        return self.__copy__()  # (the strings are never written)

    def __reduce__(self) -> Any:
        return _unpickled, (np.array(self._held.there()), self.aval.placement)


StringArray.__name__ = StringArray.__qualname__ = "Array"


def refuse(x: Any) -> None:
    """TypeError for an array of strings, NumPy's or ours, as an operand."""
    if holds(x):
        raise _no_operand(x)


def _no_operand(x: Any) -> TypeError:
    told = "(deleted)" if type(x) is StringArray and x.is_deleted() else str(x)
    return TypeError(explain(
        f"Argument '{told}' of type {type(x)} is not a valid JAX type: it is an array of strings, "
        f"{x.dtype}{list(x.shape)}, with which nothing is computed.",
        fix="work on np.asarray(x), or in a function of experimental.colocated_python."))


def _unpickled(strings: Ndarray, placement: Any) -> Array:
    return placed(of_numpy(strings), placement)


def of_numpy(x: Any, dtype: Any = None) -> StringArray:
    """A copy of NumPy's strings on the default device, committed to it, so that no rule takes their
    value for one that is small and at hand.  dtype: what the caller asked for."""
    if dtype is not None and not is_dtype(dtype):
        raise TypeError(explain(
            f"Cannot make an array with dtype {np.dtype(dtype).name} from an object with dtype "
            f"{x.dtype}.", fix="convert the strings first, x.astype(...) of NumPy's."))
    if getattr(x.dtype, "na_object", _plain) is not _plain:
        raise TypeError(explain(
            f"Dtype {x.dtype} is not a valid JAX array type: a missing value has no string.",
            fix="use np.dtypes.StringDType() without na_object."))
    strings = np.array(x, order="C")
    strings.flags.writeable = False
    device = current_device()
    if not device.is_host:
        raise _not_there(device)
    return StringArray(strings, device, SingleDeviceSharding(device))


_plain = object()


def _not_there(where: Any) -> TypeError:
    return TypeError(explain(
        "String arrays can only be sharded to CPU devices. Received unsupported device or "
        f"sharding: {where}", fix='use calque.devices("cpu").'))


def placed(x: Any, where: Any) -> StringArray:
    """NumPy's strings, or an array of them, where a Sharding says; None: anywhere."""
    made: StringArray = x if type(x) is StringArray else of_numpy(x)
    if where is None or made.aval.placement == where:
        return made
    if where.spans or any(d.platform != "cpu" for d in where._assignment):
        raise _not_there(where)
    return StringArray(made._held.there(), where._assignment[0], where)


def part(x: StringArray, index: Any, device: Device) -> StringArray:
    """What one device has of an array."""
    strings = x._held.there()[(*index, ...)]  # (an array also where it has one element)
    return StringArray(strings, device, SingleDeviceSharding(device))


def asked(dtype: Any, of: Any) -> Any:
    """The dtype, where it is that of strings and `of` can become an array of it; None where it is
    another."""
    if not is_dtype(dtype):
        return None
    if holds(of):
        return np.dtype(dtype() if isinstance(dtype, type) else dtype)
    if not hasattr(of, "dtype"):
        raise TypeError(explain(
            f"Currently, string arrays can only be made from NumPy arrays. Got: {type(of)}.",
            fix="pass np.array(strings, np.dtypes.StringDType())."))
    raise TypeError(explain(
        f"Cannot make an array with dtype StringDType() from an object with dtype {of.dtype}.",
        fix="convert it first, np.asarray(x).astype(np.dtypes.StringDType())."))
