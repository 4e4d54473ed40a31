"""Loops over memory that hold points coordinate by coordinate (passes/planes), beside NumPy."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.harness import at_level

import calque
import calque.numpy as jnp
from calque.core.program import Program, eliminate_dead_code
from calque.lowering.passes import cost, planes
from calque.lowering.passes.legalize import legalize

RNG = np.random.default_rng(12)
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
Step = Callable[..., Any]


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Each test draws the same, whichever ran before it."""
    RNG.bit_generator.state = np.random.default_rng(12).bit_generator.state


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def is_planar(f: Callable[..., Any], *args: Any) -> bool:
    """Whether a loop carries points coordinate by coordinate."""
    p: Program = legalize(eliminate_dead_code(calque.make_jaxpr(f)(*args).jaxpr))
    return any(e.name in ("scan", "while") and cost.is_kernel(e) and any(
        a.aval.ndim > 1 and 1 < a.aval.shape[0] <= planes.SHORT for a in e.inputs)
        for e in p.equations) and any(e.name == "transpose" for e in p.equations)


# ---- steps, of calque.numpy or NumPy
def flock(x: Any, v: Any, xp: Any) -> tuple[Any, Any]:
    v = v + 0.1 * (x.mean(0) - x) + 0.05 * (v[0] - v)
    speed = xp.sqrt((v * v).sum(-1, keepdims=True))
    v = v / xp.maximum(speed, 1)
    return x + 0.1 * v, v


def rope(x: Any, v: Any, xp: Any) -> tuple[Any, Any]:
    d = x[1:] - x[:-1]
    force = d * (1 - 0.5 / xp.sqrt((d * d).sum(-1) + 1))[:, None]
    none = xp.zeros((1, x.shape[1]), x.dtype)
    v = 0.9 * v + xp.concatenate([force, none]) - xp.concatenate([none, force])
    return x + 0.1 * v + 0.01 * v[:, ::-1], v  # (by v[:, ::-1] alone it would grow without bound)


def spin(x: Any, v: Any, xp: Any) -> tuple[Any, Any]:
    turned = xp.stack([x[:, 1], -x[:, 0], x[:, 2] * 0.5], -1)
    mask = (x[:, 2] > x[:, 2].mean())[:, None]
    nearest = xp.argmin((x ** 2).sum(1))
    v = xp.where(mask, v * 0.5, v + 0.1 * turned) - x[nearest] * 0.01
    return xp.roll(x, 1, axis=0) * 0.99 + 0.05 * v, v


def cloth(x: Any, v: Any, xp: Any) -> tuple[Any, Any]:
    along, across = x[:, 1:] - x[:, :-1], x[1:] - x[:-1]
    pull = lambda d: d * (1 - 0.1 / xp.sqrt((d * d).sum(-1, keepdims=True) + 1))  # noqa: E731
    a, b = pull(along), pull(across)
    wide = ((0, 0), (0, 1), (0, 0)), ((0, 0), (1, 0), (0, 0))
    tall = ((0, 1), (0, 0), (0, 0)), ((1, 0), (0, 0), (0, 0))
    force = xp.pad(a, wide[0]) - xp.pad(a, wide[1]) + xp.pad(b, tall[0]) - xp.pad(b, tall[1])
    v = 0.9 * v + 0.1 * force - x[0, 0] * 0.01
    return x + 0.1 * v, v


def colours(x: Any, v: Any, xp: Any) -> tuple[Any, Any]:
    p = xp.pad(x, ((1, 1), (1, 1), (0, 0)), mode="edge")
    x = x + 0.1 * (p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * x)
    return x * v.mean((0, 1)), v


def rotor(x: Any, v: Any, xp: Any) -> tuple[Any, Any]:
    """Each number by its neighbours beside it."""
    n = x.shape[1]
    c = [x[:, i] for i in range(n)]
    turned = xp.stack([c[(i + 1) % n] * c[i - 1] - c[i] for i in range(n)], -1)
    v = 0.5 * v + 0.05 * turned
    return xp.tanh(x + v) + x[0] * 0.01, v - v.max(-1, keepdims=True) * 0.01


VELOCITIES = [(a, b) for a in (0, 1, -1) for b in (0, 1, -1)]


def lattice(x: Any, v: Any, xp: Any) -> tuple[Any, Any]:
    """Streaming of nine velocities, one plane after another, and relaxation to their mean."""
    for i, shift in enumerate(VELOCITIES):
        moved = xp.roll(x[:, :, i], shift, (0, 1))
        if xp is np:
            x = x.copy()
            x[:, :, i] = moved
        else:
            x = x.at[:, :, i].set(moved)
    along = xp.array(VELOCITIES, dtype=x.dtype)[:, 0]
    rest = x.sum(2)[..., None] / 9 + (x * along).sum(-1, keepdims=True) * along / 6
    return x - 0.6 * (x - rest), v * 0.5 + rest


CASES: list[tuple[Step, tuple[int, ...]]] = [
    (flock, (500, 2)), (flock, (37, 3)), (flock, (1001, 4)), (rope, (100, 3)), (rope, (33, 2)),
    (spin, (129, 3)), (cloth, (20, 24, 3)), (cloth, (17, 16, 2)), (colours, (24, 31, 3)),
    (flock, (61, 5)), (flock, (500, 9)), (rope, (100, 6)), (cloth, (17, 16, 7)),
    (rotor, (77, 5)), (rotor, (500, 6)), (rotor, (64, 7)), (rotor, (129, 9)),
    (colours, (24, 31, 5)), (lattice, (19, 24, 9)), (lattice, (40, 37, 9))]


def close(got: Any, want: Any) -> None:
    # some twenty steps that lose a few bits each
    np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("step, shape", CASES)
