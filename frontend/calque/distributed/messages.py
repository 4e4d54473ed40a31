"""Collectives between processes: one MPI call each, on communicators that are kept.

Programs send in their order, the same in all processes (core/processes.sender): small ones inside
the call, others on a thread of their own (runtime/lane).  MPI counts in 32 bits, so what is larger
goes in pieces.  Start reading at `Engine.sender`.
"""
from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.core.processes import Between, Origin
from calque.core.types import Ndarray
from calque.distributed.calls import CHECKED, digest_of
from calque.distributed.world import World
from calque.runtime import watch

Arrays = Sequence[np.ndarray[Any, Any]]
PIECE = 1 << 30  # bytes of a message
_FLOATS = {"float32": "FLOAT", "float64": "DOUBLE"}


class Sender:
    """One of a program's messages: a function of arrays, and of those that it writes into.

    `ask` is called where the program comes to it, in the program's order, and gives its number; the
    sending may come later, on another thread.
    """

    __slots__ = ("ask", "_engine", "_how", "_names", "_order", "_ranks", "_run", "_what")

    def __init__(self, engine: Engine, kind: str, axes: tuple[Between, ...], how: dict[str, Any],
                 where: str, origin: Origin | None) -> None:
        self._engine, self._how, self._run = engine, how, engine.kinds[kind]
        self._ranks = axes[0].grid.group(engine.rank, [a.name for a in axes])
        self._names = f"{kind} over {', '.join(str(a.name) for a in axes)}"
        self._what = self._names + (f" at {where}" if where else "")
        self._order = order = engine.world.calls.order(self._ranks)
        which, label = "", self._what
        if origin is not None:
            which = f"{origin.digest} {origin.which}"
            label = f"{origin.program}: {self._what}, {origin.types}"
        digest = CHECKED if engine.checked else digest_of(f"{which} {self._names} {how}")
        self.ask = order.noting(digest, label)

    def __call__(self, arrays: Arrays, results: Arrays, number: int) -> None:
        engine, ranks, how = self._engine, self._ranks, self._how
        with engine.lock:
            engine.sent += 1
            self._order.begun = number
            comm = engine.groups.get(ranks) or engine.group(ranks)
            if engine.checked:
                shapes = ", ".join(f"{a.dtype}{list(a.shape)}" for a in arrays)
                engine.world.agree(f"message {number}: {self._names} of {shapes} {how}",
                                   self._what, comm)
            if not watch.watchers:
                self._run(comm, arrays, results, self._what, **how)
                return
            with watch.span(self._names, "collective", bytes=sum(a.nbytes for a in arrays),
                            processes=len(ranks)):
                self._run(comm, arrays, results, self._what, **how)

    def drop(self, number: int, error: BaseException) -> None:
        """It is not sent, as something has failed before: the others may wait for it."""
        self._order.skip(number, error)


