"""Products of sparse arrays: contractions, and multiplication element by element.

Dimensions have labels, as in einsum.  A sparse dimension that the other operand has is gathered
from it; one that the result has is scattered to.  Start reading at `sparse_with_dense`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from calque.core.errors import explain
from calque.dispatch.replay import planned
from calque.experimental.sparse.array import (
    BCOO,
    DROP,
    FILL,
    _summed,
    columns,
    grid,
    in_range,
    masked,
    parted,
    parts,
    whole,
)
from calque.experimental.sparse.shapes import bcoo_update_layout
from calque.lax import dot_general
from calque.numpy import (
    asarray,
    broadcast_to,
    concatenate,
    einsum,
    promote_types,
    result_type,
    stack,
    transpose,
    where,
    zeros,
)

Labels = Sequence[int]


def labelled(lhs_ndim: int, rhs_ndim: int, dimension_numbers: Any
             ) -> tuple[list[int], list[int], list[int]]:
    """Numbers for the dimensions of both operands and of dot_general's result."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    lhs, rhs = list(range(lhs_ndim)), [lhs_ndim + i for i in range(rhs_ndim)]
    for i, j in zip((*lhs_contract, *lhs_batch), (*rhs_contract, *rhs_batch)):
        rhs[j] = lhs[i]
    out = [lhs[i] for i in lhs_batch]
    out += [x for i, x in enumerate(lhs) if i not in (*lhs_contract, *lhs_batch)]
    out += [x for j, x in enumerate(rhs) if j not in (*rhs_contract, *rhs_batch)]
    return lhs, rhs, out


def check_numbers(lhs: Any, rhs: Any, dimension_numbers: Any) -> Any:
    """Dimension numbers as tuples of non-negative integers; refuse those that do not fit."""
    (lc, rc), (lb, rb) = dimension_numbers
    lc, lb = (tuple(int(i) % lhs.ndim for i in v) for v in (lc, lb))
    rc, rb = (tuple(int(i) % rhs.ndim for i in v) for v in (rc, rb))
    for what, left, right in (("contracting", lc, rc), ("batch", lb, rb)):
        sizes = [tuple(x.shape[i] for i in v) for x, v in ((lhs, left), (rhs, right))]
        if sizes[0] != sizes[1]:
            raise TypeError(explain(
                f"dot_general requires {what} dimensions to have the same shape, got {sizes[0]} "
                f"and {sizes[1]}.", fix="transpose an operand, or name other dimensions."))
    return (lc, rc), (lb, rb)


def gathered(x: Any, labels: Labels, batch: Labels, sparse: Labels, indices: Any
             ) -> tuple[Any, list[int], bool]:
    """x at the indices of its sparse labels: the array, the labels of its dimensions without that
    of elements, and whether it has the dimensions [*batch, nse] in front."""
    inside = [b for b in batch if b in labels]
    at = [k for k, s in enumerate(sparse) if s in labels]
    rest = [n for n in labels if n not in inside and n not in sparse]
    if not at:
        return x, list(labels), False
    order = [*inside, *[sparse[k] for k in at], *rest]
    x = transpose(x, [list(labels).index(n) for n in order])
    places = grid(indices.shape[:len(batch)])
    use = [places[i] for i, b in enumerate(batch) if b in inside]
    found = x.at[(*use, *[indices[..., k] for k in at])].get(**FILL)
    return found, [*batch, *rest], True


def _einsum(operands: Sequence[tuple[Any, Labels]], out: Labels, dtype: Any) -> Any:
    """einsum over numbered labels."""
    letters = {n: chr(ord("a") + i) for i, n in enumerate(
        dict.fromkeys(n for _, labels in operands for n in labels))}
    spec = ",".join("".join(letters[n] for n in labels) for _, labels in operands)
    made = einsum(f"{spec}->{''.join(letters[n] for n in out)}", *[x for x, _ in operands],
                  preferred_element_type=dtype)
    return made.astype(dtype)


ELEMENT = -1  # the label of the dimension of stored elements


