"""Parts of lowering that can be left out by name: CALQUE_OFF=rows,moves.

For finding faults (docs/debugging.md), and for what each part is worth (benchmarks/ways.py).  Read
once: what is compiled in a process is compiled in one way.
"""
from __future__ import annotations

import os

from calque.core.config import is_off
from calque.core.errors import explain

SWITCHES = {
    "program": "small programs as one kernel",
    "words": "small programs that draw, or look for extrema, as one kernel",
    "pairs": "programs of complex numbers as kernels on their parts",
    "reroll": "loops that Python wrote out, as loops",
    "registers": "loops in registers, but for those over elements",
    "memory": "loops over memory",
    "rows": "reductions with what is around them as one kernel",
    "picks": "rows that a gather picks read where they are",
    "attention": "products of what is computed of rows of products, without a square matrix",
    "lists": "the same elementwise work on many arrays as one kernel",
    "points": "work on rows of few numbers in registers",
    "uneven": "elementwise work of sizes that IREE does not cut into vectors as one kernel",
    "chains": "long elementwise chains as one kernel",
    "remainder": "what is left to IREE as kernels, where then nothing is left",
    "components": "points taken apart into coordinates",
    "repeats": "numbers that layers differ by, given at run time",
    "planes": "coordinates first in loops over memory",
    "panels": "matrices laid out for the products of a loop",
    "workgroups": "loops over memory shared among workgroups",
    "accumulate": "sums over steps taken behind a loop",
    "products": "products by the kernel in C",
    "direct": "products read as they lie, without packing",
    "vectors": "a matrix times a vector in C",
    "sums": "products with a vector for each of a batch as sums",
    "halves": "float32 times a matrix of halves, widened as it is read",
    "convolutions": "convolutions in C",
    "sparse": "rows gathered, multiplied and added up by the kernel in C",
    "paddings": "sums of padded arrays as joined sums of parts",
    "moves": "large joins, rows picked, axes turned round by a kernel",
}
_ELSEWHERE = ("numpy", "plans", "kernels")  # docs/debugging.md
_UNKNOWN = sorted(set(os.environ.get("CALQUE_OFF", "").split(",")) - {"", *_ELSEWHERE, *SWITCHES})
if _UNKNOWN:
    raise ValueError(explain(f"CALQUE_OFF names {', '.join(_UNKNOWN)}, which is no part of calque.",
                             fix=f"name some of {', '.join((*_ELSEWHERE, *SWITCHES))}."))
_OFF = frozenset(name for name in SWITCHES if is_off(name))


def off(part: str) -> bool:
    """Whether a part is left out."""
    assert part in SWITCHES, part
    return part in _OFF
