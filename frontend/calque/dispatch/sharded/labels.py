"""Labels: the shardings of results, from those of arguments.

A sharded array is one buffer whose aval has a sharding.  Programs run on whole buffers and their
avals are plain; what is returned gets its label here: where all arguments that have one lie on one
device, so do the results, and over a mesh their specs are propagated (transforms/propagate).
Nothing here runs for arrays that nobody placed.  Start reading at `of_program`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.errors import explain
from calque.core.mesh import AbstractMesh, Mesh, get_mesh, placing_mesh, seen_as
from calque.core.primitive import Primitive
from calque.core.program import Program, eliminate_dead_code, inner_of
from calque.core.sharding import NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding
from calque.core.types import Params
from calque.dispatch.array import current_device
from calque.transforms.explicit import is_explicit
from calque.transforms.explicit import typed as types_of
from calque.transforms.propagate import of_equation, propagate, specs_of

Names = Callable[[int], str]
# primitives that say where their results are
_PLACES = frozenset(("sharding_constraint", "shard_map", "inspect_sharding"))


def stripped(avals: Sequence[ShapedArray]) -> list[ShapedArray]:
    """Avals without labels."""
    return [a if a.placement is None else a.marked(None, a.vma) for a in avals]


def any_of(avals: Sequence[ShapedArray]) -> bool:
    """Whether somebody placed one of the arrays."""
    return any([a.placement is not None for a in avals])


def places(prim: Primitive, params: Params) -> bool:
    """Whether an operation, or a Program that it holds, says where its results are."""
    return prim.name in _PLACES or (
        prim.higher_order and any(map(program_places, inner_of(params))))


def program_places(p: Program) -> bool:
    return p.derived("places", lambda: any(
        places(e.primitive, e.params) for e in p.equations))


def meshes_of(p: Program, kind: type[Any] = Mesh) -> list[Any]:
    """The meshes (or OwnRows) that a program mentions."""
    found = []
    for e in p.equations:
        if e.name == "shard_map":
            found.append(e.params["mesh"])
        elif e.name == "sharding_constraint":
            found.append(getattr(e.params["sharding"], "mesh", None))
        for q in e.inner:
            found += meshes_of(q, kind)
    return [m for m in found if isinstance(m, kind)]


def _ids(s: Sharding) -> str:
    devices = s._assignment
    return (f"device ids {[d.id for d in devices]} on platform "
            f"{devices[0].platform.upper() if devices else '?'}")


def context_mesh(entered: bool = False) -> Mesh | None:
    """The mesh that `set_mesh` set (entered: also one of `with mesh:`), where it is of this
    process's devices."""
    mesh = get_mesh() if entered else placing_mesh()
    return None if mesh is None or mesh.empty or mesh.is_multi_process else seen_as(mesh)


def in_context(avals: Sequence[ShapedArray], mesh: Mesh | None) -> list[ShapedArray]:
    """Avals of new arrays: those that nobody placed are replicated over the mesh."""
    if mesh is None:
        return list(avals)
    none = NamedSharding(mesh, PartitionSpec())
    return [a if a.placement is not None else a.marked(
        NamedSharding(mesh, none.spec.of_rank(a.ndim)) if none.explicit else none, a.vma)
        for a in avals]


def together(name: str, avals: Sequence[ShapedArray], names: Names,
             meshes: Sequence[Mesh] = (), context: Mesh | None = None) -> Sharding | None:
    """A sharding over the devices of all arguments; ValueError where they are others."""
    first: tuple[str, Sharding] | None = None
    for i, a in enumerate(avals):
        s = a.placement
        if s is None:
            continue
        what = f"argument {names(i)} of {name} with shape {a.plain}"
        if first is None:
            first = what, s
        elif s is not first[1] and _apart(s, first[1]):
            raise _incompatible(*first, what, s)
        elif isinstance(first[1], SingleDeviceSharding) and isinstance(s, NamedSharding):
            first = what, s
    if first is not None and context is not None and _abstract(first[1]) is None:
        s = NamedSharding(context, PartitionSpec())
        if set(s._assignment) != set(first[1]._assignment):
            raise _incompatible(*first, "jit's context mesh", s)
    for m in sorted(meshes, key=lambda m: bool(m.explicit_axes)):  # what has a type keeps it
        s = NamedSharding(m, PartitionSpec())
        if first is None:
            first = f"the mesh {m!s} in {name}", s
        elif _apart(s, first[1]):
            raise _incompatible(*first, "shard_map or with_sharding_constraint inside jit", s)
        elif isinstance(first[1], SingleDeviceSharding):
            first = first[0], s
    return None if first is None else first[1]


