"""Programs of many parts: how first calls grow with leaves, reductions, products and blocks; small
programs' first calls; and a script that compiles one.

    python benchmarks/parts.py [--jax PYTHON] [--only WORD] [--write]

Each program runs in fresh processes, one a library, with empty caches, the two in turn: seconds of
CPU (all threads, the compiler's process too) and of the clock of the first call (medians of ROUNDS,
but of one where it takes LONG), then a steady call (not of the small ones).  --write puts the
tables and a plot into docs/first_call.md.  Start at `PARTS`.
"""
from __future__ import annotations

import argparse
import functools
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import parts_idioms
import suite

Made = tuple[Callable[..., Any], list[Any]]
ROUNDS, LONG = 3, 1.5  # (seconds)
WIDTHS = (64, 96, 128, 160, 192)


def _shapes(lib: Any, n: int) -> list[Any]:
    """n leaves of 50 shapes."""
    return [lib.np.full((i % 50 + 1, 7), 0.5 + i / n, lib.np.float32) for i in range(n)]


def plus_one(lib: Any, n: int) -> Made:
    return lambda xs: [x + 1 for x in xs], [_shapes(lib, n)]


def descent(lib: Any, n: int) -> Made:
    """Vectors of three."""
    xs = [lib.np.full((3,), 1.0 + i, lib.np.float32) for i in range(n)]
    return lambda p, g: [a - 0.1 * b for a, b in zip(p, g)], [xs, xs]


def adam(lib: Any, n: int) -> Made:
    def step(p: Any, g: Any, m: Any, v: Any) -> Any:
        m = [0.9 * a + 0.1 * b for a, b in zip(m, g)]
        v = [0.99 * a + 0.01 * b * b for a, b in zip(v, g)]
        return [a - 1e-3 * b / (lib.np.sqrt(c) + 1e-8) for a, b, c in zip(p, m, v)], m, v

    return step, [_shapes(lib, n) for _ in range(4)]


def norm(lib: Any, n: int) -> Made:
    return lambda xs: lib.np.sqrt(sum(lib.np.vdot(x, x) for x in xs)), [_shapes(lib, n)]


def reductions(lib: Any, n: int) -> Made:
    return lambda x: [(x * i).sum() for i in range(n)], [lib.np.linspace(0, 1, 1000)]


def stacked_gradient(lib: Any, n: int) -> Made:
    """Of a sum over functions of rows, written one after another."""
    def f(x: Any) -> Any:
        return (lib.np.array([lib.np.sin(x[i]).sum() for i in range(n)]) ** 2).sum()

    return lib.top.grad(f), [lib.np.ones((n, 100), lib.np.float32)]


def products(lib: Any, n: int) -> Made:
    w = [lib.np.full((WIDTHS[i % 5], WIDTHS[(i + 1) % 5]), 0.01, lib.np.float32)
         for i in range(n)]
    return (lambda x, w: functools.reduce(lambda x, y: lib.np.tanh(x @ y), w, x),
            [lib.np.ones((32, WIDTHS[0]), lib.np.float32), w])


def blocks(lib: Any, n: int, d: int = 128) -> Made:
    """Transformer blocks, their gradient and a step of descent."""
    np, nn = lib.np, lib.top.nn

    def block(x: Any, w: Any) -> Any:
        q, k, v, o, up, down = w
        a = nn.softmax((x @ q) @ (x @ k).swapaxes(-1, -2) / d ** 0.5) @ (x @ v)
        x = x + a @ o
        return x + nn.gelu(x @ up) @ down

    def step(ws: Any, x: Any) -> Any:
        g = lib.top.grad(lambda ws: functools.reduce(block, ws, x).mean())(ws)
        return lib.top.tree.map(lambda a, b: a - 0.1 * b, ws, g)

    w = [[np.full((d, d), 0.02 + 0.001 * i, np.float32) for i in range(4)]
         + [np.full((d, 4 * d), 0.01, np.float32), np.full((4 * d, d), 0.01, np.float32)]
         for _ in range(n)]
    return step, [w, np.ones((2, 64, d), np.float32)]


