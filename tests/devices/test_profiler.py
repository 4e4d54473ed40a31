"""Traces of programs over several CPU devices, which share memory and a queue, and so a track."""
from __future__ import annotations

import numpy as np
from support.traces import read, the_file

import calque
from calque import profiler
from calque.sharding import NamedSharding
from calque.sharding import PartitionSpec as P


def test_devices_that_share_a_queue_share_a_track(tmp_path) -> None:
    f = calque.jit(lambda x: x * 2 + 0.6251)
    mesh = calque.make_mesh((8,), ("x",))
    spread = calque.device_put(np.ones((8, 4), np.float32), NamedSharding(mesh, P("x")))
    with profiler.trace(tmp_path):
        np.asarray(f(calque.device_put(np.ones(3, np.float32), calque.devices()[5])))
        with profiler.TraceAnnotation("spread"):
            np.asarray(f(spread))
    made = read(the_file(tmp_path))
    runs = made.named("<lambda>", "inline")
    assert len(runs) == 2 and {made.parents[s.track] for s in runs} == {"cpu:0"}
    (outer,) = made.named("spread")  # an array over all of them is one array, and its program a run
    assert len([s for s in outer.every if s.category == "run"]) == 1
