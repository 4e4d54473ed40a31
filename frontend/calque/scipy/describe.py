"""What the files of scipy.special share: checks of real arguments, sums of Chebyshev polynomials
and exact squares.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import dtype_of
from calque.core.errors import explain
from calque.numpy import util
from calque.primitives import elementwise as ew


def floats(name: str, *values: Any, error: type[Exception] = TypeError) -> list[Any]:
    """Promoted arrays of a float dtype; JAX's class of error for complex ones."""
    made = util.inexact_arrays(name, *values)
    if util.is_complex(made[0]):
        raise error(explain(f"{name} does not support complex-valued inputs.",
                            fix="pass a real array: x.real."))
    return made


def real(name: str, *values: Any) -> list[Any]:
    """`floats` of one shape; complex ones are a ValueError."""
    made = floats(name, *values, error=ValueError)
    return util.broadcast_all(name, *made) if len(made) > 1 else made


def widened(*xs: Any) -> list[Any]:
    """float16 and bfloat16 as float32, others unchanged."""
    return [ew.convert(x, dtypes.float32) if dtype_of(x).itemsize < 4 else x for x in xs]


def as_default(x: Any) -> Any:
    """float32 in the dtype of Python's floats (float64 under jax_enable_x64), others unchanged."""
    default = dtypes.default_dtype(float)
    return ew.convert(x, default) if dtype_of(x) == np.float32 != default else x


def constant(value: float, like: Any) -> Any:
    """A Python float in an array's dtype."""
    return dtype_of(like).type(value)


def chebyshev(coefficients: Sequence[float], t: Any) -> Any:
    """sum c_k T_k(t), by Clenshaw's recurrence; float32 leaves out what it cannot see."""
    tiny = 1e-9 if dtype_of(t).itemsize == 4 else 0.0
    used = [c for c in coefficients if abs(c) > tiny]
    above, here = t * 0, t * 0
    for c in reversed(used[1:]):
        above, here = here, 2 * t * here - above + constant(c, t)
    return t * here - above + constant(used[0], t)


def square(x: Any) -> tuple[Any, Any]:
    """x^2 as a sum of two floats (Veltkamp's split, Dekker's product 1971)."""
    split = constant(4097.0 if dtype_of(x).itemsize == 4 else 134217729.0, x)
    big = split * x
    high = big - (big - x)
    low = x - high
    product = x * x
    return product, ((high * high - product) + 2 * high * low) + low * low
