"""The dtypes that lowering names.  Imports core.types only."""
from __future__ import annotations

import ml_dtypes
import numpy as np

from calque.core.types import Dtype

BOOL = np.dtype(bool)
I8, I16, I32, I64 = (np.dtype(f"i{n}") for n in (1, 2, 4, 8))
U8, U16, U32, U64 = (np.dtype(f"u{n}") for n in (1, 2, 4, 8))
F16, F32, F64 = (np.dtype(f"f{n}") for n in (2, 4, 8))
BF16 = np.dtype(ml_dtypes.bfloat16)
WIDENED = (BF16, F16, I8)  # of matrices that products with vectors read as f32 (kernels/gemm)
HALVES = (F16, BF16)  # computed in f32, rounded once at the end


def is_narrow(dtype: Dtype) -> bool:
    """Floats of 16 bits: what is folded is computed in f32."""
    return dtype in HALVES


def summed(dtype: Dtype) -> Dtype:
    """The dtype in which numbers are added up: halves in f32."""
    return F32 if dtype in HALVES else dtype


def signed(dtype: Dtype) -> Dtype:
    """The signed integer of an unsigned one's width; other dtypes as they are."""
    return np.dtype(f"i{dtype.itemsize}") if dtype.kind == "u" else dtype


def unsigned(dtype: Dtype) -> Dtype:
    """The unsigned integer of a dtype's width."""
    return np.dtype(f"u{dtype.itemsize}")
