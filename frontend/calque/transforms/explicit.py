"""Sharding in types: over Explicit axes a result has a sharding of its own, by the factors that
propagation uses (primitives/factors), or it is an error to ask for it.

What a user writes is checked; what transformations replay is not, since they may contract what the
user never contracted.  Start reading at `typed`.
"""
from __future__ import annotations

import contextvars
import math
from collections.abc import Callable, Sequence
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.errors import explain
from calque.core.mesh import AxisType, _abstract
from calque.core.primitive import Primitive
from calque.core.sharding import NamedSharding, PartitionSpec, ShardingTypeError
from calque.core.source import here, replaying
from calque.core.types import Params
from calque.transforms import sums
from calque.transforms.propagate import of_equation

_ALONG = frozenset(("sort", "cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp",
                    "top_k"))
_CUTS = frozenset(("slice", "dynamic_slice"))
RESHARD = "spread the operand in another way first (calque.sharding.reshard)."
_SAY = f"pass out_sharding=P(...), or {RESHARD}"
# whether out_sharding= says what the types of operands do not
resolved: contextvars.ContextVar[bool] = contextvars.ContextVar("calque_resolved", default=False)


def is_explicit(a: ShapedArray) -> bool:
    """Whether an aval's sharding is part of its type."""
    return isinstance(a.placement, NamedSharding) and a.placement.explicit


def of_types(avals: Sequence[ShapedArray]) -> list[ShapedArray]:
    """Avals without shardings that are labels only."""
    return [a if a.placement is None or is_explicit(a) else a.marked(None, a.vma) for a in avals]


def typed(prim: Primitive, ins: Sequence[ShapedArray], outs: Sequence[ShapedArray],
          params: Params) -> list[ShapedArray]:
    """Results with their shardings; ShardingTypeError where these are ambiguous."""
    plain = [a.marked(None, a.vma) for a in outs]
    if prim.name == "shard_map":
        mesh, specs = params["mesh"], params["out_specs"]
        if AxisType.Explicit not in mesh.axis_types:
            return plain
        return [_split(a, mesh, _with_parts(s, part))
                for a, s, part in zip(plain, specs, params["jaxpr"].out_avals)]
    if prim.name == "sharding_constraint":
        s = params["sharding"]
        return [_split(a, s.mesh, s.spec) if isinstance(s, NamedSharding) and s.explicit else a
                for a in plain]
    if prim.higher_order:  # as their inner programs say
        return of_types(outs)
    first = next((a for a in ins if is_explicit(a)), None)
    if first is None:
        return plain
    mesh = first.placement.mesh
    if _strict():
        _check_meshes(prim, ins, mesh)
    own = _OWN.get(prim.name)
    specs = _specs(prim, ins, plain, params, mesh)
    if AxisType.Auto in mesh.axis_types:  # what types say goes before what labels say
        ins = [_said(a) for a in ins]
        types = _specs(prim, ins, plain, params, mesh)
        specs = [s if _explicit_part(s, mesh) == t else t for s, t in zip(specs, types)]
    if sums.any_of(ins):
        specs = _with_sums(prim, ins, specs, params)
    made = [_split(a, mesh, s) for a, s in zip(plain, specs)]
    if own is None and prim.factors is not None and _strict():
        _check(prim, ins, [_said(a) for a in made] if AxisType.Auto in mesh.axis_types else made,
               params)
    return made


def _with_parts(spec: PartitionSpec, part: ShapedArray) -> PartitionSpec:
    """How an array of such parts is spread: over the mapped axes, and as each part's type says over
    the others."""
    if not is_explicit(part):
        return spec
    entries = [(*outer, *inner) for outer, inner in zip(
        spec.of_rank(part.ndim).axes(), _axes(part))]
    return spec.update(partitions=[e[0] if len(e) == 1 else e or None for e in entries])


