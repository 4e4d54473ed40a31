"""Memory exchanged by DLPack, of the dtypes that NumPy has no code for, too.

The codes are those of dlpack.h (DLDataTypeCode, version 1.1), read here from the capsule's bytes.
"""
from __future__ import annotations

import ctypes
import gc
import struct
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque.runtime import Buffer, dlpack_capsule

CODES = {"bool": (6, 8), "int8": (0, 8), "uint16": (1, 16), "int32": (0, 32), "float16": (2, 16),
         "float32": (2, 32), "complex64": (5, 64), "bfloat16": (4, 16), "float8_e3m4": (7, 8),
         "float8_e4m3": (8, 8), "float8_e4m3b11fnuz": (9, 8), "float8_e4m3fn": (10, 8),
         "float8_e4m3fnuz": (11, 8), "float8_e5m2": (12, 8), "float8_e5m2fnuz": (13, 8),
         "float8_e8m0fnu": (14, 8)}
UNKNOWN_TO_NUMPY = [name for name, (code, _) in CODES.items() if code == 4 or code > 6]


def tensor_of(capsule: Any) -> int:
    """The address of the DLTensor in a capsule."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    versioned = "dltensor_versioned" in repr(capsule)
    return pointer(capsule, b"dltensor_versioned" if versioned else b"dltensor") + 32 * versioned


def value_of(name: str, shape: tuple[int, ...] = (3, 4)) -> Any:
    drawn = np.random.default_rng(0).uniform(0.5, 2, shape)
    return drawn.astype(np.dtype(getattr(ml_dtypes, name, name)))


class Old:
    """An exporter of the protocol before versions: `__dlpack__(stream=None)`."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.x.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class New(Old):
    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        return self.x.__dlpack__(stream=stream, **options)


@pytest.mark.parametrize("options", [{}, {"max_version": (1, 0)}])
@pytest.mark.parametrize("name", CODES)
def test_capsules_name_the_dtype(name: str, options: dict[str, Any]) -> None:
    x = jnp.asarray(value_of(name))
    capsule = x.__dlpack__(**options)
    raw = ctypes.string_at(tensor_of(capsule), 48)
    data, device, number, ndim, code, bits, lanes, shape = struct.unpack("<QiiiBBHQ", raw[:32])
    assert (code, bits, lanes) == (*CODES[name], 1) and (device, number, ndim) == (1, 0, 2)
    assert list((ctypes.c_int64 * 2).from_address(shape)) == [3, 4]
    offset, = struct.unpack("<Q", raw[40:48])
    assert ctypes.string_at(data + offset, x.nbytes) == np.asarray(x).tobytes()
    assert calque.dlpack.is_supported_dtype(x.dtype)


@pytest.mark.parametrize("exporter", [Old, New])
@pytest.mark.parametrize("name", CODES)
def test_there_and_back(name: str, exporter: Any) -> None:
    value = value_of(name)
    for x, want in ((jnp.asarray(value), value), (jnp.asarray(value)[1:], value[1:]),
                    (jnp.asarray(value_of(name, ())), value_of(name, ())),
                    (jnp.zeros((0, 3), value.dtype), value[:0, :3])):
        for copy in (None, True):
            got = jnp.from_dlpack(exporter(x), copy=copy)
            assert got.dtype == value.dtype and got.shape == want.shape
            np.testing.assert_array_equal(np.asarray(got), want)


@pytest.mark.parametrize("name", UNKNOWN_TO_NUMPY)
def test_memory_is_shared_and_counts_as_seen(name: str) -> None:
    value = value_of(name, (300, 300))  # (larger than what stays NumPy's)
    buffer = Buffer.from_numpy(value, calque.runtime.default_device())
    assert buffer.may_donate()
    capsule = dlpack_capsule(buffer)
    gc.collect()
    assert buffer.has_views() and not buffer.may_donate()
    del capsule
    gc.collect()
    assert buffer.may_donate()
    x = jnp.asarray(value)
    shared = jnp.from_dlpack(New(x))
    assert shared.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    got = calque.jit(lambda a: a[::-1], donate_argnums=0)(x)
    np.testing.assert_array_equal(np.asarray(got), value[::-1])
    np.testing.assert_array_equal(np.asarray(shared), value)


def test_strides_of_a_transposed_exporter() -> None:
    value = value_of("bfloat16")

    class Transposed(New):
        """NumPy's view of the integers, its code made bfloat16's by hand."""

        def __dlpack__(self, **options: Any) -> Any:
            capsule = value.view(np.uint16).T.__dlpack__(**{
                k: v for k, v in options.items() if v is not None})
            ctypes.c_uint8.from_address(tensor_of(capsule) + 20).value = 4
            return capsule

    got = jnp.from_dlpack(Transposed(None))
    assert got.dtype == jnp.bfloat16
    np.testing.assert_array_equal(np.asarray(got), value.T)


def test_dtypes_without_a_code_are_refused() -> None:
    assert not calque.dlpack.is_supported_dtype(jnp.int4)
    with pytest.raises(BufferError, match="DLPack"):
        jnp.ones(3, jnp.int4).__dlpack__()
    with pytest.raises(TypeError, match="no __dlpack__"):
        jnp.from_dlpack([1.0])
