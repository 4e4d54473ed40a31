"""Arrays with edges around them as one copy (passes/edges, kernels/move), beside NumPy."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.harness import at_level

import calque
import calque.numpy as jnp
from calque.core.program import Program, eliminate_dead_code
from calque.lowering.passes.edges import Edges
from calque.lowering.passes.groups import grouped
from calque.lowering.passes.legalize import legalize

RNG = np.random.default_rng(13)
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
MODES = ("reflect", "symmetric", "wrap", "edge")


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)


def copies(f: Callable[..., Any], *args: Any) -> int:
    p: Program = legalize(eliminate_dead_code(calque.make_jaxpr(f)(*args).jaxpr))
    return sum(isinstance(e.params.get("rows"), Edges) for e in grouped(p).equations)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("mode", MODES)
def test_modes(mode: str, level: str) -> None:
    """Images, colours, batches, volumes; wide edges, on one side, of an axis before the last."""
    with at_level(level):
        for shape, widths in (((150, 131), 4), ((90, 97, 3), ((3, 2), (0, 5), (0, 0))),
                              ((9, 61, 64), ((0, 0), (2, 2), (2, 2))),
                              ((21, 30, 41), ((1, 2), (3, 0), (2, 5))),
                              ((200, 100), ((7, 0), (0, 0))), ((64, 300), ((0, 0), (299, 1))),
                              ((128, 129), ((1, 1), (0, 130)))):
            x = numbers(*shape)
            got = calque.jit(lambda x, w=widths: jnp.pad(x, w, mode=mode))(x)
            np.testing.assert_array_equal(np.asarray(got), np.pad(x, widths, mode=mode))
        x = numbers(150, 131)
        assert copies(lambda x: jnp.pad(x, 4, mode=mode), x) == 1


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "uint32", "float64", "bfloat16"])
def test_dtypes(dtype: str) -> None:
    with calque.enable_x64(True):
        x = jnp.asarray(numbers(300, 270)).astype(dtype)
        got = calque.jit(lambda x: jnp.pad(x, ((2, 3), (4, 5)), mode="reflect"))(x)
        np.testing.assert_array_equal(
            np.asarray(got).astype(float),
            np.pad(np.asarray(x).astype(float), ((2, 3), (4, 5)), mode="reflect"))


def parts(x: Any, xp: Any) -> list[Any]:
    return [xp.concatenate([x[::-1], x], 0), xp.concatenate([x, x[:, ::-1], x], 1),
            xp.roll(x, (3, -5), (0, 1)), xp.concatenate([x[:, ::2], x[:, 1::2][:, ::-1]], 1),
            xp.concatenate([xp.concatenate([x[5:], x[:5]]), x[:7]])[:, ::-1]]


@pytest.mark.parametrize("level", LEVELS)
def test_other_joins(level: str) -> None:
    x = numbers(160, 130)
    with at_level(level):
        made = calque.jit(lambda x: parts(x, jnp))(x)
    for got, want in zip(made, parts(x, np), strict=True):
        np.testing.assert_array_equal(np.asarray(got), want)


def test_around_other_work() -> None:
    """Of what is computed, beside what reads the parts, written to, in a loop, batched, derived."""
    x = numbers(140, 150)
    pad = lambda x, xp: xp.pad(x, 3, mode="reflect")  # noqa: E731

    def f(x: Any, xp: Any) -> list[Any]:
        y = x * 2 + 1
        p = pad(y, xp)
        return [p, p[1:] - p[:-1], y[:, ::-1], pad(x, xp).sum(0)]

    for got, want in zip(calque.jit(lambda x: f(x, jnp))(x), f(x, np), strict=True):
        np.testing.assert_array_equal(np.asarray(got), want)
    written = calque.jit(lambda x: (pad(x, jnp), x.at[0].set(0)), donate_argnums=0)(jnp.asarray(x))
    np.testing.assert_array_equal(np.asarray(written[0]), pad(x, np))
    np.testing.assert_array_equal(np.asarray(written[1])[1:], x[1:])
    many = numbers(3, 140, 150)
    np.testing.assert_array_equal(calque.jit(calque.vmap(lambda x: pad(x, jnp)))(many),
                                  np.stack([pad(m, np) for m in many]))
    smooth = lambda x, xp: (pad(x, xp)[:-6, 3:-3] + pad(x, xp)[6:, 3:-3]) / 2  # noqa: E731
    want = x.astype(float)
    for _ in range(3):
        want = smooth(want, np)
    got = calque.jit(lambda x: calque.lax.fori_loop(0, 3, lambda i, x: smooth(x, jnp), x))(x)
    np.testing.assert_allclose(got, want, rtol=1e-6)  # halves of whole numbers, three times
    weights = numbers(146, 156)
    got = calque.jit(calque.grad(lambda x: (pad(x, jnp) * weights).sum()))(x.astype(np.float32))
    want = np.zeros(x.shape)
    rows, columns = (np.pad(np.arange(n), 3, mode="reflect") for n in x.shape)
    np.add.at(want, (rows[:, None], columns), weights)
    np.testing.assert_array_equal(np.asarray(got), want)
