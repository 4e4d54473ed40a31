"""What is a primitive in JAX and a function here: bcoo_todense_p, csr_matvec_p and their like.

Each takes the arrays that a sparse array stores, and what else there is of it as `spinfo` (an
object with shape, indices_sorted and unique_indices).  Start reading at `_bcoo`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calque.experimental.sparse.array import (
    BCOO,
    JAXSparse,
    bcoo_extract,
    bcoo_fromdense,
    bcoo_sort_indices,
    bcoo_todense,
)
from calque.experimental.sparse.dots import bcoo_dot_general, bcoo_dot_general_sampled
from calque.experimental.sparse.plain import (
    coo_fromdense,
    coo_matmat,
    coo_matvec,
    coo_todense,
    csr_fromdense,
    csr_matmat,
    csr_matvec,
    csr_todense,
)
from calque.experimental.sparse.rows import (
    BCSR,
    COO,
    CSR,
    bcsr_dot_general,
    bcsr_extract,
    bcsr_fromdense,
    bcsr_todense,
)
from calque.experimental.sparse.shapes import bcoo_transpose
from calque.lax.composed import Composed
from calque.numpy import zeros
from calque.trees.util import tree_unflatten


def _bcoo(data: Any, indices: Any, spinfo: Any) -> BCOO:
    return BCOO((data, indices), shape=spinfo.shape, indices_sorted=spinfo.indices_sorted,
                unique_indices=spinfo.unique_indices)


def _bcsr(parts: Sequence[Any], spinfo: Any) -> BCSR:
    return BCSR((parts[0], parts[1], parts[2]), shape=spinfo.shape,
                indices_sorted=spinfo.indices_sorted, unique_indices=spinfo.unique_indices)


def _stored(mat: BCOO) -> list[Any]:
    return [mat.data, mat.indices]


def _of_bcoo(f: Callable[..., BCOO]) -> Callable[..., list[Any]]:
    """A function from BCOO to BCOO, of what both store."""
    return lambda data, indices, *, spinfo, **params: _stored(
        f(_bcoo(data, indices, spinfo), **params))


def _bcsr_parts(mat: Any, **params: Any) -> list[Any]:
    made = bcsr_fromdense(mat, **params)
    return [made.data, made.indices, made.indptr]


def _extract(indices: Any, mat: Any, *, assume_unique: bool) -> Any:
    dense = mat.shape[indices.ndim - 2 + indices.shape[-1]:]
    pattern = BCOO((zeros((*indices.shape[:-1], *dense), mat.dtype), indices), shape=mat.shape)
    return bcoo_extract(pattern, mat, assume_unique=assume_unique).data


def _dot(data: Any, indices: Any, rhs: Any, *, lhs_spinfo: Any, **params: Any) -> Any:
    return bcoo_dot_general(_bcoo(data, indices, lhs_spinfo), rhs, **params)


def _spdot(*args: Any, lhs_spinfo: Any, rhs_spinfo: Any, **params: Any) -> list[Any]:
    data, indices, others, places = args
    return _stored(bcoo_dot_general(_bcoo(data, indices, lhs_spinfo),
                                    _bcoo(others, places, rhs_spinfo), **params))


def _todense(*parts: Any, tree: Any) -> Any:
    made = tree_unflatten(tree, parts)
    return made.todense() if isinstance(made, JAXSparse) else made


def _sum_duplicates(mat: BCOO, *, nse: int | None) -> BCOO:
    return mat.sum_duplicates(nse=nse, remove_zeros=False)


def _coo(data: Any, row: Any, col: Any, spinfo: Any) -> COO:
    return COO((data, row, col), shape=spinfo.shape)


def _coo_parts(mat: Any, *, nse: int, index_dtype: Any) -> list[Any]:
    made = coo_fromdense(mat, nse=nse, index_dtype=index_dtype)
    return [made.data, made.row, made.col]


def _csr_parts(mat: Any, *, nse: int, index_dtype: Any) -> list[Any]:
    made = csr_fromdense(mat, nse=nse, index_dtype=index_dtype)
    return [made.data, made.indices, made.indptr]


todense_p = Composed("todense", _todense)
bcoo_todense_p = Composed("bcoo_todense", lambda data, indices, *, spinfo: bcoo_todense(
    _bcoo(data, indices, spinfo)))
bcoo_fromdense_p = Composed("bcoo_fromdense", lambda mat, **params: _stored(
    bcoo_fromdense(mat, **params)), True)
bcoo_extract_p = Composed("bcoo_extract", _extract)
bcoo_transpose_p = Composed("bcoo_transpose", _of_bcoo(bcoo_transpose), True)
bcoo_sort_indices_p = Composed("bcoo_sort_indices", _of_bcoo(bcoo_sort_indices), True)
bcoo_sum_duplicates_p = Composed("bcoo_sum_duplicates", _of_bcoo(_sum_duplicates), True)
bcoo_dot_general_p = Composed("bcoo_dot_general", _dot)
bcoo_spdot_general_p = Composed("bcoo_spdot_general", _spdot, True)
bcoo_dot_general_sampled_p = Composed("bcoo_dot_general_sampled", bcoo_dot_general_sampled)
bcsr_todense_p = Composed("bcsr_todense", lambda *parts, spinfo: bcsr_todense(
    _bcsr(parts, spinfo)))
bcsr_fromdense_p = Composed("bcsr_fromdense", _bcsr_parts, True)
bcsr_extract_p = Composed("bcsr_extract", bcsr_extract)
bcsr_dot_general_p = Composed("bcsr_dot_general", lambda *args, lhs_spinfo, **params:
                              bcsr_dot_general(_bcsr(args[:3], lhs_spinfo), args[3], **params))
coo_fromdense_p = Composed("coo_fromdense", _coo_parts, multiple_results=True)
csr_fromdense_p = Composed("csr_fromdense", _csr_parts, multiple_results=True)
coo_todense_p = Composed("coo_todense", lambda data, row, col, *, spinfo: coo_todense(
    _coo(data, row, col, spinfo)))
csr_todense_p = Composed("csr_todense", lambda data, indices, indptr, *, shape: csr_todense(
    CSR((data, indices, indptr), shape=shape)))
coo_matvec_p = Composed("coo_matvec", lambda data, row, col, v, *, spinfo, transpose=False:
                         coo_matvec(_coo(data, row, col, spinfo), v, transpose))
coo_matmat_p = Composed("coo_matmat", lambda data, row, col, B, *, spinfo, transpose=False:
                         coo_matmat(_coo(data, row, col, spinfo), B, transpose=transpose))
csr_matvec_p = Composed(
    "csr_matvec", lambda data, indices, indptr, v, *, shape, transpose=False: csr_matvec(
        CSR((data, indices, indptr), shape=shape), v, transpose))
csr_matmat_p = Composed(
    "csr_matmat", lambda data, indices, indptr, B, *, shape, transpose=False: csr_matmat(
        CSR((data, indices, indptr), shape=shape), B, transpose=transpose))