def sparse_with_dense(mat: BCOO, labels: Labels, dense: Any, dense_labels: Labels, out: Labels,
                      dtype: Any) -> Any:
    """The dense array with labels `out`: products, summed over labels that `out` has not."""
    data, indices = whole(mat)
    n_batch, n_sparse = mat.n_batch, mat.n_sparse
    batch, sparse = list(labels[:n_batch]), list(labels[n_batch:n_batch + n_sparse])
    rest = list(labels[n_batch + n_sparse:])
    # (what is out of range among `kept` is not written)
    summed = [k for k, s in enumerate(sparse) if s not in out]
    if summed:
        data = masked(data, in_range(stack([indices[..., k] for k in summed], -1),
                                     [mat.shape[n_batch + k] for k in summed]))
    other, other_labels, has_element = gathered(dense, dense_labels, batch, sparse, indices)
    if has_element:
        other_labels = [*other_labels[:n_batch], ELEMENT, *other_labels[n_batch:]]
    kept = [k for k, s in enumerate(sparse) if s in out]
    kept_batch = [b for b in batch if b in out]
    free = [n for n in out if n not in batch and n not in sparse]
    data_labels = [*batch, ELEMENT, *rest]
    operands = [(data, data_labels), (other, other_labels)]
    if not kept:
        return _einsum(operands, out, dtype)
    products = _einsum(operands, [*batch, ELEMENT, *free], dtype)
    sizes = dict(zip((*labels, *dense_labels), (*mat.shape, *dense.shape)))
    order = [*kept_batch, *[sparse[k] for k in kept], *free]
    at = [g for g, b in zip(grid(mat.shape[:n_batch]), batch) if b in kept_batch]
    at += [indices[..., k] for k in kept]
    made = zeros([sizes[n] for n in order], dtype).at[tuple(at)].add(products, **DROP)
    return transpose(made, [order.index(n) for n in out])


@planned
def bcoo_dot_general(lhs: Any, rhs: Any, *, dimension_numbers: Any, precision: Any = None,
                     preferred_element_type: Any = None, out_sharding: Any = None) -> Any:
    """lax.dot_general of arrays of which one or both are BCOO.

    Args:
      lhs: a BCOO or a dense array.
      rhs: a BCOO or a dense array.
      dimension_numbers: ((lhs contracting, rhs contracting), (lhs batch, rhs batch)).
      precision: accepted and not used.
      preferred_element_type: the result's dtype; None: the operands' promoted one.
      out_sharding: accepted and not used.

    Returns:
      A dense array; of two BCOO arrays a BCOO array.

    Raises:
      TypeError: the dimensions do not fit.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import sparse
      >>> sparse.bcoo_dot_general(sparse.eye(2), jnp.array([3., 4.]),
      ...                         dimension_numbers=(([1], [0]), ([], [])))
      Array([3., 4.], dtype=float32)
    """
    lhs, rhs = (x if isinstance(x, BCOO) else asarray(x) for x in (lhs, rhs))
    numbers = check_numbers(lhs, rhs, dimension_numbers)
    dtype = preferred_element_type or promote_types(lhs.dtype, rhs.dtype)
    left, right, out = labelled(lhs.ndim, rhs.ndim, numbers)
    if isinstance(lhs, BCOO) and isinstance(rhs, BCOO):
        return _sparse_with_sparse(lhs, rhs, numbers, dtype)
    if isinstance(lhs, BCOO):
        return sparse_with_dense(lhs, left, rhs, right, out, dtype)
    if isinstance(rhs, BCOO):
        return sparse_with_dense(rhs, right, lhs, left, out, dtype)
    return dot_general(lhs, rhs, numbers, precision=precision, preferred_element_type=dtype)


def _pairs(lhs: BCOO, rhs: BCOO, match: Sequence[tuple[int, int]]) -> tuple[Any, Any, Any]:
    """Of every pair of elements the two rows of indices, and whether both are places and agree in
    the columns `match`: [*batch, nse of lhs, nse of rhs, ...]."""
    _, li = whole(lhs)
    _, ri = whole(rhs)
    agree = in_range(li, parts(lhs)[1])[..., :, None] & in_range(ri, parts(rhs)[1])[..., None, :]
    for i, j in match:
        agree &= li[..., :, None, i] == ri[..., None, :, j]
    return li[..., :, None, :], ri[..., None, :, :], agree


