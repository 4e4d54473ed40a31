"""Calque beside torch (eager and compiled), ONNX Runtime, numba and NumPy on the CPU.

    python benchmarks/peers.py --peers PYTHON [--only WORD,WORD] [--write] [--again | --more]

PYTHON has any of torch, onnx with onnxruntime, numba and numpy: what it lacks is left out.  Each
library runs in a process of its own, with THREADS threads, on the same inputs; rounds go from one
to the next in turn, and the best round counts, since other work on the machine only adds.  Results
are compared with calque's.  What is found is kept in build/peers.json, from which --write makes
the table of docs/benchmarks.md; rows that are there are measured anew
with --again, and once more, the better time of each way kept, with --more.
The workloads are in peers_{workloads,arrays,networks}.py; start at `measure`.
"""
from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
STORE = HERE.parent / "build" / "peers.json"
THREADS, WORSE = 2, 1.3
PAUSE = 0.05  # seconds between libraries: threads of the last one no longer spin
LIBRARIES = ("calque", "torch", "onnxruntime", "numba", "numpy")
WAYS = {"calque": ("calque",), "torch": ("torch", "torch compiled"),
        "onnxruntime": ("onnxruntime",), "numba": ("numba",), "numpy": ("numpy",)}


# ---- in a process of its own
def serve(library: str) -> None:
    """Answer requests (one JSON text a line) with JSON texts."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import peers_libraries
    maker = peers_libraries.MAKERS[library]()
    call: Any = None
    for line in sys.stdin:
        what, *given = json.loads(line)
        answer: Any = None
        try:
            if what == "make":
                call = maker(given[0], given[1])
                answer = call is not None
            elif what == "results":
                np.savez(given[0], *call.results())
            elif what == "run":
                answer = stretch(call, *given)
        except Exception as error:  # a peer that cannot is a gap in the table
            answer = {"error": f"{type(error).__name__}: {error}"[:400]}
        print(json.dumps(answer), file=answers, flush=True)


def stretch(call: Any, count: int, repeats: int) -> float:
    """Best seconds of a call, of so many stretches of `count` calls: short ones, since what else
    runs on the machine then leaves some of them alone."""
    least = math.inf
    for _ in range(repeats):
        start = time.perf_counter()
        call(count)
        least = min(least, time.perf_counter() - start)
    return least / count


# ---- the other side
class Process:
    """One library in a fresh process."""

    def __init__(self, python: str, library: str) -> None:
        count = str(THREADS)
        env = {**os.environ, "OMP_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count,
               "MKL_NUM_THREADS": count, "NUMBA_NUM_THREADS": count,
               "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        if library != "calque":
            env.pop("PYTHONPATH", None)
        self.process = subprocess.Popen(
            [python, str(HERE / "peers.py"), "--serve", library], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, env=env)

    def ask(self, *question: Any) -> Any:
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
            answer = json.loads(self.process.stdout.readline())
        except (BrokenPipeError, json.JSONDecodeError):
            return {"error": "the process ended"}
        return answer

    def close(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def measure(name: str, pythons: dict[str, str], seconds: float) -> dict[str, Any]:
    """Best seconds of a call of each way, errors of results, and what could not run."""
    from peers_networks import ROWS
    row = ROWS[name]
    times: dict[str, float] = {}
    counts: dict[str, int] = {}
    repeats: dict[str, int] = {}
    wrong: dict[str, str] = {}
    running: dict[str, Process] = {}
    results: dict[str, list[Any]] = {}
    started: list[Process] = []
    with tempfile.TemporaryDirectory() as folder:
        for library, python in pythons.items():
            for way in WAYS[library]:
                process = Process(python, library)
                started.append(process)
                made = process.ask("make", name, way)
                if made is not True:
                    if made:
                        wrong[way] = made["error"]
                    continue
                said = process.ask("results", f"{folder}/{way}.npz")
                once = process.ask("run", 1, 3)
                if isinstance(said, dict) or isinstance(once, dict):
                    wrong[way] = (said or once)["error"]
                    continue
                with np.load(f"{folder}/{way}.npz") as found:
                    results[way] = list(found.values())
                running[way] = process
                counts[way] = max(1, min(2000, round(0.002 / once)))
                repeats[way] = max(1, min(20, round(0.03 / once)))
        for way in [w for w in running if w != "calque" and "calque" in results]:
            error = difference(results[way], results["calque"])
            if not error <= row.tolerance:
                wrong[way] = f"differs by {error:.1e} of the largest number"
                del running[way]
        stop, rounds = time.perf_counter() + seconds, 0
        while rounds < 5 or (time.perf_counter() < stop and rounds < 60):
            for way, process in running.items():
                time.sleep(PAUSE)
                spent = process.ask("run", counts[way], repeats[way])
                times[way] = min(spent, times.get(way, math.inf))
            rounds += 1
        for process in started:
            process.close()
    traffic = sum(np.asarray(a).nbytes for a in [*row.arguments(), *results.get("calque", [])])
    return {"times": times, "wrong": wrong, "bytes": traffic, "operations": row.operations,
            "rounds": rounds}


def difference(results: list[Any], right: list[Any]) -> float:
    """The largest difference, as a share of the largest number."""
    if [r.shape for r in results] != [r.shape for r in right]:
        return math.inf
    worst = 0.0
    for a, b in zip(results, right):
        wide = np.complex128 if np.iscomplexobj(b) else np.float64
        error = float(np.abs(a.astype(wide) - b.astype(wide)).max())
        worst = max(worst, error / max(float(np.abs(b.astype(wide)).max()), 1e-30))
        worst = math.inf if math.isnan(error) else worst
    return worst


def limits() -> dict[str, float]:
    """What the machine gives: bytes a second of a copy, operations of a float32 product."""
    each, size = 16_000_000, 2048
    parts = [(np.ones(each, np.float32), np.ones(each, np.float32)) for _ in range(THREADS)]
    a = np.random.default_rng(0).standard_normal((size, size), np.float32)
    copies, products = [], []
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in range(10):
            start = time.perf_counter()
            list(pool.map(lambda p: np.copyto(*p), parts))
            copies.append(time.perf_counter() - start)
            start = time.perf_counter()
            a @ a
            products.append(time.perf_counter() - start)
    return {"bandwidth": 2 * 4 * each * THREADS / min(copies), "peak": 2 * size**3 / min(products)}


# ---- the table
def shown(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def ratio(row: dict[str, Any], way: str) -> float:
    return row["times"]["calque"] / row["times"][way]


def best(row: dict[str, Any]) -> str:
    return min((w for w in row["times"] if w != "calque"), key=row["times"].__getitem__)


def mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def share(row: dict[str, Any], most: dict[str, float]) -> float:
    """The time that the machine's limits leave, as a part of calque's."""
    least = max(row["bytes"] / most["bandwidth"], (row["operations"] or 0) / most["peak"])
    return least / float(row["times"]["calque"])


def table(rows: dict[str, dict[str, Any]], most: dict[str, float]) -> list[str]:
    """Lines of Markdown: a row a workload, calque's time over that of each way."""
    ways = [w for of in WAYS.values() for w in of if w != "calque"]
    lines = ["| workload | calque | of the limit | best peer | calque / best | "
             + " | ".join(ways) + " |", "|---" * (5 + len(ways)) + "|"]
    for name, row in rows.items():
        way = best(row)
        cells = [f"{ratio(row, w):.2f}" if w in row["times"] else "" for w in ways]
        lines.append(f"| {name} | {shown(row['times']['calque'])} | {share(row, most):.2f} | "
                     f"{way} {shown(row['times'][way])} | {ratio(row, way):.2f} | "
                     + " | ".join(cells) + " |")
    columns = [[ratio(r, w) for r in rows.values() if w in r["times"]] for w in ways]
    lines.append(f"| **geometric mean** of {len(rows)} | | | | "
                 f"**{mean([ratio(r, best(r)) for r in rows.values()]):.2f}** | "
                 + " | ".join(f"**{mean(c):.2f}** of {len(c)}" if c else "" for c in columns)
                 + " |")
    return lines


