"""Inner functions of JAX's sparse arrays, which its tests call, by the public ones of calque."""
from __future__ import annotations

import collections
from typing import Any

from calque.experimental import sparse
from calque.experimental.sparse.methods import matmul

Info = collections.namedtuple("Info", "shape indices_sorted unique_indices",
                              defaults=(False, False))
COOInfo = collections.namedtuple("COOInfo", "shape rows_sorted cols_sorted",
                                 defaults=(False, False))


def _parts(kind: Any) -> Any:
    def fromdense(mat: Any, **kwargs: Any) -> Any:
        return tuple(kind.fromdense(mat, **kwargs).tree_flatten()[0])
    return fromdense


def _of(kind: Any, count: int) -> tuple[Any, Any, Any]:
    def made(args: Any, spinfo: Any, shape: Any) -> Any:
        return kind(args, shape=shape if spinfo is None else spinfo.shape)

    def todense(*args: Any, spinfo: Any = None, shape: Any = None) -> Any:
        return made(args, spinfo, shape).todense()

    def product(*args: Any, spinfo: Any = None, shape: Any = None, transpose: bool = False) -> Any:
        mat = made(args[:count], spinfo, shape)
        return matmul(mat.T if transpose else mat, args[count])
    return todense, product, made


def _extract(indices: Any, mat: Any, *, assume_unique: bool = True) -> Any:
    from calque.numpy import zeros
    b, s = indices.ndim - 2, indices.shape[-1]
    data = zeros((*mat.shape[:b], indices.shape[-2], *mat.shape[b + s:]), mat.dtype)
    pattern = sparse.BCOO((data, indices), shape=mat.shape)
    return sparse.bcoo_extract(pattern, mat, assume_unique=assume_unique).data


def _dot_general(data: Any, indices: Any, rhs: Any, *, dimension_numbers: Any, lhs_spinfo: Any,
                 preferred_element_type: Any = None) -> Any:
    lhs = sparse.BCOO((data, indices), shape=lhs_spinfo.shape)
    return sparse.bcoo_dot_general(lhs, rhs, dimension_numbers=dimension_numbers,
                                   preferred_element_type=preferred_element_type)


def _per_batch(mat: Any, n_batch: int = 0, n_dense: int = 0) -> Any:
    there = mat != 0
    if n_dense:
        there = there.any(tuple(range(mat.ndim - n_dense, mat.ndim)))
    return there.sum(tuple(range(n_batch, mat.ndim - n_dense)))


def _most(mat: Any, n_batch: int = 0, n_dense: int = 0) -> Any:
    counts = _per_batch(mat, n_batch, n_dense)
    return counts.max() if counts.size else 0


def _to_bcsr(indices: Any, *, shape: Any, index_dtype: Any = None) -> Any:
    from calque.numpy import zeros
    data = zeros((*indices.shape[:-1], *shape[indices.ndim:]))
    made = sparse.BCSR.from_bcoo(sparse.BCOO((data, indices), shape=shape))
    return made.indices, made.indptr


def _to_bcoo(indices: Any, indptr: Any, *, shape: Any) -> Any:
    from calque.numpy import zeros
    data = zeros((*indices.shape, *shape[indices.ndim + 1:]))
    return sparse.BCSR((data, indices, indptr), shape=shape).to_bcoo().indices


_csr, _coo, _bcoo, _bcsr = (_of(k, n) for k, n in (
    (sparse.CSR, 3), (sparse.COO, 3), (sparse.BCOO, 2), (sparse.BCSR, 3)))
NAMES: dict[str, dict[str, Any]] = {
    "bcoo": {"_bcoo_extract": _extract, "_bcoo_todense": _bcoo[0],
             "_bcoo_fromdense": _parts(sparse.BCOO), "_bcoo_dot_general": _dot_general},
    "bcsr": {"_bcsr_fromdense": _parts(sparse.BCSR), "_bcoo_to_bcsr": _to_bcsr,
             "_bcsr_to_bcoo": _to_bcoo},
    "csr": {"_csr_fromdense": _parts(sparse.CSR), "_csr_todense": _csr[0],
            "_csr_matvec": _csr[1], "_csr_matmat": _csr[1]},
    "coo": {"_coo_fromdense": _parts(sparse.COO), "_coo_todense": _coo[0], "COOInfo": COOInfo,
            "_coo_matvec": _coo[1], "_coo_matmat": _coo[1]},
    "util": {"SparseInfo": Info, "_count_stored_elements": _most,
             "_count_stored_elements_per_batch": _per_batch},
    "transform": {"sparsify": sparse.sparsify},
    # of kernels of GPUs
    "_lowerings": {"SUPPORTED_DATA_DTYPES": ("float32",)}}
