"""Numbers that are all that layers differ by: `tanh(x @ x) + 1`, then `tanh(x @ x) + 2`, ...

IREE compiles equal dispatches once, and writes a number that is known into the code: a hundred such
layers are a hundred kernels (7 s to compile; 1 s where the number is given to one kernel at each of
its runs).  What stands between two operations that are no element's own counts as a layer.

A dispatch is given 64 words at most, sizes and offsets among them, or its program is not loaded,
and IREE may fuse any layers (a sum over one element is elementwise to it): so nothing is fused
across `Given.cuts`, between which there are `WORDS`.  Start reading at `numbers`.  Imports core
only.
"""
from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import numpy as np

from calque.core.dims import is_static
from calque.core.program import Equation, Literal, Program

LEAST = 8  # layers with numbers of their own from which on it pays
WORDS = 16  # of 32 bits, that a dispatch is given
_WHERE = frozenset(("add", "sub", "mul", "div", "max", "min"))  # forms that ask for no value
_DTYPES = frozenset(map(np.dtype, ("f4", "f8", "i4", "i8")))


@dataclass(frozen=True, slots=True)
class Given:
    """What a Program's dispatches are given.

    Attributes:
      operands: equation -> the operand that is a number known at run time only.
      cuts: equations before which no fusion goes on.
    """

    operands: dict[int, int]
    cuts: frozenset[int]


NOTHING = Given({}, frozenset())


def numbers(p: Program) -> Given:
    """The numbers by which layers of a Program differ."""
    return p.derived("numbers", lambda: _numbers(p))


def _numbers(p: Program) -> Given:
    found: dict[Hashable, list[tuple[int, int, int]]] = defaultdict(list)
    values: dict[Hashable, set[bytes]] = defaultdict(set)
    layers: dict[Hashable, set[int]] = defaultdict(set)
    starts = [0]
    key: Hashable
    for i, e in enumerate(p.equations):
        if not (e.primitive.elementwise or e.primitive.moves):
            starts.append(i)
        for at, literal in _candidates(e):
            layer = len(starts) - 1
            key = e.name, at, e.outputs[0].aval.shape, literal.aval.dtype
            found[key].append((layer, i, at))
            values[key].add(np.asarray(literal.value, literal.aval.dtype).tobytes())
            layers[key].add(layer)
    taken: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for key, places in found.items():
        if min(len(values[key]), len(layers[key])) >= LEAST:
            for layer, i, at in places:
                taken[layer].append((i, at))
    operands: dict[int, int] = {}
    cuts: set[int] = set()
    given = 0
    for layer in sorted(taken):
        words = sum(p.equations[i].inputs[at].aval.dtype.itemsize // 4 for i, at in taken[layer])
        if words > WORDS:
            continue
        if given + words > WORDS:
            cuts.add(starts[layer])
            given = 0
        given += words
        operands.update(taken[layer])
    return Given(operands, frozenset(cuts))


def _candidates(e: Equation) -> Iterator[tuple[int, Literal]]:
    if e.name in _WHERE and is_static(shape := e.outputs[0].aval.shape) and (
            math.prod(shape) > 1):
        for at in range(2):
            number, other = e.inputs[at], e.inputs[1 - at]
            if isinstance(number, Literal) and not isinstance(other, Literal) and (
                    number.aval.dtype in _DTYPES and other.aval.shape == shape):
                yield at, number
