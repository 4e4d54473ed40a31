"""The process by which the processes of one program find each other and learn who is gone.

    python coordinator.py HOST:PORT PROCESSES HEARTBEAT_TIMEOUT

Process 0 starts it as a child of its own: MPI_Init holds Python's lock, so a thread could not
answer.  It listens at one port for two kinds of connections, told apart by their first line.
MPICH's processes speak PMI-1 (`cmd=... key=value` lines: a table of keys that all may read, and a
barrier), which is how MPI_Init makes them one world without mpiexec.  And each process keeps a
control connection of JSON lines: who it is, heartbeats, barriers, goodbye.  A connection that ends
without a goodbye is a process that is lost, and all others are told.

Standard library only, nothing of calque: it starts in 50 ms.
Start reading at `Coordinator.control`.
"""
from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
import uuid
from typing import Any

END = "shutdown"  # the barrier at which processes end
LONGEST_LINE = 1 << 16  # bytes; what says more is no client of ours
_SAYING = 0.5  # seconds in which all say what they do
_MAXES = "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024 rc=0"


_LATE = 3.0  # seconds for which those that start late are told why the program cannot start


class Member:
    """A process that has said who it is."""

    def __init__(self, rank: int, connection: socket.socket, hello: dict[str, Any]) -> None:
        self.rank, self.connection, self.hello = rank, connection, hello
        self.heard = time.monotonic()
        self.doing = ""  # what it says that it does
        self.why = ""  # it ends
        self.left = self.lost = False
        self.step: int | None = None
        self.lock = threading.Lock()

    def send(self, message: dict[str, Any]) -> None:
        try:
            with self.lock:
                self.connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass  # its own connection's thread sees that it is gone


