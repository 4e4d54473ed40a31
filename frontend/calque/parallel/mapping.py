"""shard_map: a function of one device's parts, mapped over the axes of a mesh.

Specs are checked before anything is compiled; outside a transformation a call is one jitted
program.  Start reading at `shard_map`; the primitive is in primitives/shard_map.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core.avals import HasAval, Reduced, ShapedArray, Unreduced, aval_of
from calque.core.errors import (
    ConcretizationTypeError,
    TracerArrayConversionError,
    TracerIntegerConversionError,
    explain,
)
from calque.core.mesh import AbstractMesh, Mesh, get_abstract_mesh, get_mesh
from calque.core.naming import dress, name_of
from calque.core.refs import Ref, assign, read
from calque.core.sharding import NamedSharding, PartitionSpec
from calque.core.trace import current, eval_trace
from calque.core.types import Function
from calque.dispatch.array import Array, as_values
from calque.dispatch.jit import JitFunction, jit
from calque.dispatch.mismatch import argument_names, leaf_paths
from calque.dispatch.ref_parts import refuse_views
from calque.dispatch.sharded.shards import check_devices
from calque.dispatch.sharded.spanning import made as array_of
from calque.dispatch.tracing import check_arguments, check_callable, check_outputs, wrapped
from calque.primitives import shard_map as primitive
from calque.primitives.casts import vary_unreduced
from calque.primitives.collectives import pvary_p
from calque.transforms.explicit import is_explicit
from calque.transforms.stage import stage
from calque.trees import util as tree_util

__all__ = ["Infer", "shard_map"]

P = PartitionSpec
_LOOKED = (ConcretizationTypeError, TracerArrayConversionError, TracerIntegerConversionError)


class _Infer:
    """in_specs that are left to the arguments' shardings."""

    def __repr__(self) -> str:
        return "Infer"


Infer = _Infer()


def shard_map(f: Function | None = None, /, *, out_specs: Any, in_specs: Any = Infer,
              mesh: Mesh | AbstractMesh | None = None, axis_names: Any = frozenset(),
              check_vma: bool = True) -> Function:
    """A function that runs f on every device's part of its arguments.

    Args:
      f: function of parts of arrays; None: a decorator is returned.
      out_specs: tree prefix of f's results of PartitionSpecs: how results are joined.  A mesh axis
        that a spec does not mention means that the result is the same along it.
      in_specs: tree prefix of the positional arguments (a tuple, or one spec for all): how they are
        split; left out: as the arguments are, over Explicit axes.  An argument that is no array may
        have None: f gets it as it is.
      mesh: whose axes are mapped; left out: the context's (`set_mesh`).
      axis_names: the axes that are mapped; none: all, of the context's mesh those that no
        enclosing shard_map maps.
      check_vma: keep track of the axes over which values vary, and check out_specs by it; gradients
        inside f depend on it.

    Returns:
      A function of whole arrays.

    Raises:
      ValueError: (by the function) there is no mesh; a spec names an axis that is not mapped, is
        longer than its argument has dimensions, or does not divide it; specs are no tree prefix;
        a result is not shown to be the same along an axis that its spec does not mention; the axes
        are mapped already.
      TypeError: f is not callable; specs are no PartitionSpecs.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque.sharding import Mesh, PartitionSpec as P
      >>> mesh = Mesh(calque.devices()[:1], ("i",))
      >>> total = calque.shard_map(lambda x: calque.lax.psum(x.sum(), "i"), mesh=mesh,
      ...                          in_specs=P("i"), out_specs=P())
      >>> total(jnp.arange(4.0))
      Array(6., dtype=float32)
    """
    if f is None:
        return functools.partial(shard_map, out_specs=out_specs, in_specs=in_specs, mesh=mesh,
                                 axis_names=axis_names, check_vma=check_vma)
    check_callable(f)
    chosen = frozenset((axis_names,) if isinstance(axis_names, str) else axis_names)
    if in_specs is not Infer and in_specs is not None:
        _check_specs("in_specs", in_specs)
    if not callable(out_specs):
        _check_specs("out_specs", out_specs)
    jitted: dict[Any, JitFunction] = {}
    bound: dict[Any, Function] = {}

    def run(*args: Any) -> Any:
        if fixed := _as_they_are(in_specs, args):
            rest = [i for i in range(len(args)) if i not in fixed]
            key = tuple((i, type(x), x) for i, x in fixed.items())
            if not _hashable(key) or key not in bound:
                made = shard_map(_with(f, fixed), mesh=mesh, out_specs=out_specs, in_specs=tuple(
                    in_specs[i] for i in rest), axis_names=axis_names, check_vma=check_vma)
                if not _hashable(key):
                    return made(*[args[i] for i in rest])
                bound[key] = made
            return bound[key](*[args[i] for i in rest])
        where = _mesh(mesh)
        axes = chosen if mesh is not None or chosen else _left(where)
        if current.get() is not eval_trace:
            return _apply(f, args, where, in_specs, out_specs, axes, check_vma)
        if isinstance(mesh, AbstractMesh) and get_mesh().empty:
            _check_spread(args, mesh)
        if where not in jitted:
            jitted[where] = jit(dress(
                lambda *xs: _apply(f, xs, where, in_specs, out_specs, axes, check_vma), f))
        try:
            out = jitted[where](*args)
        except _LOOKED as error:
            if any(type(x) is Ref for x in tree_util.tree_leaves(args)):
                raise
            try:
                return _looked_at(f, args, where, in_specs, out_specs, axes, check_vma)
            except _LOOKED:
                raise error from None
        if not isinstance(where, Mesh) or not where.explicit_axes or (
                axes and set(where.axis_names) != set(axes)):
            return out
        leaves, tree = tree_util.flatten(out)
        specs = _flat_specs("out_specs", out_specs() if callable(out_specs) else out_specs, out)
        return tree.unflatten([array_of(x._buffer, x.aval.plain.marked(NamedSharding(where, s)))
                               for x, s in zip(leaves, specs)])

    return wrapped(f, run, "shard_map")


