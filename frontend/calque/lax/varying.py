"""More of what happens along named axes: pbroadcast, ragged_all_to_all, pcast and pvary.  The rest
is in parallel.py."""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import aval_of
from calque.core.errors import explain
from calque.core.trace import axis_env, checked_axes
from calque.lax import grouped
from calque.lax.operands import as_operand
from calque.lax.parallel import _each, _names
from calque.primitives import casts
from calque.primitives import collectives as co


def pbroadcast(x: Any, axis_name: Any, source: int) -> Any:
    """The array that one position of a named axis has, for each array of a tree.

    Args:
      x: tree of arrays.
      axis_name: name of an axis, or several: the last moves fastest.
      source: the position.

    Returns:
      A tree like x, equal along the axis.

    Raises:
      NameError: the name is not bound.
      ValueError: there is no such position.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.vmap(lambda x: calque.lax.pbroadcast(x, "i", 2), axis_name="i")(jnp.arange(3.0))
      Array([2., 2., 2.], dtype=float32)
    """
    names, size = _names("pbroadcast", axis_name)
    if not -size <= source < size:
        raise ValueError(explain(f"pbroadcast: source {source} is outside the axis of size {size}.",
                                 fix=f"use 0 to {size - 1}."))
    at = np.int32(source % size)
    return _each("pbroadcast", x, lambda v: grouped.pick(grouped.gathered(v, names), at))


def ragged_all_to_all(operand: Any, output: Any, input_offsets: Any, send_sizes: Any,
                      output_offsets: Any, recv_sizes: Any, *, axis_name: Any,
                      axis_index_groups: Any = None) -> Any:
    """Each position sends a run of rows to each other; the runs may differ in length.

    Args:
      operand: array whose rows are sent.
      output: array that the rows are written into.
      input_offsets: integers, one for each position of the axis: where its run begins.
      send_sizes: integers like them: how many rows it has.
      output_offsets: integers like them: where it is put at the receiver.
      recv_sizes: integers like them: how many rows come from each position.
      axis_name: name of an axis, or several: the last moves fastest.
      axis_index_groups: None.

    Returns:
      An array like output.

    Raises:
      NameError: the name is not bound.
      ValueError: offsets or sizes are not integers of shape (size of the axis,).
      NotImplementedError: axis_index_groups is given.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> def f(x, n):
      ...     return calque.lax.ragged_all_to_all(x, jnp.zeros(3), 0 * n, 2 * n, n, 2 * n,
      ...                                         axis_name="i")
      >>> calque.vmap(f, axis_name="i")(jnp.array([[5.0, 6.0]]), jnp.ones((1, 1), int))
      Array([[0., 5., 6.]], dtype=float32)
    """
    if axis_index_groups is not None:
        raise NotImplementedError(explain("ragged_all_to_all: axis_index_groups.",
                                          fix="split the axis in two."))
    names, size = _names("ragged_all_to_all", axis_name)
    rows, out = as_operand("ragged_all_to_all", operand), as_operand("ragged_all_to_all", output)
    numbers = [as_operand("ragged_all_to_all", v)
               for v in (input_offsets, send_sizes, output_offsets, recv_sizes)]
    for what, v in zip(("input_offsets", "send_sizes", "output_offsets", "recv_sizes"), numbers):
        a = aval_of(v)
        if a.shape != (size,) or not dtypes.is_integer(a.dtype):
            raise ValueError(explain(
                f"ragged_all_to_all {what} must be integers of shape ({size},), got {a}.",
                fix="give one number for each position of the axis."))
    starts, sizes, targets = numbers[:3]
    return grouped.ragged(rows, out, starts, sizes, targets, names, size)


