"""Side-by-side timing: calque and jax in one process, alternating, so that noise hits both.

`compare(name, ours, theirs)` runs interleaved pairs and returns a Row: the median of the ratio
calque / jax and its interquartile range.  A bar holds when it lies above the median or inside the
range (the machine is shared and noisy).
"""
from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; times in milliseconds, ratios below 1 mean calque is faster."""

    name: str
    ours: float
    theirs: float
    ratio: float
    low: float
    high: float
    bar: float | None
    pairs: int

    @property
    def verdict(self) -> str:
        if self.bar is None:
            return ""
        return "holds" if self.bar >= self.ratio or self.low <= self.bar <= self.high else "missed"

    def markdown(self) -> str:
        bar = "" if self.bar is None else f"{self.bar:g}"
        return (f"| {self.name} | {_time(self.ours)} | {_time(self.theirs)} | {self.ratio:.3f} "
                f"({self.low:.3f}..{self.high:.3f}) | {bar} | {self.verdict} |")


def _time(ms: float) -> str:
    return f"{ms * 1e3:.2f} us" if ms < 0.5 else f"{ms:.1f} ms"


def compare(name: str, ours: Callable[[], Any], theirs: Callable[[], Any],
            bar: float | None = None, pairs: int = 30, inner: int = 1,
            budget_s: float = 60.0) -> Row:
    """Time `inner` calls of each, in turn, `pairs` times (fewer only when the budget is gone)."""
    for f in (ours, theirs, ours, theirs):
        f()
    a, b = [], []
    stop = time.perf_counter() + budget_s
    for i in range(pairs):
        first, second = (ours, theirs) if i % 2 == 0 else (theirs, ours)
        t = [_timed(first, inner), _timed(second, inner)]
        a.append(t[0] if first is ours else t[1])
        b.append(t[1] if first is ours else t[0])
        if time.perf_counter() > stop and i >= 9:
            break
    ratios = sorted(x / y for x, y in zip(a, b))
    low, _, high = statistics.quantiles(ratios, n=4)
    return Row(name, statistics.median(a), statistics.median(b), statistics.median(ratios), low,
               high, bar, len(ratios))


_SETTLE_S = 0.005  # worker threads spin for a while after work: the other library's must be asleep


def _timed(f: Callable[[], Any], inner: int) -> float:
    time.sleep(_SETTLE_S)
    start = time.perf_counter()
    for _ in range(inner):
        f()
    return (time.perf_counter() - start) / inner * 1e3


HEADER = ("| case | calque | jax | calque / jax (quartiles) | bar | |\n"
          "|---|---|---|---|---|---|")