def _as_they_are(in_specs: Any, args: tuple[Any, ...]) -> dict[int, Any]:
    """Arguments whose spec is None and that are no arrays: f gets them as they are."""
    if not isinstance(in_specs, (tuple, list)) or len(in_specs) != len(args):
        return {}
    return {i: x for i, (s, x) in enumerate(zip(in_specs, args))
            if all(v is None for v in tree_util.tree_leaves(s, is_leaf=_is_spec)) and not all(
                isinstance(v, (HasAval, np.ndarray, np.generic)) for v in tree_util.tree_leaves(x))}


def _with(f: Function, fixed: dict[int, Any]) -> Function:
    """f of its other arguments."""
    def call(*args: Any) -> Any:
        others = iter(args)
        return f(*[fixed[i] if i in fixed else next(others)
                   for i in range(len(args) + len(fixed))])
    return dress(call, f)


def _hashable(x: Any) -> bool:
    try:
        hash(x)
    except Exception:  # (a class of the user's may raise anything)
        return False
    return True


def _left(mesh: Mesh | AbstractMesh) -> frozenset[Any]:
    """The axes of the context's mesh that no enclosing shard_map maps."""
    taken = get_abstract_mesh().manual_axes
    return frozenset(n for n in mesh.axis_names if n not in taken) if taken else frozenset()


def _mesh(given: Any) -> Mesh | AbstractMesh:
    if given is not None and not isinstance(given, (Mesh, AbstractMesh)):
        raise TypeError(explain(
            f"shard_map requires a `jax.sharding.Mesh` or a `jax.sharding.AbstractMesh` instance "
            f"for its second argument, but got {given} of type {type(given)}.",
            fix="make a mesh with calque.make_mesh."))
    context = get_abstract_mesh()
    if context.manual_axes:
        if given is not None and given.abstract_mesh.shape_tuple != context.shape_tuple:
            raise ValueError(explain(
                f"The context mesh {context} should match the mesh passed to shard_map {given!s}",
                fix="leave mesh out inside shard_map."))
        return given if isinstance(given, Mesh) else (
            get_mesh() if get_mesh().shape_tuple == context.shape_tuple else context)
    if given is not None and given.empty:
        raise ValueError(explain(
            f"shard_map requires a non-empty mesh. Got {given!s}", fix="pass a mesh with axes."))
    found = given if given is not None else get_mesh() if not get_mesh().empty else context
    if found.empty:
        raise ValueError(explain(
            "The context mesh cannot be empty. Use `jax.set_mesh(mesh)` to enter into a mesh "
            "context", fix="pass mesh=, or call inside `with calque.set_mesh(mesh)`."))
    return found


def _is_spec(x: Any) -> bool:
    return x is None or isinstance(x, P)


