"""The share of the primitives' samples that run right on a Vulkan device: a table, by script.

    python tests/vulkan_share.py [--only add,sub] [--failed] [--write] [--limit 60]

Every sample of every primitive (tests/support/samples*.py: the first, the special ones and those
at several sizes over all dtypes, the others over the main one) is compiled for the device, run, and
compared with the oracles, in groups.
A child process does the work: one that crashes or exceeds the time limit costs a group, whose cases
then run singly.  What was found is kept in build/vulkan_share.json; a later run with --only or
--failed replaces a part of it; --write makes docs/vulkan.md of it.  Not collected by pytest.
Start reading at `main`.
"""
from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
STATE = ROOT / "build" / "vulkan_share.json"
PAGE = ROOT / "docs" / "vulkan.md"
GROUP = 16
# Drivers may contract and reorder floating point (Vulkan promises less than IEEE: the section
# "Precision and Operation of SPIR-V Instructions" allows 2.5 ulp of a division): twice the CPU's.
FACTOR = 2.0
KINDS = ("right", "refused", "rejected", "wrong", "crash")


# ---- the child: cases in, one line of JSON a case out
def cases_of(name: str) -> list[tuple[int, Any]]:
    """(sample's number, dtype) of all samples of a primitive."""
    from support.samples import ROWS
    row = ROWS[name]
    return [*[(0, d) for d in row.dtypes], *[(i, row.main) for i in range(1, len(row.samples))],
            *[(i, d) for i in range(len(row.samples), len(row.every)) for d in row.dtypes]]


def _case(name: str, number: int, dtype: Any) -> Any:
    from support.harness import Case, compare, expected, function, words
    from support.samples import ROWS
    row = ROWS[name]
    sample = row.every[number]
    params = sample.parameters(dtype)
    arrays = row.arrays(sample, dtype)
    return Case(f"[{sample.label}] {dtype}", function(row, sample, params),
                words(row, sample, arrays), compare(expected(row, params, arrays), row))


def child(platform: str) -> None:
    """Serve groups: a line [primitive, [numbers]] in, a line [[number, label, kind, text]] out."""
    os.environ["CALQUE_CHECK"] = "1"
    import dataclasses
    import warnings

    import numpy as np
    from support import oracle
    from support.harness import Failure, outputs

    import calque
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # drivers print
    device = calque.devices(platform)[0]
    for kind, bound in oracle.TOLERANCES.items():
        oracle.TOLERANCES[kind] = FACTOR * bound
    calque.config.update("jax_enable_x64", True)

    def run(cases: Sequence[Any], first: Any) -> list[Any]:
        # (a program without arguments would run on the CPU)
        anchored = [dataclasses.replace(c, f=lambda z, *xs, f=c.f: f(*xs), args=[first, *c.args])
                    for c in cases]
        return outputs(anchored, lambda x: calque.device_put(np.array(x), device))

    for line in sys.stdin:
        name, numbers = json.loads(line)
        every = cases_of(name)
        cases, found = [], []
        for i in numbers:
            cases.append(_case(name, *every[i]))
        results = run(cases, np.int32(0))
        if any(isinstance(out, Failure) and "DEVICE_LOST" in out for out in results):
            os._exit(1)  # the device is of no more use to this process
        for i, c, out in zip(numbers, cases, results):
            if isinstance(out, Failure):
                kind = "rejected" if out.startswith(("CompileError", "MLIRError")) else "refused"
                if out.startswith(("AssertionError", "only together")):
                    kind = "wrong"
                found.append((i, c.name, kind, str(out)))
            else:
                text = c.check(out)
                found.append((i, c.name, "wrong" if text else "right", text))
        answers.write(json.dumps(found) + "\n")
        answers.flush()


# ---- the parent
class Worker:
    """A child process; it is replaced when it dies or takes too long."""

    def __init__(self, platform: str) -> None:
        self.platform = platform
        self.process: subprocess.Popen[str] | None = None

    def ask(self, name: str, numbers: Sequence[int], limit: float) -> list[Any] | str:
        """What the child found of some cases, or how it died."""
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, __file__, "--child", self.platform], text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps([name, list(numbers)]) + "\n")
            self.process.stdin.flush()
            ready, _, _ = select.select([self.process.stdout], [], [], limit)
            line = self.process.stdout.readline() if ready else ""
        except BrokenPipeError:
            line, ready = "", [1]
        if line:
            return list(json.loads(line))
        self.close()
        return "the process died" if ready else f"no result within {limit:.0f} s"

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def measure(worker: Worker, name: str, numbers: Sequence[int], labels: Sequence[str],
            limit: float) -> Iterator[Any]:
    """(number, label, kind, text) of each case of a primitive."""
    for at in range(0, len(numbers), GROUP):
        group = numbers[at:at + GROUP]
        found = worker.ask(name, group, limit * 4)
        if not isinstance(found, str):
            yield from found
            continue
        for i in group:
            one = worker.ask(name, [i], limit)
            if isinstance(one, str):
                yield i, labels[i].partition(" ")[2], "crash", one
            else:
                yield from one


