"""Where the results of loops and branches within a kernel over memory are: in the operands that
they continue, as long as nobody else reads those, so that a table which a loop within a loop fills
is not copied in each step (kernels/tensors).  Start reading at `of_loop`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

from calque.core.program import Equation
from calque.lowering.emit.builder import Value
from calque.lowering.kernels import joined
from calque.lowering.kernels.indexing import Picked
from calque.lowering.kernels.joined import Joined, Part
from calque.lowering.kernels.memory import Memory

IsFree = Callable[[Equation, Memory, int], bool]  # whether an equation may overwrite an operand


def of_loop(e: Equation, args: Sequence[Part], is_free: IsFree) -> list[Memory | None]:
    """For each result of a scan or while the memory that it begins in; None: memory of its own."""
    p = e.params
    first = p["num_consts"] if e.name == "scan" else p["cond_nconsts"] + p["body_nconsts"]
    count = p["num_carry"] if e.name == "scan" else len(e.outputs)
    return [_free(e, args, first + i, is_free) if i < count else None
            for i in range(len(e.outputs))]


def of_branches(e: Equation, args: Sequence[Part], is_free: IsFree) -> list[Memory | None]:
    """For each result of a cond the memory of an operand that a branch returns."""
    found: list[Memory | None] = []
    for i, v in enumerate(e.outputs):
        returned = {p.inputs.index(p.outputs[i]) for p in e.params["branches"]
                    if p.outputs[i] in p.inputs} if v.aval.shape else set()
        homes = (_free(e, args, 1 + k, is_free) for k in sorted(returned))
        found.append(next((h for h in homes if h is not None and not any(
            h is other for other in found)), None))
    return found


def _free(e: Equation, args: Sequence[Part], at: int, is_free: IsFree) -> Memory | None:
    """An operand that e may overwrite, dense, with no other operand in its memory."""
    x = args[at]
    if isinstance(x, Memory) and x.is_dense() and is_free(e, x, at) and not any(
            is_of(y, x) for i, y in enumerate(args) if i != at):
        return x
    return None


def apart(moving: Sequence[tuple[Part, Memory]], owned: Sequence[object],
          temporary: Callable[[Memory | Joined], Memory]) -> list[tuple[Part, Memory]]:
    """(what is written, where), with copies of what lies in memory that is written meanwhile."""
    return [(temporary(x) if not isinstance(x, Value) and any(
        q is r for q in joined.refs(x) for r in owned) else x, m) for x, m in moving]


def is_of(s: Part | Picked, x: Memory) -> bool:
    """Whether a value lies in x's memory, or in part."""
    refs = [m.ref for m in s.arrays] if isinstance(s, Picked) else joined.refs(s)
    return any(r is x.ref for r in refs)
