"""What emission did, a row for each part of a program: which family, for which equations, why.

Emission tells a `Recorder` of each kernel that it calls (`kernel`), each loop or branch that the
host runs (`within`) and each equation that it leaves to IREE (`left`); what decides tells it what
was in the way before (`refuse`).  Nothing is decided here.  Start reading at `Recorder`.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from calque.core.program import Equation
from calque.lowering.plan.refusal import Refusal

Spec = tuple[tuple[Any, ...], Any]

# family -> what stands in a plan for it
FAMILIES = {
    "program": "one kernel for the whole program",
    "small": "small work in one kernel",
    "registers": "loop in registers",
    "memory": "loop over memory",
    "rows": "reductions and what is around them",
    "attention": "products and what is computed of their rows",
    "list": "elementwise work on a list of arrays",
    "points": "rows of few numbers in registers",
    "chain": "elementwise chain",
    "product": "product in C",
    "convolution": "convolution in C",
    "fft": "FFT in C",
    "linalg": "linear algebra in C",
    "select": "selection in C",
    "sort": "sort",
    "move": "copy of parts",
    "scatter": "scatter",
    "user": "kernel of the user's",
    "cuda": "CUDA kernel",
    "host loop": "loop from the host",
    "host branch": "branch from the host",
    "callback": "call of Python",
    "iree": "IREE",
}


@dataclass(slots=True)
class Region:
    """A part of a program.

    Attributes:
      family: a key of FAMILIES; implementation: the symbol of the kernel, "" where there is none.
      equations: what it computes; of a kernel the equation that it stands for.
      reads, writes: shapes and dtypes of operands and results (work space among them).
      groups: workgroups, 0 where that is not known.
      refused: why it went no faster way.
      inner: of a loop or branch from the host, what it consists of.
    """

    family: str
    implementation: str = ""
    equations: list[Equation] = field(default_factory=list)
    reads: Sequence[Spec] = ()
    writes: Sequence[Spec] = ()
    groups: int = 0
    refused: tuple[Refusal, ...] = ()
    inner: list[Region] = field(default_factory=list)


def _equations_of(e: Equation | None) -> list[Equation]:
    """Of a call that is one kernel what it calls; else e, where there is one."""
    return [] if e is None else list(e.params["jaxpr"].equations) if "rows" in e.params else [e]


class Recorder:
    """Collects regions while a function is emitted."""

    def __init__(self) -> None:
        self.regions: list[Region] = []
        self.count = 0  # of everything told so far
        self.at: Equation | None = None  # whose rule runs
        self._refused: list[Refusal] = []

    def refuse(self, *why: Refusal | None) -> None:
        """Note what was in the way of the equation at hand; the next region has it."""
        self._refused += [r for r in why if r is not None]

    def kernel(self, family: str, implementation: str, equations: Sequence[Equation],
               reads: Sequence[Spec], writes: Sequence[Spec], groups: int = 0) -> None:
        """A dispatch of ours; `equations`: none where it is for the one at hand."""
        mine = list(equations) or _equations_of(self.at)
        self._add(Region(family, implementation, mine, reads, writes, groups,
                         refused=self._taken()))

    def left(self, e: Equation) -> None:
        """An equation as StableHLO: IREE makes dispatches of it and its neighbours."""
        self.count += 1
        last = self.regions[-1] if self.regions else None
        why = self._taken()
        if last is None or last.family != "iree":
            self.regions.append(last := Region("iree"))
        last.equations.append(e)
        last.refused += why

    @contextmanager
    def within(self, family: str, e: Equation) -> Iterator[None]:
        """A loop or a branch that the host runs, around what is told meanwhile."""
        made = Region(family, "", [e], refused=self._taken())
        self._add(made)
        outer, self.regions = self.regions, made.inner
        try:
            yield
        finally:
            self.regions = outer
            self._refused = []

    def _add(self, region: Region) -> None:
        self.count += 1
        self.regions.append(region)

    def _taken(self) -> tuple[Refusal, ...]:
        found, self._refused = tuple(dict.fromkeys(self._refused)), []
        return found