def _labels(name: str) -> list[str]:
    from support.samples import ROWS
    row = ROWS[name]
    every = [*row.samples, *row.specials]
    return [f"{n} [{every[i].label}] {d}" for n, (i, d) in enumerate(cases_of(name))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--only", help="primitives, with commas between")
    parser.add_argument("--failed", action="store_true", help="only what was not right before")
    parser.add_argument("--write", action="store_true", help="write docs/vulkan.md")
    parser.add_argument("--device", default="vulkan")
    parser.add_argument("--state", type=Path, default=STATE)
    parser.add_argument("--limit", type=float, default=60, help="seconds for a case")
    args = parser.parse_args()
    if args.child:
        child(args.child)
        return
    from support.samples import ROWS
    state: dict[str, dict[str, Any]] = {}
    if args.state.exists():
        state = json.loads(args.state.read_text())
    state = {n: rows for n, rows in state.items() if n in ROWS}
    args.state.parent.mkdir(exist_ok=True)
    worker = Worker(args.device)
    names = args.only.split(",") if args.only else list(ROWS)
    for name in names if args.only or args.failed or not args.write else ():
        labels = _labels(name)
        kept = state.get(name, {}) if args.failed else {}
        kept = {label: row for label, row in kept.items() if row[0] == "right" and label in labels}
        numbers = [i for i, label in enumerate(labels) if label not in kept]
        began = time.monotonic()
        for number, label, kind, text in measure(worker, name, numbers, labels, args.limit):
            kept[f"{number} {label}"] = (kind, text)
            if kind != "right":
                print(f"  {name} {label}: {kind}: {text.splitlines()[0][:200]}", flush=True)
        state[name] = kept
        count = Counter(kind for kind, _ in kept.values())
        print(f"{name}: {', '.join(f'{count[k]} {k}' for k in KINDS if count[k])}; "
              f"{time.monotonic() - began:.0f} s", flush=True)
        part = args.state.with_suffix(".part")
        part.write_text(json.dumps(state))
        part.replace(args.state)
    worker.close()
    print(summary(state))
    if args.write:
        PAGE.write_text(page(state, args.device))


def summary(state: dict[str, dict[str, Any]]) -> str:
    """One line of totals."""
    total = Counter(kind for rows in state.values() for kind, _ in rows.values())
    every = sum(total.values())
    return (f"{every} samples of {len(state)} primitives: "
            + ", ".join(f"{total[k]} {k}" for k in KINDS)
            + f" ({100 * total['right'] / max(every, 1):.2f} % right)")


def page(state: dict[str, dict[str, Any]], platform: str) -> str:
    """docs/vulkan.md: totals, what is not right with its reason, a table by primitive."""
    from importlib.metadata import version

    from support.samples import ROWS

    import calque
    kind = calque.devices(platform)[0].device_kind
    lines = [
        "# Vulkan: which samples run right", "",
        "Made by `python tests/vulkan_share.py --write`: every sample of every primitive that the",
        "tests on the CPU use, compiled for the device, run, and compared with the oracles (twice",
        "the CPU's tolerances: drivers reorder). *refused*: calque says why before anything runs;",
        "*rejected*: IREE did not compile what calque wrote; *crash*: the process died, the device",
        "was lost, or the time limit was reached. Of each primitive the last run counts.", "",
        f"Device: {kind}; iree {version('iree-base-compiler')}; {time.strftime('%Y-%m-%d')}.", "",
        f"**{summary(state)}**", "", "## Not right", ""]
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for name, rows in state.items():
        for label, (what, text) in rows.items():
            if what != "right":
                first = text.splitlines()[0].partition(": ")[2] or text.splitlines()[0]
                reasons.setdefault((name, what, first.rpartition(" (")[0] or first), []).append(
                    label.partition(" ")[2])
    lines += [f"* `{name}`, {len(labels)} {what}: {text}" for (name, what, text), labels
              in reasons.items()] or ["Nothing."]
    absent = [f"`{n}`" for n in ROWS if n not in state]
    if absent:
        lines += ["", f"Not measured: {', '.join(absent)}."]
    lines += ["", "## By primitive", "", "| primitive | samples | " + " | ".join(KINDS) + " |",
              "|---" * (len(KINDS) + 2) + "|"]
    for name in [n for n in ROWS if n in state]:
        count = Counter(what for what, _ in state[name].values())
        cells = [str(count[k] or "") for k in KINDS]
        lines.append(f"| `{name}` | {len(state[name])} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
