"""Times the calls of a program's jitted functions: what a first call compiles is not in a median.

`watch(jax)` puts a watched function in the place of each that `jax.jit` makes from then on;
`times()` calls those that the program called once or twice a few times more, with the arguments
they had last, and gives the median of each.  A part of typist.py.
"""
from __future__ import annotations

import statistics
import time
import types
from collections.abc import Callable
from typing import Any

CALLS = 3  # of one function, at the least
SECONDS = 3.0  # for all calls that the program itself did not make
_watched: list[Watched] = []


class Watched:
    """A jitted function, the seconds of its calls and the arguments of the last."""

    def __init__(self, jax: Any, name: str, jitted: Any) -> None:
        self._jax, self._name, self._jitted = jax, name, jitted
        self._seconds: list[float] = []
        self._last: tuple[Any, Any] | None = None
        _watched.append(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if any(isinstance(x, self._jax.core.Tracer)
               for x in self._jax.tree.leaves((args, kwargs))):
            return self._jitted(*args, **kwargs)
        start = time.perf_counter()
        out = self._jax.block_until_ready(self._jitted(*args, **kwargs))
        self._seconds.append(time.perf_counter() - start)
        self._last = args, kwargs
        return out

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jitted, name)


def watch(jax: Any) -> None:
    """From here on `jax.jit` gives watched functions."""
    jit = jax.jit

    def watching(fun: Any = None, /, **options: Any) -> Any:
        if fun is None:
            return lambda f: watching(f, **options)
        return Watched(jax, getattr(fun, "__qualname__", type(fun).__name__), jit(fun, **options))

    jax.jit = watching


def times(clock: Callable[[], float] = time.perf_counter) -> list[tuple[str, int, float]]:
    """Of each function that was called: its name, how often the program did, the median."""
    until = clock() + SECONDS
    found = []
    for w in _watched:
        count = len(w._seconds)
        while 0 < len(w._seconds) < CALLS and clock() < until:
            try:
                w(*w._last[0], **w._last[1])  # type: ignore[index]
            except Exception:  # noqa: BLE001  (a donated argument; a tracer that got out)
                break
        if len(w._seconds) >= CALLS:
            found.append((w._name, count, statistics.median(w._seconds)))
    return found