PARTS: dict[str, tuple[Callable[[Any, int], Made], tuple[int, ...]]] = {
    "leaves plus one": (plus_one, (10, 100, 1000)),
    "descent, vectors of three": (descent, (10, 100, 300, 1000)),
    "Adam, leaves of 50 shapes": (adam, (10, 100, 300)),
    "norm over leaves": (norm, (10, 100, 300)),
    "reductions of one array": (reductions, (10, 100)),
    "gradient through stacked sums": (stacked_gradient, (30, 60, 90)),
    "products of 5 widths": (products, (10, 100)),
    "transformer blocks, a step": (blocks, (1, 4, 12, 24)),
    **parts_idioms.IDIOMS,
}


def program(lib: Any, name: str, n: int) -> Made:
    """Of PARTS; or, with n 0, a small one."""
    return PARTS[name][0](lib, n) if n else parts_idioms.small(lib, name)


class Row(NamedTuple):
    """What was measured of a program of so many parts: (calque, jax) each."""

    name: str
    parts: int
    cpu: list[float]  # seconds of the first call
    wall: list[float]
    steady: list[float]
    memory: list[float]  # MiB

    def cells(self) -> list[str]:
        (a, b), (u, v), (s, t), (m, k) = self.cpu, self.wall, self.steady, self.memory
        return [f"{self.name}, {self.parts}", f"{a:.2f} s", f"{a / b:.2f}", f"{u / v:.2f}",
                suite.shown(s), f"{s / t:.2f}", f"{m:.0f} / {k:.0f}"]


def measure(jax: str, name: str, n: int) -> Row:
    """Medians of the first calls of ROUNDS pairs of processes, or of one pair where a call takes
    long; steady calls and memory of the last."""
    first: list[list[list[float]]] = [[], []]
    for left in reversed(range(ROUNDS)):
        with tempfile.TemporaryDirectory() as cache:
            both = [suite.Process(python, library, "host", f"{cache}/{library}")
                    for library, python in (("calque", sys.executable), ("jax", jax))]
            for p, found in zip(both, first):
                p.ask("part", name, n)
                found.append(p.ask("first"))
            is_last = not left or max(f[-1][0] for f in first) > LONG
            if is_last:
                memory = [p.ask("memory") for p in both]
                times, _ = suite.steady(both, 1.0)
            for p in both:
                p.close()
        if is_last:
            break
    cpu, wall = ([statistics.median(f[k] for f in found) for found in first] for k in (0, 1))
    return Row(name, n, cpu, wall, times, memory)


WIDE, HIGH, ACROSS = 240, 150, 3  # of a panel, and how many stand beside each other


