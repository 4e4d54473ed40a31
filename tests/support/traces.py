"""Traces of calque.profiler read by perfetto's own message classes, and what holds of every one."""
from __future__ import annotations

import pathlib
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

Packet = perfetto_trace_pb2.TracePacket
Event = perfetto_trace_pb2.TrackEvent


@dataclass
class Slice:
    """A begin and its end."""

    name: str
    category: str
    track: str
    start: int
    args: dict[str, Any]
    leads: list[int]
    ends_flows: list[int]
    end: int = 0
    inner: list[Slice] = field(default_factory=list)

    @property
    def every(self) -> list[Slice]:
        return [self, *[s for i in self.inner for s in i.every]]


@dataclass
class Trace:
    """Slices by track, and in all."""

    tracks: dict[str, list[Slice]]
    parents: dict[str, str]

    @property
    def slices(self) -> list[Slice]:
        return [s for outer in self.tracks.values() for o in outer for s in o.every]

    def named(self, name: str, category: str = "") -> list[Slice]:
        return [s for s in self.slices if s.name == name and category in ("", s.category)]


def the_file(folder: Any) -> pathlib.Path:
    """The one trace for Perfetto of a folder."""
    (path,) = pathlib.Path(folder).glob("*.perfetto-trace")
    assert path.suffix == ".perfetto-trace"
    return path


def read(path: Any) -> Trace:
    """A trace, of which is asserted: begins have ends and slices nest, times do not go back, every
    track is described before it is used, every name is known, and flows have both ends."""
    raw = pathlib.Path(path).read_bytes()
    message = perfetto_trace_pb2.Trace()
    message.ParseFromString(raw)
    for p in message.packet:  # no field is unknown, or of another kind
        for m in (p, p.track_event, p.track_descriptor, p.interned_data, p.clock_snapshot):
            assert not len(UnknownFieldSet(m))
    first = message.packet[0]
    assert first.sequence_flags == Packet.SEQ_INCREMENTAL_STATE_CLEARED
    clock = first.trace_packet_defaults.timestamp_clock_id
    assert clock in {c.clock_id for c in first.clock_snapshot.clocks}
    assert len({p.trusted_packet_sequence_id for p in message.packet} - {0}) == 1
    texts: dict[str, dict[int, str]] = {"names": {}, "categories": {}, "keys": {}}
    tracks: dict[int, str] = {}
    parents: dict[str, str] = {}
    open_: dict[int, list[Slice]] = {}
    found: dict[str, list[Slice]] = {}
    last = 0
    for p in message.packet:
        for kind, entries in (("names", p.interned_data.event_names),
                              ("categories", p.interned_data.event_categories),
                              ("keys", p.interned_data.debug_annotation_names)):
            for e in entries:
                assert e.iid and e.iid not in texts[kind]
                texts[kind][e.iid] = e.name
        if p.HasField("track_descriptor"):
            d = p.track_descriptor
            assert d.uuid not in tracks
            name = d.name or d.thread.thread_name or "process"
            name += f" {d.thread.tid}" if d.HasField("thread") and name in found else ""
            tracks[d.uuid] = name
            if d.parent_uuid:
                parents[name] = tracks[d.parent_uuid]
            open_[d.uuid], found[name] = [], []
        if p.HasField("track_event"):
            e = p.track_event
            assert p.sequence_flags & Packet.SEQ_NEEDS_INCREMENTAL_STATE
            assert p.timestamp >= last
            last = p.timestamp
            stack, track = open_[e.track_uuid], tracks[e.track_uuid]
            if e.type == Event.TYPE_SLICE_BEGIN:
                args = {texts["keys"][a.name_iid]: getattr(a, a.WhichOneof("value"))
                        for a in e.debug_annotations}
                (category,) = [texts["categories"][c] for c in e.category_iids]
                s = Slice(texts["names"][e.name_iid], category, track, p.timestamp, args,
                          list(e.flow_ids), list(e.terminating_flow_ids))
                (stack[-1].inner if stack else found[track]).append(s)
                stack.append(s)
            else:
                assert e.type == Event.TYPE_SLICE_END
                stack.pop().end = p.timestamp
    assert not any(open_.values())
    made = Trace({n: s for n, s in found.items() if s}, parents)
    leads = [f for s in made.slices for f in s.leads]
    ends = [f for s in made.slices for f in s.ends_flows]
    assert len(set(leads)) == len(leads) and sorted(leads) == sorted(ends)
    for s in made.slices:
        for i in s.inner:
            assert s.start <= i.start <= i.end <= s.end
    return made
