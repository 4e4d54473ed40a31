"""jax_array_garbage_collection_guard: says which arrays Python's collector of cycles had to delete.

An array in a cycle keeps its memory until the collector comes by.  While the guard is on, weak
references to all arrays watch each collection: those that it deletes are told of.
Start reading at `_collecting`.
"""
from __future__ import annotations

import gc
import os
import sys
import weakref
from typing import Any

from calque.core.config import config
from calque.core.errors import explain
from calque.dispatch.array import Array

_OPTION = "jax_array_garbage_collection_guard"
_watched: list[weakref.ref[Array]] = []
_deleted: list[str] = []


def _collecting(phase: str, _: dict[str, int]) -> None:
    """Python's collector begins or has ended."""
    if phase == "start":
        if config.read_while_collecting(_OPTION) in ("log", "fatal"):
            _watched.extend(_reference(x) for x in gc.get_objects() if issubclass(type(x), Array))
        return
    _watched.clear()
    told = [_deleted.pop() for _ in range(len(_deleted))]
    for array in told:
        print(explain(
            "RuntimeError: `jax.Array` was deleted by the Python garbage collector instead of "
            f"reference counting: {array}.", fix="break the cycle of references that it was in."),
            file=sys.stderr, flush=True)
    if told and config.read_while_collecting(_OPTION) == "fatal":
        os.abort()


def _reference(x: Array) -> weakref.ref[Array]:
    aval = x.aval  # (a text would be made of every array)
    return weakref.ref(x, lambda _: _deleted.append(str(aval)) if _watched else None)


def _switch(value: Any) -> None:
    """Listen from the first time on that the guard is asked for."""
    if value in ("log", "fatal") and _collecting not in gc.callbacks:
        gc.callbacks.append(_collecting)


config.checks[_OPTION] = _switch
_switch(config.read(_OPTION))
