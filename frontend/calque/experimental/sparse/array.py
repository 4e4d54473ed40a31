"""BCOO: an array as values and the places where they stand, and what needs no other operation.

data is [*batch, nse, *dense], indices [*batch, nse, sparse dimensions].  A place beyond the shape
is padding and counts for nothing; values at one place add up.  Operations are in dots.py and
shapes.py, operators in methods.py.  Start reading at `BCOO`.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.api.batching import vmap
from calque.core.errors import explain
from calque.core.trace import Tracer
from calque.dispatch.replay import plan_tree, planned
from calque.numpy import (
    arange,
    asarray,
    broadcast_shapes,
    broadcast_to,
    concatenate,
    cumsum,
    full,
    lexsort,
    nonzero,
    ones,
    take,
    where,
    zeros,
)
from calque.trees import util as tree_util

# What is out of range (negative, too) reads as zero, and is not written.
FILL: dict[str, Any] = {"mode": "fill", "fill_value": 0, "wrap_negative_indices": False}
DROP: dict[str, Any] = {"mode": "drop", "wrap_negative_indices": False}


class SparseEfficiencyError(ValueError):
    """What was asked for would store many zeros.

    Example:
      >>> from calque.experimental import sparse
      >>> issubclass(sparse.SparseEfficiencyError, ValueError)
      True
    """


class SparseEfficiencyWarning(UserWarning):
    """What was asked for stores many zeros.

    Example:
      >>> from calque.experimental import sparse
      >>> issubclass(sparse.SparseEfficiencyWarning, UserWarning)
      True
    """


class CuSparseEfficiencyWarning(SparseEfficiencyWarning):
    """JAX's warning of a slow path of cuSPARSE; never given here, which has no such path.

    Example:
      >>> from calque.experimental import sparse
      >>> issubclass(sparse.CuSparseEfficiencyWarning, sparse.SparseEfficiencyWarning)
      True
    """


class JAXSparse:
    """Base of the sparse formats: an array whose zeros are not stored.

    Args:
      args: the arrays that are stored.
      shape: the sizes of the array that they stand for.

    Example:
      >>> from calque.experimental import sparse
      >>> isinstance(sparse.eye(3), sparse.JAXSparse)
      True
    """

    __slots__ = ("shape",)
    __array_priority__ = 100  # NumPy's arrays leave `a @ M` to us
    __hash__ = None  # type: ignore[assignment]
    shape: tuple[int, ...]
    data: Any

    @property
    def dtype(self) -> Any:
        """The dtype of the values."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """How many dimensions the array has."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements the array has, zeros included."""
        return math.prod(self.shape)

    @property
    def nse(self) -> int:
        """How many elements are specified (in each batch)."""
        return int(self.data.shape[0])

    @property
    def T(self) -> Any:
        """The transpose."""
        return self.transpose()  # type: ignore[attr-defined]

    def __len__(self) -> int:
        return self.shape[0]

    def todense(self) -> Any:
        """The array with its zeros."""
        raise NotImplementedError

    def block_until_ready(self) -> Any:
        """Wait for the arrays that are stored."""
        for leaf in tree_util.tree_leaves(self):
            leaf.block_until_ready()
        return self

    def __repr__(self) -> str:
        name = type(self).__name__
        try:
            what = f"{self.dtype.name}[{', '.join(map(str, self.shape))}], nse={self.nse}"
            what = f"{name}({what}{self._layout()})"
        except (AttributeError, IndexError):  # leaves that are no arrays
            return f"{name}(<invalid>)"
        traced = isinstance(self.data, Tracer)
        return f"{type(self.data).__name__}[{what}]" if traced else what

    def _layout(self) -> str:
        """What repr says of batch and dense dimensions."""
        parts = [f", {n}={v}" for n in ("n_batch", "n_dense") if (v := getattr(self, n, 0))]
        return "".join(parts)


