"""m - log(1 + m) without cancellation: what logarithms of densities are near their largest value.

Not a name of NumPy's: scipy's densities and random's acceptance tests share it.
"""
from __future__ import annotations

from typing import Any

_TERMS = 16


def excess(m: Any) -> Any:
    """m - log(1 + m) of |m| <= 1/2: log(1 + m) is 2 artanh(m / (2 + m))."""
    r = m / (2 + m)
    square = r * r
    total: Any = 0.0
    for k in range(_TERMS, 0, -1):
        total = total * square + 2 / (2 * k + 1)
    return r * (m - square * total)


__all__ = ["excess"]
