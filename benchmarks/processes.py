"""Collectives between two processes of this machine, starts and ends of several.

    python benchmarks/processes.py [--jax PYTHON] [--rounds 2] [--model] [--write]

Each row: a psum over two processes within a compiled program, and MPI's Allreduce alone, in turns;
with --jax the same program on JAX with gloo, in processes of its own, before and after.  Minima and
medians, us.  Then what has a bar in seconds (processes_bars.py).  --model adds a scaling model of a
training step with alpha and beta as measured here, to 4,096 processes: computed, not measured.
--write puts it all into docs/processes.md, and the model's picture beside it.
"""
from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import processes_bars
from suite import DOCS, put

SIZES = (4, 1 << 12, 1 << 18, 1 << 20)  # floats
CHAIN = 10
QUEUED = 50  # calls behind one that takes longer
QUEUED_BAR = 200.0  # us
GRADIENT, STEP_MS = 2.7e6, 10.0  # the model's step: bytes of the MLP's gradient; one process's time
RANKS = (2, 8, 64, 512, 4096)

CALQUE = """
import json, os, sys, time
import numpy as np
import calque as jax
jax.distributed.initialize()
from calque import lax
from calque.distributed import peers
from calque.sharding import Mesh, NamedSharding, PartitionSpec as P
"""
JAX = """
import json, os, sys, time
os.environ["JAX_PLATFORMS"] = "cpu"
import numpy as np
import jax
jax.distributed.initialize(os.environ["ADDRESS"], 2, int(os.environ["RANK"]))
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
peers = None
"""
KNOWN = f"SIZES, CHAIN, QUEUED = {SIZES}, {CHAIN}, {QUEUED}\n"
BODY = """
mesh = Mesh(np.array(jax.devices()), ("i",))
rank, n = jax.process_index(), len(jax.devices())
spec = NamedSharding(mesh, P("i"))
rows = {}

def timed(f, batches):
    f(); f()
    found = []
    for _ in range(batches):
        begun = time.perf_counter()
        f()
        found.append((time.perf_counter() - begun) * 1e6)
    return [min(found), sorted(found)[len(found) // 2]]

def program(body):
    return jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"),
                                 check_vma=False))

for size in SIZES:
    x = jax.device_put(np.ones((n, size), np.float32), spec)
    one = program(lambda v: lax.psum(2 * v, "i"))
    batches = 200 if size < 1 << 16 else 40
    row = rows[str(4 * size)] = {"program": timed(lambda: one(x).block_until_ready(), batches)}
    if peers is not None:
        comm, a, b = peers().comm, np.ones(size, np.float32), np.empty(size, np.float32)
        row["mpi"] = timed(lambda: comm.Allreduce(a, b), batches)
x = jax.device_put(np.ones((n, 4), np.float32), spec)
def chained(v):
    for _ in range(CHAIN):
        v = lax.psum(v, "i") / n
    return v
many = program(chained)
rows["chain"] = {"program": timed(lambda: many(x).block_until_ready(), 50)}
def loss(p, v):
    for w, b in p:
        v = jax.numpy.tanh(v @ w + b)
    return (v ** 2).mean()
step = jax.jit(lambda p, v: jax.tree.map(lambda a, g: a - 0.1 * g, p, jax.grad(loss)(p, v)))
params = jax.device_put([(np.ones((784, 512), np.float32) / 784, np.ones(512, np.float32)),
                         (np.ones((512, 512), np.float32) / 512, np.ones(512, np.float32)),
                         (np.ones((512, 10), np.float32) / 512, np.ones(10, np.float32))],
                        NamedSharding(mesh, P()))
batch = jax.device_put(np.ones((128, 784), np.float32), spec)
rows["MLP"] = {"program": timed(lambda: jax.block_until_ready(step(params, batch)), 20)}
if peers is not None:
    big, returned = jax.device_put(np.ones((n, 1 << 20), np.float32), spec), []
    for _ in range(40):  # nothing under way, both processes there
        peers().comm.Barrier()
        begun = time.perf_counter()
        out = one(big)
        returned.append((time.perf_counter() - begun) * 1e6)
        out.block_until_ready()
    rows["returns"] = {"program": [min(returned), sorted(returned)[20]]}
    mean = program(lambda v: lax.pmean(v, "i"))
    def behind(calls):
        out = mean(big)[:, :4]
        for _ in range(calls):
            out = mean(out)
        out.block_until_ready()
    alone, all_of = timed(lambda: behind(0), 40), timed(lambda: behind(QUEUED), 40)
    rows["queued"] = {"program": [(all_of[1] - alone[1]) / QUEUED] * 2}  # of medians
    def resident():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    for count in (200, 1000):
        before = resident()
        for _ in range(count):
            big = one(big)
        big.block_until_ready()
    rows["growth"] = {"program": [resident() - before] * 2}
if rank == 0:
    print("ROWS" + json.dumps(rows), flush=True)
"""