def _of_pairs(lhs: BCOO, rhs: BCOO, agree: Any, places: Sequence[Any], shape: Sequence[int],
              nse: int) -> BCOO:
    """The products of pairs that agree, at their places, with duplicates summed."""
    (ld, _), (rd, _) = whole(lhs), whole(rhs)
    batch = agree.shape[:-2]
    pairs = agree.shape[-2] * agree.shape[-1]
    dtype = result_type(ld, rd)
    n = len(batch)
    left, right = (v.reshape(v.shape[:n] + s + v.shape[n + 1:]) for v, s in (
        (ld, (ld.shape[n], 1)), (rd, (1, rd.shape[n]))))
    data = masked((left * right).astype(dtype), agree)
    sizes = shape[n:n + len(places)]
    if places:
        spread = [broadcast_to(p, agree.shape)[..., None] for p in places]
        indices = concatenate(spread, -1)
        indices = where(agree[..., None], indices, asarray(sizes, indices.dtype))
    else:
        indices = zeros((*agree.shape, 0), "int32")
    made = BCOO((data.reshape(*batch, pairs, *data.shape[n + 2:]),
                 indices.reshape(*batch, pairs, len(places))), shape=shape)
    return _summed(made, nse, False)


def _sparse_with_sparse(lhs: BCOO, rhs: BCOO, numbers: Any, dtype: Any) -> BCOO:
    (lc, rc), (lb, rb) = numbers
    shared = 0  # leading batch dimensions of both that are dot_general's batch dimensions
    while (shared < min(lhs.n_batch, rhs.n_batch, len(lb))
           and lb[shared] == rb[shared] == shared):
        shared += 1
    lhs, rhs = (bcoo_update_layout(m, n_batch=shared, n_dense=0) for m in (lhs, rhs))
    match = [(i - shared, j - shared) for i, j in zip((*lc, *lb[shared:]), (*rc, *rb[shared:]))]
    li, ri, agree = _pairs(lhs, rhs, match)
    left = [*lb[shared:], *[i for i in range(shared, lhs.ndim) if i not in (*lc, *lb)]]
    right = [j for j in range(shared, rhs.ndim) if j not in (*rc, *rb)]
    places = [li[..., i - shared] for i in left] + [ri[..., j - shared] for j in right]
    sizes = [lhs.shape[i] for i in left] + [rhs.shape[j] for j in right]
    nse = min(math.prod(sizes), lhs.nse * rhs.nse)
    made = _of_pairs(lhs, rhs, agree, places, (*lhs.shape[:shared], *sizes), nse)
    return made.with_data(made.data.astype(dtype))


@planned
def bcoo_dot_general_sampled(A: Any, B: Any, indices: Any, *, dimension_numbers: Any) -> Any:
    """The elements of lax.dot_general of two dense arrays at the indices of a BCOO array.

    Args:
      A: a dense array.
      B: a dense array.
      indices: [*batch, nse, n_sparse] integers.
      dimension_numbers: as dot_general has them.

    Returns:
      [*batch, nse, *dense]: the data of a BCOO array; zero where indices are out of range.

    Raises:
      TypeError: the dimensions do not fit.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import sparse
      >>> sparse.bcoo_dot_general_sampled(
      ...     jnp.ones((2, 3)), jnp.ones((3, 2)), jnp.array([[0, 1]]),
      ...     dimension_numbers=(([1], [0]), ([], [])))
      Array([3.], dtype=float32)
    """
    A, B, indices = map(asarray, (A, B, indices))
    numbers = check_numbers(A, B, dimension_numbers)
    left, right, out = labelled(A.ndim, B.ndim, numbers)
    n_batch, n_sparse = indices.ndim - 2, indices.shape[-1]
    sizes = dict(zip((*left, *right), (*A.shape, *B.shape)))
    batch, sparse, _ = parted(out, n_batch, len(out) - n_batch - n_sparse)
    shape = tuple(sizes[n] for n in batch)
    indices = broadcast_to(indices, (*shape, *indices.shape[n_batch:]))
    operands = []
    for x, labels in ((A, left), (B, right)):
        found, names, has_element = gathered(x, labels, batch, sparse, indices)
        operands.append((found, [*names[:n_batch], ELEMENT, *names[n_batch:]] if has_element
                         else names))
    rest = list(out[n_batch + n_sparse:])
    dtype = promote_types(A.dtype, B.dtype)
    if not n_sparse:
        made = _einsum(operands, [*batch, *rest], dtype)[(slice(None),) * n_batch + (None,)]
        return broadcast_to(made, (*shape, indices.shape[-2], *made.shape[n_batch + 1:]))
    made = _einsum(operands, [*batch, ELEMENT, *rest], dtype)
    return masked(made, in_range(indices, [sizes[n] for n in sparse]))


