"""First calls with what makes compiles shorter beside those without: suite.py's workloads.

    python benchmarks/shortcuts.py [--switch jemalloc] [--only WORD] [--rounds 2] [--every 1]
                                   [--write]

Without: CALQUE_SHORTCUTS=0; for jemalloc, LD_PRELOAD set to nothing.

Each workload runs in fresh processes with empty caches, in turn: its first call, then one of
another signature in the same process.  CPU time counts the compiler's process and its linkers; the
least of the rounds counts.  Results are compared bit by bit.  Start at `measure`.
"""
from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import tempfile
from collections import Counter
from typing import Any

import suite

SWITCHES = {"shortcuts": ("CALQUE_SHORTCUTS", "0"), "jemalloc": ("LD_PRELOAD", "")}  # off
CALLS = ("first CPU", "first wall", "second CPU", "second wall")


def measure(name: str, switch: str, on: bool) -> tuple[list[float], list[str], dict[str, int]]:
    """Seconds of CALLS, digests of the results, how many programs went which way."""
    variable, off = SWITCHES[switch]
    os.environ.pop(variable, None)
    if not on:
        os.environ[variable] = off
    times, digests = list[float](), list[str]()
    with tempfile.TemporaryDirectory() as cache:
        process = suite.Process(sys.executable, "calque", "host", cache)
        for more in (0, 1):
            process.ask("make", name, more)
            times += process.ask("first")
            digest, counts = process.ask("short")
            digests.append(digest)
        process.close()
    return times, digests, counts


def both(name: str, switch: str, rounds: int) -> dict[str, Any]:
    """Both ways in turn: least times, whether the bits are the same, and what was taken."""
    found: list[list[Any]] = [[], []]
    for i in range(rounds):
        for on in (False, True) if i % 2 else (True, False):
            found[on].append(measure(name, switch, on))
    plain, with_it = ([min(column) for column in zip(*(run[0] for run in way))]
                          for way in found)
    counts = Counter(found[True][0][2])
    counts["taken"] -= 1  # (the program that serve() runs beforehand)
    return {"without": plain, "with": with_it, "way": way_of(+counts),
            "same": found[False][0][1] == found[True][0][1]}


def way_of(counts: Counter[str]) -> str:
    """What happened to most of a workload's programs."""
    by_iree = [reason for reason in counts if reason.startswith("linked by IREE")]
    return by_iree[0] if by_iree else "at once" if set(counts) == {"taken"} else "linked here"


def table(found: dict[str, dict[str, Any]]) -> list[str]:
    """A line a workload, and means by way."""
    lines = ["| with / without | " + " | ".join(CALLS) + " | bits | way |",
             "|---" * (len(CALLS) + 3) + "|"]
    for name, row in found.items():
        cells = [f"{suite.shown(a)} / {suite.shown(b)}: {a / b:.2f}"
                 for a, b in zip(row["with"], row["without"])]
        lines.append(f"| {name} | {' | '.join(cells)} | {'same' if row['same'] else 'differ'} | "
                     f"{row['way']} |")
    for label in ("at once", "linked here", ""):
        rows = [row for row in found.values() if row["way"].startswith(label)]
        if rows:
            lines.append(f"| **geometric mean, {label or 'all'} ({len(rows)})** | " + " | ".join(
                f"**{mean(rows, i):.2f}**" for i in range(len(CALLS))) + " | | |")
    return lines


def mean(rows: list[dict[str, Any]], i: int) -> float:
    return math.exp(statistics.fmean(math.log(r["with"][i] / r["without"][i]) for r in rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--switch", choices=SWITCHES, default="shortcuts")
    parser.add_argument("--only", default="", help="workloads whose name contains this")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="so many workloads apart")
    parser.add_argument("--write", action="store_true", help="into docs/first_call.md")
    given = parser.parse_args()
    import workloads
    found: dict[str, dict[str, Any]] = {}
    for name in [*workloads.WORKLOADS][::given.every]:
        if given.only in name:
            found[name] = both(name, given.switch, given.rounds)
            print(table({name: found[name]})[2], flush=True)
            if given.write:
                suite.put("first_call.md", given.switch, table(found))
    print("\n".join(table(found)))


if __name__ == "__main__":
    main()
