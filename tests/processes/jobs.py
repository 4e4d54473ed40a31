"""Starts a program in several processes, by hand or by mpiexec, and gives what became of each."""
from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIMIT = 60.0  # seconds of a job: a hang is a failure
TESTS = str(Path(__file__).parent.parent)
HEAD = """
import os, signal, sys, time
import numpy as np
import calque as jax, calque.numpy as jnp
from calque.experimental import multihost_utils as mu
rank = int(os.environ.get("RANK", -1))
if rank >= 0:
    jax.distributed.initialize(os.environ["ADDRESS"], int(os.environ["SIZE"]), rank,
                               heartbeat_timeout_seconds=int(os.environ.get("BEAT", "100")),
                               initialization_timeout=int(os.environ.get("WAIT", "50")))
else:
    jax.distributed.initialize()
rank, size = jax.process_index(), jax.process_count()

def fails(kind, call, *words):
    try:
        call()
    except kind as error:
        assert all(w in str(error) for w in words), error
    else:
        raise AssertionError(words)
"""


_asked = itertools.count()  # (jobs side by side: none takes another's port)


@dataclass
class Ended:
    """A process: its exit code, what it printed, and when it ended (time.time)."""

    code: int
    out: str
    at: float


def free_port() -> int:
    """A port below those that connections come from: a process that tries to connect to one of
    those before anybody listens may reach itself."""
    for port in range(20000 + os.getpid() % 8000 + 16 * next(_asked), 32000):
        with socket.socket() as s:
            try:
                s.bind(("", port))
                return port
            except OSError:
                continue
    raise AssertionError("no free port")


def by_hand(body: str, size: int, head: str = HEAD, ranks: list[int] | None = None,
            address: str = "", **variables: str) -> list[Ended]:
    """A program in `size` processes that are given an address (of them `ranks`)."""
    address = address or f"localhost:{free_port()}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "program.py")
        path.write_text(head + textwrap.dedent(body))
        running = []
        for rank in range(size) if ranks is None else ranks:
            log = Path(folder, f"{len(running)}.txt").open("w+")  # noqa: SIM115
            running.append((subprocess.Popen(
                [sys.executable, str(path)], stdout=log, stderr=subprocess.STDOUT,
                env={**os.environ, "RANK": str(rank), "SIZE": str(size), "ADDRESS": address,
                     "PYTHONHASHSEED": str(rank), **variables}), log))
        return _ended(running)


def together(*jobs: Callable[[], Any]) -> list[Any]:
    """Jobs that mostly wait, side by side."""
    with ThreadPoolExecutor(len(jobs)) as pool:
        return [running.result() for running in [pool.submit(job) for job in jobs]]


def by_mpiexec(body: str, size: int) -> Ended:
    """The same by mpiexec; what all of them printed."""
    return by_command([str(Path(sys.executable).parent / "mpiexec"), "-n", str(size),
                       sys.executable], body)


def by_command(start: list[str], body: str, *arguments: str) -> Ended:
    """The same by a command that is given the program and its arguments."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "program.py")
        path.write_text(HEAD + textwrap.dedent(body))
        log = Path(folder, "log.txt").open("w+")  # noqa: SIM115
        command = [*start, str(path), *arguments]
        (found,) = _ended([(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT), log)])
        return found


def _ended(running: list) -> list[Ended]:
    end, found = time.time() + LIMIT, {}
    while len(found) < len(running) and time.time() < end:
        for i, (process, _) in enumerate(running):
            if i not in found and process.poll() is not None:
                found[i] = time.time()
        time.sleep(0.005)
    texts = []
    for process, log in running:
        if process.poll() is None:
            process.kill()
            process.wait()
        log.seek(0)
        texts.append(log.read())
        log.close()
    late = sorted(set(range(len(running))) - set(found))
    assert not late, f"processes {late} did not end within {LIMIT:g} s:\n" + "\n".join(texts)
    return [Ended(process.returncode, texts[i], found[i])
            for i, (process, _) in enumerate(running)]


def segments() -> set[str]:
    """MPICH's shared memory that has a name."""
    return {name for name in os.listdir("/dev/shm") if name.startswith("mpich_shm")}
