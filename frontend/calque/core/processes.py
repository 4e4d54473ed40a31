"""Which process has which block of a mesh, and the names of collectives that run between processes.

A mesh axis of size n is processes x devices of one process: `counts` along the axis of the former,
`locals` of the latter.  `Between(name, grid)` is the axis's first part as the name of collectives:
these are messages, which the package's `distributed` sends (`engine`).
Start reading at `grid_of`.  Imports core.errors.
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.core.errors import explain
from calque.core.types import Shape


@dataclass(frozen=True, slots=True)
class ProcessGrid:
    """The processes of a mesh: a grid with the mesh's axes.

    names: of the axes; counts: of processes along each; locals: of each process's devices along
    each; ranks: the process at each place, the last axis moving fastest.
    """

    names: tuple[Any, ...]
    counts: tuple[int, ...]
    locals: tuple[int, ...]
    ranks: tuple[int, ...]

    def count(self, name: Any) -> int:
        """How many processes an axis runs over."""
        return self.counts[self.names.index(name)]

    def local(self, name: Any) -> int:
        """How many devices of one process an axis runs over."""
        return self.locals[self.names.index(name)]

    @property
    def process_axes(self) -> tuple[Any, ...]:
        """The axes that run between processes."""
        return tuple(n for n, c in zip(self.names, self.counts) if c > 1)

    def place(self, rank: int) -> tuple[int, ...]:
        """Where a process stands; RuntimeError for one that has no device of the mesh."""
        if rank not in self.ranks:
            raise RuntimeError(explain(
                f"process {rank} has no device of the mesh: its devices are those of processes "
                f"{sorted(self.ranks)}.", fix="make a mesh of calque.devices(), or let only those "
                "processes compute over it."))
        return tuple(map(int, np.unravel_index(self.ranks.index(rank), self.counts)))

    def group(self, rank: int, names: Sequence[Any]) -> tuple[int, ...]:
        """The processes along axes through the place of one, the last name moving fastest."""
        place = dict(zip(self.names, self.place(rank)))
        table = np.array(self.ranks).reshape(self.counts)
        found = []
        for at in itertools.product(*[range(self.count(n)) for n in names]):
            where = {**place, **dict(zip(names, at))}
            found.append(int(table[tuple(where[n] for n in self.names)]))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Between:
    """A mesh axis as far as it runs between processes."""

    name: Any
    grid: ProcessGrid

    @property
    def size(self) -> int:
        """How many processes there are along it."""
        return self.grid.count(self.name)

    def __repr__(self) -> str:
        return f"{self.name} between processes"


def grid_of(devices: Any, names: tuple[Any, ...]) -> ProcessGrid | None:
    """The processes of a grid of devices; None where all are of one.

    Raises:
      ValueError: a process's devices are no block of the grid.
    """
    owners = np.array([getattr(d, "process_index", 0) for d in devices.flat], int).reshape(
        devices.shape)
    if len(set(owners.flat)) <= 1:
        return None
    lines = [owners[tuple(slice(None) if i == axis else 0 for i in range(owners.ndim))]
             for axis in range(owners.ndim)]
    same = [line == owners.flat[0] for line in lines]
    local = tuple(len(line) if line.all() else int(np.argmin(line)) for line in same)
    counts = tuple(n // k for n, k in zip(owners.shape, local))
    corner = owners[tuple(slice(None, None, k) for k in local)]
    blocks = np.kron(corner, np.ones(local, int))
    if blocks.shape != owners.shape or (blocks != owners).any() or len(
            set(corner.flat)) != corner.size:
        raise ValueError(explain(
            f"Mesh: the devices of a process must be a block of the mesh, of one size for all "
            f"processes; by process they are {owners.tolist()} here.",
            fix="use calque.make_mesh, or order the devices so that each process's lie together."))
    return ProcessGrid(names, counts, local, tuple(map(int, corner.flat)))


def block_shape(shape: Sequence[int], spec: Sequence[tuple[Any, ...]], grid: ProcessGrid
                ) -> Shape:
    """The shape of a process's piece of an array whose dimensions are split by these axes."""
    return tuple(d // math.prod(grid.count(n) for n in axes) for d, axes in zip(shape, spec))


def between(axes: Sequence[tuple[Any, ...]], grid: ProcessGrid, what: str
            ) -> tuple[tuple[Any, ...], ...]:
    """Of the axes that split each dimension those that run between processes.

    Raises:
      NotImplementedError: a process would have several separate parts of a dimension.
    """
    found = []
    for mine in axes:
        inner = False
        for n in mine:
            if inner and grid.count(n) > 1:
                raise NotImplementedError(explain(
                    f"{what}: a dimension split by {mine}, of which {n!r} runs between processes "
                    "and one before it within each: a process would have several separate parts.",
                    fix="name the axes that run between processes first, or build the mesh so."))
            inner |= grid.local(n) > 1
        found.append(tuple(n for n in mine if grid.count(n) > 1))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose message a message is.

    program: the program's name; told: what errors show of it; digest: its hash; ranks: the
    processes that run it; which: of its messages; types: of what this one sends.
    """

    program: str
    told: str
    digest: str
    ranks: tuple[int, ...]
    which: int
    types: str


# Installed by calque.distributed (distributed/messages.Engine): it has `sender`, `agree`, `rank`.
engine: list[Any] = []


def sender(kind: str, axes: tuple[Between, ...], how: dict[str, Any], where: str,
           origin: Origin | None) -> Any:
    """What sends a message: a function of NumPy arrays, of those that it writes into and of the
    number that its `ask` gave; ValueError where its program runs for the first time, and others
    run another one."""
    if not engine:
        raise RuntimeError(explain(
            f"{kind} between processes: this process is not one of several.",
            fix="call calque.distributed.initialize first, in every process."))
    return engine[0].sender(kind, axes, how, where, origin)


def rank() -> int:
    """This process's number."""
    return engine[0].rank if engine else 0


def agree(said: str, what: str, told: str, ranks: tuple[int, ...]) -> None:
    """ValueError in all these processes where they do not say the same; told: what errors show of
    it."""
    if engine:
        engine[0].agree(said, what, told, ranks)


__all__ = ["Between", "Origin", "ProcessGrid", "agree", "between", "block_shape", "engine",
           "grid_of", "rank", "sender"]