def _abstract(s: Sharding) -> AbstractMesh | None:
    mesh = getattr(s, "mesh", None)
    return mesh if isinstance(mesh, AbstractMesh) else None


def _apart(one: Sharding, other: Sharding) -> bool:
    """Whether they are over other devices; of meshes without devices only the size is known."""
    a, b = _abstract(one), _abstract(other)
    if a is None and b is None:
        return one._assignment != other._assignment
    if a is not None and b is not None and a.size != b.size:
        raise ValueError(explain(
            f"AbstractMesh should be of the same size across all shardings. Got {a!s} and {b!s}",
            fix="use meshes over the same devices."))
    return False


def _incompatible(what: str, one: Sharding, also: str, other: Sharding) -> ValueError:
    return ValueError(explain(
        f"Received incompatible devices for jitted computation. Got {what}"
        f"{' and' if what.startswith('argument') else ''} with {_ids(one)} "
        f"and {also}{' and' if also.startswith('argument') else ''} with {_ids(other)}",
        fix="put them together with calque.device_put(x, sharding), or leave one uncommitted."))


def _labelled(avals: Sequence[ShapedArray], specs: Sequence[PartitionSpec], mesh: Mesh,
              given: Sequence[ShapedArray]) -> list[ShapedArray]:
    """Results with their shardings; one that an argument has is written as there, but over
    Explicit axes with an entry for each axis."""
    made = []
    for a, spec in zip(avals, specs):
        sharding: Any = None
        for g in given:
            s = g.placement
            if (isinstance(s, NamedSharding) and g.ndim == a.ndim and s.mesh == mesh
                    and s.spec.of_rank(a.ndim) == spec.of_rank(a.ndim)):
                sharding = s
                break
        sharding = sharding or NamedSharding(mesh, spec)
        if sharding.explicit:
            sharding = NamedSharding(mesh, sharding.spec.of_rank(a.ndim))
        made.append(a.plain.marked(sharding, a.vma))
    return made


def typed(prim: Primitive, avals: Sequence[ShapedArray], params: Params, out: Any) -> Any:
    """What an abstract rule gave, with labels where operands have some."""
    if not any_of(avals) and not places(prim, params):
        return out
    outs = list(out) if prim.multiple_results else [out]
    inner = inner_of(params)
    meshes = [m for p in inner for m in meshes_of(p)]
    where = params.get("mesh", getattr(params.get("sharding"), "mesh", None))
    if prim.name in _PLACES and isinstance(where, Mesh):
        meshes.append(where)
    place = together(prim.name, avals, lambda i: "xyzw"[i] if i < 4 else f"args[{i}]", meshes)
    if prim.name == "sharding_constraint" and isinstance(params["sharding"], SingleDeviceSharding):
        place = params["sharding"]
    elif isinstance(where, Mesh) and isinstance(place, NamedSharding) and (
            prim.name in _PLACES and place.mesh.shape_tuple != where.shape_tuple):
        place = NamedSharding(where, PartitionSpec())  # another mesh of the same devices
    if place is None:
        return out
    if any(is_explicit(a) for a in avals) or getattr(params.get("sharding"), "explicit", False) or (
            prim.name == "shard_map" and where is not None and where.explicit_axes):
        made = types_of(prim, avals, outs, params)
        if prim.name == "sharding_constraint" and not params["sharding"].explicit:
            made = [a.plain.marked(params["sharding"], a.vma) for a in outs]  # no type: a label
    elif isinstance(place, NamedSharding) and isinstance(place.mesh, Mesh):
        known = [named_sharding(a) for a in avals]
        specs = of_equation(prim, avals, outs, params, known, place.mesh)
        made = _labelled(outs, specs, place.mesh, avals)
    else:
        made = [a.plain.marked(place, a.vma) for a in outs]
    return made if prim.multiple_results else made[0]


def named_sharding(a: ShapedArray) -> NamedSharding | None:
    return a.placement if isinstance(a.placement, NamedSharding) else None


