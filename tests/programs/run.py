"""Runs programs that people published under calque and under jax, and writes docs/programs.md.

    python tests/programs/run.py --folder FOLDER [NAME ...] [--write]
    python tests/programs/run.py --folder FOLDER --table
    python tests/programs/run.py --folder FOLDER --show NAME

FOLDER: checkouts, FOLDER/OWNER/REPOSITORY or FOLDER/REPOSITORY; programs.toml has the programs,
what is made smaller in each, and the rule by which its numbers are compared.  NAME: a part of
OWNER/REPOSITORY/FILE; none: all.
Python: of an environment with calque, jax 0.10.2 and what the programs import.  Rows are kept in
build/programs; those of the page stay where there is none.
"""
from __future__ import annotations

import argparse
import ast
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from typing import Any

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent / "jax_docs"))
import cells  # noqa: E402
import compare  # noqa: E402

ROOT = HERE.parents[1]
OUT = ROOT / "build" / "programs"
PAGE = ROOT / "docs" / "programs.md"
START, END = "<!-- table: tests/programs/run.py -->", "<!-- end of table -->"
COLUMNS = ("what it is", "whose", "lines", "result", "judged by", "jax, s", "first run", "next run",
           "steps")
AS_JAX = "as jax"
RUNS = ("jax", "first", "again")  # under calque: with no compiled program kept, and with those
OFTEN = 10  # calls
PROCESSES = 4  # for one program: so many crashes are borne
# what the programs' libraries were called before jax 0.10.2 and matplotlib of today
RENAMED = (("from jax.config import config", "from jax import config"),
           ("jax.tree_map(", "jax.tree.map("), ("jax.tree_leaves(", "jax.tree.leaves("),
           ("jax.tree_multimap(", "jax.tree.map("), ("from jax.experimental import stax",
           "from jax.example_libraries import stax"), ("from jax.experimental import optimizers",
           "from jax.example_libraries import optimizers"),
           ("from IPython.display import set_matplotlib_formats",
            "from matplotlib_inline.backend_inline import set_matplotlib_formats"))
_CLOCK = re.compile(r"time|second|\bsec|elapsed|took|speed|/s\b|\bms\b|0x[0-9a-f]{6}", re.I)
_TIMES = re.compile(r"time|elapsed|(with|without)_compile$", re.I)  # names of values that are times
CLOSE, ALIKE = 2e-3, 0.15  # relative: of values, of statistics


def checkout(program: dict[str, Any], folder: pathlib.Path) -> pathlib.Path:
    owned = folder / program["repository"]  # (two owners may have one of the same name)
    return owned if owned.exists() else folder / program["repository"].split("/")[1]


def texts(program: dict[str, Any], folder: pathlib.Path) -> list[str]:
    """The cells of a program, or the statements of a file, with what is replaced in them."""
    path = checkout(program, folder) / program["file"]
    if path.suffix == ".py":
        text = path.read_text()
        lines = text.split("\n")
        starts = [(min([n.lineno, *(d.lineno for d in getattr(n, "decorator_list", ()))]),
                   n.end_lineno) for n in ast.parse(text).body]
        found = ["\n".join(lines[a - 1:b]) for a, b in starts]
    else:
        found = cells.of_page(path)
    whole = "\x00".join(found)
    for old, new in [*RENAMED, *program.get("replace", ())]:
        if old not in whole and (old, new) not in RENAMED:
            raise SystemExit(f"{program['file']}: {old!r} is not in it.\n  In programs.toml.\n"
                             "  Fix: write it as it is in the checkout.")
        whole = whole.replace(old, new)
    return [c for c in whole.split("\x00") if c.strip()]


def rows_of(run: str, name: str) -> pathlib.Path:
    return OUT / run / (name.replace("/", ".") + ".jsonl")


