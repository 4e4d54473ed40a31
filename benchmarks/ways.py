"""What each part of lowering is worth: workloads with and without it, in turn.

    python benchmarks/ways.py [--only PART] [--seconds 2] [--write]

A part is left out by CALQUE_OFF (lowering/plan/switches.py).  Only workloads whose module differs
are run: first calls (CPU time of all threads and the compiler's process, empty caches), then
steady calls, both in processes of their own.  The shortcuts past IREE (CALQUE_SHORTCUTS) change no
module: they are timed on every sixth workload.  Ratios are without / with: above 1 the part pays.
--write puts the table into docs/architecture.md (with --only its rows).  Start at `measure`.
"""
from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import suite

SHORTCUTS = "shortcuts past IREE"
EVERY = 6  # of the workloads, for what changes no module


def digests() -> dict[str, str]:
    """Workload -> a digest of its module."""
    import workloads

    import calque
    from calque.dispatch.eager import named_target
    from calque.lowering.driver.module import LowerOptions, lower
    lib, found = workloads.library("calque"), {}
    for name, make in workloads.WORKLOADS.items():
        f, args = make(lib, 0)
        made = lower(calque.jit(f).trace(*args).jaxpr, named_target("cpu"),
                     LowerOptions(in_process=True))
        found[name] = hashlib.sha256(made.module or b"").hexdigest()
    return found


def digests_without(part: str) -> dict[str, str]:
    """The same in a process without a part."""
    done = subprocess.run([sys.executable, __file__, "--digests"], text=True, check=True,
                          stdout=subprocess.PIPE, env={**os.environ, "CALQUE_OFF": part})
    found: dict[str, str] = json.loads(done.stdout)
    return found


def measure(name: str, off: Mapping[str, str], seconds: float) -> tuple[float, float]:
    """Without / with, of a workload: CPU of the first call, and a steady call."""
    both = []
    with tempfile.TemporaryDirectory() as cache:
        for i, more in enumerate((off, {})):
            kept = {k: os.environ.get(k) for k in off}
            os.environ.update(more)
            both.append(suite.Process(sys.executable, "calque", "host", f"{cache}/{i}"))
            for k, v in kept.items():
                os.environ.pop(k, None)
                if v is not None:
                    os.environ[k] = v
        for p in both:
            p.ask("make", name, 0)
        first = [p.ask("first")[0] for p in both]
        times, _ = suite.steady(both, seconds)
        for p in both:
            p.close()
    return first[0] / first[1], times[0] / times[1]


def row(part: str, what: str, ratios: Mapping[str, tuple[float, float]], count: int) -> str:
    """A line of the table."""
    def of(i: int) -> str:
        if not ratios:
            return "|"
        logs = {n: math.log(r[i]) for n, r in ratios.items()}
        worst = max(logs, key=lambda n: logs[n])
        return (f"{math.exp(sum(logs.values()) / count):.3f} | "
                f"{worst} {math.exp(logs[worst]):.2f}")
    return f"| `{part}` | {what} | {len(ratios)} | {of(1)} | {of(0)} |"


HEAD = ["| left out | which is | workloads that change | steady, all | most | first call, all "
        "| most |",
        "|---|---|---|---|---|---|---|"]


def table(parts: Sequence[str], seconds: float, show: Any) -> list[str]:
    """The table, a line at a time to `show`."""
    from calque.lowering.plan.switches import SWITCHES
    plain, lines = digests_without(""), list(HEAD)
    for part in [*SWITCHES, SHORTCUTS]:
        if parts and part not in parts:
            continue
        if part == SHORTCUTS:
            names, off = list(plain)[::EVERY], {"CALQUE_SHORTCUTS": "0"}
        else:
            found, off = digests_without(part), {"CALQUE_OFF": part}
            names = [n for n in plain if found[n] != plain[n]]
        ratios = {n: measure(n, off, seconds) for n in names}
        count = len(names) if part == SHORTCUTS else len(plain)
        lines.append(row(part, SWITCHES.get(part, "stages left out, dispatches linked by calque"),
                         ratios, count))
        show(lines[-1])
    return lines


def merged(lines: Sequence[str]) -> list[str]:
    """The new lines, among the page's own of parts that were not measured now."""
    from calque.lowering.plan.switches import SWITCHES
    page = (suite.DOCS / "architecture.md").read_text().split("<!-- ways: begin -->")[1]
    every = [*page.split("<!-- ways: end -->")[0].strip().splitlines(), *lines]
    rows = {line.split("`")[1]: line for line in every if line.startswith("| `")}
    return [*HEAD, *[rows[part] for part in [*SWITCHES, SHORTCUTS] if part in rows]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="parts")
    parser.add_argument("--seconds", type=float, default=2.0, help="of steady calls")
    parser.add_argument("--write", action="store_true", help="put it into docs/architecture.md")
    parser.add_argument("--digests", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.digests:
        print(json.dumps(digests()))
        return
    lines = table(given.only, given.seconds, lambda line: print(line, flush=True))
    if given.write:
        suite.put("architecture.md", "ways", merged(lines))


if __name__ == "__main__":
    main()
