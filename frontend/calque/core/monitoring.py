"""Events: who listens to what is traced, lowered and compiled, and who looks on as it is done.

Listeners (`calque.monitoring`) hear of an event when it is over, under JAX's names; a watcher, such
as a profiler, hears when a span begins and ends.  Without either a span costs a microsecond, which
only slow things pay.  Start reading at `span`.  Imports nothing of calque.
"""
from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

TRACE = "/jax/core/compile/jaxpr_trace_duration"
LOWER = "/jax/core/compile/jaxpr_to_mlir_module_duration"
COMPILE = "/jax/core/compile/backend_compile_duration"
CACHE_TASKS = "/jax/compilation_cache/tasks_using_cache"
CACHE_REQUESTS = "/jax/compilation_cache/compile_requests_use_cache"
CACHE_HITS = "/jax/compilation_cache/cache_hits"
CACHE_MISSES = "/jax/compilation_cache/cache_misses"
CACHE_RETRIEVAL = "/jax/compilation_cache/cache_retrieval_time_sec"


class Watcher(Protocol):
    """Who looks on: told of spans as they begin and end, on the thread that does the work."""

    def begin(self, name: str, category: str, args: dict[str, Any]) -> Any:
        """A span begins; what is returned is given to `end`."""

    def end(self, token: Any) -> None:
        """It is over."""

    def past(self, name: str, category: str, start_ns: int, end_ns: int) -> None:
        """Something was done for this thread between two times of time.perf_counter_ns."""


watchers: list[Watcher] = []  # one at most
_listeners: dict[str, list[Callable[..., None]]] = {
    kind: [] for kind in ("event", "duration", "scalar", "time span")}
_lock = threading.Lock()
_inside = threading.local()  # events whose spans are open on this thread


def register(kind: str, listener: Callable[..., None]) -> None:
    """Have a listener called for each event of a kind."""
    with _lock:
        _listeners[kind].append(listener)


def unregister(kind: str, listener: Callable[..., None]) -> bool:
    """Call it no more; whether it was called until now."""
    with _lock:
        there = listener in _listeners[kind]
        if there:
            _listeners[kind].remove(listener)
    return there


def clear() -> None:
    """Call nobody any more."""
    with _lock:
        for listeners in _listeners.values():
            listeners.clear()


def send(kind: str, *what: Any, **metadata: Any) -> None:
    """Call the listeners of a kind, in the order in which they came."""
    for listener in tuple(_listeners[kind]):
        listener(*what, **metadata)


class span:
    """A block that is an event of JAX's, or a part of one (event: ''), and a slice of a profile.

    Of spans of one event within each other, as where a jitted function calls another, listeners
    hear of the outermost.
    """

    __slots__ = ("_began", "_event", "_metadata", "_name", "_outermost", "_start", "_token",
                 "_watcher")

    def __init__(self, name: str, category: str, event: str = "", **metadata: Any) -> None:
        self._name, self._event, self._metadata = (name, category), event, metadata

    def __enter__(self) -> None:
        self._watcher = next(iter(watchers), None)
        if self._watcher is not None:
            self._token = self._watcher.begin(*self._name, self._metadata)
        if not self._event:
            return
        self._start = 0.0
        running = _running()
        self._outermost = self._event not in running
        if self._outermost:
            running.add(self._event)
            self._start, self._began = time.time(), time.perf_counter()
            try:
                send("scalar", self._event, self._start, **self._metadata)
            except BaseException:  # a listener's: there is no __exit__ then
                self._close()
                raise

    def __exit__(self, kind: Any, *_: Any) -> None:
        self._close()
        if self._event and self._outermost and kind is None:
            spent = time.perf_counter() - self._began
            send("duration", self._event, spent, **self._metadata)
            send("time span", self._event, self._start, self._start + spent, **self._metadata)

    def _close(self) -> None:
        if self._event and self._outermost:
            _running().discard(self._event)
        if self._watcher is not None:
            self._watcher.end(self._token)


def _running() -> set[str]:
    found: set[str] | None = getattr(_inside, "events", None)
    if found is None:
        found = _inside.events = set()
    return found


def past(name: str, category: str, start_ns: int, end_ns: int) -> None:
    """Tell the watcher, if there is one, of what was done meanwhile."""
    for watcher in tuple(watchers):
        watcher.past(name, category, start_ns, end_ns)