def _check_specs(what: str, specs: Any) -> None:
    for s in tree_util.tree_leaves(specs, is_leaf=_is_spec):
        if not _is_spec(s):
            raise TypeError(explain(
                f"shard_map {what} argument must be a pytree of `jax.sharding.PartitionSpec` "
                f"instances, but it has {s!r} of type {type(s)}.",
                fix="write P('x') for a dimension that mesh axis 'x' splits, P() for a copy."))


def _flat_specs(what: str, specs: Any, values: Any) -> list[P]:
    """A spec for each leaf, from a tree prefix."""
    if what == "in_specs" and isinstance(specs, list):
        specs = tuple(specs)
    found = tree_util.prefix_leaves(specs, values, _is_spec, lambda error: explain(
        f"pytree structure error at shard_map {what}{_place_of_mismatch(specs, values)}: the "
        f"prefix pytree shard_map {what} {specs} does not match the "
        f"full pytree {tree_util.tree_structure(values)}: {error}",
        fix="give one spec for the whole value, or one for each part in its structure."))
    return [P() if s is None else s for s in found]


def _place_of_mismatch(specs: Any, values: Any) -> str:
    """[0]['w']: where specs are no prefix of the values' structure."""
    if _is_spec(specs) or type(specs) is not type(values) or len(specs) != len(values):
        return ""
    keys: Any = specs if isinstance(specs, dict) else range(len(specs))
    for k in keys:
        if isinstance(values, dict) and k not in values:
            return ""
        if not _is_spec(specs[k]):
            try:
                tree_util.prefix_leaves(specs[k], values[k], _is_spec, str)
            except ValueError:
                return f"[{k!r}]{_place_of_mismatch(specs[k], values[k])}"
    return ""


def _apply(f: Function, args: tuple[Any, ...], mesh: Mesh | AbstractMesh, in_specs: Any,
           out_specs: Any, chosen: frozenset[Any], check_vma: bool) -> Any:
    name = name_of(f)
    if isinstance(mesh, Mesh):
        check_devices(NamedSharding(mesh, P()))
    manual = _manual(mesh, chosen)
    leaves, tree = tree_util.flatten((args, {}))
    check_arguments(name, leaves, tree, refs=True)
    refs = [x for x in leaves if type(x) is Ref]
    avals = [x.abstract.inner_aval if type(x) is Ref else aval_of(x) for x in leaves]
    if in_specs is Infer or in_specs is None:
        flat_in = [_inferred(a, mesh, manual, in_specs) for a in avals]
    else:
        flat_in = _flat_specs("in_specs", in_specs, args)
    if refs:  # of a part that is split
        refuse_views(name, tree.unflatten([
            x if any(p is not None for p in s) else None for x, s in zip(leaves, flat_in)])[0])
    _check_names("in_specs", flat_in, manual)
    _check_sums("in_specs", flat_in, mesh, manual)
    _check_types(f, args, avals, flat_in, manual)
    _check_arguments(f, args, avals, flat_in, mesh)
    kept: list[Any] = []

    def body(*parts: Any) -> list[Any]:
        parts = tuple(Ref(p, kind=x.abstract.kind) if type(x) is Ref else p
                      for p, x in zip(parts, leaves))
        a, _ = tree.unflatten(parts)
        out = f(*a)
        outs, out_tree = tree_util.flatten(out)
        check_outputs(name, outs, out_tree)
        flat_out = _flat_specs(  # (smap's are known when f has run)
            "out_specs", out_specs() if callable(out_specs) else out_specs, out)
        _check_names("out_specs", flat_out, manual)
        _check_sums("out_specs", flat_out, mesh, manual)
        made = []
        for i, (o, s) in enumerate(zip(outs, flat_out)):
            made.append(_checked(o, s, name, out_tree, i, mesh, manual, check_vma))
        ends = [(p, s) for p, s in zip(parts, flat_in) if type(p) is Ref]  # what is in them then
        one = tree_util.tree_structure(0)
        made += [_checked(read(p), s, name, one, 0, mesh, manual, check_vma) for p, s in ends]
        kept.append((out_tree, [*flat_out, *[s for _, s in ends]]))
        return made

    with primitive.inside(mesh, manual, check_vma):
        program = stage(body, [
            _typed(primitive.local(a.plain.marked(None, a.vma), mesh, s, check_vma), a, manual)
            for a, s in zip(avals, flat_in)], name, f)
    out_tree, flat_out = kept[0]
    values = [read(x) if type(x) is Ref else x for x in leaves]
    outs = primitive.bind(program, as_values(values), mesh=mesh, in_specs=tuple(flat_in),
                          out_specs=tuple(flat_out), check_vma=check_vma, newly_manual_axes=manual)
    for x, end in zip(refs, outs[out_tree.num_leaves:]):
        assign(x, end)
    return out_tree.unflatten(outs[:out_tree.num_leaves])


