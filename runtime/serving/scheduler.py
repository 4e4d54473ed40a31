"""When calls run: N threads, a bounded queue, and batches of what waits at the same time.

Everything but the calls themselves happens on the event loop's thread.  Start reading at
`Scheduler.call`.
"""
from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from calque.runtime.serving.batching import Batching
from calque.runtime.serving.entries import Array, Entry
from calque.runtime.serving.errors import RequestError
from calque.runtime.serving.metrics import Metrics
from calque.runtime.serving.settings import Settings
from calque.runtime.session import Session


@dataclass(slots=True)
class _Call:
    """A call that waits, and who waits for it."""

    entry: Entry
    arrays: Sequence[Array]
    session: Session | None
    done: asyncio.Future[list[Array]]
    due: float  # when it is to run, with others or alone
    rows: int


class Scheduler:
    """Runs calls in threads, those that may be one call together.

    Args:
      settings: threads, batches, the queue's length.
      batchings: of the functions that are batched, by name.
      metrics: where calls are counted.
    """

    def __init__(self, settings: Settings, batchings: Mapping[str, Batching],
                 metrics: Metrics) -> None:
        self._settings = settings
        self._batchings = batchings
        self._metrics = metrics
        self._pool = ThreadPoolExecutor(settings.thread_count, "calque serve")
        self._groups: dict[Hashable, deque[_Call]] = {}  # oldest first, as dicts are ordered
        self._waiting = 0
        self._running = 0
        self._timer: asyncio.TimerHandle | None = None

    async def call(self, entry: Entry, arrays: Sequence[Array], session: Session | None = None
                   ) -> list[Array]:
        """The results of a call, which may run with others.

        Args:
          entry: the function.
          arrays: its inputs, which it takes.
          session: for functions of a module with state.

        Raises:
          RequestError: the queue is full, or the call failed.
        """
        if self._waiting >= self._settings.max_queue:
            raise RequestError(429, f"{self._waiting} requests wait, and no more may.", entry.name,
                               "ask again later, or serve with a larger --max-queue.",
                               retry_after=1)
        loop = asyncio.get_running_loop()
        batching = self._batchings.get(entry.name)
        key = None if batching is None or session is not None else batching.key(arrays)
        rows = 1 if batching is None else batching.rows(arrays)
        now = time.monotonic()
        waits = 0.0 if key is None else self._settings.max_wait_ms / 1000
        one = _Call(entry, arrays, session, loop.create_future(), now + waits, rows)
        group: Hashable = (entry.name, key) if key is not None else one.done
        self._groups.setdefault(group, deque()).append(one)
        self._set_waiting(1)
        self._start()
        return await one.done

    def close(self) -> None:
        """Let go of the threads; calls under way are waited for."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _set_waiting(self, change: int) -> None:
        self._waiting += change
        self._metrics.waiting.set(self._waiting)

    def _start(self) -> None:
        """Start what is due, as long as threads are free."""
        while self._running < self._settings.thread_count:
            chosen = self._chosen()
            if chosen is None:
                return
            self._running += 1
            self._metrics.running.inc()
            asyncio.get_running_loop().create_task(self._run(chosen))

    def _chosen(self) -> list[_Call] | None:
        """The calls to run next; None: nothing is due yet, and a timer is set."""
        now, soonest = time.monotonic(), None
        for key, group in [*self._groups.items()]:
            while group and group[0].done.done():  # its client has gone
                group.popleft()
                self._set_waiting(-1)
            if not group:
                del self._groups[key]
                continue
            count, is_full = self._count(group)
            if is_full or group[0].due <= now:
                batch = [group.popleft() for _ in range(count)]
                self._set_waiting(-count)
                if not group:
                    del self._groups[key]
                return [c for c in batch if not c.done.done()]
            soonest = group[0].due if soonest is None else min(soonest, group[0].due)
        if soonest is not None:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_later(soonest - now, self._start)
        return None

    def _count(self, group: deque[_Call]) -> tuple[int, bool]:
        """How many of a group's calls are one, and whether no more could be."""
        first = group[0]
        batching = self._batchings.get(first.entry.name)
        if batching is None or len(group) == 1 and first.rows < batching.limit:
            return 1, batching is None
        count, rows = 0, 0
        best = 1
        for one in group:
            count, rows = count + 1, rows + one.rows
            if count > 1 and not batching.may_hold(first.arrays, rows):
                return best, True
            best = count
        return best, rows >= batching.limit

    async def _run(self, calls: list[_Call]) -> None:
        """Run calls as one, and tell those who wait."""
        loop = asyncio.get_running_loop()
        begin = time.perf_counter()
        name = calls[0].entry.name if calls else ""
        try:
            outcomes = await loop.run_in_executor(self._pool, self._outcomes, calls)
        finally:
            self._running -= 1
            self._metrics.running.dec()
        if calls:
            self._metrics.run_seconds.labels(name).observe(time.perf_counter() - begin)
        for one, outcome in zip(calls, outcomes, strict=True):
            if one.done.done():
                continue
            if isinstance(outcome, Exception):
                one.done.set_exception(_failed(outcome, one))
            else:
                one.done.set_result(outcome)
        self._start()

    def _outcomes(self, calls: list[_Call]) -> list[list[Array] | Exception]:
        """The results of calls, or what they raised; on a thread of the pool."""
        if len(calls) > 1:
            batching = self._batchings[calls[0].entry.name]
            try:
                self._note(calls)
                return [*batching.run([c.arrays for c in calls])]
            except Exception:  # one of them may be at fault: each for itself
                return [self._outcome(c) for c in calls]
        return [self._outcome(c) for c in calls]

    def _outcome(self, one: _Call) -> list[Array] | Exception:
        batching = self._batchings.get(one.entry.name)
        try:
            self._note([one])
            if batching is None or one.session is not None:
                return one.entry.call(one.arrays, one.session)
            return batching.run([one.arrays])[0]
        except Exception as error:
            return error

    def _note(self, calls: list[_Call]) -> None:
        name = calls[0].entry.name
        self._metrics.runs.labels(name).inc()
        self._metrics.batch_rows.labels(name).observe(sum(c.rows for c in calls))
        self._metrics.batch_requests.labels(name).observe(len(calls))


def _failed(error: Exception, one: _Call) -> RequestError:
    """What a client is told; arguments of functions with state are looked at by the call."""
    if isinstance(error, RequestError):
        return error
    text = str(error)
    if one.session is not None and isinstance(error, TypeError | ValueError):
        made = RequestError(400, text)
    else:
        made = RequestError(
            500, f"the call failed: {type(error).__name__}: {text}", "",
            "" if "  Fix: " in text else f"look at the inputs of {one.entry.name}, and at the "
            "server's memory.")
    made.__cause__ = error
    return made
