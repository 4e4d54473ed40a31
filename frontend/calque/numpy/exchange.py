"""Arrays from other libraries' memory: from_dlpack, frombuffer."""
from __future__ import annotations

from typing import Any

import numpy as np

from calque import runtime
from calque.core import dtypes
from calque.core.avals import ShapedArray
from calque.core.errors import explain
from calque.dispatch.array import Array, current_device, from_numpy
from calque.dispatch.sharded.placing import made_on


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An Array over the memory of a DLPack exporter (NumPy, PyTorch, ...).

    Args:
      x: an object with __dlpack__ and __dlpack_device__, on the CPU; of any dtype that DLPack has a
        code for, bfloat16 and float8 among them.
      device: where the Array goes, a Device or a Sharding; the default device by default.
      copy: True always copies, False never; by default only what is not 64-byte aligned is copied.

    Returns:
      An Array of x's shape and dtype.

    Raises:
      TypeError: x does not speak DLPack.
      ValueError: copy=False and the memory is not aligned.

    Example:
      >>> import numpy as np, calque.numpy as jnp
      >>> jnp.from_dlpack(np.arange(3, dtype=np.float32))
      Array([0., 1., 2.], dtype=float32)
    """
    if not hasattr(x, "__dlpack__"):
        raise TypeError(explain(
            f"from_dlpack: a {type(x).__name__} has no __dlpack__ method.",
            fix="pass an array of a library that speaks DLPack."))
    made: Array = made_on("from_dlpack", device, None, lambda: _taken(x, copy))
    return made


def _taken(x: Any, copy: bool | None) -> Array:
    target = current_device()
    if type(x) is Array:
        return x if not copy else from_numpy(x._numpy(), device=target)
    buffer = runtime.from_dlpack(x, target)
    if copy is False and buffer.owned:
        raise ValueError(explain(
            "from_dlpack: Specified copy=False of memory that is not 64-byte aligned (or not "
            "contiguous), which requires a copy.",
            fix="allow a copy with copy=None."))
    if dtypes.canonical(buffer.dtype) != buffer.dtype:  # 64-bit data without x64
        return from_numpy(runtime.dlpack.as_numpy(x), device=target)
    if copy:
        buffer = buffer.copy()
    return Array(buffer, ShapedArray(buffer.shape, buffer.dtype))


def frombuffer(buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0) -> Array:
    """A one-dimensional Array of a copy of a bytes-like object's contents.

    Args:
      buffer: bytes, bytearray, memoryview, ...
      dtype: of the elements as they lie there; without x64, those of 64 bits are then made 32.
      count: how many elements (-1: all).
      offset: where to begin, in bytes.

    Returns:
      A vector of the dtype, or of its 32 bits.

    Raises:
      ValueError: the buffer holds no whole number of elements.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.frombuffer(b"abc", dtype="uint8")
      Array([97, 98, 99], dtype=uint8)
    """
    return from_numpy(np.frombuffer(buffer, np.dtype(dtype), count, offset))


__all__ = ["from_dlpack", "frombuffer"]
