"""What is remembered between calls: dicts that `calque.clear_caches` empties.

A module that remembers what it traced, compiled or inferred keeps it in a Memo; nothing else has to
know of it.  Imports nothing of calque.
"""
from __future__ import annotations

import weakref
from typing import Any

_every: weakref.WeakValueDictionary[int, Memo] = weakref.WeakValueDictionary()


class Memo(dict[Any, Any]):
    """A dict of at most `limit` entries, the oldest of which go first."""

    __slots__ = ("limit", "__weakref__")

    def __init__(self, limit: float = float("inf")) -> None:
        self.limit = limit
        _every[id(self)] = self

    def keep(self, key: Any, value: Any) -> Any:
        """Remember a value; the value."""
        while len(self) >= self.limit:
            self.pop(next(iter(self)), None)  # (None: another thread was faster)
        self[key] = value
        return value


def forget() -> None:
    """Empty all of them."""
    for memo in list(_every.values()):
        memo.clear()
