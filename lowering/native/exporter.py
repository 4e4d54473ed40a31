"""Exporter: the base of classes in Python whose `__buffer__` gives them the buffer protocol.

Python 3.12 and later give it to every class (PEP 688), and there Exporter is an empty class.  On
3.11 it comes from a library of some lines of C (python/exporter.c), on Linux, where that was built;
elsewhere `bytes(x)` alone is right, by `__bytes__`.
"""
from __future__ import annotations

import ctypes
import platform
import sys
from pathlib import Path
from typing import Any

_LEVELS = {"x86_64": "x86-64-v2", "aarch64": "aarch64"}


def _exporter() -> Any:
    """The class of the C library; None where it is not needed or not there."""
    if sys.version_info >= (3, 12) or sys.platform != "linux":
        return None
    level = _LEVELS.get(platform.machine(), "")
    path = Path(__file__).resolve().parent / "objects" / level / "exporter.so"
    try:
        made = ctypes.PyDLL(str(path)).calque_exporter
    except OSError:
        return None
    made.restype = ctypes.py_object
    return made()


class _Plain:
    """Stands in for the C class: adds nothing."""

    __slots__ = ()


Exporter: Any = _exporter() or _Plain
