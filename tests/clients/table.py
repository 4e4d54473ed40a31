"""Runs the programs of libs/ with jax and with calque, and writes the table of docs/libraries.md.

    python tests/clients/table.py --calque PYTHON --jax PYTHON [--write] [NAME ...]

Each program runs twice, by run_library.py, one after the other; then both processes take turns at
its step.  Results are equal where every number of an array is within 2e-3 of the largest of them.
What is measured is kept in build/clients/table.json, row by row; rows that are not there stay as
the page has them.
"""
from __future__ import annotations

import argparse
import ast
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
from typing import Any

from libraries import PAGE, put

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
KEPT = ROOT / "build" / "clients" / "table.json"
START, END = "<!-- table: tests/clients/table.py -->", "<!-- end of libraries -->"
TOLERANCE = 2e-3
ROUNDS, SECONDS, LIMIT = 5, 0.2, 400
# distributions whose names are not the program's
NAMED = {"tensorflow_probability": "tfp-nightly", "flax": "flax"}


class Side:
    """A process that runs one program."""

    def __init__(self, command: list[str], program: str) -> None:
        self.errors: Any = (KEPT.parent / f"{program}.{len(command)}.log").open("w")
        self.process = subprocess.Popen(
            ["timeout", str(LIMIT), *command, str(HERE / "run_library.py"), program],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, cwd=ROOT,
            env={**os.environ, "JAX_PLATFORMS": "cpu"})
        line = self._read()
        self.found = json.loads(line) if line else {
            "results": {}, "failed": {"process": f"no answer within {LIMIT} s"}, "first": LIMIT,
            "step": False}

    def _read(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline()

    def step(self) -> float:
        """Milliseconds of a step."""
        assert self.process.stdin
        self.process.stdin.write(f"{SECONDS}\n")
        self.process.stdin.flush()
        return float(self._read())

    def close(self) -> None:
        """End it."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()
        self.errors.close()


def difference(ours: list[list[str]], theirs: list[list[str]]) -> str:
    """'' for results that are equal, else the first pair that differs."""
    if [len(x) for x in ours] != [len(x) for x in theirs]:
        return f"sizes {[len(x) for x in ours][:4]}, jax {[len(x) for x in theirs][:4]}"
    for x, y in zip(ours, theirs, strict=True):
        try:
            a, b = [*map(float, x)], [*map(float, y)]
        except ValueError:  # text
            if x != y:
                return f"{x}, jax {y}"
            continue
        scale = max((abs(n) for n in b if math.isfinite(n)), default=0.0)
        for p, q in zip(a, b, strict=True):
            if not (p == q or math.isnan(p) and math.isnan(q) or abs(p - q) <= TOLERANCE * scale):
                return f"{p:.6g}, jax {q:.6g}"
    return ""


def row(name: str, calque: list[str], jax: list[str]) -> dict[str, Any]:
    """What one program gives on both sides."""
    theirs = Side(jax, name)
    ours = Side(calque, name)
    expected, found = theirs.found["results"], ours.found["results"]
    wrong = {}
    for use, numbers in expected.items():
        said = ours.found["failed"].get(use) or ours.found["failed"].get("import")
        if use not in found:
            wrong[use] = said or "not there"
        elif different := difference(found[use], numbers):
            wrong[use] = different
    steps = []
    if ours.found["step"] and theirs.found["step"]:
        for side in (theirs, ours):  # once to warm up
            side.step()
        steps = [(ours.step(), theirs.step()) for _ in range(ROUNDS)]
    for side in (theirs, ours):
        side.close()
    made = {"uses": len(expected), "wrong": wrong, "jax_fails": theirs.found["failed"],
            "first": [ours.found["first"], theirs.found["first"]]}
    if steps:
        made["step"] = [statistics.median(s[0] for s in steps),
                        statistics.median(s[1] for s in steps),
                        statistics.median(s[0] / s[1] for s in steps)]
    return made


def version(name: str, python: str) -> str:
    """The library's name and version."""
    code = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
    wanted = NAMED.get(name, name.replace("_", "-"))
    done = subprocess.run([python, "-c", code, wanted], capture_output=True, text=True)
    return f"{wanted} {done.stdout.strip()}".strip()


def subject(name: str) -> str:
    """The first line of a program's docstring."""
    said = ast.get_docstring(ast.parse((HERE / "libs" / f"{name}.py").read_text())) or ""
    return said.splitlines()[0].rstrip(".")


def write(rows: dict[str, dict[str, Any]]) -> None:
    """The table of the page, with what differs below."""
    lines = ["| library | uses | equal | first run, s: calque, jax | step, ms: calque, jax | ratio "
             "|", "|---|---|---|---|---|---|"]
    for _, r in sorted(rows.items(), key=lambda i: i[0].lower()):
        step = "{:.3g}, {:.3g} | {:.2f}".format(*r["step"]) if "step" in r else "- | -"
        lines.append(f"| {r['version']} | {r['subject']} | {r['uses'] - len(r['wrong'])} of "
                     f"{r['uses']} | {r['first'][0]:.1f}, {r['first'][1]:.1f} | {step} |")
    ran = [r for r in rows.values() if r["uses"]]
    uses, wrong = (sum(r["uses"] for r in ran), sum(len(r["wrong"]) for r in ran))
    ratios = [r["step"][2] for r in ran if "step" in r]
    lines += ["", f"{len(ran)} libraries, {uses} uses, {uses - wrong} equal to JAX's. Of "
              f"{len(ratios)} steps {sum(r <= 1.0 for r in ratios)} take JAX's time or less, "
              f"{sum(r > 1.5 for r in ratios)} more than 1.5 of it."]
    differ = [f"* {r['version']}, `{use}`: {_clean(why)}" for r in rows.values()
              for use, why in r["wrong"].items()]
    fails = [f"* {r['version']}, `{use}`: {_clean(why)}" for r in rows.values()
             for use, why in r["jax_fails"].items()]
    if differ:
        lines += ["", "What is not equal:", "", *differ]
    if fails:
        lines += ["", "What jax 0.10.2 does not run either, which does not count:", "", *fails]
    put(lines, START, END)


def written() -> dict[str, dict[str, Any]]:
    """The rows that the page has."""
    text = PAGE.read_text().split(START)[1].split(END)[0]
    names = {v: k for k, v in NAMED.items()}
    rows: dict[str, dict[str, Any]] = {}
    for line in text.splitlines():
        cells = [c.strip() for c in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 6 and " of " in cells[2]:
            distribution = cells[0].split()[0]
            name = names.get(distribution, distribution.replace("-", "_"))
            rows[name] = {"version": cells[0], "subject": cells[1], "jax_fails": {}, "wrong": {},
                          "uses": int(cells[2].split()[2]),
                          "first": [float(n) for n in cells[3].split(",")]}
            if cells[4] != "-":
                rows[name]["step"] = [*map(float, cells[4].split(",")), float(cells[5])]
        elif found := re.match(r"\* (.*), `(\w+)`: `(.*)`$", line):
            (mine,) = [r for r in rows.values() if r["version"] == found[1]]
            mine["wrong"][found[2]] = found[3]
    return rows


def _clean(why: str) -> str:
    return "`" + re.sub(r"0x[0-9a-f]+|/\S*/", "", why).replace("`", "'")[:160] + "`"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--calque", required=True)
    parser.add_argument("--jax", required=True)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    kept = written() | (json.loads(KEPT.read_text()) if KEPT.exists() else {})
    for name in given.names or sorted(p.stem for p in (HERE / "libs").glob("*.py")):
        made = row(name, [given.calque, "-m", "calque.compat"], [given.jax])
        kept[name] = {**made, "version": version(name, given.jax), "subject": subject(name)}
        KEPT.write_text(json.dumps(kept, indent=1))
        print(name, f"{made['uses'] - len(made['wrong'])} of {made['uses']}",
              *[f"{n:.2f}" for n in [*made["first"], *made.get("step", [])]], made["wrong"] or "",
              made["jax_fails"] or "", flush=True)
    if given.write:
        write({n: r for n, r in kept.items() if (HERE / "libs" / f"{n}.py").exists()})


if __name__ == "__main__":
    main()
