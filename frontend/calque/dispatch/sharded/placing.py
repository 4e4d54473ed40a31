"""out_sharding= and device=: where the result of one operation is.

Over Explicit axes `out_sharding=` says what the type of a result could not: the operation runs
unchecked, and its result is resharded.  `device=` puts a new array somewhere.  Start reading at
`resharded`.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

from calque.core.avals import aval_of, is_arraylike, is_unplaced, shape_of
from calque.core.config import config
from calque.core.errors import explain
from calque.core.mesh import (
    AbstractMesh,
    AxisType,
    Mesh,
    get_abstract_mesh,
    get_mesh,
    placing_mesh,
    spec_mesh,
)
from calque.core.sharding import NamedSharding, PartitionSpec, ShardingTypeError
from calque.core.trace import Tracer, at_bottom
from calque.core.types import Function
from calque.dispatch.array import Array, current_device
from calque.dispatch.eager import lazy_eval
from calque.dispatch.sharded import labels
from calque.dispatch.sharded.shards import check_devices, check_divides, device_put, labelled, place
from calque.dispatch.sharded.summed import everywhere, summands
from calque.dispatch.tracing import ShapeDtypeStruct
from calque.primitives.placement import constrain
from calque.transforms.explicit import is_explicit, resolved
from calque.trees import util as tree_util

F = TypeVar("F", bound=Callable[..., Any])


def named(name: str, given: Any) -> NamedSharding:
    """A NamedSharding of what out_sharding= says; a PartitionSpec is over the context's mesh."""
    if isinstance(given, PartitionSpec):
        mesh: Any = spec_mesh()
        if mesh.empty:
            raise ValueError(explain(
                "Using PartitionSpec when you are not under a mesh context is not allowed. Please "
                "pass a NamedSharding instance or enter into a mesh context via `jax.set_mesh`. "
                f"Got {given}", fix="pass NamedSharding(mesh, spec)."))
        return NamedSharding(mesh, given)
    if not isinstance(given, NamedSharding):
        raise TypeError(explain(
            f"`out_sharding` argument of {name} only supports instances of `NamedSharding` or "
            f"`PartitionSpec`. Got {given} of type: {type(given)}",
            fix="pass NamedSharding(mesh, spec) over Explicit axes."))
    return concrete(given)


def concrete(given: NamedSharding) -> NamedSharding:
    """A sharding over the context's devices, where it is over a mesh without any that is alike."""
    mesh = get_mesh()
    if isinstance(given.mesh, Mesh) or mesh.size != math.prod(given.mesh.axis_sizes) or mesh.empty:
        return given
    axes = given.mesh
    return NamedSharding(mesh if axes == mesh.abstract_mesh else Mesh(
        mesh.devices.reshape(axes.axis_sizes), axes.axis_names, axes.axis_types), given.spec)


def explicit_sharding(name: str, given: Any) -> NamedSharding | None:
    """What out_sharding= says, over Explicit axes; None where these split nothing."""
    if is_unplaced(given):
        return None
    if isinstance(given, NamedSharding) and given._kind not in (None, "device"):
        raise ValueError(explain(
            f"out_sharding of {name}: sharding with memory_kind is not allowed, got {given}.",
            fix="leave memory_kind out."))
    if isinstance(given, NamedSharding) and not spec_mesh().empty and (
            spec_mesh().abstract_mesh != given.mesh.abstract_mesh) and (
                not get_abstract_mesh().manual_axes):
        raise ValueError(explain(
            f"Context mesh {spec_mesh()!s} should match the mesh of sharding {given} passed to "
            f"{name}.", fix="pass a PartitionSpec."))
    given = named(name, given)
    mesh = given.mesh
    types = dict(zip(mesh.axis_names, mesh.axis_types))
    types.update((n, AxisType.Manual) for n in get_abstract_mesh().manual_axes if n in types)
    for n in given.spec.names():
        if types[n] is not AxisType.Explicit:
            raise ValueError(explain(
                f"PartitionSpec passed to {name} cannot contain axis names that are of type Auto "
                f"or Manual. Got PartitionSpec: {given.spec} with axis name: {n} of type: "
                f"AxisType.{types[n].name}.",
                fix="use calque.lax.with_sharding_constraint over Auto axes; inside shard_map its "
                    "axes split nothing more."))
    return given if given.explicit else None


def resharded(name: str, out_sharding: Any, function: Function, *args: Any,
              **options: Any) -> Any:
    """function(*args, **options), its results of the type that out_sharding says."""
    sharding = explicit_sharding(name, out_sharding)
    if sharding is None:
        return function(*args, **options)
    with lazy_eval(name):
        made = None
        if name == "reshape":
            _check_reshaped(sharding, args[0])
        elif name == "jnp.bincount" and sharding.spec.names():
            raise ShardingTypeError(explain(
                "out_sharding passed to `jnp.bincount` can only be fully replicated or fully "
                f"unreduced along all mesh axes, got {sharding.spec}",
                fix="pass P(), or P(unreduced=...)."))
        elif sharding.spec.unreduced and name not in _SPREADING:
            made = summands(name, sharding, function, args, options)
        if made is not None:
            return _whole(name, made, sharding)
        return _typed(name, sharding, lambda: function(*args, **options))


# each device makes all of these as its summand
_SPREADING = frozenset(("zeros", "ones", "empty", "full", "arange", "broadcast_in_dim",
                        "broadcasted_iota", "jnp.broadcast_to"))


