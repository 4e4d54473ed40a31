"""Equations that a target, or a size that is known at the call only, does not let be lowered."""
from __future__ import annotations

import numpy as np

from calque.core.dims import Dim
from calque.core.errors import InconclusiveDimensionOperation, explain
from calque.core.program import Equation
from calque.lowering.emit.dtypes import F64, I64
from calque.lowering.rules import physical
from calque.lowering.target.targets import Target


def check_widths(e: Equation, target: Target | None) -> None:
    """Refuse numbers that the target does not have, by name."""
    for a in (*[x.aval for x in e.inputs], *[v.aval for v in e.outputs]):
        dtype = physical(a).dtype
        if target is not None and target.lacks(dtype):
            half = np.dtype(f"{dtype.kind}{dtype.itemsize // 2}").name
            what = "floats" if not target.lacks(I64) else (
                "numbers" if target.lacks(F64) else "integers")
            raise NotImplementedError(explain(
                f"{e.name} of {a.str_short()}: {target.name} has no {what} of 64 bits.",
                where=str(e.source),
                fix=f"compute in {half} (x.astype({half!r})), or compile for a device that has "
                "them."))


def undecided(e: Equation, error: Exception) -> Exception:
    """The error for a primitive that needs to know a size."""
    first = str(error).splitlines()[0]
    sizes = [str(d) for a in (*e.inputs, *e.outputs) for d in a.aval.shape if isinstance(d, Dim)]
    operands = ", ".join(a.aval.str_short() for a in e.inputs)
    if sizes and not first.startswith("Encountered"):
        first = (f"{e.name} of {operands} needs to know "
                 f"{', '.join(dict.fromkeys(sizes))}: {first}")
    made = InconclusiveDimensionOperation(explain(
        first, where=str(e.source),
        fix="give a number for that dimension, or a constraint that decides it."))
    made.located = True  # type: ignore[attr-defined]
    return made
