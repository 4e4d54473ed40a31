"""Numerical kernels that others wrote as benchmarks with a JAX version, calque beside jax.

    python benchmarks/numerical.py FOLDER [--jax PYTHON] [--sizes S M] [--only WORD ...]
                                   [--kept FILE] [--write]

FOLDER holds checkouts of NPBench (npbench) and pyhpc-benchmarks (pyhpc-benchmarks); nothing of
theirs is in ours.  Each kernel runs in two fresh processes, one a library, with an empty cache and
64-bit numbers, as its authors run it: the first call, then calls in turn.  Results are compared
with each other's and with the NumPy version's.  --sizes are NPBench's; pyhpc's are 4096 to 1048576
elements.  --kept is where rows are kept from run to run; --write puts the table into docs/suite.md.
Start reading at `measured`.
"""
from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import pathlib
import select
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

PATIENCE = 90.0  # seconds for an answer
PYHPC = {"equation_of_state": "eos", "isoneutral_mixing": "isoneutral",
         "turbulent_kinetic_energy": "tke"}
PYHPC_SIZES = (4096, 65536, 1048576)
CLOSE = 1e-6  # of the largest number: kernels that amplify rounding (mandelbrot1) reach 2e-7


# ---- in a process of its own
class Kernel:
    """A function of a checkout with its arguments."""

    def __init__(self, folder: pathlib.Path, case: str, library: str) -> None:
        made = self._npbench if case.startswith("npbench") else self._pyhpc
        self.library = library
        self.changed: list[int] = []  # arguments that NumPy's version writes results into
        self.f, self.args = made(folder, *case.split(":")[1:])

    def array(self, x: Any) -> Any:
        if self.library == "numpy":
            return np.array(x)
        import jax.numpy as jnp
        return jnp.array(x)

    def _npbench(self, folder: pathlib.Path, name: str, size: str) -> tuple[Any, list[Any]]:
        root = folder / "npbench"
        sys.path.insert(0, str(root))
        info = json.loads((root / "bench_info" / f"{name}.json").read_text())["benchmark"]
        data = dict(info["parameters"][size])
        path = info["relative_path"].replace("/", ".")
        module = f"npbench.benchmarks.{path}.{info['module_name']}"
        if info.get("init"):
            init, out = info["init"], info["init"]["output_args"]
            found = getattr(importlib.import_module(module), init["func_name"])(
                *[data[k] for k in init["input_args"]])
            data.update(zip(out, found if len(out) > 1 else [found]))
        kind = "numpy" if self.library == "numpy" else "jax"
        f = getattr(importlib.import_module(f"{module}_{kind}"), info["func_name"])
        self.changed = [i for i, k in enumerate(info["input_args"]) if k in info["output_args"]]
        return f, [self.array(data[k]) if k in info["array_args"] else data[k]
                   for k in info["input_args"]]

    def _pyhpc(self, folder: pathlib.Path, name: str, size: str) -> tuple[Any, list[Any]]:
        sys.path.insert(0, str(folder / "pyhpc-benchmarks"))
        given = importlib.import_module(f"benchmarks.{name}").generate_inputs(int(size))
        kind = "numpy" if self.library == "numpy" else "jax"
        run = importlib.import_module(f"benchmarks.{name}.{PYHPC[name]}_{kind}").run
        return run, [self.array(x) for x in given]

    def call(self) -> Any:
        out = self.f(*self.args)
        if self.library != "numpy":
            import jax
            jax.block_until_ready(out)
        return out

    def results(self, out: Any) -> list[Any]:
        """As NumPy arrays: what is returned, and what was written into arguments."""
        changed = [self.args[i] for i in self.changed] if self.library == "numpy" else []
        returned = list(out) if isinstance(out, tuple | list) else [] if out is None else [out]
        return [np.asarray(x) for x in (*returned, *changed)]


def serve(library: str, folder: pathlib.Path, case: str) -> None:
    """Answer requests (one JSON text a line) with JSON texts."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if library == "calque":
        from calque import compat
        compat.install()
    if library != "numpy":
        import jax
        jax.config.update("jax_enable_x64", True)
        jax.block_until_ready(jax.jit(lambda x: x - 3)(np.zeros(2)))  # devices are up
    kernel: Kernel | None = None
    for line in sys.stdin:
        what, *given = json.loads(line)
        try:
            if what == "first":
                kernel = Kernel(folder, case, library)
                start = time.perf_counter()
                out = kernel.call()
                answer: Any = time.perf_counter() - start
                np.savez(given[0], *kernel.results(out))
            else:
                assert kernel is not None
                answer, end = math.inf, time.perf_counter() + given[0]
                while time.perf_counter() < end:
                    start, calls = time.perf_counter(), 0
                    while not calls or time.perf_counter() < start + 0.005:
                        kernel.call()
                        calls += 1
                    answer = min(answer, (time.perf_counter() - start) / calls)
        except Exception as problem:
            answer = f"{type(problem).__name__}: {str(problem)[:300]}"
        print(json.dumps(answer), file=answers, flush=True)


# ---- both libraries
class Side:
    """A process of one library for one kernel."""

    def __init__(self, library: str, case: str, given: Any, cache: str) -> None:
        python = given.jax if library == "jax" else sys.executable
        self.library, self.kept = library, f"{cache}/{library}.npz"
        self.process = subprocess.Popen(
            [python, __file__, str(given.folder), "--serve", library, case], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, "CALQUE_CACHE_DIR": cache})

    def ask(self, *task: Any) -> Any:
        """The answer; a text where something went wrong."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            print(json.dumps(task), file=self.process.stdin, flush=True)
        except OSError:
            return "died before"
        if not select.select([self.process.stdout], [], [], PATIENCE)[0]:
            self.process.kill()
            return f"no answer within {PATIENCE:.0f} s"
        line = self.process.stdout.readline()
        return json.loads(line) if line else f"died with {self.process.wait()}"


