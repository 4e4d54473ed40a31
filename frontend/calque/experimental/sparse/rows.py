"""BCSR, and the plain formats COO, CSR and CSC: BCOO arrays with their indices written otherwise.

Each goes to BCOO and comes from it (`to_bcoo`, `from_bcoo`), which computes.  Start at `BCSR`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core.errors import explain
from calque.dispatch.replay import plan_tree, planned
from calque.experimental.sparse.array import (
    BCOO,
    DROP,
    JAXSparse,
    batched,
    bcoo_extract,
    bcoo_fromdense,
    bcoo_sum_duplicates,
    in_range,
    placed,
    whole,
)
from calque.experimental.sparse.dots import bcoo_dot_general
from calque.experimental.sparse.shapes import (
    bcoo_broadcast_in_dim,
    bcoo_concatenate,
    bcoo_transpose,
)
from calque.numpy import (
    asarray,
    bincount,
    concatenate,
    cumsum,
    stack,
    where,
    zeros,
)
from calque.trees import util as tree_util


def _rows(indptr: Any, nse: int) -> Any:
    """The row of each element; beyond the last one: the number of rows."""
    starts = zeros(nse, indptr.dtype).at[indptr[1:]].add(1, **DROP)
    return cumsum(starts, dtype=indptr.dtype)


def _indptr(row: Any, n_rows: int) -> Any:
    """Where each row starts, of sorted rows; padding stands at the end."""
    inside = (row >= 0) & (row < n_rows)
    counts = bincount(where(inside, row, n_rows), length=n_rows + 1)[:n_rows]
    return concatenate([zeros((1,), row.dtype), cumsum(counts, dtype=row.dtype)])


@plan_tree
@tree_util.register_pytree_node_class
class BCSR(JAXSparse):
    """An array in batched CSR format: two sparse dimensions, rows and columns.

    Args:
      args: data [*batch, nse, *dense], indices [*batch, nse] (columns) and indptr
        [*batch, rows + 1] (where each row starts).
      shape: the sizes: batch, two sparse, then dense dimensions.
      indices_sorted: whether columns are in order in each row.
      unique_indices: whether no place is there twice.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import sparse
      >>> M = sparse.BCSR.fromdense(jnp.array([[0., 2.], [1., 0.]]))
      >>> M, M @ jnp.array([1., 3.])
      (BCSR(float32[2, 2], nse=2), Array([6., 1.], dtype=float32))
    """

    __slots__ = ("data", "indices", "indptr", "indices_sorted", "unique_indices")

    def __init__(self, args: tuple[Any, Any, Any], *, shape: Sequence[int],
                 indices_sorted: bool = False, unique_indices: bool = False) -> None:
        self.data, self.indices, self.indptr = map(asarray, args)
        self.shape = tuple(map(int, shape))
        self.indices_sorted, self.unique_indices = indices_sorted, unique_indices
        b = self.n_batch
        if self.indices.ndim != b + 1 or len(self.shape) != b + 2 + self.n_dense or (
                self.indptr.shape[-1] != self.shape[b] + 1
                or self.data.shape[b:b + 1] != self.indices.shape[b:]):
            raise ValueError(explain(
                f"BCSR: Invalid data.shape={self.data.shape}, indices.shape={self.indices.shape}, "
                f"indptr.shape={self.indptr.shape} for shape={self.shape}.",
                fix="data is [*batch, nse, *dense], indices [*batch, nse], indptr [*batch, "
                "rows + 1]."))

    @property
    def nse(self) -> int:
        """How many elements are specified, in each batch."""
        return int(self.indices.shape[-1])

    @property
    def n_batch(self) -> int:
        """The number of batch dimensions."""
        return int(self.indices.ndim) - 1

    @property
    def n_sparse(self) -> int:
        """The number of sparse dimensions: 2."""
        return 2

    @property
    def n_dense(self) -> int:
        """The number of dense dimensions."""
        return int(self.data.ndim) - self.n_batch - 1

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32,
                  n_dense: int = 0, n_batch: int = 0) -> BCSR:
        """The nonzero elements of an array: bcsr_fromdense."""
        return bcsr_fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense,
                              index_dtype=index_dtype)

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> BCSR:
        """The same array, row by row."""
        if arr.n_sparse != 2:
            raise NotImplementedError(explain(
                f"BCSR.from_bcoo: the array has n_sparse={arr.n_sparse}.",
                fix="give one with two sparse dimensions: bcoo_update_layout."))
        b = arr.n_batch
        if not arr.indices_sorted:  # (what is out of range comes last)
            arr = BCOO((arr.data, placed(arr.indices, arr.shape[b:b + 2])), shape=arr.shape,
                       unique_indices=arr.unique_indices).sort_indices()
        data, indices = whole(arr)
        rows, cols = arr.shape[b:b + 2]
        inside = in_range(indices, (rows, cols))
        indptr = batched(lambda r: _indptr(r, rows), b)(where(inside, indices[..., 0], rows))
        return cls((data, where(inside, indices[..., 1], cols), indptr), shape=arr.shape,
                   indices_sorted=True, unique_indices=arr.unique_indices)

    @classmethod
    def from_scipy_sparse(cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0,
                          n_batch: int = 0) -> BCSR:
        """The elements of a matrix of scipy.sparse."""
        return cls.from_bcoo(BCOO.from_scipy_sparse(
            mat, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch))

    @classmethod
    def _empty(cls, shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = "int32",
               n_dense: int = 0, n_batch: int = 0, nse: int = 0) -> BCSR:
        return cls.from_bcoo(BCOO._empty(shape, dtype=dtype, index_dtype=index_dtype,
                                         n_dense=n_dense, n_batch=n_batch, nse=nse))

    def to_bcoo(self) -> BCOO:
        """The same array as BCOO."""
        row = batched(lambda p: _rows(p, self.nse), self.n_batch)(self.indptr)
        return BCOO((self.data, stack([row, self.indices.astype(row.dtype)], -1)),
                    shape=self.shape, indices_sorted=self.indices_sorted,
                    unique_indices=self.unique_indices)

    def todense(self) -> Any:
        """The array with its zeros."""
        return self.to_bcoo().todense()

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCSR:
        """The same with every place once."""
        return BCSR.from_bcoo(self.to_bcoo().sum_duplicates(nse, remove_zeros))

    def transpose(self, *args: Any, **kwargs: Any) -> Any:
        """Not for this format."""
        raise NotImplementedError(explain(
            "Tranpose is not implemented: BCSR.transpose.",
            fix="BCSR.from_bcoo(M.to_bcoo().transpose())."))

    def tree_flatten(self) -> tuple[tuple[Any, Any, Any], Any]:
        """The arrays that are stored, and what else there is."""
        return (self.data, self.indices, self.indptr), (self.shape, self.indices_sorted,
                                                        self.unique_indices)

    @classmethod
    def tree_unflatten(cls, aux: Any, children: Sequence[Any]) -> BCSR:
        """The array of its parts; vmap takes batch dimensions off and puts them on."""
        self = cls.__new__(cls)
        self.data, self.indices, self.indptr = children
        self.shape, self.indices_sorted, self.unique_indices = aux
        sizes, places = (getattr(v, "shape", None) for v in children[:2])
        if isinstance(sizes, tuple) and isinstance(places, tuple):
            missing = len(sizes) + 1 - len(self.shape)
            if missing and len(places) < 1:
                raise ValueError(explain(
                    f"vmap of a BCSR array of shape {self.shape} takes away a dimension that is no "
                    "batch dimension.", fix="map over leading batch dimensions."))
            rest = len(sizes) - len(places) + 2
            if missing:
                self.shape = (*places[:-1], *self.shape[len(self.shape) - rest:])
        return self


def bcsr_fromdense(mat: Any, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0,
                   index_dtype: Any = np.int32) -> BCSR:
    """The nonzero elements of an array, as BCSR.

    Args:
      mat: an array.
      nse: how many elements are stored in each batch; None: as many as there are (not in jit).
      n_batch: the number of leading batch dimensions.
      n_dense: the number of trailing dimensions that are stored whole.
      index_dtype: dtype of the indices.

    Returns:
      A BCSR array.

    Raises:
      NotImplementedError: the number of sparse dimensions is not 2.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import sparse
      >>> sparse.bcsr_fromdense(jnp.eye(2)).indptr.tolist()
      [0, 1, 2]
    """
    return BCSR.from_bcoo(bcoo_fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense,
                                         index_dtype=index_dtype))


@planned
def bcsr_todense(mat: BCSR) -> Any:
    """The array with its zeros.

    Args:
      mat: a BCSR array.

    Returns:
      A dense array.

    Raises:
      Nothing.

    Example:
      >>> from calque.experimental import sparse
      >>> sparse.bcsr_todense(sparse.eye(2, sparse_format="bcsr"))
      Array([[1., 0.],
             [0., 1.]], dtype=float32)
    """
    return mat.todense()


@planned
def bcsr_extract(indices: Any, indptr: Any, mat: Any) -> Any:
    """The elements of a dense array at the places of a BCSR array.

    Args:
      indices: [*batch, nse] columns.
      indptr: [*batch, rows + 1] where rows start.
      mat: a dense array.

    Returns:
      The data of a BCSR array.

    Raises:
      Nothing.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import sparse
      >>> M = sparse.eye(2, sparse_format="bcsr")
      >>> sparse.bcsr_extract(M.indices, M.indptr, jnp.arange(4.).reshape(2, 2))
      Array([0., 3.], dtype=float32)
    """
    mat, indices, indptr = map(asarray, (mat, indices, indptr))
    b = indices.ndim - 1
    data = zeros((*indices.shape, *mat.shape[b + 2:]), mat.dtype)
    pattern = BCSR((data, indices, indptr), shape=mat.shape).to_bcoo()
    return bcoo_extract(pattern, mat, assume_unique=True).data


@planned
def bcsr_dot_general(lhs: Any, rhs: Any, *, dimension_numbers: Any, precision: Any = None,
                     preferred_element_type: Any = None, out_sharding: Any = None) -> Any:
    """lax.dot_general of arrays of which one or both are BCSR.

    Args:
      lhs: a BCSR or a dense array.
      rhs: a BCSR or a dense array.
      dimension_numbers: as dot_general has them.
      precision: accepted and not used.
      preferred_element_type: the result's dtype, or None.
      out_sharding: accepted and not used.

    Returns:
      A dense array; of two BCSR arrays a BCSR array.

    Raises:
      TypeError: the dimensions do not fit.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import sparse
      >>> M = sparse.eye(2, sparse_format="bcsr")
      >>> sparse.bcsr_dot_general(M, jnp.array([3., 4.]),
      ...                         dimension_numbers=(([1], [0]), ([], [])))
      Array([3., 4.], dtype=float32)
    """
    made = bcoo_dot_general(as_bcoo(lhs), as_bcoo(rhs), dimension_numbers=dimension_numbers,
                            preferred_element_type=preferred_element_type)
    return BCSR.from_bcoo(made) if isinstance(made, BCOO) else made


def bcsr_sum_duplicates(mat: BCSR, nse: int | None = None) -> BCSR:
    """The same array with every place once, in each row by its column.

    Args:
      mat: a BCSR array.
      nse: how many elements are kept in each batch; None: as many as there are (not in jit).

    Returns:
      A BCSR array; what nse has too many is padding, elements beyond it are dropped.

    Raises:
      ConcretizationTypeError: nse is None inside jit.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import sparse
      >>> M = sparse.BCSR((jnp.array([1., 2.]), jnp.array([3, 3]), jnp.array([0, 2])), shape=(1, 4))
      >>> sparse.bcsr_sum_duplicates(M).data
      Array([3.], dtype=float32)
    """
    return BCSR.from_bcoo(bcoo_sum_duplicates(mat.to_bcoo(), nse))


@planned
def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """BCSR arrays one after the other along a batch or sparse dimension.

    Args:
      operands: BCSR arrays with the same numbers of batch and dense dimensions.
      dimension: the dimension along which they are put together.

    Returns:
      A BCSR array.

    Raises:
      ValueError: shapes or layouts differ.
      NotImplementedError: the dimension is a dense one.

    Example:
      >>> from calque.experimental import sparse
      >>> M = sparse.eye(2, sparse_format="bcsr")
      >>> sparse.bcsr_concatenate([M, M], dimension=1).shape
      (2, 4)
    """
    return BCSR.from_bcoo(bcoo_concatenate([m.to_bcoo() for m in operands], dimension=dimension))


@planned
def bcsr_broadcast_in_dim(mat: BCSR, *, shape: Sequence[int], broadcast_dimensions: Sequence[int],
                          sharding: Any = None) -> BCSR:
    """The array repeated along new dimensions and those of size 1.

    Args:
      mat: a BCSR array.
      shape: the shape of the result.
      broadcast_dimensions: where in it each dimension of the array goes.
      sharding: accepted and not used.

    Returns:
      A BCSR array; new dimensions before the rows are batch dimensions.

    Raises:
      ValueError: the shape does not fit.
      NotImplementedError: the result would have more than two sparse dimensions.

    Example:
      >>> from calque.experimental import sparse
      >>> M = sparse.eye(2, sparse_format="bcsr")
      >>> sparse.bcsr_broadcast_in_dim(M, shape=(3, 2, 2), broadcast_dimensions=(1, 2)).n_batch
      1
    """
    return BCSR.from_bcoo(bcoo_broadcast_in_dim(
        mat.to_bcoo(), shape=shape, broadcast_dimensions=broadcast_dimensions))


def as_bcoo(x: Any) -> Any:
    """A sparse array of any format as BCOO; others as they are."""
    return x if isinstance(x, BCOO) or not isinstance(x, JAXSparse) else (
        x.to_bcoo())  # type: ignore[attr-defined]


class _Plain(JAXSparse):
    """What COO, CSR and CSC have in common: matrices without batch dimensions."""

    __slots__ = ()

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> Any:
        """The nonzero elements of a matrix."""
        mat = asarray(mat)
        if mat.ndim != 2:
            raise ValueError(explain(
                f"{cls.__name__}.fromdense: the array has the shape {mat.shape}.",
                fix="give a matrix, or use BCOO."))
        return cls.from_bcoo(bcoo_fromdense(mat, nse=nse, index_dtype=index_dtype))

    @classmethod
    def _empty(cls, shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = "int32") -> Any:
        return cls.from_bcoo(BCOO._empty(shape, dtype=dtype, index_dtype=index_dtype))

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> Any:
        """The same matrix in this format."""
        raise NotImplementedError

    def to_bcoo(self) -> BCOO:
        """The same matrix as BCOO."""
        raise NotImplementedError

    def todense(self) -> Any:
        """The matrix with its zeros."""
        return self.to_bcoo().todense()

    @classmethod
    def _made(cls, args: Sequence[Any], **aux: Any) -> Any:
        self = cls.__new__(cls)
        for name, value in zip(cls._fields(), args):
            setattr(self, name, value)
        for name, value in aux.items():
            setattr(self, name, value)
        return self

    @classmethod
    def _fields(cls) -> tuple[str, ...]:
        return ("data", "indices", "indptr")

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        """The arrays that are stored, and the shape."""
        return tuple(getattr(self, n) for n in self._fields()), (self.shape,)

    @classmethod
    def tree_unflatten(cls, aux: Any, children: Sequence[Any]) -> Any:
        """The matrix of its parts."""
        return cls._made(children, shape=aux[0])


@plan_tree
@tree_util.register_pytree_node_class
class COO(_Plain):
    """A matrix as values, rows and columns.

    Args:
      args: data, row and col, of one length.
      shape: the two sizes.
      rows_sorted: whether rows are in order.
      cols_sorted: whether columns are in order.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import sparse
      >>> sparse.COO.fromdense(jnp.eye(2)) @ jnp.array([1., 3.])
      Array([1., 3.], dtype=float32)
    """

    __slots__ = ("data", "row", "col", "_rows_sorted", "_cols_sorted")

    def __init__(self, args: Sequence[Any], *, shape: Sequence[int], rows_sorted: bool = False,
                 cols_sorted: bool = False) -> None:
        self.data, self.row, self.col = map(asarray, args)
        self.shape = tuple(map(int, shape))
        self._rows_sorted, self._cols_sorted = rows_sorted, cols_sorted

    @classmethod
    def _fields(cls) -> tuple[str, ...]:
        return ("data", "row", "col")

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> COO:
        """The same matrix in this format."""
        return cls((arr.data, arr.indices[:, 0], arr.indices[:, 1]), shape=arr.shape,
                   rows_sorted=arr.indices_sorted)

    def to_bcoo(self) -> BCOO:
        """The same matrix as BCOO."""
        return BCOO((self.data, stack([self.row, self.col], -1)), shape=self.shape)

    def transpose(self, axes: Sequence[int] | None = None) -> COO:
        """The transpose."""
        _only_reversed("COO", axes)
        return COO((self.data, self.col, self.row), shape=self.shape[::-1],
                   rows_sorted=self._cols_sorted, cols_sorted=self._rows_sorted)

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        """The arrays that are stored, and what else there is."""
        return (self.data, self.row, self.col), (self.shape, self._rows_sorted, self._cols_sorted)

    @classmethod
    def tree_unflatten(cls, aux: Any, children: Sequence[Any]) -> COO:
        """The matrix of its parts."""
        made: COO = cls._made(children, shape=aux[0], _rows_sorted=aux[1], _cols_sorted=aux[2])
        return made


def _only_reversed(name: str, axes: Any) -> None:
    if axes is not None and tuple(axes) not in ((1, 0), (-1, -2)):
        raise NotImplementedError(explain(
            f"{name}.transpose: axes={tuple(axes)}.", fix="leave axes out, or use BCOO."))


@plan_tree
@tree_util.register_pytree_node_class
class CSR(_Plain):
    """A matrix row by row: values, columns, and where each row starts.

    Args:
      args: data, indices and indptr.
      shape: the two sizes.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import sparse
      >>> sparse.CSR.fromdense(jnp.eye(2)) @ jnp.array([1., 3.])
      Array([1., 3.], dtype=float32)
    """

    __slots__ = ("data", "indices", "indptr")

    def __init__(self, args: Sequence[Any], *, shape: Sequence[int]) -> None:
        self.data, self.indices, self.indptr = map(asarray, args)
        self.shape = tuple(map(int, shape))

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> CSR:
        """The same matrix in this format."""
        by_row = BCSR.from_bcoo(arr)
        return cls((by_row.data, by_row.indices, by_row.indptr), shape=arr.shape)

    def to_bcoo(self) -> BCOO:
        """The same matrix as BCOO."""
        return BCSR((self.data, self.indices, self.indptr), shape=self.shape).to_bcoo()

    def transpose(self, axes: Sequence[int] | None = None) -> CSC:
        """The transpose, of the same arrays."""
        _only_reversed("CSR", axes)
        return CSC((self.data, self.indices, self.indptr), shape=self.shape[::-1])


@plan_tree
@tree_util.register_pytree_node_class
class CSC(_Plain):
    """A matrix column by column: values, rows, and where each column starts.

    Args:
      args: data, indices and indptr.
      shape: the two sizes.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import sparse
      >>> sparse.CSC.fromdense(jnp.eye(2)) @ jnp.array([1., 3.])
      Array([1., 3.], dtype=float32)
    """

    __slots__ = ("data", "indices", "indptr")

    def __init__(self, args: Sequence[Any], *, shape: Sequence[int]) -> None:
        self.data, self.indices, self.indptr = map(asarray, args)
        self.shape = tuple(map(int, shape))

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> CSC:
        """The same matrix in this format."""
        return CSR.from_bcoo(bcoo_transpose(arr, permutation=(1, 0))).transpose()

    def to_bcoo(self) -> BCOO:
        """The same matrix as BCOO."""
        by_row = CSR((self.data, self.indices, self.indptr), shape=self.shape[::-1]).to_bcoo()
        return BCOO((by_row.data, by_row.indices[:, ::-1]), shape=self.shape)

    def transpose(self, axes: Sequence[int] | None = None) -> CSR:
        """The transpose, of the same arrays."""
        _only_reversed("CSC", axes)
        return CSR((self.data, self.indices, self.indptr), shape=self.shape[::-1])
