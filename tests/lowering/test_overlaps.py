"""Updates that are a part of the array they are written into: the part as it was before."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax

OPERANDS = {
    "argument": lambda x, n: x, "sum": lambda x, n: x + x, "sorted": lambda x, n: n.sort(x, 1),
    "cumulated": lambda x, n: n.cumsum(x, 0, dtype=x.dtype)}
# where it is written, and what is written there
PARTS = {
    "shifted down": ((slice(1, None),), (slice(None, -1),)),
    "shifted up": ((slice(None, -1),), (slice(1, None),)),
    "shifted aside": ((slice(None), slice(1, None)), (slice(None), slice(None, -1))),
    "shifted both ways": ((slice(1, None), slice(1, None)), (slice(None, -1), slice(None, -1))),
    "a row": ((slice(1, 2), slice(2, None)), (slice(1, 2), slice(None, -2))),
    "a column": ((slice(None, 5), slice(2, 3)), (slice(0, 1), slice(0, 5)))}


def updated(x: Any, target: Any, source: Any, n: Any) -> Any:
    part = x[source]
    shape = x[target].shape
    return part if part.shape == shape else n.reshape(part, shape)


@pytest.mark.parametrize("dtype", ["f4", "c8", "i1", "?"])
def test_parts_of_what_was_computed(dtype: str) -> None:
    x = (np.arange(42).reshape(6, 7) * 37 % 41).astype(dtype)

    def every(x: Any, zero: Any) -> Any:
        found = {}
        for name, operand in OPERANDS.items():
            h = operand(x, jnp)
            for what, (target, source) in PARTS.items():
                part = updated(h, target, source, jnp)
                starts = [(s.start or 0) + zero for s in (*target, slice(None))[:2]]
                found[name, what, "known"] = h.at[target].set(part)
                found[name, what, "computed"] = lax.dynamic_update_slice(h, part, starts)
        return list(found.values()), None

    got = iter(calque.jit(every)(x, np.int32(0))[0])
    for name, operand in OPERANDS.items():
        h = operand(x, np)
        for what, (target, source) in PARTS.items():
            want = h.copy()
            want[target] = updated(h, target, source, np)
            for how in ("known", "computed"):
                np.testing.assert_array_equal(np.asarray(next(got)), want, f"{name} {what} {how}")


def test_one_window_scattered() -> None:
    """A column that is a part of the row beside it (fuzz.py, seed 9103409)."""
    numbers = lax.ScatterDimensionNumbers(update_window_dims=(0,), inserted_window_dims=(1,),
                                          scatter_dims_to_operand_dims=(0, 1))

    def f(x: Any, place: Any) -> Any:
        return [lax.scatter(h, place, h.reshape(35)[3:8], numbers, mode="clip")
                for h in (lax.complex(x, x * 2), x * 1.5, x)]

    x = np.arange(35, dtype=np.float32).reshape(5, 7)
    for got, h in zip(calque.jit(f)(x, np.array([0, 6], np.int32)), (x + 2j * x, x * 1.5, x)):
        want = h.copy()
        want[:, 6] = h.reshape(35)[3:8]
        np.testing.assert_array_equal(np.asarray(got), want)


@pytest.mark.parametrize("n", [8, 300])
def test_a_shift_register(n: int) -> None:
    """In a scan, in a branch, and of one that is computed."""
    x, new = np.arange(n, dtype=np.float32), np.arange(20, dtype=np.float32)

    def step(h: Any, v: Any) -> Any:
        h = h.at[1:].set(h[:-1]).at[0].set(v)
        return h, h[-1]

    def f(x: Any, new: Any) -> Any:
        double = lambda h: h.at[1:].set(h[:-1])  # noqa: E731
        return (*lax.scan(step, x, new), double(2 * x),
                lax.cond(new[0] < 1, lambda h: double(h + h), lambda h: h, x))

    register, last = x, []
    for v in new:
        register = np.concatenate([[v], register[:-1]])
        last.append(register[-1])
    shifted = np.concatenate([[0], 2 * x[:-1]])
    for got, want in zip(calque.jit(f)(x, new), (register, last, shifted, shifted), strict=True):
        np.testing.assert_array_equal(np.asarray(got), want)
