"""Bytes between the host and memory that the host cannot see, by way of memory that both can.

A GPU's memory is not mapped (memory.py), and lavapipe takes no pointer of the host's whose address
4,096 does not divide.  What the host reads lies in memory that its caches take part in: without
that, a card's page-locked memory is written fast and read at some 100 MB/s.
Start reading at `fetched` and `sent`.
"""
from __future__ import annotations

from typing import Any

import iree.runtime as rt
import numpy as np

from calque.runtime.pending import wait_for

_WRITTEN = int(rt.MemoryType.HOST_LOCAL) | int(rt.MemoryType.DEVICE_VISIBLE)
_READ = _WRITTEN | int(rt.MemoryType.HOST_CACHED)
_USAGE = rt.BufferUsage.TRANSFER | rt.BufferUsage.MAPPING


def fetched(hal_device: Any, buffer: Any, value: np.ndarray[Any, Any], what: str,
            looking: bool = False) -> None:
    """A buffer's bytes, which are there, into a contiguous array; `looking`: see Device.is_fast."""
    stage = hal_device.allocator.allocate_buffer(_READ, _USAGE, value.nbytes)
    wait_for(_queued(hal_device, buffer, stage), None, what, looking)
    raw = np.frombuffer(memoryview(stage.map()), np.uint8, value.nbytes)
    value.reshape(-1).view(np.uint8)[:] = raw


def stored(hal_device: Any, value: np.ndarray[Any, Any], buffer: Any, what: str) -> None:
    """A contiguous array's bytes into a buffer, which nobody uses; they are there afterwards."""
    wait_for(sent(hal_device, value, buffer), None, what)


def sent(hal_device: Any, value: np.ndarray[Any, Any], buffer: Any) -> Any:
    """The same on the queue, which keeps what it copies from: the semaphore that reaches 1 then."""
    stage = hal_device.allocator.allocate_buffer(_WRITTEN, _USAGE, value.nbytes)
    stage.map().asarray((value.nbytes,), np.dtype(np.uint8))[:] = value.reshape(-1).view(np.uint8)
    return _queued(hal_device, stage, buffer)


def _queued(hal_device: Any, source: Any, target: Any) -> Any:
    done = hal_device.create_semaphore(0)
    hal_device.queue_copy(source, target, rt.HalFence(0), rt.HalFence.create_at(done, 1))
    return done
