"""What compilers fold where numbers are numbers, on NaN, infinities and zeros of either sign.

Every row is NumPy's expression; all are compiled in one program.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
BASE = np.array([0., -0., 1, -1, 2.5, -3.7, np.inf, -np.inf, np.nan, 1e-30, 6e4, -6e4, .1, 3, 7])


def masked(m: Any, mask: Any, x: Any) -> Any:
    """A mask times numbers, which is a choice (tests/lowering/test_products_with_masks.py)."""
    return np.where(mask, x, x.dtype.type(0)) if m is np else mask * x


ROWS: dict[str, Callable[[Any, Any], Any]] = {
    "x * 0": lambda m, x: x * 0, "x * -1": lambda m, x: x * -1, "x - x": lambda m, x: x - x,
    "x / x": lambda m, x: x / x, "x + 0": lambda m, x: x + 0, "x - 0": lambda m, x: x - 0,
    "0 - x": lambda m, x: 0 - x, "x + -0": lambda m, x: x + m.asarray(-0.0, x.dtype),
    "-(0 - x)": lambda m, x: -(0 - x), "x ** 0": lambda m, x: x ** 0, "x ** 1": lambda m, x: x ** 1,
    "x == x": lambda m, x: x == m.asarray(x), "x < x": lambda m, x: x < m.asarray(x),
    "maximum": lambda m, x: m.maximum(x, x), "max -inf": lambda m, x: m.maximum(x, -m.inf),
    "min inf": lambda m, x: m.minimum(x, m.inf), "clip": lambda m, x: m.clip(x, -m.inf, m.inf),
    "abs": lambda m, x: abs(-x), "where": lambda m, x: m.where(x > 0, x, x),
    "sqrt": lambda m, x: m.sqrt(x) * m.sqrt(x), "x / 3": lambda m, x: x / 3,
    "x / 0": lambda m, x: x / 0, "x * 2 / 2": lambda m, x: x * 2 / 2,
    "(x + 1) - 1": lambda m, x: (x + 1) - 1, "x * inf": lambda m, x: x * m.inf,
    "(x + inf) - inf": lambda m, x: (x + m.inf) - m.inf,
    "isnan": lambda m, x: masked(m, m.isnan(x), x),
    "two parts": lambda m, x: m.where(x > 0, x, 0) * m.where(x < 0, x, 0),
    "not": lambda m, x: masked(m, ~(x > 0), x),
    "mixed": lambda m, x: (x > 0) * 1.0 + masked(m, x < 0, x),
    "through int": lambda m, x: (x > 0).astype("int32").astype(x.dtype) * x,
    "quotient": lambda m, x: x / (x > 0).astype(x.dtype), "sum": lambda m, x: (x * 0).sum(),
    "masked sum": lambda m, x: masked(m, x > 0, x).sum(), "floor": lambda m, x: m.floor(x) - x,
    "dot": lambda m, x: m.dot(x, m.zeros_like(x)), "joined": lambda m, x: m.concatenate([x * 0, x]),
    "reversed": lambda m, x: x[::-1] * 0,
    "axis": lambda m, x: x[:, None] * m.zeros((1, 2), x.dtype),
    "running": lambda m, x: m.cumsum(x * 0), "argmax": lambda m, x: m.argmax(x * 0),
    "matrix": lambda m, x: x[:900].reshape(30, 30) @ m.zeros((30, 4), x.dtype),
    "diagonal": lambda m, x: masked(np, np.eye(15) > 0, x[:15]) if m is np else (
        m.eye(15, dtype=x.dtype) * x[:15]),
    "triangle": lambda m, x: m.tril(m.ones((15, 15), x.dtype) * x[:15]),
}
SIGNLESS = ("maximum", "dot", "matrix", "sum", "masked sum")  # zeros of either sign by the order


@pytest.mark.parametrize("dtype, size, stride", [("float32", 6000, 2), *[
    pytest.param(d, n, 1, marks=pytest.mark.slow) for d in ("float16", "float32", "float64")
    for n in (900, 6000)]])
def test_folds_keep_what_numbers_alone_would_not_need(dtype: str, size: int, stride: int) -> None:
    x, rows = np.resize(BASE, size).astype(dtype), dict(list(ROWS.items())[::stride])
    with calque.enable_x64(True):
        outs = calque.jit(lambda x: [f(jnp, x) for f in rows.values()])(x)
    for (name, f), out in zip(rows.items(), outs, strict=True):
        got, want = np.asarray(out), np.asarray(f(np, x))
        # half of a unit in the last place of 3.7 for x / 3; sums of zeros and of one sign otherwise
        np.testing.assert_allclose(got, want, rtol=float(np.finfo(dtype).eps), err_msg=name)
        zeros = (want == 0) & (name not in SIGNLESS)
        np.testing.assert_array_equal(np.signbit(got)[zeros], np.signbit(want)[zeros], err_msg=name)
