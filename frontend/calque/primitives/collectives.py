"""Collectives over named axes: psum, pmax, pmin, ppermute, all_gather, all_to_all, psum_scatter,
axis_index; and, where shard_map checks over which axes values vary, psum_invariant and pvary.

A vmap with an axis name is what gives them a meaning: its trace asks for `collective`, which sees
the mapped axis as an axis of the operand.  shard_map's axes are such axes in the end
(primitives/shard_map).  Start reading at `psum_p` and transforms/vmap.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray, aval_of, shape_of, varying_of
from calque.core.errors import explain
from calque.core.lists import inserted, replaced, without
from calque.core.primitive import Primitive, registry
from calque.core.trace import axis_env, checked_axes
from calque.core.types import Function, Params, Shape
from calque.core.zeros import is_zero
from calque.primitives import elementwise as ew
from calque.primitives import reduce as rd
from calque.primitives import shape as sh
from calque.transforms.vmap import move_axis, to_front

Axes = tuple[Any, ...]
INT = dtypes.int32


def size_of(name: Any, what: str = "collective") -> int:
    """The size of a named axis; NameError where nothing binds the name."""
    for bound, size in reversed(axis_env.get()):
        if bound == name:
            return size
    raise NameError(explain(
        f"Found an unbound axis name: {name}. To fix this, please call {what} under "
        "`jax.shard_map`.", fix="call it under shard_map over a mesh with that axis, or under pmap "
        f"or vmap(..., axis_name={name!r})."))


def _primitive(name: str, abstract: Function, collective: Function,
               transpose: Function | None) -> Primitive:
    p = Primitive(name, differentiable=transpose is not None)
    p.abstract, p.collective, p.transpose = abstract, collective, transpose
    p.varying = lambda vma, params: vma  # over what is mapped operands vary already
    if transpose is not None:
        p.jvp = lambda primals, tangents, **params: (
            p.bind(*primals, **params),
            tangents[0] if is_zero(tangents[0]) else p.bind(tangents[0], **params))
    p.batch = _elsewhere(p)
    return p


def _elsewhere(p: Primitive) -> Function:
    """Batching over an axis of another name: the axis is carried along in front."""
    def batch(size: int, args: Sequence[Any], dims: Sequence[int | None], /, **params: Any
              ) -> Any:
        moved = {k: v + 1 if k in POSITIONS else v for k, v in params.items()}
        return p.bind(to_front(args[0], dims[0], size), **moved), 0
    return batch


POSITIONS = frozenset(("dimension", "split_axis", "concat_axis"))


def _over_rest(p: Primitive, x: Any, axes: Axes, name: Any) -> Any:
    """The collective over the other axes."""
    rest = tuple(a for a in axes if a != name)
    return p.bind(x, axes=rest) if rest else x


def _summed(x: Any, dim: int | None, count: int) -> Any:
    """The sum over the axis, of a value that is the same everywhere too."""
    return ew.mul(x, ew.const(x, count)) if dim is None else rd.reduce_sum(x, (dim,))


# ---- reductions: axes
def _sum_abstract(x: ShapedArray, *, axes: Axes) -> ShapedArray:
    return x


def _sum_collective(name: Any, size: int, x: Any, dim: int | None, *, axes: Axes) -> Any:
    return _over_rest(psum_p, _summed(x, dim, size), axes, name), None


psum_p = _primitive("psum", _sum_abstract, _sum_collective,
                    lambda ct, x, *, axes: [psum_p.bind(ct, axes=axes)])


def _extreme(name: str, reduce_p: Primitive) -> Primitive:
    def collective(axis: Any, size: int, x: Any, dim: int | None, *, axes: Axes) -> Any:
        out = x if dim is None else reduce_p.bind(x, axes=(dim,), out_sharding=None)
        return _over_rest(p, out, axes, axis), None

    p = _primitive(name, _sum_abstract, collective, None)
    p.differentiable = True

    def no_derivative(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(explain(
            f"Differentiation rule for '{name}' not implemented",
            fix="stop the gradient there (lax.stop_gradient), or write it with all_gather."))

    p.jvp = no_derivative
    return p


pmax_p = _extreme("pmax", rd.reduce_max_p)
pmin_p = _extreme("pmin", rd.reduce_min_p)


def _no_longer(vma: frozenset[Any], params: Params) -> frozenset[Any]:
    return vma - set(params["axes"])


# ---- where it is checked over which axes values vary: a sum no longer does, and pvary makes a
# value vary that is the same everywhere; they are each other's transposes
psum_invariant_p = _primitive("psum_invariant", _sum_abstract, _sum_collective,
                              lambda ct, x, *, axes: [pvary_p.bind(ct, axes=axes)])


def _vary_collective(name: Any, size: int, x: Any, dim: int | None, *, axes: Axes) -> Any:
    return _over_rest(pvary_p, x, axes, name), dim


pvary_p = _primitive("pvary", _sum_abstract, _vary_collective,
                     lambda ct, x, *, axes: [psum_invariant_p.bind(ct, axes=axes)])
for _p in (psum_invariant_p, pmax_p, pmin_p):
    _p.varying = _no_longer
pvary_p.varying = lambda vma, params: vma | set(params["axes"])


def cotangent_for(x: Any, ct: Any) -> Any:
    """A cotangent that varies as its primal x: summed over the axes over which x is one value."""
    have, want = aval_of(ct), aval_of(x)
    if have.vma == want.vma:
        return ct
    more, less = (varying_of(a.vma) - varying_of(b.vma) for a, b in ((have, want), (want, have)))
    if more:
        ct = psum_invariant_p.bind(ct, axes=tuple(sorted(more, key=str)))
    return pvary_p.bind(ct, axes=tuple(sorted(less, key=str))) if less else ct


def vary_together(xs: Sequence[Any]) -> list[Any]:
    """Values that all vary over the axes that one of them varies over, inside shard_map."""
    own = [varying_of(aval_of(x).vma) for x in xs]
    every = frozenset().union(*own)
    return [pvary_p.bind(x, axes=tuple(sorted(every - vma, key=str))) if every - vma else x
            for x, vma in zip(xs, own)]


def psum(x: Any, axes: Axes) -> Any:
    """The sum over axes, those that are checked as JAX's jaxprs have it."""
    checked = tuple(a for a in axes if a in checked_axes.get())
    rest = tuple(a for a in axes if a not in checked)
    if checked:
        x = psum_invariant_p.bind(x, axes=checked)
    return psum_p.bind(x, axes=rest) if rest else x