def run_program(program: dict[str, Any], run: str, options: argparse.Namespace) -> None:
    """Rows of a program; behind a crash the next process goes on."""
    name, folder = program["name"], options.folder.resolve()
    rows = rows_of(run, name)
    rows.parent.mkdir(parents=True, exist_ok=True)
    rows.write_text("")
    source = rows.with_suffix(".json")
    source.write_text(json.dumps(texts(program, folder)))
    home = checkout(program, folder)
    place = (home / program["file"]).parent
    cache = OUT / "cache" / name.replace("/", ".")
    if run == "first":
        shutil.rmtree(cache, ignore_errors=True)
    env = os.environ | {
        "JAX_PLATFORMS": "cpu", "MPLBACKEND": "agg", "CALQUE_PROGRESS": "0", "TQDM_DISABLE": "1",
        "CALQUE_CACHE_DIR": str(cache), "PYTHONHASHSEED": "0", "WANDB_MODE": "disabled",
        "PROGRAM": str(home / program["file"]), "PYTHONPATH": os.pathsep.join(
            [os.environ.get("PYTHONPATH", ""), str(home), str(home / "src"), str(place),
             *(str(home / p) for p in program.get("path", ()))])}
    command = [sys.executable, *([] if run == "jax" else ["-m", "calque.compat"]),
               str(HERE / "typist.py"), str(source), str(rows), str(options.seconds)]
    for _ in range(PROCESSES):
        with rows.with_suffix(".stderr").open("wb") as err:
            try:
                done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=err,
                                      cwd=place, timeout=options.total, check=False)
                said, code = done.stdout, str(done.returncode)
            except subprocess.TimeoutExpired as e:
                said, code = e.stdout or b"", "the program's time is over"
        at = [int(x) for x in re.findall(r"^\d+$", said.decode(errors="replace"), re.M)]
        if code == "0" or not at:
            return
        with rows.open("a") as out:
            out.write(json.dumps({"cell": at[-1], "error": "crash", "message": code, "printed": "",
                                  "seconds": 0, "values": {}}) + "\n")
        if not code.lstrip("-").isdigit():
            return


def near(a: list[Any] | None, b: list[Any] | None, statistics: bool) -> bool:
    """Two digests (see typist.py) agree: by their numbers, or by size and extent alone."""
    if a == b:
        return True
    if not a or not b or len(a) != len(b):
        return False
    for x, y in zip(a, b, strict=True):
        scale = max(y[2], 1e-6)
        if x[:2] != y[:2]:
            return False
        if statistics:
            if abs(x[2] - y[2]) > ALIKE * scale:
                return False
        elif x[5] != y[5] or max(abs(x[2] - y[2]), abs(x[3] - y[3])) > CLOSE * scale:
            return False
    return True


def numbers(row: dict[str, Any]) -> list[float]:
    """What a row printed, but for lines that speak of time and of places in memory."""
    text = "\n".join(x for x in (row["printed"] or "").split("\n") if not _CLOCK.search(x))
    return compare._words(text)[0]


def judged(program: dict[str, Any], run: str = "first") -> Iterator[tuple[int, str, str]]:
    """Of each cell that jax ran: its place, its kind (`same`, `value`, `error`), what differs."""
    ours, theirs = ({r["cell"]: r for r in map(json.loads, path.read_text().splitlines())}
                    for path in (rows_of(run, program["name"]), rows_of("jax", program["name"])))
    statistics = program.get("rule", "values").startswith("statistics")
    ignored = set(program.get("ignore", ()))
    for c, b in theirs.items():
        a = ours.get(c, {"error": "not run", "message": ""})
        if b.get("error"):
            yield c, "jax", f"{b['error']}: {b['message'][:200]}"
        elif a.get("error"):
            yield c, "error", f"{a['error']}: {a['message'][:300]} {a.get('at', '')}"
        else:
            x, y = a["values"], b["values"]
            other = [f"{k}: {x.get(k)} | {y.get(k)}" for k in sorted({*x, *y} - ignored)
                     if not _TIMES.search(k) and not near(x.get(k), y.get(k), statistics)]
            if not statistics and "printed" not in ignored and not compare._close(
                    numbers(a), numbers(b)):
                other.append(f"printed: {a['printed'][:300]} | {b['printed'][:300]}")
            yield c, "value" if other else "same", "; ".join(x[:200] for x in other)


def seconds_of(run: str, program: dict[str, Any]) -> float:
    """Of the cells that jax ran to their end."""
    path = rows_of("jax", program["name"])
    ran = {r["cell"] for r in map(json.loads, path.read_text().splitlines()) if not r.get("error")}
    rows = map(json.loads, rows_of(run, program["name"]).read_text().splitlines())
    return sum(r["seconds"] for r in rows if r["cell"] in ran)


