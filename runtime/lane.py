"""One thread that does what queued programs ask for, one thing after the other: their messages.

A program on a queue reaches an import before its operands are there.  The import puts its work into
the lane with IREE's two fences and returns; the lane's thread waits for the one, does the work and
signals the other.  What the work raises fails that fence, and everything behind it: IREE hands a
text on, in which `errors.kept` finds the exception again.
Start reading at `Lane.add`.
"""
from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from calque.runtime.errors import keep
from calque.runtime.waiting import wait_until

Failed = Callable[[BaseException], None] | None
MOST = 256  # pieces of work that wait: who asks for more waits


class Lane:
    """Work in the order in which it was put in.

    Example:
      >>> from calque.runtime.lane import Lane
      >>> Lane().is_idle()
      True
    """

    def __init__(self) -> None:
        self._work: deque[tuple[Any, Callable[[], None], Any, Failed]] = deque()  # first: under way
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def is_idle(self) -> bool:
        """Whether all work is done."""
        return not self._work

    def is_mine(self) -> bool:
        """Whether the caller is the lane's thread."""
        return threading.current_thread() is self._thread

    def add(self, wait: Any, work: Callable[[], None], done: Any, failed: Failed = None) -> None:
        """Do `work` when the fence `wait` is reached (None: now), and signal the fence `done`;
        failed: told of the error where `work` fails, or `wait` does and it is not done."""
        with self._changed:
            while len(self._work) >= MOST:
                self._changed.wait(0.25)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="calque messages",
                                                daemon=True)
                self._thread.start()
            self._work.append((wait, work, done, failed))
            self._changed.notify_all()

    def drain(self, timeout_s: float | None = None) -> bool:
        """Wait until all work is done; False where that takes longer.  Ctrl-C comes through."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            while self._work:
                if end is not None and time.monotonic() >= end:
                    return False
                self._changed.wait(0.25)
        return True

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._work:
                    self._changed.wait()
                wait, work, done, failed = self._work[0]
            try:
                _reached(wait)
                work()
            except BaseException as error:  # raised again where the results are read
                if failed is not None:
                    failed(error)
                if done is not None:
                    done.fail(keep(error))
            else:
                if done is not None:
                    done.signal()
            del wait, work, done, failed  # with the memory that they hold
            with self._changed:
                self._work.popleft()
                self._changed.notify_all()


def _reached(fence: Any) -> None:
    """Wait for a fence; RuntimeError where it failed."""
    if fence is not None:
        wait_until(lambda: fence.wait(timeout=0), lambda ns: fence.wait(timeout=ns), math.inf)


messages = Lane()  # one a process: all see one order

__all__ = ["Lane", "messages"]
