"""The coordinator alone: PMI-1 with simulated clients, and what is no client of ours."""
from __future__ import annotations

import importlib.util
import json
import os
import random
import socket
import sys
import threading
from typing import Any

import pytest

import calque
from calque import distributed
from calque.distributed.cluster import detected, first_node
from calque.distributed.coordinator import LONGEST_LINE, Coordinator, Member
from calque.distributed.world import _init


@pytest.fixture
def served() -> Any:
    """Coordinators of 3 processes and a function that connects to the last of them."""
    coordinators = [Coordinator(3, 100.0)]
    server = socket.create_server(("localhost", 0))
    threading.Thread(target=_accept, args=(server, coordinators), daemon=True).start()
    yield coordinators, lambda: socket.create_connection(server.getsockname(), timeout=10)
    server.close()


def _accept(server: socket.socket, coordinators: list[Coordinator]) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=coordinators[-1].serve, args=(connection,), daemon=True).start()


def hello(rank: int, **more: Any) -> bytes:
    said = {"rank": rank, "size": 3, "host": "h", "versions": {}, **more}
    return json.dumps(said).encode() + b"\n"


def test_garbage_hurts_nobody(served: Any) -> None:
    (coordinator,), connect = served
    rng = random.Random(0)
    for start in (b"", b"cmd=", b"cmd=initack pmiid=", b"{", b'{"rank": 0', b"GET / HTTP/1.1\r\n"):
        for _ in range(20):
            with connect() as c:
                c.sendall(start + rng.randbytes(rng.randrange(200)) + rng.choice([b"", b"\n"]))
    for line in (b"cmd=put\n", b"cmd=get\n", b"cmd=unknown\ncmd=abort\n", b"cmd=initack\n",
                 b"{}\n", b"[]\n", b'{"rank": "a", "size": 3}\n', b'{"rank": null}\n',
                 b"x" * (2 * LONGEST_LINE)):
        with connect() as c:
            try:
                c.sendall(line)
            except OSError:
                pass
    members = [connect() for _ in range(3)]
    for rank, c in enumerate(members):
        c.sendall(hello(rank))
    for c in members:
        lines = c.makefile("rb")
        while b"ready" not in (line := lines.readline()):
            assert line
    members[0].sendall(b'{"step": "no number"}\n')  # a member that speaks nonsense is lost
    lines = members[1].makefile("rb")
    assert json.loads(lines.readline())["lost"] == 0
    assert coordinator.members[1].lost is False
    for c in members:
        c.close()


def test_refusals(served: Any) -> None:
    coordinators, connect = served
    for text, line in (("told that there are 4", hello(1, size=4)),
                       ("there is no process 3", hello(3)), ("two processes 0", hello(0)),
                       ("different versions", hello(1, versions={"calque": "0"}))):
        coordinator = Coordinator(3, 100.0)
        coordinators.append(coordinator)
        with connect() as first, connect() as c, connect() as late:
            first.sendall(hello(0))
            assert b"missing" in first.makefile("rb").readline()
            for each, said in ((c, line), (first, b""), (late, hello(2))):
                each.sendall(said)
                assert text in json.loads(each.makefile("rb").readline())["refused"]


