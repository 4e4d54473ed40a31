"""Loops that run from the host: IREE's own form against views (lowering/rules/views), side by side.

    python benchmarks/host_loops.py

Each program runs its loop twice, so that both forms run inline; milliseconds of a call, the best of
five, and their ratio.
"""
from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import calque
import calque.numpy as jnp
from calque import lax
from calque.lowering.passes import loops
from calque.lowering.rules import control

LOOPS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "1000 steps, 10 numbers": (lambda x: lax.fori_loop(
        0, 1000, lambda i, c: jnp.sin(c) + i, x), np.ones(10, np.float32)),
    "1000 steps, 10 arrays": (lambda x: lax.fori_loop(
        0, 1000, lambda i, c: [jnp.sin(a) + i for a in c], [x] * 10), np.ones(10, np.float32)),
    "1000 steps, stacked": (lambda x: lax.scan(
        lambda c, i: (jnp.sin(c) + i, c), x, jnp.arange(1000.0)), np.ones(10, np.float32)),
    "while, 1000 steps": (lambda x: lax.while_loop(
        lambda c: c[0] < 1000, lambda c: (c[0] + 1, jnp.sin(c[1])), (0, x)),
        np.ones(10, np.float32)),
    "heat equation, 1M": (lambda x: lax.fori_loop(0, 50, lambda i, c: c + 0.1 * (
        jnp.roll(c, 1) + jnp.roll(c, -1) - 2 * c), x), np.ones(1_000_000, np.float32)),
    "products of 300": (lambda x: lax.fori_loop(
        0, 50, lambda i, c: jnp.tanh(c @ c), x), np.ones((300, 300), np.float32)),
    "updates of 1M": (lambda x: lax.fori_loop(
        0, 200, lambda i, c: c.at[i].set(i), x), np.ones(1_000_000, np.float32))}


def compiled(f: Callable[[Any], Any], x: Any, views: bool) -> Any:
    possible = control.views.is_possible
    if not views:
        control.views.is_possible = lambda values: False
    try:
        g = calque.jit(lambda x: (f(x), f(x * 0.5)))
        calque.block_until_ready(g(x))
    finally:
        control.views.is_possible = possible
    return g


def main() -> None:
    loops.enabled = False
    print(f"{'':26}{'IREE':>9}{'views':>9}{'ratio':>8}")
    for name, (f, x) in LOOPS.items():
        forms, best = [compiled(f, x, views) for views in (False, True)], [1e9, 1e9]
        for _ in range(5):
            for i, g in enumerate(forms):
                start = time.perf_counter()
                calque.block_until_ready(g(x))
                best[i] = min(best[i], time.perf_counter() - start)
        print(f"{name:26}{best[0] * 1e3:9.2f}{best[1] * 1e3:9.2f}{best[1] / best[0]:8.2f}")


if __name__ == "__main__":
    main()