def difference(ours: str, theirs: str) -> float:
    """The largest, relative to the largest number of an array; inf where types or NaNs part."""
    worst = 0.0
    with np.load(ours) as a, np.load(theirs) as b:
        for x, y in zip(a.values(), b.values(), strict=True):
            if x.size != y.size or (np.isnan(x).ravel() != np.isnan(y).ravel()).any():
                return math.inf
            x, y = x.ravel(), y.ravel()
            apart = ~((x == y) | np.isnan(y))
            if apart.any():
                largest = np.max(np.abs(y[np.isfinite(y)]), initial=1e-300)
                worst = max(worst, float(np.max(np.abs(x[apart] - y[apart])) / largest))
    return worst


def measured(case: str, given: Any) -> dict[str, Any]:
    """A kernel's row: first calls, best calls, how far results are apart."""
    with tempfile.TemporaryDirectory() as cache:
        sides = [Side(library, case, given, cache) for library in ("jax", "calque", "numpy")]
        jax, calque, plain = sides
        row: dict[str, Any] = {"case": case}
        try:
            firsts = [side.ask("first", side.kept) for side in sides]
            said = [f"{s.library}: {f}" for s, f in zip(sides, firsts[:2]) if isinstance(f, str)]
            if said:
                return {**row, "problem": "; ".join(said)}
            row["first"] = [firsts[1], firsts[0]]
            row["difference"] = difference(calque.kept, jax.kept)
            try:
                row["numpy"] = difference(calque.kept, plain.kept)
            except (ValueError, OSError):
                row["numpy"] = None  # (versions that return other arrays)
            best = [math.inf, math.inf]
            for _ in range(3):
                for i, side in enumerate((calque, jax)):
                    found = side.ask("calls", given.seconds / 3)
                    if isinstance(found, str):
                        return {**row, "problem": f"{side.library}: {found}"}
                    best[i] = min(best[i], found)
            row["best"] = best
            return row
        finally:
            for side in sides:
                side.process.kill()
                side.process.wait()


HEAD = ["| kernel | size | calque ms | jax ms | ratio | first ms | ratio of first | agree |",
        "|---|---|---|---|---|---|---|---|"]


def line(row: dict[str, Any]) -> str:
    _, name, size = row["case"].split(":")
    if "problem" in row:
        return f"| {name} | {size} | {' '.join(row['problem'].split())[:90]} | | | | | |"
    (ours, theirs), (first, other) = row["best"], row["first"]
    agree = "yes" if row["difference"] <= CLOSE else f"{row['difference']:.0e}"
    return (f"| {name} | {size} | {1e3 * ours:.3f} | {1e3 * theirs:.3f} | {ours / theirs:.2f} | "
            f"{1e3 * first:.0f} | {first / other:.2f} | {agree} |")


def table(rows: list[dict[str, Any]]) -> list[str]:
    """The lines of the page."""
    ran = [r for r in rows if "problem" not in r]
    warm = [r["best"][0] / r["best"][1] for r in ran]
    mean = statistics.geometric_mean
    above = ", ".join(f"{sum(x > most for x in warm)} above {most:g}" for most in (1, 1.2, 2))
    return [f"{len(ran)} kernels and sizes: geometric mean of calque / jax {mean(warm):.2f} warm "
            f"and {mean([r['first'][0] / r['first'][1] for r in ran]):.2f} for first calls; "
            f"{above}.", "", *HEAD, *map(line, rows)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--jax", default=sys.executable, help="a Python that has jax and NumPy")
    parser.add_argument("--sizes", nargs="*", default=["S"], help="of NPBench")
    parser.add_argument("--only", nargs="*", default=[], help="kernels whose name has such a word")
    parser.add_argument("--seconds", type=float, default=0.4, help="of calls, for each library")
    parser.add_argument("--kept", type=pathlib.Path, help="a file of rows from run to run")
    parser.add_argument("--write", action="store_true", help="put the table into docs/suite.md")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve[0], given.folder, given.serve[1])
        return
    root = given.folder / "npbench" / "bench_info"
    names = [p.stem for p in sorted(root.glob("*.json")) if p.stem != "covariance2"]  # (no JAX)
    cases = [f"npbench:{n}:{s}" for n in names for s in given.sizes]
    cases += [f"pyhpc:{n}:{s}" for n in PYHPC for s in PYHPC_SIZES]
    kept: dict[str, Any] = {}
    if given.kept and given.kept.exists():
        kept = json.loads(given.kept.read_text())
    for case in cases:
        if any(w in case for w in given.only) if given.only else case not in kept:
            kept[case] = measured(case, given)
            print(line(kept[case]), flush=True)
            if given.kept:
                given.kept.write_text(json.dumps(kept, indent=1))
    rows = [kept[case] for case in cases if case in kept]
    print(table(rows)[0])
    if given.write:
        from suite import put
        put("suite.md", "numerical", table(rows))


if __name__ == "__main__":
    main()
