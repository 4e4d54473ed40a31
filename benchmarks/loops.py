"""Loops: scans, fori_loop and vmapped while, with the shapes that their bars name."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from pairs import Row, compare

import calque
import calque.numpy as cnp

F = np.float32


def both(fun: Callable[..., Any], *args: Any) -> tuple[Any, Any]:
    """Thunks of fun(package, its numpy, *arrays), jitted in calque and in jax, that wait."""
    ours = calque.jit(lambda *xs: fun(calque, cnp, *xs))
    theirs = jax.jit(lambda *xs: fun(jax, jnp, *xs))
    a, b = [calque.device_put(x) for x in args], [jnp.asarray(x) for x in args]
    return (lambda: calque.block_until_ready(ours(*a)),
            lambda: jax.block_until_ready(theirs(*b)))


def rnn(m: Any, n: Any, w: Any, h: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = n.tanh(h @ w + x)
        return h, h
    return m.lax.scan(step, h, xs)


def gru(m: Any, n: Any, wz: Any, wr: Any, wh: Any, h: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        hx = n.concatenate([h, x], -1)
        z, r = m.lax.logistic(hx @ wz), m.lax.logistic(hx @ wr)
        new = n.tanh(n.concatenate([r * h, x], -1) @ wh)
        h = (1 - z) * h + z * new
        return h, h
    return m.lax.scan(step, h, xs)


def lorenz(m: Any, n: Any, start: Any) -> Any:
    def step(s: Any, _: Any) -> Any:
        x, y, z = s
        s = s + 0.001 * n.stack([10 * (y - x), x * (28.0 - z) - y, x * y - 8 / 3 * z])
        return s, s
    return m.lax.scan(step, start, None, length=2000)


def scalar_steps(m: Any, n: Any, x: Any) -> Any:
    return m.lax.fori_loop(0, 100_000, lambda i, v: v * 0.999 + n.float32(i) * 1e-3, x)


def newton(m: Any, n: Any, a: Any) -> Any:
    def one(a: Any) -> Any:
        return m.lax.while_loop(lambda c: (abs(c[0] * c[0] - a) > 1e-4) & (c[1] < 60),
                                lambda c: ((c[0] + a / c[0]) * 0.5, c[1] + 1), (a, 0))
    return m.vmap(one)(a)


def mandelbrot(m: Any, n: Any, x: Any, y: Any) -> Any:
    def one(cx: Any, cy: Any) -> Any:
        def go(s: Any) -> Any:
            return (s[0] * s[0] + s[1] * s[1] < 4.0) & (s[2] < 200)

        def step(s: Any) -> Any:
            return s[0] * s[0] - s[1] * s[1] + cx, 2 * s[0] * s[1] + cy, s[2] + 1
        return m.lax.while_loop(go, step, (cx * 0, cy * 0, 0))[2]
    return m.vmap(m.vmap(one, (0, None)), (None, 0))(x, y)


def rows() -> list[Row]:
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return (rng.standard_normal(shape) * 0.2).astype(F)

    wide = [normal(64, 32) for _ in range(3)]
    line = np.linspace(-1.5, 1.5, 1000).astype(F)
    return [
        compare("scan, RNN: 1000 steps, batch 8, hidden 32",
                *both(rnn, normal(32, 32), normal(8, 32), normal(1000, 8, 32)), 0.6),
        compare("scan, GRU: 500 steps, batch 8, hidden 32",
                *both(gru, *wide, normal(8, 32), normal(500, 8, 32)), 1.0),
        compare("scan, Lorenz: 2000 steps", *both(lorenz, np.ones(3, F)), 2.0, inner=10),
        compare("fori_loop, 1e5 scalar steps", *both(scalar_steps, F(1)), 1.0),
        compare("vmapped while, Newton on 1e5", *both(newton, np.abs(normal(100_000)) * 5 + 1), 0.4,
                inner=5),
        compare("vmapped while, Mandelbrot 1000 x 1000", *both(mandelbrot, line - 0.5, line), 0.4),
    ]