def _specs(prim: Primitive, ins: Sequence[ShapedArray], plain: Sequence[ShapedArray],
           params: Params, mesh: Any) -> list[PartitionSpec]:
    own = _OWN.get(prim.name)
    known = [a.placement if is_explicit(a) else None for a in ins]
    if prim.name in _CUTS and known[0] is not None:
        return [_cut(known[0], ins[0], plain[0])]
    return [own(ins, plain[0], params)] * len(plain) if own is not None else list(
        of_equation(prim, ins, plain, params, known, mesh))


def _explicit_part(spec: PartitionSpec, mesh: Any) -> PartitionSpec:
    """What a spec says of Explicit axes."""
    entries = [tuple(n for n in axes if n in mesh.explicit_axes) for axes in spec.axes()]
    return spec.update(partitions=[
        e[0] if len(e) == 1 else e or None for e in entries])


def _said(a: ShapedArray) -> ShapedArray:
    """A value's type, without what is a label over Auto axes."""
    if not is_explicit(a):
        return a
    return a.marked(a.placement.update(
        spec=_explicit_part(a.placement.spec, a.placement.mesh)), a.vma)


def _check_meshes(prim: Primitive, ins: Sequence[ShapedArray], mesh: Any) -> None:
    """ValueError for operands over other axes than each other's, or the context's."""
    context = _abstract.get()
    wanted = mesh.abstract_mesh if context is None or context.manual_axes or (
        not context.axis_names) else context
    for a in ins:
        if is_explicit(a) and a.placement.mesh.abstract_mesh != wanted:
            raise ValueError(explain(
                f"For primitive {prim.name}, context mesh {wanted!s} should match the aval mesh "
                f"{a.placement.mesh.abstract_mesh!s} for shape {a.short()}.", where=str(here()),
                fix=RESHARD))


def _with_sums(prim: Primitive, ins: Sequence[ShapedArray], specs: Sequence[PartitionSpec],
               params: Params) -> list[PartitionSpec]:
    """Specs of results with the axes over which these are unreduced or reduced."""
    unreduced, reduced = sums.of_results(prim, ins, params)
    inside = frozenset().union(*[{getattr(n, "axis", n) for n in a.vma} for a in ins])
    return [s.update(unreduced=unreduced - inside, reduced=reduced - inside - set(s.names()))
            for s in specs]


def _strict() -> bool:
    """Whether what is written is checked: a user wrote it, and nothing says what it is to be."""
    return replaying.get() is None and not resolved.get()


# ---- primitives whose operands are spread in more ways than their factors say
def _convolved(ins: Sequence[ShapedArray], out: ShapedArray, params: Params) -> PartitionSpec:
    """Batch and windows as the images', channels as the kernel's."""
    lhs, rhs = _axes(ins[0]), _axes(ins[1])
    dims = params["dimension_numbers"]
    if _strict() and (lhs[dims.lhs_spec[1]] or any(rhs[d] for d in dims.rhs_spec[1:])):
        raise _error("conv_general_dilated: the channels of the images, and all of the kernel but "
                     f"its output channels, must not be split. Got {ins[0].short()} and "
                     f"{ins[1].short()}", RESHARD)
    entries: list[Any] = [None] * out.ndim
    for to, of, axes in ((0, 0, lhs), (1, 0, rhs)):
        source = dims.lhs_spec if axes is lhs else dims.rhs_spec
        entries[dims.out_spec[to]] = axes[source[of]] or None
    for to, of in zip(dims.out_spec[2:], dims.lhs_spec[2:]):
        entries[to] = lhs[of] or None
    channels = dims.out_spec[1]
    images = {n for d, e in enumerate(entries) if d != channels for n in e or ()}
    if images & set(entries[channels] or ()):  # an axis splits one dimension of a result
        if _strict():
            raise _error("conv_general_dilated: an axis of the mesh splits both the images and the "
                         f"kernel's output channels. Got {ins[0].short()} and {ins[1].short()}",
                         RESHARD)
        entries[channels] = tuple(n for n in entries[channels] if n not in images) or None
    return _fitting(entries, ins[0], out)


