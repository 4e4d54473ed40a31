"""Numbers that are all that layers differ by: `tanh(x @ x) + 1`, then `tanh(x @ x) + 2`, ...

IREE compiles equal dispatches once, and writes a number that is known into the code: a hundred such
layers are a hundred kernels (7 s to compile; 1 s where the number is given to one kernel at each of
its runs).  A stretch between two operations that no loop goes across counts as a layer.  Start
reading at `numbers`.  Imports core only.
"""
from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterator

import numpy as np

from calque.core.dims import is_static
from calque.core.program import Equation, Literal, Program

LEAST = 8  # layers with numbers of their own from which on it pays
MOST = 8  # numbers of one layer: a dispatch takes so many words only
_WHERE = frozenset(("add", "sub", "mul", "div", "max", "min"))  # forms that ask for no value
_DTYPES = frozenset(map(np.dtype, ("f4", "f8", "i4", "i8")))


def numbers(p: Program) -> dict[int, int]:
    """Equation -> operand, of each number that is to be known at run time only."""
    return p.derived("numbers", lambda: _numbers(p))


def _numbers(p: Program) -> dict[int, int]:
    found: dict[Hashable, list[tuple[int, int, int]]] = defaultdict(list)
    values: dict[Hashable, set[bytes]] = defaultdict(set)
    layers: dict[Hashable, set[int]] = defaultdict(set)
    layer = 0
    key: Hashable
    for i, e in enumerate(p.equations):
        if not (e.primitive.elementwise or e.primitive.moves):
            layer += 1
        for at, literal in _candidates(e):
            key = e.primitive.name, at, e.outputs[0].aval.shape, literal.aval.dtype
            found[key].append((layer, i, at))
            values[key].add(np.asarray(literal.value, literal.aval.dtype).tobytes())
            layers[key].add(layer)
    taken: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for key, places in found.items():
        if min(len(values[key]), len(layers[key])) >= LEAST:
            for layer, i, at in places:
                taken[layer].append((i, at))
    return dict(place for places in taken.values() if len(places) <= MOST for place in places)


def _candidates(e: Equation) -> Iterator[tuple[int, Literal]]:
    if e.primitive.name in _WHERE and is_static(shape := e.outputs[0].aval.shape) and (
            math.prod(shape) > 1):
        for at in range(2):
            number, other = e.inputs[at], e.inputs[1 - at]
            if isinstance(number, Literal) and not isinstance(other, Literal) and (
                    number.aval.dtype in _DTYPES and other.aval.shape == shape):
                yield at, number