def losses(rows: dict[str, dict[str, Any]], why: dict[str, str]) -> list[str]:
    """A line for each workload that takes more than WORSE times the best peer's time."""
    slow = sorted(((ratio(r, best(r)), n) for n, r in rows.items()), reverse=True)
    return ["", f"Above {WORSE}, and where the time goes:", "",
            *[f"* {n} ({v:.2f} of {best(rows[n])}): {why.get(n, 'not looked into')}"
              for v, n in slow if v > WORSE]]


def write(kept: dict[str, Any]) -> None:
    """Put the table between its marks in docs/benchmarks.md."""
    from peers_networks import ROWS
    from peers_reasons import REASONS
    from suite import put
    rows = {n: kept["rows"][n] for n in ROWS
            if len(kept["rows"].get(n, {}).get("times", {})) > 1}
    products = {w: r["operations"] / t for n, r in rows.items() if n.startswith("matmul")
                for w, t in r["times"].items()} | {"numpy": kept["limits"]["peak"]}
    fastest = max(products, key=products.__getitem__)
    most = kept["limits"] | {"peak": products[fastest]}
    head = [f"The limits of the machine, measured beside them: a copy moves "
            f"{most['bandwidth'] / 1e9:.1f} GB/s (read and written), the fastest float32 product "
            f"({fastest}) reaches {most['peak'] / 1e9:.0f} GFLOP/s.", ""]
    gaps = [f"{n}, {way}" for n, row in rows.items() for way, said in row["wrong"].items()
            if said.startswith("differs")]
    tail = ["", f"Left out, since results differ: {'; '.join(gaps)}."] if gaps else []
    put("benchmarks.md", "peers", ["", *head, *table(rows, most), *losses(rows, REASONS), *tail,
                                   ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", default=sys.executable, help="a Python that has the libraries")
    parser.add_argument("--only", default="", help="workloads whose names contain any of these")
    parser.add_argument("--without", default="", help="libraries that are left out")
    parser.add_argument("--again", action="store_true", help="measure what is kept anew")
    parser.add_argument("--more", action="store_true", help="as --again, the best of both times")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each workload, together")
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
        return
    from peers_networks import ROWS
    kept = json.loads(STORE.read_text()) if STORE.exists() else {"rows": {}, "limits": {}}
    without = given.without.split(",")
    pythons = {lib: sys.executable if lib == "calque" else given.peers for lib in LIBRARIES
               if lib not in without}
    chosen = [n for n in ROWS if any(w in n for w in given.only.split(","))
              and (given.again or given.more or n not in kept["rows"])]
    if chosen:
        for key, value in limits().items():
            kept["limits"][key] = max(value, kept["limits"].get(key, 0))
    for name in chosen:
        row, old = measure(name, pythons, given.seconds), kept["rows"].get(name)
        if given.more and old:
            row["times"] = {w: min(row["times"].get(w, t), t) for w, t in
                            (row["times"] | old["times"]).items()}
            row["wrong"] = old["wrong"] | row["wrong"]
        kept["rows"][name] = row
        print(name, {w: shown(t) for w, t in row["times"].items()}, row["wrong"], flush=True)
        STORE.parent.mkdir(exist_ok=True)
        STORE.write_text(json.dumps(kept, indent=1))
    if given.write:
        write(kept)


if __name__ == "__main__":
    main()
