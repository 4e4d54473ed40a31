"""Moves that are undone: reversals, transpositions and other shapes of what was moved the other way
before, reductions over what an array was repeated along, slices of what was padded or joined.

The derivative of `jnp.flip(x)` turns round what is computed of the turned array, that of `repeat`,
`tile` and `meshgrid` adds up numbers that are equal, that of `stack` takes parts of what is
computed of the whole.  What lies between the two moves element by
element is computed of the array as it was.  Start reading at `with_moves_undone`.
"""
from __future__ import annotations

import math
import operator
from collections import Counter

import numpy as np

from calque.core.avals import ShapedArray
from calque.core.program import Atom, Equation, Literal, Program, Var, eliminate_dead_code
from calque.core.types import Shape
from calque.lowering.emit.dtypes import F32, HALVES
from calque.lowering.passes import loops
from calque.lowering.passes.replacement import Replacement
from calque.lowering.plan.switches import off

CHEAP = 2  # weight of what may be computed once more, where others read it, too
DEEPEST = 30  # equations one behind the other
_SHAPES = ("reshape", "squeeze")
_FOLDS = ("reduce_sum", "reduce_max", "reduce_min", "reduce_and", "reduce_or")
_LAST = frozenset(("rev", "transpose", "slice", *_SHAPES, *_FOLDS))


def with_moves_undone(p: Program) -> Program:
    """p without such moves, at any depth."""
    return p if off("moves") or not loops.enabled else p.derived("moves undone", lambda: _write(p))


def _write(p: Program) -> Program:
    makers = {v: e for e in p.equations for v in e.outputs}
    uses = Counter(a for e in p.equations for a in e.inputs) + Counter(p.outputs)
    results = set[Atom](p.outputs)
    env, equations = dict[Atom, Atom](), list[Equation]()
    for e in p.equations:
        if any(a in env for a in e.inputs):
            e = e.reading(env)
            makers.update((v, e) for v in e.outputs)
        found = _Undone(e, makers, uses).written() if e.name in _LAST and not e.is_dynamic else None
        if found is None:
            equations.append(e.with_inner(with_moves_undone))
            continue
        value, made = found
        (out,) = e.outputs
        if out in results:
            made.emit("copy", [value], out.aval.shape, out.aval.dtype)
            made.made[-1] = made.made[-1].replace(outputs=e.outputs)
        else:
            env[out] = value
        equations += made.made
        makers.update((v, q) for q in made.made for v in q.outputs)
        uses.update(a for q in made.made for a in q.inputs)
    same = len(equations) == len(p.equations) and all(map(operator.is_, equations, p.equations))
    return p if same else eliminate_dead_code(p.replace(equations=equations))


