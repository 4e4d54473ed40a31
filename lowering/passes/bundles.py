"""One kernel of more arrays than a dispatch has bindings for, as several.

A kernel that takes such a program whole gets its arrays joined into few (kernels/shell.bundles):
IREE copies them together and apart, and has its stages to do.  So what hangs together, products of
a list of pairs, is taken together in kernels of as many arrays as fit, likes beside likes, which
share functions; what hangs together altogether, a sum over leaves, is cut where few arrays pass.
Start reading at `in_parts`.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from calque.core.primitive import registry
from calque.core.program import Equation, Program, Var
from calque.lowering.passes import cost
from calque.lowering.passes.remainder import WHOLE

MOST = cost.MOST_BINDINGS - 1  # (and scratch)


def in_parts(p: Program) -> Program | None:
    """A Program without consts as kernels of few arrays each; None where it has few, or an equation
    has more."""
    if len(p.inputs) + len(p.outputs) <= MOST or any(
            e.primitive.has_effects(e.params) for e in p.equations):
        return None
    finder = _Finder(p)
    parts = list(finder.parts())
    if not all(finder.count(part) <= MOST for part in parts):
        return None
    equations = []
    for part in parts:
        inputs, outputs = finder.border(part)
        inner = Program(inputs, part, outputs, name="whole")
        equations.append(Equation(registry["jit"], tuple(inputs), tuple(outputs), {
            "jaxpr": inner, "name": "whole", "rows": WHOLE}, part[0].source, part[0].scope))
    return p.replace(equations=equations)


class _Finder:
    def __init__(self, p: Program) -> None:
        self.p = p
        self.users: dict[Any, list[int]] = {}
        for e in p.equations:
            for a in e.inputs:
                self.users.setdefault(a, []).append(id(e))
        self.results = set(p.outputs)

    def border(self, part: Sequence[Equation]) -> tuple[list[Var], list[Var]]:
        """What a part reads, and what others need of it."""
        mine, made = {id(e) for e in part}, dict.fromkeys(v for e in part for v in e.outputs)
        read = dict.fromkeys(a for e in part for a in e.inputs
                             if isinstance(a, Var) and a not in made)
        return list(read), [v for v in made if v in self.results or any(
            u not in mine for u in self.users.get(v, ()))]

    def count(self, part: Sequence[Equation]) -> int:
        return sum(map(len, self.border(part)))

    def parts(self) -> Iterator[list[Equation]]:
        """Equations of as many arrays as fit."""
        part: list[Equation] = []
        for component in self.components():
            if self.count([*part, *component]) <= MOST:
                part += component
                continue
            if part:
                yield part
                part = []
            if self.count(component) <= MOST:
                part = component
            else:
                *whole, part = self.cut(component)
                yield from whole
        if part:
            yield part

    def cut(self, component: Sequence[Equation]) -> Iterator[list[Equation]]:
        """In their order, each as long as it fits."""
        first = end = 0
        while first < len(component):
            most = min(len(component), first + MOST)  # (a longer one is looked for from there)
            while most < len(component) and self.count(component[first:most]) <= MOST:
                most = min(len(component), most + MOST)
            end = next((k for k in range(most, first + 1, -1)
                        if self.count(component[first:k]) <= MOST), first + 1)
            yield list(component[first:end])
            first = end

    def components(self) -> list[list[Equation]]:
        """Equations that make what others of them read, in order; likes beside likes."""
        owner: dict[Var, list[Equation]] = {}
        found: dict[int, list[Equation]] = {}
        for e in self.p.equations:
            before = {id(owner[a]): owner[a] for a in e.inputs if a in owner}
            mine = max(before.values(), key=len, default=[])
            for other in before.values():
                if other is not mine:
                    mine += other
                    owner.update(dict.fromkeys((v for o in other for v in o.outputs), mine))
                    del found[id(other)]
            mine.append(e)
            found[id(mine)] = mine
            owner.update(dict.fromkeys(e.outputs, mine))
        place = {id(e): k for k, e in enumerate(self.p.equations)}
        alike: dict[Any, list[list[Equation]]] = {}
        for component in found.values():
            component.sort(key=lambda e: place[id(e)])
            alike.setdefault(tuple(map(_kind, component)), []).append(component)
        return [c for some in alike.values() for c in some]


def _kind(e: Equation) -> Any:
    return (e.name, e.params_key,
            tuple((a.aval.shape, a.aval.dtype) for a in (*e.inputs, *e.outputs)))
