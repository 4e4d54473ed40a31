"""Starts and ends of several processes, in seconds, beside the most that they may take.

Used by processes.py: rows of (what, bar, seconds found, each).  All on this machine.
"""
from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from calque.distributed import coordinator

Row = tuple[str, float, list[float]]
CLIENTS = 256
LIMIT_S = 120

START = """
import os, time
import calque as jax
begun = time.time()
jax.distributed.initialize(os.environ["ADDRESS"], int(os.environ["SIZE"]), int(os.environ["RANK"]))
"""
STARTED = """
print("TIMES", begun, time.time(), flush=True)
"""
KILLED = """
import sys
import numpy as np
from calque import lax
from calque.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("d",))
x = jax.device_put(np.ones((3, 4), np.float32), NamedSharding(mesh, P("d")))
def long(v):
    return lax.fori_loop(0, 1 << 24, lambda i, c: lax.pmean(c, "d") + 0 * v, v)
f = jax.jit(jax.shard_map(long, mesh=mesh, in_specs=P("d"), out_specs=P("d")))
f.lower(x).compile().runtime_executable()
print("RUNNING", flush=True)
try:
    jax.block_until_ready(f(x))
except RuntimeError:
    print("ERROR", time.time(), flush=True)
    raise
"""


def _free_port() -> int:
    """Below those that connections come from."""
    for port in range(20000 + os.getpid() % 8000, 32000):
        with socket.socket() as s:
            try:
                s.bind(("", port))
                return port
            except OSError:
                continue
    raise OSError("no free port")


def _by_hand(path: Path, size: int) -> list[subprocess.Popen[str]]:
    address = f"localhost:{_free_port()}"
    return [subprocess.Popen(
        [sys.executable, str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**os.environ, "ADDRESS": address, "SIZE": str(size), "RANK": str(r)})
        for r in range(size)]


def initialize(folder: Path) -> float:
    """Four processes started by hand: from the last one's import to the last one's return."""
    path = folder / "start.py"
    path.write_text(START + STARTED)
    said = [p.communicate(timeout=LIMIT_S)[0] for p in _by_hand(path, 4)]
    times = [[float(t) for t in out.split("TIMES")[1].split()] for out in said]
    return max(t[1] for t in times) - max(t[0] for t in times)


def wire_up() -> float:
    """Simulated processes, each with a control connection and one of PMI-1: from the first to the
    last's end."""
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", coordinator.__file__, "localhost:0", str(CLIENTS), "100"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    port, ended = int(child.stdout.readline().split()[1]), []

    def client(rank: int) -> None:
        with socket.create_connection(("localhost", port), timeout=LIMIT_S) as control, \
                control.makefile("rb") as said, \
                socket.create_connection(("localhost", port), timeout=LIMIT_S) as c, \
                c.makefile("rw", newline="\n") as f:
            control.sendall(json.dumps({"rank": rank, "size": CLIENTS, "host": "h",
                                        "versions": {}}).encode() + b"\n")
            ready = next(line for line in said if b"ready" in line)

            def ask(line: str, answers: int = 1) -> str:
                f.write(line + "\n")
                f.flush()
                return [f.readline() for _ in range(answers)][-1]
            ask(f"cmd=initack pmiid={json.loads(ready)['identity']}", 4)
            ask("cmd=init pmi_version=1 pmi_subversion=1")
            ask("cmd=get_maxes")
            name = ask("cmd=get_my_kvsname").split("kvsname=")[1].split()[0]
            ask(f"cmd=put kvsname={name} key=card{rank} value=of {rank}")
            ask("cmd=barrier_in")
            other = (rank + 1) % CLIENTS
            if f"value=of {other}\n" in ask(f"cmd=get kvsname={name} key=card{other}"):
                ended.append(rank)
            ask("cmd=finalize")
            control.sendall(b'{"bye": true}\n')

    try:
        begun = time.perf_counter()
        threads = [threading.Thread(target=client, args=(r,)) for r in range(CLIENTS)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        took = time.perf_counter() - begun
    finally:
        child.kill()
        child.wait()
    if len(ended) != CLIENTS:
        raise RuntimeError(f"{CLIENTS - len(ended)} of {CLIENTS} clients were not served")
    return took


def killed(folder: Path) -> tuple[float, float]:
    """kill -9 of one of three in a loop of all-reduces: until the others' error, and their end."""
    path = folder / "killed.py"
    path.write_text(START + KILLED)
    running = _by_hand(path, 3)
    try:
        for p in running:
            assert p.stdout is not None
            if not p.stdout.readline().startswith("RUNNING"):
                raise RuntimeError("a process did not come so far")
        time.sleep(0.5)
        died = time.time()
        running[1].send_signal(signal.SIGKILL)
        others, ends = (running[0], running[2]), {}
        while len(ends) < 2 and time.time() < died + LIMIT_S:
            ends |= {p.pid: time.time() for p in others
                     if p.pid not in ends and p.poll() is not None}
            time.sleep(0.002)
        said = [p.communicate(timeout=LIMIT_S)[0] for p in others]
    finally:
        for p in running:
            if p.poll() is None:
                p.kill()
            p.wait()
    errors = [float(out.split("ERROR")[1]) for out in said]
    return max(errors) - died, max(ends.values()) - died


def rows(rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        starts = [initialize(folder) for _ in range(rounds)]
        wired = [wire_up() for _ in range(rounds)]
        ends = [killed(folder) for _ in range(rounds)]
    return [("`initialize` of 4 processes started by hand, after import", 3.0, starts),
            (f"the coordinator's wire-up of {CLIENTS} simulated clients", 2.0, wired),
            ("`kill -9` of one of 3 in a collective: the others' error", 1.0,
             [e[0] for e in ends]),
            ("the same: until the others have ended", 5.0, [e[1] for e in ends])]
