"""Sums of padded arrays, as sums of parts that are joined: derivatives of differences along an
axis, of stencils made of slices, of what is split.

`jnp.diff(x)` gives x its derivative as `pad(-d, right) + pad(d, left)`: two arrays of x's size are
written and read again.  Between the places at which paddings end, each part of the sum is one of
slices; parts are joined, and kernels write them where they belong (passes/assembled).  What is
cheap and needed for nothing else is computed in the parts, too.  Paddings along other axes are
taken within the parts, one axis after the other.  Start reading at `with_paddings_joined`.
"""
from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

from calque.core.avals import ShapedArray
from calque.core.primitive import registry
from calque.core.program import Atom, Equation, Literal, Program, Var, eliminate_dead_code
from calque.lowering.passes import cost, loops
from calque.lowering.passes.replacement import Replacement
from calque.lowering.plan.switches import off

LEAST = 1 << 14  # elements of a result
SUMS = frozenset(("add", "add_any", "sub"))
MOST = 24  # equations of a part
THIN = 4  # parts of less than LEAST elements


def with_paddings_joined(p: Program) -> Program:
    """p with such sums written so, at any depth, but for loops that are kernels."""
    return p if off("paddings") or "pad" not in p.names() else p.derived(
        "paddings joined", lambda: _with_paddings_joined(p))


def _with_paddings_joined(p: Program) -> Program:
    makers = {v: e for e in p.equations for v in e.outputs}
    users: dict[Atom, list[Equation]] = {}
    for e in p.equations:
        for a in e.inputs:
            users.setdefault(a, []).append(e)
    for o in p.outputs:
        users.setdefault(o, []).append(_RESULT)
    equations = list[Equation]()
    for e in p.equations:
        of = [u for o in e.outputs for u in users.get(o, ())]  # (a callback may have no results)
        tree = None if len(of) == 1 and of[0].name in SUMS else _Sum.of(e, makers, users)
        if tree is not None:
            equations += tree.written()
        else:
            equations.append(e if cost.is_kernel(e) else e.with_inner(with_paddings_joined))
    if len(equations) == len(p.equations) and all(map(operator.is_, equations, p.equations)):
        return p
    made = eliminate_dead_code(p.replace(equations=equations))
    return _with_paddings_joined(made) if len(equations) > len(p.equations) else made


_RESULT = Equation(registry["copy"], (), (), {})  # who uses what a program gives