def picture(rows: Sequence[Row]) -> str:
    """How first calls grow with the parts, both axes logarithmic (an SVG)."""
    grown = [name for name, (_, sizes) in PARTS.items() if len(sizes) > 2]
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {ACROSS * WIDE + 20} '
             f'{-(-len(grown) // ACROSS) * (HIGH + 50) + 30}" font-family="sans-serif" '
             'font-size="10"><text x="8" y="14">seconds of CPU of the first call: '
             '<tspan fill="#258">calque</tspan>, <tspan fill="#b33">jax</tspan></text>']
    for i, name in enumerate(grown):
        lines += _panel([r for r in rows if r.name == name], WIDE * (i % ACROSS) + 40,
                        (HIGH + 50) * (i // ACROSS) + HIGH + 45)
    return "\n".join([*lines, "</svg>", ""])


def _panel(rows: Sequence[Row], left: int, bottom: int) -> list[str]:
    width, least, most = WIDE - 70, rows[0].parts, rows[-1].parts

    def x(n: int) -> float:
        return left + width * math.log(n / least) / math.log(most / least)

    def y(seconds: float) -> float:  # 0.01 to 10 s
        return bottom - HIGH * (math.log10(seconds) + 2) / 3

    lines = [f'<text x="{left}" y="{bottom - HIGH - 6}">{rows[0].name}</text>']
    lines += [f'<path d="M{left} {y(s):.1f}h{width}" stroke="#ccc"/><text x="{left - 4}" '
              f'y="{y(s) + 3:.1f}" text-anchor="end">{s:g}</text>' for s in (0.01, 0.1, 1, 10)]
    lines += [f'<text x="{x(r.parts):.1f}" y="{bottom + 12}" text-anchor="middle">{r.parts}</text>'
              for r in rows]
    for k, colour in enumerate(("#258", "#b33")):
        points = " ".join(f"{x(r.parts):.1f},{y(r.cpu[k]):.1f}" for r in rows)
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" '
                     'stroke-width="1.5"/>')
    return lines


def small(jax: str) -> list[str]:
    """A line for all small programs, and one for each; and the script."""
    ratios, lines = list[tuple[float, float]](), list[str]()
    for name in parts_idioms.SMALL:
        with tempfile.TemporaryDirectory() as cache:
            both = [suite.Process(python, library, "host", f"{cache}/{library}")
                    for library, python in (("calque", sys.executable), ("jax", jax))]
            for p in both:
                p.ask("part", name, 0)
            (a, u), (b, v) = [p.ask("first") for p in both]
            for p in both:
                p.close()
        ratios.append((a / b, u / v))
        lines.append(f"| {name} | {1e3 * a:.0f} ms | {a / b:.2f} | {u / v:.2f} |")
        print(lines[-1], flush=True)
    cpu, wall = (math.exp(statistics.fmean(map(math.log, r))) for r in zip(*ratios))
    lines.append(f"| **geometric mean of the {len(ratios)}** | | **{cpu:.2f}** | **{wall:.2f}** |")
    mine, other = script(jax)
    lines.append(f"| script: import, jit, print ({mine:.2f} s, {other:.2f} s) | | | "
                 f"{mine / other:.2f} |")
    print(*lines[-2:], sep="\n")
    return lines


def script(jax: str, rounds: int = 7) -> list[float]:
    """Medians of the seconds that a script takes that imports a library, compiles x + 1 and
    prints, with empty caches, the two in turn."""
    took: list[list[float]] = [[], []]
    for _ in range(rounds):
        for times, python, name in zip(took, (sys.executable, jax), ("calque", "jax")):
            with tempfile.TemporaryDirectory() as cache:
                start = time.perf_counter()
                subprocess.run(
                    [python, "-c", f"import {name}, {name}.numpy as np\n"
                     f"print({name}.jit(lambda x: x + 1)(np.arange(4.0)))"],
                    check=True, stdout=subprocess.DEVNULL,
                    env={**os.environ, "CALQUE_CACHE_DIR": cache})
                times.append(time.perf_counter() - start)
    return list(map(statistics.median, took))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jax", default=sys.executable, help="a Python that has jax")
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--write", action="store_true", help="into docs/first_call.md")
    given = parser.parse_args()
    lines = ["| program | first call, CPU | of JAX's | of its wall time | steady | of JAX's "
             "| MiB, calque / jax |", "|---|---|---|---|---|---|---|"]
    found: list[Row] = []
    for name, (_, sizes) in PARTS.items():
        if given.only in name:
            for n in sizes:
                found.append(measure(given.jax, name, n))
                lines.append(f"| {' | '.join(found[-1].cells())} |")
                print(lines[-1], flush=True)
    if given.only in "small":
        rows = ["| program | first call, CPU | of JAX's | of its wall time |", "|---|---|---|---|",
                *small(given.jax)]
    if given.write:
        suite.put("first_call.md", "parts", [*lines, "", "![growth of first calls](parts.svg)"])
        (suite.DOCS / "parts.svg").write_text(picture(found))
        suite.put("first_call.md", "small", rows)


if __name__ == "__main__":
    main()
