"""What the NVIDIA driver and its cards are, asked by ctypes: versions, PTX, capability, memory.

Programs are PTX, of which the driver makes a card's code when they are loaded; it refuses PTX newer
than itself, and PTX for newer cards, in words that name none of them.  Start reading at `missing`.
"""
from __future__ import annotations

import ctypes
import functools
import re
import sys
from collections.abc import Sequence
from typing import Any

# CUDA -> PTX, after the release notes of NVIDIA's "PTX ISA" ("PTX Release History")
_PTX = {(11, 0): (7, 0), (11, 1): (7, 1), (11, 2): (7, 2), (11, 3): (7, 3), (11, 4): (7, 4),
        (11, 5): (7, 5), (11, 6): (7, 6), (11, 7): (7, 7), (11, 8): (7, 8), (12, 0): (8, 0),
        (12, 1): (8, 1), (12, 2): (8, 2), (12, 3): (8, 3), (12, 4): (8, 4), (12, 5): (8, 5),
        (12, 6): (8, 5), (12, 7): (8, 6), (12, 8): (8, 7), (12, 9): (8, 8), (13, 0): (9, 0)}
_WORD = re.compile(r"(ptx|sm)=([0-9]{1,4})\.([0-9]{1,4})")
_MAJOR, _MINOR, _CONCURRENT = 75, 76, 89  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_..., ..._MANAGED_


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


def total_memory(index: int) -> int | None:
    """Bytes of memory of a card, None where the driver does not say."""
    size = ctypes.c_size_t()
    return size.value if _asked("cuDeviceTotalMem_v2", index, size) else None


def capability(index: int) -> tuple[int, int] | None:
    """The compute capability of a card, (9, 0); None where the driver does not say."""
    major, minor = _attribute(index, _MAJOR), _attribute(index, _MINOR)
    return None if major is None or minor is None else (major, minor)


def shares_managed_memory(index: int) -> bool | None:
    """Whether card and host may use managed memory at once (not in some virtual machines)."""
    found = _attribute(index, _CONCURRENT)
    return None if found is None else bool(found)


@functools.cache
def _attribute(index: int, number: int) -> int | None:
    value = ctypes.c_int()
    return value.value if _asked("cuDeviceGetAttribute", index, value, number) else None


def _asked(function: str, index: int, answer: Any, *more: int) -> bool:
    """Whether the driver answered a question about a card."""
    try:
        library = _library()
        card = ctypes.c_int()
        return not (library.cuInit(0) or library.cuDeviceGet(ctypes.byref(card), index)
                    or getattr(library, function)(ctypes.byref(answer), *more, card))
    except (OSError, AttributeError):
        return False


def newest_ptx(driver: tuple[int, int]) -> tuple[int, int] | None:
    """The newest PTX that a driver reads; None where it is newer than what is known here."""
    known = [cuda for cuda in _PTX if cuda <= driver]
    return None if driver > max(_PTX) else _PTX[max(known)] if known else (6, 5)


def missing(needed: Sequence[str], card: tuple[int, int] | None = None) -> list[str]:
    """What code needs ('ptx=8.8', 'sm=9.0') and the driver here does not read, or a card of that
    capability has not, in words."""
    ptx, sm = _most(needed, "ptx"), capability_of(needed)
    driver, found = driver_version(), []
    most = None if driver is None else newest_ptx(driver)
    if most is not None and driver is not None and ptx > most:
        found.append(f"PTX {_dotted(ptx)} (the driver, of CUDA {_dotted(driver)}, reads up to "
                     f"{_dotted(most)})")
    if card is not None and sm > card:
        found.append(f"compute capability {_dotted(sm)} (the card has {_dotted(card)})")
    return found


def _library() -> ctypes.CDLL:
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


def capability_of(words: Sequence[str]) -> tuple[int, int]:
    """The compute capability that code asks for, (0, 0) where it does not say."""
    return _most(words, "sm")


def _most(words: Sequence[str], kind: str) -> tuple[int, int]:
    return max([(int(m[2]), int(m[3])) for w in words if (m := _WORD.fullmatch(w))
                and m[1] == kind], default=(0, 0))


def described(index: int = 0) -> str:
    """The driver and a card, in words."""
    driver, there, total = driver_version(), capability(index), total_memory(index)
    if driver is None:
        return "there is no NVIDIA driver here"
    newest = newest_ptx(driver)
    words = [f"driver of CUDA {_dotted(driver)}",
             f"reads PTX up to {_dotted(newest)}" if newest else "newer than what is known here"]
    if there is not None:
        words.insert(0, f"compute capability {_dotted(there)}")
    if total is not None:
        words.append(f"{total >> 20} MiB")
    return ", ".join(words)


def _dotted(numbers: Sequence[int]) -> str:
    return ".".join(map(str, numbers))
