"""A recording as a trace of Perfetto's: TrackEvents in protocol buffers.

The field numbers are those of perfetto's protos/perfetto/trace (trace_packet.proto, track_event,
track_descriptor, interned_data, clock_snapshot).  Each thread is a track, and each device one,
with further lanes for runs that overlap.  Begins and ends are written in the order of time, and
slices of a track lie within each other.  Start reading at `trace_of`.
"""
from __future__ import annotations

import heapq
import os
import random
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from calque.profiler.recorder import Recorder, Run, Slice
from calque.profiler.wire import data, fixed, integer, real

# TracePacket
_TIMESTAMP, _SEQUENCE, _EVENT, _INTERNED, _FLAGS, _DEFAULTS, _DESCRIPTOR, _CLOCKS = (
    8, 10, 11, 12, 13, 59, 60, 6)
_CLEARED, _NEEDS_STATE = 1, 2  # sequence_flags
_REALTIME, _MONOTONIC, _BOOTTIME = 1, 3, 6  # builtin clocks
_BEGIN, _END = 1, 2  # TrackEvent.type
_CATEGORIES, _NAMES, _KEYS = 1, 2, 3  # InternedData

Event = tuple[int, bytes]  # time, a packet without it


class _Interned:
    """Texts that are written once and named by a number."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, str], int] = {}
        self.entries: list[bytes] = []

    def of(self, kind: int, text: str) -> int:
        number = self.known.get((kind, text))
        if number is None:
            number = self.known[kind, text] = len(self.known) + 1
            self.entries.append(data(kind, integer(1, number) + data(2, text)))
        return number


class _Writer:
    def __init__(self) -> None:
        self.interned = _Interned()
        base = random.SystemRandom()  # traces of several processes may be joined into one file
        self.sequence = base.randrange(1, 1 << 32)
        self.base = base.randrange(1 << 62) << 1
        self.tracks = 0
        self.flows = base.randrange(1 << 32) << 31
        self.out: list[bytes] = []

    def packet(self, body: bytes) -> None:
        self.out.append(data(1, body + integer(_SEQUENCE, self.sequence)))

    def track(self, parent: int, name: str, what: bytes = b"") -> int:
        """A new track's number."""
        self.tracks += 1
        uuid = self.base + self.tracks
        self.packet(data(_DESCRIPTOR, integer(1, uuid) + (integer(5, parent) if parent else b"")
                         + (data(2, name) if name else b"") + what))
        return uuid

    def begin(self, track: int, s: Slice, leads: int = 0, ends: int = 0) -> bytes:
        """The TrackEvent that begins a slice; flows that lead from it and that end in it."""
        event = (integer(9, _BEGIN) + integer(11, track)
                 + integer(10, self.interned.of(_NAMES, s.name))
                 + integer(3, self.interned.of(_CATEGORIES, s.category)))
        for name, value in s.args.items():
            event += data(4, integer(1, self.interned.of(_KEYS, name)) + _annotation(value))
        if leads:
            event += fixed(47, self.flows + leads)
        if ends:
            event += fixed(48, self.flows + ends)
        return data(_EVENT, event)

    def end(self, track: int) -> bytes:
        return data(_EVENT, integer(9, _END) + integer(11, track))


def _annotation(value: Any) -> bytes:
    if isinstance(value, bool):
        return integer(2, value)
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return integer(4, value)
    if isinstance(value, float):
        return real(5, value)
    return data(6, str(value))


def trace_of(recorder: Recorder, categories: frozenset[str] | None) -> bytes:
    """The file of a recording; categories: of the slices of threads that are shown (None: all)."""
    w = _Writer()
    w.packet(integer(_FLAGS, _CLEARED) + data(_DEFAULTS, integer(58, _MONOTONIC)) + _clocks())
    process = w.track(0, "", data(3, integer(1, os.getpid()) + data(6, os.path.basename(
        sys.argv[0] or "python"))))
    streams: list[list[Event]] = []
    sources: set[int] = set()  # flows that lead from slices that are shown
    for thread, slices in recorder.finished():
        shown = [s for s in slices if categories is None or s.category in categories]
        sources.update([s.flow for s in shown])
        if shown:
            track = w.track(process, "", data(4, integer(1, os.getpid()) + integer(
                2, thread.ident) + data(5, thread.name)))
            streams.append(list(_nested(w, track, sorted(shown, key=lambda s: s.start))))
    devices: dict[str, list[Run]] = {}
    for run in sorted(recorder.runs, key=lambda r: r.start):
        devices.setdefault(run.device, []).append(run)
    for device, runs in sorted(devices.items()):
        parent = w.track(process, device)
        for i, lane in enumerate(lanes(runs, recorder.stopped)):
            track = w.track(parent, f"{device} runs" + (f", beside ({i + 1})" if i else ""))
            streams.append(list(_of_runs(w, track, lane, recorder.stopped, sources)))
    w.packet(integer(_FLAGS, _NEEDS_STATE) + data(_INTERNED, b"".join(w.interned.entries)))
    for when, body in heapq.merge(*streams, key=lambda e: e[0]):
        w.packet(integer(_TIMESTAMP, when) + integer(_FLAGS, _NEEDS_STATE) + body)
    return b"".join(w.out)


def _clocks() -> bytes:
    """What several clocks say now; slices are in the first."""
    clocks = [(_MONOTONIC, time.perf_counter_ns()), (_REALTIME, time.time_ns())]
    if hasattr(time, "CLOCK_BOOTTIME"):
        clocks.append((_BOOTTIME, time.clock_gettime_ns(time.CLOCK_BOOTTIME)))
    return data(_CLOCKS, b"".join(data(1, integer(1, c) + integer(2, t)) for c, t in clocks)
                + integer(2, _MONOTONIC))


def _nested(w: _Writer, track: int, slices: Iterable[Slice]) -> Iterator[Event]:
    """Begins and ends of a thread's slices: none ends after the one that it lies in."""
    ends: list[int] = []
    for s in slices:
        while ends and ends[-1] <= s.start:
            yield ends.pop(), w.end(track)
        yield s.start, w.begin(track, s, leads=s.flow)
        ends.append(min(max(s.end, s.start), *ends[-1:]) if ends else max(s.end, s.start))
    while ends:
        yield ends.pop(), w.end(track)


def lanes(runs: Sequence[Run], stopped: int) -> list[list[Run]]:
    """Runs, in the order in which they were queued, so that those of a lane do not overlap."""
    lanes: list[list[Run]] = []
    for run in runs:
        free = next((lane for lane in lanes if (lane[-1].end or stopped) <= run.start), None)
        if free is None:
            lanes.append([run])
        else:
            free.append(run)
    return lanes


def _of_runs(w: _Writer, track: int, runs: Iterable[Run], stopped: int,
             sources: set[int]) -> Iterator[Event]:
    for run in runs:
        end, ready = run.end or stopped, run.ready or run.end or stopped
        args: dict[str, Any] = {"road": run.road}
        if run.failed:
            args["failed"] = True
        if not run.end:
            args["unfinished"] = True
        flow = run.flow if run.flow in sources else 0
        yield run.start, w.begin(track, Slice(run.name, run.road, args, run.start), ends=flow)
        for name, start, stop in (("waits for arguments", run.start, ready), ("runs", ready, end)):
            if run.road == "queued" and stop > start:
                yield start, w.begin(track, Slice(name, "device", {}, start))
                yield stop, w.end(track)
        yield end, w.end(track)
