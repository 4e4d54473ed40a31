"""This process among the others: MPI's world, started by mpiexec or by ourselves.

Start reading at `World.by_hand`; messages go through `World.finish`, which no lost process can
hang.
"""
from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from calque import runtime
from calque.core import errors
from calque.core.config import config
from calque.distributed import coordinator
from calque.distributed.calls import CALL, Calls
from calque.distributed.control import Control, failed, versions
from calque.runtime.errors import DeviceError

_SPINS = 2000  # looks at a message before the first rest: some 200 us
_REST = 5e-5  # seconds
_LONG = 1.0  # seconds of a wait that the coordinator is told of
_LONGEST = 300  # bytes of what a process says that it does
_HIDDEN = ("PMI", "OMPI_", "MPIEXEC_HOSTNAME", "HYDI_", "HYDRA_")  # see runtime/device


class World:
    """The processes of one program.

    rank, size: this process's number, and how many there are; comm: MPI's communicator (None of
    one process); control: the connection to the coordinator.
    """

    def __init__(self, rank: int, size: int, mpi: Any, comm: Any, control: Control | None,
                 child: subprocess.Popen[bytes] | None, shutdown_timeout: float,
                 gpus: Sequence[int] = ()) -> None:
        self.rank, self.size, self.mpi, self.comm = rank, size, mpi, comm
        self.control, self.child, self.shutdown_timeout = control, child, shutdown_timeout
        self.error: str | None = None  # by which this process ends
        self.calls = Calls(size)  # what it has asked the others for
        self.devices = [1] if control is None else [
            int(control.table[i]["devices"]) for i in range(size)]
        self.noticed = False  # a signal that this process is to be preempted
        self.launched = False  # by mpiexec
        self.others: dict[str, Any] = {}  # communicators for one purpose each
        if control is not None:
            control.calls = self.calls
        if size > 1:
            self.hook = sys.excepthook
            sys.excepthook = self.excepted
            hosts = [control.table[i]["host"] for i in range(rank + 1)] if control else []
            runtime.device.set_processes(rank, self.devices, gpus, hosts[:-1].count(hosts[-1]))

    # ---- starting
    @classmethod
    def alone(cls) -> World:
        return cls(0, 1, None, None, None, None, 0.0)

    @classmethod
    def by_hand(cls, address: str, size: int, rank: int, devices: int, gpus: Sequence[int],
                bind: str | None, timeout: float, heartbeat: float, shutdown: float) -> World:
        """Processes that were given an address: process 0 starts the coordinator there."""
        _check_mpi()
        child = None
        if rank == 0:
            where = bind or "0.0.0.0:" + address.rpartition(":")[2]
            child, _ = _start(where, size, heartbeat)
        try:
            hello = {"rank": rank, "size": size, "host": socket.gethostname(),
                     "versions": versions(), "devices": devices}
            control = Control(address, hello, timeout, heartbeat)
            control.doing = "in MPI_Init"
            control.send({"doing": control.doing})
            mpi = _init({"PMI_PORT": address, "PMI_ID": str(control.identity),
                         "PMI_SIZE": str(size), "PMI_RANK": str(rank)})
            comm = mpi.COMM_WORLD
            if comm.Get_size() != size:
                raise failed(
                    f"MPI_Init found a world of {comm.Get_size()} processes, not of {size}: "
                    f"{mpi.Get_library_version().splitlines()[0]} does not speak PMI-1.",
                    "pip install mpich, or start with mpiexec.")
        except BaseException:
            if child is not None:
                child.kill()
            raise
        comm.Set_errhandler(mpi.ERRORS_RETURN)
        made = cls(rank, size, mpi, comm, control, child, shutdown, gpus)
        made.barrier("initialize")
        _unlink_segments()  # all have them: a job that is killed leaves none
        control.doing = "running"
        return made

    @classmethod
    def by_mpi(cls, devices: int, gpus: Sequence[int], timeout: float, heartbeat: float,
               shutdown: float) -> World:
        """Processes that mpiexec started."""
        _check_mpi()
        asked = int(os.environ.get("PMI_SIZE", os.environ.get("OMPI_COMM_WORLD_SIZE", "1")))
        mpi = _init({})
        comm = mpi.COMM_WORLD
        if comm.Get_size() != asked:
            raise failed(
                f"mpiexec started {asked} processes, and MPI_Init found {comm.Get_size()}: mpi4py "
                f"loaded another MPI ({mpi.Get_library_version().splitlines()[0]}).",
                "use the mpiexec of that MPI, or set MPI4PY_LIBMPI to the other's library.")
        rank, size = comm.Get_rank(), comm.Get_size()
        if size == 1:
            mpi.Finalize()
            return cls.alone()
        child, port, host = None, 0, socket.gethostname()
        hosts = comm.allgather(host)
        if rank == 0:
            child, port = _start("0.0.0.0:0", size, heartbeat)
            host = "127.0.0.1" if len(set(hosts)) == 1 else host
        host, port = comm.bcast((host, port))
        control = Control(f"{host}:{port}", {
            "rank": rank, "size": size, "host": socket.gethostname(), "versions": versions(),
            "devices": devices}, timeout, heartbeat)
        comm.Set_errhandler(mpi.ERRORS_RETURN)
        control.doing = "running"
        made = cls(rank, size, mpi, comm, control, child, shutdown, gpus)
        made.launched = True
        return made

    # ---- messages
    def barrier(self, what: str) -> None:
        """Wait for all."""
        self.finish(self.comm.Ibarrier(), what)

    def finish(self, request: Any, what: str) -> None:
        """Wait for a message, unless it cannot arrive any more (JaxRuntimeError)."""
        self.wait(request.Test, what)

    def wait(self, done: Callable[[], bool], what: str) -> None:
        """Ask `done` until it is, with an error where that cannot be."""
        control = self.control
        assert control is not None
        control.doing = what
        control.check_lost(what)
        begun, looks = time.monotonic(), 0
        try:
            while not done():
                looks += 1
                if looks > _SPINS:
                    control.check(what, begun)
                    waited = time.monotonic() - begun
                    if waited > config.calque_collective_timeout_s:
                        late = control.late(what, waited)
                        control.fail(str(late).splitlines()[0])
                        raise late
                    control.waits = waited > _LONG
                    time.sleep(_REST)
                elif looks % 16 == 0:
                    os.sched_yield()  # others may need this core
        except DeviceError:
            raise
        except Exception as error:  # MPI's: what arrived does not fit what was sent
            raise control.blamed(what, error) from error
        finally:
            control.waits = False
        control.doing = "running"

    def waited(self, call: Callable[[], Any], what: str) -> Any:
        """The result of a call of MPI's that blocks, made on a thread that nobody has to end."""
        found: list[Any] = []

        def run() -> None:
            try:
                found.append((call(), None))
            except Exception as error:  # MPI's, raised again below
                found.append((None, error))

        threading.Thread(target=run, name="calque MPI", daemon=True).start()
        self.wait(lambda: bool(found), what)
        result, error = found[0]
        if error is not None:
            raise error
        return result

    def gathered(self, data: bytes, what: str, comm: Any = None) -> list[bytes]:
        """The bytes of all processes, as many of each."""
        comm = comm or self.comm
        made = bytearray(len(data) * comm.Get_size())
        byte = self.mpi.BYTE
        self.finish(comm.Iallgather([bytearray(data), len(data), byte],
                                    [made, len(data), byte]), what)
        return [bytes(made[i:i + len(data)]) for i in range(0, len(made), len(data))]

    def named(self, name: str) -> Any:
        """A communicator of all processes for one purpose, whose messages no other meets."""
        if name not in self.others:
            self.others[name] = self.waited(lambda: self.comm.Dup(), "a new communicator")
        return self.others[name]

    def group(self, ranks: tuple[int, ...], parent: Any) -> Any:
        """A new communicator of some processes, which no other has to know of."""
        group = parent.Get_group().Incl(ranks)
        return self.waited(lambda: parent.Create_group(group),
                           f"a communicator of processes {list(ranks)}")

    def agree(self, said: str, what: str, comm: Any = None, told: str = "",
              ranks: tuple[int, ...] = ()) -> None:
        """ValueError in all processes where they do not say the same.

        Args:
          comm: a communicator of those who send a message now; without one it is a call of its own,
            and compared is also whether all have asked for the same things before.
          told: what errors show of `said`.
          ranks: who takes part in that call; all without them.
        """
        digest, before = hashlib.sha256(said.encode()).digest(), b""
        if comm is None:
            runtime.executable.check_sender(what)
            order = self.calls.order(ranks) if ranks else self.calls.all
            noted = self.calls.note(order, CALL, told or said)
            before = noted.to_bytes(8, "little", signed=True)
            if 0 < len(ranks) < self.size:
                comm = self.others.get(str(ranks))
                if comm is None:
                    comm = self.others[str(ranks)] = self.group(ranks, self.comm)
        every = self.gathered(digest + before, what, comm)
        if all(d == digest + before for d in every):
            return
        if all(d.startswith(digest) for d in every):
            assert self.control is not None
            raise self.control.blamed(what, ValueError("the processes have sent different things."))
        text = (told or said).encode()[:_LONGEST].ljust(_LONGEST)
        texts = [t.decode(errors="replace").strip() for t in self.gathered(text, what, comm)]
        numbers = range(self.size) if comm is None else [
            int(r) for r in comm.Get_group().Translate_ranks(None, self.comm.Get_group())]
        rows = [f"  process {r}: {t}" for r, t in zip(numbers, texts)]
        raise ValueError(errors.explain("\n".join(
            ["the processes do different things:", *rows]), "",
            "make all processes run the same calls, with one structure, shapes and dtypes."))

    # ---- ending
    def excepted(self, kind: type[BaseException], value: BaseException, trace: Any) -> None:
        """An exception ends this process: the others are told which."""
        self.error = f"{kind.__name__}: {str(value).splitlines()[0] if str(value) else ''}"
        self.hook(kind, value, trace)

    def shutdown(self) -> None:
        """Leave together with the others, within the time-out; at once where one is lost."""
        control, self.control = self.control, None
        if control is None:
            return
        sys.excepthook = self.hook
        try:
            if self.error is not None:
                control.end(self.error)
            elif control.failure is None:
                together = control.barrier(coordinator.END, self.shutdown_timeout)
                _unlink_segments()
                if together and self.launched:  # (of processes started by hand it crashes at exit)
                    self.mpi.Finalize()
                control.leave()
        except DeviceError:
            control.leave()  # who is not there any more has said so itself
            raise
        finally:
            if self.child is not None:
                self.end_child(control)

    def end_child(self, control: Control) -> None:
        """The coordinator ends by itself when all have gone; others may need it until then."""
        assert self.child is not None
        if control.failure is None and self.error is None:
            try:
                self.child.wait(5)
            except subprocess.TimeoutExpired:
                self.child.kill()
        if self.child.stdin is not None:
            self.child.stdin.close()


