"""A kernel of the user's beside our own loop: the cost of its call, 10M f32, results in place.

python benchmarks/ffi.py [--write]: medians of pairs of calls measured in turn; --write puts the
table into docs/your_own_operation.md.
"""
from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import calque
import calque.numpy as jnp
from calque import ffi

PAGE = Path(__file__).parents[1] / "docs" / "your_own_operation.md"
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
SOURCE = """
void twice_plus(const float *restrict x, float *restrict y, long n, long group, long groups) {
  for (long i = n * group / groups; i < n * (group + 1) / groups; ++i) y[i] = 2 * x[i] + 1;
}"""
IN_PLACE = SOURCE.replace("const float *restrict x", "float *x").replace("float *restrict y",
                                                                         "float *y")


def register(name: str, source: str) -> None:
    ffi.register_ffi_target(name, ffi.Kernel(
        source, "twice_plus", scalars=lambda ins, outs: (outs[0].size,),
        grid=lambda ins, outs: max(1, min(64, outs[0].size >> 16))))


register("twice_plus", SOURCE)
register("twice_plus in place", IN_PLACE)


def kernel(x: Any) -> Any:
    return ffi.ffi_call("twice_plus", x)(x)


def in_place(x: Any) -> Any:
    return ffi.ffi_call("twice_plus in place", x, input_output_aliases={0: 0})(x)


def ours(x: Any) -> Any:
    return 2 * x + 1


def four(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """f of f of f of f: what a call costs inside a program, without what a program costs."""
    return lambda x: f(f(f(f(x))))


def seconds(f: Callable[[Any], Any], x: Any, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        f(x).block_until_ready()
    return (time.perf_counter() - start) / calls


def compared(f: Any, g: Any, size: int, calls: int, rounds: int) -> tuple[float, float, float]:
    """Median seconds of f and g, and the median of the rounds' ratios."""
    f, g = calque.jit(f), calque.jit(g)
    x = jnp.asarray(np.arange(size, dtype=np.float32) / size)
    f(x), g(x)
    pairs = [(seconds(f, x, calls), seconds(g, x, calls)) for _ in range(rounds)]
    a, b = (statistics.median(t) for t in zip(*pairs))
    return a, b, statistics.median(s / t for s, t in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    x = np.arange(1000, dtype=np.float32)
    for f in (kernel, in_place):
        np.testing.assert_array_equal(calque.jit(f)(x), ours(x))
    rows = ["| f32 | the first | the other | ratio | difference |", "|---|---|---|---|---|"]
    cases = (("one call, 16 elements; `2 * x + 1`", kernel, ours, 16, 2000, 25),
             ("four calls, 16 elements; one call", four(kernel), kernel, 16, 2000, 25),
             ("one call, 10 million; `2 * x + 1`", kernel, ours, 10_000_000, 5, 25),
             ("four calls in place, 10 million; four calls with results of their own",
              lambda x: four(in_place)(ours(x)), lambda x: four(kernel)(ours(x)), 10_000_000, 3,
              15))
    for name, f, g, size, calls, rounds in cases:
        a, b, ratio = compared(f, g, size, calls, rounds)
        rows.append(f"| {name} | {a * 1e6:.1f} us | {b * 1e6:.1f} us | {ratio:.2f} | "
                    f"{(a - b) * 1e6:.1f} us |")
        print(rows[-1], flush=True)
    rows += ["", f"Medians on {os.cpu_count()} cores of {platform.machine()} shared with others; "
             "`python benchmarks/ffi.py --write`."]
    if args.write:
        front, rest = PAGE.read_text("utf-8").split(BEGIN)
        PAGE.write_text("\n".join([f"{front}{BEGIN}", *rows, END + rest.split(END)[1]]), "utf-8")


if __name__ == "__main__":
    main()
