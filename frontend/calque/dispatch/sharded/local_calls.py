"""Programs that call Python with each device's part of arrays (debug.callback(partitioned=True)).

An array that devices share is one buffer, so such a call gets it whole and cuts the parts out:
which they are is what propagation says of the operands (transforms/propagate).
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.mesh import Mesh
from calque.core.program import Equation, Program
from calque.core.sharding import NamedSharding, PartitionSpec
from calque.dispatch.sharded.labels import named_sharding
from calque.transforms.propagate import specs_of_all


class _EachPart:
    """A callback that is called for each device of a mesh, with its parts of the operands."""

    def __init__(self, callback: Any, mesh: Mesh, specs: Sequence[PartitionSpec]) -> None:
        self.callback, self.mesh = callback, mesh
        self.shardings = [NamedSharding(mesh, s) for s in specs]

    def __repr__(self) -> str:
        return repr(self.callback)

    def __call__(self, leaves: Sequence[Any]) -> list[Any]:
        parts = [s.devices_indices_map(x.shape) for x, s in zip(leaves, self.shardings)]
        for device in self.mesh.devices.flat:
            self.callback([x[p[device]] for x, p in zip(leaves, parts)])
        return []


def calls_with_parts(p: Program) -> bool:
    """Whether a program, or one in it, calls Python with parts of arrays."""
    return p.derived("calls with parts", lambda: any(
        _has_parts(e) or any(map(calls_with_parts, e.inner)) for e in p.equations))


def with_local_calls(p: Program, in_avals: Sequence[ShapedArray],
                     out_avals: Sequence[ShapedArray]) -> Program:
    """The Program with those calls cut in parts; consts' avals come first, and they are inputs of
    it."""
    p = p.consts_as_inputs()
    known, wanted = list(map(named_sharding, in_avals)), list(map(named_sharding, out_avals))
    mesh = next((s.mesh for s in (*known, *wanted) if s is not None
                 and isinstance(s.mesh, Mesh)), None)
    if mesh is None:
        return p
    specs = specs_of_all(p, known, mesh, wanted)

    def changed(inner: Program) -> Program:
        return inner if not calls_with_parts(inner) else inner.replace(
            equations=list(map(equation, inner.equations)))

    def equation(e: Equation) -> Equation:
        if _has_parts(e):
            parts = _EachPart(e.params["callback"], mesh,
                              [specs.get(a, PartitionSpec()) for a in e.inputs])
            return e.replace(params={**e.params, "partitioned": False, "callback": parts})
        # inside shard_map each device calls with its own values anyway
        return e if e.name == "shard_map" else e.with_inner(changed)

    return changed(p)


def _has_parts(e: Equation) -> bool:
    return e.name == "debug_callback" and bool(e.params["partitioned"]) and bool(e.inputs)


__all__ = ["calls_with_parts", "with_local_calls"]
