"""Donation: whose memory a program can use for its results, and what is said of the rest.

As in JAX: an argument is given away where a result of as many bytes is left for it; one that no
result can use is warned of when the program is compiled, and stays alive.  What a program does not
look at is neither.  Start reading at `usable`.
"""
from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.dims import is_static
from calque.core.errors import explain
from calque.core.program import Program, eliminate_dead_code
from calque.runtime.errors import DeviceError


def read_of(p: Program, donated: Sequence[int]) -> list[int]:
    """The donated arguments that the results need."""
    if not donated:
        return []
    used = eliminate_dead_code(p).used()
    return [i for i in donated if p.inputs[i] in used]


def usable(ins: Sequence[ShapedArray], outs: Sequence[ShapedArray], donated: Sequence[int]
           ) -> tuple[int, ...]:
    """Those of the donated arguments whose memory a result takes: of equal type first, then of
    equal size."""
    free = list(range(len(outs)))
    taken: set[int] = set()
    for size_of in (_type, _bytes):
        for i in donated:
            want = size_of(ins[i])
            found = next((k for k in free if want is not None and size_of(outs[k]) == want), None)
            if i not in taken and found is not None:
                free.remove(found)
                taken.add(i)
    return tuple(i for i in donated if i in taken)


def _type(a: ShapedArray) -> Any:
    return a.shape, a.dtype


def _bytes(a: ShapedArray) -> Any:
    return a.nbytes if is_static(a.shape) else None


def warn(avals: Sequence[ShapedArray]) -> None:
    """Say which donated arguments no result can use."""
    warnings.warn(
        f"Some donated buffers were not usable: {', '.join(map(_written, avals))}.\n"
        "See an explanation at https://docs.jax.dev/en/latest/faq.html#buffer-donation.",
        stacklevel=2)


def _written(a: ShapedArray) -> str:
    return f"{a.dtype.name}[{','.join(map(str, a.shape))}]"


def check(name: str, buffers: Sequence[Any], given: Sequence[int]) -> None:
    """DeviceError where a buffer that is given away is another argument, too."""
    if not given or len(set(map(id, buffers))) == len(buffers):
        return
    for i in given:
        for k, b in enumerate(buffers):
            if k == i or b is not buffers[i]:
                continue
            if k in given:
                what, toy = "donate the same buffer twice", "f(donate(a), donate(a))"
            elif i < k:
                what, toy = "use a buffer that was previously donated", "f(donate(a), a)"
            else:
                what, toy = "donate a buffer which is also used", "f(a, donate(a))"
            raise DeviceError(explain(
                f"INVALID_ARGUMENT: Attempt to {what} in the same call to Execute() of {name} "
                f"(flattened arguments {min(i, k)} and {max(i, k)}). Toy example for this bug: "
                f"`{toy}`.", fix="pass a copy of it: f(x, x.copy())."))


__all__ = ["check", "read_of", "usable", "warn"]
