"""How a compiled program is called: what the compiler decides and the runtime needs to know.

Lowering makes a CallSpec, Executable takes it, and an artifact's record holds it as JSON, which the
C++ library reads by the same names (cpp/src/artifact/record.cc).
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.runtime.buffer import Shape
from calque.runtime.dims import Expression, parse
from calque.runtime.pending import SLAB

Spec = tuple[Shape, np.dtype[Any]]
UNKNOWN_BYTES = SLAB  # which is reserved where transient_bytes is not known


@dataclass(frozen=True, slots=True)
class CallSpec:
    """How to call a compiled program; positions count its own arguments and results.

    Attributes:
      results: shape and dtype of every result, None for one whose size is known at the call only;
        None: not known of any.  A record says it of each result, so it is not in the JSON.
      run_inline: run inside the call, on the caller's thread, when all arguments are ready; other
        calls are queued.
      must_run_inline: never queue it: wait for the arguments.
      work, inline_below: where run_inline depends on sizes: the element operations as an expression
        of them, and below how many a call runs inline.
      donated: arguments that the program may overwrite.  A record says it of the function's
        arguments, so it is not in the JSON.
      may_alias: results that may be an argument's own memory, or another result's (a reshape, a
        loop that runs zero times), each with the positions of those: k of an argument, -1 - k of a
        result; None where that is not known: all are looked at.  It is not in the JSON, because a
        file that lies about it would have memory overwritten.
      output_buffers: results that the program writes into memory given by the caller, as extra
        arguments after the others: their pages are then reused from call to call (fresh pages cost
        more than the arithmetic), and local-task's own pool loses memory (runtime/pending).
      transient_bytes: what a queued call may take from that pool, for what is in between.
      transients: the program works in memory given by the caller, too, as its last argument; how
        much it takes, the compiler has written beside the record (executable.storage_bytes).

    Example:
      >>> from calque import runtime
      >>> runtime.CallSpec(run_inline=True).to_json()["run_inline"]
      True
    """

    results: Sequence[Spec | None] | None = None
    run_inline: bool = False
    must_run_inline: bool = False
    work: Expression | None = None
    inline_below: int = 0
    donated: tuple[int, ...] = ()
    may_alias: Mapping[int, Sequence[int]] | None = None
    output_buffers: tuple[int, ...] = ()
    transient_bytes: int = UNKNOWN_BYTES
    transients: bool = False

    def runs_inline(self, sizes: Mapping[str, int]) -> bool:
        """Whether a call with these sizes runs inline."""
        if self.work is None:
            return self.run_inline
        try:
            return self.work.evaluate(sizes) < self.inline_below
        except ZeroDivisionError:
            return self.run_inline

    def to_json(self) -> dict[str, Any]:
        """What a record holds of it."""
        made: dict[str, Any] = {
            "run_inline": self.run_inline, "must_run_inline": self.must_run_inline,
            "output_buffers": list(self.output_buffers), "transient_bytes": self.transient_bytes}
        if self.transients:
            made["transients"] = True
        if self.work is not None:
            made |= {"work": str(self.work), "inline_below": self.inline_below}
        return made

    @classmethod
    def from_json(cls, raw: Mapping[str, Any], results: Sequence[Spec | None],
                  donated: tuple[int, ...]) -> CallSpec:
        """That of a record; TypeError or ValueError where it holds something else."""
        return cls(
            results, bool(raw.get("run_inline", False)), bool(raw.get("must_run_inline", False)),
            parse(str(raw["work"])) if "work" in raw else None,
            as_count(raw.get("inline_below", 0)), donated,
            output_buffers=tuple(map(as_count, raw.get("output_buffers", ()))),
            transient_bytes=as_count(raw.get("transient_bytes", UNKNOWN_BYTES)),
            transients=bool(raw.get("transients", False)))


def as_count(value: Any) -> int:
    """A position or a size of a record; ValueError if it is none."""
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no position and no size")
    return value