class _Undone:
    """What an equation is of the array that was moved before it."""

    def __init__(self, e: Equation, makers: dict[Var, Equation], uses: Counter[Atom]) -> None:
        self.e, self.makers, self.uses = e, makers, uses
        self.made = Replacement(e)
        self.shape: Shape = e.outputs[0].aval.shape
        self.known = dict[Atom, Atom | None]()
        self.is_moved = False  # whether what it is of was

    def written(self) -> tuple[Atom, Replacement] | None:
        """The value of its result, and the equations that compute it."""
        value = self.before(self.e.inputs[0], DEEPEST)
        if value is None or not self.is_moved:
            return None
        if self.e.name == "reduce_sum":
            value = self.summed(value)
        return None if value is None else (value, self.made)

    def before(self, a: Atom, depth: int) -> Atom | None:
        """An operand as it was before the move; None of what was not moved."""
        if a not in self.known:
            self.known[a] = self.found(a, depth)
        return self.known[a]

    def found(self, a: Atom, depth: int) -> Atom | None:
        maker = self.makers.get(a) if isinstance(a, Var) else None
        if maker is None or maker.is_dynamic:
            return None
        if maker.name == "broadcast_in_dim" and not maker.inputs[0].aval.shape:
            return self.made.spread(maker.inputs[0], self.shape, ())
        source = self.source(maker)
        if source is not None:
            self.is_moved = True
            return source
        if not depth or not loops.is_map(maker) or len(maker.outputs) != 1 or (
                self.uses[a] > 1 and maker.weight > CHEAP):
            return None
        inputs = list[Atom]()
        for b in maker.inputs:
            if not b.aval.shape:
                inputs.append(b)
                continue
            was = self.before(b, depth - 1) if b.aval.shape == a.aval.shape else None
            if was is None:
                return None
            inputs.append(was)
        return self.made.emit(maker.name, inputs, self.shape, a.aval.dtype, **maker.params)

    def sliced(self, maker: Equation) -> Atom | None:
        """The part of an operand that a slice of what is padded or joined is."""
        first, steps = self.e.params["start_indices"], self.e.params["strides"]
        if steps is not None and set(steps) != {1}:
            return None
        if maker.name == "pad":
            x, before = maker.inputs[0], [c[0] for c in maker.params["padding_config"]]
            if any(c[2] for c in maker.params["padding_config"]):
                return None
        else:
            axis, end = maker.params["dimension"], 0
            before = [0] * len(self.shape)
            for x in maker.inputs:
                before[axis], end = end, end + x.aval.shape[axis]
                if first[axis] < end:
                    break
        starts = [i - k for i, k in zip(first, before)]
        limits = [i + n for i, n in zip(starts, self.shape)]
        if min(starts, default=0) < 0 or any(i > n for i, n in zip(limits, x.aval.shape)):
            return None
        return x if x.aval.shape == self.shape else self.made.emit(
            "slice", [x], self.shape, x.aval.dtype, start_indices=tuple(starts),
            limit_indices=tuple(limits), strides=None)

    def source(self, maker: Equation) -> Atom | None:
        """The operand of a move that the equation undoes."""
        p, q, x = self.e.params, maker.params, maker.inputs[0] if maker.inputs else None
        if x is None:
            return None
        if self.e.name == "slice":
            return self.sliced(maker) if maker.name in ("pad", "concatenate") else None
        if self.e.name in _FOLDS:
            return self.repeated(maker) if maker.name == "broadcast_in_dim" else None
        if self.e.name in _SHAPES:
            return x if maker.name in _SHAPES and x.aval.shape == self.shape else None
        if maker.name != self.e.name:
            return None
        undoes = (set(p["dimensions"]) == set(q["dimensions"]) if maker.name == "rev" else
                  all(q["permutation"][i] == k for k, i in enumerate(p["permutation"])))
        return x if undoes else None

    def repeated(self, maker: Equation) -> Atom | None:
        """What is repeated along all axes that are reduced, without these."""
        x, axes = maker.inputs[0], set(self.e.params["axes"])
        places = maker.params["broadcast_dimensions"]
        kept = [i for i, at in enumerate(places) if at not in axes]
        if any(x.aval.shape[i] != 1 for i, at in enumerate(places) if at in axes):
            return None
        few = self.made.reshaped(x, [x.aval.shape[i] for i in kept])
        return self.made.spread(few, self.shape, [
            places[i] - sum(k < places[i] for k in axes) for i in kept])

    def summed(self, value: Atom) -> Atom | None:
        """So many times the value, rounded once."""
        shape, dtype = self.shape, value.aval.dtype
        count = math.prod(self.e.inputs[0].aval.shape[i] for i in self.e.params["axes"])
        if dtype not in loops.DTYPES or dtype.kind == "b":
            return None
        wide = F32 if dtype in HALVES else dtype
        with np.errstate(over="ignore"):
            times = Literal(np.asarray(count).astype(wide)[()], ShapedArray((), wide))
        made = self.made.emit("mul", [self.made.converted(value, wide), times], shape, wide)
        return self.made.converted(made, dtype)


__all__ = ["with_moves_undone"]
