"""Some 260 expressions of jax.numpy and its neighbours in many settings, calque beside jax.

python benchmarks/sweep.py --jax PYTHON [--modes jit,grad] [--sizes 37x53] [--only REGEX] [--write]

A suite of programs says little of what lies next to it; this asks of every expression
(sweep_expressions.py) how long it takes jitted, eagerly, of NumPy's arrays, differentiated, mapped
over a batch, in a loop, and in other dtypes (`MODES`).  One process a library, in turn; times are
the best of a few calls until the results are there.  Sums of the results are compared, too.
--write puts the table (geometric means, and the worst) into docs/sweep.md.  Start reading at
`MODES`.
"""
from __future__ import annotations

import argparse
import functools
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sweep_expressions import EXPRESSIONS, arrays

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "sweep.md"
BATCH, STEPS = 16, 50
DTYPES = ("float64", "bfloat16", "float16", "int32", "int8", "complex64")
MODES = {
    "jit": "jitted", "eager": "eagerly, of arrays", "numpy": "eagerly, of NumPy's arrays",
    "grad": "the gradient of its squares' sum, jitted", "vmap": f"`vmap` over {BATCH}, jitted",
    "loop": f"in a `scan` of {STEPS} steps whose carry it reads and makes",
    **{d: f"jitted, what is float32 as {d}" for d in DTYPES}}
WORSE = 1.2
CLOSE = 2e-3  # of sums: of single precision, in other orders; of float16 and bfloat16 see `apart`

Function = Callable[..., Any]


# ---- one library, in its process
class Library:
    """Answers questions on standard input."""

    def __init__(self, name: str) -> None:
        if name == "jax":
            import jax
            import jax.numpy as jnp
            import jax.scipy.special as sp
            from jax import lax
        else:
            import calque as jax  # type: ignore[no-redef]
            import calque.numpy as jnp  # type: ignore[no-redef]
            import calque.scipy.special as sp  # type: ignore[no-redef]
            from calque import lax  # type: ignore[no-redef,attr-defined]
        self.jax, self.names = jax, {"jax": jax, "jnp": jnp, "sp": sp, "lax": lax}
        self.run: Function = lambda: None

    def make(self, mode: str, expression: str, n: int, m: int) -> Any:
        """Make the call ready: [seconds of the first one, its results' sums]."""
        given = {k: v for k, v in arrays(n, m).items() if re.search(rf"\b{k}\b", expression)}
        f = eval(f"lambda {', '.join(given)}: {expression}", dict(self.names))
        jnp = self.names["jnp"]
        if mode in DTYPES:
            given = {k: v.astype(jnp.dtype(mode)) if v.dtype == np.float32 else v
                     for k, v in given.items()}
        if "h" in given and mode not in DTYPES:
            given["h"] = given["h"].astype(jnp.dtype("bfloat16"))
        values = list(given.values())
        f = getattr(self, "of_" + mode, self.of_jit)(f, values)
        if mode == "vmap":
            values = [np.stack([np.roll(v, i) for i in range(BATCH)]) for v in values]
        if mode != "numpy":
            values = [jnp.asarray(v) for v in values]
        wait = self.jax.block_until_ready
        self.run = lambda: wait(f(*values))
        start = time.perf_counter()
        found = self.run()
        return [time.perf_counter() - start, [sums(x) for x in self.jax.tree.leaves(found)]]

    def of_jit(self, f: Function, values: list[Any]) -> Function:
        return self.jax.jit(f)

    def of_eager(self, f: Function, values: list[Any]) -> Function:
        return f

    of_numpy = of_eager

    def total(self, out: Any) -> Any:
        """The sum of a result's numbers."""
        jnp = self.names["jnp"]
        return sum([jnp.real(x).astype(jnp.float32).sum() for x in self.jax.tree.leaves(out)])

    def of_grad(self, f: Function, values: list[Any]) -> Function:
        which = tuple(i for i, v in enumerate(values) if v.dtype.kind == "f")
        out = self.jax.tree.leaves(self.jax.eval_shape(f, *values))
        if not which or not any(x.dtype.kind in "fc" for x in out):
            raise LookupError("has no gradient")
        return self.jax.jit(self.jax.grad(lambda *a: self.total(self.jax.tree.map(
            lambda x: x * x if x.dtype.kind in "fc" else x, f(*a))), which))

    def of_vmap(self, f: Function, values: list[Any]) -> Function:
        return self.jax.jit(self.jax.vmap(f))

    def of_loop(self, f: Function, values: list[Any]) -> Function:
        jnp, lax = self.names["jnp"], self.names["lax"]

        def step(carry: Any, _: Any) -> Any:
            made = self.total(f(*[
                v + carry.astype(v.dtype) if v.dtype.kind == "f" else
                v ^ (carry > 1e30).astype(v.dtype) if v.dtype.kind in "iub" else v + carry
                for v in now]))
            return jnp.where(jnp.abs(made) < 1e9, made * 1e-12, 0), None

        def run(*given: Any) -> Any:
            now[:] = given
            return lax.scan(step, jnp.float32(0), None, length=STEPS)[0]

        now: list[Any] = []
        return self.jax.jit(run)

    def time(self, seconds: float) -> float:
        """The best of calls for so long."""
        best, stop, calls = math.inf, time.perf_counter() + seconds, 0
        while calls < 3 or (time.perf_counter() < stop and calls < 300):
            start = time.perf_counter()
            self.run()
            best, calls = min(best, time.perf_counter() - start), calls + 1
        return best

    def serve(self) -> None:
        for line in sys.stdin:
            name, *rest = json.loads(line)
            try:
                answer: Any = getattr(self, name)(*rest)
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {str(error).splitlines()[0][:90]}"
                          if str(error) else type(error).__name__}
            print(json.dumps(answer), flush=True)


