"""Small loops over small arrays, calque beside jax: the programs of small/, alone and by vmap.

    python benchmarks/small_loops.py [--only NAME ...] [--batches 1 64] [--seconds 0.3] [--write]

Each library runs in a process of its own, call by call in turn, and what they return is compared:
both draw from the original stream, so only rounding parts them; where it does, the program runs
once more in float64.  A process that dies or hangs is a row that says so.  --write makes
docs/small_loops.md.
"""
from __future__ import annotations

import argparse
import datetime
import math
import multiprocessing
import os
import pathlib
import platform
import statistics
import sys
import tempfile
import time
from typing import Any

import numpy as np

HERE = pathlib.Path(__file__).parent
PAGE = HERE.parent / "docs" / "small_loops.md"
PATIENCE = 180.0  # seconds that a first call or a round of calls may take
TOLERANCE = 2e-3  # of 1 + |x|: hundreds of steps in float32, in another order
LIBRARIES = ("calque", "jax")


def work(library: str, wide: bool, pipe: Any) -> None:
    """Serves one library: ("first", name, batch) and ("calls", seconds)."""
    os.environ.update(SMALL_LOOPS=library, JAX_PLATFORMS="cpu", JAX_THREEFRY_PARTITIONABLE="0")
    sys.path.insert(0, str(HERE / "small"))
    import agents
    import systems
    package = agents.J
    package.config.update("jax_enable_x64", wide)
    programs = {f.__name__: f for f in (*agents.PROGRAMS, *systems.PROGRAMS)}
    call: Any = None
    pipe.send(list(programs))
    while True:
        try:
            task, *rest = pipe.recv()
        except EOFError:
            return
        start = time.perf_counter()
        try:
            if task == "first":
                name, batch = rest
                f, key = programs[name], package.random.key(0)
                given = key if batch == 1 else package.random.split(key, batch)
                jitted = package.jit(f if batch == 1 else package.vmap(f))

                def call(g: Any = jitted, given: Any = given) -> Any:
                    return package.block_until_ready(g(given))
                start = time.perf_counter()
                made = call()
                spent = time.perf_counter() - start
                pipe.send((spent, [np.asarray(x) for x in package.tree.leaves(made)]))
            else:
                best, end = math.inf, start + rest[0]
                while time.perf_counter() < end:
                    start = time.perf_counter()
                    call()
                    best = min(best, time.perf_counter() - start)
                pipe.send(best)
        except Exception as problem:
            pipe.send(f"{type(problem).__name__}: {str(problem)[:300]}")


class Worker:
    """A process of one library; begun anew when it died or hung."""

    def __init__(self, library: str, wide: bool) -> None:
        self.library, self.wide = library, wide
        self.begin()

    def begin(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, daemon=True,
                                       args=(self.library, self.wide, theirs))
        self.process.start()
        theirs.close()
        self.names = self.pipe.recv()

    def ask(self, *task: Any) -> Any:
        """The answer; a text where something went wrong."""
        try:
            self.pipe.send(task)
            if self.pipe.poll(PATIENCE):
                return self.pipe.recv()
            said = f"hangs: no answer within {PATIENCE:.0f} s"
        except (EOFError, OSError):
            self.process.join(5)
            said = f"died with {self.process.exitcode}"
        self.process.kill()
        self.begin()
        return said