# ---- moves
def runs(perm: tuple[tuple[int, int], ...], size: int) -> list[tuple[int, int]]:
    """What the positions receive, in order: (first source, how many follow it); -1: nothing."""
    sources = [-1] * size
    for source, target in perm:
        sources[target] = source
    found: list[tuple[int, int]] = []
    for s in sources:
        if found and (found[-1][0] == s == -1 or (s >= 0 and s == sum(found[-1])
                                                  and found[-1][0] >= 0)):
            found[-1] = found[-1][0], found[-1][1] + 1
        else:
            found.append((s, 1))
    return found


def _permute_collective(name: Any, size: int, x: Any, dim: int | None, *, axes: Axes,
                        perm: tuple[tuple[int, int], ...]) -> Any:
    x = to_front(x, dim, size)
    shape = shape_of(x)
    parts = [zeros_of(x, (count, *shape[1:])) if first < 0 else
             sh.slice_(x, (first, *[0] * (len(shape) - 1)), (first + count, *shape[1:]))
             for first, count in runs(perm, size)]
    return (parts[0] if len(parts) == 1 else sh.concatenate(parts, 0)), 0


def zeros_of(x: Any, shape: Shape) -> Any:
    a = aval_of(x)
    if not dtypes.is_key(a.dtype):
        return sh.broadcast_in_dim(ew.const(x, 0), shape, ())
    words = sh.broadcast_in_dim(np.uint32(0), (*shape, a.dtype.words), ())
    return registry["random_wrap"].bind(words, impl=a.dtype.tag)


