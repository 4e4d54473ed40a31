"""experimental.sparse: array.py (BCOO), dots.py, convolve.py, shapes.py, slices.py, elementwise.py
(operations of BCOO arrays), rows.py (BCSR, COO, CSR, CSC; plain.py: functions of these), making.py
(eye, empty, random_bcoo), transform.py (sparsify), autodiff.py (grad, jacfwd, jacrev), methods.py
(operators), linalg.py (spsolve), eigen.py (lobpcg_standard), binding.py (bcoo_todense_p, ...)."""
from calque.experimental.sparse import linalg as linalg
from calque.experimental.sparse.array import BCOO as BCOO
from calque.experimental.sparse.array import CuSparseEfficiencyWarning as CuSparseEfficiencyWarning
from calque.experimental.sparse.array import JAXSparse as JAXSparse
from calque.experimental.sparse.array import SparseEfficiencyError as SparseEfficiencyError
from calque.experimental.sparse.array import SparseEfficiencyWarning as SparseEfficiencyWarning
from calque.experimental.sparse.array import bcoo_extract as bcoo_extract
from calque.experimental.sparse.array import bcoo_fromdense as bcoo_fromdense
from calque.experimental.sparse.array import bcoo_sort_indices as bcoo_sort_indices
from calque.experimental.sparse.array import bcoo_sum_duplicates as bcoo_sum_duplicates
from calque.experimental.sparse.array import bcoo_todense as bcoo_todense
from calque.experimental.sparse.autodiff import grad as grad
from calque.experimental.sparse.autodiff import jacfwd as jacfwd
from calque.experimental.sparse.autodiff import jacobian as jacobian
from calque.experimental.sparse.autodiff import jacrev as jacrev
from calque.experimental.sparse.autodiff import value_and_grad as value_and_grad
from calque.experimental.sparse.binding import bcoo_dot_general_p as bcoo_dot_general_p
from calque.experimental.sparse.binding import (
    bcoo_dot_general_sampled_p as bcoo_dot_general_sampled_p,
)
from calque.experimental.sparse.binding import bcoo_extract_p as bcoo_extract_p
from calque.experimental.sparse.binding import bcoo_fromdense_p as bcoo_fromdense_p
from calque.experimental.sparse.binding import bcoo_sort_indices_p as bcoo_sort_indices_p
from calque.experimental.sparse.binding import bcoo_spdot_general_p as bcoo_spdot_general_p
from calque.experimental.sparse.binding import bcoo_sum_duplicates_p as bcoo_sum_duplicates_p
from calque.experimental.sparse.binding import bcoo_todense_p as bcoo_todense_p
from calque.experimental.sparse.binding import bcoo_transpose_p as bcoo_transpose_p
from calque.experimental.sparse.binding import bcsr_dot_general_p as bcsr_dot_general_p
from calque.experimental.sparse.binding import bcsr_extract_p as bcsr_extract_p
from calque.experimental.sparse.binding import bcsr_fromdense_p as bcsr_fromdense_p
from calque.experimental.sparse.binding import bcsr_todense_p as bcsr_todense_p
from calque.experimental.sparse.binding import coo_fromdense_p as coo_fromdense_p
from calque.experimental.sparse.binding import coo_matmat_p as coo_matmat_p
from calque.experimental.sparse.binding import coo_matvec_p as coo_matvec_p
from calque.experimental.sparse.binding import coo_todense_p as coo_todense_p
from calque.experimental.sparse.binding import csr_fromdense_p as csr_fromdense_p
from calque.experimental.sparse.binding import csr_matmat_p as csr_matmat_p
from calque.experimental.sparse.binding import csr_matvec_p as csr_matvec_p
from calque.experimental.sparse.binding import csr_todense_p as csr_todense_p
from calque.experimental.sparse.binding import todense_p as todense_p
from calque.experimental.sparse.convolve import (
    bcoo_conv_general_dilated as bcoo_conv_general_dilated,
)
from calque.experimental.sparse.dots import bcoo_dot_general as bcoo_dot_general
from calque.experimental.sparse.dots import bcoo_dot_general_sampled as bcoo_dot_general_sampled
from calque.experimental.sparse.dots import bcoo_multiply_dense as bcoo_multiply_dense
from calque.experimental.sparse.dots import bcoo_multiply_sparse as bcoo_multiply_sparse
from calque.experimental.sparse.making import empty as empty
from calque.experimental.sparse.making import eye as eye
from calque.experimental.sparse.making import random_bcoo as random_bcoo
from calque.experimental.sparse.making import todense as todense
from calque.experimental.sparse.plain import coo_fromdense as coo_fromdense
from calque.experimental.sparse.plain import coo_matmat as coo_matmat
from calque.experimental.sparse.plain import coo_matvec as coo_matvec
from calque.experimental.sparse.plain import coo_todense as coo_todense
from calque.experimental.sparse.plain import csr_fromdense as csr_fromdense
from calque.experimental.sparse.plain import csr_matmat as csr_matmat
from calque.experimental.sparse.plain import csr_matvec as csr_matvec
from calque.experimental.sparse.plain import csr_todense as csr_todense
from calque.experimental.sparse.rows import BCSR as BCSR
from calque.experimental.sparse.rows import COO as COO
from calque.experimental.sparse.rows import CSC as CSC
from calque.experimental.sparse.rows import CSR as CSR
from calque.experimental.sparse.rows import bcsr_broadcast_in_dim as bcsr_broadcast_in_dim
from calque.experimental.sparse.rows import bcsr_concatenate as bcsr_concatenate
from calque.experimental.sparse.rows import bcsr_dot_general as bcsr_dot_general
from calque.experimental.sparse.rows import bcsr_extract as bcsr_extract
from calque.experimental.sparse.rows import bcsr_fromdense as bcsr_fromdense
from calque.experimental.sparse.rows import bcsr_sum_duplicates as bcsr_sum_duplicates
from calque.experimental.sparse.rows import bcsr_todense as bcsr_todense
from calque.experimental.sparse.shapes import bcoo_broadcast_in_dim as bcoo_broadcast_in_dim
from calque.experimental.sparse.shapes import bcoo_concatenate as bcoo_concatenate
from calque.experimental.sparse.shapes import bcoo_reduce_sum as bcoo_reduce_sum
from calque.experimental.sparse.shapes import bcoo_reshape as bcoo_reshape
from calque.experimental.sparse.shapes import bcoo_squeeze as bcoo_squeeze
from calque.experimental.sparse.shapes import bcoo_transpose as bcoo_transpose
from calque.experimental.sparse.shapes import bcoo_update_layout as bcoo_update_layout
from calque.experimental.sparse.slices import bcoo_dynamic_slice as bcoo_dynamic_slice
from calque.experimental.sparse.slices import bcoo_gather as bcoo_gather
from calque.experimental.sparse.slices import bcoo_rev as bcoo_rev
from calque.experimental.sparse.slices import bcoo_slice as bcoo_slice
from calque.experimental.sparse.transform import sparsify as sparsify

