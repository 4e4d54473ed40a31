"""Messages between processes taken together: sums that do not wait for each other are one message.

A message goes as late as it can, when the first other one needs what it brings, so that all
others that are ready by then go with it.  It carries up to 32 MiB; a program with effects keeps
its order.  Start reading at `combined`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core.dims import guess
from calque.core.program import Atom, Equation, Program

MOST_BYTES = 32 << 20


def combined(p: Program) -> Program:
    """p, and the Programs that it holds, with sums over processes taken together."""
    return p.derived("messages", lambda: _combined(p)) if sends(p) else p


def sends(p: Program) -> bool:
    """Whether a program, or one that it holds, sends messages."""
    return any(name.startswith("message_") for name in p.names())


def _combined(p: Program) -> Program:
    equations = [e.with_inner(combined) for e in p.equations]
    if sum(e.name == "message_reduce" for e in equations) > 1 and not any(
            e.primitive.has_effects(e.params) for e in equations):
        equations = _ordered(equations)
    return p.replace(equations=equations)


def _heights(equations: Sequence[Equation]) -> dict[int, int]:
    """How many messages wait for each message, one after the other."""
    below: dict[Atom, int] = {}
    found = {}
    for i in reversed(range(len(equations))):
        e = equations[i]
        height = max((below.get(v, 0) for v in e.outputs), default=0)
        if e.name == "message_reduce":
            found[id(e)] = height
            height += 1
        for a in e.inputs:
            below[a] = max(below.get(a, 0), height)
    return found


def _ordered(equations: Sequence[Equation]) -> list[Equation]:
    """Rounds of what needs no message, and then of the messages that most others wait for."""
    heights = _heights(equations)
    made: list[Equation] = []
    left = list(equations)
    for height in range(max(heights.values()), -1, -1):
        waiting: set[Atom] = set()  # results of messages, and what depends on them
        ready: list[Equation] = []
        later: list[Equation] = []
        for e in left:
            mine = heights.get(id(e))
            if mine is None and not any(a in waiting for a in e.inputs):
                made.append(e)
                continue
            (ready if mine == height else later).append(e)
            waiting.update(e.outputs)
        made += _joined(ready)
        left = later
    return [*made, *left]


def _joined(messages: Sequence[Equation]) -> list[Equation]:
    """As few messages as the limit allows, each of one kind."""
    kinds: dict[Any, list[list[Equation]]] = {}
    for e in messages:
        key = (e.params["axes"], e.params["op"], e.inputs[0].aval.dtype)
        groups = kinds.setdefault(key, [[]])
        if groups[-1] and _size([*groups[-1], e]) > MOST_BYTES:
            groups.append([])
        groups[-1].append(e)
    return [_one(group) for groups in kinds.values() for group in groups]


def _size(messages: Sequence[Equation]) -> int:
    return sum(guess(a.aval.nbytes) for e in messages for a in e.inputs)


def _one(messages: Sequence[Equation]) -> Equation:
    if len(messages) == 1:
        return messages[0]
    return messages[0].replace(inputs=tuple(a for e in messages for a in e.inputs),
                               outputs=tuple(v for e in messages for v in e.outputs))


__all__ = ["combined", "sends"]
