"""Programs with custom_partitioning, over arrays that are spread: what each device does is the
user's function.

Which dimensions are split how is what propagation says (transforms/propagate), which asks the
user's rule; the user's function is told, and what it gives is a shard_map.  Start reading at
`with_custom_parts`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.errors import explain
from calque.core.mesh import Mesh
from calque.core.program import Equation, Program, eliminate_dead_code
from calque.core.sharding import NamedSharding, PartitionSpec, Sharding
from calque.core.types import Function
from calque.dispatch.sharded.labels import named_sharding
from calque.dispatch.tracing import ShapeDtypeStruct, trace_with_refs
from calque.lowering.passes.clients import closed_by_constants
from calque.primitives import shard_map
from calque.transforms.propagate import specs_of_all
from calque.trees import util as tree_util


def has_custom_parts(p: Program) -> bool:
    """Whether a program, or one in it, asks a user's function what each device does."""
    return p.derived("custom parts", lambda: any(
        e.name == "custom_partitioning" or e.name != "shard_map" and any(
            map(has_custom_parts, e.inner)) for e in p.equations))


def with_custom_parts(p: Program, in_avals: Sequence[ShapedArray],
                      out_avals: Sequence[ShapedArray]) -> Program:
    """The Program with the user's functions in it; consts' avals come first, and they are inputs
    of it."""
    p = eliminate_dead_code(p.consts_as_inputs())
    known, wanted = list(map(named_sharding, in_avals)), list(map(named_sharding, out_avals))
    mesh = next((s.mesh for s in (*known, *wanted) if s is not None
                 and isinstance(s.mesh, Mesh)), None)
    if mesh is None or mesh.size == 1:
        return p
    specs = specs_of_all(p, known, mesh, wanted)

    def changed(inner: Program) -> Program:
        return inner if not has_custom_parts(inner) else inner.replace(
            equations=list(map(equation, inner.equations)))

    def equation(e: Equation) -> Equation:
        if e.name == "custom_partitioning":
            return _mapped(e, specs, mesh)
        # inside shard_map each device has its own values, and computes the function itself
        return e if e.name == "shard_map" else e.with_inner(changed)

    return changed(p)


def _mapped(e: Equation, specs: dict[Any, PartitionSpec], mesh: Mesh) -> Equation:
    """One call as a shard_map."""
    how, inputs = e.params["how"], e.inputs[e.params["num_consts"]:]

    def told(atoms: Sequence[Any]) -> list[ShapeDtypeStruct]:
        return [ShapeDtypeStruct(a.aval.shape, a.aval.dtype, sharding=NamedSharding(
            mesh, specs.get(a, PartitionSpec()).of_rank(a.aval.ndim))) for a in atoms]

    given = how.partition(*how.static, mesh, how.in_tree.unflatten(told(inputs)),
                          how.out_tree.unflatten(told(e.outputs)))
    if not isinstance(given, (tuple, list)) or len(given) != 4:
        raise ValueError(explain(
            f"custom_partitioning: the partition function of {how.name} is to return (mesh, "
            f"lower_fn, result_shardings, arg_shardings), it gave {given!r}.",
            fix="return these four."))
    mesh, lower_fn, of_results, of_args = given
    ins = flat_shardings(how.name, "arguments", how.in_tree, of_args)
    outs = flat_shardings(how.name, "results", how.out_tree, of_results)
    program = _lowered(how, lower_fn, mesh, [
        ShapedArray(s.shard_shape(a.aval.shape), a.aval.dtype) for s, a in zip(ins, inputs)])
    want = [ShapedArray(s.shard_shape(v.aval.shape), v.aval.dtype)
            for s, v in zip(outs, e.outputs)]
    have = [ShapedArray(o.aval.shape, o.aval.dtype) for o in program.outputs]
    if have != want:
        raise ValueError(explain(
            f"Mismatch in result shapes. {have} vs {want}: of {how.name} lower_fn gives the former "
            "on each device, and what is to be there by result_shardings is the latter.",
            fix="let both say the same part."))
    return e.replace(primitive=shard_map.shard_map_p, inputs=tuple(inputs), params={
        "jaxpr": program, "mesh": mesh, "in_specs": tuple(s.spec for s in ins),
        "out_specs": tuple(s.spec for s in outs), "check_vma": False,
        "newly_manual_axes": frozenset(mesh.axis_names)})


def _lowered(how: Any, lower_fn: Function, mesh: Mesh, avals: Sequence[ShapedArray]) -> Program:
    """What each device does; arrays that it captures are equations."""
    tree = tree_util.treedef_tuple([how.in_tree, tree_util.tree_structure({})])
    with shard_map.inside(mesh, frozenset(mesh.axis_names), False):
        program, _, uses = trace_with_refs(lower_fn, tree, avals, how.name, "custom_partitioning")
    if uses.places or uses.closed or uses.rules:
        raise NotImplementedError(explain(
            f"custom_partitioning: lower_fn of {how.name} uses a reference.",
            fix="pass its value, ref[...], as an argument."))
    return closed_by_constants(program)


def flat_shardings(name: str, what: str, tree: Any, given: Any) -> list[NamedSharding]:
    """What a user's function says of each leaf; ValueError where that is no sharding."""
    try:
        found = tree.flatten_up_to(tuple(given) if isinstance(given, list) else given)
    except (TypeError, ValueError) as error:
        raise ValueError(explain(
            f"custom_partitioning: the shardings of {name}'s {what} are to have the structure "
            f"{tree}, got {given!r}: {error}",
            fix="give a NamedSharding for each array.")) from None
    for s in found:
        if not isinstance(s, Sharding):
            raise ValueError(explain(
                "Custom Partitioning rules must return Sharding. Of the "
                f"{what} of {name} one gave {s!r} of type {type(s).__name__}.",
                fix="give a NamedSharding for each array."))
        if not isinstance(s, NamedSharding):
            raise ValueError(explain(
                f"custom_partitioning: of the {what} of {name} one is {s!r}, which names no axes.",
                fix="give NamedSharding(mesh, spec)."))
    return list(found)


__all__ = ["flat_shardings", "has_custom_parts", "with_custom_parts"]
