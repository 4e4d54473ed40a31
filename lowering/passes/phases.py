"""Elements of which every k-th belongs together, as rows of k numbers: derivatives of `x[:, ::2]`,
pairs that are turned (rotary positions), what is interleaved.

A padding with numbers between elements writes one of k numbers in a row, and a slice with a stride
reads one: element by element no vector is full (402 us for the derivative of `x[:, ::2] ** 2` of
1000 x 1000, 85 so).  Written on an axis of k numbers, sums of such paddings are joins
(passes/padded), and rows of few numbers are kernels in registers (passes/points).  Slices are taken
so where a program puts such rows together, too.  Start reading at `with_phases_apart`.
"""
from __future__ import annotations

import operator
from collections.abc import Sequence

from calque.core.avals import ShapedArray
from calque.core.program import Atom, Equation, Program, Var, eliminate_dead_code
from calque.core.types import Shape
from calque.lowering.passes import cost, loops
from calque.lowering.passes.padded import LEAST, SUMS
from calque.lowering.passes.replacement import Replacement
from calque.lowering.plan.switches import off

MOST = 8  # elements that are apart


def with_phases_apart(p: Program) -> Program:
    """p with such paddings and slices written so, at any depth, but for loops that are kernels."""
    return p if off("paddings") or p.names().isdisjoint(("pad", "concatenate")) else p.derived(
        "phases apart", lambda: _Phases(p).written())


class _Phases:
    """A program's arrays with their phases on an axis of their own."""

    def __init__(self, p: Program) -> None:
        self.p = p
        self.makers = {v: e for e in p.equations for v in e.outputs}
        self.users: dict[Atom, list[Equation]] = {}
        for e in p.equations:
            for a in e.inputs:
                self.users.setdefault(a, []).append(e)
        self.joined = {k for e in p.equations for k in [_joined(e) or _interleaved(e)] if k}
        self.shapes = dict[Atom, Shape]()  # of arrays that have one, so
        self.rows = dict[Atom, Atom]()  # what they are, so
        self.same = dict[Atom, Atom]()  # what is another array now

    def written(self) -> Program:
        for e in self.p.equations:
            self._seed(e)
        equations = list[Equation]()
        for e in self.p.equations:
            if any(a in self.same for a in e.inputs):
                e = e.replace(inputs=tuple(self.same.get(a, a) for a in e.inputs))
            made = self._apart(e)
            if made is not None:
                equations += made
            else:
                equations.append(e if cost.is_kernel(e) else e.with_inner(with_phases_apart))
        if len(equations) == len(self.p.equations) and all(
                map(operator.is_, equations, self.p.equations)):
            return self.p
        outputs = [self.same.get(o, o) for o in self.p.outputs]
        return eliminate_dead_code(self.p.replace(equations=equations, outputs=outputs))

    def _seed(self, e: Equation) -> None:
        """Note the arrays whose phases an equation reads or puts together, and what is computed of
        them, and they of, element by element."""
        if len(e.outputs) != 1 or e.is_dynamic:
            return
        out = e.outputs[0]
        if _interleaved(e):
            self._grow(out, _phases(e))
        elif (k := _stride(e)) in self.joined:
            self._grow(e.inputs[0], (*out.aval.shape, k))
        elif e.name == "reshape":
            for a, b in ((out, e.inputs[0]), (e.inputs[0], out)):
                *lead, k = b.aval.shape or (0,)
                if k in self.joined and lead and a.aval.size >= LEAST and a.aval.shape == (
                        *lead[:-1], lead[-1] * k):
                    self._grow(a, b.aval.shape)

    def _grow(self, a: Atom, shape: Shape) -> None:
        waiting = [a]
        while waiting:
            a = waiting.pop()
            if a in self.shapes or not isinstance(a, Var):
                continue
            self.shapes[a] = shape
            maker = self.makers.get(a)
            for e in (*self.users.get(a, ()), maker):
                if e is not None and _is_map(e):
                    waiting += [b for b in (*e.inputs, *e.outputs) if b.aval.shape == a.aval.shape]

    def _of(self, made: Replacement, a: Atom) -> Atom:
        """An array so."""
        shape = self.shapes.get(a)
        if shape is None:
            return a
        e = self.makers.get(a) if isinstance(a, Var) else None
        if a in self.rows:
            return self.rows[a]
        if e is not None and e.name == "broadcast_in_dim" and not e.inputs[0].aval.shape:
            return made.spread(e.inputs[0], shape, ())
        return made.reshaped(a, shape)

    def _apart(self, e: Equation) -> list[Equation] | None:
        """The equations in the place of one; None where it stays."""
        if len(e.outputs) != 1 or e.is_dynamic:
            return None
        out = e.outputs[0]
        if _interleaved(e):
            summed = any(u.name in SUMS for u in self.users.get(out, ()))
            padded = _padded(e, _phases(e), summed)
            if self.shapes[out] == _phases(e):
                self.rows[out] = padded[-1].inputs[0]
            return [*padded[:-1], padded[-1].replace(outputs=e.outputs)]
        made = Replacement(e)
        if e.name == "reshape" and self.shapes.get(e.inputs[0]) == out.aval.shape and (
                e.inputs[0] in self.rows):
            self.same[out] = self.rows[e.inputs[0]]
            return []
        if e.name == "reshape" and self.shapes.get(out) == e.inputs[0].aval.shape:
            self.rows[out] = e.inputs[0]
            return None
        if (k := _stride(e)) in self.joined:
            at, shape = e.params["start_indices"][-1], (*out.aval.shape, k)
            x = self._of(made, e.inputs[0]) if self.shapes.get(e.inputs[0]) == shape else (
                made.reshaped(e.inputs[0], shape))
            made.reshaped(made.cut(x, at, at + 1), out.aval.shape)
        elif out in self.shapes and _is_map(e):
            inputs = [made.reshaped(self._of(made, a), self.shapes[out]) if a.aval.shape else a
                      for a in e.inputs]
            v = Var(ShapedArray(self.shapes[out], out.aval.dtype))
            made.made.append(e.replace(inputs=tuple(inputs), outputs=(v,)))
            self.rows[out] = v
            made.reshaped(v, out.aval.shape)
        else:
            return None
        return [*made.made[:-1], made.made[-1].replace(outputs=e.outputs)]


