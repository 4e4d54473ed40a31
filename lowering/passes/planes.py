"""Loops over memory whose arrays have few numbers side by side (points, colours): planes of them.

Along a last axis of 3 no vector is full, and what cuts, repeats, joins or adds up along it runs
number by number.  In such a loop an array (n, 3) is held as (3, n): short axes at the end come
first, so that vectors run along the others.  Outside it nothing changes: what goes in and comes out
is transposed.  What a scan takes and gives in each step is transposed there.  Loops in registers
have their own way (passes/registers).  Start reading at `in_planes`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.dims import is_static
from calque.core.lists import other_axes
from calque.core.primitive import registry
from calque.core.program import Atom, Equation, Literal, Program, Var, eliminate_dead_code
from calque.core.types import Shape
from calque.lowering.passes import cost, loops, registers

SHORT, FULL = 9, 8  # numbers side by side, at most; so many are a vector, and stay
LEAST = 16  # of so many rows at least
MOVED = 64  # numbers that are transposed within a step, at most
_ALONG = frozenset(("broadcast_in_dim", "slice", "rev", "concatenate"))
_PARTLY = frozenset(("dynamic_slice", "dynamic_update_slice"))
Order = tuple[int, ...]


class _Stays(Exception):
    """A loop that is better as it was."""


def order(shape: Shape) -> Order:
    """The axes of an array as they are held."""
    n = len(shape)
    end = n
    while end > 1 and _is_short(shape[end - 1]):
        end -= 1
    if math.prod(shape[:end]) < LEAST or _is_short(shape[end - 1]):
        return tuple(range(n))
    return (*range(end, n), *range(end))


def _is_short(n: int) -> bool:
    return n <= SHORT and n != FULL


def in_planes(e: Equation) -> list[Equation] | None:
    """A loop that is a kernel over memory, so; None where it has no such arrays, or something in it
    has no form."""
    if e.name not in ("scan", "while") or loops.refusal(e) is not None or e.is_dynamic or (
            registers.plan(e) is not None):
        return None
    p = e.params
    body: Program = p["jaxpr" if e.name == "scan" else "body_jaxpr"]
    if not any(q.name in _ALONG or q.primitive.kernel == "fold" and q.inputs[0].aval.ndim - 1 in (
            q.params["axes"]) for q in body.equations if _has_planes(q)):
        return None
    try:
        params, count = _scan(p) if e.name == "scan" else _while(p)
    except _Stays:
        return None
    equations: list[Equation] = []
    inputs = [a if i >= count else _moved(equations, a, order(a.aval.shape))
              for i, a in enumerate(e.inputs)]
    carried = p["num_carry"] if e.name == "scan" else len(e.outputs)
    plain = [i >= carried or not _is_held(v.aval.shape) for i, v in enumerate(e.outputs)]
    outputs = [v if same else Var(_held(v.aval)) for v, same in zip(e.outputs, plain)]
    loop = e.replace(params=params, inputs=tuple(inputs), outputs=tuple(outputs))
    if not cost.is_kernel(loop):
        return None
    equations.append(loop)
    for v, o, same in zip(outputs, e.outputs, plain):
        now = order(o.aval.shape)
        if not same:
            equations.append(_transposed(v, [now.index(i) for i in range(len(now))], o))
    return equations


def _is_held(shape: Shape) -> bool:
    """Whether an array is held otherwise than it is outside."""
    return is_static(shape) and order(shape) != tuple(range(len(shape)))


def _has_planes(e: Equation) -> bool:
    return any(_is_held(a.aval.shape) for a in (*e.inputs, *e.outputs))


def _held(a: ShapedArray) -> ShapedArray:
    return a.update(shape=tuple(a.shape[i] for i in order(a.shape)))


def _transposed(x: Atom, permutation: Sequence[int], out: Var | None = None) -> Equation:
    made = out or Var(x.aval.update(shape=tuple(x.aval.shape[i] for i in permutation)))
    return Equation(registry["transpose"], (x,), (made,), {"permutation": tuple(permutation)})


def _moved(equations: list[Equation], x: Atom, permutation: Sequence[int]) -> Atom:
    """x with its axes in another order."""
    if list(permutation) == list(range(len(permutation))):
        return x
    equations.append(_transposed(x, permutation))
    return equations[-1].outputs[0]


def _scan(p: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """The params, and how many operands are held so."""
    count = p["num_consts"] + p["num_carry"]
    return {**p, "unroll": 0, "jaxpr": _Planes().program(p["jaxpr"], count, p["num_carry"])}, count


def _while(p: dict[str, Any]) -> tuple[dict[str, Any], int]:
    body, test = p["body_jaxpr"], p["cond_jaxpr"]
    count = p["cond_nconsts"] + len(body.inputs)
    return {**p, "body_jaxpr": _Planes().program(body, len(body.inputs), len(body.outputs)),
            "cond_jaxpr": _Planes().program(test, len(test.inputs), len(test.outputs))}, count


class _Planes:
    """Rewrites a Program: every array is held as `order` says of its shape."""

    def __init__(self) -> None:
        self.env: dict[Var, Atom] = {}
        self.equations: list[Equation] = []
        self.kept = set[Atom]()  # inputs that are read and written by parts only

    def program(self, p: Program, held: int, made: int) -> Program:
        """p; `held`, `made`: how many inputs and outputs come and go so, others as they were."""
        if p.const_vars:
            raise _Stays
        whole = {a for e in p.equations if e.name not in _PARTLY for a in e.inputs}
        self.kept = {v for v in p.inputs if v not in whole}
        inputs = []
        for i, v in enumerate(p.inputs):
            inputs.append(Var(_held(v.aval)) if i < held else v)
            self.env[v] = inputs[-1] if i < held else _moved(
                self.equations, v, order(v.aval.shape))
        for e in p.equations:
            self.equation(e)
        outputs = []
        for i, o in enumerate(p.outputs):
            x, now = self.read(o), order(o.aval.shape)
            outputs.append(x if i < made else _moved(
                self.equations, x, [now.index(k) for k in range(len(now))]))
        return eliminate_dead_code(Program(inputs, self.equations, outputs, name=p.name))

    def read(self, a: Atom) -> Atom:
        if not isinstance(a, Literal):
            return self.env[a]
        if _is_held(a.aval.shape):
            raise _Stays
        return a

    def in_order(self, x: Atom, has: Order, wanted: Order) -> Atom:
        """x, held as `has` says, as `wanted` says; in memory axes of size 1 are nowhere."""
        if has == wanted:
            return x
        sizes = dict(zip(has, x.aval.shape))
        if [i for i in has if sizes[i] > 1] == [i for i in wanted if sizes[i] > 1]:
            return self.reshaped(x, tuple(sizes[i] for i in wanted))
        if x.aval.size > MOVED:
            raise _Stays
        return _moved(self.equations, x, [has.index(i) for i in wanted])

    def reshaped(self, x: Atom, shape: Shape) -> Var:
        made = Var(x.aval.update(shape=shape))
        self.equations.append(Equation(registry["reshape"], (x,), (made,), {
            "new_sizes": shape, "dimensions": None, "sharding": None}))
        return made

    def equation(self, e: Equation) -> None:
        if not _has_planes(e):
            self.put(e, [self.read(a) for a in e.inputs], [tuple(range(v.aval.ndim))
                                                           for v in e.outputs])
            return
        form = getattr(self, f"_{e.name}", None)
        if loops.is_map(e):
            self.put(e, [self.read(a) for a in e.inputs], [order(v.aval.shape) for v in e.outputs])
        elif e.primitive.kernel == "fold" or e.name in ("argmax", "argmin"):
            self.fold(e)
        elif form is None or len(e.outputs) != 1:
            raise _Stays
        else:
            form(e, *e.inputs)

    def put(self, e: Equation, inputs: Sequence[Atom], has: Sequence[Order], **params: Any) -> None:
        """The equation, whose results come with their axes as `has` says."""
        made = [Var(v.aval.update(shape=tuple(v.aval.shape[i] for i in axes)))
                for v, axes in zip(e.outputs, has)]
        self.equations.append(e.replace(inputs=tuple(inputs), outputs=tuple(made),
                                        params={**e.params, **params}))
        for v, m, axes in zip(e.outputs, made, has):
            self.env[v] = self.in_order(m, axes, order(v.aval.shape))

    def fold(self, e: Equation) -> None:
        now, gone = order(e.inputs[0].aval.shape), e.params["axes"]
        kept = list(other_axes(len(now), gone))
        has = tuple(kept.index(i) for i in now if i in kept)
        self.put(e, [self.read(e.inputs[0])], [has],
                 axes=tuple(sorted(now.index(i) for i in gone)))

    def _broadcast_in_dim(self, e: Equation, x: Atom) -> None:
        out, p = e.outputs[0].aval.shape, e.params
        now, to = order(x.aval.shape), order(out)
        places = [to.index(p["broadcast_dimensions"][i]) for i in now]
        rising = sorted(range(len(places)), key=places.__getitem__)
        y = self.in_order(self.read(x), now, tuple(now[i] for i in rising))
        self.put(e, [y], [to], shape=tuple(out[i] for i in to),
                 broadcast_dimensions=tuple(sorted(places)))

    def _reshape(self, e: Equation, x: Atom) -> None:
        old, new = x.aval.shape, e.outputs[0].aval.shape
        now, to = order(old), order(new)
        same = dict(zip([i for i, n in enumerate(old) if n != 1],
                        [i for i, n in enumerate(new) if n != 1]))
        if [n for n in old if n != 1] != [n for n in new if n != 1]:
            raise _Stays
        wanted = [same[i] for i in now if old[i] != 1]
        if wanted != [i for i in to if new[i] != 1]:
            raise _Stays
        out = e.outputs[0]
        self.env[out] = self.reshaped(self.read(x), _held(out.aval).shape)

    _squeeze = _reshape

    def _slice(self, e: Equation, x: Atom) -> None:
        now, p = order(x.aval.shape), e.params
        self.put(e, [self.read(x)], [now], **{
            k: p[k] and tuple(p[k][i] for i in now)
            for k in ("start_indices", "limit_indices", "strides")})

    def _rev(self, e: Equation, x: Atom) -> None:
        now = order(x.aval.shape)
        self.put(e, [self.read(x)], [now], dimensions=tuple(sorted(
            now.index(i) for i in e.params["dimensions"])))

    def _concatenate(self, e: Equation, *xs: Atom) -> None:
        to, axis = order(e.outputs[0].aval.shape), e.params["dimension"]
        self.put(e, [self.in_order(self.read(x), order(x.aval.shape), to) for x in xs], [to],
                 dimension=to.index(axis))

    def _pad(self, e: Equation, x: Atom, value: Atom) -> None:
        now = order(x.aval.shape)
        self.put(e, [self.read(x), self.read(value)], [now], padding_config=tuple(
            e.params["padding_config"][i] for i in now))

    def _dynamic_slice(self, e: Equation, x: Atom, *starts: Atom) -> None:
        now = order(x.aval.shape)
        self.put(e, [self.read(x), *[self.read(starts[i]) for i in now]], [now],
                 slice_sizes=tuple(e.params["slice_sizes"][i] for i in now))

    def _dynamic_update_slice(self, e: Equation, x: Atom, update: Atom, *starts: Atom) -> None:
        now = order(x.aval.shape)
        if x in self.kept and _is_held(x.aval.shape):  # rows are written to what is handed on
            raise _Stays
        self.put(e, [self.read(x), self.in_order(
            self.read(update), order(update.aval.shape), now),
            *[self.read(starts[i]) for i in now]], [now])

    def _transpose(self, e: Equation, x: Atom) -> None:
        p, now = e.params["permutation"], order(x.aval.shape)
        has = tuple(p.index(i) for i in now)
        to = order(e.outputs[0].aval.shape)
        if has != to:
            raise _Stays
        self.env[e.outputs[0]] = self.read(x)

    def _iota(self, e: Equation) -> None:
        out = e.outputs[0].aval.shape
        to = order(out)
        self.put(e, [], [to], shape=tuple(out[i] for i in to),
                 dimension=to.index(e.params["dimension"]))


__all__ = ["in_planes"]
