"""memoryview(x), bytes(x), and what reads memory through them: the oracle is NumPy's array."""
from __future__ import annotations

import ctypes
import gc
import hashlib
import io
import shutil
import subprocess
import sys
import threading
import weakref
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque.dispatch.array import Array
from calque.lowering.native import exporter

HAS = sys.version_info >= (3, 12) or exporter.Exporter is not exporter._Plain
protocol = pytest.mark.skipif(not HAS, reason="Python 3.11 without the library of exporter.c")
WITH_LETTERS = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "float32",
                "complex64"]
WITHOUT = ["bfloat16", "float8_e4m3fn", "int4"]


def _value(dtype: str, shape: tuple[int, ...]) -> Any:
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(jnp.dtype(dtype))


@protocol
@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (10,), (2, 3), (300, 70)])
@pytest.mark.parametrize("dtype", WITH_LETTERS)
def test_views_have_the_bytes_the_shape_and_the_letter(dtype: str, shape: tuple[int, ...]) -> None:
    value = _value(dtype, shape)
    view, want = memoryview(jnp.asarray(value)), memoryview(value)
    assert view.tobytes() == want.tobytes() and view.shape == shape and view.format == want.format
    assert view.readonly and view.c_contiguous


@pytest.mark.parametrize("dtype", WITH_LETTERS + WITHOUT)
def test_bytes_are_the_memory_of_every_dtype(dtype: str) -> None:
    value = _value(dtype, (3, 5))
    for x in (jnp.asarray(value), calque.jit(lambda a: a)(value), jnp.asarray(value)[1:]):
        assert bytes(x) == np.asarray(x).tobytes()
    assert np.asarray(jnp.asarray(value)).dtype == value.dtype  # (NumPy asks for the view first)


@protocol
@pytest.mark.parametrize("dtype", WITHOUT)
def test_dtypes_without_a_letter(dtype: str) -> None:
    with pytest.raises(BufferError, match="are not supported by the Python buffer protocol"):
        memoryview(jnp.ones(3, dtype))


@protocol
def test_readers_of_memory(tmp_path: Path) -> None:
    x = jnp.arange(12, dtype=jnp.int32).reshape(3, 4)
    raw = np.arange(12, dtype=np.int32).tobytes()
    assert hashlib.sha256(x).digest() == hashlib.sha256(raw).digest()
    assert zlib.crc32(x) == zlib.crc32(raw) and bytearray(x) == raw and b"".join([x, x]) == raw * 2
    assert io.BytesIO(x).getvalue() == raw
    (tmp_path / "x").write_bytes(x)
    assert (tmp_path / "x").read_bytes() == raw
    np.testing.assert_array_equal(np.frombuffer(x, np.int32), np.arange(12))


@protocol
def test_a_result_that_is_not_there_yet_is_waited_for() -> None:
    x = calque.jit(lambda a: jnp.cumsum(a @ a, axis=0))(jnp.ones((300, 300)))
    assert memoryview(x)[0, 0] == 300.0


@protocol
def test_a_view_outlives_its_array() -> None:
    x = jnp.arange(1000.0) + 1
    view = memoryview(x)
    x.delete()
    assert view.tobytes() == np.arange(1, 1001, dtype=np.float32).tobytes()
    with pytest.raises(RuntimeError, match="has been deleted"):
        memoryview(x)
    y = jnp.arange(1000.0)
    kept, gone = memoryview(y), weakref.ref(y)
    del y
    gc.collect()
    assert gone() is None and kept[999] == 999.0


@protocol
def test_a_donated_array_with_a_view() -> None:
    value = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    x = calque.device_put(value)
    view = memoryview(x)
    y = calque.jit(lambda a: a + 1, donate_argnums=0)(x)
    np.testing.assert_array_equal(np.asarray(y), value + 1)
    assert view.tobytes() == value.tobytes()


@protocol
def test_keys_and_tracers_have_none() -> None:
    with pytest.raises(TypeError):
        memoryview(calque.random.key(0))
    with pytest.raises(TypeError):
        calque.jit(memoryview)(jnp.ones(3))


@protocol
def test_nothing_leaks_and_threads_may_ask_at_once() -> None:
    x = jnp.arange(64.0)
    before = sys.getrefcount(x)
    wrong: list[Any] = []

    def ask() -> None:
        for _ in range(500):
            if memoryview(x)[63] != 63.0:
                wrong.append(x)
            try:
                memoryview(jnp.bfloat16(1) * jnp.ones(2, jnp.bfloat16))
            except BufferError:
                continue
            wrong.append("no error")

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    del threads
    assert not wrong and sys.getrefcount(x) == before


def test_without_the_library_arrays_are_as_they_were() -> None:
    class Plain(exporter._Plain):
        __slots__ = ("x",)

    assert not hasattr(Plain(), "__dict__") and issubclass(Array, exporter.Exporter)


TWICE = """
typedef struct _object PyObject;
extern int PyObject_GetBuffer(PyObject *exporter, void *view, int flags);
extern void PyBuffer_Release(void *view);
extern void PyErr_Clear(void);
int twice(PyObject *x, long *first) {  /* as PyTorch: to write, then (its error set) to read */
  void *view[16] = {0};
  if (PyObject_GetBuffer(x, view, 1) == 0) return 1;
  if (PyObject_GetBuffer(x, view, 0) != 0) return 2;
  PyErr_Clear();
  *first = *(int *)view[0];
  PyBuffer_Release(view);
  return 0;
}
"""


@protocol
@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
def test_a_second_request_with_the_first_refusal_still_set(tmp_path: Path) -> None:
    (tmp_path / "twice.c").write_text(TWICE)
    command = ["cc", "-shared", "-fPIC", "twice.c", "-o", "twice.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    ask = ctypes.PyDLL(str(tmp_path / "twice.so")).twice
    first = ctypes.c_long()
    assert ask(ctypes.py_object(jnp.array([7, 8])), ctypes.byref(first)) == 0 and first.value == 7
