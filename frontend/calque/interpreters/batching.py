"""Batching rules of client primitives.

A rule is rule(operands, axes, **params) -> (out, axis): an axis is the position of the batch in an
operand, or None.  Rules of fancy_primitive_batchers are given the axis first, those of
axis_primitive_batchers its size, its name and None.  Start reading at `primitive_batchers`.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from calque.core.avals import shape_of
from calque.core.primitive import Primitive
from calque.interpreters.tables import Table
from calque.transforms.vmap import (
    all_to_front,
    broadcast_axis,
    move_axis,
    named,
    to_front,
    vmappables,
)

Rule = Callable[..., Any]
not_mapped = None


@dataclasses.dataclass(frozen=True)
class AxisData:
    """What a rule may know of the axis: its name (or None) and its size."""

    name: Any
    size: Any
    spmd_name: Any = None
    explicit_mesh_axis: Any = None


def _without_size(rule: Rule) -> Rule:
    def batch(size: int, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        return _listed(rule(args, dims, **params))
    return batch


def _with_axis(rule: Rule) -> Rule:
    def batch(size: int, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        return _listed(rule(AxisData(named.get(), size), args, dims, **params))
    return batch


def _with_size_and_name(rule: Rule) -> Rule:
    def batch(size: int, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        return _listed(rule(size, named.get(), None, args, dims, **params))
    return batch


def _listed(found: Any) -> Any:
    """(results, axes): one axis may stand for all results."""
    out, axes = found
    if isinstance(out, (list, tuple)) and not isinstance(axes, (list, tuple)):
        axes = [axes] * len(out)
    return out, axes


def _sized(args: Sequence[Any], dims: Sequence[Any]) -> int:
    return next(shape_of(x)[d] for x, d in zip(args, dims) if d is not None)


primitive_batchers = Table(
    "batching.primitive_batchers", "batch", _without_size,
    lambda ours: lambda args, dims, **params: ours(_sized(args, dims), args, dims, **params))
fancy_primitive_batchers = Table(
    "batching.fancy_primitive_batchers", "batch", _with_axis,
    lambda ours: lambda axis, args, dims, **params: ours(axis.size, args, dims, **params))
axis_primitive_batchers = Table(
    "batching.axis_primitive_batchers", "batch", _with_size_and_name,
    lambda ours: lambda size, name, kind, args, dims, **params: ours(size, args, dims, **params))


def bdim_at_front(x: Any, bdim: int | None, size: int, mesh_axis: Any = None) -> Any:
    """An operand with its batch along the first axis; what is not mapped is repeated.

    Args:
      x: array; bdim: the batch's axis, None: not mapped; size: of the batch.
      mesh_axis: accepted.

    Returns:
      An array.

    Raises:
      Nothing.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.interpreters import batching
      >>> batching.bdim_at_front(jnp.ones(2), None, 3).shape
      (3, 2)
    """
    return to_front(x, bdim, size)


def broadcast(x: Any, sz: int, axis: int, mesh_axis: Any = None) -> Any:
    """An array repeated along a new axis.

    Args:
      x: array; sz: how often; axis: where.
      mesh_axis: accepted.

    Returns:
      An array.

    Raises:
      Nothing.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.interpreters import batching
      >>> batching.broadcast(jnp.ones(2), 3, 1).shape
      (2, 3)
    """
    return broadcast_axis(x, sz, axis)


def moveaxis(x: Any, src: int | None, dst: int) -> Any:
    """An array with one axis moved.

    Args:
      x: array; src: the axis, None: nothing is moved; dst: where to.

    Returns:
      An array.

    Raises:
      Nothing.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.interpreters import batching
      >>> batching.moveaxis(jnp.ones((2, 3)), 0, 1).shape
      (3, 2)
    """
    return x if src is None else move_axis(x, src, dst)


def defvectorized(prim: Primitive) -> None:
    """A primitive of one operand does to a batch what it does to its elements.

    Args:
      prim: of one operand and one result.

    Returns:
      Nothing.

    Raises:
      Nothing.

    Example:
      >>> from calque.extend.core import Primitive
      >>> from calque.interpreters import batching
      >>> batching.defvectorized(Primitive("double"))
    """
    def rule(args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        out = prim.bind(*args, **params)
        return out, [dims[0]] * len(out) if prim.multiple_results else dims[0]
    primitive_batchers[prim] = rule


def defbroadcasting(prim: Primitive) -> None:
    """A primitive works element by element on operands of one shape.

    Args:
      prim: of one result.

    Returns:
      Nothing.

    Raises:
      Nothing.

    Example:
      >>> from calque.extend.core import Primitive
      >>> from calque.interpreters import batching
      >>> batching.defbroadcasting(Primitive("multiply_add"))
    """
    def rule(args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        size = _sized(args, dims)
        moved = all_to_front(args, dims, size)
        out = prim.bind(*moved, **params)
        return out, [0] * len(out) if prim.multiple_results else 0
    primitive_batchers[prim] = rule


def register_vmappable(data_type: type, spec_type: type, axis_size_type: type, to_elt: Any,
                       from_elt: Any, make_iota: Any) -> None:
    """Note a type whose objects vmap takes apart, and puts together, by functions of a library's.

    Args:
      data_type: the type; its objects are leaves for vmap.
      spec_type: of its entries of in_axes and out_axes.
      axis_size_type: accepted for compatibility.
      to_elt: (take, index, x, spec) -> the element of x that the mapped function gets; take(array,
        axis) maps an array over an axis (None: as it is), index() numbers the elements.
      from_elt: (give, size, element, spec) -> what vmap gives back; give(size, array, axis) is the
        array with the mapped axis there.
      make_iota: accepted for compatibility.

    Returns:
      Nothing.

    Raises:
      Nothing.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque.interpreters import batching
      >>> class Named:
      ...     def __init__(self, name, data): self.name, self.data = name, data
      >>> batching.register_vmappable(
      ...     Named, int, int, lambda take, _, x, axis: Named(x.name, take(x.data, axis)),
      ...     lambda give, size, x, axis: Named(x.name, give(size, x.data, axis)), None)
      >>> calque.vmap(lambda x: Named(x.name, x.data.sum()), axis_size=2)(
      ...     Named("rows", jnp.ones((2, 3)))).data
      Array([3., 3.], dtype=float32)
      >>> batching.unregister_vmappable(Named)
    """
    vmappables[data_type] = (spec_type, to_elt, from_elt)


def unregister_vmappable(data_type: type) -> None:
    """Forget a type that register_vmappable noted.

    Args:
      data_type: the type.

    Returns:
      Nothing.

    Raises:
      KeyError: it is not noted.

    Example:
      >>> from calque.interpreters import batching
      >>> kind = type("Ragged", (), {})
      >>> batching.register_vmappable(kind, int, int, None, None, None)
      >>> batching.unregister_vmappable(kind)
    """
    del vmappables[data_type]


__all__ = ["axis_primitive_batchers", "bdim_at_front", "broadcast", "defbroadcasting",
           "defvectorized", "fancy_primitive_batchers", "moveaxis", "not_mapped",
           "primitive_batchers", "register_vmappable", "unregister_vmappable"]


def __dir__() -> list[str]:
    return __all__
