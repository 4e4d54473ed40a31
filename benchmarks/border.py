"""Where the border between running inside the call and on the queue lies: `python border.py`.

Prints, for programs of growing work, microseconds until the result is there when it is queued on
local-task and when it runs inside the call on local-sync; lowering/passes/cost.py has the border.
"""
from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import calque
import calque.numpy as jnp
from calque.lowering.passes import cost
from calque.lowering.passes.hoist import hoist


def median_us(f: Callable[[], Any], count: int = 150) -> float:
    for _ in range(10):
        f()
    times = []
    for _ in range(count):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return 1e6 * statistics.median(times)


def cases() -> list[tuple[str, Callable[[Any], Any], tuple[int, ...]]]:
    return [
        *((f"product {n} x {n}", lambda x: x @ x, (n, n)) for n in (48, 64, 96, 128, 160, 192)),
        *((f"add {n}", lambda x: x + 1, (n,)) for n in (10_000, 100_000, 300_000, 1_000_000)),
        *((f"tanh {n}", jnp.tanh, (n,)) for n in (10_000, 30_000, 100_000)),
        *((f"softmax 100 x {n}", calque.nn.softmax, (100, n)) for n in (100, 300, 1000)),
        *((f"sort {n}", jnp.sort, (n,)) for n in (1000, 10_000))]


def main() -> None:
    rng = np.random.default_rng(0)
    print("| program | work | queued, us | inside, us | runs |\n|---|---|---|---|---|")
    for name, f, shape in cases():
        x = jnp.asarray(rng.normal(size=shape).astype(np.float32))
        program = hoist(calque.make_jaxpr(f)(x).jaxpr)
        runs, inline, found = cost.runs_inline(program), cost.runs_inline, []
        for inside in (False, True):
            cost.runs_inline = lambda p, inside=inside: inside
            calque.clear_caches()
            jitted = calque.jit(lambda x, f=f: f(x))
            found.append(median_us(lambda g=jitted, x=x: g(x).block_until_ready()))
        cost.runs_inline = inline
        print(f"| {name} | {cost.work(program)} | {found[0]:.0f} | {found[1]:.0f} | "
              f"{'inside' if runs else 'queued'} |")


if __name__ == "__main__":
    main()