def pcast(x: Any, axis_name: Any, *, to: str) -> Any:
    """Inside shard_map: a value as another kind along axes; no device's value changes.

    What is the same along axes becomes varying (the transpose is psum: cotangents are summed
    there) or reduced (cotangents stay summands); what is reduced becomes varying; what varies
    becomes unreduced: a summand of a sum over the axes.

    Args:
      x: tree of arrays.
      axis_name: name of an axis, or several.
      to: "varying", "reduced" or "unreduced".

    Returns:
      A tree like x.

    Raises:
      ValueError: a value is of another kind along such an axis; `to` is something else; an axis
        is not mapped by shard_map.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque.sharding import Mesh, PartitionSpec as P
      >>> f = calque.shard_map(lambda x: calque.lax.pcast(x, "i", to="varying"),
      ...                      mesh=Mesh(calque.devices()[:1], ("i",)), in_specs=P(),
      ...                      out_specs=P("i"))
      >>> f(jnp.ones(2))
      Array([1., 1.], dtype=float32)
    """
    if to not in ("varying", "reduced", "unreduced"):
        raise ValueError(explain(
            f"Got unexpected `to` value. Allowed `to` values are: "
            f"{{'unreduced', 'reduced', 'varying'}}. Got to={to!r}", fix="use one of them."))
    if not isinstance(axis_name, (str, tuple)):
        raise TypeError(explain(f"axis_name={axis_name} must be a tuple or a str. Got {axis_name}",
                                fix="name the axis, or a tuple of axes."))
    names = _checked_names("pcast", axis_name)

    def one(v: Any) -> Any:
        if not names:
            return v
        kinds = {casts.kind_of(v, n) for n in names}
        if len(kinds) > 1:
            raise ValueError(explain(
                "jax.lax.pcast can only accept axis_name which corresponds to one of varying, "
                "unreduced, reduced or invarying state of the input. Got input type: "
                f"{aval_of(v)}, axes: {names} and input state: {kinds}",
                fix="cast over one axis after the other."))
        (kind,) = kinds
        if (kind, to) not in _CASTS:
            raise ValueError(explain(
                f"Unsupported pcast from={kind}, to={to!r}: {aval_of(v)} along {names}.",
                fix="lax.psum sums what is unreduced; leave out axes of this kind already."))
        return _CASTS[kind, to].bind(v, axes=names)

    return _each("pcast", x, one)


_CASTS = {("invarying", "varying"): co.pvary_p, ("invarying", "reduced"): casts.preduced_p,
          ("reduced", "varying"): casts.reduced_vary_cast_p,
          ("varying", "unreduced"): casts.vary_unreduced_cast_p}


def pvary(x: Any, axis_name: Any) -> Any:
    """Inside shard_map: a value as one that varies over axes (an older name of pcast).

    Args:
      x: tree of arrays.
      axis_name: name of an axis, or several.

    Returns:
      A tree like x.

    Raises:
      ValueError: no axis is mapped by shard_map.
      NameError: an axis is not mapped by the shard_map around.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque.sharding import Mesh, PartitionSpec as P
      >>> f = calque.shard_map(lambda x: calque.lax.pvary(x, "i"),
      ...                      mesh=Mesh(calque.devices()[:1], ("i",)), in_specs=P(),
      ...                      out_specs=P("i"))
      >>> f(jnp.ones(2))
      Array([1., 1.], dtype=float32)
    """
    names = _checked_names("pvary", axis_name)

    def one(v: Any) -> Any:
        new = tuple(n for n in names if n not in aval_of(v).vma)
        return co.pvary_p.bind(v, axes=new) if new else v

    return _each("pvary", x, one)


def _checked_names(what: str, axis_name: Any) -> tuple[Any, ...]:
    """Those of the names whose values a shard_map checks; an error for unmapped ones."""
    if isinstance(axis_name, (set, frozenset, dict)):
        raise TypeError(explain(f"axis_name={axis_name} must be a tuple or a str. Got {axis_name}",
                                fix="name the axis, or a tuple of axes."))
    names = tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)
    bound = {n for n, _ in axis_env.get()}
    if not bound and names:
        raise ValueError(explain(f"{what}: pvary should be called under jax.shard_map, and axis "
                                 f"{names[0]!r} is not mapped.", fix="call it inside shard_map."))
    for n in names:
        co.size_of(n, "pvary")  # NameError where it is not mapped
    return tuple(n for n in names if n in checked_axes.get())


__all__ = ["pbroadcast", "pcast", "pvary", "ragged_all_to_all"]