@planned
def bcoo_multiply_dense(sp_mat: BCOO, v: Any) -> Any:
    """The stored values of the product, element by element, of a BCOO and a dense array.

    Args:
      sp_mat: a BCOO array.
      v: an array that broadcasts to its shape.

    Returns:
      The data of a BCOO array with sp_mat's indices.

    Raises:
      NotImplementedError: v would make the product larger than sp_mat.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import sparse
      >>> sparse.bcoo_multiply_dense(sparse.eye(2), jnp.array([3., 4.]))
      Array([3., 4.], dtype=float32)
    """
    v = asarray(v)
    shape = sp_mat.shape
    fits = v.ndim <= len(shape) and all(
        n in (1, m) for n, m in zip(v.shape, shape[len(shape) - v.ndim:]))
    if not fits:
        raise NotImplementedError(explain(
            f"bcoo_multiply_dense: shapes {shape} and {v.shape}: the dense array must broadcast to "
            "the sparse one's shape.", fix="broadcast the sparse array first."))
    if v.ndim == 0 or v.size == 1:
        return sp_mat.data * v.reshape(())
    data, indices = whole(sp_mat)
    labels = list(range(len(shape)))
    kept = [i for i, n in enumerate(v.shape, len(shape) - v.ndim) if n != 1]
    v = v.reshape([shape[i] for i in kept])
    n_batch, n_sparse = sp_mat.n_batch, sp_mat.n_sparse
    batch, sparse = labels[:n_batch], labels[n_batch:n_batch + n_sparse]
    found, names, has_element = gathered(v, kept, batch, sparse, indices)
    rest = names[n_batch:] if has_element else [n for n in names if n not in batch]
    lead = found.shape[:n_batch + 1] if has_element else tuple(
        shape[b] if b in names else 1 for b in batch) + (1,)
    tail = tuple(shape[n] if n in rest else 1 for n in labels[n_batch + n_sparse:])
    return data * found.reshape(lead + tail)


@planned
def bcoo_multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    """The product, element by element, of two BCOO arrays.

    Args:
      lhs: a BCOO array.
      rhs: a BCOO array of lhs's shape.

    Returns:
      A BCOO array.

    Raises:
      ValueError: the shapes differ.

    Example:
      >>> from calque.experimental import sparse
      >>> sparse.bcoo_multiply_sparse(sparse.eye(2), sparse.eye(2)).todense()
      Array([[1., 0.],
             [0., 1.]], dtype=float32)
    """
    if lhs.shape != rhs.shape:
        raise ValueError(explain(
            f"bcoo_multiply_sparse: the shapes {lhs.shape} and {rhs.shape} differ.",
            fix="broadcast one of them: bcoo_broadcast_in_dim."))
    n_batch, n_dense = min(lhs.n_batch, rhs.n_batch), min(lhs.n_dense, rhs.n_dense)
    lhs, rhs = (bcoo_update_layout(m, n_batch=n_batch, n_dense=n_dense) for m in (lhs, rhs))
    li, _, agree = _pairs(lhs, rhs, [(k, k) for k in range(lhs.n_sparse)])
    nse = min(lhs.nse * rhs.nse, math.prod(parts(lhs)[1]))
    if lhs.unique_indices and rhs.unique_indices:
        nse = min(nse, lhs.nse, rhs.nse)
    return _of_pairs(lhs, rhs, agree, columns(li), lhs.shape, nse)
