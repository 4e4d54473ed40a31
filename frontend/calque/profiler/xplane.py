"""A recording as an XSpace, which TensorBoard, XProf and jax.profiler.ProfileData read.

The field numbers are those of tsl/profiler/protobuf/xplane.proto.  A plane is the process or a
device, a line of it a thread or a lane of runs.  Start reading at `space_of`.
"""
from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from calque.profiler.perfetto import lanes
from calque.profiler.recorder import Recorder, Slice
from calque.profiler.wire import data, integer, real

HOST = "/host:CPU"


class _Plane:
    """Lines, and the names that their events share."""

    def __init__(self, number: int, name: str, clock: int) -> None:
        self.number, self.name, self.clock = number, name, clock
        self.events: dict[str, int] = {}
        self.stats: dict[str, int] = {}
        self.lines: list[bytes] = []

    def line(self, number: int, name: str, slices: Iterable[Slice], stopped: int) -> None:
        """A line of slices; times are nanoseconds of the clock that the recorder reads."""
        made = sorted(slices, key=lambda s: s.start)
        first = made[0].start
        events = [data(4, integer(1, self._of(self.events, s.name))
                       + integer(2, (s.start - first) * 1000)
                       + integer(3, max((s.end or stopped) - s.start, 0) * 1000)
                       + b"".join(self._stat(k, v) for k, v in s.args.items())) for s in made]
        self.lines.append(data(3, integer(1, number) + data(2, name)
                               + integer(3, first + self.clock) + b"".join(events)))

    def _of(self, table: dict[str, int], name: str) -> int:
        return table.setdefault(name, len(table) + 1)

    def _stat(self, name: str, value: Any) -> bytes:
        if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
            body = integer(4, value)
        else:
            body = real(2, value) if isinstance(value, float) else data(5, str(value))
        return data(4, integer(1, self._of(self.stats, name)) + body)

    def bytes(self) -> bytes:
        """The plane: its lines and both tables."""
        tables = [data(field, integer(1, number) + data(2, integer(1, number) + data(2, name)))
                  for field, table in ((4, self.events), (5, self.stats))
                  for name, number in table.items()]
        return data(1, integer(1, self.number) + data(2, self.name) + b"".join(
            [*self.lines, *tables]))


def space_of(recorder: Recorder, categories: frozenset[str] | None, host: str = HOST) -> bytes:
    """The file of a recording; categories: of the slices of threads that are shown (None: all);
    host: the name of the process's plane."""
    clock = time.time_ns() - time.perf_counter_ns()
    planes = [_Plane(1, host, clock)]
    for thread, slices in recorder.finished():
        shown = [s for s in slices if categories is None or s.category in categories]
        if shown:
            planes[0].line(thread.ident, thread.name, shown, recorder.stopped)
    for device in sorted({run.device for run in recorder.runs}):
        plane = _Plane(len(planes) + 1, f"/device:{device.upper()}", clock)
        planes.append(plane)
        runs = sorted((r for r in recorder.runs if r.device == device), key=lambda r: r.start)
        for i, lane in enumerate(lanes(runs, recorder.stopped)):
            plane.line(i + 1, f"runs{f', beside ({i + 1})' if i else ''}",
                       [Slice(r.name, r.road, {"road": r.road}, r.start, r.end) for r in lane],
                       recorder.stopped)
    return b"".join(plane.bytes() for plane in planes)
