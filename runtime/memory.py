"""Memory on a device: what programs write their results to and work in, and copies for the host.

A CPU's memory is asked for as memory that can be mapped.  A GPU's is not: IREE gives CUDA managed
memory for it, which every kernel then reads at a part of the card's speed, or page-locked memory of
the host's.  What the host wants to see of it goes by way of staging.py.  Blocks that were given
back lie in a cache of IREE's (runtime/device); when the driver has no more memory, the cache gives
up its blocks, calls under way are waited for, and the driver is asked once more.
Start reading at `allocate`.
"""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import iree.runtime as rt

from calque.runtime import cuda
from calque.runtime.device import idle_memory
from calque.runtime.errors import device_error, is_exhausted, size_text
from calque.runtime.idle import LARGE

if TYPE_CHECKING:
    from calque.runtime.device import Device

DEVICE_LOCAL = rt.MemoryType.DEVICE_LOCAL
HOST_USAGE = rt.BufferUsage.DEFAULT | rt.BufferUsage.MAPPING
DEVICE_USAGE = rt.BufferUsage.DEFAULT


def usage(device: Device) -> Any:
    """For what memory of a device is asked for."""
    return HOST_USAGE if device.is_host else DEVICE_USAGE


def allocate(device: Device, nbytes: int, where: str = "", needed: str = "") -> Any:
    """Fresh memory of a device, as IREE's buffer; `needed`: what an error says is needed, where
    that is not an array of so many bytes.

    Raises:
      DeviceError: there is none left, also without what lay in the cache.

    Example:
      >>> from calque import runtime
      >>> runtime.memory.allocate(runtime.default_device(), 64).byte_length()
      64
    """
    if nbytes >= 1 << 62:  # more than a C interface takes, or than any memory has
        raise exhausted(MemoryError("no address space has so much"), device, where,
                        size_text(nbytes), _SMALLER)
    try:
        return _fresh(device, nbytes)
    except (RuntimeError, MemoryError) as error:
        if not is_exhausted(error):
            raise device_error(error, where or f"an allocation on {device}") from error
    free(device)
    try:
        return _fresh(device, nbytes)
    except (RuntimeError, MemoryError) as error:
        more = not needed and device.is_host and (
            nbytes > os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        raise exhausted(error, device, where, needed or size_text(nbytes),
                        _SMALLER if more else "") from error


def _fresh(device: Device, nbytes: int) -> Any:
    memory = device.sync.allocator.allocate_buffer(DEVICE_LOCAL, usage(device), nbytes)
    if nbytes >= LARGE and device.is_host:
        idle_memory.note(nbytes)
    return memory


_SMALLER = "make the array smaller, by its shape or its dtype: this machine has not so much memory."


def free(device: Device) -> None:
    """Give the driver back what nobody holds, after the calls under way, which hold some."""
    device.pending.wait()
    if device.is_host:
        idle_memory.give_back()
    else:
        device.sync.allocator.trim()


def exhausted(error: BaseException, device: Device, where: str, needed: str, fix: str = ""
              ) -> BaseException:
    """The DeviceError for a failure; where a GPU lacks memory, with what it has and who it is.

    Args:
      error: what IREE said.
      device: whose memory.
      where: in which work, or nothing.
      needed: how much of it, such as '4000 bytes'.
      fix: what helps, where it is not fewer arrays.
    """
    if device.is_host or not is_exhausted(error):
        return device_error(error, where, needed, fix)
    held = held_bytes(device)
    total = cuda.total_memory(device.index) if device.platform == "cuda" else None
    parts = [f"of its {_megabytes(total)}" if total else "",
             f"arrays and programs of this process hold {_megabytes(held)}" if held else ""]
    said = ", ".join(p for p in parts if p)
    place = f"on {device} ({device.device_kind}){said and '; ' + said}"
    return device_error(error, where, f"{needed} {place}", fix)


def held_bytes(device: Device) -> int:
    """Bytes that this process has of a device's memory; 0 where IREE does not count them."""
    allocator = device.sync.allocator
    if not allocator.has_statistics:
        return 0
    counts = allocator.statistics
    return int(counts["device_bytes_allocated"] - counts["device_bytes_freed"])


def _megabytes(count: int) -> str:
    return f"{count / 2**20:,.0f} MiB"


__all__ = ["allocate", "exhausted", "free", "held_bytes", "usage"]
