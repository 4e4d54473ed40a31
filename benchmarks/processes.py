"""Collectives between two processes of this machine: python benchmarks/processes.py [--jax PYTHON].

Each row: a psum over two processes within a compiled program, and MPI's Allreduce alone, in turns;
with --jax the same program on JAX with gloo, in processes of its own, before and after.  Minima and
medians, us.  --model prints a scaling model of a training step with alpha and beta as measured
here, to 4,096 processes: these rows are computed, not measured.
"""
from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

SIZES = (4, 1 << 12, 1 << 18, 1 << 20)  # floats
CHAIN = 10

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
    path.write_text(CALQUE + f"SIZES, CHAIN = {SIZES}, {CHAIN}\n" + BODY)
    command = [str(Path(sys.executable).parent / "calque"), "run-many", "-n", "2", str(path)]
    return _found([subprocess.run(command, capture_output=True, text=True, check=True).stdout])


def jax(python: str, path: Path) -> dict[str, dict[str, list[float]]]:
    path.write_text(JAX + "import jax.numpy\n" + f"SIZES, CHAIN = {SIZES}, {CHAIN}\n" + BODY)
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


def model(rounds: list[dict[str, dict[str, list[float]]]]) -> None:
    """A step of 10 ms a process with a gradient of 2.7 MB: recursive halving and doubling."""
    alpha = best(rounds, "16", "mpi")[0] / 2
    beta = (best(rounds, str(4 << 20), "mpi")[0] - 2 * alpha) / (4 << 20)
    print(f"\nmeasured here (shared memory): alpha {alpha:.1f} us, 1 / beta "
          f"{1e-3 / beta:.2f} GB/s\n")
    print("| processes | allreduce of 2.7 MB, ms (computed) | efficiency of a 10 ms step |\n"
          "|---|---|---|")
    for p in (2, 8, 64, 512, 4096):
        steps = (p - 1).bit_length()
        ms = (2 * steps * alpha + 2 * 2.7e6 * (p - 1) / p * beta) / 1e3
        print(f"| {p} | {ms:.2f} | {10 / (10 + ms):.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jax", metavar="PYTHON", help="a Python that has JAX")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--model", action="store_true")
    given = parser.parse_args()
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(given.rounds):
            ours.append(calque(Path(folder, "ours.py")))
            if given.jax:
                theirs.append(jax(given.jax, Path(folder, "theirs.py")))
    print(f"2 processes, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; us, least minimum "
          f"(median) of {given.rounds} rounds\n")
    print("| psum of | calque | MPI alone | JAX with gloo | calque / JAX |\n|---|---|---|---|---|")
    for row in ours[0]:
        a, b = best(ours, row, "program"), best(theirs, row, "program")
        name = {"chain": f"{CHAIN} times 16 B", "MLP": "MLP step 784-512-512-10, batch 128",
                "returns": f"{4 << 20} B, queued: until the call returns",
                "growth": "memory in MB after 1000 more of these"}.get(row, f"{row} B")
        ratio = f"{a[0] / b[0]:.2f}" if b else "-"
        print(f"| {name} | {text(a)} | {text(best(ours, row, 'mpi'))} | {text(b)} | {ratio} |")
    if given.model:
        model(ours)


if __name__ == "__main__":
    main()
