"""Eager code: operators and functions on small arrays, a notebook's double loop, large arrays."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from pairs import Row, compare

import calque
import calque.numpy as cnp

Function = Callable[..., Any]
SIDES = ((calque, cnp), (jax, jnp))


def both(fun: Function, *args: Any, wait: bool = True) -> tuple[Function, Function]:
    """Thunks of fun(numpy, *arrays), not jitted."""
    def thunk(m: Any, n: Any) -> Function:
        xs = [n.asarray(x) for x in args]
        return lambda: m.block_until_ready(fun(n, *xs)) if wait else fun(n, *xs)

    ours, theirs = (thunk(m, n) for m, n in SIDES)
    return ours, theirs


def grid(m: Any, n: Any) -> Function:
    """A tutorial's surface, point by point: 6,400 jitted calls with eager indexing."""
    f = m.jit(lambda x, y: n.sin(x) * n.cos(y) + x * y)
    x, y = n.linspace(-2.0, 2.0, 80), n.linspace(-2.0, 2.0, 80)

    def run() -> Any:
        return [[float(f(x[i], y[j])) for j in range(80)] for i in range(80)]
    return run


def rows() -> list[Row]:
    rng = np.random.default_rng(0)
    x, y, host = (rng.normal(size=4).astype(np.float32) for _ in range(3))
    made = [compare(name, *both(f, x, y, wait=False), bar, inner=inner) for name, f, bar, inner in (
        ("eager x + y, 4 elements", lambda n, x, y: x + y, 1.5, 2000),
        ("eager expression of 10 operations", lambda n, x, y: ((x + y) * x - y + x * 2 - 1)
         / (y + 3) * x + y, 1.0, 300),
        ("eager sin", lambda n, x, y: n.sin(x), None, 1000),
        ("eager sum", lambda n, x, y: n.sum(x), None, 1000),
        ("eager x[2]", lambda n, x, y: x[2], None, 500),
        ("eager x[1:3]", lambda n, x, y: x[1:3], None, 500),
        ("eager list(x), 4 elements", lambda n, x, y: list(x), 1.2, 500),
        ("eager take(x, positions)", lambda n, x, y: n.take(x, n.array([0, 3, 1])), None, 500),
        ("eager var", lambda n, x, y: n.var(x), None, 500),
        ("eager x ** y", lambda n, x, y: n.power(n.abs(x), y), None, 500),
        ("eager polyfit, 4 points", lambda n, x, y: n.polyfit(x, y, 1), None, 500),
        ("eager x >> 1 of integers", lambda n, x, y: n.right_shift(n.arange(4), 1), None, 500),
        ("eager convolve, 4 by 4", lambda n, x, y: n.convolve(x, y), 1.2, 500),
        ("eager cholesky, 4 x 4", lambda n, x, y: n.linalg.cholesky(n.diag(x * x)), 1.2, 500),
        ("eager median", lambda n, x, y: n.median(x), None, 500),
        ("eager logaddexp", lambda n, x, y: n.logaddexp(x, y), None, 500),
        ("eager percentile", lambda n, x, y: n.percentile(x, 30.0), 1.2, 500),
        ("eager interp", lambda n, x, y: n.interp(x, y, x), 1.2, 500),
        ("eager linspace(0, 1, 8)", lambda n, x, y: n.linspace(0, 1, 8), 1.2, 500),
        ("eager where(x > 0, x, y)", lambda n, x, y: n.where(x > 0, x, y), None, 500),
        ("eager std of NumPy's array", lambda n, x, y: n.std(host), 1.2, 500),
        ("eager exp of NumPy's array", lambda n, x, y: n.exp(host), None, 500),
        ("eager x times NumPy's number", lambda n, x, y: x * np.float32(1.5), None, 500))]
    states = rng.normal(size=(500, 200)).astype(np.float32)
    made.append(compare("eager stack of 500 states", *both(
        lambda n, *rows: n.stack(rows), *states), 1.2))
    made.append(compare("80 x 80 loop over f(x[i], y[j])", grid(*SIDES[0]), grid(*SIDES[1]), 1.0,
                        pairs=10))
    flat = rng.normal(size=10_000_000).astype(np.float32)
    a, b = flat[:1_000_000].reshape(1000, 1000), flat[1_000_000:2_000_000].reshape(1000, 1000)
    positions = rng.integers(0, 1_000_000, 1_000_000).astype(np.int32)
    for name, f, *args in (
            ("add 1e6", lambda n, x: x + x, flat[:1_000_000]),
            ("add 1e7", lambda n, x: x + x, flat),
            ("broadcast add 1000 x 1000", lambda n, x: x + x[0], a),
            ("sum 1e7", lambda n, x: n.sum(x), flat),
            ("sum axis 0 of 1000 x 1000", lambda n, x: n.sum(x, 0), a),
            ("sum axis 1 of 1000 x 1000", lambda n, x: n.sum(x, 1), a),
            ("transpose 1000 x 1000, + 1", lambda n, x: x.T + 1, a),
            ("matmul 1000", lambda n, x, y: x @ y, a, b),
            ("x[100:900, ::2] of 1000 x 1000", lambda n, x: x[100:900, ::2], a),
            ("x[positions] 1e6", lambda n, x, i: x[i], flat[:1_000_000], positions),
            ("sort 1e6", lambda n, x: n.sort(x), flat[:1_000_000])):
        made.append(compare(f"eager {name}", *both(f, *args), 1.2))
    return made
