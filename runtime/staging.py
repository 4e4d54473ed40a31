"""Bytes between the host and memory that the host cannot see, by way of memory that both can.

A GPU's results are not all mapped, and lavapipe takes no pointer of the host's whose address 4,096
does not divide.  Start reading at `fetched`.
"""
from __future__ import annotations

from typing import Any

import iree.runtime as rt
import numpy as np

from calque.runtime.pending import wait_for

_MEMORY = rt.MemoryType.HOST_LOCAL | rt.MemoryType.DEVICE_VISIBLE
_USAGE = rt.BufferUsage.TRANSFER | rt.BufferUsage.MAPPING


def fetched(hal_device: Any, buffer: Any, value: np.ndarray[Any, Any], what: str) -> None:
    """A buffer's bytes, which are there, into a contiguous array."""
    stage = hal_device.allocator.allocate_buffer(_MEMORY, _USAGE, value.nbytes)
    _copied(hal_device, buffer, stage, what)
    raw = np.frombuffer(memoryview(stage.map()), np.uint8, value.nbytes)
    value.reshape(-1).view(np.uint8)[:] = raw


def stored(hal_device: Any, value: np.ndarray[Any, Any], buffer: Any, what: str) -> None:
    """A contiguous array's bytes into a buffer, which nobody uses."""
    stage = hal_device.allocator.allocate_buffer(_MEMORY, _USAGE, value.nbytes)
    stage.map().asarray((value.nbytes,), np.dtype(np.uint8))[:] = value.reshape(-1).view(np.uint8)
    _copied(hal_device, stage, buffer, what)


def _copied(hal_device: Any, source: Any, target: Any, what: str) -> None:
    done = hal_device.create_semaphore(0)
    hal_device.queue_copy(source, target, rt.HalFence(0), rt.HalFence.create_at(done, 1))
    wait_for(done, None, what)
