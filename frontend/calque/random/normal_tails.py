"""Normal numbers between two bounds that lie in one far tail, where erf(bound) is 1 but for the
last digits, so that draws by its inverse are a few numbers or the bound itself.

There Q(x) = Q(a) (1 - v (1 - Q(b) / Q(a))) is solved for x by the logarithm of Q, which is phi(x)
times Mills' ratio (DLMF 7.8; its continued fraction: DLMF 7.9.2).  Start reading at `between`.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from calque import lax
from calque import numpy as jnp
from calque.core.types import Dtype

# From here on erf has fewer than 16 numbers below 1: erfc(bound / sqrt(2)) = 16 spacings.
STARTS = {"bfloat16": 1.86, "float16": 2.66, "float32": 4.9, "float64": 7.95}
_DEPTH = 12  # of the fraction: 1e-15 from 7.95 on, 4e-11 from 4.9, 3e-5 from 1.86
_STEPS = 4  # of Newton's method, which comes from above and has all digits after three


def far(lower: Any, upper: Any, d: Dtype) -> Any:
    """Whether both bounds lie in one tail."""
    start = np.asarray(STARTS[d.name]).astype(d)[()]
    return (lower < upper) & ((lower >= start) | (upper <= -start)) & (
        jnp.maximum(lower, -upper) < np.inf)


def surely_not(lower: Any, upper: Any, d: Dtype) -> bool:
    """Whether these are numbers, or NumPy's arrays, none of which lie in one far tail."""
    if not all(isinstance(v, (int, float, np.generic, np.ndarray)) for v in (lower, upper)):
        return False
    with np.errstate(over="ignore"):
        low, high = (np.asarray(v).astype(d).astype(np.float64) for v in (lower, upper))
    start = float(np.asarray(STARTS[d.name]).astype(d))
    return not np.any((low >= start) | (high <= -start))


def _convergent(depth: int) -> tuple[list[int], list[int]]:
    """The fraction 1 / (x + 1 / (x + 2 / (x + ... depth / x))) as two polynomials of 1 / x^2."""
    above, below = ([0], [1]), ([1], [1])  # numerators and denominators before and at depth 0
    for k in range(1, depth + 1):
        above, below = below, tuple(  # type: ignore[assignment]
            [(here[i] if i < len(here) else 0) + (k * there[i - 1] if i else 0)
             for i in range(max(len(here), len(there) + 1))]
            for here, there in zip(below, above))
    return below


_ABOVE, _BELOW = _convergent(_DEPTH)


def _polynomial(coefficients: list[int], x: Any) -> Any:
    total: Any = 0 * x
    for c in reversed(coefficients):
        total = total * x + c
    return total


def _mills(x: Any) -> Any:
    """Q(x) / phi(x)."""
    t = (1 / x) * (1 / x)
    return _polynomial(_ABOVE, t) / (x * _polynomial(_BELOW, t))


def _log_ratio(a: Any, step: Any) -> Any:
    """log(Q(a) / Q(a + step)), without the square of a."""
    return step * (a + 0.5 * step) + lax.log(_mills(a) / _mills(a + step))


def _beyond(v: Any, a: Any, b: Any) -> Any:
    """The number above a > 0 whose part v of the mass between a and b lies below it, minus a."""
    all_of_it = (b - a) * a > 200  # what lies above b is not seen beside the rest
    left_out = _log_ratio(a, jnp.where(all_of_it, 0, b - a))
    part = jnp.where(all_of_it, 1, -lax.expm1(-left_out))
    want = -lax.log1p(-v * part)
    slope = want / a
    step = lax.stop_gradient(2 * slope / (1 + lax.sqrt(1 + 2 * slope / a)))
    for _ in range(_STEPS - 1):
        step = lax.stop_gradient(step - (_log_ratio(a, step) - want) * _mills(a + step))
    # the last one is differentiated: by the implicit function
    return step - (_log_ratio(a, step) - want) * lax.stop_gradient(_mills(a + step))


def between(v: Any, lower: Any, upper: Any, inside: Any) -> Any:
    """The numbers of uniform v where `inside` says that bounds are far; elsewhere any number."""
    wide = np.dtype(np.float64) if v.dtype == np.float64 else np.dtype(np.float32)
    right = lower > 0
    near = jnp.where(inside, jnp.where(right, lower, -upper), 10).astype(wide)
    away = jnp.where(inside, jnp.where(right, upper, -lower), 11).astype(wide)
    x = near + _beyond(v.astype(wide), near, away)
    return jnp.where(right, x, -x).astype(v.dtype)
