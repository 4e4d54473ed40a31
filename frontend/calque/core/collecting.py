"""Fewer runs of Python's garbage collector while a program is traced and lowered.

That makes some hundred objects for each operation, which live; whenever there are a quarter more of
such, the collector looks at all objects of the process: a fifth of the time that a large program
takes, more where the process holds much else.  Imports nothing of calque.
"""
from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
YOUNG = 50_000  # new objects after which it runs at the earliest (Python's own: 700)
_inside: list[None] = []  # an entry for each call at work (no lock: a thread that comes between two
_before = [gc.get_threshold()]  # others' steps leaves the thresholds as they are)


def rarely(f: Callable[P, R]) -> Callable[P, R]:
    """f, during which the collector runs rarely; thresholds that the user set higher stay."""
    @functools.wraps(f)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        _inside.append(None)
        now = gc.get_threshold()
        if 0 < now[0] < YOUNG:  # (0: it is off)
            _before[0] = now
            gc.set_threshold(YOUNG, *now[1:])
        try:
            return f(*args, **kwargs)
        finally:
            _inside.pop()
            if not _inside and gc.get_threshold()[0] == YOUNG:
                gc.set_threshold(*_before[0])
    return run


__all__ = ["YOUNG", "rarely"]
