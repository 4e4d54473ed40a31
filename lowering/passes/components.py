"""Points taken apart into their coordinates: arrays whose last axis has few elements.

All pairs of N points make arrays (N, N, 3), along whose last axis vectors are 3 long, and which no
group over rows takes (passes/rows.SHORTEST).  What is computed of them element by element, or sums
them up, is written here with an array (N, N) for each component; the small arrays that enter are
cut, those that leave are joined.  Large ones would cost more to cut than is won: then nothing
happens.  Start reading at `split_components`, then `_Region.pays`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.dims import guess
from calque.core.primitive import registry
from calque.core.program import Atom, Equation, Program, Var
from calque.core.types import Params, Shape
from calque.lowering.emit.dtypes import HALVES
from calque.lowering.passes.rows import VIEWS, is_elementwise, is_fold

MOST = 4  # components
LEAST = 1 << 14  # elements of the largest array
RATIO = 8  # of the largest array to all that are cut and joined
MOST_EQUATIONS = 100  # that are written MOST times
JOINS = {"reduce_sum": "add", "reduce_prod": "mul", "reduce_max": "max", "reduce_min": "min",
         "reduce_and": "and", "reduce_or": "or", "reduce_xor": "xor"}


def split_components(p: Program) -> Program:
    """p with points taken apart where that pays."""
    for k in range(2, MOST + 1):
        if any(v.aval.shape[-1:] == (k,) and guess(v.aval.size) >= LEAST
               for e in p.equations for v in e.outputs):
            p = _split_components(p, k)
    return p


def _split_components(p: Program, k: int) -> Program:
    regions = [r for r in _regions(p, k) if r.pays(p)]
    if not regions:
        return p
    member = {id(e): r for r in regions for e in r.members}
    equations: list[Equation] = []
    for e in p.equations:
        if id(e) in member:
            member[id(e)].write(e, equations)
        else:
            equations.append(e)
    return p.replace(equations=equations)


def _regions(p: Program, k: int) -> list[_Region]:
    """The equations over points that hang together."""
    found: dict[Var, _Region] = {}
    for e in p.equations:
        if not _has_component_form(e, k):
            continue
        region = _Region(k)
        wide = [a for a in (*e.inputs, *e.outputs) if isinstance(a, Var) and _is_wide(a, k)]
        for other in {id(found[a]): found[a] for a in wide if a in found}.values():
            region.members += other.members
            region.wide += other.wide
        region.members.append(e)
        region.wide += wide
        found.update(dict.fromkeys(region.wide, region))
    return list({id(r): r for r in found.values()}.values())


def _is_wide(a: Atom, k: int) -> bool:
    return a.aval.shape[-1:] == (k,)


def _has_component_form(e: Equation, k: int) -> bool:
    """Whether an equation can be written component by component."""
    name, x = e.name, e.inputs[0] if e.inputs else None
    if x is None or len(e.outputs) != 1 or e.is_dynamic:
        return False
    out = e.outputs[0]
    if name in JOINS:
        return _is_wide(x, k) and not (
            x.aval.dtype in HALVES and x.aval.ndim - 1 in e.params["axes"])  # (summed in f32)
    if not _is_wide(out, k):
        return False
    if is_elementwise(e):
        return all(a.aval.shape in ((), out.aval.shape) for a in e.inputs)
    if name == "broadcast_in_dim":
        return True
    if not _is_wide(x, k) or name not in ("squeeze", "reshape", "transpose"):
        return False
    return name != "transpose" or e.params["permutation"][-1] == x.aval.ndim - 1


class _Region:
    """Equations over arrays of points that read and make each other's."""

    def __init__(self, k: int) -> None:
        self.k, self.members, self.wide = k, list[Equation](), list[Var]()
        self.leaving: set[Var] = set()
        self.parts: dict[Var, list[Atom]] = {}
        self.equations: list[Equation] = []  # where `write` puts what it makes
        self.at: Equation  # what is written

    def pays(self, p: Program) -> bool:
        """Whether what is cut and joined is little beside what is computed."""
        inside = {id(e) for e in self.members}
        made = {v for e in self.members for v in e.outputs if _is_wide(v, self.k)}
        self.leaving = made & {a for e in p.equations if id(e) not in inside for a in e.inputs
                               if isinstance(a, Var)} | made & {
                                   o for o in p.outputs if isinstance(o, Var)}
        border = {v for v in self.wide if v not in made} | self.leaving
        largest = max((v.aval.size for v in made), default=0)
        return largest >= LEAST and len(self.members) <= MOST_EQUATIONS and (
            RATIO * sum(v.aval.size for v in border) <= largest) and self.is_folded(p, inside)

    def is_folded(self, p: Program, inside: set[int]) -> bool:
        """Whether all that is large ends in folds: only then rows are groups."""
        users: dict[Atom, list[Equation]] = {}
        for e in p.equations:
            for a in e.inputs:
                users.setdefault(a, []).append(e)
        waiting = [v for e in self.members for v in e.outputs if not _is_wide(v, self.k)]
        seen = set[Atom]()
        while waiting:
            v = waiting.pop()
            if v in seen or v.aval.size < LEAST:
                continue
            seen.add(v)
            if v in p.outputs:
                return False
            for e in users.get(v, ()):
                if is_fold(e.primitive) or id(e) in inside:
                    continue
                if not is_elementwise(e) and e.name not in VIEWS:
                    return False
                waiting += e.outputs
        return True

    # ---- writing
    def write(self, e: Equation, to: list[Equation]) -> None:
        """An equation, component by component."""
        self.equations, self.at = to, e
        name, (out,) = e.name, e.outputs
        if name in JOINS:
            self.fold(e, out)
        elif name == "broadcast_in_dim":
            self.parts[out] = self.broadcast(e, out)
        else:
            given = [self.taken(a) for a in e.inputs]
            made: dict[Any, Atom] = {}
            for each in zip(*given):
                if each not in made:
                    made[each] = self.one(e, each, out)
            self.parts[out] = [made[each] for each in zip(*given)]
        if out in self.leaving and out in self.parts:  # (a sum of the components is whole)
            self.joined(out)

    def one(self, e: Equation, given: Sequence[Atom], out: Var) -> Atom:
        """A component of an elementwise equation or of a view."""
        name, shape, params = e.name, out.aval.shape[:-1], e.params
        if name == "transpose":
            if len(shape) < 2:
                return given[0]
            params = {**params, "permutation": params["permutation"][:-1]}
        elif name in ("squeeze", "reshape"):
            return self.reshaped(given[0], shape)
        return self.make(name, given, out.aval, shape, params)

    def broadcast(self, e: Equation, out: Var) -> list[Atom]:
        x, to, last = e.inputs[0], e.params["broadcast_dimensions"], out.aval.ndim - 1
        ends = last in to  # always the operand's last axis: positions rise
        if ends and x.aval.shape[-1] != 1:
            given = self.taken(x)
        else:
            given = [self.reshaped(x, x.aval.shape[:-1]) if ends else x] * self.k
        params = {**e.params, "shape": out.aval.shape[:-1],
                  "broadcast_dimensions": to[:-1] if ends else to}
        made = {a: self.make("broadcast_in_dim", [a], out.aval, out.aval.shape[:-1], params)
                for a in dict.fromkeys(given)}
        return [made[a] for a in given]

    def fold(self, e: Equation, out: Var) -> None:
        x = e.inputs[0]
        given, axes = self.taken(x), e.params["axes"]
        rest = tuple(i for i in axes if i != x.aval.ndim - 1)
        params = {**e.params, "axes": rest}
        if len(rest) == len(axes):
            made = {a: self.make(e.name, [a], out.aval, out.aval.shape[:-1], params)
                    for a in dict.fromkeys(given)}
            self.parts[out] = [made[a] for a in given]
            return
        total = given[0]
        for i, a in enumerate(given[1:], 2):
            target = out if not rest and i == self.k else None
            total = self.make(JOINS[e.name], [total, a], x.aval, x.aval.shape[:-1], {},
                              target)
        if rest:
            self.make(e.name, [total], out.aval, out.aval.shape, params, out)

    def taken(self, a: Atom) -> list[Atom]:
        """The components of an operand."""
        if not isinstance(a, Var) or not a.aval.shape:
            return [a] * self.k
        if a not in self.parts:
            shape = a.aval.shape
            self.parts[a] = []
            for i in range(self.k):
                cut = self.make("slice", [a], a.aval, (*shape[:-1], 1), {
                    "start_indices": (0,) * (len(shape) - 1) + (i,),
                    "limit_indices": (*shape[:-1], i + 1), "strides": None})
                self.parts[a].append(self.reshaped(cut, shape[:-1]))
        return self.parts[a]

    def joined(self, out: Var) -> None:
        """What others read as one array."""
        shape = (*out.aval.shape[:-1], 1)
        columns = [self.reshaped(a, shape) for a in self.parts[out]]
        self.make("concatenate", columns, out.aval, out.aval.shape,
                  {"dimension": len(shape) - 1}, out)

    def reshaped(self, a: Atom, shape: Shape) -> Atom:
        return a if a.aval.shape == shape else self.make("reshape", [a], a.aval, shape, {
            "new_sizes": shape, "dimensions": None, "sharding": None})

    def make(self, name: str, given: Sequence[Atom], like: ShapedArray, shape: Shape,
             params: Params, out: Var | None = None) -> Var:
        out = Var(like.update(shape=shape)) if out is None else out
        self.equations.append(Equation(registry[name], tuple(given), (out,), params,
                                       self.at.source, self.at.scope))
        return out
