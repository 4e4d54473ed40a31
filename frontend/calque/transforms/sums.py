"""Types of sums over devices: which results are unreduced (each device holds a summand) or reduced
(the same everywhere, the cotangent unreduced) along mesh axes, at the top over Explicit axes and
inside shard_map.

What a user writes must be linear in unreduced operands; what transformations replay is.  Start
reading at `of_results`, then `needs`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calque.core.avals import Reduced, ShapedArray, Unreduced, aval_of, axes_of, varying_of
from calque.core.errors import explain
from calque.core.primitive import Primitive, registry
from calque.core.sharding import ShardingTypeError
from calque.core.source import here, replaying
from calque.core.types import Params

Axes = frozenset[Any]
NONE: Axes = frozenset()
# linear in each operand that is unreduced, whichever these are
LINEAR = frozenset((
    "convert_element_type", "transpose", "reshape", "broadcast_in_dim", "squeeze", "slice",
    "reduce_sum", "concatenate", "pad", "select_n", "reduce_precision", "copy", "real",
    "imag", "conj", "stop_gradient", "dynamic_update_slice", "optimization_barrier", "fft", "name",
    "add_any", "inspect_sharding", "sharding_constraint", "layout_constraint", "dynamic_slice"))
SAY = "calque.sharding.reshard the operand first."


def unreduced(a: ShapedArray) -> Axes:
    """The axes over which a value is a summand."""
    spec = getattr(a.placement, "spec", None)
    found = axes_of(a.vma, Unreduced)
    return found if spec is None else found | spec.unreduced


def reduced(a: ShapedArray) -> Axes:
    """The axes over which its cotangent is."""
    spec = getattr(a.placement, "spec", None)
    found = axes_of(a.vma, Reduced)
    return found if spec is None else found | spec.reduced


def spread(a: ShapedArray) -> Axes:
    """The axes along which it differs from device to device."""
    spec = getattr(a.placement, "spec", None)
    found = varying_of(a.vma)
    return found if spec is None else found | set(spec.names())


def any_of(avals: Sequence[ShapedArray]) -> bool:
    """Whether one of the values is unreduced or reduced."""
    return any([a.plain is not a and a.has_sums for a in avals])


def _is_free(a: ShapedArray) -> bool:
    """Numbers go with operands of any type."""
    return not a.ndim and not spread(a) and not a.has_sums


def kept(prim: Primitive, avals: Sequence[ShapedArray]) -> Axes:
    """The axes over which results are reduced as all operands are."""
    if prim.mixed is not None:
        return NONE
    every = [reduced(a) | unreduced(a) for a in avals if not _is_free(a)]
    return frozenset.intersection(*every) if every else NONE


def of_results(prim: Primitive, avals: Sequence[ShapedArray], params: Params
               ) -> tuple[Axes, Axes]:
    """Over which axes the results are unreduced, and reduced; an error for what is not linear."""
    strict = replaying.get() is None
    sums = [unreduced(a) for a in avals]
    if strict and prim.elementwise:
        _check_alike(avals)
    every = NONE.union(*sums)
    if every:
        check = _CHECKED.get(prim.name)
        if check is not None and (strict or prim.name in ("add", "sub")):
            check(prim, avals, sums)
        elif strict and prim.name not in LINEAR:
            raise NotImplementedError(explain(
                f"unreduced rule for {prim.name} is not implemented: it is not linear, or not "
                f"known to be. Got {_told(avals)}", where=str(here()), fix=SAY))
    return every, kept(prim, avals) - every


def _check_alike(avals: Sequence[ShapedArray]) -> None:
    """Elementwise, operands are reduced alike, and none is split where another is reduced."""
    mine = [a for a in avals if not _is_free(a)]
    specs = {reduced(a) for a in mine} - {NONE}
    if len(specs) > 1:
        raise _error("All inputs should be reduced across the same mesh axes. Got specs: "
                     f"{specs}", SAY)
    for axes in specs:
        for a in mine:
            if reduced(a) or axes <= unreduced(a):
                continue
            if axes & spread(a):
                raise _error(
                    "Inputs cannot be sharded/varying on the same axes that another input is "
                    "reduced on. Reshard the input which is reduced to be sharded on the mesh axes "
                    "it is reduced on via `jax.sharding.reshard(inp, jax.P(...))`. Got input type: "
                    f"{a} and reduced spec: {axes}", "reshard the reduced operand.")
            raise _error("Inputs cannot be replicated on the same axes that another input is "
                         f"reduced on. Got input type: {a} and reduced spec: {axes}", SAY)


def _check_sum(prim: Primitive, avals: Sequence[ShapedArray], sums: Sequence[Axes]) -> None:
    x, y = sums[0], sums[-1]
    if x == y:
        return
    if x and y:
        raise _error(f"lhs and rhs to `{prim.name}` must be unreduced along the same mesh axes. "
                     f"Got lhs={x}, rhs={y}", SAY)
    one, other = ("lhs", "rhs") if x else ("rhs", "lhs")
    raise _error(f"{one} is unreduced while {other} is not. `{prim.name}` operation does not allow "
                 f"this because there will be implicit communication. Please reduce {one} via "
                 f"`reshard` before calling `{prim.name}`.", SAY)


def _check_difference(prim: Primitive, avals: Sequence[ShapedArray], sums: Sequence[Axes]) -> None:
    if replaying.get() is None:
        raise NotImplementedError(explain("unreduced rule for sub is not implemented.",
                                          where=str(here()), fix=SAY))
    _check_sum(prim, avals, sums)


def _check_product(prim: Primitive, avals: Sequence[ShapedArray], sums: Sequence[Axes]) -> None:
    x, y = sums
    if x and y:
        raise _error(f"lhs and rhs to `mul` cannot be unreduced since mul is bilinear. Got lhs={x},"
                     f" rhs={y}", SAY)
    (one, axes), (other, operand) = (("LHS", x), ("RHS", avals[1])) if x else (
        ("RHS", y), ("LHS", avals[0]))
    if reduced(operand) != axes:
        raise _error(f"{other} should be reduced along the same axes {one} is unreduced on. Got "
                     f"lhs={avals[0]} and rhs={avals[1]}", "reshard it to P(reduced=...).")


def _refuse_product(prim: Primitive, avals: Sequence[ShapedArray], sums: Sequence[Axes]) -> None:
    raise _error(f"lhs or rhs passed to {prim.name} cannot be unreduced. Got lhs={avals[0]!r} and "
                 f"rhs={avals[1]!r}", SAY)


def _check_cases(prim: Primitive, avals: Sequence[ShapedArray], sums: Sequence[Axes]) -> None:
    if sums[0]:
        raise NotImplementedError(explain(
            f"unreduced rule for the predicate of {prim.name} is not implemented. Got "
            f"{_told(avals)}", where=str(here()), fix=SAY))
    if any(s != sums[1] for a, s in zip(avals[1:], sums[1:]) if not _is_free(a)):
        raise _error(f"select cases must have the same shardings, got {_told(avals[1:])}", SAY)


def _check_parts(prim: Primitive, avals: Sequence[ShapedArray], sums: Sequence[Axes]) -> None:
    if len(set(sums)) > 1:
        raise _error(f"All operands of {prim.name} should be unreduced along the same mesh axes. "
                     f"Got {_told(avals)}", SAY)


Check = Callable[[Primitive, Sequence[ShapedArray], Sequence[Axes]], None]
_CHECKED: dict[str, Check] = {
    "add": _check_sum, "sub": _check_difference, "mul": _check_product,
    "dot_general": _refuse_product, "conv_general_dilated": _refuse_product,
    "select_n": _check_cases, "concatenate": _check_parts}


# ---- cotangents
def brought(ct: Any, wanted: frozenset[Any]) -> Any:
    """A cotangent of the kinds along mapped axes that its value asks for (its aval, turned)."""
    sums, same = axes_of(wanted, Unreduced), axes_of(wanted, Reduced)

    def cast(name: str, x: Any, axes: Axes) -> Any:
        return registry[name].bind(x, axes=tuple(sorted(axes, key=str))) if axes else x

    have = aval_of(ct).vma
    varying = varying_of(have) - varying_of(wanted)
    ct = cast("vary_unreduced_cast", ct, varying & sums)
    ct = cast("psum_invariant", ct, varying - sums)  # the value is one, its parts' are summed
    ct = cast("unreduced_psum", ct, axes_of(have, Unreduced) - sums)
    ct = cast("reduced_invary_cast", ct, axes_of(have, Reduced) - same)
    ct = cast("preduced", ct, same - axes_of(have, Reduced))
    return cast("invary_unreduced_cast", ct, sums - axes_of(aval_of(ct).vma, Unreduced))


def _told(avals: Sequence[ShapedArray]) -> str:
    return ", ".join(map(str, avals))


def _error(what: str, fix: str) -> ShardingTypeError:
    return ShardingTypeError(explain(what, where=str(here()), fix=fix))


__all__ = ["any_of", "brought", "kept", "of_results", "reduced", "spread", "unreduced"]