def _typed(part: ShapedArray, whole: ShapedArray, manual: frozenset[Any]) -> ShapedArray:
    """The type of a part, with what the whole's says of Explicit axes that are not mapped."""
    if not is_explicit(whole):
        return part
    spec = whole.placement.spec
    left = [tuple(n for n in axes if n not in manual) for axes in spec.of_rank(whole.ndim).axes()]
    if not any(left):
        return part
    return part.marked(NamedSharding(get_abstract_mesh(), P(*[
        axes[0] if len(axes) == 1 else axes or None for axes in left])), part.vma)


def _looked_at(f: Function, args: tuple[Any, ...], mesh: Mesh | AbstractMesh, in_specs: Any,
               out_specs: Any, chosen: frozenset[Any], check_vma: bool) -> Any:
    """f of each device's parts, operation by operation: Python may look at what is the same on all
    devices; that results are, where they are to be, is seen when they are there."""
    name, manual = name_of(f), _manual(mesh, chosen)
    leaves, tree = tree_util.flatten((args, {}))
    specs = [P()] * len(leaves) if in_specs is Infer or in_specs is None else (
        _flat_specs("in_specs", in_specs, args))
    kept: list[Any] = []

    def body(*parts: Any) -> list[Any]:
        out = f(*tree.unflatten(parts)[0])
        outs, out_tree = tree_util.flatten(out)
        check_outputs(name, outs, out_tree)
        kept[:] = [out_tree, _flat_specs(
            "out_specs", out_specs() if callable(out_specs) else out_specs, out)]
        return as_values(outs)

    with primitive.inside(mesh, manual, False):
        outs = primitive.by_devices(body, as_values(leaves), specs, lambda: kept[1], mesh, manual,
                                    check_vma)
    return kept[0].unflatten(outs)


def _manual(mesh: Mesh | AbstractMesh, chosen: frozenset[Any]) -> frozenset[Any]:
    """The axes to map: those asked for, or all that are not mapped yet."""
    taken = set(get_abstract_mesh().manual_axes)
    if unknown := chosen - set(mesh.axis_names):
        raise ValueError(explain(
            f"axis_names={set(chosen)} has names that the mesh has not: "
            f"{sorted(map(str, unknown))}; it has {mesh.axis_names}.", fix="use its names."))
    manual = chosen or frozenset(mesh.axis_names)
    again = manual & taken
    if again:
        raise ValueError(explain(
            f"The context mesh {get_abstract_mesh()} should match the mesh passed to shard_map "
            f"{mesh!s}: axes {sorted(map(str, again))} are Manual already, mapped by an enclosing "
            "shard_map.", fix="map other axes (axis_names=), or call the function itself."))
    return manual


def _check_spread(args: Any, mesh: AbstractMesh) -> None:
    """ValueError where no argument says on which devices a mesh without any is, or one says other
    axes."""
    found = [x.sharding.mesh for x in tree_util.tree_leaves(args)
             if isinstance(x, Array) and isinstance(x.sharding, NamedSharding)]
    if not found:
        raise ValueError(explain(
            "Please pass `jax.Array`s with a `NamedSharding` as input to `shard_map` when passing "
            "`AbstractMesh` to the mesh argument.", fix="calque.device_put the arguments over a "
            "Mesh, or pass a Mesh."))
    for m in found:
        if m.shape_tuple != mesh.shape_tuple:
            raise ValueError(explain(
                f"Mesh shape of the input {m.shape_tuple} does not match the mesh shape passed to "
                f"shard_map {mesh.shape_tuple}",
                fix="pass the mesh that the arguments are spread over, or leave mesh= out."))


def _check_names(what: str, specs: Sequence[P], manual: frozenset[Any]) -> None:
    for s in specs:
        for n in (*s.names(), *s.unreduced, *s.reduced):
            if n not in manual:
                raise ValueError(explain(
                    f"shard_map {what} argument must refer to an axis marked as manual "
                    f"({manual}), but:\n\n  {what} refers to {n!r}\n",
                    fix=f"check the {what} values passed to shard_map, or map the axis."))