@plan_tree
@tree_util.register_pytree_node_class
class BCOO(JAXSparse):
    """An array in batched COO format: values, and the places where they stand.

    Args:
      args: data of shape [*batch, nse, *dense] and integers of shape [*batch, nse, n_sparse],
        the places; batch sizes may be 1 where shape's are more.  Indices beyond the shape are
        padding; values at one place add up.
      shape: the sizes: batch, sparse, then dense dimensions.
      indices_sorted: whether indices are in lexicographic order.
      unique_indices: whether no place is there twice.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import sparse
      >>> M = sparse.BCOO.fromdense(jnp.array([[0., 2., 0.], [1., 0., 4.]]))
      >>> M
      BCOO(float32[2, 3], nse=3)
      >>> M @ jnp.ones(3)
      Array([2., 5.], dtype=float32)
    """

    __slots__ = ("data", "indices", "indices_sorted", "unique_indices", "_nse")
    indices: Any
    _nse: int | None  # of a tree whose leaves are no arrays: that of the array it was made of
    indices_sorted: bool
    unique_indices: bool

    def __init__(self, args: tuple[Any, Any], *, shape: Sequence[int],
                 indices_sorted: bool = False, unique_indices: bool = False) -> None:
        self.data, self.indices = map(asarray, args)
        self.shape = tuple(map(int, shape))
        self.indices_sorted, self.unique_indices = indices_sorted, unique_indices
        _check(self)

    @property
    def nse(self) -> int:
        """How many elements are specified, in each batch."""
        return int(self.indices.shape[-2])

    @property
    def n_batch(self) -> int:
        """The number of batch dimensions."""
        return int(self.indices.ndim) - 2

    @property
    def n_sparse(self) -> int:
        """The number of sparse dimensions."""
        return int(self.indices.shape[-1])

    @property
    def n_dense(self) -> int:
        """The number of dense dimensions."""
        return int(self.data.ndim) - 1 - self.n_batch

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32,
                  n_dense: int = 0, n_batch: int = 0) -> BCOO:
        """The nonzero elements of an array: bcoo_fromdense."""
        return bcoo_fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense,
                              index_dtype=index_dtype)

    @classmethod
    def from_scipy_sparse(cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0,
                          n_batch: int = 0) -> BCOO:
        """The elements of a matrix of scipy.sparse."""
        if n_dense or n_batch:
            raise NotImplementedError(explain(
                f"BCOO.from_scipy_sparse: n_batch={n_batch}, n_dense={n_dense} of a SciPy matrix.",
                fix="leave both 0; then use bcoo_update_layout."))
        mat = mat.tocoo()
        indices = asarray(np.stack([mat.row, mat.col], -1)).astype(index_dtype or "int32")
        return cls((asarray(mat.data), indices), shape=mat.shape)

    @classmethod
    def _empty(cls, shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = "int32",
               n_dense: int = 0, n_batch: int = 0, nse: int = 0) -> BCOO:
        """All padding."""
        batch, sparse, dense = parted(shape, n_batch, n_dense)
        indices = broadcast_to(asarray(sparse, index_dtype), (*batch, nse, len(sparse)))
        return cls((zeros((*batch, nse, *dense), dtype), indices), shape=shape,
                   indices_sorted=True, unique_indices=True)

    def todense(self) -> Any:
        """The array with its zeros."""
        return bcoo_todense(self)

    def sort_indices(self) -> BCOO:
        """The same with indices in lexicographic order."""
        return bcoo_sort_indices(self)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
        """The same with every place once: bcoo_sum_duplicates."""
        return _summed(self, nse, remove_zeros)

    def with_data(self, data: Any) -> BCOO:
        """Other values at the same places."""
        return BCOO((data, self.indices), shape=self.shape, indices_sorted=self.indices_sorted,
                    unique_indices=self.unique_indices)

    def tree_flatten(self) -> tuple[tuple[Any, Any], Any]:
        """The arrays that are stored, and what else there is."""
        return (self.data, self.indices), (self.shape, _nse_of(self), self.indices_sorted,
                                           self.unique_indices)

    @classmethod
    def tree_unflatten(cls, aux: Any, children: Sequence[Any]) -> BCOO:
        """The array of its parts.  vmap takes a batch dimension off both, or puts one on."""
        self = cls.__new__(cls)
        self.data, self.indices = children
        self.shape, self._nse, self.indices_sorted, self.unique_indices = aux
        sizes, places = (getattr(v, "shape", None) for v in children)
        if isinstance(sizes, tuple) and isinstance(places, tuple):
            self.shape = _mapped_shape(self.shape, self._nse, sizes, places)
        return self


def _nse_of(mat: BCOO) -> int | None:
    places = getattr(mat.indices, "shape", None)
    return places[-2] if places and len(places) > 1 else getattr(mat, "_nse", None)