def _is_map(e: Equation) -> bool:
    """Whether an equation computes each element of the same place of arrays of one shape."""
    return (loops.is_map(e) or e.name in SUMS) and len(e.outputs) == 1 and not e.is_dynamic and all(
        not a.aval.shape or a.aval.shape == e.outputs[0].aval.shape for a in e.inputs)


def _joined(e: Equation) -> int:
    """How many arrays an equation puts beside one another as rows of so many numbers, or 0."""
    out = e.outputs[0].aval if e.name == "concatenate" and not e.is_dynamic else None
    return out.shape[-1] if out is not None and 1 < out.ndim == e.params["dimension"] + 1 and (
        2 <= out.shape[-1] == len(e.inputs) <= MOST) and out.size >= LEAST else 0


def _interleaved(e: Equation) -> int:
    """How many elements apart a padding, of nothing else, puts those along its last such axis, or
    0."""
    if e.name != "pad" or e.is_dynamic or e.outputs[0].aval.size < LEAST or (
            e.outputs[0].aval.dtype not in loops.DTYPES or not e.inputs[0].aval.size):
        return 0
    apart = 0
    for low, high, inside in e.params["padding_config"]:
        if min(low, high) < 0 or low + high != inside or inside >= MOST:
            return 0
        apart = inside + 1 if inside else apart
    return apart


def _phases(e: Equation) -> Shape:
    """The shape of what such a padding gives, with its last phases apart."""
    out = e.outputs[0].aval.shape
    axis, inside = max((i, c[2]) for i, c in enumerate(e.params["padding_config"]) if c[2])
    return (*out[:axis], out[axis] // (inside + 1), inside + 1, *out[axis + 1:])


def _stride(e: Equation) -> int:
    """Every how many elements a slice takes one along the last axis, all of the others, or 0."""
    if e.name != "slice" or e.is_dynamic or e.inputs[0].aval.size < LEAST:
        return 0
    shape, out, strides = e.inputs[0].aval.shape, e.outputs[0].aval.shape, e.params["strides"]
    k = strides[-1] if strides else 1
    return k if 1 < k <= MOST and shape[-1] == k * out[-1] and shape[:-1] == out[:-1] and (
        e.params["start_indices"][-1] < k) else 0


def _padded(e: Equation, rows: Shape, summed: bool) -> list[Equation]:
    """`rows`: the result's shape with the phases apart; the last equation joins them."""
    made, value = Replacement(e), e.inputs[1]
    x, shape = e.inputs[0], list(e.inputs[0].aval.shape)
    config: Sequence[tuple[int, int, int]] = e.params["padding_config"]
    for axis, (low, high, inside) in enumerate(config):
        if not inside:
            continue
        apart = [*shape[:axis + 1], 1, *shape[axis + 1:]]
        x = made.reshaped(x, apart)
        apart[axis + 1] = inside + 1
        if summed and tuple(apart) == rows:  # (a part of a sum: passes/padded)
            around = [(0, 0, 0)] * len(apart)
            around[axis + 1] = (low, high, 0)
            x = made.emit("pad", [x, value], apart, x.aval.dtype, padding_config=tuple(around))
        else:
            before, behind = ([made.spread(value, [*apart[:axis + 1], n, *apart[axis + 2:]], ())]
                              if n else [] for n in (low, high))
            x = made.emit("concatenate", [*before, x, *behind], apart, x.aval.dtype,
                          dimension=axis + 1)
        shape[axis] *= inside + 1
        x = made.reshaped(x, shape)
    return made.made


__all__ = ["with_phases_apart"]
