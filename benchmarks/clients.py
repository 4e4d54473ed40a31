"""Training steps of flax and equinox models, unmodified: calque against jax, in turn.

    python benchmarks/clients.py --calque PYTHON --jax PYTHON [--only TEXT] [--write]

PYTHON: of an environment with the libraries and calque, or with the libraries and jax (`make
bench-clients` makes both).  A time is a step's median in seconds, of both sides in turn: the call,
and the wait for its results.  --write puts the table into docs/your_jax_code_here.md.
"""
from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

HERE = Path(__file__).parent
ROUNDS = 15


class Side:
    """One library in a process of its own."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen([*command, str(HERE / "clients.py"), "--serve"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *question: Any) -> Any:
        assert self.process.stdin and self.process.stdout
        print(json.dumps(question), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args}: ended at {question}; its words are above.")
        return json.loads(line)


def serve() -> None:
    """Answer questions: the names, a model made (first call in seconds), steps (seconds each)."""
    answers, sys.stdout = sys.stdout, sys.stderr
    sys.path.insert(0, str(HERE))
    import jax
    from clients_steps import STEPS
    from flax import nnx

    def timed(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            made["state"] = made["step"](made["state"])
        wanted = made["state"]
        if isinstance(wanted[0] if isinstance(wanted, tuple) else None, nnx.Module):
            wanted = nnx.state(wanted[0])
        jax.block_until_ready([v for v in jax.tree.leaves(wanted) if isinstance(v, jax.Array)])
        return (time.perf_counter() - start) / count

    made: dict[str, Any] = {}
    for line in sys.stdin:
        what, *given = json.loads(line)
        if what == "names":
            answer: Any = list(STEPS)
        elif what == "make":
            made["step"], made["state"] = STEPS[given[0]]()
            answer = timed(1)
        else:
            answer = timed(given[0])
        print(json.dumps(answer), file=answers, flush=True)


def measure(name: str, sides: list[Side]) -> tuple[list[float], list[float]]:
    """Medians of a step, (calque, jax); and the quartiles of the ratio."""
    for side in sides:
        side.ask("make", name)
    counts = [max(1, round(0.2 / side.ask("run", 3))) for side in sides]
    times: list[list[float]] = [[], []]
    for turn in range(ROUNDS):
        for i in (0, 1) if turn % 2 else (1, 0):
            times[i].append(sides[i].ask("run", counts[i]))
    low, _, high = quantiles([a / b for a, b in zip(*times)], n=4)
    return [median(t) for t in times], [low, high]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calque", default=sys.executable)
    parser.add_argument("--jax", default=sys.executable)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve()
        return
    from suite import put
    rows = ["| a step of | calque, ms | jax, ms | ratio | its middle half |",
            "|---|---|---|---|---|"]
    sides = [Side([given.calque, "-m", "calque.compat"]), Side([given.jax])]
    for name in sides[0].ask("names"):
        if given.only in name:
            (ours, theirs), (low, high) = measure(name, sides)
            rows.append(f"| {name} | {1e3 * ours:.2f} | {1e3 * theirs:.2f} "
                        f"| **{ours / theirs:.2f}** | {low:.2f}-{high:.2f} |")
            print(rows[-1], flush=True)
    for side in sides:
        with contextlib.suppress(OSError):
            side.process.stdin.close()
        side.process.wait(10)
    if given.write:
        put("your_jax_code_here.md", "steps", rows)


if __name__ == "__main__":
    main()
