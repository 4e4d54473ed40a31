"""out_sharding=P(unreduced=...): an operation that sums over split dimensions leaves its summands
on the devices.

The function runs in a shard_map over these axes, each device on its part; types say before whether
it sums over them.  Start reading at `summands`.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from calque.core.avals import ShapedArray, Unreduced, aval_of, is_arraylike, varying_of
from calque.core.errors import explain
from calque.core.program import Equation, Program
from calque.core.sharding import NamedSharding, PartitionSpec, ShardingTypeError
from calque.core.types import Function
from calque.dispatch.array import as_values
from calque.primitives import shard_map as sm
from calque.primitives.mixed import only
from calque.primitives.placement import constrain
from calque.transforms import sums
from calque.transforms.explicit import is_explicit, of_types, resolved
from calque.transforms.stage import stage
from calque.trees import util as tree_util

P = PartitionSpec
Axes = frozenset[Any]
_SUMS = frozenset(("dot_general", "reduce_sum", "scatter-add"))
_FIX = "spread the operands so, or reduce over other axes."
_NO_SUMS = ("segment_prod", "segment_max", "segment_min")


def summands(name: str, wanted: NamedSharding, function: Function, args: Sequence[Any],
             options: dict[str, Any]) -> Any:
    """function(*args, **options), unreduced as wanted says; None where it sums over nothing."""
    leaves, tree = tree_util.flatten((list(args), options))
    places = [i for i, x in enumerate(leaves) if is_arraylike(x) and hasattr(x, "shape")]
    values = [_same(x) for x in as_values([leaves[i] for i in places])]
    axes = wanted.spec.unreduced | frozenset().union(*[sums.unreduced(aval_of(x)) for x in values])

    def run(*xs: Any) -> list[Any]:
        full = list(leaves)
        for i, x in zip(places, xs):
            full[i] = x
        given, named = tree.unflatten(full)
        return tree_util.tree_leaves(function(*given, **named))

    token = resolved.set(True)
    try:
        avals = of_types([aval_of(x) for x in values])
        program = stage(run, avals, name)
        if not _check(name, program, wanted.spec.unreduced):
            return None
        specs = [only(a.placement.spec, axes, a.ndim) if is_explicit(a) else P() for a in avals]
        with sm.inside(wanted.mesh, axes, True):
            body = stage(_reduced_to(run, wanted.spec.unreduced), [
                sm.local(a.marked(None, a.vma), wanted.mesh, s, True)
                for a, s in zip(avals, specs)], name)
    finally:
        resolved.reset(token)
    (made,) = sm.bind(body, values, mesh=wanted.mesh, in_specs=tuple(specs), check_vma=True,
                      out_specs=(P(unreduced=wanted.spec.unreduced),), newly_manual_axes=axes)
    return made


def _same(x: Any) -> Any:
    """An operand whose cotangent is whole."""
    a = aval_of(x)
    if not is_explicit(a) or not a.placement.spec.reduced:
        return x
    return constrain(x, a.placement.update(spec=a.placement.spec.update(reduced=frozenset())))


def _reduced_to(run: Callable[..., list[Any]], wanted: Axes) -> Callable[..., list[Any]]:
    """The body, whose result is a summand over the wanted axes and whole over the others."""
    def body(*xs: Any) -> list[Any]:
        (out,) = run(*xs)
        return [sums.brought(out, frozenset(map(Unreduced, wanted)))]
    return body


def everywhere(x: Any, wanted: NamedSharding) -> Any:
    """A new value that each device has as its summand."""
    shape = aval_of(x).shape
    axes = wanted.spec.unreduced
    with sm.inside(wanted.mesh, axes, False):
        body = stage(lambda v: [v], [aval_of(x).plain], "everywhere")
    (made,) = sm.bind(body, as_values([x]), mesh=wanted.mesh, in_specs=(P(),), check_vma=False,
                      out_specs=(P(unreduced=axes),), newly_manual_axes=axes)
    return constrain(made, wanted.update(spec=wanted.spec.of_rank(len(shape))))


# ---- what is summed over
def _equations(p: Program) -> Iterator[Equation]:
    for e in p.equations:
        yield e
        for q in e.inner:
            yield from _equations(q)


def _check(name: str, p: Program, wanted: Axes) -> bool:
    """Whether the program sums over the axes; ShardingTypeError where it sums over others."""
    if name in _NO_SUMS:
        raise NotImplementedError(explain(
            f"{name}: out_sharding of unreduced axes {set(wanted)} is not implemented: only sums "
            "are made of summands.", fix="pass out_sharding=P()."))
    found = [e for e in _equations(p) if e.name in _SUMS]
    products = [e for e in found if e.name == "dot_general"]
    if products:
        _check_product(products[-1], wanted)
    elif found and found[-1].name == "reduce_sum":
        _check_sum(found[-1], wanted)
    return bool(found)


def _check_product(e: Equation, wanted: Axes) -> None:
    lhs, rhs = (_entries(a.aval, dims)
                for a, dims in zip(e.inputs, e.params["dimension_numbers"][0]))
    if lhs != rhs:
        raise ShardingTypeError(explain(
            "lhs and rhs contracting dims should be sharded identically when out_sharding provided "
            f"to dot_general mentions unreduced_axes. Got lhs_contracting_spec={lhs}, "
            f"rhs_contracting_spec={rhs}", fix=_FIX))
    summed = frozenset(n for entry in lhs for n in (entry if isinstance(entry, tuple) else (
        () if entry is None else (entry,))))
    if summed != wanted:
        raise ShardingTypeError(explain(
            "out_sharding's unreduced axes should be equal to the contracting specs. Got unreduced "
            f"axes={wanted} and contracting spec={lhs}", fix=_FIX))


def _entries(a: ShapedArray, dims: Sequence[int]) -> tuple[Any, ...]:
    if not is_explicit(a):
        return (None,) * len(dims)
    return tuple(a.placement.spec.of_rank(a.ndim)[d] for d in dims)


def _check_sum(e: Equation, wanted: Axes) -> None:
    a, axes = e.inputs[0].aval, frozenset(e.params["axes"])
    summed = {n for entry in _entries(a, sorted(axes)) if entry is not None
              for n in (entry if isinstance(entry, tuple) else (entry,))}
    if not wanted <= summed | sums.unreduced(a) | varying_of(a.vma):
        raise ShardingTypeError(explain(
            "out_sharding's unreduced axes should be in operand's specs that were summed over. Got "
            f"operand={a!r}, axes={axes}, unreduced_spec={wanted}", fix=_FIX))


__all__ = ["everywhere", "summands"]
