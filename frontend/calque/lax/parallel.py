"""Collectives: sums and exchanges over an axis that vmap has named.

Start reading at `psum`; the primitives lie in primitives/collectives.py.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import aval_of, dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.core.primitive import Primitive
from calque.core.trace import checked_axes
from calque.lax import grouped
from calque.lax.elementwise import convert_element_type
from calque.lax.index import dynamic_update_slice
from calque.lax.operands import as_operand
from calque.lax.shape import broadcast_in_dim, expand_dims
from calque.primitives import casts
from calque.primitives import collectives as co
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.trees import util as tree_util

MOST_RUNS = 32  # pieces that ppermute joins; beyond, positions pick what is theirs


def _names(what: str, axis_name: Any) -> tuple[tuple[Any, ...], int]:
    """(names, the product of their sizes)."""
    names = tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)
    size = 1
    for name in names:
        size *= co.size_of(name, what)
    return names, size


def _groups(what: str, groups: Any, names: tuple[Any, ...], size: int, equal: bool = True) -> Any:
    """Groups of positions, checked; None where the axis is one group."""
    if groups is None:
        return None
    if set(names) & checked_axes.get() and what in ("psum", "pmean", "pmax", "pmin"):
        raise NotImplementedError(explain(
            f"{what}: axis_index_groups inside shard_map with check_vma=True: the result would be "
            "the same within groups only.", fix="say check_vma=False, or split the axis in two."))
    return grouped.checked(what, groups, size, equal)


def _each(what: str, x: Any, f: Any) -> Any:
    return tree_util.tree_map(lambda leaf: f(as_operand(what, leaf)), x)


def psum(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The sum over a named axis, of each array of a tree.

    Args:
      x: tree of arrays; a Python number gives its product with the axis' size, a Python number.
      axis_name: name of an axis, or several.
      axis_index_groups: groups of positions that cover the axis: the result is theirs.

    Returns:
      A tree of arrays that are equal along the axis, or within groups.

    Raises:
      NameError: the name is not bound.
      ValueError: the groups do not cover the axis.
      NotImplementedError: groups are given inside shard_map with check_vma=True.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.vmap(lambda x: x / calque.lax.psum(x, "i"), axis_name="i")(jnp.ones(4))
      Array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """
    names, size = _names("psum", axis_name)
    groups = _groups("psum", axis_index_groups, names, size, equal=False)

    def one(leaf: Any) -> Any:
        if (isinstance(leaf, (int, float, complex)) and not isinstance(leaf, bool)
                and (groups is None or len({*map(len, groups)}) == 1)):
            return leaf * (size if groups is None else len(groups[0]))
        value = as_operand("psum", leaf)
        if dtype_of(value) == np.dtype(bool):
            value = ew.convert(value, dtypes.int32)
        if groups is not None:
            return grouped.reduced("psum", value, names, groups)
        if casts.of_one_kind("jax.lax.psum", value, names) == "unreduced":
            return casts.unreduced_psum_p.bind(value, axes=names)
        return co.psum(value, names)

    return tree_util.tree_map(one, x)