def line(program: dict[str, Any], folder: pathlib.Path) -> tuple[list[str], bool] | None:
    """A program's row of the table, by its cells, and whether it is as under jax."""
    if not all(rows_of(run, program["name"]).exists() for run in RUNS[:2]):
        return None
    bad = [f"{kind} in cell {c}" for c, kind, _ in judged(program) if kind not in ("same", "jax")]
    failed = sum(kind == "jax" for _, kind, _ in judged(program))
    took = [seconds_of(run, program) for run in RUNS if rows_of(run, program["name"]).exists()]
    said = AS_JAX if not bad else program.get("differs") or ", ".join(bad[:3])
    if failed:
        said += f"; {failed} cell{'s' * (failed > 1)} not run by jax"
    size = sum(len(t.splitlines()) for t in texts(program, folder))
    ratios = [f"{t / max(took[0], 1e-3):.2f}" for t in took[1:]]
    steps = steps_of(program)
    return [program["what"], f"{program['repository']}: {program['file']}", str(size), said,
            program.get("rule", "values"), f"{took[0]:.1f}", *ratios, *[""] * (2 - len(ratios)),
            "" if steps is None else f"{steps:.2f}"], not bad


def calls_of(run: str, program: dict[str, Any]) -> dict[str, tuple[int, float]]:
    """Of each jitted function, by its name: how often it was called, and the seconds of as many
    calls as its median says (see warm.py)."""
    path, found = rows_of(run, program["name"]).with_suffix(".calls"), dict[str, Any]()
    for name, count, median in json.loads(path.read_text()) if path.exists() else ():
        if count < OFTEN:  # (a median of few, on a machine with other work, says little)
            continue
        n, seconds = found.get(name, (0, 0.0))
        found[name] = n + count, seconds + count * median
    return found


def steps_of(program: dict[str, Any]) -> float | None:
    """Seconds that the calls of jitted functions took when they were compiled: ours / jax's, of
    functions that both runs called as often; None where there is none."""
    ours, theirs = (calls_of(run, program) for run in ("again", "jax"))
    both = [n for n in ours if n in theirs and ours[n][0] == theirs[n][0]]
    total = sum(theirs[n][1] for n in both)
    return sum(ours[n][1] for n in both) / total if total else None


def kept_rows() -> dict[str, list[str]]:
    """The rows that the page has, by whose they are: of programs that were not run here."""
    rows = [[c.strip() for c in x.strip("|").split("|")] for x in PAGE.read_text().splitlines()
            if x.startswith("| ")]
    return {r[1]: [*r, *[""] * (len(COLUMNS) - len(r))] for r in rows
            if len(r) > 1 and ": " in r[1]}


def table(programs: list[dict[str, Any]], folder: pathlib.Path) -> str:
    before, made = kept_rows(), []
    for p in programs:
        found = line(p, folder)
        kept = before.get(f"{p['repository']}: {p['file']}")
        if found or kept:
            made.append(found or (kept, kept[3].startswith(AS_JAX)))
    ratios, steps = (sorted(float(r[k]) for r, _ in made if r[k]) for k in (6, 8))
    said = f"The median of the first runs' ratios is {ratios[len(ratios) // 2]:.2f}" + (
        f", of the steps' {steps[len(steps) // 2]:.2f}." if steps else ".")
    return "\n".join([f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|",
                      *(f"| {' | '.join(r)} |" for r, _ in made),
                      f"| **{sum(good for _, good in made)} of {len(made)} as jax** "
                      + "| " * (len(COLUMNS) - 1) + "|", "", said])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--list", type=pathlib.Path, default=HERE / "programs.toml")
    parser.add_argument("--only", choices=RUNS, help="this run alone")
    parser.add_argument("--seconds", type=int, default=120, help="that a cell may take")
    parser.add_argument("--total", type=int, default=400, help="that a program may take")
    parser.add_argument("--show", action="store_true", help="what differs, of rows there are")
    parser.add_argument("--table", action="store_true", help="write the rows there are")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    programs = tomllib.loads(options.list.read_text())["program"]
    for p in programs:
        p["name"] = f"{p['repository']}/{p['file']}"
    chosen = [p for p in programs
              if not options.names or any(n in p["name"] for n in options.names)]
    for p in () if options.table else chosen:
        for run in () if options.show else RUNS:
            if options.only in (None, run):
                run_program(p, run, options)
        row = line(p, options.folder)
        print(p["name"], *row[0][3:] if row else "", sep=" | ", flush=True)
        for c, kind, why in judged(p) if row else ():
            if kind != "same":
                print(f"   [{c}] {kind} {why}", flush=True)
    if options.write or options.table:
        before, _, rest = PAGE.read_text().partition(START)
        PAGE.write_text(f"{before}{START}\n{table(programs, options.folder)}\n{END}"
                        f"{rest.partition(END)[2]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