def _found(outputs: list[str]) -> dict[str, dict[str, list[float]]]:
    line = next(line for out in outputs for line in out.splitlines() if line.startswith("ROWS"))
    return dict(json.loads(line[4:]))


def calque(path: Path) -> dict[str, dict[str, list[float]]]:
    path.write_text(CALQUE + KNOWN + BODY)
    command = [str(Path(sys.executable).parent / "calque"), "run-many", "-n", "2", str(path)]
    return _found([subprocess.run(command, capture_output=True, text=True, check=True).stdout])


def jax(python: str, path: Path) -> dict[str, dict[str, list[float]]]:
    path.write_text(JAX + "import jax.numpy\n" + KNOWN + BODY)
    with socket.socket() as s:
        s.bind(("", 0))
        port = s.getsockname()[1] % 10000 + 20000
    running = [subprocess.Popen(
        [python, str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**os.environ, "ADDRESS": f"localhost:{port}", "RANK": str(r)}) for r in range(2)]
    return _found([p.communicate(timeout=300)[0] for p in running])


def best(rounds: list[dict[str, dict[str, list[float]]]], row: str, what: str) -> list[float]:
    """Least minimum and median of all rounds; nothing where it was not run."""
    found = [r[row][what] for r in rounds if what in r.get(row, {})]
    return [min(f[k] for f in found) for k in (0, 1)] if found else []


def text(times: list[float]) -> str:
    return f"{times[0]:.0f} ({times[1]:.0f})" if times else "-"


def measured(rounds: list[dict[str, dict[str, list[float]]]]) -> tuple[float, float]:
    """alpha, us of a message; beta, us of a byte: from MPI's Allreduce alone of two processes."""
    alpha = best(rounds, "16", "mpi")[0] / 2
    return alpha, (best(rounds, str(4 << 20), "mpi")[0] - 2 * alpha) / (4 << 20)


def allreduce_ms(ranks: float, alpha: float, beta: float) -> float:
    """The gradient's all-reduce by recursive halving and doubling (computed).

    Source: Thakur, Rabenseifner, Gropp, Optimization of collective communication operations in
    MPICH, 2005: 2 log2(p) alpha + 2 n (p - 1) / p beta.
    """
    steps = math.ceil(math.log2(ranks))
    return (2 * steps * alpha + 2 * GRADIENT * (ranks - 1) / ranks * beta) / 1e3


def model(alpha: float, beta: float) -> list[str]:
    """A step of 10 ms a process with a gradient of 2.7 MB, as a table."""
    lines = [f"Measured here (shared memory): alpha {alpha:.1f} us, 1 / beta "
             f"{1e-3 / beta:.2f} GB/s. Computed from these two:", "",
             f"| processes | all-reduce of {GRADIENT / 1e6:g} MB, ms (computed) | efficiency of a "
             f"{STEP_MS:g} ms step (computed) |", "|---|---|---|"]
    for p in RANKS:
        ms = allreduce_ms(p, alpha, beta)
        lines.append(f"| {p} | {ms:.2f} | {STEP_MS / (STEP_MS + ms):.2f} |")
    return lines