class Engine:
    """The messages of this process's programs."""

    def __init__(self, world: World) -> None:
        self.world, self.mpi, self.rank = world, world.mpi, world.rank
        self.lock = threading.RLock()  # programs of several threads: one message after the other
        self.groups: dict[tuple[int, ...], Any] = {}
        # what makes them: the lane's thread, while others may use the world's communicator
        self.all = world.named("messages")
        self.sent = 0  # messages
        self.known: set[str] = set()  # programs that have run
        self.types: dict[Any, Any] = {}
        self.operations = {"sum": self.mpi.SUM, "max": self.mpi.MAX, "min": self.mpi.MIN}
        self.checked = bool(os.environ.get("CALQUE_CHECK", "0") not in ("", "0"))
        self.kinds: dict[str, Callable[..., None]] = {
            "reduce": self.reduce, "gather": self.gather, "exchange": self.exchange,
            "scatter": self.scatter, "permute": self.permute}

    def sender(self, kind: str, axes: tuple[Between, ...], how: dict[str, Any], where: str,
               origin: Origin | None) -> Sender:
        """What sends one of a program's messages.

        Raises:
          ValueError: the program runs for the first time, and other processes run another one.
        """
        if origin is not None and origin.digest not in self.known:
            self.agree(f"{origin.told} {origin.digest}", f"the first run of {origin.program}",
                       origin.told, origin.ranks)
            self.known.add(origin.digest)
        return Sender(self, kind, axes, how, where, origin)

    def agree(self, said: str, what: str, told: str, ranks: tuple[int, ...]) -> None:
        """ValueError in all these processes where they do not say the same."""
        self.world.agree(said, what, ranks=ranks, told=told)

    def group(self, ranks: tuple[int, ...]) -> Any:
        """The communicator of some processes, in this order."""
        comm = self.groups.get(ranks)
        if comm is None:
            world = self.world
            if ranks == tuple(range(world.size)):
                comm = world.waited(lambda: self.all.Dup(), "a new communicator")
            else:
                comm = world.group(ranks, self.all)
            comm.Set_errhandler(self.mpi.ERRORS_RETURN)
            self.groups[ranks] = comm
        return comm

    def type_of(self, dtype: Any) -> Any:
        """MPI's name of a dtype."""
        found = self.types.get(dtype)
        if found is None:
            found = self.types[dtype] = getattr(
                self.mpi, _FLOATS.get(dtype.name) or dtype.name.upper() + "_T")
        return found

    # ---- the kinds
    def reduce(self, comm: Any, arrays: Arrays, results: Arrays, what: str, *, op: str
               ) -> None:
        if len(arrays) == 1:
            sent, got = arrays[0], results[0]
            dtype = sent.dtype
            if sent.nbytes <= PIECE and dtype.kind != "V" and (op == "sum" or dtype.kind != "f"):
                kind = self.types.get(dtype) or self.type_of(dtype)  # as it lies, in one piece
                self.world.wait(comm.Iallreduce([sent, sent.size, kind], [got, sent.size, kind],
                                                self.operations[op]).Test, what)
            else:
                self.reduce_one(comm, _bytes(sent), _bytes(got), dtype, op, what)
            return
        for dtype in dict.fromkeys(a.dtype for a in arrays):  # one message for each dtype
            mine = [i for i, a in enumerate(arrays) if a.dtype == dtype]
            sent = np.concatenate([arrays[i].reshape(-1) for i in mine])
            got = np.empty_like(sent)
            self.reduce_one(comm, _bytes(sent), _bytes(got), dtype, op, what)
            start = 0
            for i in mine:
                results[i].reshape(-1)[:] = got[start:start + arrays[i].size]
                start += arrays[i].size

    def reduce_one(self, comm: Any, sent: Any, got: Any, dtype: Any, op: str, what: str) -> None:
        if op != "sum" and dtype.kind == "f":  # MPI loses NaN
            ordered = _ordered(sent.view(dtype), op == "max")
            self.reduce_one(comm, _bytes(ordered), got, ordered.dtype, op, what)
            got.view(dtype)[:] = _unordered(got.view(ordered.dtype), dtype)
            return
        kind, function = self.type_of(dtype), self.operations[op]
        for i in range(0, sent.size, PIECE):
            s, g = sent[i:i + PIECE], got[i:i + PIECE]
            count = s.size // dtype.itemsize
            self.world.finish(comm.Iallreduce([s, count, kind], [g, count, kind], function), what)

    def gather(self, comm: Any, arrays: Arrays, results: Arrays, what: str) -> None:
        size, byte = comm.Get_size(), self.mpi.BYTE
        sent, got = _bytes(arrays[0]), _bytes(results[0]).reshape(size, -1)
        step = max(1, PIECE // size)
        for i in range(0, sent.size, step):
            s = sent[i:i + step]
            g = got if s.size == sent.size else np.empty((size, s.size), np.uint8)
            self.world.finish(comm.Iallgather([s, s.size, byte], [g, s.size, byte]), what)
            if g is not got:
                got[:, i:i + step] = g

    def exchange(self, comm: Any, arrays: Arrays, results: Arrays, what: str) -> None:
        size, byte = comm.Get_size(), self.mpi.BYTE
        sent, got = (_bytes(a).reshape(size, -1) for a in (arrays[0], results[0]))
        step = max(1, PIECE // size)
        for i in range(0, sent.shape[1], step):
            whole = sent.shape[1] <= step
            s = sent if whole else np.ascontiguousarray(sent[:, i:i + step])
            g = got if whole else np.empty_like(s)
            self.world.finish(comm.Ialltoall([s, s.shape[1], byte], [g, s.shape[1], byte]), what)
            if not whole:
                got[:, i:i + step] = g

    def scatter(self, comm: Any, arrays: Arrays, results: Arrays, what: str) -> None:
        """Sums of which each process gets its part; in one piece, MPI counts elements."""
        dtype = arrays[0].dtype
        sent, got = _bytes(arrays[0]), _bytes(results[0])
        kind = self.type_of(dtype)
        rows, step = sent.reshape(comm.Get_size(), -1), PIECE // comm.Get_size()
        step -= step % dtype.itemsize
        for i in range(0, got.size, step):
            g = got[i:i + step]
            s = rows if g.size == got.size else np.ascontiguousarray(rows[:, i:i + step])
            count = g.size // dtype.itemsize
            self.world.finish(comm.Ireduce_scatter_block(
                [s, count, kind], [g, count, kind], self.mpi.SUM), what)

    def permute(self, comm: Any, arrays: Arrays, results: Arrays, what: str, *,
                perm: tuple[tuple[int, int], ...]) -> None:
        """Rows of this process's devices go to the places that perm says; what gets none is 0."""
        rows, got = arrays[0], results[0]
        local, me = len(rows), comm.Get_rank()
        got[...] = np.zeros((), got.dtype)
        requests = []
        for tag, (source, target) in enumerate(perm):
            (p, i), (q, j) = divmod(source, local), divmod(target, local)
            if p == me and q == me:
                got[j] = rows[i]
            elif p == me or q == me:
                part, other = (rows[i], q) if p == me else (got[j], p)
                flat = _bytes(part)
                for k in range(0, flat.size, PIECE):
                    piece = flat[k:k + PIECE]
                    message = [piece, piece.size, self.mpi.BYTE]
                    requests.append(comm.Isend(message, other, tag % 30000) if p == me
                                    else comm.Irecv(message, other, tag % 30000))
        for r in requests:
            self.world.finish(r, what)


def _bytes(a: Ndarray) -> Any:
    """The memory of an array as bytes."""
    return np.ascontiguousarray(a).reshape(-1).view(np.uint8)


def _ordered(x: Ndarray, high: bool) -> Ndarray:
    """Integers that are ordered as floats are, -0 before 0, NaN above all (high) or below."""
    integer = np.dtype(f"i{x.dtype.itemsize}")
    bits, limits = x.view(integer), np.iinfo(integer)
    made = np.where(bits < 0, bits ^ limits.max, bits)
    made[np.isnan(x)] = limits.max if high else limits.min
    return made


def _unordered(bits: Ndarray, dtype: Any) -> Ndarray:
    limits = np.iinfo(bits.dtype)
    made = np.where(bits < 0, bits ^ limits.max, bits).view(dtype)
    return np.where((bits == limits.max) | (bits == limits.min), np.array(np.nan, dtype), made)