def test_every_level(step: Step, shape: tuple[int, ...], level: str) -> None:
    x, v = normal(*shape), normal(*shape)

    def f(x: Any, v: Any) -> Any:
        return calque.lax.fori_loop(0, 20, lambda i, c: step(*c, jnp), (x, v))

    p, q = x.astype(float), v.astype(float)
    for _ in range(20):
        p, q = step(p, q, np)
    with at_level(level):
        if step is not colours:
            assert is_planar(f, x, v)
        got = calque.jit(f)(x, v)
    close(got[0], p)
    close(got[1], q)


@pytest.mark.parametrize("step, shape", CASES[:1] + CASES[3:4])
def test_scans_take_and_give_points(step: Step, shape: tuple[int, ...]) -> None:
    """Stacked, from either end, beside captured ones; integers, too."""
    x, v, winds, fixed = normal(*shape), normal(*shape), normal(30, *shape), normal(*shape)
    marks = RNG.integers(0, 9, shape).astype(np.int32)
    for reverse in (False, True):
        def f(x: Any, v: Any, winds: Any, marks: Any, reverse: bool = reverse) -> Any:
            def one(c: Any, w: Any) -> Any:
                x, v, m = c
                x, v = step(x, v + 0.01 * w + 0.01 * fixed, jnp)  # noqa: B023
                m = (m[::-1] + m[0]) % 7
                return (x, v, m), (x, v[:, 0], m.sum(0))
            return calque.lax.scan(one, (x, v, marks), winds, reverse=reverse)

        p, q, m, seen = x.astype(float), v.astype(float), marks, []
        for w in winds[::-1] if reverse else winds:
            p, q = step(p, q + 0.01 * w + 0.01 * fixed, np)
            m = (m[::-1] + m[0]) % 7
            seen.append((p, q[:, 0], m.sum(0)))
        (gx, gv, gm), ys = calque.jit(f)(x, v, winds, marks)
        close(gx, p)
        close(gv, q)
        np.testing.assert_array_equal(gm, m)
        for got, want in zip(ys, zip(*(seen[::-1] if reverse else seen))):
            close(got, np.stack(want))


def test_ends_that_the_data_decides() -> None:
    x = normal(200, 3) + 3

    def f(x: Any) -> Any:
        return calque.lax.while_loop(lambda c: (c[0].max(0) > 0.1).any() & (c[1] < 90),
                                     lambda c: ((c[0] - 0.1 * c[0].mean(0)) * 0.9, c[1] + 1),
                                     (x, 0))

    p, n = x.astype(float), 0
    while (p.max(0) > 0.1).any() and n < 90:
        p, n = (p - 0.1 * p.mean(0)) * 0.9, n + 1
    got = calque.jit(f)(x)
    assert is_planar(f, x)
    close(got[0], p)
    assert got[1] == n


def test_parts_are_written_at_positions() -> None:
    x, rows = normal(64, 3), normal(64, 3)

    def f(x: Any, rows: Any) -> Any:
        def one(i: Any, x: Any) -> Any:
            x = calque.lax.dynamic_update_slice(x, rows[i][None] + x[0], (i, 0))
            x = x.at[3].add(1).at[:, 1].set(x[:, 0] * 0.5)
            return x - 0.01 * calque.lax.dynamic_slice(x, (i, 0), (2, 3)).sum(0)
        return calque.lax.fori_loop(0, 40, one, x)

    p = x.astype(float)
    for i in range(40):
        p = p.copy()
        p[i] = rows[i] + p[0]
        column = p[:, 0] * 0.5
        p[3] += 1
        p[:, 1] = column
        p = p - 0.01 * p[i:i + 2].sum(0)
    close(calque.jit(f)(x, rows), p)


def test_gradients_and_batches() -> None:
    x, v = normal(40, 3), normal(40, 3)

    def f(x: Any, v: Any, xp: Any = jnp) -> Any:
        if xp is np:
            for _ in range(8):
                x, v = flock(x, v, np)
        else:
            x, v = calque.lax.fori_loop(0, 8, lambda i, c: flock(*c, jnp), (x, v))
        return (x * x).sum() + v[3, 1]

    got = calque.jit(calque.grad(f))(x, v)
    p, q, along = x.astype(float), v.astype(float), normal(40, 3).astype(float)
    eps = 1e-6
    slope = (f(p + eps * along, q, np) - f(p - eps * along, q, np)) / (2 * eps)
    np.testing.assert_allclose((got * along).sum(), slope, rtol=1e-4)
    xs, vs = normal(5, 40, 3), normal(5, 40, 3)
    made = calque.jit(calque.vmap(f))(xs, vs)
    for k in range(5):
        close(made[k], f(xs[k].astype(float), vs[k].astype(float), np))


def test_what_stays() -> None:
    """Products, few rows, and loops in registers."""
    w = normal(3, 3)
    for f, x in (
            (lambda x: calque.lax.fori_loop(0, 30, lambda i, x: x @ w + x[0], x), normal(100, 3)),
            (lambda x: calque.lax.fori_loop(0, 30, lambda i, x: x[::-1] + x[0], x), normal(8, 3)),
            (lambda x: calque.lax.fori_loop(0, 30, lambda i, x: x[:, ::-1] * 0.5, x),
             normal(100, 3)),
            (lambda x: calque.lax.fori_loop(0, 30, lambda i, x: flock(x, x, jnp)[0], x),
             normal(100, 8))):  # (whole vectors)
        assert not is_planar(f, x)
    x = normal(100, 3)
    p = x.astype(float)
    for _ in range(5):
        p = p @ w * 0.3 + p[0]
    f = lambda x: calque.lax.fori_loop(0, 5, lambda i, x: x @ w * 0.3 + x[0], x)  # noqa: E731
    close(calque.jit(f)(x), p)
