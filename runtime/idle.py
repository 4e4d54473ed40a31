"""Memory of the host that arrays no longer use and that is kept for the next call's.

A page that the system gives anew is filled with zeros first, a fault of its own for each 4 KiB: 0.4
seconds a gigabyte, ten times what reading or writing it takes.  A training step that makes as much
as it drops pays that in each call, unless the memory of the last one lies in IREE's cache.  What
lies there for nothing is given back in two cases: most of what was asked for was not found there
(new sizes, for which the blocks of the old ones are of no use), or nothing was asked for in a while
(the arrays of a model were dropped).  Up to `KEPT_BYTES`, arrays in use among them, stay.
Start reading at `Idle.note`.
"""
from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

KEPT_BYTES = 512 << 20
LARGE = 256 << 10  # bytes of one allocation that are noted
QUIET_S = 5.0
_LOOK_EVERY = 64 << 20  # bytes asked for


class Idle:
    """What the allocators of a host hold, and when they give it up.

    Args:
      allocators: gives IREE's allocators, each with a cache; those of devices that exist.

    Example:
      >>> from calque.runtime.idle import Idle
      >>> Idle(lambda: []).held_bytes()
      0
    """

    def __init__(self, allocators: Callable[[], Sequence[Any]]) -> None:
        self._allocators = allocators
        self._asked = 0  # bytes, ever
        self._look_at = _LOOK_EVERY
        self._fresh_then = 0  # bytes that had come from the system when there was nothing idle
        self._lock = threading.Lock()
        self._watcher: threading.Thread | None = None

    def note(self, nbytes: int) -> None:
        """So many bytes were asked for at once, and are there.  (After it, for what the caller has
        just dropped is what the next call asks for.)"""
        self._asked += nbytes  # (of several threads one may be lost, which does not matter)
        if self._asked >= self._look_at:
            self._look()

    def held_bytes(self) -> int:
        """What the system has given, used or idle."""
        return self._counts()[1]

    def _look(self) -> None:
        self._look_at = self._asked + _LOOK_EVERY
        fresh, held = self._counts()
        if held <= KEPT_BYTES:
            self._fresh_then = fresh
            return
        if fresh - self._fresh_then > max(KEPT_BYTES, held // 4):
            self.give_back()
        if self._watcher is None:
            with self._lock, contextlib.suppress(RuntimeError):  # (the interpreter is ending)
                if self._watcher is None:
                    watcher = threading.Thread(target=self._watch, name="calque idle memory",
                                               daemon=True)
                    watcher.start()
                    self._watcher = watcher

    def give_back(self) -> None:
        """Give the system all that is idle."""
        for allocator in self._allocators():
            allocator.trim()
        self._fresh_then = self._counts()[0]

    def _counts(self) -> tuple[int, int]:
        """Bytes that the system has given, ever, and those of them that it has not back."""
        counts = [a.statistics for a in self._allocators() if a.has_statistics]
        fresh = sum(c["device_bytes_allocated"] for c in counts)
        return fresh, fresh - sum(c["device_bytes_freed"] for c in counts)

    def _watch(self) -> None:
        """Until little is held: when nothing was asked for in a while, give back what is idle."""
        seen = -1
        while True:
            time.sleep(QUIET_S)
            if self._asked == seen:
                self.give_back()
            seen = self._asked
            with self._lock:
                if self.held_bytes() <= KEPT_BYTES:
                    self._watcher = None
                    return


__all__ = ["Idle"]
