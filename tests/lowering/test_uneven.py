"""Elementwise work of sizes that IREE does not cut into vectors (passes/uneven), beside NumPy."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import export, lax
from calque.core.config import config
from calque.core.program import Program, eliminate_dead_code
from calque.lowering.passes.groups import grouped
from calque.lowering.target.targets import TargetError, runnable_target

RNG = np.random.default_rng(4)


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.integers(-50, 50, shape).astype(dtype)


def kernels(f: Callable[..., Any], *args: Any) -> list[list[str]]:
    """The equations of each group."""
    p: Program = calque.make_jaxpr(f)(*args).jaxpr
    return [[q.name for q in e.params["jaxpr"].equations]
            for e in grouped(eliminate_dead_code(p)).equations if "rows" in e.params]


@pytest.mark.parametrize("level, dtype", [
    ("x86-64-v2", "float32"), ("x86-64-v3", "float64"), ("x86-64-v4", "float16"),
    ("x86-64-v3", "bfloat16"), ("x86-64-v3", "int8"), ("x86-64-v3", "uint64")])
def test_every_dtype(level: str, dtype: str) -> None:
    with calque.enable_x64(True), config.context("calque_cpu", level):
        try:
            runnable_target()
        except TargetError as error:
            pytest.skip(str(error).splitlines()[0])
        x = jnp.asarray(numbers(20_011)).astype(dtype)
        y = jnp.asarray(numbers(20_011)).astype(dtype)
        f = lambda x, y: (x + y, x > y, jnp.maximum(x, 0) - y)  # noqa: E731
        assert len(kernels(f, x, y)) >= 1
        made = [np.asarray(m) for m in calque.jit(f)(x, y)]
    a, b = np.asarray(x), np.asarray(y)
    for got, want in zip(made, (a + b, a > b, np.maximum(a, 0).astype(a.dtype) - b)):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("shape", [(16_385,), (1_000_003,), (301, 333), (27, 1, 700), (100, 50, 6),
                                   (20, 13, 7, 11), (999, 17), (9000, 2)])
def test_shapes_with_rows_and_columns_spread(shape: tuple[int, ...]) -> None:
    x, row, column = numbers(*shape), numbers(shape[-1]), numbers(*shape[:-1], 1)

    def f(x: Any, row: Any, column: Any) -> Any:
        count = lax.broadcasted_iota(jnp.float32, shape, len(shape) - 1)
        return jnp.where(x > row, x * row - column, count), x * 2 + 1

    assert (len(kernels(f, x, row, column)) > 0) == (shape[-1] >= 6)
    first, second = calque.jit(f)(x, row, column)
    want = np.where(x > row, x * row - column, np.broadcast_to(np.arange(shape[-1]), shape))
    np.testing.assert_array_equal(first, want)
    np.testing.assert_array_equal(second, x * 2 + 1)


def test_nan_and_zeros_are_kept() -> None:
    x = numbers(17_001)
    x[::7], x[1::7], x[2::7] = np.nan, -0.0, np.inf
    made = calque.jit(lambda x: (jnp.minimum(x, 1), jnp.sign(x), 1 / x))(x)
    with np.errstate(divide="ignore"):
        signs = np.copysign(np.sign(x), x)  # of zeros, too
        for got, want in zip(made, (np.minimum(x, 1), signs, 1 / x)):
            np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
            np.testing.assert_array_equal(got, want)


def test_interpolation_without_a_sum() -> None:
    x, grid, values = RNG.random((277, 91)) * 3 - 1, np.linspace(0, 1, 40), RNG.random(40)
    with calque.enable_x64(True):
        made = calque.jit(jnp.interp)(x, grid, values)
    np.testing.assert_allclose(made, np.interp(x, grid, values), rtol=1e-12)


def test_what_others_compute_on_the_way_stays_there() -> None:
    """Sums, cuts and turned operands: no array more is written."""
    x = numbers(301, 333)
    for f in (lambda x: (x * 2 + 1).T, lambda x: (x.T * 2 + 1), lambda x: (x * 2)[1:],
              lambda x: x[1:] - x[:-1], lambda x: jnp.pad(x * 2, 1)):
        assert not any("mul" in names or "sub" in names for names in kernels(f, x))
        np.testing.assert_array_equal(calque.jit(f)(x), f(jnp.asarray(x)))


def test_edges() -> None:
    """Donation, results given twice, arguments as results, loops, sizes known at the call."""
    x, y = numbers(50_001), numbers(50_001)
    step = lambda x, y: (x - 0.5 * y, y + 1)  # noqa: E731
    donating = calque.jit(step, donate_argnums=(0, 1))
    a, b, want = jnp.asarray(x) + 0, jnp.asarray(y) + 0, (x, y)
    for _ in range(3):
        (a, b), want = donating(a, b), step(*want)
        np.testing.assert_array_equal(a, want[0])
        np.testing.assert_array_equal(b, want[1])
    made = calque.jit(lambda x, y: (x + y, x, x + y, -y))(x, y)
    for got, expected in zip(made, (x + y, x, x + y, -y)):
        np.testing.assert_array_equal(got, expected)
    loop = calque.jit(lambda x, y: lax.fori_loop(0, 30, lambda i, c: step(*c), (x, y)))
    got, want = loop(x, y), (x, y)
    for _ in range(30):
        want = step(*want)
    np.testing.assert_array_equal(got[0], want[0])
    (n,) = export.symbolic_shape("n")
    e = export.export(calque.jit(step))(*[calque.ShapeDtypeStruct((n,), "float32")] * 2)
    for size in (1, 20_001):
        for got, expected in zip(e.call(x[:size], y[:size]), step(x[:size], y[:size])):
            np.testing.assert_array_equal(got, expected)
