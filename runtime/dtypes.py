"""The two names of every element type: NumPy's (with ml_dtypes) and IREE's.

`element_type(dtype)` and `dtype_of(element_type)` translate; `as_bytes_dtype` gives the unsigned
integer dtype under which a type that Python's buffer protocol does not know (bfloat16, fp8)
crosses into IREE.  Imports numpy, ml_dtypes, iree.runtime.
"""
from __future__ import annotations

from typing import Any

import iree.runtime as rt
import ml_dtypes
import numpy as np

Dtype = np.dtype[Any]

_H = rt.HalElementType
_TABLE: tuple[tuple[Any, Any], ...] = (
    (np.bool_, _H.BOOL_8),
    (np.int8, _H.SINT_8), (np.int16, _H.SINT_16), (np.int32, _H.SINT_32), (np.int64, _H.SINT_64),
    (np.uint8, _H.UINT_8), (np.uint16, _H.UINT_16), (np.uint32, _H.UINT_32),
    (np.uint64, _H.UINT_64),
    (np.float16, _H.FLOAT_16), (ml_dtypes.bfloat16, _H.BFLOAT_16),
    (np.float32, _H.FLOAT_32), (np.float64, _H.FLOAT_64),
    (np.complex64, _H.COMPLEX_64), (np.complex128, _H.COMPLEX_128),
)
# An element is a byte to programs, which know what it means; others are told by the record.
_BYTES = tuple((getattr(ml_dtypes, n), _H.SINT_8 if n.startswith("int") else _H.UINT_8) for n in (
    "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
    "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn", "int1", "int2", "int4",
    "uint1", "uint2", "uint4") if hasattr(ml_dtypes, n))

SUPPORTED: tuple[Dtype, ...] = tuple(np.dtype(t) for t, _ in (*_TABLE, *_BYTES))
_TO_IREE: dict[Dtype, Any] = {np.dtype(t): e for t, e in (*_TABLE, *_BYTES)}
_FROM_IREE: dict[int, Dtype] = {int(e): np.dtype(t) for t, e in _TABLE}
# Compiled programs return signless integers; NumPy has no such thing, the caller's record does.
_FROM_IREE |= {int(getattr(_H, f"INT_{n}")): np.dtype(f"int{n}") for n in (8, 16, 32, 64)}
# Types whose ndarray does not speak the buffer protocol go in as integers of the same width.
_CARRIER: dict[Dtype, Dtype] = {
    d: np.dtype(f"uint{8 * d.itemsize}") for d in SUPPORTED if d.kind == "V" or d.num > 23}


def element_type(dtype: Dtype) -> Any:
    """IREE's element type of a NumPy dtype (TypeError for one that no device has)."""
    try:
        return _TO_IREE[dtype]
    except KeyError:
        raise _refused(dtype) from None


def dtype_of(element: int) -> Dtype:
    """The NumPy dtype of IREE's element type."""
    try:
        return _FROM_IREE[int(element)]
    except KeyError:
        raise TypeError(f"IREE element type {int(element):#x} has no NumPy dtype.") from None


def carrier(dtype: Dtype) -> Dtype:
    """The dtype to view an array as, so that IREE's bindings can read its memory."""
    return _CARRIER.get(dtype, dtype)


def _refused(dtype: Dtype) -> TypeError:
    if not dtype.isnative:
        return TypeError(
            f"dtype {dtype.str} is not in this machine's byte order.\n"
            f"  Fix: x.astype(x.dtype.newbyteorder('=')) converts it.")
    return TypeError(
        f"dtype {dtype} cannot live on a device.\n"
        f"  Fix: cast to one of {', '.join(str(d) for d in SUPPORTED)}.")