def picture(alpha: float, beta: float) -> str:
    """Efficiency of a step over processes, for steps of several lengths (an SVG)."""
    left, top, unit, high = 60, 40, 50, 240  # unit: px a doubling
    powers = range(1, 13)
    right, bottom = left + unit * len(powers), top + high
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right + 70} {bottom + 45}"'
             ' font-family="sans-serif" font-size="10">',
             f'<text x="8" y="14">Computed, not measured: efficiency of a data-parallel step, '
             f'gradient of {GRADIENT / 1e6:g} MB</text>',
             f'<text x="8" y="28">alpha {alpha:.1f} us and 1 / beta {1e-3 / beta:.2f} GB/s as '
             'measured between 2 processes of one machine</text>',
             f'<text x="{(left + right) // 2}" y="{bottom + 34}" text-anchor="middle">processes'
             '</text>']
    for k in range(5):
        y = bottom - high * k // 4
        lines.append(f'<path d="M{left} {y}H{right - unit}" stroke="#ccc"/>'
                     f'<text x="{left - 6}" y="{y + 3}" text-anchor="end">{k / 4:g}</text>')
    for power in powers:
        lines.append(f'<text x="{left + unit * (power - 1)}" y="{bottom + 16}" '
                     f'text-anchor="middle">{2 ** power}</text>')
    for step_ms, colour in ((3.0, "#c44"), (STEP_MS, "#48a"), (100.0, "#484")):
        found = [step_ms / (step_ms + allreduce_ms(2 ** p, alpha, beta)) for p in powers]
        points = " ".join(f"{left + unit * i},{bottom - high * e:.1f}"
                          for i, e in enumerate(found))
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" '
                     'stroke-dasharray="6 3"/>'
                     f'<text x="{right - unit + 6}" y="{bottom - high * found[-1] + 3:.1f}" '
                     f'fill="{colour}">step of {step_ms:g} ms</text>')
    return "\n".join([*lines, "</svg>", ""])


def collectives(ours: list[dict[str, dict[str, list[float]]]],
                theirs: list[dict[str, dict[str, list[float]]]]) -> list[str]:
    names = {"chain": f"{CHAIN} times 16 B", "MLP": "MLP step 784-512-512-10, batch 128",
             "returns": f"{4 << 20} B, queued: until the call returns",
             "queued": f"16 B, queued behind {4 << 20} B: each of {QUEUED} more "
                       "calls (they are made while the first goes)",
             "growth": "memory in MB after 1000 more of these"}
    lines = ["| psum of | calque | MPI alone | JAX with gloo | calque / JAX |",
             "|---|---|---|---|---|"]
    for row in ours[0]:
        a, b = best(ours, row, "program"), best(theirs, row, "program")
        ratio = f"{a[0] / b[0]:.2f}" if b else "-"
        lines.append(f"| {names.get(row, f'{row} B')} | {text(a)} | "
                     f"{text(best(ours, row, 'mpi'))} | {text(b)} | {ratio} |")
    return lines


def bars(ours: list[dict[str, dict[str, list[float]]]], rounds: int) -> list[str]:
    """What has a bar: the worst of all rounds beside it."""
    over = max(r["queued"]["program"][1] - r["16"]["mpi"][1] for r in ours)
    lines = ["| what | found | bar |", "|---|---|---|"]
    for what, bar, found in processes_bars.rows(rounds):
        lines.append(f"| {what} | {max(found):.2f} s | {bar:g} s |")
    return [*lines, f"| a queued call's message beyond MPI alone (medians) | {over:.0f} us | "
                    f"{QUEUED_BAR:g} us |"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jax", metavar="PYTHON", help="a Python that has JAX")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--model", action="store_true")
    parser.add_argument("--write", action="store_true", help="put all into docs/processes.md")
    given = parser.parse_args()
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(given.rounds):
            ours.append(calque(Path(folder, "ours.py")))
            if given.jax:
                theirs.append(jax(given.jax, Path(folder, "theirs.py")))
    load = os.getloadavg()[0]
    lines = [f"{datetime.date.today()}, 2 processes, {os.cpu_count()} cores, load {load:.1f} with "
             f"them; us, least minimum (median) of {given.rounds} rounds.", "",
             *collectives(ours, theirs), "",
             f"Several processes on these cores, the worst of {given.rounds} rounds:", "",
             *bars(ours, given.rounds)]
    if given.model:
        alpha, beta = measured(ours)
        lines += ["", *model(alpha, beta), "", "![efficiency, computed](processes.svg)"]
        if given.write:
            (DOCS / "processes.svg").write_text(picture(alpha, beta))
    print("\n".join(lines))
    if given.write:
        put("processes.md", "measured", lines)


if __name__ == "__main__":
    main()
