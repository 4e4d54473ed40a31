"""BCOO arrays in other shapes: transpose, reshape, broadcast, concatenate, sums, layouts.

Dimensions stay what they are, batch, sparse or dense; bcoo_update_layout makes one of another.
Slices are in slices.py.  Start reading at `bcoo_transpose`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from calque.core.errors import explain
from calque.dispatch.replay import planned
from calque.experimental.sparse.array import (
    BCOO,
    SparseEfficiencyError,
    SparseEfficiencyWarning,
    columns,
    in_range,
    masked,
    parts,
    placed,
    whole,
)
from calque.numpy import (
    arange,
    asarray,
    broadcast_to,
    concatenate,
    moveaxis,
    pad,
    repeat,
    stack,
    transpose,
    where,
    zeros,
)
from calque.numpy.util import warn


@planned
def bcoo_transpose(mat: BCOO, *, permutation: Sequence[int]) -> BCOO:
    """The array with its dimensions in another order.

    Args:
      mat: a BCOO array.
      permutation: for each dimension of the result that of mat; batch, sparse and dense ones are
        permuted among themselves.

    Returns:
      A BCOO array.

    Raises:
      NotImplementedError: dimensions of different kinds change places.

    Example:
      >>> from calque.experimental import sparse
      >>> sparse.bcoo_transpose(sparse.eye(2, 3), permutation=(1, 0)).shape
      (3, 2)
    """
    order = [int(p) % max(mat.ndim, 1) for p in permutation]
    if sorted(order) != list(range(mat.ndim)):
        raise ValueError(explain(
            f"bcoo_transpose: {tuple(permutation)} is no permutation of {mat.ndim} dimensions.",
            fix="name every dimension once."))
    b, s = mat.n_batch, mat.n_batch + mat.n_sparse
    kinds = order[:b], order[b:s], order[s:]
    if any(sorted(k) != list(range(start, start + len(k))) for k, start in zip(kinds, (0, b, s))):
        raise NotImplementedError(explain(
            f"bcoo_transpose: {tuple(permutation)} exchanges dimensions of different kinds: "
            f"n_batch={b}, n_sparse={s - b}, n_dense={mat.ndim - s}.",
            fix="use bcoo_update_layout first, or permute dimensions of one kind."))
    data = transpose(mat.data, [*kinds[0], b, *[b + 1 + d - s for d in kinds[2]]])
    indices = transpose(mat.indices, [*kinds[0], b, b + 1])
    if mat.n_sparse:
        indices = stack([indices[..., k - b] for k in kinds[1]], -1)
    same = list(kinds[1]) == list(range(b, s))
    return BCOO((data, indices), shape=[mat.shape[i] for i in order],
                indices_sorted=mat.indices_sorted and same, unique_indices=mat.unique_indices)


@planned
def bcoo_reduce_sum(mat: BCOO, *, axes: Sequence[int]) -> BCOO:
    """Sums over dimensions.

    Args:
      mat: a BCOO array.
      axes: the dimensions to sum over.

    Returns:
      A BCOO array without these dimensions.

    Raises:
      Nothing.

    Example:
      >>> from calque.experimental import sparse
      >>> sparse.bcoo_reduce_sum(sparse.eye(2), axes=[0]).todense()
      Array([1., 1.], dtype=float32)
    """
    drop = {int(a) % mat.ndim for a in axes}
    b, s = mat.n_batch, mat.n_batch + mat.n_sparse
    data, indices = whole(mat)
    data = masked(data, in_range(indices, parts(mat)[1]))
    indices = placed(indices, parts(mat)[1])
    dense = tuple(b + 1 + a - s for a in drop if a >= s)
    data = data.sum(dense, dtype=data.dtype) if dense else data
    kept = [k for k in range(mat.n_sparse) if b + k not in drop]
    indices = _columns_kept(indices, kept)
    gone = [a for a in range(b) if a in drop]
    data, indices = (_merged(v, gone, b) for v in (data, indices))
    return BCOO((data, indices), shape=[n for i, n in enumerate(mat.shape) if i not in drop])


def _columns_kept(indices: Any, kept: Sequence[int]) -> Any:
    if len(kept) == indices.shape[-1]:
        return indices
    if not kept:
        return zeros((*indices.shape[:-1], 0), indices.dtype)
    return stack([indices[..., k] for k in kept], -1)


def _merged(v: Any, axes: Sequence[int], n_batch: int) -> Any:
    """Batch dimensions made part of that of elements."""
    if not axes:
        return v
    to = list(range(n_batch - len(axes), n_batch))
    v = moveaxis(v, list(axes), to)
    lead = v.shape[:to[0]]
    size = math.prod(v.shape[to[0]:n_batch + 1])
    return v.reshape(*lead, size, *v.shape[n_batch + 1:])


def _groups(old: Sequence[int], mat: BCOO, new: Sequence[int]) -> list[tuple[int, ...]]:
    """new sizes as batch, sparse and dense ones, of as many elements as the old ones."""
    found: list[tuple[int, ...]] = []
    rest = list(new)
    for sizes in parts(mat)[:2]:
        count, taken = 1, 0
        goal = math.prod(sizes)
        while taken < len(rest) and (count != goal or (
                sizes is not None and rest[taken] == 1 and taken < len(sizes))):
            count *= rest[taken]
            taken += 1
        if count != goal or not sizes and taken:
            raise ValueError(explain(
                f"bcoo_reshape: {tuple(old)} to {tuple(new)} cannot mix batch "
                f"and sparse dimensions (nor dense ones): "
                f"n_batch={mat.n_batch}, n_dense={mat.n_dense}.",
                fix="use bcoo_update_layout first."))
        found.append(tuple(rest[:taken]))
        rest = rest[taken:]
    if not mat.n_dense:  # sizes of 1 at the end
        found[1] += tuple(rest)
        rest = []
    return [*found, tuple(rest)]


@planned
def bcoo_reshape(mat: BCOO, *, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None,
                 sharding: Any = None) -> BCOO:
    """The elements in another shape; batch, sparse and dense dimensions do not mix.

    Args:
      mat: a BCOO array.
      new_sizes: the shape of the result.
      dimensions: a permutation of dimensions that goes first, or None.
      sharding: accepted and not used.

    Returns:
      A BCOO array.

    Raises:
      ValueError: the number of elements differs, or dimensions of different kinds mix.

    Example:
      >>> from calque.experimental import sparse
      >>> sparse.bcoo_reshape(sparse.eye(2), new_sizes=(4,)).todense()
      Array([1., 0., 0., 1.], dtype=float32)
    """
    if dimensions is not None:
        mat = bcoo_transpose(mat, permutation=dimensions)
    new = tuple(map(int, new_sizes))
    if math.prod(new) != mat.size:
        raise ValueError(explain(
            f"bcoo_reshape: cannot reshape {mat.shape} to {new}: {mat.size} and {math.prod(new)} "
            "elements.", fix="give sizes of the same product."))
    batch, sparse, dense = _groups(mat.shape, mat, new)
    old = parts(mat)[1]
    data, indices = whole(mat) if batch != mat.shape[:mat.n_batch] else (mat.data, mat.indices)
    lead = [v.shape[:mat.n_batch] if batch == mat.shape[:mat.n_batch] else batch
            for v in (data, indices)]
    if sparse != old:
        data = masked(data, in_range(indices, old)) if data.shape[:mat.n_batch] == \
            indices.shape[:mat.n_batch] else data
        indices = _moved(indices, old, sparse)
    return BCOO((data.reshape(*lead[0], mat.nse, *dense),
                 indices.reshape(*lead[1], mat.nse, len(sparse))), shape=new,
                unique_indices=mat.unique_indices and bool(sparse))


def _moved(indices: Any, old: Sequence[int], new: Sequence[int]) -> Any:
    """Places in sizes `old` as places in sizes `new`, row by row; out of range stays so."""
    valid = in_range(indices, old)
    flat = zeros(indices.shape[:-1], indices.dtype)
    for column, size in zip(columns(indices), old):
        flat = flat * size + column
    made = []
    for size in reversed(new):
        made.append(flat % max(size, 1))
        flat = flat // max(size, 1)
    if not made:
        return zeros((*indices.shape[:-1], 0), indices.dtype)
    return where(valid[..., None], stack(made[::-1], -1), asarray(new, indices.dtype))


@planned
def bcoo_broadcast_in_dim(mat: BCOO, *, shape: Sequence[int], broadcast_dimensions: Sequence[int],
                          sharding: Any = None) -> BCOO:
    """The array repeated along new dimensions and those of size 1.

    Args:
      mat: a BCOO array.
      shape: the shape of the result.
      broadcast_dimensions: for each dimension of mat that of the result.
      sharding: accepted and not used.

    Returns:
      A BCOO array.  New dimensions before the sparse ones are batch dimensions, those behind a
      dense one dense, others sparse.

    Raises:
      ValueError: sizes do not fit.

    Example:
      >>> from calque.experimental import sparse
      >>> sparse.bcoo_broadcast_in_dim(sparse.eye(2), shape=(3, 2, 2),
      ...                              broadcast_dimensions=(1, 2))
      BCOO(float32[3, 2, 2], nse=2, n_batch=1)
    """
    shape, at = tuple(shape), [int(i) for i in broadcast_dimensions]
    if len(at) != mat.ndim or at != sorted(set(at)) or any(
            n not in (1, shape[i]) for n, i in zip(mat.shape, at)):
        raise ValueError(explain(
            f"bcoo_broadcast_in_dim: {mat.shape} does not go to {shape} by dimensions {tuple(at)}.",
            fix="name a dimension of the same size, or give size 1, in growing order."))
    b, s = mat.n_batch, mat.n_batch + mat.n_sparse
    first = at[b] if b < mat.ndim else len(shape)
    last = at[s] if s < mat.ndim else len(shape)
    if not mat.n_sparse:
        last = first
    data, indices = whole(mat)
    data = _spread(data, shape[:first], at[:b], b)
    indices = _spread(indices, shape[:first], at[:b], b)
    n = first
    data = _spread_end(data, shape[last:], [i - last for i in at[s:]], n + 1)
    old = dict(zip(at[b:s], range(mat.n_sparse)))
    valid = in_range(indices, parts(mat)[1])
    data = masked(data, valid)
    for i in range(first, last):  # repeat elements along sparse dimensions that grow
        grows = shape[i] != (mat.shape[b + old[i]] if i in old else 1)
        times = shape[i] if grows else 1
        count = indices.shape[-2]
        step = arange(times, dtype=indices.dtype)
        column = indices[..., old[i]] if i in old and not grows else \
            zeros(indices.shape[:-1], indices.dtype)
        column = repeat(column, times, axis=-1) + broadcast_to(
            step, (count, times)).reshape(-1)
        data, indices = repeat(data, times, axis=n), repeat(indices, times, axis=n)
        valid = repeat(valid, times, axis=-1)
        indices = concatenate([indices, column[..., None]], -1)
    indices = indices[..., mat.n_sparse:]
    sizes = shape[first:last]
    if sizes:
        indices = where(valid[..., None], indices, asarray(sizes, indices.dtype))
    return BCOO((data, indices), shape=shape, unique_indices=mat.unique_indices)


def _spread(v: Any, shape: Sequence[int], at: Sequence[int], n: int) -> Any:
    """broadcast_in_dim of the first n dimensions."""
    sizes = [1] * len(shape)
    for i, a in enumerate(at):
        sizes[a] = v.shape[i]
    return broadcast_to(v.reshape(*sizes, *v.shape[n:]), (*shape, *v.shape[n:]))


def _spread_end(v: Any, shape: Sequence[int], at: Sequence[int], n: int) -> Any:
    """broadcast_in_dim of the dimensions from n on."""
    sizes = [1] * len(shape)
    for i, a in enumerate(at):
        sizes[a] = v.shape[n + i]
    return broadcast_to(v.reshape(*v.shape[:n], *sizes), (*v.shape[:n], *shape))


@planned
def bcoo_concatenate(operands: Sequence[BCOO], *, dimension: int) -> BCOO:
    """BCOO arrays one after the other along a batch or sparse dimension.

    Args:
      operands: BCOO arrays with the same numbers of batch and dense dimensions.
      dimension: the dimension along which they are put together.

    Returns:
      A BCOO array.

    Raises:
      ValueError: shapes or layouts differ; the dimension is a dense one.

    Example:
      >>> from calque.experimental import sparse
      >>> sparse.bcoo_concatenate([sparse.eye(2), sparse.eye(2)], dimension=0).shape
      (4, 2)
    """
    mats = list(operands)
    dimension = int(dimension)
    layouts = {(m.n_batch, m.n_sparse, m.n_dense) for m in mats}
    others = {tuple(n for i, n in enumerate(m.shape) if i != dimension) for m in mats}
    if len(layouts) != 1 or len(others) != 1 or not 0 <= dimension < mats[0].ndim:
        raise ValueError(explain(
            f"bcoo_concatenate: shapes {[m.shape for m in mats]} with (n_batch, n_sparse, n_dense) "
            f"in {sorted(layouts)} along dimension {dimension}.",
            fix="give arrays of one layout that differ along that dimension only."))
    b, s, _ = layouts.pop()
    if dimension >= b + s:
        raise NotImplementedError(explain(
            f"bcoo_concatenate: dimension {dimension} is a dense one of n_batch={b}, n_sparse={s}.",
            fix="use bcoo_update_layout first."))
    shape = list(mats[0].shape)
    shape[dimension] = sum(m.shape[dimension] for m in mats)
    datas, places, offset = [], [], 0
    nse = max(m.nse for m in mats)
    for m in mats:
        data, indices = whole(m)
        sizes = parts(m)[1]
        valid = in_range(indices, sizes)
        if dimension >= b:
            step = asarray([offset if k == dimension - b else 0 for k in range(s)], indices.dtype)
            indices, data = indices + step, masked(data, valid)
            offset += m.shape[dimension]
        if s:
            indices = where(valid[..., None], indices, asarray(shape[b:b + s], indices.dtype))
        if dimension < b and m.nse < nse:
            data, indices = _padded(data, indices, nse - m.nse, b, shape[b:b + s])
        datas.append(data)
        places.append(indices)
    axis = min(dimension, b)
    return BCOO((concatenate(datas, axis), concatenate(places, axis)), shape=shape,
                unique_indices=all(m.unique_indices for m in mats))


def _padded(data: Any, indices: Any, count: int, n_batch: int, sizes: Sequence[int]
            ) -> tuple[Any, Any]:
    widths = [(0, 0)] * data.ndim
    widths[n_batch] = (0, count)
    more = broadcast_to(asarray(sizes, indices.dtype),
                        (*indices.shape[:-2], count, indices.shape[-1]))
    return pad(data, widths), concatenate([indices, more], -2)


@planned
def bcoo_update_layout(mat: BCOO, *, n_batch: int | None = None, n_dense: int | None = None,
                       on_inefficient: str | None = "error") -> BCOO:
    """The same array with other numbers of batch and dense dimensions.

    Args:
      mat: a BCOO array.
      n_batch: the number of batch dimensions; None: as it is.
      n_dense: the number of dense dimensions; None: as it is.
      on_inefficient: what is done where a sparse dimension longer than 1 becomes a batch or dense
        one, which stores zeros: "error", "warn" or None.

    Returns:
      A BCOO array.

    Raises:
      SparseEfficiencyError: zeros would be stored and on_inefficient is "error".
      ValueError: the numbers do not fit the shape.

    Example:
      >>> from calque.experimental import sparse
      >>> sparse.bcoo_update_layout(sparse.eye(2, n_batch=1), n_batch=0)
      BCOO(float32[2, 2], nse=2)
    """
    n_batch = mat.n_batch if n_batch is None else int(n_batch)
    n_dense = mat.n_dense if n_dense is None else int(n_dense)
    if on_inefficient not in ("error", "warn", None):
        raise ValueError(explain(
            f"bcoo_update_layout: on_inefficient={on_inefficient!r}.",
            fix="give 'error', 'warn' or None."))
    if n_batch < 0 or n_dense < 0 or n_batch + n_dense > mat.ndim:
        raise ValueError(explain(
            f"bcoo_update_layout: n_batch={n_batch} and n_dense={n_dense} are invalid for shape "
            f"{mat.shape}.", fix="give numbers that are not negative, together at most ndim."))
    for what, old, new, sizes in (
            ("n_batch", mat.n_batch, n_batch, mat.shape[mat.n_batch:n_batch]),
            ("n_dense", mat.n_dense, n_dense,
             mat.shape[mat.ndim - n_dense:mat.ndim - mat.n_dense])):
        if new > old and any(n > 1 for n in sizes):
            _inefficient(mat, what, old, new, on_inefficient)
    while mat.n_dense > n_dense:
        mat = _dense_to_sparse(mat)
    while mat.n_batch > n_batch:
        mat = _batch_to_sparse(mat)
    while mat.n_batch < n_batch:
        mat = _sparse_to_batch(mat)
    while mat.n_dense < n_dense:
        mat = _sparse_to_dense(mat)
    return mat


def _inefficient(mat: BCOO, what: str, old: int, new: int, how: str | None) -> None:
    text = explain(
        f"bcoo_update_layout: For matrix of shape {mat.shape}, increasing {what} from {old} to "
        f"{new} results in inefficient storage.",
        fix="give on_inefficient='warn' or None, if zeros may be stored.")
    if how == "error":
        raise SparseEfficiencyError(text)
    if how == "warn":
        warn(text, SparseEfficiencyWarning)


def _dense_to_sparse(mat: BCOO) -> BCOO:
    """The first dense dimension as the last sparse one."""
    data, indices = whole(mat)
    b, size = mat.n_batch, mat.shape[mat.ndim - mat.n_dense]
    data = data.reshape(*data.shape[:b], mat.nse * size, *data.shape[b + 2:])
    step = broadcast_to(arange(size, dtype=indices.dtype), (*indices.shape[:-1], size))
    indices = concatenate([repeat(indices, size, axis=-2), step.reshape(
        *indices.shape[:-2], mat.nse * size, 1)], -1)
    return BCOO((data, indices), shape=mat.shape, indices_sorted=mat.indices_sorted,
                unique_indices=mat.unique_indices)


def _batch_to_sparse(mat: BCOO) -> BCOO:
    """The last batch dimension as the first sparse one."""
    data, indices = whole(mat)
    b = mat.n_batch - 1
    size = mat.shape[b]
    step = arange(size, dtype=indices.dtype)[:, None, None]
    own = broadcast_to(step, (*indices.shape[:-1], 1))
    valid = in_range(indices, parts(mat)[1])[..., None]
    own = where(valid, own, asarray(size, indices.dtype))
    indices = _merged(concatenate([own, indices], -1), [b], b + 1)
    return BCOO((_merged(data, [b], b + 1), indices), shape=mat.shape,
                unique_indices=mat.unique_indices)


def _sparse_to_batch(mat: BCOO) -> BCOO:
    """The first sparse dimension as the last batch one: elements of others are padding."""
    data, indices = whole(mat)
    b = mat.n_batch
    size = mat.shape[b]
    own = indices[..., None, :, 0] == arange(size, dtype=indices.dtype)[:, None]
    rest = parts(mat)[1][1:]
    lead = (*mat.shape[:b], size)
    data = masked(broadcast_to(data[(slice(None),) * b + (None,)],
                               (*lead, *data.shape[b:])), own)
    indices = broadcast_to(indices[..., None, :, 1:], (*lead, mat.nse, len(rest)))
    if rest:
        indices = where(own[..., None], indices, asarray(rest, indices.dtype))
    return BCOO((data, indices), shape=mat.shape, unique_indices=mat.unique_indices and bool(rest))


def _sparse_to_dense(mat: BCOO) -> BCOO:
    """The last sparse dimension as the first dense one."""
    data, indices = whole(mat)
    b, s = mat.n_batch, mat.n_sparse
    size = mat.shape[b + s - 1]
    valid = in_range(indices, parts(mat)[1])
    own = (indices[..., -1, None] == arange(size, dtype=indices.dtype)) & valid[..., None]
    data = masked(broadcast_to(data[(slice(None),) * (b + 1) + (None,)],
                               (*data.shape[:b + 1], size, *data.shape[b + 1:])), own)
    return BCOO((data, _columns_kept(indices, range(s - 1))), shape=mat.shape)


@planned
def bcoo_squeeze(arr: BCOO, *, dimensions: Sequence[int]) -> BCOO:
    """The array without dimensions of size 1.

    Args:
      arr: a BCOO array.
      dimensions: which ones.

    Returns:
      A BCOO array.

    Raises:
      ValueError: the size of one is not 1.

    Example:
      >>> from calque.experimental import sparse
      >>> sparse.bcoo_squeeze(sparse.eye(1, 3), dimensions=[0]).shape
      (3,)
    """
    drop = {int(d) % arr.ndim for d in dimensions}
    if any(arr.shape[d] != 1 for d in drop):
        raise ValueError(explain(
            f"bcoo_squeeze: dimensions {sorted(drop)} of shape {arr.shape} are not all of size 1.",
            fix="squeeze dimensions of size 1 only."))
    made = bcoo_reduce_sum(arr, axes=tuple(drop))
    return BCOO((made.data, made.indices), shape=made.shape, indices_sorted=False,
                unique_indices=arr.unique_indices and bool(made.n_sparse))
