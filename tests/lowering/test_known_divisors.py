"""Whole numbers that are known when a program is compiled (passes/known), beside NumPy."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
from calque.core.config import config
from calque.core.program import Program
from calque.lowering.passes.known import with_known
from calque.lowering.target.targets import TargetError, runnable_target

RNG = np.random.default_rng(14)
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")


def names(f: Any, *args: Any) -> list[str]:
    p: Program = calque.make_jaxpr(f)(*args).jaxpr
    return [e.name for e in with_known(p).equations]


def test_what_is_asked_of_a_literal_is_answered() -> None:
    x = np.zeros(10, np.int32)
    assert "eq" not in names(lambda x: x % 97, x) and "rem" in names(lambda x: x % 97, x)
    # (results, floats and what follows from arguments stay)
    assert "add" in names(lambda x: calque.lax.add(x, np.float32(1)), np.zeros(3, np.float32))
    p = calque.make_jaxpr(lambda x: calque.lax.fori_loop(0, 9, lambda i, x: x % 7 + i, x))(x).jaxpr
    (loop,) = [e for e in with_known(p).equations if e.name == "scan"]
    assert "eq" not in [e.name for e in loop.params["jaxpr"].equations]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["int32", "int8", "uint8", "int16", "uint32", "int64", "uint64"])
def test_divisors(dtype: str, level: str) -> None:
    """Of either sign, powers of two, the least and the greatest, large arrays and small ones."""
    try:
        with config.context("calque_cpu", level):
            runnable_target()
    except TargetError as error:
        pytest.skip(str(error).splitlines()[0])
    info = np.iinfo(dtype)
    divisors = [1, 2, 3, 7, 10, 64, 97, int(info.max), *([
        -1, -2, -5, -64, int(info.min)] if info.min else [])]
    with calque.enable_x64(True), config.context("calque_cpu", level):
        for n in (50, 20_001):
            x = RNG.integers(info.min, info.max, n, dtype, endpoint=True)
            x[:4] = info.min, info.max, 0, 1
            wide = [int(v) for v in x] if info.min else None
            f = lambda x: [g for d in divisors for g in (  # noqa: E731
                x % np.dtype(dtype).type(d), x // np.dtype(dtype).type(d))]
            made = calque.jit(f)(x)
            for d, rest, quotient in zip(divisors, made[::2], made[1::2]):
                if d == -1 and wide is not None:  # the least number's wraps
                    keep = x != info.min
                    np.testing.assert_array_equal(np.asarray(quotient)[keep], -x[keep])
                    np.testing.assert_array_equal(np.asarray(rest), 0 * x)
                    continue
                np.testing.assert_array_equal(np.asarray(rest), x % np.dtype(dtype).type(d))
                np.testing.assert_array_equal(np.asarray(quotient), x // np.dtype(dtype).type(d))
