"""Matrix products with the C kernel, by IREE alone and by jax, side by side.

jax runs in a process of its own (--jax names a Python that has it), held to the level's vectors;
the three take turns, so that noise hits all of them. Of each case: the least time of each, and
the medians of ratios to jax of the turns. lowering/kernels/gemm.py has what follows from it:
`--levels` (LEVELS, LEAST, LEAST_SIZES) times small and thin products against IREE's alone,
`--packed` (DIRECT and its family) times those that are read as they lie against packed ones,
`--cells` (CELL, PACKED, ROOMS) large ones in cells of several sizes with work space for several
groups. On one core (`taskset -c 0`) it shows what a core does; times of two need a quiet machine.

    CALQUE_CPU=x86-64-v3 python products.py --jax /path/to/python
"""
from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

# rows, contracted size, columns, dtype, which operands are transposed, batch
CASES: list[tuple[int, int, int, str, str, int]] = [
    *((m, 4096, 4096, "float32", "", 1) for m in (128, 96, 64, 8)),
    (300, 700, 500, "float32", "", 1), (1024, 1024, 1024, "float32", "", 1),
    (256, 256, 256, "float32", "", 1), (128, 784, 1024, "float32", "", 1),
    (1024, 1024, 1024, "bfloat16", "", 1), (512, 512, 512, "bfloat16", "", 1),
    (128, 1024, 1024, "bfloat16", "", 1), (512, 512, 512, "float16", "", 1),
    (1024, 1024, 1024, "float64", "", 1), (512, 512, 512, "complex64", "", 1),
    (1000, 1000, 1000, "float32", "x", 1), (1000, 1000, 1000, "float32", "y", 1),
    (8, 4096, 4096, "float32", "y", 1), (64, 64, 64, "float32", "", 256),
    (512, 64, 512, "float32", "y", 8), (2048, 2048, 2048, "float32", "", 1)]
SMALL: list[tuple[int, int, int, str, str, int]] = [
    *((n, n, n, d, "", 1) for d in ("float32", "float64", "bfloat16")
      for n in (96, 128, 160, 192, 256)),
    *((m, 1024, 1024, "float32", "", 1) for m in (1, 2, 4, 32)),
    *((m, 1024, 1024, "float32", "y", 1) for m in (4, 8, 16, 32, 64)),
    *((1024, 1024, n, "float32", "", 1) for n in (8, 16, 32, 64)),
    *((1024, k, 1024, "float32", "", 1) for k in (8, 16, 32, 64)),
    *((n, 16384, n, "float32", "", 1) for n in (16, 64)), (64, 16384, 64, "float32", "x", 1),
    (128, 64, 128, "float32", "y", 64), (128, 128, 64, "float32", "", 64),
    (256, 64, 256, "float32", "y", 32), (96, 96, 96, "float32", "", 64)]
MIDDLE: list[tuple[int, int, int, str, str, int]] = [
    (m, k, n, d, y, 1) for d in ("float32", "float64") for y in ("", "x") for m, k, n in (
        (100, 100, 100), (128, 128, 128), (128, 512, 128), (256, 256, 256), (8, 784, 512),
        (32, 784, 512), (64, 784, 512), (64, 512, 784), (1000, 300, 100), (32, 1024, 128))] + [
    (64, 64, 64, "float32", "", 256)]
MLP = (784, 1024, 1024, 10)
MLP_ROWS = 128
# what holds jax's products to a level: XLA's code and oneDNN; without YNNPACK, which asks the CPU
HELD = {
    "x86-64-v3": {"XLA_FLAGS": "--xla_cpu_max_isa=AVX2 --xla_cpu_experimental_ynn_fusion_type=",
                  "ONEDNN_MAX_CPU_ISA": "AVX2"},
    "x86-64-v2": {"XLA_FLAGS": "--xla_cpu_max_isa=SSE4_2 --xla_cpu_experimental_ynn_fusion_type=",
                  "ONEDNN_MAX_CPU_ISA": "SSE41"}}


def product(x: Any, y: Any) -> Any:
    return x @ y


def network(module: Any) -> Callable[..., Any]:
    def f(x: Any, *weights: Any) -> Any:
        for w in weights[:-1]:
            x = module.maximum(x @ w, 0)
        return x @ weights[-1]
    return f


def operands(case: tuple[Any, ...] | None) -> list[Any]:
    import ml_dtypes
    rng = np.random.default_rng(0)
    if case is None:
        shapes, dtype = [(MLP_ROWS, MLP[0]), *zip(MLP, MLP[1:])], "float32"
    else:
        m, k, n, dtype, turned, batch = case
        lead = (batch,) if batch > 1 else ()
        shapes = [(*lead, *((k, m) if "x" in turned else (m, k))),
                  (*lead, *((n, k) if "y" in turned else (k, n)))]
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    return [rng.standard_normal(s, np.float32).astype(kind) for s in shapes]


def function(case: tuple[Any, ...] | None, module: Any) -> Callable[..., Any]:
    if case is None:
        return network(module)
    turned = case[4]
    return lambda x, y: product(x.mT if "x" in turned else x, y.mT if "y" in turned else y)