def _mapped_shape(shape: tuple[int, ...], nse: int | None, data: tuple[int, ...],
                  indices: tuple[int, ...]) -> tuple[int, ...]:
    """The shape, after vmap changed the number of batch dimensions of what is stored."""
    n_batch = len(indices) - 2
    ndim = len(data) - 1 + (indices[-1] if indices else 0)
    if ndim == len(shape) and n_batch >= 0:
        return shape
    if n_batch < 0 or len(data) <= n_batch or ndim < len(shape) and nse not in (None, indices[-2]):
        raise ValueError(explain(
            f"vmap of a BCOO array of shape {shape} takes away a dimension that is no batch "
            f"dimension: its parts have the shapes {data} and {indices}.",
            fix="map over leading batch dimensions; n_batch= of BCOO.fromdense or "
            "bcoo_update_layout makes one."))
    rest = len(data) - 1 - n_batch + indices[-1]
    try:
        batch = broadcast_shapes(data[:n_batch], indices[:n_batch])
    except ValueError:  # in vmap, before the new axes stand where they belong
        batch = data[:n_batch]
    return (*batch, *shape[len(shape) - rest:])


def _check(mat: BCOO) -> None:
    """Refuse parts that do not fit one another."""
    data, indices, shape = mat.data, mat.indices, mat.shape
    if indices.ndim < 2 or not np.issubdtype(indices.dtype, np.integer):
        raise ValueError(explain(
            f"BCOO: indices of shape {indices.shape} and dtype {indices.dtype.name} are no "
            "integers of shape [*batch, nse, n_sparse].",
            fix="give one row of integers for each element."))
    n_batch = mat.n_batch
    batch, sparse, dense = parted(shape, n_batch, len(shape) - n_batch - mat.n_sparse)
    try:
        fits = all(broadcast_shapes(v.shape[:n_batch], batch) == batch for v in (data, indices))
    except ValueError:
        fits = False
    if not fits or data.shape[n_batch:] != (mat.nse, *dense) or mat.n_sparse != len(sparse):
        raise ValueError(explain(
            f"BCOO: Invalid data.shape={data.shape}, indices.shape={indices.shape} for "
            f"shape={shape}, nse={mat.nse}, n_batch={n_batch}.",
            fix="data is [*batch, nse, *dense], indices [*batch, nse, n_sparse], and shape "
            "[*batch, *sparse, *dense]."))