__all__ = ["BCOO", "BCSR", "COO", "CSC", "CSR", "CuSparseEfficiencyWarning", "JAXSparse",
           "SparseEfficiencyError", "SparseEfficiencyWarning", "bcoo_broadcast_in_dim",
           "bcoo_concatenate", "bcoo_conv_general_dilated", "bcoo_dot_general",
           "bcoo_dot_general_sampled", "bcoo_dynamic_slice", "bcoo_extract", "bcoo_fromdense",
           "bcoo_gather",
           "bcoo_multiply_dense", "bcoo_multiply_sparse", "bcoo_reduce_sum",
           "bcoo_reshape", "bcoo_rev", "bcoo_slice", "bcoo_sort_indices",
           "bcoo_squeeze", "bcoo_sum_duplicates", "bcoo_todense", "bcoo_transpose",
           "bcoo_update_layout", "bcsr_broadcast_in_dim", "bcsr_concatenate",
           "bcsr_dot_general", "bcsr_extract", "bcsr_fromdense", "bcsr_sum_duplicates",
           "bcsr_todense", "coo_fromdense", "coo_matmat", "coo_matvec", "coo_todense",
           "csr_fromdense", "csr_matmat", "csr_matvec", "csr_todense", "empty", "eye",
           "grad", "jacfwd", "jacobian", "jacrev", "linalg", "random_bcoo", "sparsify",
           "todense", "value_and_grad"]


def __dir__() -> list[str]:
    return __all__