def _check_sums(what: str, specs: Sequence[P], mesh: Mesh | AbstractMesh,
                manual: frozenset[Any]) -> None:
    """Sums over devices are part of types: all axes are Explicit, or Manual around, and mapped."""
    for s in specs:
        if not s.has_sums:
            continue
        kind = "unreduced" if s.unreduced else "reduced"
        if manual | set(get_abstract_mesh().manual_axes) != set(mesh.axis_names):
            raise NotImplementedError(explain(
                f"{kind} can only be passed to {what} when shard_map is in full manual mode, got "
                f"{what}={s} and axis_names={set(manual)}.", fix="leave axis_names out."))
        if mesh.auto_axes:
            raise ValueError(explain(
                f"{kind} in {what} {s} can only be used when the mesh passed to shard_map contains "
                f"axis names all of type `Explicit`. Got mesh={mesh!s}",
                fix="make the mesh with AxisType.Explicit."))


def _inferred(aval: ShapedArray, mesh: Any, manual: frozenset[Any], given: Any) -> P:
    if given is None:
        return P()
    autos = frozenset(n for n in mesh.auto_axes if n in manual)
    if autos:
        raise TypeError(explain(
            "shard_map in_specs argument must be a pytree of `jax.sharding.PartitionSpec` "
            f"instances, but it was `None` when axis_names={autos} are of type AxisType.Auto",
            fix="pass in_specs, or make the axes Explicit."))
    if not isinstance(aval.placement, NamedSharding):
        return P()
    spec = aval.placement.spec
    return P(*[tuple(n for n in axes if n in manual) or None for axes in spec.axes()],
             unreduced=spec.unreduced & manual, reduced=spec.reduced & manual)


def _check_types(f: Any, args: Any, avals: Sequence[ShapedArray], specs: Sequence[P],
                 manual: frozenset[Any]) -> None:
    """ValueError for specs that are not those of arguments over Explicit axes."""
    for i, (a, s) in enumerate(zip(avals, specs)):
        if not is_explicit(a):
            continue
        mine = [tuple(n for n in axes if n in manual) for axes in a.placement.spec.of_rank(
            a.ndim).axes()]
        spec = a.placement.spec
        same = s.unreduced == spec.unreduced & manual and s.reduced == spec.reduced & manual
        whole = manual == frozenset(a.placement.mesh.axis_names)  # (of some axes it may be another)
        if whole and list(s.of_rank(a.ndim).axes()) != mine or not same:
            raise ValueError(explain(
                f"in_specs passed to shard_map: {s} does not match the specs of the input: "
                f"{a.placement.spec} for arg: {a} ({argument_names(f, args, {})[i]})",
                fix="leave in_specs out, or calque.sharding.reshard the argument first."))


def _check_arguments(f: Any, args: Any, avals: Sequence[ShapedArray], specs: Sequence[P],
                     mesh: Mesh | AbstractMesh) -> None:
    """ValueError for arguments that are too short for their specs or do not divide; all of them."""
    name, sizes = name_of(f), mesh.shape
    long = [(i, s) for i, (a, s) in enumerate(zip(avals, specs)) if len(s) > a.ndim]
    if long:
        names = argument_names(f, args, {})
        rows = [f"in_specs is {s} which has length {len(s)}, but {names[i]} has shape {avals[i]}, "
                f"which has rank {avals[i].ndim} (and {avals[i].ndim} < {len(s)})" for i, s in long]
        raise ValueError(explain(
            f"shard_map applied to the function '{name}' was given an in_specs entry which is too "
            "long to be compatible with the corresponding input value from the function:\n\n"
            + "\n\n".join(rows) + "\n\nFor scalar values (rank 0), consider using an in_specs "
            "entry of `P()`, where `P = jax.sharding.PartitionSpec`.",
            fix="shorten the spec, or pass arguments with more dimensions."))
    rows = []
    for i, (a, s) in enumerate(zip(avals, specs)):
        for d, (size, axes) in enumerate(zip(a.shape, s.axes())):
            count = math.prod(sizes[n] for n in axes)
            if size % count:
                names = argument_names(f, args, {})
                axis = f"axis {axes[0]!r}" if len(axes) == 1 else f"axes {axes}"
                rows.append(
                    f"* the passed {names[i]} of shape {a}, corresponds to in_specs of value {s}, "
                    f"which maps array axis {d} (of size {size}) to mesh {axis} (of total size "
                    f"{count}), but {count} does not evenly divide {size}")
    if rows:
        raise ValueError(explain(
            f"shard_map applied to the function '{name}' was given argument arrays with axis sizes "
            "that are not evenly divisible by the corresponding mesh axis sizes:\n\nThe mesh given "
            f"has shape {mesh.axis_sizes} with corresponding axis names {mesh.axis_names}.\n\n"
            + "\n\n".join(rows) + "\n", fix="pad the arrays, or check in_specs and the mesh."))


