"""What is remembered between calls: dicts that `calque.clear_caches` empties.

A module that remembers what it traced, compiled or inferred keeps it in a Memo; nothing else has to
know of it.  Imports nothing of calque.
"""
from __future__ import annotations

import threading
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


class Recent(Memo):
    """A Memo that gives a value as long as anybody holds it; by itself it holds the latest `limit`.

    For what functions hold that the user may drop.
    """

    __slots__ = ("_living", "_lock")

    def __init__(self, limit: float = float("inf")) -> None:
        super().__init__(limit)
        self._living: weakref.WeakValueDictionary[Any, Any] = weakref.WeakValueDictionary()
        self._lock = threading.RLock()

    def find(self, key: Any) -> Any:
        """The value, None where there is none; it counts among the latest from now on."""
        with self._lock:
            value = self._living.get(key)
            if value is not None:
                self.pop(key, None)
                super().keep(key, value)
            return value

    def keep(self, key: Any, value: Any) -> Any:
        """Remember a value; the value."""
        with self._lock:
            self._living[key] = value
            return super().keep(key, value)

    def clear(self) -> None:
        """Forget all, those that others hold among them."""
        super().clear()
        self._living.clear()


def forget() -> None:
    """Empty all of them."""
    for memo in list(_every.values()):
        memo.clear()