def _written(ins: Sequence[ShapedArray], out: ShapedArray, params: Params) -> PartitionSpec:
    """dynamic_update_slice: as the operand, and so is what is written."""
    if _strict() and is_explicit(ins[1]) and any(_axes(ins[1])) and _axes(ins[0]) != _axes(ins[1]):
        raise _error("dynamic_update_slice operand sharding must be equal to update sharding, got "
                     f"{ins[0].short()} and {ins[1].short()}", RESHARD)
    return PartitionSpec(*[a or None for a in _axes(ins[0])])


def _solved(ins: Sequence[ShapedArray], out: ShapedArray, params: Params) -> PartitionSpec:
    """triangular_solve: as the right sides, of which each is whole."""
    axes = list(_axes(ins[1]))
    along = -2 if params["left_side"] else -1
    if _strict() and (axes[along] or any(_axes(ins[0])[-2:])):
        raise _error(f"triangular_solve: the matrix and the dimension that it works along must not "
                     f"be split. Got {ins[0].short()} and {ins[1].short()}", RESHARD)
    axes[along] = ()
    return PartitionSpec(*[a or None for a in axes])


def _windowed(ins: Sequence[ShapedArray], out: ShapedArray, params: Params) -> PartitionSpec:
    return _fitting([a or None for a in _axes(ins[0])], ins[0], out)


def _fitting(entries: Sequence[Any], a: ShapedArray, out: ShapedArray) -> PartitionSpec:
    """A spec without what does not divide the result."""
    sizes = a.placement.mesh.shape if is_explicit(a) else {}
    return PartitionSpec(*[
        e if e is None or size % math.prod(sizes.get(n, 1) for n in e) == 0 else None
        for e, size in zip(entries, out.shape)])


_OWN: dict[str, Callable[[Sequence[ShapedArray], ShapedArray, Params], PartitionSpec]] = {
    "conv_general_dilated": _convolved, "dynamic_update_slice": _written,
    "triangular_solve": _solved, "reduce_window_max": _windowed, "reduce_window_min": _windowed,
    "reduce_window_sum": _windowed}


def _split(a: ShapedArray, mesh: Any, spec: PartitionSpec) -> ShapedArray:
    """A type over a mesh, its spec with an entry for each axis."""
    return a.marked(NamedSharding(mesh, spec.of_rank(a.ndim)), a.vma)


def _cut(sharding: NamedSharding, a: ShapedArray, out: ShapedArray) -> PartitionSpec:
    """The spec of a part of an array: as the whole, where the mesh divides what is left."""
    return PartitionSpec(*[
        entry if not isinstance(size, int) or size % parts == 0 else None
        for entry, size, parts in zip(sharding.spec.of_rank(a.ndim).partitions, out.shape,
                                      sharding.parts(a.ndim))])


def _axes(a: ShapedArray) -> tuple[tuple[Any, ...], ...]:
    if not is_explicit(a):
        return ((),) * a.ndim
    return a.placement.spec.of_rank(a.ndim).axes()


def _check(prim: Primitive, ins: Sequence[ShapedArray], outs: Sequence[ShapedArray],
           params: Params) -> None:
    assert prim.factors is not None
    operands, results, _ = prim.factors(ins, outs, params)
    there: dict[int, set[Any]] = {}
    for a, dims in zip(outs, results):
        for axes, factors in zip(_axes(a), dims):
            for f in factors:
                there.setdefault(f, set()).update(axes)
    summed: dict[int, list[tuple[Any, ...]]] = {}
    for a, dims in zip(ins, operands):
        for d, (axes, factors) in enumerate(zip(_axes(a), dims)):
            if not axes:
                continue
            if prim.name in _ALONG and d == params.get("dimension", params.get("axis")):
                what = "Arguments to sort must be unsharded" if prim.name == "sort" else (
                    "Input should be unsharded over the axis being reduced")
                raise _error(f"{what}: {prim.name} of {a.short()} runs along dimension {d}.",
                             RESHARD)
            if prim.name == "gather" and a is not ins[0] and not (
                    set(factors) & {f for dim in operands[0] for f in dim}):
                raise _ambiguous(prim, ins)
            if prim.name == "reshape" and _steps(ins[0].shape, outs[0].shape) > 1:
                raise _ambiguous(prim, ins)
            if not factors:
                if prim.name in _CUTS and _axes(outs[0])[d] == axes:
                    continue
                raise _ambiguous(prim, ins)
            kept = set().union(*[there.get(f, set()) for f in factors])
            if all(f in there for f in factors):
                if not set(axes) <= kept:
                    raise _ambiguous(prim, ins) if prim.name == "reshape" else _illegal(
                        prim, ins, outs, params)
            elif prim.name == "dot_general":
                summed.setdefault(factors[0], []).append(axes)
    for specs in summed.values():
        if len(specs) > 1 and specs[0] != specs[1]:
            raise _error("dot_general requires contracting dimensions to have consistent "
                         f"sharding, got {specs[0]} and {specs[1]}.", _SAY)
        if len(specs) > 1:
            raise _error(
                "Contracting dimensions are sharded and it is ambiguous how the output "
                "should be sharded. Please specify the output sharding via the `out_sharding` "
                f"parameter. Got {' and '.join(a.short() for a in ins)}.", _SAY)


