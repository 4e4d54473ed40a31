"""Functions of the plain formats: coo_fromdense, csr_matvec and their like."""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.experimental.sparse.methods import matmul
from calque.experimental.sparse.rows import COO, CSR


def coo_fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> COO:
    """The nonzero elements of a matrix, as COO.

    Args:
      mat: a matrix.
      nse: how many elements are stored; None: as many as there are (not in jit).
      index_dtype: dtype of the indices.

    Returns:
      A COO matrix.

    Raises:
      ValueError: mat is no matrix.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import sparse
      >>> sparse.coo_fromdense(jnp.eye(2))
      COO(float32[2, 2], nse=2)
    """
    made: COO = COO.fromdense(mat, nse=nse, index_dtype=index_dtype)
    return made


def coo_todense(mat: COO) -> Any:
    """The matrix with its zeros.

    Args:
      mat: a COO matrix.

    Returns:
      A dense matrix.

    Raises:
      Nothing.

    Example:
      >>> from calque.experimental import sparse
      >>> sparse.coo_todense(sparse.eye(2, sparse_format="coo"))
      Array([[1., 0.],
             [0., 1.]], dtype=float32)
    """
    return mat.todense()


def coo_matvec(mat: COO, v: Any, transpose: bool = False) -> Any:
    """The product of a COO matrix and a vector.

    Args:
      mat: a COO matrix.
      v: a vector.
      transpose: whether mat is transposed first.

    Returns:
      A vector.

    Raises:
      TypeError: the sizes differ.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import sparse
      >>> sparse.coo_matvec(sparse.eye(2, sparse_format="coo"), jnp.array([3., 4.]))
      Array([3., 4.], dtype=float32)
    """
    return matmul(mat.T if transpose else mat, v)


def coo_matmat(mat: COO, B: Any, *, transpose: bool = False) -> Any:
    """The product of a COO matrix and a dense matrix.

    Args:
      mat: a COO matrix.
      B: a matrix.
      transpose: whether mat is transposed first.

    Returns:
      A matrix.

    Raises:
      TypeError: the sizes differ.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import sparse
      >>> sparse.coo_matmat(sparse.eye(2, sparse_format="coo"), jnp.ones((2, 1)))
      Array([[1.],
             [1.]], dtype=float32)
    """
    return matmul(mat.T if transpose else mat, B)


def csr_fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSR:
    """The nonzero elements of a matrix, as CSR.

    Args:
      mat: a matrix.
      nse: how many elements are stored; None: as many as there are (not in jit).
      index_dtype: dtype of the indices.

    Returns:
      A CSR matrix.

    Raises:
      ValueError: mat is no matrix.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import sparse
      >>> sparse.csr_fromdense(jnp.eye(2))
      CSR(float32[2, 2], nse=2)
    """
    made: CSR = CSR.fromdense(mat, nse=nse, index_dtype=index_dtype)
    return made


def csr_todense(mat: CSR) -> Any:
    """The matrix with its zeros.

    Args:
      mat: a CSR matrix.

    Returns:
      A dense matrix.

    Raises:
      Nothing.

    Example:
      >>> from calque.experimental import sparse
      >>> sparse.csr_todense(sparse.eye(2, sparse_format="csr"))
      Array([[1., 0.],
             [0., 1.]], dtype=float32)
    """
    return mat.todense()


def csr_matvec(mat: CSR, v: Any, transpose: bool = False) -> Any:
    """The product of a CSR matrix and a vector.

    Args:
      mat: a CSR matrix.
      v: a vector.
      transpose: whether mat is transposed first.

    Returns:
      A vector.

    Raises:
      TypeError: the sizes differ.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import sparse
      >>> sparse.csr_matvec(sparse.eye(2, sparse_format="csr"), jnp.array([3., 4.]))
      Array([3., 4.], dtype=float32)
    """
    return matmul(mat.T if transpose else mat, v)


def csr_matmat(mat: CSR, B: Any, *, transpose: bool = False) -> Any:
    """The product of a CSR matrix and a dense matrix.

    Args:
      mat: a CSR matrix.
      B: a matrix.
      transpose: whether mat is transposed first.

    Returns:
      A matrix.

    Raises:
      TypeError: the sizes differ.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import sparse
      >>> sparse.csr_matmat(sparse.eye(2, sparse_format="csr"), jnp.ones((2, 1)))
      Array([[1.],
             [1.]], dtype=float32)
    """
    return matmul(mat.T if transpose else mat, B)
