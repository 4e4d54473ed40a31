"""How close is close: one table of tolerances, and the comparison that uses it.

Imports NumPy and ml_dtypes only: carried.py takes this file to machines that have nothing else.
"""
from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

# relative error allowed per dtype, against the correctly rounded value
TOLERANCES: dict[str, float] = {
    "bool": 0.0,        # exact
    "int": 0.0,         # exact, wrap-around included
    "float8": 0.0,      # values only move or are rounded once
    "float16": 2**-9,   # computed in f32, rounded once; the oracle rounds f64: 1 ulp apart at most
    "bfloat16": 2**-7,  # as float16
    "float32": 3e-6,    # elementwise <= 4 ulp (tests/lowering/test_math_float.py says how many),
                        # the rest is headroom for sums of some hundred terms
    "float64": 5e-14,   # erf_inv and reductions lose the most
    "complex64": 6e-6,  # relative to the modulus; products and quotients round four times
    "complex128": 1e-13,
}


def tolerance(dtype: Any) -> float:
    d = np.dtype(dtype)
    if d.kind in "iu":
        return TOLERANCES["int"]
    return TOLERANCES["float8" if d.name.startswith("float8") else d.name]


def wide(x: Any) -> Array:
    """Inexact arrays in double precision, others as they are."""
    x = np.asarray(x)
    if x.dtype.kind == "c":
        return x.astype(np.complex128)
    if x.dtype.kind in "fV":
        return x.astype(np.float64)
    return x


def difference(got: Any, want: Any, factor: float = 1.0, normwise: bool = False) -> str:
    """'' when equal within the table's tolerance, else what differs.

    normwise: errors are measured against the largest element (sums with cancellation).
    """
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    g, w = wide(got), wide(want)
    rtol = tolerance(want.dtype) * factor
    with np.errstate(all="ignore"):
        if rtol == 0 or g.dtype.kind not in "fc":
            ok = (g == w) | ((g != g) & (w != w))
        else:
            finite = np.abs(w[np.isfinite(w)])
            norm = finite.max() if normwise and finite.size else 0.0
            tiny = float(ml_dtypes.finfo(want.dtype if want.dtype.kind != "c" else
                                         want.real.dtype).tiny)
            ok = (g == w) | (np.isnan(g) & np.isnan(w)) | (
                np.isfinite(g) & np.isfinite(w)
                & (np.abs(g - w) <= rtol * np.maximum(np.abs(w), norm) + tiny))
    if ok.all():
        return ""
    at = tuple(int(i) for i in np.argwhere(~ok)[0]) if ok.ndim else ()
    return (f"{int((~ok).sum())} of {ok.size} {want.dtype} values differ, first at {at}: "
            f"{got[at]!r} instead of {want[at]!r}")