def pmean(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The mean over a named axis, of each array of a tree.

    Args:
      x: tree of arrays.
      axis_name: name of an axis, or several.
      axis_index_groups: groups of positions that cover the axis: the result is theirs.

    Returns:
      A tree of arrays that are equal along the axis, or within groups.

    Raises:
      NameError: the name is not bound.
      ValueError: the groups do not cover the axis.
      NotImplementedError: groups are given inside shard_map with check_vma=True.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.vmap(lambda x: calque.lax.pmean(x, "i"), axis_name="i")(jnp.arange(3.0))
      Array([1., 1., 1.], dtype=float32)
    """
    names, size = _names("pmean", axis_name)
    groups = _groups("pmean", axis_index_groups, names, size)
    if groups is not None:
        size = len(groups[0])
    return tree_util.tree_map(lambda s: s / size,
                              psum(x, axis_name, axis_index_groups=axis_index_groups))


def _extreme(what: str, prim: Primitive, x: Any, axis_name: Any, axis_index_groups: Any) -> Any:
    names, size = _names(what, axis_name)
    groups = _groups(what, axis_index_groups, names, size, equal=False)
    return _each(what, x, lambda v: prim.bind(v, axes=names) if groups is None else
                 grouped.reduced(what, v, names, groups))


def pmax(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The largest element over a named axis, of each array of a tree.

    Args:
      x: tree of arrays.
      axis_name: name of an axis, or several.
      axis_index_groups: groups of positions that cover the axis: the result is theirs.

    Returns:
      A tree of arrays that are equal along the axis, or within groups.

    Raises:
      NameError: the name is not bound.
      ValueError: the groups do not cover the axis.
      NotImplementedError: groups are given inside shard_map with check_vma=True.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.vmap(lambda x: calque.lax.pmax(x, "i"), axis_name="i")(jnp.arange(3.0))
      Array([2., 2., 2.], dtype=float32)
    """
    return _extreme("pmax", co.pmax_p, x, axis_name, axis_index_groups)


def pmin(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The smallest element over a named axis, of each array of a tree.

    Args:
      x: tree of arrays.
      axis_name: name of an axis, or several.
      axis_index_groups: groups of positions that cover the axis: the result is theirs.

    Returns:
      A tree of arrays that are equal along the axis, or within groups.

    Raises:
      NameError: the name is not bound.
      ValueError: the groups do not cover the axis.
      NotImplementedError: groups are given inside shard_map with check_vma=True.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.vmap(lambda x: calque.lax.pmin(x, "i"), axis_name="i")(jnp.arange(3.0))
      Array([0., 0., 0.], dtype=float32)
    """
    return _extreme("pmin", co.pmin_p, x, axis_name, axis_index_groups)


def axis_index(axis_name: Any) -> Any:
    """The position along a named axis.

    Args:
      axis_name: name of an axis; several count as one, the last moving fastest.

    Returns:
      An int32 array of no axes.

    Raises:
      NameError: the name is not bound.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.vmap(lambda x: calque.lax.axis_index("i"), axis_name="i")(jnp.ones(3))
      Array([0, 1, 2], dtype=int32)
    """
    names, _ = _names("axis_index", axis_name)
    return grouped.position(names) if names else np.int32(0)


def axis_size(axis_name: Any) -> int:
    """The size of a named axis.

    Args:
      axis_name: name of an axis, or several: the product of their sizes.

    Returns:
      A Python int.

    Raises:
      NameError: the name is not bound.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.vmap(lambda x: x * calque.lax.axis_size("i"), axis_name="i")(jnp.ones(3))
      Array([3., 3., 3.], dtype=float32)
    """
    return _names("axis_size", axis_name)[1]


def ppermute(x: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Sends each array of a tree along a named axis.

    Args:
      x: tree of arrays.
      axis_name: name of an axis, or several: in the order in which they are bound.
      perm: pairs (from, to), each position at most once on either side.

    Returns:
      A tree of what was received; zeros where nothing was sent.

    Raises:
      NameError: the name is not bound.
      ValueError: a position is out of range, or twice on one side.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> turn = [(0, 1), (1, 2), (2, 0)]
      >>> calque.vmap(lambda x: calque.lax.ppermute(x, "i", turn), axis_name="i")(jnp.arange(3.0))
      Array([2., 0., 1.], dtype=float32)
    """
    names, size = _names("ppermute", axis_name)
    names = grouped.in_order(names)
    pairs = tuple((int(s), int(t)) for s, t in perm)
    for side in zip(*pairs):
        if len(set(side)) != len(side) or not all(0 <= i < size for i in side):
            raise ValueError(explain(
                f"ppermute sources and destinations must be unique and within the axis of size "
                f"{size}, got {list(pairs)}."))
    simple = len(names) == 1 and len(co.runs(pairs, size)) <= MOST_RUNS
    return _each("ppermute", x, lambda v: co.ppermute_p.bind(v, axes=names, perm=pairs) if simple
                 else grouped.permuted(v, names, pairs, size))


def pshuffle(x: Any, axis_name: Any, perm: Sequence[int]) -> Any:
    """Takes each array of a tree from another position of a named axis.

    Args:
      x: tree of arrays.
      axis_name: name of an axis.
      perm: where each position takes from, a permutation.

    Returns:
      A tree like x.

    Raises:
      NameError: the name is not bound.
      ValueError: perm is no permutation.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.vmap(lambda x: calque.lax.pshuffle(x, "i", [2, 0, 1]), axis_name="i")(
      ...     jnp.arange(3.0))
      Array([2., 0., 1.], dtype=float32)
    """
    _, size = _names("pshuffle", axis_name)
    if sorted(perm) != list(range(size)):
        raise ValueError(explain(f"`perm` does not represent a permutation: {list(perm)}"))
    return ppermute(x, axis_name, list(zip(perm, range(size))))


def pswapaxes(x: Any, axis_name: Any, axis: int, *, axis_index_groups: Any = None) -> Any:
    """Exchanges a named axis with one of the arrays' own.

    Args:
      x: tree of arrays whose axis has the named axis' size.
      axis_name: name of an axis.
      axis: of the arrays.
      axis_index_groups: groups of positions that cover the axis, exchanged among themselves.

    Returns:
      A tree like x.

    Raises:
      NameError: the name is not bound.
      ValueError: the sizes differ.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.vmap(lambda x: calque.lax.pswapaxes(x, "i", 0), axis_name="i")(
      ...     jnp.array([[1, 2], [3, 4]]))
      Array([[1, 3],
             [2, 4]], dtype=int32)
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def all_gather(x: Any, axis_name: Any, *, axis_index_groups: Any = None, axis: int = 0,
               tiled: bool = False, to: str = "varying") -> Any:
    """The arrays of all positions of a named axis, together.

    Args:
      x: tree of arrays.
      axis_name: name of an axis, or several: the last moves fastest.
      axis_index_groups: groups of positions that cover the axis: the arrays are theirs.
      axis: where the new axis stands.
      tiled: join along an existing axis instead.
      to: 'varying'; 'invarying': the result counts as equal along the axis; 'reduced': so, and
        its cotangents are summands.

    Returns:
      A tree of arrays that are equal along the axis.

    Raises:
      NameError: the name is not bound.
      ValueError: the groups do not cover the axis, or `to` is none of these.
      NotImplementedError: to='reduced' or 'invarying' with groups.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.vmap(lambda x: calque.lax.all_gather(x, "i"), axis_name="i")(jnp.arange(2.0))
      Array([[0., 1.],
             [0., 1.]], dtype=float32)
    """
    names, size = _names("all_gather", axis_name)
    groups = _groups("all_gather", axis_index_groups, names, size)
    if to in ("reduced", "invarying") and groups is not None:
        raise NotImplementedError(explain(
            f"all_gather: to={to!r} with groups is not supported.",
            fix="gather over whole axes, or use to='varying'."))
    if to not in ("varying", "invarying", "reduced"):
        raise ValueError(explain(f"all_gather: unexpected to={to!r}.",
                                 fix="use to='varying', to='invarying' or to='reduced'."))

    def one(v: Any) -> Any:
        rank = ndim_of(v) + (not tiled)
        if not -rank <= axis < rank:
            raise ValueError(explain(f"all_gather: axis {axis} is out of bounds for {rank} axes."))
        if groups is not None:
            return grouped.joined(grouped.members(v, names, groups), axis % rank, bool(tiled))
        if to == "reduced":
            return _gathered_reduced(v, names, axis % rank, bool(tiled))
        casts.of_one_kind("jax.lax.all_gather", v, names)
        if to == "invarying":
            return grouped.joined(_summed_parts(v, names, size), axis % rank, bool(tiled))
        if len(names) != 1:
            return grouped.joined(grouped.gathered(v, names), axis % rank, bool(tiled))
        return co.all_gather_p.bind(v, axes=names, dimension=axis % rank, size=size,
                                    tiled=bool(tiled))

    return _each("all_gather", x, one)


def _gathered_reduced(v: Any, names: Any, at: int, tiled: bool) -> Any:
    """The arrays of all positions, as a value whose cotangents are summands over the axes."""
    for n in names:
        if casts.kind_of(v, n) != "varying" and n in checked_axes.get():
            varying = aval_of(v).mat.varying
            raise ValueError(explain(
                f"all_gather_reduced only accepts inputs that are varying. Got {aval_of(v).short()}"
                if not varying else
                "all_gather_reduced is a Varying -> Reduced collective. This means that the "
                f"axis_name={names} passed to `all_gather_reduced` must be present in "
                f"jax.typeof(x).mat.varying={varying}", fix="gather what varies over the axis."))
    for k, n in enumerate(reversed(names)):
        v = casts.all_gather_reduced_p.bind(v, axes=(n,), dimension=at, size=co.size_of(n),
                                            tiled=tiled)
        if not tiled and k:  # the name's digit before those that move faster
            v = sh.merge_axes(v, at)
    return v


def _summed_parts(v: Any, names: Any, size: int) -> Any:
    """The arrays of all positions, stacked: each adds its own to zeros, and sums vary no more."""
    kind = dtype_of(v)
    value = convert_element_type(v, np.int8) if kind.kind == "b" else v
    zeros = broadcast_in_dim(np.zeros((), dtype_of(value)), (size, *shape_of(v)), ())
    start = (axis_index(names), *[np.int32(0)] * ndim_of(v))
    whole = psum(dynamic_update_slice(zeros, expand_dims(value, (0,)), start), names)
    return convert_element_type(whole, kind)


def psum_scatter(x: Any, axis_name: Any, *, scatter_dimension: int = 0,
                 axis_index_groups: Any = None, tiled: bool = False) -> Any:
    """psum, of which each position keeps its part.

    Args:
      x: tree of arrays.
      axis_name: name of an axis, or several: the last moves fastest.
      scatter_dimension: the axis that is split.
      axis_index_groups: groups of positions that cover the axis: the sum is theirs.
      tiled: keep that axis, shorter, instead of taking it away.

    Returns:
      A tree of parts.

    Raises:
      NameError: the name is not bound.
      ValueError: the split axis does not fit the named one, or groups do not cover it.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.vmap(lambda x: calque.lax.psum_scatter(x, "i"), axis_name="i")(jnp.ones((2, 2)))
      Array([2., 2.], dtype=float32)
    """
    names, size = _names("psum_scatter", axis_name)
    groups = _groups("psum_scatter", axis_index_groups, names, size)

    def one(v: Any) -> Any:
        parts = size if groups is None else len(groups[0])
        _check_split("psum_scatter", v, scatter_dimension, parts, tiled)
        at = scatter_dimension % ndim_of(v)
        if groups is not None:
            return grouped.scattered(v, names, groups, at, bool(tiled))
        for k, name in enumerate(names):
            part, last = co.size_of(name), k == len(names) - 1
            if not tiled and not last:  # the name's digit of the dimension
                v = sh.split_axis(v, at, part)
            kind = casts.of_one_kind("jax.lax.psum_scatter", v, (name,))
            prim = casts.unreduced_reduce_scatter_p if kind == "unreduced" else co.psum_scatter_p
            v = prim.bind(v, axes=(name,), size=part, tiled=bool(tiled), dimension=at)
        return v

    return _each("psum_scatter", x, one)


def _check_split(what: str, v: Any, axis: int, size: int, tiled: bool) -> None:
    shape = shape_of(v)
    if not -len(shape) <= axis < len(shape):
        raise ValueError(explain(f"{what}: axis {axis} is out of bounds for shape {shape}."))
    if (shape[axis] % size if tiled else shape[axis] != size):
        raise ValueError(explain(
            f"{what} requires the size of the split axis to {'divide by' if tiled else 'equal'} "
            f"the size of the named axis, but they are {shape[axis]} and {size} respectively."))


def all_to_all(x: Any, axis_name: Any, split_axis: int, concat_axis: int, *,
               axis_index_groups: Any = None, tiled: bool = False) -> Any:
    """Each position sends a part of its array to each other.

    Args:
      x: tree of arrays.
      axis_name: name of an axis, or several: the last moves fastest.
      split_axis: the axis that is split among the positions.
      concat_axis: where what is received is put.
      axis_index_groups: groups of positions that cover the axis, exchanged among themselves.
      tiled: split and join without taking away and adding axes.

    Returns:
      A tree of arrays.

    Raises:
      NameError: the name is not bound.
      ValueError: the split axis does not fit the named one, or groups do not cover it.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.vmap(lambda x: calque.lax.all_to_all(x, "i", 0, 0), axis_name="i")(
      ...     jnp.array([[1, 2], [3, 4]]))
      Array([[1, 3],
             [2, 4]], dtype=int32)
    """
    names, size = _names("all_to_all", axis_name)
    groups = _groups("all_to_all", axis_index_groups, names, size)

    def one(v: Any) -> Any:
        parts = size if groups is None else len(groups[0])
        _check_split("all_to_all", v, split_axis, parts, tiled)
        rank = ndim_of(v)
        if groups is not None:
            return grouped.exchanged(v, names, groups, split_axis % rank, concat_axis % rank,
                                     bool(tiled))
        if len(names) != 1:
            return grouped.exchanged_over(v, names, split_axis % rank, concat_axis % rank,
                                          bool(tiled))
        return co.all_to_all_p.bind(v, axes=names, split_axis=split_axis % rank,
                                    concat_axis=concat_axis % rank, size=size, tiled=bool(tiled))

    return _each("all_to_all", x, one)


__all__ = ["all_gather", "all_to_all", "axis_index", "axis_size", "pmax", "pmean", "pmin",
           "ppermute", "pshuffle", "psum", "psum_scatter", "pswapaxes"]
