"""Transposes of products and gathers over Explicit axes of which one operand is reduced over an
axis that splits another: each device computes with what it has of the cotangent, so that the
reduced operand's is a summand on each.

They are shard_maps over these axes alone.  Start reading at `mixed`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core.avals import ShapedArray, aval_of
from calque.core.primitive import Primitive, UndefinedPrimal, is_linear, registry
from calque.core.sharding import PartitionSpec
from calque.core.types import Params
from calque.core.zeros import instantiate
from calque.primitives import shard_map as sm
from calque.transforms import explicit, sums
from calque.transforms.propagate import of_equation
from calque.transforms.stage import stage

P = PartitionSpec


def only(spec: PartitionSpec, axes: frozenset[Any], ndim: int) -> PartitionSpec:
    """A spec without other axes than these."""
    entries = [tuple(n for n in mine if n in axes) or None for mine in spec.of_rank(ndim).axes()]
    while entries and entries[-1] is None:
        entries.pop()
    return P(*entries, unreduced=spec.unreduced & axes, reduced=spec.reduced & axes)


def mixed(ct: Any, prim: Primitive, args: Sequence[Any], params: Params) -> list[Any] | None:
    """The cotangents of the operands, those of reduced ones as summands; None where no axis asks
    for it."""
    avals = [x.aval if is_linear(x) else aval_of(x) for x in args]
    first = next((a for a in avals if explicit.is_explicit(a)), None)
    if first is None:
        return None
    out = prim.rule("abstract")(*[a.plain for a in avals], **params)
    axes = _axes(prim, avals, out, params)
    if not axes:
        return None
    mesh = first.placement.mesh
    known = [a.placement if explicit.is_explicit(a) else None for a in avals]
    (spec,) = of_equation(prim, avals, [out], params, known, mesh)
    specs = [P() if s is None else only(s.spec, axes, a.ndim) for a, s in zip(avals, known)]
    of_ct = only(spec, axes, out.ndim)
    given = [i for i, x in enumerate(args) if not is_linear(x)]
    wanted = [i for i, x in enumerate(args) if is_linear(x)]

    with sm.inside(mesh, axes, True):
        parts = [sm.local(a.plain, mesh, s, True) for a, s in zip(avals, specs)]

        def body(ct: Any, *xs: Any) -> list[Any]:
            full: list[Any] = [UndefinedPrimal(a) for a in parts]
            for i, x in zip(given, xs):
                full[i] = x
            found = prim.rule("transpose")(ct, *full, **params)
            return [sums.brought(instantiate(found[i]), parts[i].cotangent().vma)
                    for i in wanted]

        program = stage(body, [sm.local(out, mesh, of_ct, True), *[parts[i] for i in given]],
                        f"transpose_{prim.name}")
    made = sm.bind(program, [ct, *[args[i] for i in given]], mesh=mesh,
                   in_specs=(of_ct, *[specs[i] for i in given]),
                   out_specs=tuple(specs[i].turned() for i in wanted), check_vma=True,
                   newly_manual_axes=axes)
    found: list[Any] = [None] * len(args)
    for i, x in zip(wanted, made):
        found[i] = x
    return found


def _axes(prim: Primitive, avals: Sequence[ShapedArray], out: ShapedArray, params: Params
          ) -> frozenset[Any]:
    """Axes over which an operand is reduced, and that split only dimensions of others which are the
    result's and not that operand's."""
    if prim.factors is None:
        return frozenset()
    operands, results, _ = prim.factors(avals, [out], params)
    shown = {f for dims in results for d in dims for f in d}
    found: set[Any] = set()
    for n in frozenset().union(*[sums.reduced(a) for a in avals]):
        mine = {f for a, dims in zip(avals, operands) if n in sums.reduced(a)
                for d in dims for f in d}
        split = [d for a, dims in zip(avals, operands) if explicit.is_explicit(a)
                 for axes, d in zip(a.placement.spec.of_rank(a.ndim).axes(), dims) if n in axes]
        if split and all(len(d) == 1 and d[0] in shown and d[0] not in mine for d in split):
            found.add(n)
    return frozenset(found)


for _name in ("dot_general", "conv_general_dilated", "gather", "scatter", "scatter-add",
              "scatter-sub", "scatter-mul", "scatter-min", "scatter-max"):
    registry[_name].mixed = mixed
