"""What the examples share: a progress bar on stderr, plots as PNG, Adam on trees."""
from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import calque
import calque.numpy as jnp


def steps(n: int, what: str) -> Iterator[int]:
    """range(n) with a progress bar; where stderr is no terminal, with a line now and then."""
    if not sys.stderr.isatty():
        return _lines(n, what)
    from rich.console import Console
    from rich.progress import track
    return iter(track(range(n), what, console=Console(stderr=True), transient=True))


def _lines(n: int, what: str, every_s: float = 5.0) -> Iterator[int]:
    start = last = time.perf_counter()
    print(f"{what}, {n:,} steps", file=sys.stderr, flush=True)
    for i in range(n):
        yield i
        now = time.perf_counter()
        if i + 1 < n and now - last > every_s:
            print(f"{what}, {i + 1:,} of {n:,}, {now - start:.0f} s so far", file=sys.stderr,
                  flush=True)
            last = now
    print(f"{what}, {n:,} steps in {time.perf_counter() - start:.1f} s", file=sys.stderr,
          flush=True)


def plot(path: Path | None, draw: Callable[..., None], width: float, height: float,
         columns: int = 1) -> None:
    """Save what draw(*axes) draws as a PNG; without matplotlib, say how to get it."""
    if path is None:
        return
    try:
        import matplotlib
    except ImportError:
        print("no plot: matplotlib is missing (pip install 'calque[examples]')")
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(1, columns, figsize=(width, height), layout="constrained",
                                squeeze=False)
    draw(*axes[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    print(f"plot: {path}")


# ---- Adam (Kingma and Ba, 2015, algorithm 1) on trees of parameters
def adam_init(params: Any) -> Any:
    """First and second moments, and the number of steps."""
    zeros = calque.tree.map(jnp.zeros_like, params)
    return zeros, zeros, jnp.int32(0)


def adam(params: Any, grads: Any, state: Any, rate: Any, b1: float = 0.9, b2: float = 0.999,
         eps: float = 1e-8) -> tuple[Any, Any]:
    """(new parameters, new state)."""
    first, second, count = state
    count = count + 1
    first = calque.tree.map(lambda m, g: b1 * m + (1 - b1) * g, first, grads)
    second = calque.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, second, grads)
    c1, c2 = 1 - b1 ** count.astype(jnp.float32), 1 - b2 ** count.astype(jnp.float32)
    params = calque.tree.map(lambda p, m, v: p - rate * (m / c1) / (jnp.sqrt(v / c2) + eps),
                             params, first, second)
    return params, (first, second, count)