@dataclass
class _Sum:
    """A sum along whose axis arrays of zeros and parts of others lie, and where these end."""

    e: Equation
    axis: int
    cuts: list[int]
    makers: dict[Var, Equation]
    own: set[int]  # the equations (by id) that only the sum needs

    @classmethod
    def of(cls, e: Equation, makers: dict[Var, Equation], users: dict[Atom, list[Equation]]
           ) -> _Sum | None:
        """The sum that ends with an equation; None where no padding in it pays."""
        if e.name not in SUMS or e.is_dynamic:
            return None
        out = e.outputs[0].aval
        if out.size < LEAST or out.dtype not in loops.DTYPES:
            return None
        found = cls(e, -1, [], makers, set())
        edges, waiting = dict[int, set[int]](), [e]
        while waiting:
            q = waiting.pop()
            found.own.add(id(q))
            for a in q.inputs:
                maker = makers.get(a) if isinstance(a, Var) else None
                if maker is None or len(users[a]) > 1 or a.aval.shape != out.shape:
                    continue
                if maker.name in SUMS:
                    waiting.append(maker)
                elif maker.name == "pad" and (ends := _ends(maker)) is not None:
                    axis, low, high = ends
                    edges.setdefault(axis, {0, out.shape[axis]}).update(
                        (low, out.shape[axis] - high))
                    found.own.add(id(maker))
                    found._take(maker.inputs[0], users)
        if not edges:
            return None
        found.axis = min(edges)
        found.cuts = sorted(edges[found.axis])
        each = out.size // out.shape[found.axis]
        thin = [n for n in map(int.__sub__, found.cuts[1:], found.cuts) if n * each < LEAST]
        return found if len(thin) <= THIN and len(found.cuts) > 2 else None

    def _take(self, a: Atom, users: dict[Atom, list[Equation]]) -> None:
        """Note what is computed of a padded array, and for nothing else."""
        waiting, taken = [a], list[Equation]()
        while waiting and len(taken) < MOST:
            a = waiting.pop()
            e = self.makers.get(a) if isinstance(a, Var) else None
            if e is None or id(e) in self.own or e.is_dynamic:
                continue
            slices = e.name == "slice" and set(e.params["strides"] or (1,)) == {1}
            fills = e.name == "broadcast_in_dim" and not e.inputs[0].aval.shape
            cheap = loops.is_map(e) and e.weight <= 2 and all(
                b.aval.shape in ((), a.aval.shape) for b in e.inputs)
            if (slices or fills or cheap) and all(
                    id(u) in self.own for u in users[a]):
                self.own.add(id(e))
                taken.append(e)
                waiting += e.inputs

    def written(self) -> list[Equation]:
        made = Replacement(self.e)
        parts = [self._part(made, self.e.outputs[0], begin, end, {})
                 for begin, end in zip(self.cuts, self.cuts[1:])]
        out = self.e.outputs[0].aval
        made.emit("concatenate", parts, out.shape, out.dtype, dimension=self.axis)
        return [*made.made[:-1], made.made[-1].replace(outputs=self.e.outputs)]

    def _part(self, made: Replacement, a: Atom, begin: int, end: int,
              known: dict[tuple[Atom, int], Atom]) -> Atom:
        """An array's part along the axis."""
        if isinstance(a, Literal) or not a.aval.shape:
            return a
        if (a, begin) not in known:
            known[a, begin] = self._written(made, a, begin, end, known)
        return known[a, begin]

    def _written(self, made: Replacement, a: Atom, begin: int, end: int,
                 known: dict[tuple[Atom, int], Atom]) -> Atom:
        axis, shape = self.axis, list(a.aval.shape)
        shape[axis] = end - begin
        e = self.makers.get(a) if isinstance(a, Var) else None
        if e is not None and id(e) not in self.own:
            e = None
        if e is not None and e.name == "pad" and _ends(e)[0] != axis:  # type: ignore[index]
            x = self._part(made, e.inputs[0], begin, end, known)
            return made.emit("pad", [x, e.inputs[1]], shape, a.aval.dtype, **e.params)
        if e is not None and e.name == "pad":
            low, _, _ = e.params["padding_config"][axis]
            n = e.inputs[0].aval.shape[axis]
            if begin >= low + n or end <= low:
                return made.spread(e.inputs[1], shape, ())
            return self._part(made, e.inputs[0], begin - low, end - low, known)
        if e is not None and e.name == "broadcast_in_dim":
            return made.spread(e.inputs[0], shape, ())
        starts = [0] * a.aval.ndim
        limits = list(a.aval.shape)
        starts[axis], limits[axis] = begin, end
        if e is not None and e.name == "slice":
            a, first = e.inputs[0], e.params["start_indices"]
            starts = [i + k for i, k in zip(starts, first)]
            limits = [i + k for i, k in zip(limits, first)]
        elif e is not None:
            inputs = [self._part(made, b, begin, end, known) for b in e.inputs]
            v = Var(ShapedArray(tuple(shape), e.outputs[0].aval.dtype))
            made.made.append(e.replace(inputs=tuple(inputs), outputs=(v,)))
            return v
        if limits == list(a.aval.shape) and not any(starts):
            return a
        return made.emit("slice", [a], shape, a.aval.dtype, start_indices=tuple(starts),
                         limit_indices=tuple(limits), strides=None)


def _ends(e: Equation) -> tuple[int, int, int] | None:
    """(axis, zeros before, zeros behind) of a padding with zeros along one axis."""
    config: Sequence[tuple[int, int, int]] = e.params["padding_config"]
    axes = [i for i, c in enumerate(config) if c != (0, 0, 0)]
    value = e.inputs[1]
    if len(axes) != 1 or e.is_dynamic or not isinstance(value, Literal) or value.value != 0:
        return None
    low, high, inside = config[axes[0]]
    return None if min(low, high) < 0 or inside or not e.inputs[0].aval.size else (
        axes[0], low, high)


__all__ = ["with_paddings_joined"]