def test_pmi_wires_up_many(served: Any) -> None:
    (coordinator,), connect = served
    coordinator.size = 64
    found: list[str] = []

    def client(rank: int) -> None:
        with connect() as c, c.makefile("rw", newline="\n") as f:
            def ask(line: str, answers: int = 1) -> str:
                f.write(line + "\n")
                f.flush()
                return [f.readline() for _ in range(answers)][-1]
            ask(f"cmd=initack pmiid={rank}", 4)
            assert "rc=0" in ask("cmd=init pmi_version=1 pmi_subversion=1")
            assert "kvsname_max" in ask("cmd=get_maxes")
            name = ask("cmd=get_my_kvsname").split("kvsname=")[1].split()[0]
            ask(f"cmd=put kvsname={name} key=card{rank} value=a card = of {rank}")
            assert "barrier_out" in ask("cmd=barrier_in")
            found.append(ask(f"cmd=get kvsname={name} key=card{(rank + 1) % 64}"))
            assert "rc=-1" in ask(f"cmd=get kvsname={name} key=absent")
            assert "finalize_ack" in ask("cmd=finalize")

    threads = [threading.Thread(target=client, args=(r,)) for r in range(64)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(30)
    assert sorted(found) == sorted(
        f"cmd=get_result rc=0 msg=success value=a card = of {r}\n" for r in range(64))


class Told(Member):
    """A process that keeps what it is told."""

    def __init__(self, rank: int) -> None:
        super().__init__(rank, socket.socket(), {})
        self.heard_of: list[dict[str, Any]] = []

    def send(self, message: dict[str, Any]) -> None:
        self.heard_of.append(message)


def test_one_step_to_stop_at() -> None:
    """A process that comes to its next step before it has heard the answer says so once more: the
    others may have stopped, or passed, where they were told to."""
    coordinator, members = Coordinator(2, 100.0), [Told(0), Told(1)]
    coordinator.members = dict(enumerate(members))
    coordinator.take(members[1], {"preempted": 20})
    coordinator.take(members[0], {"step": 12})
    assert members[0].heard_of == [{"step": None}]
    coordinator.take(members[1], {"step": 20})
    coordinator.take(members[1], {"step": 21})
    coordinator.take(members[0], {"step": 13})
    for m in members:
        assert m.heard_of == [{"step": None}, {"preempt_at": 21}]
        m.connection.close()


def test_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in os.environ if n.startswith(("PMI", "OMPI", "SLURM"))]:
        monkeypatch.delenv(name)
    start = distributed.initialize
    for arguments, text in (((), "coordinator_address and num_processes and process_id should be"),
                            (("h:1", 2), "process_id should be defined"),
                            (("h", 2, 0), "host:port"),
                            (("h:0", 2, 0), "host:port"), (("h:1", 2, 2), "from 0 to"),
                            (("h:1", 2, -1), "from 0 to")):
        with pytest.raises(ValueError, match=text):
            start(*arguments)
    with pytest.raises(ValueError, match="cluster_detection_method"):
        start(cluster_detection_method="k8s")
    with pytest.raises(RuntimeError, match="mpiexec"):
        start(cluster_detection_method="mpi4py")
    with pytest.raises(RuntimeError, match="srun"):
        start(cluster_detection_method="slurm")
    with pytest.raises(ValueError, match="time-out"):
        start("h:1", 2, 0, initialization_timeout=0)
    with pytest.raises(ValueError, match="local_device_ids"):
        start("h:1", 2, 0, local_device_ids=[0, 0])
    with pytest.raises(RuntimeError, match="nothing was initialized"):
        distributed.shutdown()
    start(num_processes=1, process_id=0)
    with pytest.raises(RuntimeError, match="only be called once"):
        start(num_processes=1, process_id=0)
    distributed.shutdown()
    assert calque.process_count() == 1


def test_without_mpi4py_and_with_it_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", object())
    with pytest.raises(RuntimeError, match="imported before(.|\n)*Fix: call initialize first"):
        _init({"PMI_ID": "0"})
    assert "PMI_ID" not in os.environ
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec",
                        lambda name, *rest: None if name == "mpi4py" else find(name, *rest))
    with pytest.raises(RuntimeError, match=r"Fix: pip install 'calque\[distributed\]'"):
        distributed.initialize("localhost:1", 2, 1)
    assert not distributed.is_initialized()


def test_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SLURM_JOB_ID": "70001", "SLURM_NTASKS": "8", "SLURM_PROCID": "3",
                        "SLURM_STEP_NODELIST": "gpu[007-009,12],login"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PMI_RANK", raising=False)
    found = detected(None)
    assert found is not None
    assert (found.address, found.size, found.rank) == (f"gpu007:{61440 + 70001 % 4096}", 8, 3)
    assert [first_node(t) for t in ("a1", "a[3],b", "n[1-4]x")] == ["a1", "a3", "n1x"]