def _others(p: Program, known: Sequence[NamedSharding | None], mesh: Mesh) -> list[Mesh]:
    """Further meshes of the same devices that arguments or the program mention."""
    found = {mesh.shape_tuple: mesh}
    for m in [*[s.mesh for s in known if s is not None], *meshes_of(p)]:
        if isinstance(m, Mesh):
            found.setdefault(m.shape_tuple, m)
    return list(found.values())[1:]


def of_program(p: Program, avals: Sequence[ShapedArray], names: Names,
               context: Mesh | None = None) -> list[ShapedArray]:
    """The avals of a program's results for these of its inputs, with labels."""
    every = [*[v.aval for v in p.const_vars], *avals]
    count = len(p.const_vars)
    live = eliminate_dead_code(p)
    used = live.used()
    seen = [a if v in used else a.plain for v, a in zip((*p.const_vars, *p.inputs), every)]
    plain = stripped(p.out_avals)
    place = together(p.name, seen, lambda i: names(i - count) if i >= count else "(captured)",
                     meshes_of(p) if program_places(p) else (), context)
    if not (isinstance(place, NamedSharding) and isinstance(place.mesh, Mesh)):
        for e in p.equations:
            if e.name == "inspect_sharding":
                e.params["callback"](place or SingleDeviceSharding(current_device()))
    if place is None:
        return plain
    if (mesh := _abstract(place)) is not None and mesh.manual_axes:  # types inside shard_map
        return [o if is_explicit(o) else a for o, a in zip(p.out_avals, plain)]
    if isinstance(place, NamedSharding) and isinstance(place.mesh, Mesh):
        known = [named_sharding(a) for a in every]
        made = _labelled(plain, propagate(p, known, place.mesh), place.mesh, every)
        for m in _others(p, known, place.mesh):
            made = [b if b.placement.spec.names() and not a.placement.spec.names() else a
                    for a, b in zip(made, _labelled(plain, specs_of(p, known, m)[1], m, every))]
        return [o if is_explicit(o) else m for o, m in zip(p.out_avals, made)]
    return [a.marked(place, a.vma) for a in plain]


def check_beside(name: str, x: ShapedArray, where: Sharding) -> None:
    """ValueError where a new array is asked for on other devices than what it is made of."""
    if x.placement is not None and set(x.placement._assignment) != set(where._assignment):
        raise _incompatible(f"argument args[0] of {name} with shape {x.plain}", x.placement,
                            "sharding_constraint inside jit", where)


def check_result(p: Program, avals: Sequence[ShapedArray], names: Names, told: Sharding) -> None:
    """ValueError where a result is said (told) to be on other devices than what it is made of."""
    used = eliminate_dead_code(p).used()
    for i, (v, a) in enumerate(zip(p.inputs, avals)):
        if v in used and a.placement is not None and _apart(a.placement, told):
            raise _incompatible(f"argument {names(i)} of {p.name} with shape {a.plain}",
                                a.placement, "explicit output sharding", told)
    for m in meshes_of(p):
        s = NamedSharding(m, PartitionSpec())
        if s._assignment != told._assignment:
            raise _incompatible("explicit output sharding", told,
                                "shard_map or with_sharding_constraint inside jit", s)


@dataclass(frozen=True, slots=True)
class Placement:
    """A program's mesh, and the spec of each argument and result."""

    mesh: tuple[tuple[Any, int], ...]  # names and sizes of the axes
    args: tuple[PartitionSpec, ...]
    results: tuple[PartitionSpec, ...]


def placement(p: Program, avals: Sequence[ShapedArray]) -> Placement | None:
    """Where a program's arguments and results are; None where nobody said it of any."""
    if not any_of(avals) and not program_places(p):
        return None
    count = len(p.const_vars)
    every = [*[v.aval for v in p.const_vars], *avals]
    place = together(p.name, every, lambda i: f"args[{i - count}]", meshes_of(p))
    if not isinstance(place, NamedSharding):
        return None
    known = [named_sharding(a) for a in every]
    args, results = specs_of(p, known, place.mesh)
    types = [o.placement.spec if is_explicit(o) else s for o, s in zip(p.out_avals, results)]
    return Placement(place.mesh.shape_tuple, tuple(args[count:]), tuple(types))


__all__ = ["Placement", "any_of", "check_beside", "check_result", "context_mesh", "in_context",
           "meshes_of", "named_sharding",
           "of_program", "placement", "places", "program_places", "stripped", "together", "typed"]