def difference(ours: list[Any], theirs: list[Any]) -> float:
    """The largest, relative to 1 + |x|; inf where shapes, dtypes or special values part."""
    worst = 0.0
    for a, b in zip(ours, theirs, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return math.inf
        finite = np.isfinite(b)
        a, b = a.astype(np.float64), b.astype(np.float64)
        if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.all(
                np.isfinite(a[finite])):
            return math.inf
        a, b = a[finite], b[finite]
        worst = max(worst, float(np.max(np.abs(a - b) / (1 + np.abs(b)), initial=0.0)))
    return worst


def measured(workers: list[Worker], name: str, batch: int, seconds: float) -> dict[str, Any]:
    """A row: first calls, best calls, and how far the results are apart."""
    row: dict[str, Any] = {"name": name, "batch": batch}
    firsts = [w.ask("first", name, batch) for w in workers]
    for w, said in zip(workers, firsts):
        if isinstance(said, str):
            row["problem"] = f"{w.library} {said}"
            return row
    row["first"] = [spent for spent, _ in firsts]
    row["difference"] = difference(firsts[0][1], firsts[1][1])
    best = [math.inf, math.inf]
    for _ in range(3):
        for i, w in enumerate(workers):
            found = w.ask("calls", seconds / 3)
            if isinstance(found, str):
                row["problem"] = f"{w.library} {found}"
                return row
            best[i] = min(best[i], found)
    row["best"] = best
    return row


def text(row: dict[str, Any]) -> str:
    """A row of the table."""
    start = f"| {row['name']} | {row['batch']} |"
    if "problem" in row:
        return f"{start} {row['problem']} | | | | |"
    ours, theirs = (f"{1e3 * x:.3f}" for x in row["best"])
    (first, first_theirs), (a, b) = row["first"], row["best"]
    apart = row["difference"]
    said = "yes" if apart <= TOLERANCE else f"{apart:.1e}"
    if "wide" in row:
        said += f"; float64 {row['wide']:.1e}"
    return (f"{start} {ours} | {theirs} | {a / b:.2f} | {first:.2f} s: "
            f"{first / first_theirs:.2f} | {said} |")


HEAD = """| program | rows | calque ms | jax ms | ratio | first call | agree |
|---|---|---|---|---|---|---|"""


def means(rows: list[dict[str, Any]]) -> str:
    """The geometric means of the ratios, alone and by vmap, and how many are above 1."""
    said = []
    for batch in sorted({r["batch"] for r in rows}):
        ratios = [r["best"][0] / r["best"][1] for r in rows if r["batch"] == batch and "best" in r]
        firsts = [r["first"][0] / r["first"][1]
                  for r in rows if r["batch"] == batch and "best" in r]
        if ratios:
            said.append(f"{batch} row{'s' if batch > 1 else ''}: warm "
                        f"{statistics.geometric_mean(ratios):.2f}, first calls "
                        f"{statistics.geometric_mean(firsts):.2f}; "
                        f"{sum(r > 1 for r in ratios)} of {len(ratios)} above 1.0")
    return "; ".join(said)


def write(rows: list[dict[str, Any]]) -> None:
    """The page."""
    import jax
    PAGE.write_text(f"""# Small loops

Made by `python benchmarks/small_loops.py --write` on {datetime.date.today()}: {platform.machine()},
{os.cpu_count()} cores, jax {jax.__version__}. The programs of `benchmarks/small` are what JAX
is chosen for: environments, samplers, evolution, searches, filters, physics, dynamic programming,
graphs, on small arrays, alone and by `vmap`. Each is written once over either library; each library
runs in a process of its own, in turn. A cell is the best of many warm calls, or a first call with
empty caches; a ratio below 1 means that calque is faster; "agree" says whether the results of the
same draws differ by at most {TOLERANCE:g} of 1 + |x|, else by how much, and by how much in float64,
where rounding seldom turns a choice between two ways.

Geometric means of calque / jax: {means(rows)}.

{HEAD}
""" + "\n".join(map(text, rows)) + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--batches", nargs="*", type=int, default=[1, 64])
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["CALQUE_CACHE_DIR"] = cache
        rows = run(given.only, given.batches, given.seconds)
    print(means(rows))
    if given.write:
        write(rows)


def run(only: list[str], batches: list[int], seconds: float) -> list[dict[str, Any]]:
    """The rows, each printed once it is known."""
    workers = [Worker(library, wide=False) for library in LIBRARIES]
    for w in workers:  # (what a process does once)
        w.ask("first", "line_search", 2)
    rows = []
    print(HEAD)
    for name in workers[0].names:
        if only and name not in only:
            continue
        for batch in batches:
            rows.append(measured(workers, name, batch, seconds))
            print(text(rows[-1]), flush=True)
    look_closer([r for r in rows if r.get("difference", 0.0) > TOLERANCE])
    return rows


def look_closer(rows: list[dict[str, Any]]) -> None:
    """What float64 says of rows whose results differ."""
    if not rows:
        return
    workers = [Worker(library, wide=True) for library in LIBRARIES]
    for row in rows:
        made = [w.ask("first", row["name"], row["batch"]) for w in workers]
        if not any(isinstance(said, str) for said in made):
            row["wide"] = difference(made[0][1], made[1][1])
        print(text(row), flush=True)


if __name__ == "__main__":
    main()
