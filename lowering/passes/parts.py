"""Parts of what was put together are read where it came from.

`i, j = jnp.mgrid[:n, :m]` stacks two grids and takes them apart again, as do states that a function
packs and its callee unpacks; `jnp.zeros_like(x)[1:-1]` and a few columns of a grid are parts of
what one number, or a row, is repeated to.  So a slice of a join is one of the part that it lies in,
and one of what is repeated or counted repeats or counts less.  Start reading at `direct`.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray
from calque.core.primitive import registry
from calque.core.program import Atom, Equation, Literal, Program, Var, eliminate_dead_code

_PARTS = ("slice", "squeeze")
Range = tuple[int, int, int]  # along an axis: from where, up to where, in steps of


def direct(p: Program) -> Program:
    """p whose slices read what their operand was made of."""
    makers = {v: e for e in p.equations for v in e.outputs}
    if not any(e.name in _PARTS and _is_made(e.inputs[0], makers) for e in p.equations):
        return p
    env: dict[Atom, Atom] = {}
    equations = list[Equation]()
    for e in p.equations:
        if any(a in env for a in e.inputs):
            e = e.reading(env)
            makers.update((v, e) for v in e.outputs)  # (what it read may be gone)
        if e.name in _PARTS and _is_made(e.inputs[0], makers):
            written = _Slices(makers, e, equations)
            env[e.outputs[0]] = (written.squeezed(
                e.inputs[0], e.outputs[0].aval, e.params["dimensions"]) if e.name == "squeeze"
                                 else written.of(e.inputs[0], _ranges(e)))
        else:
            equations.append(e)
    return eliminate_dead_code(p.replace(
        equations=equations, outputs=[env.get(o, o) for o in p.outputs]))


def _is_made(a: Atom, makers: dict[Var, Equation]) -> bool:
    """Whether a slice of a value is better read from what that was made of."""
    e = makers.get(a) if isinstance(a, Var) else None
    if e is None or not all(isinstance(n, int) for v in (*e.inputs, *e.outputs)
                            for n in v.aval.shape):
        return False
    return e.name in ("concatenate", "broadcast_in_dim") or e.name == "iota" and _is_exact(e) or (
        e.name == "squeeze" and _is_made(e.inputs[0], makers))


def _is_exact(e: Equation) -> bool:
    """Whether a dtype has all numbers that are counted: of others the first is added in vain."""
    dtype = e.outputs[0].aval.dtype
    return dtypes.is_integer(dtype) or e.outputs[0].aval.shape[e.params["dimension"]] <= (
        2 << dtypes.finfo(dtype).nmant)


def _ranges(e: Equation) -> list[Range]:
    p = e.params
    return list(zip(p["start_indices"], p["limit_indices"],
                    p["strides"] or [1] * len(p["start_indices"])))


@dataclass(frozen=True, slots=True)
class _Slices:
    """Writes equations in the place of a slice."""

    makers: dict[Var, Equation]
    e: Equation
    equations: list[Equation]

    def write(self, name: str, inputs: Sequence[Atom], aval: ShapedArray,
              **params: object) -> Var:
        out = Var(aval)
        made = Equation(registry[name], tuple(inputs), (out,), params, self.e.source, self.e.scope)
        self.equations.append(made)
        self.makers[out] = made
        return out

    def of(self, a: Atom, ranges: Sequence[Range]) -> Atom:
        """These elements of a value."""
        shape = tuple(-(-(stop - start) // step) for start, stop, step in ranges)
        if all(r == (0, n, 1) for r, n in zip(ranges, a.aval.shape)):
            return a
        aval = a.aval.update(shape=shape)
        maker = self.makers[a] if isinstance(a, Var) and _is_made(a, self.makers) else None
        if maker is not None and maker.name == "concatenate":
            axis = maker.params["dimension"]
            start, stop, step = ranges[axis]
            sizes = [x.aval.shape[axis] for x in maker.inputs]
            for x, end, n in zip(maker.inputs, accumulate(sizes), sizes):
                first = end - n
                if first <= start and stop <= end:
                    return self.of(x, [*ranges[:axis], (start - first, stop - first, step),
                                       *ranges[axis + 1:]])
        elif maker is not None and maker.name == "iota":
            return self.count(maker, ranges, aval)
        elif maker is not None and maker.name == "squeeze":
            (x,), dropped = maker.inputs, maker.params["dimensions"]
            kept = iter(ranges)
            made = self.of(x, [(0, 1, 1) if i in dropped else next(kept)
                               for i in range(x.aval.ndim)])
            return self.squeezed(made, aval, dropped)
        elif maker is not None:
            (x,), places = maker.inputs, maker.params["broadcast_dimensions"]
            if isinstance(x, Var):
                x = self.of(x, [(0, 1, 1) if n == 1 else ranges[i]
                                for i, n in zip(places, x.aval.shape)])
            return self.spread(x, aval, places)
        return self.write(
            "slice", [a], aval, start_indices=tuple(r[0] for r in ranges),
            limit_indices=tuple(r[1] for r in ranges), strides=None if all(
                r[2] == 1 for r in ranges) else tuple(r[2] for r in ranges))

    def squeezed(self, a: Atom, aval: ShapedArray, dropped: Sequence[int]) -> Atom:
        """A value without axes of one element."""
        maker = self.makers.get(a) if isinstance(a, Var) else None
        places = maker.params["broadcast_dimensions"] if (
            maker is not None and maker.name == "broadcast_in_dim") else dropped
        if maker is None or not set(places).isdisjoint(dropped):
            return self.write("squeeze", [a], aval, dimensions=tuple(dropped))
        return self.spread(maker.inputs[0], aval, [
            i - sum(k < i for k in dropped) for i in places])

    def spread(self, a: Atom, aval: ShapedArray, places: Sequence[int]) -> Atom:
        """A value repeated, whose axes are these of the result."""
        while isinstance(a, Var) and a in self.makers and (
                self.makers[a].name == "broadcast_in_dim"):
            inner = self.makers[a]
            (a,), places = inner.inputs, [places[i] for i in inner.params["broadcast_dimensions"]]
        return self.write("broadcast_in_dim", [a], aval, shape=aval.shape,
                          broadcast_dimensions=tuple(places), sharding=None)

    def count(self, maker: Equation, ranges: Sequence[Range], aval: ShapedArray) -> Atom:
        """Counted from the first on."""
        axis = maker.params["dimension"]
        start, _, step = ranges[axis]
        made: Atom = self.write("iota", [], aval, **{**maker.params, "shape": aval.shape})
        for name, number, plain in (("mul", step, 1), ("add", start, 0)):
            if number != plain:
                one = Literal(np.asarray(number).astype(aval.dtype)[()], aval.update(shape=()))
                made = self.write(name, [made, one], aval)
        return made
