"""Products and gathers over Explicit axes of which one operand is reduced over an axis that splits
another: each device computes with what it has, so that the cotangent of the reduced operand is a
summand on each.

Such an equation is a shard_map over these axes alone.  Start reading at `mixed`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core.avals import ShapedArray, aval_of
from calque.core.primitive import Primitive, registry
from calque.core.sharding import PartitionSpec
from calque.core.types import Params
from calque.primitives import shard_map as sm
from calque.primitives.placement import constrain
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


def mixed(prim: Primitive, args: Sequence[Any], params: Params) -> Any:
    """The results, on each device; None where no axis asks for it."""
    avals = [aval_of(x) for x in args]
    if any(sums.unreduced(a) for a in avals) or prim.multiple_results:
        return None
    first = next((a for a in avals if explicit.is_explicit(a)), None)
    if first is None:
        return None
    mesh, plain = first.sharding.mesh, [a.marked(None, a.vma) for a in avals]
    (out,) = [prim.rule("abstract")(*plain, **params)]
    axes = _axes(prim, avals, out, params)
    if not axes:
        return None
    (whole,) = explicit.typed(prim, avals, [out], params)  # (and what is ambiguous is an error)
    known = [a.sharding if explicit.is_explicit(a) else None for a in avals]
    (spec,) = of_equation(prim, avals, [out], params, known, mesh)
    args, specs = list(args), []
    for i, (x, s) in enumerate(zip(args, known)):
        if s is not None and s.spec.reduced - axes:
            s = s.update(spec=s.spec.update(reduced=s.spec.reduced & axes))
            args[i] = constrain(x, s)
        specs.append(P() if s is None else only(s.spec, axes, avals[i].ndim))
    with sm.inside(mesh, axes, True):
        body = stage(lambda *xs: [prim.bind(*xs, **params)],
                     [sm.local(a, mesh, s, True) for a, s in zip(plain, specs)], prim.name)
    (made,) = sm.bind(body, args, mesh=mesh, in_specs=tuple(specs),
                      out_specs=(only(spec, axes, out.ndim),), check_vma=True,
                      newly_manual_axes=axes)
    return constrain(made, whole.sharding)


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
                 for axes, d in zip(a.sharding.spec.of_rank(a.ndim).axes(), dims) if n in axes]
        if split and all(len(d) == 1 and d[0] in shown and d[0] not in mine for d in split):
            found.add(n)
    return frozenset(found)


for _name in ("dot_general", "conv_general_dilated", "gather", "scatter", "scatter-add",
              "scatter-sub", "scatter-mul", "scatter-min", "scatter-max"):
    registry[_name].mixed = mixed
