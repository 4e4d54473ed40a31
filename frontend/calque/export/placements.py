"""Where arguments and results of an exported function lie: shardings over meshes without devices.

The module computes with whole arrays; shardings say how many devices it is for, and how results are
spread over the mesh of the call.  Start reading at `of_program` and `check`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core.avals import ShapedArray, aval_of
from calque.core.errors import explain
from calque.core.memories import Space
from calque.core.mesh import AbstractMesh, AxisType, Mesh, get_mesh
from calque.core.program import Program, Var
from calque.core.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding
from calque.core.trace import Tracer
from calque.dispatch.array import current_device
from calque.export.container import Placement
from calque.export.stream import damaged
from calque.primitives.placement import constrain

Shardings = tuple[NamedSharding | None, ...]
_KINDS = {1: AxisType.Auto, 2: AxisType.Explicit, 3: AxisType.Manual}
_NUMBERS = {kind: number for number, kind in _KINDS.items()}


def _abstract(s: Any, ndim: int) -> NamedSharding | None:
    """Without devices; of one device it is only said in which memory, if that is the host's."""
    kind = None if s is None or s.memory_kind == "device" else s.memory_kind
    if isinstance(s, NamedSharding):
        return NamedSharding(s.mesh.abstract_mesh, s.spec, memory_kind=kind)
    return None if kind is None else NamedSharding(
        AbstractMesh((), ()), PartitionSpec(*(None,) * ndim), memory_kind=kind)


def of_program(p: Program, leaves: Sequence[Any], placed_in: bool
               ) -> tuple[Shardings, Shardings]:
    """Shardings of the arguments and the results: the arguments' own; constraints with which the
    Program begins, where jit was given in_shardings, and ends; those of types."""
    first: dict[Var, Any] = {}
    last: dict[Any, Any] = {}
    for e in p.equations:
        if e.name == "sharding_constraint":
            if isinstance(e.inputs[0], Var):
                first.setdefault(e.inputs[0], e.params["sharding"])
            last[e.outputs[0]] = e.params["sharding"]
    ins = [getattr(x, "sharding", None) for x in leaves]
    ins = [first.get(v) if placed_in and not isinstance(s, NamedSharding) else s
           for v, s in zip(p.inputs, ins)]
    outs = [last.get(o, o.aval.placement) for o in p.outputs]
    return (tuple(_abstract(s, v.aval.ndim) for s, v in zip(ins, p.inputs)),
            tuple(_abstract(s, o.aval.ndim) for s, o in zip(outs, p.outputs)))


def of_memories(avals: Sequence[ShapedArray], labels: Sequence[ShapedArray]
                ) -> list[ShapedArray]:
    """Types of results that are in the host's memory, as the labels of a call's say."""
    return [a.in_memory(b.placement.memory_kind) if b.memory_space is Space.Host else a
            for a, b in zip(avals, labels)]


def devices_of(p: Program, shardings: Sequence[Any]) -> int:
    """How many devices the function is for: those of the largest mesh that it names."""
    return max([1, *(s.mesh.size for s in shardings if s is not None), *_named(p)])


def _named(p: Program) -> list[int]:
    found: list[int] = []
    for e in p.equations:
        meshes = [e.params.get("mesh"), getattr(e.params.get("sharding"), "mesh", None)]
        found += [m.size for m in meshes if isinstance(m, (Mesh, AbstractMesh))]
        for q in e.inner:
            found += _named(q)
    return found


def typed(avals: Sequence[ShapedArray], shardings: Shardings) -> tuple[ShapedArray, ...]:
    """Types that say where values are, where axes are Explicit or it is the host's memory."""
    return tuple(
        a if s is None else a.marked(s) if AxisType.Explicit in s.mesh.axis_types else
        a.in_memory(s.memory_kind) if s.memory_kind not in (None, "device") else a
        for a, s in zip(avals, shardings))


def on_mesh(shardings: Shardings, mesh: Any) -> Shardings:
    """The shardings over a mesh of the caller's."""
    return tuple(None if s is None else NamedSharding(
        mesh, s.spec, memory_kind=s.memory_kind or "device") for s in shardings)


# ---- calls
def check(name: str, devices: int, values: Sequence[Any]) -> Mesh | None:
    """The mesh of a call; ValueError where it has another number of devices than the function."""
    meshes = [aval_of(v).placement.mesh for v in values
              if isinstance(getattr(aval_of(v), "placement", None), NamedSharding)]
    mesh = next((m for m in meshes if isinstance(m, Mesh)), None) or get_mesh()
    given = max(mesh.size, 1) if isinstance(mesh, Mesh) else 1
    known = given > 1 or not any(isinstance(v, Tracer) for v in values)
    if devices > 1 and given != devices and known:
        raise ValueError(explain(
            f"Function '{name}' was exported for {devices} devices and is called in a context with "
            f"{given} devices.",
            fix=f"put its arguments on a mesh of {devices} devices, or call it inside set_mesh."))
    return mesh if isinstance(mesh, Mesh) and given == devices else None


def spread(outs: Sequence[Any], shardings: Shardings, mesh: Mesh | None) -> list[Any]:
    """Results where the function was to have them: on the call's mesh, or, while a function is
    traced, on that which its call will be on."""
    return [o if s is None else _spread(o, s, mesh) for o, s in zip(outs, shardings)]


def _spread(o: Any, s: NamedSharding, mesh: Mesh | None) -> Any:
    if s.mesh.empty:  # of one device: in its host's memory
        return o if isinstance(o, Tracer) else constrain(
            o, SingleDeviceSharding(current_device(), memory_kind=s.memory_kind))
    if s.mesh.size == 1 or mesh and s.mesh.axis_names != mesh.axis_names:
        return o
    return constrain(o, NamedSharding(mesh or s.mesh, s.spec, memory_kind=s.memory_kind))


# ---- the container's form
def written(s: NamedSharding | None) -> Placement | None:
    if s is None:
        return None
    parts = tuple(() if p is None else p if isinstance(p, tuple) else (p,)
                  for p in s.spec.partitions)
    return Placement(tuple(s.mesh.axis_sizes), tuple(map(str, s.mesh.axis_names)),
                     tuple(_NUMBERS[k] for k in s.mesh.axis_types), parts,
                     s.memory_kind or "device")


def read(p: Placement | None) -> NamedSharding | None:
    if p is None:
        return None
    try:
        mesh = AbstractMesh(p.sizes, p.names, tuple(_KINDS[k] for k in p.kinds))
        return NamedSharding(mesh, PartitionSpec(*(
            None if not axes else axes[0] if len(axes) == 1 else axes for axes in p.parts)),
            memory_kind=None if p.memory == "device" else p.memory)
    except (KeyError, ValueError, TypeError) as error:
        raise damaged(f"a sharding that is none ({error})") from None
