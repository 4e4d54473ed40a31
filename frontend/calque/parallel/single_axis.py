"""smap: shard_map over one axis of the context's mesh, which is mapped as by vmap.

Start reading at `smap`.
"""
from __future__ import annotations

import functools
from typing import Any

import numpy as np

from calque.core.avals import ndim_of
from calque.core.errors import explain
from calque.core.mesh import get_abstract_mesh
from calque.core.naming import name_of
from calque.core.sharding import PartitionSpec as P
from calque.core.types import Function
from calque.dispatch.tracing import check_callable, wrapped
from calque.parallel.mapping import Infer, shard_map
from calque.trees import util as tree_util

__all__ = ["smap"]


def smap(f: Function | None = None, /, *, in_axes: Any = Infer, out_axes: Any,
         axis_name: Any) -> Function:
    """A function that runs f on each device's part along one axis of the mesh.

    Args:
      f: function of parts of arrays; None: a decorator is returned.
      in_axes: for each positional argument (or a tree prefix of it; one for all) the axis that is
        split, or None; left out: as the arguments are spread, over an Explicit axis.
      out_axes: the same of f's results: where the parts are joined.
      axis_name: the axis of the context's mesh (`set_mesh`).

    Returns:
      A function of whole arrays.

    Raises:
      TypeError: an axis is neither an int nor None.
      ValueError: an argument or a result has no such axis; and as `shard_map`.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> auto = (calque.sharding.AxisType.Auto,)
      >>> with calque.set_mesh(calque.make_mesh((1,), ("i",), auto)):
      ...     calque.smap(lambda x: x + 1, in_axes=0, out_axes=0, axis_name="i")(jnp.arange(2))
      Array([1, 2], dtype=int32)
    """
    if f is None:
        return functools.partial(smap, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name)
    check_callable(f)
    in_axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes
    for what, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        if axes is not Infer:
            _check(what, axes)

    def run(*args: Any) -> Any:
        ranks: list[Any] = []  # f's results as trees of their numbers of axes

        def part(*xs: Any) -> Any:
            out = f(*xs)
            ranks[:] = [tree_util.tree_map(ndim_of, out)]
            return out

        def specs(what: str, axes: Any, values: Any) -> Any:
            leaves, tree = tree_util.flatten(values)
            found = tree_util.prefix_leaves(axes, values, _is_axis, lambda error: explain(
                f"smap {what} {axes} is no tree prefix of {tree}: {error}",
                fix="give one axis for the whole, or one for each part."))
            return tree.unflatten([_spec(f, what, d, n, axis_name)
                                   for d, n in zip(found, leaves)])

        mesh = get_abstract_mesh()
        if in_axes is Infer and axis_name in mesh.auto_axes:
            raise TypeError(explain(
                f"in_axes was not specified when axis_name={axis_name} was of type Auto, got mesh "
                f"{mesh!s}.", fix="pass in_axes, or make the axis Explicit."))
        taken = in_axes if in_axes is Infer else specs(
            "in_axes", in_axes, tree_util.tree_map(ndim_of, args))
        return shard_map(part, in_specs=taken, out_specs=lambda: specs(
            "out_axes", out_axes, ranks[0]), axis_names={axis_name})(*args)

    return wrapped(f, run, "smap")


def _is_axis(x: Any) -> bool:
    return x is None or isinstance(x, (int, np.integer))


def _check(what: str, axes: Any) -> None:
    for d in tree_util.tree_leaves(axes, is_leaf=lambda x: x is None):
        if not _is_axis(d):
            raise TypeError(explain(
                f"smap {what} must be an int, None or a tree of them, got {d!r}.",
                fix="name the axis that is split, or None for a copy."))


def _spec(f: Any, what: str, axis: Any, ndim: int, name: Any) -> P:
    if axis is None:
        return P()
    if not -ndim <= axis < ndim:
        raise ValueError(explain(
            f"smap {what} of {name_of(f)}: axis {axis} of an array with {ndim} axes.",
            fix=f"use an axis from {-ndim} to {ndim - 1}, or None."))
    return P(*[None] * (int(axis) % ndim), name)
