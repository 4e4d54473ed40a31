"""The process by which the processes of one program find each other and learn who is gone.

    python coordinator.py HOST:PORT PROCESSES HEARTBEAT_TIMEOUT VERSIONS

Process 0 starts it as a child of its own: MPI_Init holds Python's lock, so a thread could not
answer.  It listens at one port for two kinds of connections, told apart by their first line.
MPICH's processes speak PMI-1 (`cmd=... key=value` lines: a table of keys that all may read, and a
barrier), which is how MPI_Init makes them one world without mpiexec.  And each process keeps a
control connection of JSON lines: who it is, heartbeats, barriers, goodbye.  A connection that ends
without a goodbye is a process that is lost, and all others are told.  What is no process of this
job, or not in time, is refused: it holds nothing up and ends nothing but itself (`Door`).  And what
the processes ask each other for is compared (`Comparison`).

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
import types
import uuid
from typing import Any

if __name__ == "__main__":  # by itself: without what the package's __init__ would load
    _folder = os.path.dirname(os.path.abspath(__file__))
    for _name, _path in (("calque", os.path.dirname(_folder)), ("calque.distributed", _folder)):
        sys.modules[_name] = types.ModuleType(_name)
        sys.modules[_name].__path__ = [_path]

from calque.distributed.comparison import Comparison
from calque.distributed.members import Door, Member, address_of, shown

END = "shutdown"  # the barrier at which processes end
LONGEST_LINE = 1 << 16  # bytes; what says more is no client of ours
_SAYING = 0.5  # seconds in which all say what they do
_STEP_S = 0.5  # how often is compared what the processes ask for
_CONNECTED = "give each process its own process_id, and each job a port of its own."
_MAXES = "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024 rc=0"


class Coordinator:
    """What one program's processes share.

    size: how many processes there are; silence: seconds without a heartbeat after which a process
    counts as lost; versions: which all must have (None: the first one's).
    """

    def __init__(self, size: int, silence: float, versions: dict[str, str] | None = None) -> None:
        self.size, self.silence, self.versions = size, silence, versions
        self.members: dict[int, Member] = {}
        self.door = Door(size, self.note)
        self.notes: list[str] = []  # for process 0, which is not there yet
        self.comparison = Comparison(self.members, self.tell)
        self.ending = False  # all have come to their end
        self.ready = False
        self.barriers: dict[str, set[int]] = {}
        self.changed = threading.Condition()
        # MPICH names its shared memory by this: of a name that was killed once, MPI_Init hangs
        self.name = f"calque_{uuid.uuid4().hex[:16]}"
        self.keys: dict[str, str] = {}
        self.waiting = self.passed = 0  # at PMI's barrier
        self.preempted = False
        self.agreed = False  # at which step all stop: each may have acted on it by now
        self.ended = threading.Event()

    # ---- connections
    def welcome(self, connection: socket.socket) -> None:
        """Serve a connection in a thread of its own.  It is at the door before that runs: threads
        begin in any order, and of too many strangers those who came first go."""
        self.door.enter(connection)
        try:
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()
        except RuntimeError:  # no more threads
            self.door.leave(connection)
            raise

    def serve(self, connection: socket.socket) -> None:
        """One connection, from its first line to its end."""
        address = address_of(connection)
        try:
            with connection, connection.makefile("rb") as lines:
                why = "it closed, or was silent for too long, before it said who it is"
                try:
                    first = lines.readline(LONGEST_LINE)
                    if first:
                        why = "what it sent is not of a process of this job"
                    if first.startswith(b"cmd=") and self.pmi(connection, lines, first):
                        return
                    if first.startswith(b"{") and self.control(connection, lines, first, address):
                        return
                except (OSError, ValueError, KeyError, TypeError, RecursionError):
                    pass  # it closed, or was none of ours
                if connection in self.door.waiting:
                    self.door.refuse(connection, address, why, _CONNECTED)
        except OSError:  # of one that is closed already
            pass
        finally:
            self.door.leave(connection)

    def note(self, text: str) -> None:
        """A line for whoever looks at the job."""
        with self.changed:
            self.notes.append(text)
            if 0 in self.members:
                self.tell_notes()

    def tell_notes(self) -> None:
        for text in self.notes:
            self.tell({"note": text})
        self.notes.clear()

    # ---- PMI-1 (mpich's doc/wiki, "PMI v1 wire protocol")
    def pmi(self, connection: socket.socket, lines: Any, line: bytes) -> bool:
        """MPI_Init of a member; False where it is none's."""
        rank: int | None = None

        def answer(text: str) -> None:
            connection.sendall(text.encode() + b"\n")

        while line.endswith(b"\n"):
            fields = _fields(line.decode("ascii"))
            command = fields.get("cmd")
            if rank is None:  # it has to say first whose it is
                rank = self.known(command, fields.get("pmiid", ""))
                if rank is None:
                    return False
                self.door.leave(connection)
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
                    break
                answer("cmd=barrier_out rc=0")
            elif command == "finalize":
                answer("cmd=finalize_ack rc=0")
            elif command == "abort":
                break
            line = lines.readline(LONGEST_LINE)
        return rank is not None

    def known(self, command: str | None, identity: str) -> int | None:
        """The member that has been given an identity for MPI_Init, once."""
        with self.changed:
            for m in self.members.values():
                if command == "initack" and self.ready and identity == str(m.identity):
                    m.identity = 0
                    return m.rank
        return None

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
    def control(self, connection: socket.socket, lines: Any, line: bytes, address: str) -> bool:
        """A process's connection until its end; False where it is none's."""
        hello = json.loads(line)
        rank, size = hello.get("rank"), hello.get("size")
        if type(rank) is not int or type(size) is not int:
            return False
        member = Member(rank, connection, hello)
        refusal = self.join(member, size)
        self.door.leave(connection)
        if refusal is not None:
            self.door.refuse(connection, address, *refusal)
            return True
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
        return True

    def whereabouts(self, member: Member) -> None:
        """Tell a process what each said last."""
        now = time.monotonic()
        with self.changed:
            member.send({"where": {
                str(m.rank): m.doing if now - m.heard < 2 * _SAYING else
                f"nothing was heard of it for {now - m.heard:.1f} s; before, {m.doing}"
                for m in self.members.values()}})

    def join(self, member: Member, size: int) -> tuple[str, str] | None:
        """Take a process in; why not, and what to do, where it does not belong to this job: those
        who are members stay what they are."""
        rank, hello = member.rank, member.hello
        with self.changed:
            versions = next((m.hello.get("versions") for m in self.members.values()),
                            hello.get("versions")) if self.versions is None else self.versions
            if size != self.size:
                return (f"process {rank} on {member.host} was told that there are {size} "
                        f"processes, process 0 that there are {self.size}.",
                        "give all processes the same num_processes.")
            if not 0 <= rank < self.size:
                return (f"there is no process {rank}: they are 0 to {self.size - 1}.",
                        "give each process a process_id below num_processes.")
            if versions != hello.get("versions"):
                return (f"process {rank} on {member.host} runs other versions: "
                        f"{shown(hello.get('versions'))}, the job {shown(versions)}.",
                        "install the same versions everywhere.")
            if rank in self.members:
                return (f"there are two processes {rank}: that on {self.members[rank].host} is "
                        f"a member already, that on {member.host} came later.", _CONNECTED)
            self.members[rank] = member
            if rank == 0:
                self.tell_notes()
            for m in self.members.values():
                if m.lost:
                    member.send(_loss(m))
            if len(self.members) == self.size:
                self.ready = True
                table = {str(m.rank): m.hello for m in self.members.values()}
                for m in self.members.values():
                    m.send({"ready": table, "identity": m.identity})
            else:
                missing = [r for r in range(self.size) if r not in self.members]
                for m in self.members.values():
                    m.send({"missing": missing})
        return None

    def take(self, member: Member, message: dict[str, Any]) -> None:
        """What a process says."""
        with self.changed:
            member.heard = time.monotonic()
            if "doing" in message:
                member.doing = str(message["doing"])
                member.waits = bool(message.get("waits"))
            member.asked.update(message.get("calls", {}))
            member.ends = message.get("ends", member.ends)
            if "answer" in message:
                self.comparison.take(member, *message["answer"])
                self.compare()
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
                    if message["barrier"] == END:  # when all is compared
                        self.ending = True
                        self.comparison.end()
                        self.compare()
                    else:
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

    def compare(self) -> None:
        """Compare what the processes ask for, and let them end where that was all the same."""
        if self.comparison.step() and self.ending:
            self.ending = False
            self.tell({"passed": END})

    def tell(self, message: dict[str, Any]) -> None:
        for m in self.members.values():
            if not m.left:
                m.send(message)

    def lose(self, member: Member, why: str) -> None:
        with self.changed:
            if member.lost or member.left:
                return
            member.lost = True
            member.why = why
            self.tell(_loss(member))
            self.changed.notify_all()

    def end_if_empty(self) -> None:
        with self.changed:
            if all(m.left or m.lost for m in self.members.values()) and (
                    self.ready or self.is_broken()):
                self.ended.set()

    def watch(self) -> None:
        """Lose those that are silent: their machine is gone, or they are stopped.  And compare what
        they ask for."""
        while not self.ended.wait(min(_STEP_S, self.silence / 4)):
            self.door.sweep()
            with self.changed:
                self.compare()
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


def _loss(m: Member) -> dict[str, Any]:
    return {"lost": m.rank, "why": m.why, "host": m.host, "doing": m.doing}


def _take_files() -> None:
    """As many connections as the system lets a process have: two for each process are needed."""
    try:
        import resource
    except ImportError:  # (Windows has no such bound)
        return
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    except (OSError, ValueError):
        pass  # what there is has to do


def main(address: str, size: str, silence: str, versions: str = "null") -> None:
    host, _, port = address.rpartition(":")
    _take_files()
    coordinator = Coordinator(int(size), float(silence), json.loads(versions))
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        server = socket.create_server((host, int(port)), family=family,
                                      backlog=max(128, int(size)))
    except OSError as error:
        print(f"error {error}", flush=True)
        return
    print(f"up {server.getsockname()[1]}", flush=True)

    def accept() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:  # it closed meanwhile, or there are too many: some go
                coordinator.door.sweep()
                time.sleep(0.01)
                continue
            try:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                coordinator.welcome(connection)
            except (OSError, RuntimeError):  # it has closed; or no more threads
                connection.close()

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
