"""Which calls of a function may be one call, and that call.

A function is batchable where its artifact's signature says that an axis, the first of all inputs
that have it and of all outputs, has any size (`f32[b,128]`), or where there are programs for
several sizes of it.  A signature does not say that rows are independent of each other (a mean over
the batch has the same): so two calls are compared with one of both before anything is served.

Start reading at `batching_of`, then `Batching.run`.
"""
from __future__ import annotations

import bisect
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calque.runtime.aot import ArgumentRecord, FunctionRecord
from calque.runtime.dims import Expression
from calque.runtime.serving.entries import Array, Entry
from calque.runtime.serving.errors import RequestError
from calque.runtime.serving.settings import LARGEST_BATCH

FEW_BYTES = 1 << 16  # inputs without the axis are compared by value up to this size
_TRIED = (1, 2, 3, 4, 8, 16, 32, 64)  # sizes that constraints are tried with
_TIMED = 3  # calls of each program, of which the fastest counts


@dataclass(slots=True)
class Batching:
    """How calls of a function become one.

    Attributes:
      entry: the function.
      batched: positions of the inputs that have the axis.
      any_size: whether there is a program for every size.
      sizes: those that have programs of their own, by the other sizes of the inputs.
      limit: rows of a batch at most.
      seconds: what programs take, where it was measured: of known sizes, and of that for any.
    """

    entry: Entry
    batched: tuple[int, ...]
    any_size: bool
    sizes: dict[Hashable, list[int]]
    limit: int
    seconds: tuple[dict[int, float], dict[int, float]] = field(default=({}, {}))

    def rows(self, arrays: Sequence[Array]) -> int:
        """The size of the axis."""
        return int(arrays[self.batched[0]].shape[0])

    def key(self, arrays: Sequence[Array]) -> Hashable | None:
        """Calls of equal keys may be one; None: this one is for itself."""
        if self.rows(arrays) < 1:
            return None
        others = [a for i, a in enumerate(arrays) if i not in self.batched]
        if any(a.nbytes > FEW_BYTES for a in others):
            return None
        return self._others(arrays), tuple(a.tobytes() for a in others)

    def _others(self, arrays: Sequence[Array]) -> Hashable:
        """The shapes but for the axis."""
        return tuple(a.shape[1:] if i in self.batched else a.shape for i, a in enumerate(arrays))

    def may_hold(self, arrays: Sequence[Array], rows: int) -> bool:
        """Whether there is a program for so many rows like these."""
        sizes = self.sizes.get(self._others(arrays), [])
        if rows > self.limit or self._padded(sizes, rows) is None:
            return False
        if not self.any_size or not self.entry.function.record.constraints:
            return True
        shapes = [(rows, *a.shape[1:]) if i in self.batched else a.shape
                  for i, a in enumerate(arrays)]
        return _takes(self.entry, shapes)

    def _padded(self, sizes: list[int], rows: int) -> int | None:
        """With how many rows so many are computed fastest; None: with none that there are."""
        at = bisect.bisect_left(sizes, rows)
        larger = sizes[at] if at < len(sizes) else None
        if not self.any_size or larger == rows:
            return larger
        if larger is None:
            return rows
        known, dynamic = self.seconds
        if larger not in known or len(dynamic) < 2:
            return rows
        return larger if known[larger] < float(np.interp(rows, [*dynamic], [*dynamic.values()])) \
            else rows

    def run(self, calls: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """The results of several calls of one key, by one.

        Args:
          calls: the arrays of each.

        Returns:
          The results of each: views of rows of what was computed.
        """
        first = calls[0]
        counts = [self.rows(c) for c in calls]
        rows = sum(counts)
        padded = self._padded(self.sizes.get(self._others(first), []), rows) or rows
        if len(calls) == 1 and padded == rows:
            return [self.entry.call(first)]
        given = list(first)
        for i in self.batched:
            parts = [c[i] for c in calls]
            if padded > rows:  # rows that are valid, whatever the function does
                parts.append(np.broadcast_to(parts[-1][-1:], (padded - rows, *first[i].shape[1:])))
            given[i] = np.concatenate(parts)
        made = self.entry.call(given)
        ends = np.cumsum(counts).tolist()
        return [[r[e - n:e] for r in made] for n, e in zip(counts, ends, strict=True)]

    def measure(self, arrays: Sequence[Array]) -> None:
        """Time the programs, which also loads them: those of known sizes, and that for any with a
        row more."""
        sizes = self.sizes.get(self._others(arrays), [])
        known, dynamic = self.seconds
        for size in {*sizes, *[n + 1 for n in sizes if self.any_size]}:
            given = [np.repeat(a[:1], size, 0) if i in self.batched else a
                     for i, a in enumerate(arrays)]
            if size <= 2 * self.limit and _takes(self.entry, [a.shape for a in given]):
                times = known if size in sizes else dynamic
                times[size] = min(self._seconds(given) for _ in range(_TIMED))
        for times in self.seconds:
            ordered = sorted(times.items())
            times.clear()
            times.update(ordered)

    def _seconds(self, given: Sequence[Array]) -> float:
        begin = time.perf_counter()
        self.entry.call(given)
        return time.perf_counter() - begin


def batching_of(entry: Entry, limit: int = 0) -> Batching | None:
    """How calls of a function become one, as its signature has it.

    Args:
      entry: the function.
      limit: rows of a batch at most; 0: as many as the largest program of a known size has, or 64.

    Returns:
      The Batching; None where the signature does not allow it.

    Example:
      >>> from calque import aot, runtime
      >>> import calque.numpy as jnp
      >>> from calque.runtime.serving.batching import batching_of
      >>> from calque.runtime.serving.entries import Entry
      >>> def entry(*specs):
      ...     return Entry(runtime.load(aot.compile(jnp.add, *specs).vmfb).add)
      >>> batching_of(entry("f32[b,2]", "f32[2]")).batched
      (0,)
      >>> batching_of(entry("f32[8,2]", "f32[2]")) is None
      True
    """
    function = entry.function
    forms = list(function.forms.values()) or [function]
    if entry.has_state or not function.record.args:
        return None
    dynamic = [f for f in forms if any(isinstance(d, Expression) for a in f.record.args
                                       for d in a.shape)]
    batched = _along_name(dynamic[0].record) if dynamic else _along_sizes([f.record for f in forms])
    if batched is None or len(dynamic) > 1:
        return None
    sizes: dict[Hashable, set[int]] = {}
    for form in forms:
        if form in dynamic:
            continue
        shapes = [a.shape for a in form.record.args]
        others = tuple(s[1:] if i in batched else s for i, s in enumerate(shapes))
        sizes.setdefault(others, set()).add(int(str(shapes[batched[0]][0])))
    ordered = {others: sorted(found) for others, found in sizes.items()}
    return Batching(entry, batched, bool(dynamic), ordered,
                    limit or max([n for found in ordered.values() for n in found],
                                 default=LARGEST_BATCH))


def _along_name(record: FunctionRecord) -> tuple[int, ...] | None:
    """Positions of the arguments whose first axis is a name that stands there only, and first in
    all results."""
    names = {d.text for a in record.args for d in a.shape[:1] if isinstance(d, Expression)
             and d.linear == (d.text, 1, 0)}
    for name in sorted(names):
        def leads(a: ArgumentRecord, name: str = name) -> bool:
            return bool(a.shape) and str(a.shape[0]) == name and not _names(a.shape[1:], name)
        batched = tuple(i for i, a in enumerate(record.args) if leads(a))
        rest = [a.shape for i, a in enumerate(record.args) if i not in batched]
        if not any(_names(s, name) for s in rest) and record.results and all(
                map(leads, record.results)):
            return batched
    return None


def _names(shape: Sequence[Any], name: str) -> bool:
    return any(isinstance(d, Expression) and name in d.variables for d in shape)


def _along_sizes(records: Sequence[FunctionRecord]) -> tuple[int, ...] | None:
    """The same of programs of known sizes: the arguments that differ do so in the first axis."""
    if len(records) < 2:
        return None
    first = records[0]
    batched = tuple(i for i, a in enumerate(first.args)
                    if any(r.args[i].shape != a.shape for r in records))
    for r in records:
        shapes = [r.args[i].shape for i in batched]
        lead = {s[0] for s in shapes if s} | {x.shape[0] for x in r.results if x.shape}
        if len(lead) != 1 or not all(shapes) or not all(x.shape for x in r.results):
            return None
        if [s[1:] for s in shapes] != [first.args[i].shape[1:] for i in batched] or [
                x.shape[1:] for x in r.results] != [x.shape[1:] for x in first.results]:
            return None
    return batched or None


# ---- two calls beside one of both
def rows_are_independent(batching: Batching, seed: int = 0) -> bool | None:
    """Compare calls of random rows with one of all of them, and time the programs.

    Args:
      batching: of the function.
      seed: of the rows.

    Returns:
      Whether the results agree but for rounding; None where no sizes were found to try.
    """
    calls = _samples(batching, np.random.default_rng(seed))
    if calls is None:
        return None
    apart = [batching.entry.call(c) for c in calls]
    together = batching.run(calls)
    if not all(_alike(a, b) for one, other in zip(apart, together, strict=True)
               for a, b in zip(one, other, strict=True)):
        return False
    batching.measure(calls[0])
    return True


def _samples(batching: Batching, draw: np.random.Generator) -> list[list[Array]] | None:
    """Two calls of different rows that fit into one batch."""
    known = sorted({n for found in batching.sizes.values() for n in found})
    for other in _TRIED:  # for every size but that of the axis
        for rows in _TRIED if batching.any_size else known:
            for counts in ((rows, rows + 1), (rows, rows)):
                shapes = [_shapes(batching, n, other) for n in counts]
                if all(_takes(batching.entry, s) for s in shapes) and batching.may_hold(
                        _empty(batching.entry, shapes[0]), sum(counts)):
                    calls = [_drawn(batching.entry, s, draw) for s in shapes]
                    for i in {*range(len(calls[0]))} - {*batching.batched}:
                        calls[1][i] = calls[0][i]
                    return calls
    return None


def _shapes(batching: Batching, rows: int, other: int) -> list[tuple[int, ...]]:
    """Of the inputs, where the axis is so long and all other names are another number."""
    made = []
    for i, record in enumerate(batching.entry.function.record.args):
        sizes = {name: other for d in record.shape if isinstance(d, Expression)
                 for name in d.variables}
        shape = [d.evaluate(sizes) if isinstance(d, Expression) else d for d in record.shape]
        made.append((rows, *shape[1:]) if i in batching.batched else tuple(shape))
    return made


def _drawn(entry: Entry, shapes: Sequence[Sequence[int]], draw: np.random.Generator
           ) -> list[Array]:
    """Random arrays of these shapes: numbers near 0, and of integers 0 and 1."""
    made = []
    for shape, record in zip(shapes, entry.function.record.args, strict=True):
        integers = record.dtype.kind in "iub"
        made.append((draw.integers(0, 2, shape) if integers else draw.normal(size=shape)
                     ).astype(record.dtype))
    return made


def _empty(entry: Entry, shapes: Sequence[Sequence[int]]) -> list[Array]:
    """Arrays of these shapes that take no memory."""
    return [np.broadcast_to(np.zeros((), r.dtype), tuple(s))
            for r, s in zip(entry.function.record.args, shapes, strict=True)]


def _takes(entry: Entry, shapes: Sequence[Sequence[int]]) -> bool:
    """Whether a call with arrays of these shapes is one."""
    try:
        entry.check(_empty(entry, shapes))
    except RequestError:
        return False
    return True


def _alike(a: Array, b: Array) -> bool:
    """Whether two arrays are equal but for rounding."""
    if a.shape != b.shape:
        return False
    if a.dtype.kind in "iub":
        return bool((a == b).all())
    one, other = (x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) for x in (a, b))
    near = 1e-4 if a.dtype.itemsize >= 4 else 3e-2
    size = float(np.max(np.abs(one), where=np.isfinite(one), initial=0.0))
    return bool(np.allclose(one, other, rtol=near, atol=near * size, equal_nan=True))
