"""Runs the programs of this folder with calque and with jax, compares what they print, and writes
the table of docs/your_jax_code_here.md.

    python tests/clients/compare.py --calque PYTHON --jax PYTHON [PROGRAM ...]

PYTHON: of an environment with the libraries and calque, or with the libraries and jax (see the
page).  Numbers agree within 2e-3, or 2e-2 in units of the last of a sum: chains and training
steps magnify the last bit.
"""
from __future__ import annotations

import argparse
import math
import pathlib
import re
import subprocess

HERE = pathlib.Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "your_jax_code_here.md"
START, END = "<!-- table: tests/clients/compare.py -->", "<!-- end of table -->"
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]?\d+)?|nan|inf")
TOLERANCE = 2e-3


def output(command: list[str], program: pathlib.Path) -> list[str]:
    """What a program printed, line by line (arrays on several lines are one)."""
    done = subprocess.run([*command, str(HERE / "steps.py"), str(program)], capture_output=True,
                          text=True, timeout=1200)
    lines: list[str] = []
    for line in done.stdout.splitlines():
        if line.startswith((" ", "[")) and lines:
            lines[-1] += " " + line
        else:
            lines.append(line)
    return lines if lines else [f"FAILED to start: {done.stderr[-300:]}"]


def same(a: str, b: str) -> bool:
    """Whether two lines are equal up to rounding."""
    if NUMBER.sub("", a).split() != NUMBER.sub("", b).split():
        return False
    pairs = list(zip(NUMBER.findall(a), NUMBER.findall(b), strict=False))
    return all(math.isclose(float(x), float(y), rel_tol=TOLERANCE, abs_tol=TOLERANCE) or x == y
               for x, y in pairs)


def label(line: str) -> str:
    return line.split()[0] if line.split() else ""


def versions(program: pathlib.Path, python: str) -> str:
    """The libraries that a program is named after, with their versions."""
    names = {"flax_linen": ["flax"], "flax_nnx": ["flax"], "dm_haiku": ["dm-haiku"],
             "lineax_optimistix": ["lineax", "optimistix"],
             "tensorflow_probability": ["tfp-nightly"], "mujoco_brax": ["mujoco-mjx", "brax"],
             "orbax_checkpoint": ["orbax-checkpoint"]}
    stem = program.stem.removeprefix("run_")
    code = "import importlib.metadata as m, sys; print(*[f'{n} {m.version(n)}' for n in " \
           "sys.argv[1:]], sep=', ')"
    done = subprocess.run([python, "-c", code, *names.get(stem, [stem])], capture_output=True,
                          text=True)
    return done.stdout.strip()


def row(program: pathlib.Path, calque: str, jax: str) -> str:
    ours = output([calque, "-m", "calque.compat"], program)
    theirs = [line for line in output([jax], program) if not line.startswith("FAILED")]
    equal, different, failed = [], [], []
    rest = list(ours)
    for line in theirs:
        found = next((o for o in rest if label(o) == label(line)
                      and not o.startswith("FAILED")), None)
        if found is None:
            failed.append(label(line))
            continue
        rest.remove(found)
        (equal if same(found, line) else different).append(label(line))
    errors = [o for o in ours if o.startswith("FAILED")]
    print(f"{program.stem}: {len(equal)} of {len(theirs)} equal; different: {different}; not "
          f"there: {failed}", *errors, sep="\n  ")
    missing = ", ".join(f"`{name}`" for name in [*different, *failed]) or "-"
    return f"| {versions(program, calque)} | {program.name} | {len(equal)} of {len(theirs)} | " \
           f"{missing} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calque", required=True)
    parser.add_argument("--jax", required=True)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("programs", nargs="*")
    args = parser.parse_args()
    chosen = [HERE / p for p in args.programs] or sorted(HERE.glob("run_*.py"))
    there = [p for p in chosen if versions(p, args.calque)]
    print(*[f"{p.name}: its libraries are not installed" for p in chosen if p not in there],
          sep="\n")
    rows = [row(p, args.calque, args.jax) for p in there]
    table = ["| libraries | program | results equal to JAX's | others |", "|---|---|---|---|"]
    if args.write:
        text = PAGE.read_text()
        before, after = text.split(START)[0], text.split(END)[1]
        names = [p.name for p in there]  # rows of other programs stay
        rows += [r for r in text.split(START)[1].split(END)[0].splitlines()
                 if ".py |" in r and not any(f"| {n} |" in r for n in names)]
        table += sorted(rows)
        PAGE.write_text("\n".join([before + START, *table, END + after]))
    else:
        print("\n".join(table + rows))


if __name__ == "__main__":
    main()
