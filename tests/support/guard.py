"""Arrays against inaccessible pages: a read or write outside one ends the process.

An array starts where its first page starts, or ends where its last one ends (IREE wants starts on
multiples of 64 bytes, so up to 63 bytes are left behind it; they, and the rest of the pages, hold a
pattern that is checked afterwards).
"""
from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
ALIGNMENT = 64
_libc = ctypes.CDLL(None, use_errno=True)
_FILLER = 0xA5


def _forbid(address: int) -> None:
    code = _libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(mmap.PAGESIZE), 0)
    if code:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class Guarded:
    """A copy of an array between guard pages; `array` is 64-byte aligned and writable."""

    def __init__(self, source: Array, at_end: bool) -> None:
        source = np.asarray(source)
        pages = max(1, -(-source.nbytes // mmap.PAGESIZE))
        self._memory = mmap.mmap(-1, (pages + 2) * mmap.PAGESIZE)
        every = np.frombuffer(self._memory, np.uint8)  # keeps the mapping as its base
        self._data = every[mmap.PAGESIZE:(pages + 1) * mmap.PAGESIZE]
        self._data[:] = _FILLER
        start = 0
        if at_end:
            start = self._data.size - -(-source.nbytes // ALIGNMENT) * ALIGNMENT
        flat = self._data[start:start + source.nbytes]
        flat[:] = np.ascontiguousarray(source).reshape(-1).view(np.uint8)
        self.array: Array = flat.view(source.dtype).reshape(source.shape)
        self._digest = self.digest()
        _forbid(every.ctypes.data)
        _forbid(every.ctypes.data + (pages + 1) * mmap.PAGESIZE)

    def digest(self) -> bytes:
        """Of all bytes of the array's pages."""
        return hashlib.blake2b(self._data).digest()

    def changed(self) -> bool:
        """Whether a byte of the array or beside it is another than at first."""
        return self.digest() != self._digest
