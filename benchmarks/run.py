"""The benchmark table of docs/benchmarks.md: calque against jax 0.10.2 on the CPU.

    python benchmarks/run.py                  # all cases, prints a table
    python benchmarks/run.py --only matmul    # cases whose name contains a word
    python benchmarks/run.py --write          # also writes docs/benchmarks.md (those cases of it)
"""
from __future__ import annotations

import argparse
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from arrays import rows as array_rows
from attention import rows as attention_rows
from eager import rows as eager_rows
from fourier import rows as fourier_rows
from linalg import rows as linalg_rows
from loops import rows as loop_rows
from pairs import HEADER, Row, compare
from training import rows as training_rows

import calque
import calque.numpy as cnp

cases: dict[str, Callable[[], list[Row]]] = {}


def case(f: Callable[[], list[Row]]) -> Callable[[], list[Row]]:
    cases[f.__name__] = f
    return f


def both(fun: Callable[..., Any], *args: Any, x64: bool = False) -> tuple[Any, Any]:
    """Thunks of fun(np-like module, *arrays) jitted in calque and in jax, waiting for results."""
    ours, theirs = calque.jit(lambda *xs: fun(cnp, *xs)), jax.jit(lambda *xs: fun(jnp, *xs))
    with calque.enable_x64(x64), jax.enable_x64(x64):
        a = [calque.device_put(x) for x in args]
        b = [jnp.asarray(x) for x in args]

    def run_ours() -> Any:
        with calque.enable_x64(x64):
            return ours(*a).block_until_ready()

    def run_theirs() -> Any:
        with jax.enable_x64(x64):
            return theirs(*b).block_until_ready()

    return run_ours, run_theirs


@case
def dispatch() -> list[Row]:
    """Overhead of a call: results are not waited for beyond what the call does."""
    a = np.arange(4, dtype=np.float32)
    ours, theirs = calque.jit(lambda x, y: x + y), jax.jit(lambda x, y: x + y)
    ca, ja = cnp.asarray(a), jnp.asarray(a)
    rows = [compare("jitted add of 4 elements", lambda: ours(ca, ca), lambda: theirs(ja, ja),
                    1.3, inner=5000)]
    trees = [{f"k{i}": m.asarray(a) for i in range(20)} for m in (cnp, jnp)]
    double = lambda t: {k: v + v for k, v in t.items()}  # noqa: E731
    fo, ft = calque.jit(double), jax.jit(double)
    rows.append(compare("jitted function of a 20-leaf tree", lambda: fo(trees[0]),
                        lambda: ft(trees[1]), 1.3, inner=1000))
    return rows


def tutorial(m: Any, x: Any) -> Any:
    return m.sum(3 * x + m.sin(x) + m.cos(x**2) - m.cos(2 * x) - x**2 * 0.4 * x**1.5)


