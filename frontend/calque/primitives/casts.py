"""Inside shard_map, values that are summands over axes (Unreduced) or whose cotangents are
(Reduced; core/avals): what makes a value such, what sums it, what gathers one.

Where only the type changes, a device's value stays (CASTS): lowering drops these.  Each of the rest
is a collective with another type.  Pairs are each other's transposes.  Start reading at `_cast`,
then `brought`.
"""
from __future__ import annotations

from typing import Any

from calque.core.avals import Reduced, Unreduced, aval_of, shape_of
from calque.core.errors import explain
from calque.core.primitive import Primitive
from calque.core.trace import checked_axes
from calque.core.types import Function, Params
from calque.primitives import collectives as co
from calque.primitives import shape as sh
from calque.transforms.vmap import to_front

Axes = tuple[Any, ...]


def _marked(kind: Any, axes: Axes) -> set[Any]:
    return set(axes) if kind is None else {kind(n) for n in axes}


def _cast(name: str, before: Any, after: Any, back: Function) -> Primitive:
    """A value as another kind along axes; a kind is Unreduced, Reduced, None (it varies), or ()
    (it is the same)."""
    def collective(axis: Any, size: int, x: Any, dim: int | None, *, axes: Axes) -> Any:
        return co._over_rest(p, x, axes, axis), dim

    p = co._primitive(name, co._sum_abstract, collective,
                      lambda ct, x, *, axes: [back(ct, axes)])
    p.varying = _changed(before, after)
    return p


def _changed(before: Any, after: Any) -> Function:
    def varying(vma: frozenset[Any], params: Params) -> frozenset[Any]:
        axes = params["axes"]
        gone = set() if before == () else _marked(before, axes)
        return (vma - gone) | (set() if after == () else _marked(after, axes))
    return varying


# the same everywhere, from here on reduced
preduced_p: Primitive = _cast("preduced", (), Reduced,
                              lambda ct, axes: unreduced_psum_p.bind(ct, axes=axes))
# reduced, from here on only the same everywhere
reduced_invary_cast_p: Primitive = _cast(
    "reduced_invary_cast", Reduced, (),
    lambda ct, axes: invary_unreduced_cast_p.bind(ct, axes=axes))
# the same everywhere, as a sum: all devices but the first have zeros
invary_unreduced_cast_p: Primitive = _cast(
    "invary_unreduced_cast", (), Unreduced,
    lambda ct, axes: reduced_invary_cast_p.bind(ct, axes=axes))
reduced_vary_cast_p: Primitive = _cast(
    "reduced_vary_cast", Reduced, None,
    lambda ct, axes: vary_unreduced_cast_p.bind(ct, axes=axes))
vary_unreduced_cast_p: Primitive = _cast(
    "vary_unreduced_cast", None, Unreduced,
    lambda ct, axes: reduced_vary_cast_p.bind(ct, axes=axes))


def _first_only(name: Any, size: int, x: Any, dim: int | None, *, axes: Axes) -> Any:
    x = to_front(x, dim, size)  # (equal parts, where it has some)
    shape = shape_of(x)[1:]
    one = sh.slice_(x, (0,) * (len(shape) + 1), (1, *shape))
    rest = co.zeros_of(x, (size - 1, *shape))
    return co._over_rest(invary_unreduced_cast_p, sh.concatenate([one, rest], 0), axes, name), 0


invary_unreduced_cast_p.collective = _first_only
CASTS = frozenset((co.pvary_p, preduced_p, reduced_invary_cast_p, reduced_vary_cast_p,
                   vary_unreduced_cast_p))


def _like(name: str, other: Primitive, before: Any, after: Any, back: Function) -> Primitive:
    """A collective whose operand and result are of other kinds."""
    assert other.abstract is not None and other.collective is not None
    p = co._primitive(name, other.abstract, other.collective,
                      lambda ct, x, **params: [back(ct, params)])
    p.varying = _changed(before, after)
    return p


unreduced_psum_p: Primitive = _like(
    "unreduced_psum", co.psum_p, Unreduced, (), lambda ct, params: preduced_p.bind(ct, **params))
unreduced_reduce_scatter_p: Primitive = _like(
    "unreduced_reduce_scatter", co.psum_scatter_p, Unreduced, None,
    lambda ct, params: all_gather_reduced_p.bind(ct, **params))
all_gather_reduced_p: Primitive = _like(
    "all_gather_reduced", co.all_gather_p, None, Reduced,
    lambda ct, params: unreduced_reduce_scatter_p.bind(ct, **params))
# as lowering sees them, where types are gone
COLLECTIVES = {unreduced_psum_p: co.psum_p, unreduced_reduce_scatter_p: co.psum_scatter_p,
               all_gather_reduced_p: co.all_gather_p}


def kind_of(x: Any, axis: Any) -> str:
    """What a value is along an axis."""
    kinds = aval_of(x).mat
    varying, summed, same = kinds.varying, kinds.unreduced, kinds.reduced
    return ("varying" if axis in varying else "unreduced" if axis in summed else
            "reduced" if axis in same else "invarying")


def of_one_kind(what: str, x: Any, names: Axes) -> str:
    """The same of the checked axes among names; ValueError where they are of several, or where the
    value's cotangents are summands."""
    kinds = {kind_of(x, n) for n in names if n in checked_axes.get()}
    if len(kinds) > 1 and kinds & {"unreduced", "reduced"}:
        raise ValueError(explain(
            f"{what} can only accept axis_name which corresponds to one of varying, unreduced, "
            f"reduced or invarying state of the input. Got input type: {aval_of(x)}, axes: {names} "
            f"and input state: {kinds}", fix="call it for one axis after the other."))
    if "reduced" in kinds:
        raise ValueError(explain(
            f"pvary cannot accept args which are reduced. Got {aval_of(x).short()} and axes="
            f"{set(names)} for {what}", fix="lax.pcast(x, axes, to='varying') first."))
    return kinds.pop() if kinds else "varying"


def vary_unreduced(x: Any, axes: Axes) -> Any:
    """A value that varies over axes as a summand over them; ValueError where it does not."""
    aval = aval_of(x)
    varying, same = aval.mat.varying, aval.mat.reduced
    if same & set(axes):
        raise ValueError(explain(
            f"vary_unreduced_cast cannot accept args which are reduced. Got {aval.short()} and "
            f"axes={set(axes)}", fix="lax.pcast(x, axes, to='varying') first."))
    if not varying:
        raise ValueError(explain(
            f"vary_unreduced_cast only accepts inputs that are varying. Got {aval.short()}",
            fix="what is the same on all devices is no sum over them."))
    if set(axes) - varying:
        raise ValueError(explain(
            "vary_unreduced_cast is a Varying->Unreduced collective. This means that the axis "
            "names mentioned in `axes` passed to `vary_unreduced_cast` must be present in "
            f"`jax.typeof(x).mat.varying`. Got axes={axes} and jax.typeof(x).mat.varying={varying}",
            fix="leave the others out."))
    return vary_unreduced_cast_p.bind(x, axes=axes)


__all__ = ["CASTS", "COLLECTIVES", "kind_of", "of_one_kind", "vary_unreduced"]