def _check_mpi() -> None:
    if importlib.util.find_spec("mpi4py") is None:
        raise RuntimeError(errors.explain(
            "programs of several processes take mpi4py and an MPI library, and mpi4py is not "
            "installed.", "", "pip install 'calque[distributed]' (mpi4py and mpich)."))


def _init(variables: dict[str, str]) -> Any:
    """mpi4py.MPI after MPI_Init; nothing in the environment speaks of MPI afterwards: IREE's
    devices fail with it, and MPICH's exit crashes."""
    if "mpi4py.MPI" in sys.modules and variables:
        raise RuntimeError(errors.explain(
            "mpi4py.MPI was imported before calque.distributed.initialize: its world is this "
            "process alone.", "", "call initialize first, or start with mpiexec."))
    os.environ.update(variables)
    try:
        import mpi4py
        mpi4py.rc.thread_level = "multiple"
        mpi4py.rc.finalize = False
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise RuntimeError(errors.explain(
            f"mpi4py found no MPI library: {error}", "", "pip install mpich.")) from error
    finally:
        for name in [n for n in os.environ if n.startswith(_HIDDEN)]:
            del os.environ[name]
    return MPI


def _unlink_segments() -> None:
    """Take the names of MPICH's shared memory away: it lives on in those who have it, and nobody
    has to clean up after a process that is killed."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return
    for path in {line.split(maxsplit=5)[-1] for line in lines if "/dev/shm/mpich_shm_" in line}:
        Path(path).unlink(missing_ok=True)


def _start(address: str, size: int, heartbeat: float) -> tuple[subprocess.Popen[bytes], int]:
    """The coordinator, listening; and its port."""
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(coordinator.__file__)), address, str(size),
         str(heartbeat), json.dumps(versions())], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    assert child.stdout is not None
    kind, _, rest = child.stdout.readline().decode().strip().partition(" ")
    if kind != "up":
        child.kill()
        raise failed(f"the coordinator cannot listen at {address}: {rest}",
                     "give another port: another program uses this one, or it is not of this host.")
    return child, int(rest)
