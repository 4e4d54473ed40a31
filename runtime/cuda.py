"""What the NVIDIA driver reads: its version, asked by ctypes, and the newest PTX that it takes.

Kernels of the user's are in programs as PTX, compiled by whatever wrote it; a driver refuses PTX
newer than itself, in words that name neither version.  Start reading at `missing`.
"""
from __future__ import annotations

import ctypes
import functools
import re
import sys
from collections.abc import Sequence

# CUDA -> PTX, after the release notes of NVIDIA's "PTX ISA" ("PTX Release History")
_PTX = {(11, 0): (7, 0), (11, 1): (7, 1), (11, 2): (7, 2), (11, 3): (7, 3), (11, 4): (7, 4),
        (11, 5): (7, 5), (11, 6): (7, 6), (11, 7): (7, 7), (11, 8): (7, 8), (12, 0): (8, 0),
        (12, 1): (8, 1), (12, 2): (8, 2), (12, 3): (8, 3), (12, 4): (8, 4), (12, 5): (8, 5),
        (12, 6): (8, 5), (12, 7): (8, 6), (12, 8): (8, 7), (12, 9): (8, 8), (13, 0): (9, 0)}
_WORD = re.compile(r"ptx=([0-9]{1,4})\.([0-9]{1,4})")


@functools.cache
def driver_version() -> tuple[int, int] | None:
    """The CUDA that the driver is of, (12, 4); None where there is none, or it does not say."""
    try:
        number = ctypes.c_int()
        if _library().cuDriverGetVersion(ctypes.byref(number)):
            return None
    except (OSError, AttributeError):
        return None
    return number.value // 1000, number.value % 1000 // 10


@functools.cache
def total_memory(index: int) -> int | None:
    """Bytes of memory of a card, None where the driver does not say."""
    try:
        library = _library()
        card, size = ctypes.c_int(), ctypes.c_size_t()
        if (library.cuInit(0) or library.cuDeviceGet(ctypes.byref(card), index)
                or library.cuDeviceTotalMem_v2(ctypes.byref(size), card)):
            return None
    except (OSError, AttributeError):
        return None
    return size.value


def newest_ptx(driver: tuple[int, int]) -> tuple[int, int] | None:
    """The newest PTX that a driver reads; None where it is newer than what is known here."""
    known = [cuda for cuda in _PTX if cuda <= driver]
    return None if driver > max(_PTX) else _PTX[max(known)] if known else (6, 5)


def missing(needed: Sequence[str]) -> list[str]:
    """What code needs ('ptx=8.8') and the driver here does not read, in words."""
    driver = driver_version()
    most = None if driver is None else newest_ptx(driver)
    asked = [(int(m[1]), int(m[2])) for w in needed if (m := _WORD.fullmatch(w))]
    if most is None or driver is None or not asked or max(asked) <= most:
        return []
    return [f"PTX {_dotted(max(asked))} (the driver, of CUDA {_dotted(driver)}, reads up to "
            f"{_dotted(most)})"]


def _library() -> ctypes.CDLL:
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


def _dotted(numbers: Sequence[int]) -> str:
    return ".".join(map(str, numbers))
