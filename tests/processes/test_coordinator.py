"""The coordinator alone: PMI-1 with simulated clients, and what is no client of ours."""
from __future__ import annotations

import importlib.util
import json
import os
import random
import socket
import sys
import threading
import time
from typing import Any

import pytest

import calque
from calque import distributed
from calque.distributed import members as members_
from calque.distributed.cluster import detected, first_node
from calque.distributed.control import Control
from calque.distributed.coordinator import LONGEST_LINE, Coordinator, Member
from calque.distributed.world import _init
from calque.runtime.errors import DeviceError


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
        coordinators[-1].welcome(connection)


def heard(lines: Any, word: bytes) -> dict[str, Any]:
    """The next line with this word."""
    while word not in (line := lines.readline()):
        assert line
    found: dict[str, Any] = json.loads(line)
    return found


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
    lines = [c.makefile("rb") for c in members]
    for each in lines:
        heard(each, b'"ready"')
    members[0].sendall(b'{"step": "no number"}\n')  # a member that speaks nonsense is lost
    assert heard(lines[1], b'"lost"')["lost"] == 0
    assert coordinator.members[1].lost is False
    for c in members:
        c.close()


REFUSED = (("told that there are 4", hello(1, size=4)), ("there is no process 3", hello(3)),
           ("there are two processes 0", hello(0)), ("not of a process", b"GET / HTTP/1.1\r\n"),
           ("other versions", hello(1, versions={"calque": "0"})),
           ("not of a process", b'{"rank": true, "size": 3}\n'),
           ("not of a process", b'{"a":' + b"[" * 60000 + b"\n"),
           ("not of a process", b"cmd=initack pmiid=1\ncmd=barrier_in\n"),
           ("not of a process", b"cmd=put key=card0 value=evil\n"))


def test_strangers_are_refused_and_members_stay(served: Any, monkeypatch: pytest.MonkeyPatch
                                                ) -> None:
    """Before all are there, and after; the members hear of them, and of nothing else."""
    (coordinator,), connect = served
    monkeypatch.setattr(members_, "GREETING_S", 0.2)
    coordinator.versions = {}
    monkeypatch.setattr(members_, "_NOTES", 1000)
    coordinator.door.lines = 1000.0
    with connect() as early:  # before process 0, which has the versions
        early.sendall(REFUSED[4][1])
        assert "other versions" in json.loads(early.makefile("rb").readline())["refused"]
    joined: list[tuple[socket.socket, Any]] = []

    def strangers() -> None:
        for text, said in REFUSED:
            with connect() as c:
                c.sendall(said)
                answer = json.loads(c.makefile("rb").readline())
                assert text in answer["refused"] and answer["fix"]
                assert text in heard(joined[0][1], b'"note"')["note"]
        silent = [connect() for _ in range(coordinator.door.most + 30)]
        for c in silent[:30]:  # the first go when there are too many, the others after a while
            assert c.recv(1 << 12) is not None
        coordinator.door.sweep()
        while coordinator.door.waiting:
            time.sleep(0.01)
            coordinator.door.sweep()
        for c in silent:
            c.close()

    for rank in range(3):
        c = connect()
        joined.append((c, c.makefile("rb")))
        c.sendall(hello(rank))
        heard(joined[0][1], b'"missing"' if rank < 2 else b'"ready"')
        strangers()
    assert [m.lost for m in coordinator.members.values()] == [False] * 3
    assert not coordinator.keys and not coordinator.waiting and not coordinator.ended.is_set()
    for c, _ in joined:
        c.sendall(b'{"barrier": "b"}\n')
    for _, lines in joined:
        assert heard(lines, b'"passed"')["passed"] == "b"
    for c, _ in joined:
        c.close()


def test_a_second_process_of_one_number_says_what_to_do(served: Any) -> None:
    _, connect = served
    with connect() as c:
        address = "localhost:" + str(c.getpeername()[1])
        first = c.makefile("rb")
        c.sendall(hello(1))
        heard(first, b"missing")
        with pytest.raises(DeviceError, match=rf"the job at {address} has refused this process: "
                           r"there are two processes 1: (.|\n)*\n  Fix: give each process its own "
                           "process_id"):
            Control(address, json.loads(hello(1)), 5, 100)
        c.sendall(b'{"barrier": "b"}\n{"where": true}\n')
        assert "1" in heard(first, b"where")["where"]


def test_lines_about_strangers_are_few() -> None:
    told: list[str] = []
    door = members_.Door(2, told.append)
    one, other = socket.socketpair()
    for _ in range(1000):
        door.refuse(one, "host:1", "it is none of ours", "go away")
        other.recv(1 << 16)
    assert 8 <= len(told) < 20 and told[0] == "refused a connection from host:1: it is none of ours"
    door.lines = 1.0
    door.refuse(one, "host:1", "it is none of ours", "go away")
    assert f"({1000 - len(told) + 1} more were refused before)" in told[-1]
    one.close()
    other.close()


def test_pmi_wires_up_many(served: Any) -> None:
    (coordinator,), connect = served
    coordinator.size, coordinator.ready = 64, True
    coordinator.members.update({r: Told(r) for r in range(64)})
    names = {r: m.identity for r, m in coordinator.members.items()}
    found: list[str] = []

    def client(rank: int) -> None:
        with connect() as c, c.makefile("rw", newline="\n") as f:
            def ask(line: str, answers: int = 1) -> str:
                f.write(line + "\n")
                f.flush()
                return [f.readline() for _ in range(answers)][-1]
            assert ask(f"cmd=initack pmiid={names[rank]}", 3) == f"cmd=set rank={rank}\n"
            f.readline()
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
    coordinator.members.update(enumerate(members))
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
