"""What happens while a trace is on: slices of threads, and runs on devices.

The recorder is the watcher of core/monitoring and of runtime/watch.  Each thread writes into a list
of its own.  A queued run's end is seen by a thread of the recorder, which asks the semaphores of
the runs under way every 0.1 ms: IREE tells nobody when one is reached.  Start reading at `begin`.
"""
from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator
from time import perf_counter_ns as now
from typing import Any

from calque.core import monitoring
from calque.runtime import watch
from calque.runtime.pending import is_over

MOST_SLICES = 2_000_000  # some 400 bytes each; what comes later is counted
_INTERVAL_S = 1e-4
_flows = itertools.count(1)


class Slice:
    """Something that a thread did; end is 0 while it does it."""

    __slots__ = ("args", "category", "end", "flow", "name", "start")

    def __init__(self, name: str, category: str, args: dict[str, Any], start: int,
                 end: int = 0) -> None:
        self.name, self.category, self.args = name, category, args
        self.start, self.end = start, end
        self.flow = 0  # of the run that it caused


class Run:
    """A program's run, or a copy, on a device: until `ready` it waits for its arguments."""

    __slots__ = ("device", "done", "end", "failed", "flow", "name", "ready", "road", "start",
                 "waits")

    def __init__(self, name: str, device: str, road: str, start: int, flow: int,
                 done: Any = None, waits: list[Any] | None = None) -> None:
        self.name, self.device, self.road, self.flow = name, device, road, flow
        self.start, self.ready, self.end, self.failed = start, 0, 0, False
        self.done, self.waits = done, waits or []

    def look(self) -> None:
        """Ask whether its arguments are there, and whether it is over."""
        if not self.ready and all(is_over(s) for s in self.waits):
            self.ready, self.waits = now(), []
        try:
            over = self.done.query() >= 1
        except RuntimeError:
            over = self.failed = True
        if over:
            self.end, self.done = now(), None
            self.ready = self.ready or self.end


class Thread:
    """The slices of one thread, in the order in which they began, and those that are open."""

    __slots__ = ("ident", "name", "open", "slices")

    def __init__(self) -> None:
        self.ident, self.name = threading.get_native_id(), threading.current_thread().name
        self.slices: list[Slice] = []
        self.open: list[Slice] = []


class Recorder:
    """Records from `start` to `stop`."""

    def __init__(self) -> None:
        self.threads: list[Thread] = []
        self.runs: list[Run] = []
        self.dropped = self.count = 0
        self.started = self.stopped = 0
        self._own = threading.local()
        self._under_way: list[Run] = []
        self._more = threading.Event()
        self._observer = threading.Thread(target=self._observe, name="calque-profiler", daemon=True)

    def start(self) -> None:
        """Look on from now."""
        self.started = now()
        self._observer.start()
        monitoring.watchers.append(self)
        watch.watchers.append(self)

    def stop(self) -> None:
        """Look on no more; what is open ends now."""
        for watchers in (monitoring.watchers, watch.watchers):
            with contextlib.suppress(ValueError):
                watchers.remove(self)
        self.stopped = now()
        self._more.set()
        self._observer.join()

    # ---- what watchers are told
    def begin(self, name: str, category: str, args: dict[str, Any]) -> Slice | None:
        """A slice of this thread begins."""
        if self.stopped:
            return None
        if self.count >= MOST_SLICES:
            self.dropped += 1
            return None
        self.count += 1
        thread = self._thread()
        made = Slice(name, category, args, now())
        thread.slices.append(made)
        thread.open.append(made)
        return made

    def end(self, token: Slice | None) -> None:
        """It is over, and with it whatever began in it and did not end."""
        if token is None or token.end or self.stopped:
            return
        if token.category == "run":
            run = Run(token.name, token.args["device"], "inline", token.start, self._flow(token))
            run.ready, run.end = run.start, now()
            self.runs.append(run)
        token.end = now()
        stack = self._thread().open
        if token in stack:  # (not where it began on another thread)
            while stack.pop() is not token:
                pass

    def past(self, name: str, category: str, start_ns: int, end_ns: int) -> None:
        """Something was done for this thread, in what it is doing now."""
        if not self.stopped and start_ns >= self.started:
            self._thread().slices.append(Slice(name, category, {}, start_ns, end_ns))

    def queued(self, token: Slice | None, device: str, semaphore: Any, waits: list[Any]) -> None:
        """The slice put work into a device's queue."""
        if token is None or self.stopped:
            return
        run = Run(token.name, device, "queued", now(), self._flow(token), semaphore, list(waits))
        if not waits:
            run.ready = run.start
        self.runs.append(run)
        self._under_way.append(run)
        self._more.set()

    def _flow(self, token: Slice) -> int:
        """A new flow, from the call that the slice is in, or from the slice, to its run."""
        flow = next(_flows)
        source = next((s for s in reversed(self._thread().open)
                       if s.category == "call" and not s.flow), token)
        source.flow = flow
        return flow

    def _thread(self) -> Thread:
        found: Thread | None = getattr(self._own, "thread", None)
        if found is None:
            found = self._own.thread = Thread()
            self.threads.append(found)
        return found

    # ---- runs under way
    def _observe(self) -> None:
        while not self.stopped:
            if not self._under_way:
                self._more.wait()
                self._more.clear()
                continue
            self._look()
            time.sleep(_INTERVAL_S)
        self._look()

    def _look(self) -> None:
        for run in tuple(self._under_way):
            run.look()
            if run.end:
                self._under_way.remove(run)

    def finished(self) -> Iterator[tuple[Thread, list[Slice]]]:
        """The slices of each thread within the trace; what was open says so and ends with it."""
        for thread in tuple(self.threads):
            slices = []
            for s in tuple(thread.slices):
                args = s.args if s.end else {**s.args, "unfinished": True}
                made = Slice(s.name, s.category, args, s.start, s.end or self.stopped)
                made.flow = s.flow
                slices.append(made)
            yield thread, slices