def timed(f: Callable[[], Any]) -> float:
    time.sleep(0.003)  # the others' threads have gone to sleep
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def serve() -> None:
    """jax's side: a case on a line (nothing: once more) -> seconds."""
    import jax
    jax.config.update("jax_enable_x64", True)
    run: Callable[[], Any] = lambda: None  # noqa: E731
    for line in sys.stdin:
        if line.strip():
            case = eval(line)
            xs, f = [jax.numpy.asarray(x) for x in operands(case)], jax.jit(
                function(case, jax.numpy))
            run = lambda f=f, xs=xs: f(*xs).block_until_ready()  # noqa: E731
            run(), run()
        print(timed(run), flush=True)


def ours(case: tuple[Any, ...] | None, way: str) -> Callable[[], Any]:
    """A run by the kernel, by IREE alone, or by the kernel with operands packed."""
    import calque
    import calque.lowering.target.targets
    import calque.numpy as jnp
    from calque.lowering.kernels import gemm
    takes, direct = gemm.takes, gemm.direct
    assert takes(calque.lowering.target.targets.cpu_target(), "float32"), "no C kernel here"
    if way == "IREE":
        gemm.takes = lambda target, dtype: False
    if way == "packed":
        gemm.direct = lambda *plan: None
    calque.clear_caches()
    xs = [jnp.asarray(x) for x in operands(case)]
    f = calque.jit(function(case, jnp)).lower(*xs).compile()
    run = lambda: f(*xs).block_until_ready()  # noqa: E731
    run(), run()
    gemm.takes, gemm.direct = takes, direct
    return run


def cells() -> None:
    """Large products by the size of cells and the most groups that have work space."""
    from calque.lowering.kernels import gemm
    cases = [case for case in CASES if case[:4] in (
        (1024, 1024, 1024, "float32"), (128, 4096, 4096, "float32"))]
    print("| case | cell | groups | ms |\n|---|---|---|---|")
    gemm._cost = lambda *plan: 0  # the first plan: cells of CELL x CELL
    for case in cases:
        for gemm.CELL in (128, 256, 512):
            for gemm.GROUPS in (2, 8, 16, 64):
                gemm.ROOMS = 1 << 30
                run = ours(case, "kernel")
                least = min(timed(run) for _ in range(15))
                print(f"| {' x '.join(map(str, case[:3]))} | {gemm.CELL} | {gemm.GROUPS} | "
                      f"{least * 1e3:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jax", default="", help="a Python that has jax")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--levels", action="store_true", help="small and thin products")
    parser.add_argument("--packed", action="store_true", help="read as they lie, or packed")
    parser.add_argument("--cells", action="store_true", help="how a result is cut")
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    given = parser.parse_args()
    if given.serve:
        serve()
        return
    import calque
    with calque.enable_x64(True):
        cells() if given.cells else compare(given)


def compare(given: argparse.Namespace) -> None:
    level = os.environ.get("CALQUE_CPU", "host")
    theirs = None
    if given.jax:
        theirs = subprocess.Popen([given.jax, __file__, "--serve"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL,
                                  env={**os.environ, **HELD.get(level, {})})

    def ask(line: str) -> float:
        assert theirs is not None and theirs.stdin is not None and theirs.stdout is not None
        theirs.stdin.write(line + "\n")
        theirs.stdin.flush()
        return float(theirs.stdout.readline())

    other = "packed" if given.packed else "IREE"
    print(f"{level}\n| case | kernel ms | {other} ms | jax ms | kernel / jax | {other} / jax | "
          f"kernel / {other} |\n|---|---|---|---|---|---|---|")
    for case in (MIDDLE if given.packed else SMALL if given.levels else [*CASES, None]):
        name = "MLP 128 x 784-1024-1024-10" if case is None else (
            f"{case[5]} x " if case[5] > 1 else "") + f"{case[0]} x {case[1]} x {case[2]} " + (
                f"{case[3]} {case[4] and case[4] + '.T'}")
        if given.only not in name:
            continue
        runs = [ours(case, "kernel"), ours(case, other)]
        if theirs:
            ask(repr(case))
            runs.append(lambda: None)
        turns: list[list[float]] = []
        stop = time.perf_counter() + 20
        while len(turns) < given.turns and (len(turns) < 5 or time.perf_counter() < stop):
            order = [0, 1, 2][:len(runs)]
            found = [0.0] * len(runs)
            for i in order[len(turns) % len(runs):] + order[:len(turns) % len(runs)]:
                found[i] = ask("") if i == 2 else timed(runs[i])
            turns.append(found)
        least = [min(t[i] for t in turns) * 1e3 for i in range(len(runs))]
        ratio = [statistics.median(t[a] / t[b] for t in turns) if b < len(runs) else 0.0
                 for a, b in ((0, 2), (1, 2), (0, 1))]
        shown = [f"{t:.3f}" for t in least] + [""] * (3 - len(least))
        print(f"| {name} | {' | '.join(shown)} | "
              f"{' | '.join(f'{r:.2f}' for r in ratio)} |", flush=True)


if __name__ == "__main__":
    main()