def sums(x: Any) -> list[Any]:
    """Dtype, shape, and two sums of a result."""
    v = np.asarray(x)
    flat = v.astype(np.complex128).ravel() if v.dtype.kind == "c" else v.astype(np.float64).ravel()
    flat = np.nan_to_num(flat, nan=3.0, posinf=5.0, neginf=7.0)
    weights = np.cos(np.arange(flat.size))
    return [v.dtype.name, list(v.shape), float(np.abs(flat).sum()),
            float(np.real((flat * weights).sum()))]


# ---- both
class Child:
    """A library in a process of its own."""

    def __init__(self, python: str, name: str, cache: str, wide: bool) -> None:
        env = {**os.environ, "CALQUE_CACHE_DIR": cache, "JAX_ENABLE_X64": str(int(wide)),
               "JAX_PLATFORMS": "cpu", "PYTHONWARNINGS": "ignore"}
        self.process = subprocess.Popen(
            [python, str(HERE / "sweep.py"), "--serve", name], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)

    def ask(self, *question: Any) -> Any:
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline() or '{"error": "the process ended"}')
        except BrokenPipeError:
            return {"error": "the process ended"}

    def close(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def measure(both: list[Child], mode: str, expression: str, n: int, m: int,
            seconds: float) -> dict[str, Any]:
    """Seconds of a call, ratios and what differs; or what failed."""
    made = [p.ask("make", mode, expression, n, m) for p in both]
    errors = [x.get("error") if isinstance(x, dict) else None for x in made]
    if any(errors):
        return {"errors": errors}
    best = [math.inf, math.inf]
    for turn in range(4):
        for i in (0, 1) if turn % 2 else (1, 0):
            best[i] = min(best[i], both[i].ask("time", seconds / 4))
    return {"times": best, "ratio": best[0] / best[1], "first": made[0][0] / made[1][0],
            "apart": apart(mode, expression, made[0][1], made[1][1])}


def apart(mode: str, expression: str, ours: list[Any], theirs: list[Any]) -> str:
    """What differs between the sums of results; nothing of random ones' values."""
    if [x[:2] for x in ours] != [x[:2] for x in theirs]:
        return f"{ours} and {theirs}: shapes or dtypes"[:120]
    if "random" in expression:
        return ""
    close = 0.05 if "16" in mode or "h" in expression else CLOSE
    for a, b in zip(ours, theirs):
        size = max(abs(a[2]), abs(b[2]), 1e-6)
        if abs(a[2] - b[2]) > close * size or abs(a[3] - b[3]) > close * size:
            return f"{a[2]:.6g} and {b[2]:.6g}, {a[3]:.6g} and {b[3]:.6g}"
    return ""


def sweep(pythons: list[str], mode: str, n: int, m: int, only: str, seconds: float
          ) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as cache:
        start = functools.partial(map, lambda v: Child(v[1], v[0], cache, mode == "float64"),
                                  list(zip(("calque", "jax"), pythons)))
        both = list(start())
        for expression in EXPRESSIONS:
            if not re.search(only, expression):
                continue
            row = found[expression] = measure(both, mode, expression, n, m, seconds)
            if "the process ended" in row.get("errors", ()):
                both = list(start())
            errors = row.get("errors", [None, None])
            if row.get("ratio", 0) > 1.5 or row.get("apart") or (not errors[0]) != (not errors[1]):
                print(f"  {mode} {n}x{m} {expression}: {told(row)}", flush=True)
        for p in both:
            p.close()
    return found


def told(row: dict[str, Any]) -> str:
    if "errors" in row:
        return f"calque: {row['errors'][0]}; jax: {row['errors'][1]}"
    ours, theirs = (t * 1e6 for t in row["times"])
    more = f", differs: {row['apart']}" if row["apart"] else ""
    return f"{ours:.1f} us, jax {theirs:.1f}: {row['ratio']:.2f}{more}"


def table(found: dict[tuple[str, str], dict[str, Any]]) -> list[str]:
    """A line for each mode and size, and the expressions that lose most."""
    lines = ["| what | size | expressions | of jax's time | above 1.2 | the worst |",
             "|---|---|---|---|---|---|"]
    for (mode, size), rows in found.items():
        ratios = {e: r["ratio"] for e, r in rows.items() if "ratio" in r}
        if not ratios:
            continue
        mean = math.exp(statistics.fmean(map(math.log, ratios.values())))
        worst = sorted(ratios, key=lambda e: -ratios[e])[:5]
        shown = ", ".join("`{}` {:.1f}".format(e.replace("|", "\\|"), ratios[e]) for e in worst)
        lines.append(f"| {MODES[mode]} | {size} | {len(ratios)} | {mean:.2f} | "
                     f"{sum(r > WORSE for r in ratios.values())} | {shown} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", choices=("calque", "jax"), help=argparse.SUPPRESS)
    parser.add_argument("--jax", default=sys.executable, help="a Python that has jax")
    parser.add_argument("--modes", default="jit,eager,numpy,grad,vmap,loop",
                        help=f"of {','.join(MODES)}")
    parser.add_argument("--sizes", default="37x53,1000x1000", help="of the arrays")
    parser.add_argument("--only", default="", help="expressions that this regular expression finds")
    parser.add_argument("--seconds", type=float, default=0.03, help="for each expression and side")
    parser.add_argument("--out", help="a file for all figures, as JSON")
    parser.add_argument("--read", nargs="*", default=[], help="such files: their rows come first")
    parser.add_argument("--write", action="store_true", help="into docs/sweep.md")
    options = parser.parse_args()
    if options.serve:
        Library(options.serve).serve()
        return
    found = {(key.split()[0], key.split()[1]): rows for file in options.read
             for key, rows in json.loads(Path(file).read_text()).items()}
    for mode in filter(None, options.modes.split(",")):
        for size in options.sizes.split(","):
            n, m = map(int, size.split("x"))
            found[mode, size] = sweep([sys.executable, options.jax], mode, n, m, options.only,
                                      options.seconds)
            print(table({(mode, size): found[mode, size]})[-1], flush=True)
            if options.out:
                Path(options.out).write_text(json.dumps(
                    {" ".join(k): v for k, v in found.items()}, indent=1))
    if options.write:
        text = PAGE.read_text()
        head, _, rest = text.partition("<!-- sweep: begin -->")
        tail = rest.partition("<!-- sweep: end -->")[2]
        PAGE.write_text("\n".join([f"{head}<!-- sweep: begin -->", *table(found),
                                   f"<!-- sweep: end -->{tail}"]))


if __name__ == "__main__":
    main()
