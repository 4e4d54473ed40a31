"""What sort and top_k mean: NumPy's stable lexsort of floats in f64, classes of NaN and zero first.

More oracles of oracle.py, which imports this module at its end.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from support.oracle import ORACLES

Array = np.ndarray[Any, Any]


def _columns(x: Array) -> list[Array]:
    """What np.lexsort orders x by, the decisive one first."""
    if x.dtype.kind == "c":
        return [*_columns(x.real), *_columns(x.imag)]
    if x.dtype.kind in "biu":
        return [x]
    wide = x.astype(np.float64)
    nan = np.isnan(wide)
    return [nan, np.where(nan, 0.0, wide)]


def _order(columns: list[Array], axis: int) -> Array:
    return np.lexsort([np.asarray(c) for c in reversed(columns)], axis=axis)


def _sort(params: Any, *xs: Array) -> list[Array]:
    axis = params["dimension"]
    order = _order([c for x in xs[:params["num_keys"]] for c in _columns(x)], axis)
    return [np.take_along_axis(x, order, axis) for x in xs]


def _top_k(params: Any, x: Array) -> list[Array]:
    """Floats fall in the order NaN, inf ... 0, -0 ... -inf, NaN with a sign."""
    axis, k = params["axis"], params["k"]
    if x.dtype.kind in "biu":
        columns = [x.astype(np.int16) if x.dtype == bool else x]
        columns = [~columns[0]]  # of integers of any sign: decreasing, without overflow
    else:
        wide = x.astype(np.float64)
        nan, sign = np.isnan(wide), np.signbit(x)
        place = np.where(nan, np.where(sign, 1, -1), 0)
        columns = [place, np.where(nan, 0.0, -wide), np.where(wide == 0, sign, False)]
    order = np.take(_order(columns, axis), np.arange(k), axis)
    return [np.take_along_axis(x, order, axis), order.astype(np.int32)]


ORACLES["sort"] = _sort
ORACLES["top_k"] = _top_k
