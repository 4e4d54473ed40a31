"""Memory shared with other libraries by DLPack (https://dmlc.github.io/dlpack), on the host.

NumPy makes the capsules and reads them.  The dtypes that it has no code for (bfloat16, float8 ...)
travel as unsigned integers of their width, and the code in the capsule is written, or read, here.
"""
from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from calque.runtime.dtypes import Dtype, carrier

__all__ = ["as_numpy", "capsule_of", "has_code", "writable"]

# DLDataTypeCode: of what NumPy writes itself, kDLUInt; of what it does not, by ml_dtypes' name
_UINT = 1
_CODES: dict[Dtype, int] = {np.dtype(getattr(ml_dtypes, name)): code for name, code in (
    ("bfloat16", 4), ("float8_e3m4", 7), ("float8_e4m3", 8), ("float8_e4m3b11fnuz", 9),
    ("float8_e4m3fn", 10), ("float8_e4m3fnuz", 11), ("float8_e5m2", 12), ("float8_e5m2fnuz", 13),
    ("float8_e8m0fnu", 14)) if hasattr(ml_dtypes, name)}
_DTYPES = {(code, 8 * dtype.itemsize): dtype for dtype, code in _CODES.items()}


class _Type(ctypes.Structure):
    """DLDataType."""

    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    """DLTensor up to its dtype; DLManagedTensor begins with one."""

    _fields_ = (("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("dtype", _Type))


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned, of version 1."""

    _fields_ = (("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", _Tensor))


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)


def _type_in(capsule: Any) -> _Type | None:
    """The dtype in a capsule that nobody has taken yet, as it lies there; None of other objects."""
    if _is_valid(capsule, b"dltensor"):
        found: _Type = _Tensor.from_address(_pointer(capsule, b"dltensor")).dtype
        return found
    if _is_valid(capsule, b"dltensor_versioned"):
        managed = _Versioned.from_address(_pointer(capsule, b"dltensor_versioned"))
        found = managed.tensor.dtype
        return found if managed.major == 1 else None
    return None


def has_code(dtype: Dtype) -> bool:
    """Whether DLPack has a name for a dtype's elements."""
    return dtype in _CODES or (dtype.isbuiltin == 1 and dtype.kind in "biufc")


def capsule_of(array: Any, options: Mapping[str, Any]) -> Any:
    """A capsule over a NumPy array's memory, by the options of `__dlpack__`."""
    asked = {k: v for k, v in options.items() if v is not None}
    if asked.get("max_version", (0, 0))[0] < 1:
        # The unversioned capsule has no read-only flag and NumPy refuses to make one; consumers
        # that do not ask for a version get a writable alias, as JAX gives them.
        array = writable(array)
    code = _CODES.get(array.dtype)
    if code is None:
        return array.__dlpack__(**asked)
    capsule = array.view(carrier(array.dtype)).__dlpack__(**asked)
    written = _type_in(capsule)
    if written is None:
        raise BufferError(f"NumPy {np.__version__} makes capsules of an unknown version.")
    written.code = code
    return capsule


class _AsIntegers:
    """An exporter whose elements, if NumPy has no code for them, are said to be integers."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self.dtype: Dtype | None = None

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self.source.__dlpack__(**options)
        given = _type_in(capsule)
        if given is not None and given.lanes == 1:
            self.dtype = _DTYPES.get((given.code, given.bits))
            if self.dtype is not None:
                given.code = _UINT
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        place: tuple[int, int] = self.source.__dlpack_device__()
        return place


def as_numpy(source: Any) -> Any:
    """np.from_dlpack, of every dtype that DLPack has a code for: a view of the source's memory."""
    relabelled = _AsIntegers(source)
    array = np.from_dlpack(relabelled)
    return array if relabelled.dtype is None else array.view(relabelled.dtype)


def writable(array: Any) -> Any:
    """A writable array over the memory of a possibly read-only one, which it keeps alive."""
    if array.flags.writeable:
        return array
    if not array.nbytes:
        return np.empty_like(array)
    block: Any = (ctypes.c_char * array.nbytes).from_address(array.ctypes.data)
    block._keep = array  # the new array's base is `block`, and `block` holds the old array
    return np.ndarray(array.shape, array.dtype, buffer=block)