class Coordinator:
    """What one program's processes share.

    size: how many processes there are; silence: seconds without a heartbeat after which a process
    counts as lost.
    """

    def __init__(self, size: int, silence: float) -> None:
        self.size, self.silence = size, silence
        self.members: dict[int, Member] = {}
        self.ready = False
        self.barriers: dict[str, set[int]] = {}
        self.changed = threading.Condition()
        # MPICH names its shared memory by this: of a name that was killed once, MPI_Init hangs
        self.name = f"calque_{uuid.uuid4().hex[:16]}"
        self.keys: dict[str, str] = {}
        self.waiting = self.passed = 0  # at PMI's barrier
        self.preempted = False
        self.agreed = False  # at which step all stop: each may have acted on it by now
        self.refusal: str | None = None  # why this program cannot start
        self.ended = threading.Event()

    # ---- connections
    def serve(self, connection: socket.socket) -> None:
        """One connection, from its first line to its end."""
        try:
            with connection, connection.makefile("rb") as lines:
                first = lines.readline(LONGEST_LINE)
                if first.startswith(b"cmd="):
                    self.pmi(connection, lines, first)
                elif first.startswith(b"{"):
                    self.control(connection, lines, first)
        except (OSError, ValueError, KeyError, TypeError):  # it closed, or was none of ours
            pass

    # ---- PMI-1 (mpich's doc/wiki, "PMI v1 wire protocol")
    def pmi(self, connection: socket.socket, lines: Any, line: bytes) -> None:
        rank = -1

        def answer(text: str) -> None:
            connection.sendall(text.encode() + b"\n")

        while line.endswith(b"\n"):
            fields = _fields(line.decode("ascii"))
            command = fields.get("cmd")
            if command == "initack":
                rank = int(fields["pmiid"])
                for text in ("cmd=initack rc=0", f"cmd=set size={self.size}",
                             f"cmd=set rank={rank}", "cmd=set debug=0"):
                    answer(text)
            elif command == "init":
                answer("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0")
            elif command == "get_maxes":
                answer(_MAXES)
            elif command == "get_appnum":
                answer("cmd=appnum appnum=0 rc=0")
            elif command == "get_my_kvsname":
                answer(f"cmd=my_kvsname kvsname={self.name} rc=0")
            elif command == "get_universe_size":
                answer(f"cmd=universe_size size={self.size} rc=0")
            elif command == "put":
                with self.changed:
                    self.keys[fields["key"]] = fields["value"]
                answer("cmd=put_result rc=0 msg=success")
            elif command == "get":
                with self.changed:
                    value = self.keys.get(fields["key"])
                answer("cmd=get_result rc=-1 msg=not_found value=unknown" if value is None
                       else f"cmd=get_result rc=0 msg=success value={value}")
            elif command == "barrier_in":
                if not self.pmi_barrier():
                    return
                answer("cmd=barrier_out rc=0")
            elif command == "finalize":
                answer("cmd=finalize_ack rc=0")
            elif command == "abort":
                return
            line = lines.readline(LONGEST_LINE)

    def pmi_barrier(self) -> bool:
        """Wait for all; False where one of them is lost meanwhile."""
        with self.changed:
            mine = self.passed
            self.waiting += 1
            if self.waiting == self.size:
                self.waiting, self.passed = 0, mine + 1
                self.changed.notify_all()
            return self.changed.wait_for(lambda: self.passed > mine or self.is_broken()) and (
                self.passed > mine)

    def is_broken(self) -> bool:
        return any(m.lost for m in self.members.values())

    # ---- control connections
    def control(self, connection: socket.socket, lines: Any, line: bytes) -> None:
        member = self.join(connection, json.loads(line))
        if member is None:
            return
        try:
            while True:
                line = lines.readline(LONGEST_LINE)
                if not line.endswith(b"\n"):
                    break
                self.take(member, json.loads(line))
        finally:
            if not member.left:
                self.lose(member, member.why or "its connection ended")
            self.end_if_empty()

    def whereabouts(self, member: Member) -> None:
        """Tell a process what each said last."""
        now = time.monotonic()
        with self.changed:
            member.send({"where": {
                str(m.rank): m.doing if now - m.heard < 2 * _SAYING else
                f"nothing was heard of it for {now - m.heard:.1f} s; before, {m.doing}"
                for m in self.members.values()}})

    def join(self, connection: socket.socket, hello: dict[str, Any]) -> Member | None:
        """A new member, or None where it does not belong to this program."""
        rank, size = hello.get("rank"), hello.get("size")
        member = Member(rank if isinstance(rank, int) else -1, connection, hello)
        with self.changed:
            first = next(iter(self.members.values()), None)
            refusal = self.refusal
            if not isinstance(rank, int) or not isinstance(size, int):
                return None
            if refusal is not None:
                pass  # those who were there already have been told
            elif size != self.size:
                refusal = (f"process {rank} on {hello.get('host')} was told that there are {size} "
                           f"processes, process 0 that there are {self.size}.")
            elif not 0 <= rank < self.size:
                refusal = f"there is no process {rank}: they are 0 to {self.size - 1}."
            elif rank in self.members:
                other = self.members[rank].hello.get("host")
                refusal = f"there are two processes {rank}: on {other} and {hello.get('host')}."
            elif first is not None and first.hello.get("versions") != hello.get("versions"):
                refusal = (f"processes {first.rank} and {rank} run different versions: "
                           f"{first.hello.get('versions')} and {hello.get('versions')}.")
            if refusal is not None:
                self.refusal = refusal
                # process 0 ends this one when it hears of it: it is told last
                for m in sorted([member, *self.members.values()], key=lambda m: m.rank == 0):
                    m.send({"refused": refusal})
                return None
            self.members[rank] = member
            if len(self.members) == self.size:
                self.ready = True
                table = {str(m.rank): m.hello for m in self.members.values()}
                for m in self.members.values():
                    m.send({"ready": table})
            else:
                missing = [r for r in range(self.size) if r not in self.members]
                for m in self.members.values():
                    m.send({"missing": missing})
        return member

    def take(self, member: Member, message: dict[str, Any]) -> None:
        """What a process says."""
        with self.changed:
            member.heard = time.monotonic()
            if "doing" in message:
                member.doing = str(message["doing"])
            if "where" in message:  # somebody has waited for too long: all say what they do
                self.tell({"say": True})
                threading.Timer(_SAYING, self.whereabouts, [member]).start()
            if "barrier" in message:
                if message["barrier"] == END:
                    self.tell({"left": member.rank})  # it takes part in nothing else
                arrived = self.barriers.setdefault(str(message["barrier"]), set())
                arrived.add(member.rank)
                if len(arrived) == self.size:
                    del self.barriers[str(message["barrier"])]
                    self.tell({"passed": message["barrier"]})
            if "ending" in message:  # with an error: its connection ends next
                member.why = str(message["ending"])
            if "bye" in message:
                member.left = True
                self.tell({"left": member.rank})
            if "preempted" in message and not self.preempted:
                self.preempted = True
                self.tell({"step": None})
            if "step" in message:
                member.step = int(message["step"])
                steps = [m.step for m in self.members.values() if not m.left]
                if self.preempted and not self.agreed and None not in steps:
                    self.agreed = True
                    self.tell({"preempt_at": max(s for s in steps if s is not None) + 1})

    def tell(self, message: dict[str, Any]) -> None:
        for m in self.members.values():
            if not m.left:
                m.send(message)

    def lose(self, member: Member, why: str) -> None:
        with self.changed:
            if member.lost or member.left:
                return
            member.lost = True
            self.tell({"lost": member.rank, "why": why, "host": member.hello.get("host"),
                       "doing": member.doing})
            self.changed.notify_all()

    def end_if_empty(self) -> None:
        with self.changed:
            if all(m.left or m.lost for m in self.members.values()) and (
                    self.ready or self.is_broken()):
                if self.refusal is None or self.ready:
                    self.ended.set()
                else:  # those that start later are told, too
                    late = threading.Timer(_LATE, self.ended.set)
                    late.daemon = True
                    late.start()

    def watch(self) -> None:
        """Lose those that are silent: their machine is gone, or they are stopped."""
        while not self.ended.wait(min(1.0, self.silence / 4)):
            now = time.monotonic()
            for m in list(self.members.values()):
                if now - m.heard > self.silence and not (m.lost or m.left):
                    self.lose(m, f"nothing was heard of it for {self.silence:g} s")
                    self.end_if_empty()


def _fields(line: str) -> dict[str, str]:
    """The fields of a line of PMI-1; a value goes on to the line's end."""
    head, marker, value = line.rstrip("\n").partition(" value=")
    fields = dict(part.split("=", 1) for part in head.split(" ") if "=" in part)
    return {**fields, "value": value} if marker else fields


def main(address: str, size: str, silence: str) -> None:
    host, _, port = address.rpartition(":")
    coordinator = Coordinator(int(size), float(silence))
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        server = socket.create_server((host, int(port)), family=family, backlog=int(size))
    except OSError as error:
        print(f"error {error}", flush=True)
        return
    print(f"up {server.getsockname()[1]}", flush=True)

    def accept() -> None:
        while True:
            connection, _ = server.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=coordinator.serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    threading.Thread(target=coordinator.watch, daemon=True).start()

    def parent() -> None:  # process 0 ended before all were there
        while os.read(0, 1):
            pass
        if not coordinator.ready:
            coordinator.ended.set()

    threading.Thread(target=parent, daemon=True).start()
    coordinator.ended.wait()
    time.sleep(0.2)  # what was said last goes out
    os._exit(0)  # threads that read are never waited for


if __name__ == "__main__":
    main(*sys.argv[1:])
