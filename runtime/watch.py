"""Who looks on while programs run: a profiler puts itself into `watchers`.

While the list is empty nothing is measured and nothing is called: hot paths test the list beside
what they test anyway.  Start reading at `span`.
"""
from __future__ import annotations

from typing import Any, Protocol


class Watcher(Protocol):
    """Who looks on; called on the thread that does the work."""

    def begin(self, name: str, category: str, args: dict[str, Any]) -> Any:
        """A span begins; what is returned is given to `end`."""

    def end(self, token: Any) -> None:
        """It is over."""

    def queued(self, token: Any, device: str, semaphore: Any, waits: list[Any]) -> None:
        """The span `token` put work into a device's queue, which begins when the semaphores
        `waits` are reached, and whose end the semaphore signals."""


watchers: list[Watcher] = []  # one at most


class span:
    """A block that a watcher is told of.

    Example:
      >>> from calque.runtime import watch
      >>> with watch.span("load", "load", bytes=100):  # nobody looks on: nothing happens
      ...     pass
    """

    __slots__ = ("_args", "_category", "_name", "_token", "_watcher")

    def __init__(self, name: str, category: str, **args: Any) -> None:
        self._name, self._category, self._args = name, category, args

    def __enter__(self) -> span:
        self._watcher = next(iter(watchers), None)
        if self._watcher is not None:
            self._token = self._watcher.begin(self._name, self._category, self._args)
        return self

    def queued(self, device: Any, semaphore: Any, waits: list[Any]) -> None:
        """The block put work into a device's queue."""
        if self._watcher is not None:
            self._watcher.queued(self._token, str(device), semaphore, waits)

    def __exit__(self, *_: Any) -> None:
        if self._watcher is not None:
            self._watcher.end(self._token)
