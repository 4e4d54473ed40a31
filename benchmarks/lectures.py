"""The jitted functions of QuantEcon's public lectures, calque beside jax.

    python benchmarks/lectures.py FOLDER [--only TEXT] [--seconds 0.3] [--kept FILE] [--write]

FOLDER holds checkouts of QuantEcon's lecture-* repositories (nothing of theirs is in ours); Python
has calque, jax, matplotlib, quantecon, numba, pandas, numpyro and optax.  The cells of each lecture
that imports jax run under both libraries, a process each, in order; a cell that takes longer than
--patience is stopped.  Each jitted function that a cell called is then called again, warm, in turn,
and the results are compared.  --kept is where rows are kept from run to run; --write puts the table
into docs/suite.md.
"""
from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import pathlib
import re
import statistics
import sys
import tempfile
from typing import Any

from lectures_cells import serve
from small_loops import LIBRARIES, difference
from suite import put

TOLERANCE = 2e-3  # of 1 + |x|, as small_loops


class Side:
    """One library's process for one lecture."""

    def __init__(self, library: str, page: pathlib.Path, patience: float) -> None:
        context = multiprocessing.get_context("spawn")
        self.library, self.page = library, page
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, daemon=True,
                                       args=(library, page, patience, theirs))
        self.process.start()
        theirs.close()

    def answer(self, patience: float) -> Any:
        try:
            if self.pipe.poll(patience):
                return self.pipe.recv()
            said = f"no answer within {patience:.0f} s"
        except (EOFError, OSError):
            self.process.join(5)
            said = f"died with {self.process.exitcode}"
        self.process.kill()
        return said

    def ask(self, *task: Any) -> Any:
        try:
            self.pipe.send(task)
        except OSError:
            return "died before"
        return self.answer(120.0)


def pages(folder: pathlib.Path) -> list[pathlib.Path]:
    """Of the lectures that import jax, by repository."""
    return [p for p in sorted(folder.glob("*lecture-*/lectures/*.md"))
            if p.stem not in ("status", "jax_intro_slides")
            and re.search(r"^\s*(?:import|from) (?:jax|numpyro)\b", p.read_text("utf-8"), re.M)]


def measured(page: pathlib.Path, given: Any) -> dict[str, Any]:
    """A lecture's rows."""
    sides = [Side(library, page, given.patience) for library in LIBRARIES]
    ran = [side.answer(given.limit) for side in sides]
    found: dict[str, Any] = {"problems": [], "functions": {}}
    for side, said in zip(sides, ran):
        if isinstance(said, str):
            found["problems"].append(f"{side.library}: {said}")
    if not found["problems"]:
        (ours, labels), (theirs, others) = ran
        found["cells"] = [[a, b] for (a, x), (b, y) in zip(ours, theirs) if not x and not y]
        found["problems"] = [
            f"cell {i}: {x} (jax: {y or 'runs'})" for i, ((_, x), (_, y)) in
            enumerate(zip(ours, theirs)) if x.split(":")[0] != y.split(":")[0]]
        found["only"] = sorted(set(labels) ^ set(others))
        for label in labels:
            if label in others:
                found["functions"][label] = row = one(sides, label, given)
                print(line(page, label, row), flush=True)
    for problem in found["problems"]:
        print(f"{page.stem}: {problem}", flush=True)
    for side in sides:
        side.process.kill()
    return found


def one(sides: list[Side], label: str, given: Any) -> dict[str, Any]:
    """Of one function: best times and how far the results are apart."""
    results = [side.ask("result", label) for side in sides]
    for side, said in zip(sides, results):
        if isinstance(said, str):
            return {"problem": f"{side.library} {said}"}
    row: dict[str, Any] = {}
    try:
        row["difference"] = difference(*results)
    except ValueError:
        row["difference"] = math.inf
    best = [math.inf, math.inf]
    for _ in range(3):
        for i, side in enumerate(sides):
            said = side.ask("calls", label, given.seconds / 3)
            if isinstance(said, str):
                return {"problem": f"{side.library} {said}"}
            best[i] = min(best[i], said)
        if sum(best) > 4:
            break
    row["best"] = best
    if given.plans:
        row["plan"] = sides[0].ask("plan", label)
    return row


HEAD = ["| lecture | function | calque ms | jax ms | ratio | agree |", "|---|---|---|---|---|---|"]


def line(page: pathlib.Path | str, label: str, row: dict[str, Any]) -> str:
    start = f"| {getattr(page, 'stem', page)} | {label} |"
    if "problem" in row:
        return f"{start} {' '.join(row['problem'].split())[:90]} | | | |"
    ours, theirs = row["best"]
    said = "yes" if row["difference"] <= TOLERANCE else f"{row['difference']:.1e}"
    return f"{start} {1e3 * ours:.3f} | {1e3 * theirs:.3f} | {ours / theirs:.2f} | {said} |"


def table(kept: dict[str, Any]) -> list[str]:
    """The lines of the page."""
    ratios = [r["best"][0] / r["best"][1] for found in kept.values()
              for r in found["functions"].values() if "best" in r]
    above = ", ".join(f"{sum(r > most for r in ratios)} above {most:g}" for most in (1, 1.5, 3))
    lines = [f"{len(ratios)} jitted functions of {len(kept)} lectures: geometric mean of calque / "
             f"jax {statistics.geometric_mean(ratios):.2f}; {above}.", "", *HEAD]
    for name, found in kept.items():
        lines += [line(name.split("/")[1], label, row)
                  for label, row in found["functions"].items()]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", nargs="*", default=[], help="lectures by name")
    parser.add_argument("--seconds", type=float, default=0.3, help="of calls, for each library")
    parser.add_argument("--patience", type=float, default=20.0, help="seconds for a cell")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds for a lecture's cells")
    parser.add_argument("--kept", type=pathlib.Path, help="a file of rows from run to run")
    parser.add_argument("--plans", action="store_true", help="keep calque's plans, too")
    parser.add_argument("--write", action="store_true", help="put the table into docs/suite.md")
    given = parser.parse_args()
    kept: dict[str, Any] = {}
    if given.kept and given.kept.exists():
        kept = json.loads(given.kept.read_text())
    for page in pages(given.folder):
        name = f"{page.parent.parent.name}/{page.stem}"
        if (name in kept) if not given.only else (page.stem not in given.only):
            continue
        print(f"# {name}", flush=True)
        kept[name] = measured(page, given)
        if given.kept:
            given.kept.write_text(json.dumps(kept, indent=1))
    print(table(kept)[0])
    if given.write:
        put("suite.md", "lectures", table(kept))


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    with tempfile.TemporaryDirectory() as cache:
        os.environ["CALQUE_CACHE_DIR"] = cache
        main()
