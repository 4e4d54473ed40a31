"""First calls of long programs: chains of functions, layers and their gradients, against jax.

    python benchmarks/chains.py [--jax PYTHON] [--only WORD] [--steps 10 100] [--write]

Each program runs in a fresh process, one a library, with empty caches; CPU time counts all threads
and the compiler's process.  Start at `CHAINS`.
"""
from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import suite

STEPS = (10, 30, 100, 300, 1000)
SIZE = 10


def _sin(lib: Any, x: Any, i: int) -> Any:
    return lib.np.sin(x) + i


def _tanh(lib: Any, x: Any, i: int) -> Any:
    return lib.np.tanh(x) + i


def _exp(lib: Any, x: Any, i: int) -> Any:
    return lib.np.exp(-x * x) + 1 / (1 + i)


def _mixed(lib: Any, x: Any, i: int) -> Any:
    np = lib.np
    return (np.sin(x), np.tanh(x), np.exp(-x), np.log1p(x * x))[i % 4] + 1 / (1 + i)


def _layer(lib: Any, x: Any, i: int) -> Any:
    return lib.np.tanh(x @ x) + i


CHAINS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "sin": (_sin, (SIZE,)), "tanh": (_tanh, (SIZE,)), "exp": (_exp, (SIZE,)),
    "mixed": (_mixed, (SIZE,)), "tanh(x @ x)": (_layer, (SIZE, SIZE))}


def program(lib: Any, name: str, steps: int, gradient: bool) -> tuple[Callable[..., Any], Any]:
    """A chain, or the gradient of its sum; and its argument."""
    step, shape = CHAINS[name]

    def chain(x: Any) -> Any:
        for i in range(steps):
            x = step(lib, x, i)
        return x

    def whole(x: Any) -> Any:
        return chain(x).sum()

    x = lib.np.linspace(0.1, 0.9, SIZE ** len(shape), dtype=lib.np.float32).reshape(shape)
    return (lib.top.grad(whole) if gradient else chain), x


def pair(jax: str, name: str, steps: int, gradient: bool) -> list[list[float]]:
    """Seconds of CPU and of the clock of the first call: calque, jax (nothing where jax's process
    ends: 1,000 exponentials take it more than 20 GiB)."""
    found: list[list[float]] = []
    for library, python in ("calque", sys.executable), ("jax", jax):
        with tempfile.TemporaryDirectory() as cache:
            process = suite.Process(python, library, "host", cache)
            try:
                process.ask("chain", name, steps, gradient)
                found.append(process.ask("first"))
            except RuntimeError:
                if library == "calque":
                    raise
                found.append([])
            process.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jax", default=sys.executable, help="a Python that has jax")
    parser.add_argument("--only", default="", help="chains whose name contains this")
    parser.add_argument("--steps", type=int, nargs="*", default=STEPS)
    parser.add_argument("--write", action="store_true", help="into docs/first_call.md")
    given = parser.parse_args()
    lines = ["| calque / jax: CPU (wall) | " + " | ".join(map(str, given.steps)) + " |",
             "|---" * (1 + len(given.steps)) + "|"]
    for gradient in (False, True):
        for name in CHAINS:
            label = f"gradient of {name}" if gradient else name
            if given.only not in label:
                continue
            cells = []
            for n in given.steps:
                (a, u), other = pair(given.jax, name, n, gradient)
                ratios = f"{a / other[0]:.1f} ({u / other[1]:.1f})" if other else "jax ends"
                cells.append(f"{suite.shown(a)}: {ratios}")
                print(label, n, cells[-1], flush=True)
            lines.append(f"| {label} | {' | '.join(cells)} |")
            if given.write:
                suite.put("first_call.md", "chains", lines)


if __name__ == "__main__":
    main()