def _checked(out: Any, spec: P, name: str, tree: Any, i: int, mesh: Mesh | AbstractMesh,
             manual: frozenset[Any], check_vma: bool) -> Any:
    """A result that fits its spec, as a value that varies over the axes that it mentions."""
    aval = aval_of(out)
    if len(spec) > aval.ndim:
        raise ValueError(explain(
            f"shard_map applied to the function '{name}' was given an out_specs entry which is too "
            "long to be compatible with the corresponding output value from the function:\n\n"
            f"out_specs is {spec} which has length {len(spec)}, but {name}(*args)"
            f"{leaf_paths(tree)[i]} has shape {aval}, which has rank {aval.ndim} (and {aval.ndim} "
            f"< {len(spec)})\n",
            fix="use P() for a scalar that is the same everywhere, or add an axis to it "
                "(x[None])."))
    if not check_vma:
        return out
    out = _as_summed(out, spec)
    aval = aval_of(out)
    mentioned = set(spec.names())
    kinds = {*map(Unreduced, spec.unreduced), *map(Reduced, spec.reduced)}
    mine = frozenset(n for n in aval.vma if getattr(n, "axis", n) in manual)
    wrong = frozenset(getattr(n, "axis", n) for n in mine - mentioned - kinds) - mentioned
    if wrong:
        axes = ", ".join(repr(n) for n in primitive.order(mesh, frozenset(wrong)))
        raise ValueError(explain(
            f"shard_map applied to the function '{name}' was given out_specs which require "
            "replication which can't be statically inferred given the mesh:\n\nThe mesh given has "
            f"shape {mesh.axis_sizes} with corresponding axis names {mesh.axis_names}.\n\n"
            f"out_specs{leaf_paths(tree)[i]} is {spec} which implies that the corresponding output "
            + (f"value is only varying across mesh axes {_braced(mentioned, mesh)} and not "
               f"{_braced(wrong, mesh)}, but it was inferred to be possibly varying over "
               f"{_braced(aval.mat.varying, mesh)}.\n" if mentioned else
               f"value is replicated across mesh axis {axes}, but it varies over it.\n"),
            fix="mention the axis in out_specs, make the value the same along it (lax.psum, "
                "lax.pmean), or say check_vma=False."))
    less = mentioned - aval.vma
    if held := [n for n in aval.vma if getattr(n, "axis", None) in less]:
        kind = "unreduced" if type(held[0]) is Unreduced else "reduced"
        raise ValueError(explain(
            f"pvary cannot accept args which are {kind}. Got {aval.short()} and axes={less}: "
            f"out_specs{leaf_paths(tree)[i]} is {spec}.",
            fix="lax.psum or lax.pcast the value first."))
    return pvary_p.bind(out, axes=primitive.order(mesh, frozenset(less))) if less else out


def _braced(axes: Any, mesh: Mesh | AbstractMesh) -> str:
    """{x,y}, in the mesh's order."""
    return "{" + ",".join(map(str, primitive.order(mesh, frozenset(axes)))) + "}"


def _as_summed(out: Any, spec: P) -> Any:
    """A result that varies as a summand, where its spec says so."""
    aval = aval_of(out)
    kinds = aval.mat
    name = "unreduced" if kinds.unreduced & spec.reduced else "reduced"
    if name == "unreduced" or spec.reduced - kinds.reduced and kinds.reduced <= spec.reduced:
        raise ValueError(explain(
            f"out_specs passed to shard_map should be equal to the {name} present on the out_aval. "
            f"Got out_specs={spec} and out_aval={aval.short()}",
            fix="use the specs that the value has, or lax.psum or lax.pcast it."))
    more = spec.unreduced - kinds.unreduced
    return vary_unreduced(out, tuple(sorted(more, key=str))) if more else out
