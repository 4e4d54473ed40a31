"""Where the time of a first call goes: tracing, lowering, each phase of IREE, loading, running.

    python benchmarks/first_call.py [--only WORD] [--write]

The workloads are those of suite.py, which compares first calls, new shapes and warm caches with
jax's; here each runs in a fresh process with an empty cache and the compiler inside it
(CALQUE_COMPILE=inside).  Milliseconds of CPU time, all threads.  Start at `phases`.
"""
from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import suite

COLUMNS = ("trace", "lower", "input", "abi", "preprocessing", "global-optimization",
           "dispatch-creation", "flow", "stream", "executable-sources",
           "executable-configurations", "executable-targets", "hal", "vm", "end", "load", "rest")


def phases(call: Callable[[], float]) -> dict[str, float]:
    """Seconds of CPU in each part of a call that compiles."""
    from calque.dispatch import eager, tracing
    from calque.lowering.compiler import server as compiler_server
    found, running = dict.fromkeys(COLUMNS, 0.0), list[float]()

    def timed(module: Any, name: str, label: Callable[..., str]) -> None:
        original = getattr(module, name)

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            running.append(0.0)
            start = time.process_time()
            try:
                return original(*args, **kwargs)
            finally:
                spent = time.process_time() - start
                found[label(*args)] += spent - running.pop()
                if running:
                    running[-1] += spent

        setattr(module, name, wrapped)

    timed(tracing, "stage", lambda *_: "trace")
    timed(eager, "lower", lambda *_: "lower")
    timed(eager.Compiled, "__init__", lambda *_: "load")
    timed(compiler_server, "_advance", lambda library, handle, before, after: after.decode())
    start = time.process_time()
    call()
    found["rest"] = time.process_time() - start - sum(found.values())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="workloads whose name contains this")
    parser.add_argument("--write", action="store_true", help="into docs/first_call.md")
    given = parser.parse_args()
    import workloads
    os.environ["CALQUE_COMPILE"] = "inside"
    lines = ["| workload | all | " + " | ".join(COLUMNS) + " |", "|---" * (2 + len(COLUMNS)) + "|"]
    rows: list[list[float]] = []
    for name in workloads.WORKLOADS:
        if given.only in name:
            with tempfile.TemporaryDirectory() as cache:
                process = suite.Process(sys.executable, "calque", "host", cache)
                process.ask("make", name, 0)
                found = process.ask("phases")
                process.close()
            rows.append([1e3 * sum(found.values()), *[1e3 * found[c] for c in COLUMNS]])
            lines.append(f"| {name} | {' | '.join(f'{t:.0f}' for t in rows[-1])} |")
            print(lines[-1], flush=True)
    medians = [statistics.median(column) for column in zip(*rows)]
    lines.append("| **median** | " + " | ".join(f"**{t:.0f}**" for t in medians) + " |")
    print(lines[-1])
    if given.write:
        suite.put("first_call.md", "phases", lines)


if __name__ == "__main__":
    main()