def parted(shape: Sequence[int], n_batch: int, n_dense: int
           ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The sizes of batch, sparse and dense dimensions."""
    if n_batch < 0 or n_dense < 0 or n_batch + n_dense > len(shape):
        raise ValueError(explain(
            f"BCOO: n_batch={n_batch} and n_dense={n_dense} are invalid for shape {tuple(shape)}.",
            fix="give numbers that are not negative, together not more than there are dimensions."))
    shape = tuple(shape)
    end = len(shape) - n_dense
    return shape[:n_batch], shape[n_batch:end], shape[end:]


def parts(mat: BCOO) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The sizes of the batch, sparse and dense dimensions of an array."""
    return parted(mat.shape, mat.n_batch, mat.n_dense)


def whole(mat: BCOO) -> tuple[Any, Any]:
    """data and indices with the batch sizes of the shape."""
    batch = mat.shape[:mat.n_batch]
    data, indices = mat.data, mat.indices
    n = len(batch)
    if data.shape[:n] != batch:
        data = broadcast_to(data, (*batch, *data.shape[n:]))
    if indices.shape[:n] != batch:
        indices = broadcast_to(indices, (*batch, *indices.shape[n:]))
    return data, indices


def batched(f: Callable[..., Any], n_batch: int) -> Callable[..., Any]:
    """f over leading batch dimensions."""
    for _ in range(n_batch):
        f = vmap(f)
    return f


def in_range(indices: Any, sizes: Sequence[int]) -> Any:
    """Of each row of indices, whether it is a place; a bool array without the last dimension."""
    there = None
    for column, size in zip(columns(indices), sizes):  # (one by one: kernels have no small axes)
        inside = column >= 0
        if size <= np.iinfo(indices.dtype).max:
            inside &= column < size
        there = inside if there is None else there & inside
    return ones(indices.shape[:-1], bool) if there is None else there


def masked(data: Any, mask: Any) -> Any:
    """data [*batch, nse, *dense], zero where mask [*batch, nse] is False."""
    return where(mask.reshape(mask.shape + (1,) * (data.ndim - mask.ndim)), data,
                 zeros((), data.dtype))


def grid(batch: Sequence[int], n_after: int = 1) -> list[Any]:
    """For each batch dimension its positions, to be broadcast with [*batch, nse]."""
    n = len(batch)
    return [arange(size).reshape((size,) + (1,) * (n - i - 1 + n_after))
            for i, size in enumerate(batch)]


def columns(indices: Any) -> list[Any]:
    """The indices of each sparse dimension."""
    return [indices[..., k] for k in range(indices.shape[-1])]


@planned
def bcoo_todense(mat: BCOO) -> Any:
    """The array with its zeros.

    Args:
      mat: a BCOO array.

    Returns:
      An array of mat's shape and dtype.

    Raises:
      Nothing.

    Example:
      >>> from calque.experimental import sparse
      >>> sparse.bcoo_todense(sparse.eye(2))
      Array([[1., 0.],
             [0., 1.]], dtype=float32)
    """
    data, indices = whole(mat)
    batch, sparse, dense = parts(mat)
    if not sparse:
        return data.sum(len(batch), dtype=data.dtype)
    at = (*grid(batch), *columns(indices))
    return zeros(mat.shape, data.dtype).at[at].add(data, **DROP)


def placed(indices: Any, sizes: Sequence[int]) -> Any:
    """indices, with the sizes in the place of rows that are out of range (as padding has them)."""
    if not sizes or math.prod(indices.shape) == 0:
        return indices
    return where(in_range(indices, sizes)[..., None], indices, asarray(sizes, indices.dtype))


def bcoo_fromdense(mat: Any, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0,
                   index_dtype: Any = np.int32) -> BCOO:
    """The nonzero elements of an array, as BCOO.

    Args:
      mat: an array.
      nse: how many elements are stored in each batch; None: as many as there are (not in jit).
      n_batch: the number of leading batch dimensions.
      n_dense: the number of trailing dimensions that are stored whole.
      index_dtype: dtype of the indices.

    Returns:
      A BCOO array; where there are fewer nonzeros, the rest is padding.

    Raises:
      ConcretizationTypeError: nse is None inside jit.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import sparse
      >>> sparse.bcoo_fromdense(jnp.array([0., 3., 0.]), nse=2).indices.tolist()
      [[1], [3]]
    """
    mat = asarray(mat)
    batch, sparse, dense = parted(mat.shape, n_batch, n_dense)
    there = mat != 0
    if dense:
        there = there.any(tuple(range(-len(dense), 0)))
    if nse is None:
        counts = there.sum(tuple(range(len(batch), there.ndim)))
        nse = int(counts.max()) if math.prod(batch) else 0
    size = nse

    def find(mask: Any) -> Any:
        if not sparse:
            return zeros((size, 0), index_dtype)
        found = nonzero(mask, size=size, fill_value=sparse)
        return concatenate([f.reshape(size, 1) for f in found], -1).astype(index_dtype)
    indices = batched(find, n_batch)(there)
    data = taken(mat, indices, n_batch)
    if not sparse:  # the one element stands first; others are padding
        data = masked(data, broadcast_to(arange(size) == 0, data.shape[:n_batch + 1]))
    return BCOO((data, indices), shape=mat.shape, indices_sorted=True,
                unique_indices=True)


def taken(mat: Any, indices: Any, n_batch: int) -> Any:
    """The elements of an array at indices, zero out of range: [*batch, nse, *dense]."""
    n_sparse = indices.shape[-1]
    if not n_sparse:
        lead, rest = mat.shape[:n_batch], mat.shape[n_batch:]
        return broadcast_to(mat.reshape(*lead, 1, *rest), (*lead, indices.shape[-2], *rest))
    at = (*grid(mat.shape[:n_batch]), *columns(indices))
    return mat.at[at].get(**FILL)


@planned
def bcoo_extract(sparr: BCOO, arr: Any, *, assume_unique: bool | None = None) -> BCOO:
    """The elements of an array at the places of a BCOO array.

    Args:
      sparr: a BCOO array, whose places are taken.
      arr: an array of its shape.
      assume_unique: False: of a place that is there twice the second gives 0; None: as
        sparr.unique_indices says.

    Returns:
      A BCOO array with sparr's places.

    Raises:
      ValueError: the shapes differ.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import sparse
      >>> sparse.bcoo_extract(sparse.eye(2), jnp.arange(4.).reshape(2, 2)).data
      Array([0., 3.], dtype=float32)
    """
    arr = asarray(arr)
    if arr.shape != sparr.shape:
        raise ValueError(explain(
            f"bcoo_extract: the shapes {sparr.shape} and {arr.shape} differ.",
            fix="give an array of the shape of the sparse one."))
    _, indices = whole(sparr)
    data = taken(arr, indices, sparr.n_batch)
    unique = sparr.unique_indices if assume_unique is None else assume_unique
    if not unique:
        data = masked(data, batched(_first, sparr.n_batch)(indices))
    return sparr.with_data(data)


def _order(indices: Any) -> Any:
    """The permutation that sorts rows of indices lexicographically, equal ones as they stand."""
    return lexsort(tuple(indices[:, k] for k in reversed(range(indices.shape[1]))))


def _new(rows: Any) -> Any:
    """Of each sorted row, whether it differs from the one before it."""
    differs = (rows[1:] != rows[:-1]).any(-1)
    return concatenate([ones((min(1, rows.shape[0]),), bool), differs])


def _first(indices: Any) -> Any:
    """Of each row of indices, whether it is the first of its kind."""
    if not indices.shape[1]:
        return arange(indices.shape[0]) == 0
    order = _order(indices)
    return zeros(order.shape, bool).at[order].set(_new(take(indices, order, axis=0)))


@planned
def bcoo_sort_indices(mat: BCOO) -> BCOO:
    """The same array with its indices in lexicographic order.

    Args:
      mat: a BCOO array.

    Returns:
      A BCOO array with as many elements.

    Raises:
      Nothing.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import sparse
      >>> M = sparse.BCOO((jnp.array([1., 2.]), jnp.array([[3], [0]])), shape=(4,))
      >>> sparse.bcoo_sort_indices(M).data
      Array([2., 1.], dtype=float32)
    """
    if mat.indices_sorted:
        return mat
    if not mat.n_sparse:
        return BCOO((mat.data, mat.indices), shape=mat.shape, indices_sorted=True,
                    unique_indices=mat.unique_indices)

    def rank(indices: Any) -> Any:
        order = _order(indices)
        return order, take(indices, order, axis=0)

    def sort(data: Any, order: Any) -> Any:
        return take(data, order, axis=0)
    n, data = mat.n_batch, mat.data
    order, indices = batched(rank, n)(mat.indices)  # a pattern that batches share stays one
    batch = broadcast_shapes(data.shape[:n], order.shape[:n])
    data = batched(sort, n)(broadcast_to(data, (*batch, *data.shape[n:])),
                            broadcast_to(order, (*batch, *order.shape[n:])))
    return BCOO((data, indices), shape=mat.shape, indices_sorted=True,
                unique_indices=mat.unique_indices)


def bcoo_sum_duplicates(mat: BCOO, nse: int | None = None) -> BCOO:
    """The same array with every place once, in lexicographic order.

    Args:
      mat: a BCOO array.
      nse: how many elements are kept in each batch; None: as many as there are (not in jit).

    Returns:
      A BCOO array; what nse has too many is padding, elements beyond it are dropped.

    Raises:
      ConcretizationTypeError: nse is None inside jit.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import sparse
      >>> M = sparse.BCOO((jnp.array([1., 2.]), jnp.array([[3], [3]])), shape=(4,))
      >>> sparse.bcoo_sum_duplicates(M).data
      Array([3.], dtype=float32)
    """
    return _summed(mat, nse, True)


@planned
def _summed(mat: BCOO, nse: int | None, remove_zeros: bool) -> BCOO:
    data, indices = whole(mat)
    batch, sparse, dense = parts(mat)
    n_batch = len(batch)
    if not sparse:
        total = data.sum(n_batch, keepdims=True, dtype=data.dtype)
        size = 1 if nse is None else nse
        widths = [(0, 0)] * data.ndim
        widths[n_batch] = (0, max(size - 1, 0))
        spread = broadcast_to(total, (*batch, size, *dense))
        data = masked(spread, broadcast_to(arange(size) == 0, (*batch, size)))
        return BCOO((data, zeros((*batch, size, 0), indices.dtype)), shape=mat.shape,
                    indices_sorted=True, unique_indices=True)
    there = in_range(indices, sparse)
    if remove_zeros:
        nonzeros = data != 0
        there &= nonzeros.any(tuple(range(n_batch + 1, data.ndim))) if dense else nonzeros
    indices = where(there[..., None], indices, asarray(sparse, indices.dtype))
    data = masked(data, there)

    def rank(places: Any) -> tuple[Any, Any, Any]:
        order = _order(places)
        rows = take(places, order, axis=0)
        return order, rows, cumsum(_new(rows), dtype="int32") - 1
    order, rows, number = batched(rank, n_batch)(indices)
    if nse is None:
        kept = where(in_range(rows, sparse), number + 1, 0)
        nse = int(kept.max()) if math.prod(kept.shape) else 0
    size = nse

    def gather(values: Any, order: Any, rows: Any, number: Any) -> Any:
        into = zeros((size, *values.shape[1:]), values.dtype)
        places = full((size, len(sparse)), asarray(sparse, rows.dtype), rows.dtype)
        return (into.at[number].add(take(values, order, axis=0), mode="drop"),
                places.at[number].set(rows, mode="drop"))
    return BCOO(batched(gather, n_batch)(data, order, rows, number), shape=mat.shape,
                indices_sorted=True, unique_indices=True)