def _steps(before: Sequence[Any], after: Sequence[Any]) -> int:
    """How many dimensions a reshape splits, or joins, sizes of one left aside."""
    one, other = ([n for n in shape if n != 1] for shape in (before, after))
    count = 0
    while one and other:
        if one[0] == other[0]:
            one, other = one[1:], other[1:]
            continue
        few, many = (one, other) if one[0] > other[0] else (other, one)
        total, used = 1, 0
        while used < len(many) and total < few[0]:
            total *= many[used]
            used += 1
        if total != few[0]:
            return 2
        count += 1
        rest_few, rest_many = few[1:], many[used:]
        one, other = (rest_few, rest_many) if few is one else (rest_many, rest_few)
    return count


def _error(what: str, fix: str) -> ShardingTypeError:
    return ShardingTypeError(explain(what, where=str(here()), fix=fix))


def _batch_differs(ins: Sequence[ShapedArray], params: Params) -> bool:
    lhs, rhs = params["dimension_numbers"][1]
    return [_axes(ins[0])[d] for d in lhs] != [_axes(ins[1])[d] for d in rhs]


def _illegal(prim: Primitive, ins: Sequence[ShapedArray], outs: Sequence[ShapedArray],
             params: Params) -> ShardingTypeError:
    if prim.elementwise:
        specs = " and ".join(str(a.placement.spec.of_rank(a.ndim).partitions)
                             for a in ins if is_explicit(a))
        return _error(f"{prim.name} got incompatible shardings for broadcasting: {specs}.", RESHARD)
    if prim.name == "dot_general" and _batch_differs(ins, params):
        return _error("dot_general requires lhs batch dimensions and rhs batch dimensions to have "
                      f"the consistent sharding, got {' and '.join(a.short() for a in ins)}.",
                      RESHARD)
    return _error(f"{prim.name} operation with inputs: "
                  f"{', '.join(a.short() for a in ins)} produces an illegally sharded result of "
                  f"shape {outs[0].shape}: their specs contradict each other.", RESHARD)


def _ambiguous(prim: Primitive, ins: Sequence[ShapedArray]) -> ShardingTypeError:
    given = ", ".join(a.short() for a in ins)
    if prim.name == "reshape":
        return _error("This reshape is not supported. Please specify the sharding of the "
                      f"output via the `out_sharding` argument of reshape. Got {given}.", _SAY)
    if prim.name in ("gather", "slice", "dynamic_slice"):
        return _error("Use `.at[...].get(out_sharding=)` to provide output PartitionSpec for "
                      "the gather indexing as out sharding could not be resolved unambiguously "
                      f"(or would require collectives on inputs). Got {given}.",
                      f"x.at[index].get(out_sharding=P(...)), or {RESHARD}")
    return _error(f"{prim.name} of {given}: the output sharding could not be resolved "
                  "unambiguously (or would require collectives on inputs).", RESHARD)


__all__ = ["is_explicit", "of_types", "resolved", "typed"]