def _permute_transpose(ct: Any, x: Any, *, axes: Axes, perm: tuple[tuple[int, int], ...]
                       ) -> list[Any]:
    return [ppermute_p.bind(ct, axes=axes, perm=tuple((t, s) for s, t in perm))]


ppermute_p = _primitive("ppermute", lambda x, **_: x, _permute_collective, _permute_transpose)


def _gather_abstract(x: ShapedArray, *, axes: Axes, dimension: int, size: int, tiled: bool
                     ) -> ShapedArray:
    return ShapedArray(_wider(x.shape, dimension, size, tiled), x.dtype, x.weak_type)


def _wider(shape: Shape, at: int, size: int, tiled: bool) -> tuple[int, ...]:
    """A shape whose dimension has all parts, or that has one more for them."""
    return replaced(shape, at, shape[at] * size) if tiled else inserted(shape, at, size)


def _narrower(shape: Shape, at: int, size: int, tiled: bool) -> tuple[int, ...]:
    """A shape whose dimension has one part, or that lacks the one of the parts."""
    return replaced(shape, at, shape[at] // size) if tiled else without(shape, [at])


def _gather_collective(name: Any, count: int, x: Any, dim: int | None, *, axes: Axes,
                       dimension: int, size: int, tiled: bool) -> Any:
    x = move_axis(to_front(x, dim, count), 0, dimension)
    if tiled:
        x = sh.merge_axes(x, dimension)
    return x, None


all_gather_p = _primitive(
    "all_gather", _gather_abstract, _gather_collective,
    lambda ct, x, **params: [psum_scatter_p.bind(ct, **params)])


def _scatter_abstract(x: ShapedArray, *, axes: Axes, dimension: int, size: int, tiled: bool
                      ) -> ShapedArray:
    return ShapedArray(_narrower(x.shape, dimension, size, tiled), x.dtype, x.weak_type)


def _scatter_collective(name: Any, count: int, x: Any, dim: int | None, *, axes: Axes,
                        dimension: int, size: int, tiled: bool) -> Any:
    out = _summed(x, dim, count)
    if tiled:
        out = sh.split_axis(out, dimension, size)
    return out, dimension


psum_scatter_p = _primitive(
    "reduce_scatter", _scatter_abstract, _scatter_collective,
    lambda ct, x, **params: [all_gather_p.bind(ct, **params)])


def _all_abstract(x: ShapedArray, *, axes: Axes, split_axis: int, concat_axis: int, size: int,
                  tiled: bool) -> ShapedArray:
    part = _narrower(x.shape, split_axis, size, tiled)
    return ShapedArray(_wider(part, concat_axis, size, tiled), x.dtype, x.weak_type)


def _all_collective(name: Any, count: int, x: Any, dim: int | None, *, axes: Axes,
                    split_axis: int, concat_axis: int, size: int, tiled: bool) -> Any:
    x = to_front(x, dim, count)  # (sender, ...): the split axis becomes the receiver
    if not tiled:
        return move_axis(move_axis(x, split_axis + 1, 0), 1, concat_axis + 1), 0
    at = split_axis + 1
    x = sh.split_axis(x, at, size)
    x = move_axis(x, at, 0)  # (receiver, sender, ...)
    x = move_axis(x, 1, concat_axis + 1)
    return sh.merge_axes(x, concat_axis + 1), 0


def _all_transpose(ct: Any, x: Any, *, axes: Axes, split_axis: int, concat_axis: int, size: int,
                   tiled: bool) -> list[Any]:
    return [all_to_all_p.bind(ct, axes=axes, split_axis=concat_axis, concat_axis=split_axis,
                              size=size, tiled=tiled)]


all_to_all_p = _primitive("all_to_all", _all_abstract, _all_collective, _all_transpose)


# ---- the position along an axis
axis_index_p = Primitive("axis_index", differentiable=False)
axis_index_p.abstract = lambda *, axes: ShapedArray((), INT)
axis_index_p.collective = lambda name, size, x, dim, *, axes: (sh.iota(INT, (size,)), 0)
axis_index_p.batch = lambda size, args, dims, **params: (axis_index_p.bind(**params), None)
axis_index_p.varying = lambda vma, params: vma | (set(params["axes"]) & checked_axes.get())