def _check_reshaped(sharding: NamedSharding, x: Any) -> None:
    """ValueError where reshape is to change what is unreduced or reduced."""
    own = getattr(aval_of(x).placement, "spec", PartitionSpec()) if is_arraylike(x) else (
        PartitionSpec())
    for kind in ("unreduced", "reduced"):
        have, want = getattr(own, kind), getattr(sharding.spec, kind)
        if want and not own.has_sums:
            raise ValueError(explain(
                f"out_sharding passed to reshape cannot contain {kind} axes: {sharding.spec}, for "
                "an operand that is not.", fix="reshape, then calque.sharding.reshard."))
        if have != want:
            raise ValueError(explain(
                f"out_sharding of reshape must be {kind} over the same mesh axes as operand. Got "
                f" {sharding.spec} for {own}", fix="reshard the operand first."))


def resharding(f: F) -> F:
    """Decorator: f takes out_sharding."""
    @functools.wraps(f)
    def wrapper(*args: Any, out_sharding: Any = None, **options: Any) -> Any:
        if out_sharding is None:
            return _in_context(f(*args, **options))
        return resharded(f.__name__, out_sharding, f, *args, **options)

    return wrapper  # type: ignore[return-value]


def _typed(name: str, sharding: NamedSharding, make: Callable[[], Any]) -> Any:
    """make() unchecked, and resharded."""
    if isinstance(sharding.mesh, Mesh):
        check_devices(sharding)
    token = resolved.set(True)
    try:
        made = make()
    finally:
        resolved.reset(token)
    if sharding.spec.unreduced and name in _SPREADING:
        return tree_util.tree_map(lambda x: everywhere(x, sharding), made)
    return tree_util.tree_map(lambda x: _whole(name, x, sharding), made)


def _whole(name: str, x: Any, sharding: NamedSharding) -> Any:
    """A result with its type, which has an entry for each dimension."""
    shape, spec = shape_of(x), list(sharding.spec.partitions)
    while len(spec) > len(shape) and spec[-1] is None:
        spec.pop()
    wanted = sharding.update(spec=sharding.spec.update(partitions=spec))
    check_divides(name, shape, wanted)
    return constrain(x, wanted.update(spec=wanted.spec.of_rank(len(shape))))


def made_on(name: str, device: Any, out_sharding: Any, make: Callable[[], Any],
            shape: Any = None, of: Any = None) -> Any:
    """make(), put where device= or out_sharding= says; its shape is checked before, if known, and
    whether the value that it is made of is on those devices."""
    if is_unplaced(device):
        device = None
    if device is None and out_sharding is None:
        return _in_context(make())
    if device is not None and out_sharding is not None:
        raise ValueError(explain(
            f"{name}: Only one of `device` or `out_sharding` can be set. Got device={device} "
            f"and out_sharding={out_sharding}", fix="leave one of them out."))
    if out_sharding is not None:
        sharding = explicit_sharding(name, out_sharding)
        return make() if sharding is None else _typed(name, sharding, make)
    where = place(device)
    given = where
    if type(of) is Array:
        labels.check_beside(name, of.aval, where)
    if shape is not None:
        where = _of_rank(where, len(shape))
        check_divides(name, shape, where)
    first = where._assignment[0]
    if first.platform == "cpu" and current_device().is_host:  # shared memory: a label
        made = device_put(make(), where)
        return made if where is given else labelled(made, given)
    with config.context("jax_default_device", first):
        made = make()
    if getattr(where, "unreduced", None):
        return everywhere(made, where)
    return device_put(made, where)


def _of_rank(where: Any, ndim: int) -> Any:
    """A sharding without entries that say nothing, beyond the rank."""
    if not isinstance(where, NamedSharding) or len(where.spec) <= ndim or any(
            p is not None for p in where.spec.partitions[ndim:]):
        return where
    return where.update(spec=where.spec.update(partitions=where.spec.partitions[:ndim]))


def _in_context(made: Any) -> Any:
    """A new array that nobody placed: over the context's mesh, if there is one."""
    if placing_mesh() is None or type(made) is not Array or made.aval.placement is not None:
        return made
    (aval,) = labels.in_context([made.aval], labels.context_mesh())
    return made if aval is made.aval else Array(made._buffer, aval)


def beside(x: Any, made: Any) -> Any:
    """A new array on the device, or spread over the mesh, where x was put, or is said to be; one of
    another shape is there where that does not split it."""
    if isinstance(x, Tracer) and is_explicit(x.aval) and made.shape == shape_of(x):
        return everywhere(made, x.aval.placement) if x.aval.placement.spec.unreduced else (
            constrain(made, x.aval.placement))
    where = x.aval.placement if isinstance(x, Array) else (  # (of several processes, too)
        x.sharding if isinstance(x, ShapeDtypeStruct) else None)
    if isinstance(x, ShapeDtypeStruct) and not at_bottom() and where is not None and (
            getattr(where, "explicit", False) and made.shape == x.shape):
        return constrain(made, where)
    if where is None or type(made) is not Array:
        return made
    have = made.aval.placement
    unplaced = Array(made._buffer, made.aval.plain)
    if have is not None and have != _in_context(unplaced).aval.placement:
        return made  # somebody placed it
    if isinstance(where, NamedSharding) and isinstance(where.mesh, AbstractMesh):
        if get_mesh().abstract_mesh != where.mesh:
            return made
        where = NamedSharding(get_mesh(), where.spec)
    if made.shape != shape_of(x):
        if not where.is_fully_replicated:
            return made
        where = where.update(spec=PartitionSpec()) if isinstance(where, NamedSharding) else where
    if getattr(where, "unreduced", None):
        return everywhere(made, where)
    return device_put(made, where)


__all__ = ["beside", "explicit_sharding", "made_on", "named", "resharded", "resharding"]
