"""Sparse arrays made of nothing: eye, empty, random_bcoo; and todense of any of them."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from calque import random
from calque.api.checkpoint import checkpoint_name
from calque.core.errors import explain
from calque.core.trace import Tracer
from calque.experimental.sparse.array import BCOO, JAXSparse, batched, parted
from calque.experimental.sparse.rows import BCSR, COO, CSC, CSR
from calque.experimental.sparse.shapes import bcoo_update_layout
from calque.numpy import arange, asarray, ones, stack, zeros

DENSE_MARK = "calque.sparse.todense"  # names the values that sparsify makes dense
FORMATS: dict[str, Any] = {"bcoo": BCOO, "bcsr": BCSR, "coo": COO, "csr": CSR, "csc": CSC}


def _format(sparse_format: str) -> Any:
    if sparse_format not in FORMATS:
        raise ValueError(explain(
            f"sparse_format={sparse_format!r} not recognized; must be one of {list(FORMATS)}.",
            fix="sparse_format='bcoo'."))
    return FORMATS[sparse_format]


def todense(arr: Any) -> Any:
    """The array with its zeros; a dense array as it is.

    Args:
      arr: a sparse or dense array.

    Returns:
      A dense array.

    Raises:
      Nothing.

    Example:
      >>> from calque.experimental import sparse
      >>> sparse.todense(sparse.eye(2))
      Array([[1., 0.],
             [0., 1.]], dtype=float32)
    """
    if isinstance(arr, JAXSparse):
        return arr.todense()
    return checkpoint_name(arr, DENSE_MARK) if isinstance(arr, Tracer) else asarray(arr)


def empty(shape: Sequence[int], dtype: Any = None, index_dtype: Any = "int32",
          sparse_format: str = "bcoo", **kwds: Any) -> Any:
    """A sparse array of zeros.

    Args:
      shape: its sizes.
      dtype: of the values; None: float32.
      index_dtype: of the indices.
      sparse_format: "bcoo", "bcsr", "coo", "csr" or "csc".
      **kwds: of "bcoo": n_batch, n_dense, nse.

    Returns:
      A sparse array with nse=0.

    Raises:
      ValueError: the format is none of these.

    Example:
      >>> from calque.experimental import sparse
      >>> sparse.empty((2, 3))
      BCOO(float32[2, 3], nse=0)
    """
    return _format(sparse_format)._empty(tuple(shape), dtype=dtype, index_dtype=index_dtype, **kwds)


def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = None, index_dtype: Any = "int32",
        sparse_format: str = "bcoo", **kwds: Any) -> Any:
    """The sparse matrix with ones on a diagonal.

    Args:
      N: the number of rows.
      M: the number of columns; None: N.
      k: which diagonal: 0 is the main one, positive ones are above it.
      dtype: of the values; None: float32.
      index_dtype: of the indices.
      sparse_format: "bcoo", "bcsr", "coo", "csr" or "csc".
      **kwds: of "bcoo": n_batch, n_dense.

    Returns:
      A sparse matrix.

    Raises:
      ValueError: the format is none of these.

    Example:
      >>> from calque.experimental import sparse
      >>> sparse.eye(2, 3, 1).todense()
      Array([[0., 1., 0.],
             [0., 0., 1.]], dtype=float32)
    """
    kind, M = _format(sparse_format), N if M is None else M
    length = max(0, min(N + min(k, 0), M - max(k, 0)))
    row = arange(length, dtype=index_dtype) + asarray(max(-k, 0), index_dtype)
    col = arange(length, dtype=index_dtype) + asarray(max(k, 0), index_dtype)
    made = BCOO((ones((length,), dtype), stack([row, col], -1)), shape=(N, M), indices_sorted=True,
                unique_indices=True)
    if kind is not BCOO:
        return kind.from_bcoo(made)
    n_batch, n_dense = kwds.get("n_batch", 0), kwds.get("n_dense", 0)
    if n_batch and not n_dense:  # one element of each row
        return bcoo_update_layout(made, n_batch=n_batch, on_inefficient=None).sum_duplicates(
            nse=1 if length else 0)
    return bcoo_update_layout(made, n_batch=n_batch, n_dense=n_dense, on_inefficient=None)


def random_bcoo(key: Any, shape: Sequence[int], *, dtype: Any = float, indices_dtype: Any = None,
                nse: float = 0.2, n_batch: int = 0, n_dense: int = 0, unique_indices: bool = True,
                sorted_indices: bool = False, generator: Callable[..., Any] = random.uniform,
                **kwds: Any) -> BCOO:
    """A BCOO array with random values at random places.

    Args:
      key: a key of calque.random.
      shape: the sizes.
      dtype: of the values.
      indices_dtype: of the indices; None: int32.
      nse: how many elements are stored in each batch; below 1 the part of the sparse dimensions.
      n_batch: the number of batch dimensions.
      n_dense: the number of dense dimensions.
      unique_indices: whether places are different.
      sorted_indices: whether they are in lexicographic order.
      generator: makes values of a key, a shape and a dtype.
      **kwds: more for generator.

    Returns:
      A BCOO array.

    Raises:
      ValueError: nse or the numbers of dimensions do not fit the shape.

    Example:
      >>> import calque
      >>> from calque.experimental import sparse
      >>> sparse.random_bcoo(calque.random.key(0), (4, 5), dtype="float32")
      BCOO(float32[4, 5], nse=4)
    """
    batch, sparse, dense = parted(tuple(map(int, shape)), n_batch, n_dense)
    count = math.prod(sparse)
    size = int(math.ceil(nse * count)) if 0 < nse < 1 else int(nse)
    if nse < 0 or unique_indices and size > count:
        raise ValueError(explain(
            f"random_bcoo: got nse={nse} for {count} sparse places.",
            fix="give a number between 0 and that of places, or a part below 1."))
    data_key, index_key = random.split(key)

    def places(key: Any) -> Any:
        if not sparse:
            return zeros((size, 0), indices_dtype or "int32")
        flat = (random.permutation(key, count)[:size] if unique_indices
                else random.randint(key, (size,), 0, max(count, 1)))
        made = []
        for n in reversed(sparse):
            made.append(flat % max(n, 1))
            flat = flat // max(n, 1)
        return stack(made[::-1], -1).astype(indices_dtype or "int32")
    keys = random.split(index_key, max(math.prod(batch), 1))
    keys = keys.reshape(*batch, *keys.shape[1:])
    indices = batched(places, n_batch)(keys)
    data = generator(data_key, shape=(*batch, size, *dense), dtype=dtype, **kwds)
    made = BCOO((data, indices), shape=(*batch, *sparse, *dense), unique_indices=unique_indices)
    return made.sort_indices() if sorted_indices else made