@case
def tutorial_function() -> list[Row]:
    """The first tutorial's f(x) on 50M elements."""
    rng = np.random.default_rng(0)
    n = 50_000_000
    x = rng.uniform(0, 5, n).astype(np.float32)
    rows = [compare("f(x), 50M f32, x in [0, 5)", *both(tutorial, x), 0.2, 30)]
    del x
    rows.append(compare("f(x), 50M f32 ones", *both(tutorial, np.ones(n, np.float32)), None, 10))
    x = rng.uniform(-1e6, 1e6, n // 5).astype(np.float32)
    waves = lambda m, x: m.sum(m.sin(x) + m.cos(2 * x))  # noqa: E731
    rows.append(compare("sin, cos of 10M f32, |x| <= 1e6", *both(waves, x), None, 10))
    x = rng.uniform(0, 5, n // 5)
    rows.append(compare("f(x), 10M f64, x in [0, 5)", *both(tutorial, x, x64=True), None, 10))
    return rows


@case
def grid() -> list[Row]:
    """The tutorial's 6000 x 6000 surface: broadcasting, no meshgrid."""
    x = np.linspace(-2, 2, 6000).astype(np.float32)

    def surface(m: Any, x: Any, y: Any) -> Any:
        r = x[:, None] ** 2 + y[None, :] ** 2
        return m.cos(r) / (1 + r)

    return [compare("6000 x 6000 grid", *both(surface, x, x), 1 / 1.5)]


@case
def matmul() -> list[Row]:
    """f32 products."""
    rng = np.random.default_rng(0)
    dot = lambda m, a, b: m.dot(a, b)  # noqa: E731
    rows = []
    for n in (512, 1024, 2048, 4096):
        a, b = (rng.standard_normal((n, n)).astype(np.float32) for _ in range(2))
        rows.append(compare(f"matmul {n} f32", *both(dot, a, b), 1.1, 30))
    a, v = rng.standard_normal((4096, 4096)).astype(np.float32), \
        rng.standard_normal(4096).astype(np.float32)
    rows.append(compare("matvec 4096 f32", *both(dot, a, v), 1.1, inner=3))
    rows.append(compare("vecmat 4096 f32", *both(dot, v, a), 1.1, inner=3))
    return rows


@case
def odd_sizes() -> list[Row]:
    """What no whole vectors make up: products, integers, rows and columns."""
    rng = np.random.default_rng(0)

    def some(*shape: int, dtype: Any = np.float32) -> Any:
        return (4 * rng.standard_normal(shape)).astype(dtype)

    dot = lambda m, a, b: m.matmul(a, b)  # noqa: E731
    x, bytes_ = some(1999, 101), some(999, 999, dtype=np.int8)
    return [
        compare("matmul 127 f32", *both(dot, some(127, 127), some(127, 127)), 1.1, inner=10),
        compare("matmul 97 int32", *both(dot, *some(2, 97, 97, dtype=np.int32)), inner=10),
        compare("matmul 12 x (101 x 64 x 101) f32", *both(dot, some(12, 101, 64),
                                                         some(12, 64, 101)), 1.1, inner=10),
        compare("relu(x w + b), 33 x 97 x 51", *both(
            lambda m, x, w, b: m.maximum(x @ w + b, 0), some(33, 97), some(97, 51), some(51)),
            1.3, inner=20),
        compare("3 x + 1, 999 x 999 int8", *both(lambda m, x: x * 3 + 1, bytes_), inner=10),
        compare("x.T + 1, 1999 x 101", *both(lambda m, x: x.T + 1, x), 1.1, inner=10),
        compare("x.std(1), 1999 x 101", *both(lambda m, x: x.std(1), x), 1.1, inner=10)]


@case
def random_bits() -> list[Row]:
    """Bits and uniforms, 2 x 10M."""
    ck, jk = calque.random.key(0), jax.random.key(0)
    rows = []
    for stream in (False, True):
        co = calque.jit(lambda k: calque.random.bits(k, (2, 10_000_000)))
        jo = jax.jit(lambda k: jax.random.bits(k, (2, 10_000_000)))

        def ours(f: Any = co, stream: bool = stream) -> Any:
            with calque.threefry_partitionable(stream):
                return f(ck).block_until_ready()

        def theirs(f: Any = jo, stream: bool = stream) -> Any:
            with jax.threefry_partitionable(stream):
                return f(jk).block_until_ready()

        name = "today's" if stream else "original"
        rows.append(compare(f"random bits 2 x 10M, {name} stream", ours, theirs, 0.5))
    return rows


@case
def arrays() -> list[Row]:
    """Sorting, gather, reductions, convolutions (benchmarks/arrays.py)."""
    return array_rows()


@case
def eager() -> list[Row]:
    """Code outside jit (benchmarks/eager.py)."""
    return eager_rows()


@case
def loops() -> list[Row]:
    """Scans and whiles (benchmarks/loops.py)."""
    return loop_rows()


@case
def training() -> list[Row]:
    """Steps, gradients and tracing (benchmarks/training.py)."""
    return training_rows()


@case
def attention() -> list[Row]:
    """softmax(q k^T) v (benchmarks/attention.py)."""
    return attention_rows()


@case
def fourier() -> list[Row]:
    """Transforms (benchmarks/fourier.py)."""
    return fourier_rows()


@case
def linalg() -> list[Row]:
    """Factorizations (benchmarks/linalg.py)."""
    return linalg_rows()


_FIRST = """
import time, os
start = time.perf_counter()
import calque, calque.numpy as jnp
imported = time.perf_counter()
x = jnp.asarray([1.0, 2.0])
calque.jit(lambda x: x - 3)(x)          # the process is warm: devices and compiler are up
f = calque.jit(lambda x: x * 2 + 1)
t = time.perf_counter()
f(x).block_until_ready()
print(imported - start, time.perf_counter() - t)
"""
_BARE = """
import time
from calque.lowering.compiler.compile import compile_module
from calque.lowering.target.targets import cpu_target
import calque, calque.numpy as jnp
calque.jit(lambda x: x - 3)(jnp.asarray([1.0, 2.0]))
from calque.lowering.driver.module import lower
p = calque.jit(lambda x: x * 2 + 1).trace(jnp.asarray([1.0, 2.0])).jaxpr
source = lower(p, cpu_target()).module
t = time.perf_counter()
compile_module(source, cpu_target())
print(time.perf_counter() - t)
"""
_IMPORT_JAX = """
import time
start = time.perf_counter()
import jax, jax.numpy
print(time.perf_counter() - start)
"""


def _process(code: str, cache: str) -> list[float]:
    env = {**os.environ, "CALQUE_CACHE_DIR": cache}
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True,
                         check=True)
    return [float(v) for v in out.stdout.split()]


def start_up() -> str:
    """First call, warm disk cache, import: medians over processes, as text."""
    first, warm, bare, ours, theirs = [], [], [], [], []
    for _ in range(7):
        with tempfile.TemporaryDirectory() as cache:
            first.append(_process(_FIRST, cache)[1])
            imported, again = _process(_FIRST, cache)
            warm.append(again)
            ours.append(imported)
            bare.append(_process(_BARE, cache)[0])
            theirs.append(_process(_IMPORT_JAX, cache)[0])
    m = {k: float(np.median(v)) * 1e3 for k, v in
         dict(first=first, warm=warm, bare=bare, ours=ours, theirs=theirs).items()}
    return "\n".join([
        "| start-up | measured | bar |", "|---|---|---|",
        f"| first call of jitted `x*2+1`, cold caches, warm process | {m['first']:.0f} ms, bare "
        f"IREE compile {m['bare']:.0f} ms: {m['first'] / m['bare']:.2f} | 1.25 |",
        f"| the same in a second process, warm disk cache | {m['warm']:.1f} ms | 20 ms |",
        f"| `import calque` / `import jax` | {m['ours']:.0f} ms / {m['theirs']:.0f} ms: "
        f"{m['ours'] / m['theirs']:.2f} | 1.2 |"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    made: dict[str, str] = {}
    print(HEADER, flush=True)
    for name, f in cases.items():
        if options.only in name:
            lines = [HEADER]
            for row in f():
                lines.append(row.markdown())
                print(row.markdown(), flush=True)
            made[name] = "\n".join(lines)
    if options.only in "start_up":
        made["start_up"] = start_up()
        print(made["start_up"])
    if options.write:
        write(made)


def write(made: dict[str, str]) -> None:
    """Put tables into docs/benchmarks.md, each under its case's name; the others stay."""
    head = (f"# Benchmarks\n\nMade by `python benchmarks/run.py --write`: "
            f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python "
            f"{platform.python_version()}, jax {jax.__version__}, iree 3.13. Medians of "
            "interleaved pairs in one process; ratios calque / jax, below 1 is faster; a bar holds "
            "if it lies above the median or inside the quartiles.\n")
    path = pathlib.Path(__file__).parent.parent / "docs" / "benchmarks.md"
    old = path.read_text().split("\n## ")[1:] if path.exists() else []
    sections = {text.split(" (")[0]: text.partition("\n")[0] + "\n" + text.partition("\n")[2]
                for text in old}
    sections.update({name: f"{name} ({time.strftime('%Y-%m-%d')})\n\n{table}\n"
                     for name, table in made.items()})
    order = [n for n in (*cases, "start_up", "peers") if n in sections]  # (peers.py's own)
    path.write_text("\n## ".join([head, *[sections[n] for n in order]]))


if __name__ == "__main__":
    main()
