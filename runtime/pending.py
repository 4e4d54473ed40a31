"""Calls under way on a device's queue: how many there may be, and how they are waited for.

IREE's local-task device takes what lies between a program's operations from slabs of 64 MiB, and
looks for room in one of them and in the last four that something was given back to: what was in
more slabs than that is lost when it is given back, for good (iree/hal/memory/tlsf_pool.c; 1000
results of 1 MB, kept and dropped, cost 940 MB each time).  Independent calls run side by side, each
with its memory: 400 products of 1500 x 1500 took 14 GB.  Hence results are written into memory of
ours (runtime/executable), and no more calls are queued than fit into few slabs.
What calls under way will give, and what they take over and give back at their end, is bounded, too:
a loop whose steps nobody waits for would else hold a result of each (200 steps of 16 MB, their
argument donated: 389 MB more; with the bound two of them).  Two calls may always be under way: one
runs, the other is there when it ends.
Start reading at `Pending.make_room`.
"""
from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import deque
from typing import Any

from calque.runtime.errors import device_error
from calque.runtime.waiting import LOOKING_S, wait_until
from calque.runtime.watch import span, watchers

MOST_CALLS = 32  # XLA's limit on the CPU
SLAB = 64 << 20  # a larger piece is allocated alone, and freed
MOST_BYTES = 3 * SLAB
MOST_RESULTS = 32 << 20  # bytes; of a GPU, whose calls are over much sooner:
MOST_RESULTS_OF_GPU = 1 << 30


class Pending:
    """The calls under way on one device.

    Example:
      >>> from calque import runtime
      >>> isinstance(runtime.devices()[0].pending, runtime.pending.Pending)
      True
    """

    def __init__(self, of_gpu: bool = False, looking: bool = False) -> None:
        # (semaphore, bytes in between, bytes of results), the oldest first
        self._calls: deque[tuple[Any, int, int]] = deque()
        self._transient_bytes = self._result_bytes = 0
        self._most_results = MOST_RESULTS_OF_GPU if of_gpu else MOST_RESULTS
        self._looking = looking
        self._lock = threading.Lock()

    def make_room(self, transient_bytes: int, result_bytes: int = 0) -> None:
        """Wait for calls until one more, which takes so many bytes, may be queued.

        Whether they failed is their results' affair.
        """
        wanted = min(transient_bytes, SLAB)
        while True:
            with self._lock:
                if self._fits(wanted, result_bytes):
                    return
                self._calls = deque(c for c in self._calls if not is_over(c[0]))
                self._transient_bytes = sum(taken for _, taken, _ in self._calls)
                self._result_bytes = sum(given for _, _, given in self._calls)
                if self._fits(wanted, result_bytes):
                    return
                semaphore = self._to_wait_for(result_bytes)
            with contextlib.suppress(Exception):
                wait_for(semaphore, None, "", self._looking)

    def _to_wait_for(self, result_bytes: int) -> Any:
        """The oldest call; where results are too many, the one after which there is room for half
        of them, so that not every call has to wait: to be woken takes a while."""
        left = self._result_bytes
        if len(self._calls) < 3 or left + result_bytes <= self._most_results:
            return self._calls[0][0]
        for call in list(self._calls)[:-1]:
            left -= call[2]
            if left + result_bytes <= self._most_results // 2:
                break
        return call[0]

    def wait(self) -> None:
        """Wait for all calls under way; whether they failed is their results' affair."""
        with self._lock:
            calls = list(self._calls)
        for semaphore, _, _ in calls:
            with contextlib.suppress(Exception):
                wait_for(semaphore, None, "", self._looking)

    def _fits(self, wanted: int, result_bytes: int) -> bool:
        return not self._calls or (
            len(self._calls) < MOST_CALLS and self._transient_bytes + wanted <= MOST_BYTES
            and (len(self._calls) < 2 or self._result_bytes + result_bytes <= self._most_results))

    def add(self, semaphore: Any, transient_bytes: int, result_bytes: int = 0) -> None:
        """A call was queued, which signals the semaphore when it is done."""
        taken = min(transient_bytes, SLAB)
        with self._lock:
            self._calls.append((semaphore, taken, result_bytes))
            self._transient_bytes += taken
            self._result_bytes += result_bytes


def is_over(semaphore: Any) -> bool:
    """Whether a semaphore is reached, or failed: then its failure is its own results'."""
    try:
        return bool(semaphore.query() >= 1)
    except RuntimeError:
        return True


def wait_for(semaphore: Any, timeout_s: float | None, where: str, looking: bool = False
             ) -> None:
    """Wait until a semaphore reaches 1, or raise; `looking`: for a while without blocking."""
    if watchers:
        with span("wait", "wait", where=where or "for room in the queue"):
            _wait_for(semaphore, timeout_s, where, looking)
    else:
        _wait_for(semaphore, timeout_s, where, looking)


def _wait_for(semaphore: Any, timeout_s: float | None, where: str, looking: bool) -> None:
    deadline = math.inf if timeout_s is None else time.perf_counter() + timeout_s
    try:
        if not wait_until(lambda: semaphore.query() >= 1, lambda ns: semaphore.wait(1, timeout=ns),
                          deadline, *([LOOKING_S] if looking else [])):
            raise TimeoutError(f"no value after {timeout_s} s.\n  In {where}.")
    except RuntimeError as error:
        raise device_error(error, where) from error
