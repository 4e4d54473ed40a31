"""A loop over rows that do not know each other, as a loop over a part of them.

`split` rewrites a scan or a while whose carry has an axis of independent rows in front (the batch
of a network, chains of a sampler, whatever vmap made) for m of n rows, from a row that is a further
operand on.  Workgroups then take parts of the rows (kernels/loop).  Values that depend on rows
carry the position of that axis; others are computed in full by everyone, and cut where they meet
rows.  Start reading at `split`, then `Rewriter.equation`.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.lists import other_axes, split_list
from calque.core.primitive import registry
from calque.core.program import Atom, Equation, Literal, Program, Var, eliminate_dead_code
from calque.core.types import Params
from calque.lowering.emit.dtypes import I32
from calque.lowering.passes.loops import is_map
from calque.lowering.plan.refusal import Refusal

GROUPS, ROWS = 8, 4  # workgroups at most, and how many rows one takes at least;
MOST_GROUPS, HELD = 64, 1 << 15  # of large carries so many, each of whose parts is as many bytes:
# all steps of it are near then
DEEPEST = 100  # equations behind each other of which a part is computed anew
TWICE = 1.2  # times as many rows at most, where the last group takes rows of the one before it, too
INDEX = ShapedArray((), I32)
Axes = Sequence[int | None]
Where = Callable[[int], tuple[int, int]]


class Refused(Exception):
    """Rows know each other, or a form is not known here.

    Attributes:
      why: the equation in which they do; None where it is the loop's carry.
    """

    def __init__(self) -> None:
        self.why = Refusal(None, "no rows")


@dataclass(frozen=True, slots=True)
class Split:
    """params: of the loop over m rows, whose first constant is the first row; carried: for each
    carry member the axis of rows (0) or None; scanned, stacked: the same for a step's part of each
    scanned array and each stacked output."""

    params: Params
    carried: tuple[int | None, ...]
    scanned: tuple[int | None, ...]
    stacked: tuple[int | None, ...]


def _carry(e: Equation) -> Sequence[ShapedArray]:
    p = e.params
    if e.name == "scan":
        return p["jaxpr"].in_avals[p["num_consts"]:p["num_consts"] + p["num_carry"]]
    return p["body_jaxpr"].in_avals[p["body_nconsts"]:]


def rows_of(e: Equation) -> int:
    """The size of the leading axis that all arrays of the carry share; 0 where there is none."""
    sizes = {a.shape[0] for a in _carry(e) if a.shape}
    return int(sizes.pop()) if len(sizes) == 1 else 0


def _sizes(e: Equation, n: int) -> list[int]:
    """How many of n rows a workgroup may take, the fewest first."""
    nbytes = sum(a.nbytes for a in _carry(e))
    most = max(GROUPS, min(MOST_GROUPS, nbytes // HELD))
    sizes = [-(-n // g) for g in range(min(most, n // ROWS), 1, -1)]
    return [m for m in sizes if m * -(-n // m) <= TWICE * n]


def part_of(e: Equation) -> int:
    """How many of a loop's rows a workgroup takes; 0 where rows know each other, or are few."""
    p = e.params
    counts = tuple(p.get(k) for k in ("num_consts", "num_carry", "cond_nconsts", "body_nconsts"))
    body: Program = p["jaxpr"] if e.name == "scan" else p["body_jaxpr"]
    return body.derived(("part", p.get("cond_jaxpr"), *counts), lambda: _part_of(e))


def _part_of(e: Equation) -> int:
    n = rows_of(e)
    m = next(iter(_sizes(e, n)), 0)
    return m if m and isinstance(split(e, m), Split) else 0


def refusal(e: Equation) -> Refusal | None:
    """Why several workgroups do not share a loop's rows."""
    n = rows_of(e)
    if not n:
        return Refusal(None, "no rows")
    if n < 2 * ROWS:
        return Refusal(None, "few rows", n)
    made = split(e, next(iter(_sizes(e, n)), ROWS))
    return made if isinstance(made, Refusal) else None


def split(e: Equation, m: int) -> Split | Refusal:
    """The loop over m rows of rows_of(e); why not, where rows know each other."""
    n, p = rows_of(e), e.params
    if e.name == "scan":  # what is scanned has rows, too, or is read by every group
        scanned = [0 if a.shape[:1] == (n,) else None
                   for a in p["jaxpr"].in_avals[p["num_consts"] + p["num_carry"]:]]
        found = _scan(p, scanned, n, m)
        return found if isinstance(found, Split) or all(a is None for a in scanned) else _scan(
            p, [None] * len(scanned), n, m)
    try:
        cond, body = p["cond_jaxpr"], p["body_jaxpr"]
        kc, kb = p["cond_nconsts"], p["body_nconsts"]
        carry = [0 if a.shape else None for a in body.in_avals[kb:]]
        made, _ = rewritten(Rewriter(n, m), body, [*[None] * kb, *carry], carry)
        test, _ = rewritten(Rewriter(n, m), cond, [*[None] * kc, *carry], [None])
        return Split({**p, "cond_jaxpr": test, "body_jaxpr": made, "cond_nconsts": kc + 1,
                      "body_nconsts": kb + 1}, tuple(carry), (), ())
    except Refused as error:
        return error.why


def _scan(p: Params, scanned: Axes, n: int, m: int) -> Split | Refusal:
    body: Program = p["jaxpr"]
    k, c = p["num_consts"], p["num_carry"]
    carried = [0 if a.shape else None for a in body.in_avals[k:k + c]]
    try:
        made, outs = rewritten(Rewriter(n, m), body, [*[None] * k, *carried, *scanned], carried,
                               stacked=True)
    except Refused as error:
        return error.why
    if None in outs[c:]:  # every group would write it
        return Refusal(None, "no rows")
    return Split({**p, "jaxpr": made, "num_consts": k + 1}, tuple(carried), tuple(scanned),
                 tuple(outs[c:]))


def rewritten(r: Rewriter, p: Program, axes: Axes, wanted: Axes | None, stacked: bool = False
              ) -> tuple[Program, list[int | None]]:
    """p for m rows, with the first row as a further input in front; axes of its outputs.  wanted:
    what the first outputs must have (a value without rows is cut).  stacked: others that have none
    are cut in front, if they can be."""
    inputs = [r.input(v, a) for v, a in zip(p.inputs, axes, strict=True)]
    for e in p.equations:
        r.taken(e)
    outputs = [r.read(o) for o in p.outputs]
    if wanted is not None:
        outputs[:len(wanted)] = [r.with_axis(*o, a) for o, a in zip(outputs, wanted)]
        if stacked:
            outputs[len(wanted):] = [
                r.with_axis(x, a, 0) if a is None and x.aval.shape[:1] == (r.n,) else (x, a)
                for x, a in outputs[len(wanted):]]
    program = Program([r.first, *inputs], r.equations, [o for o, _ in outputs], name=p.name)
    return eliminate_dead_code(program), [a for _, a in outputs]  # (what was cut, uncut)


class Rewriter:
    ends: Axes | None = [None]  # axes of the predicates of loops within: rows end together

    def __init__(self, n: int, m: int) -> None:
        self.n, self.m = n, m
        self.first = Var(INDEX)
        self.env: dict[Var, tuple[Atom, int | None]] = {}
        self.cuts: dict[tuple[Atom, int], Atom] = {}
        self.makers: dict[Atom, Equation] = {}  # of what depends on no row of the carry
        self.depth = 0  # of what is computed anew for something that is
        self.equations: list[Equation] = []

    # ---- values
    def input(self, v: Var, axis: int | None) -> Var:
        made = v if axis is None else Var(self.part(v.aval, axis))
        self.env[v] = made, axis
        return made

    def part(self, a: ShapedArray, axis: int | None) -> ShapedArray:
        """The aval with m rows."""
        if axis is None:
            return a
        if a.shape[axis] != self.n:
            raise Refused
        return a.update(shape=(*a.shape[:axis], self.m, *a.shape[axis + 1:]))

    def read(self, a: Atom) -> tuple[Atom, int | None]:
        return (a, None) if isinstance(a, Literal) else self.env[a]

    def with_axis(self, x: Atom, has: int | None, axis: int | None) -> tuple[Atom, int | None]:
        """x with its rows at `axis`: cut, if it has all of them."""
        if has == axis:
            return x, axis
        if has is not None or axis is None:
            raise Refused
        if (x, axis) not in self.cuts:
            made, cuts = len(self.equations), dict(self.cuts)
            try:
                part: Atom = self.anew(x, axis)
            except Refused:
                del self.equations[made:]
                self.cuts, part = cuts, self.cut(x, axis)
            self.cuts[x, axis] = part
        return self.cuts[x, axis], axis

    def cut(self, x: Atom, axis: int) -> Var:
        """A part of what lies in memory."""
        out = Var(self.part(x.aval, axis))
        zero = Literal(0, INDEX)
        starts = [self.first if i == axis else zero for i in range(x.aval.ndim)]
        self.equations.append(Equation(registry["dynamic_slice"], (x, *starts), (out,), {
            "slice_sizes": out.aval.shape}))
        return out

    def anew(self, x: Atom, axis: int) -> Var:
        """What depends on no row of the carry, computed of the parts of what it is made of: in
        full, every workgroup would compute all of it."""
        e = self.makers.get(x)
        if e is None or len(e.outputs) > 1 or self.depth > DEEPEST:
            raise Refused
        self.depth += 1
        try:
            return self.made_anew(e, axis)
        finally:
            self.depth -= 1

    def made_anew(self, e: Equation, axis: int) -> Var:
        (x,) = e.outputs
        name, p, out = e.name, e.params, Var(self.part(x.aval, axis))
        if is_map(e):
            inputs = [a if not a.aval.shape else self.with_axis(a, None, axis)[0]
                      for a in e.inputs]
            self.equations.append(e.replace(inputs=tuple(inputs), outputs=(out,)))
            return out
        if name == "broadcast_in_dim":
            operand, to = e.inputs[0], list(p["broadcast_dimensions"])
            if axis in to and operand.aval.shape[to.index(axis)] != 1:
                operand = self.with_axis(operand, None, to.index(axis))[0]
            self.equations.append(Equation(registry[name], (operand,), (out,), {
                **p, "shape": out.aval.shape}))
            return out
        if name == "iota" and axis != p["dimension"]:
            self.equations.append(e.replace(params={**p, "shape": out.aval.shape}, outputs=(out,)))
            return out
        return self.by_form(e, axis)

    def by_form(self, e: Equation, axis: int) -> Var:
        """The same by the equation's form, which says where the rows of an operand come out."""
        if e.inner:
            raise Refused
        for i, a in enumerate(e.inputs):
            for k, size in enumerate(a.aval.shape):
                if size == self.n:
                    given: list[tuple[Atom, int | None]] = [(b, None) for b in e.inputs]
                    given[i] = self.with_axis(a, None, k)
                    try:
                        self.rewrite(e, given)
                    except Refused:
                        continue
                    part, found = self.env[e.outputs[0]]
                    self.env[e.outputs[0]] = e.outputs[0], None
                    if found == axis and isinstance(part, Var):
                        return part
        raise Refused

    def together(self, given: Sequence[tuple[Atom, int | None]]) -> tuple[list[Atom], int | None]:
        """Values of one shape (or rank 0) with their rows at one axis."""
        axes = {a for _, a in given} - {None}
        if len(axes) > 1:
            raise Refused
        axis = axes.pop() if axes else None
        return [x if not x.aval.shape else self.with_axis(x, a, axis)[0] for x, a in given], axis

    def emit(self, e: Equation, inputs: Sequence[Atom], axes: Axes, **params: Any) -> None:
        outs = tuple(Var(self.part(v.aval, a)) for v, a in zip(e.outputs, axes, strict=True))
        self.env.update(zip(e.outputs, zip(outs, axes)))
        self.equations.append(e.replace(inputs=tuple(inputs), outputs=outs,
                                        params={**e.params, **params}))

    # ---- equations
    def equation(self, e: Equation) -> None:
        self.rewrite(e, [self.read(a) for a in e.inputs])

    def taken(self, e: Equation) -> None:
        """The same; a refusal says that it is this equation's."""
        try:
            self.equation(e)
        except Refused as error:
            if error.why.equation is None:
                error.why = Refusal(e, "rows meet")
            raise

    def rewrite(self, e: Equation, given: list[tuple[Atom, int | None]]) -> None:
        name = e.name
        if all(a is None for _, a in given):
            self.env.update((v, (v, None)) for v in e.outputs)
            self.equations.append(e.replace(inputs=tuple(x for x, _ in given)))
            self.makers.update((v, self.equations[-1]) for v in e.outputs)
        elif is_map(e):
            inputs, axis = self.together(given)
            self.emit(e, inputs, [axis])
        elif e.primitive.kernel == "fold":
            (x, axis), axes = given[0], e.params["axes"]
            if axis in axes or axis is None:
                raise Refused
            self.emit(e, [x], [axis - sum(i < axis for i in axes)])
        else:
            form = getattr(self, f"_{name.partition('-')[0]}", None)
            if form is None:
                raise Refused
            form(e, given)

    def inner(self, p: Program, axes: Axes, wanted: Axes | None, where: Where
              ) -> tuple[Program, list[int | None]]:
        """A Program that an equation holds, whose input i is the equation's operand where(i)[0],
        with where(i)[1] axes less."""
        return rewritten(Rewriter(self.n, self.m), p, axes, wanted)

    def _broadcast_in_dim(self, e: Equation, given: list[Any]) -> None:
        (x, axis), p = given[0], e.params
        to = p["broadcast_dimensions"][axis]
        self.emit(e, [x], [to], shape=self.part(e.outputs[0].aval, to).shape)

    def _reshape(self, e: Equation, given: list[Any]) -> None:
        x, axis = given[0]
        old, new = e.inputs[0].aval.shape, e.outputs[0].aval.shape
        before = math.prod(old[:axis])
        to = next((i for i, size in enumerate(new)
                   if math.prod(new[:i]) == before and size == self.n), None)
        if to is None:
            raise Refused
        self.emit(e, [x], [to], new_sizes=self.part(e.outputs[0].aval, to).shape)

    def _squeeze(self, e: Equation, given: list[Any]) -> None:
        x, axis = given[0]
        gone = e.params["dimensions"]
        if axis in gone:
            raise Refused
        self.emit(e, [x], [axis - sum(i < axis for i in gone)])

    def _transpose(self, e: Equation, given: list[Any]) -> None:
        x, axis = given[0]
        self.emit(e, [x], [e.params["permutation"].index(axis)])

    def _slice(self, e: Equation, given: list[Any]) -> None:
        (x, axis), p = given[0], e.params
        starts, limits = list(p["start_indices"]), list(p["limit_indices"])
        if starts[axis] or limits[axis] != self.n or (p["strides"] and p["strides"][axis] != 1):
            raise Refused
        limits[axis] = self.m
        self.emit(e, [x], [axis], limit_indices=tuple(limits))

    def _rev(self, e: Equation, given: list[Any]) -> None:
        x, axis = given[0]
        if axis in e.params["dimensions"]:
            raise Refused
        self.emit(e, [x], [axis])

    def _pad(self, e: Equation, given: list[Any]) -> None:
        (x, axis), value = given
        if axis is None or value[1] is not None or any(e.params["padding_config"][axis]):
            raise Refused
        self.emit(e, [x, value[0]], [axis])

    def _concatenate(self, e: Equation, given: list[Any]) -> None:
        inputs, axis = self.together(given)
        if axis == e.params["dimension"]:
            raise Refused
        self.emit(e, inputs, [axis])

    def _fft_axis(self, e: Equation, given: list[Any]) -> None:
        inputs, axis = self.together(given)
        if axis == e.params["axis"]:
            raise Refused
        self.emit(e, inputs, [axis] * len(e.outputs))

    def _dynamic_slice(self, e: Equation, given: list[Any]) -> None:
        (x, axis), *starts = given
        if axis is None or any(a is not None for _, a in starts):
            raise Refused
        out = self.part(e.outputs[0].aval, axis)
        self.emit(e, [x, *[s for s, _ in starts]], [axis], slice_sizes=out.shape)

    def _dynamic_update_slice(self, e: Equation, given: list[Any]) -> None:
        (x, update), axis = self.together(given[:2])
        if any(a is not None for _, a in given[2:]):
            raise Refused
        self.emit(e, [x, update, *[s for s, _ in given[2:]]], [axis])

    def _gather(self, e: Equation, given: list[Any]) -> None:
        """Rows are a batch of operand and indices, of indices alone, or whole in every window."""
        ((x, i), (indices, j)), d = given, e.params["dimension_numbers"]
        places = other_axes(e.outputs[0].aval.ndim, d.offset_dims)
        sizes = list(e.params["slice_sizes"])
        i, j = self.batched(i, j, d.operand_batching_dims, d.start_indices_batching_dims)
        if i in d.operand_batching_dims and j is not None:
            x, indices = self.with_axis(x, given[0][1], i)[0], self.with_axis(
                indices, given[1][1], j)[0]
            axis = places[j]
        elif i is None and j is not None and j < e.inputs[1].aval.ndim - 1:
            axis = places[j]
        elif j is None and i is not None and i not in (
                *d.collapsed_slice_dims, *d.start_index_map) and sizes[i] == self.n:
            dropped = (*d.collapsed_slice_dims, *d.operand_batching_dims)
            axis = d.offset_dims[i - sum(k < i for k in dropped)]
            sizes[i] = self.m
        else:
            raise Refused
        self.emit(e, [x, indices], [axis], slice_sizes=tuple(sizes))

    def batched(self, i: int | None, j: int | None, of: Sequence[int], to: Sequence[int]
                ) -> tuple[int | None, int | None]:
        """Axes of an operand and its indices, both where one of them is a batch of both."""
        if i is not None and i in of:
            return i, to[list(of).index(i)]
        return (of[list(to).index(j)], j) if j is not None and j in to else (i, j)

    def _scatter(self, e: Equation, given: list[Any]) -> None:
        """The same, of what is updated."""
        (x, i), (indices, j), (updates, k) = given
        d, n = e.params["dimension_numbers"], e.inputs[2].aval.ndim
        places = other_axes(n, d.update_window_dims)
        dropped = (*d.inserted_window_dims, *d.operand_batching_dims)
        if k is not None:  # the updates say where the rows are
            if k in places:
                i, j = self.batched(None, places.index(k), d.operand_batching_dims,
                                    d.scatter_indices_batching_dims)
            else:
                kept = other_axes(e.inputs[0].aval.ndim, dropped)
                i = kept[d.update_window_dims.index(k)]
        else:
            i, j = self.batched(i, j, d.operand_batching_dims, d.scatter_indices_batching_dims)
        if i in d.operand_batching_dims and j is not None:
            k = places[j]
        elif i is not None and j is None and i not in (*dropped, *d.scatter_dims_to_operand_dims):
            k = d.update_window_dims[i - sum(q < i for q in dropped)]
            if e.inputs[2].aval.shape[k] != self.n:
                raise Refused
        else:
            raise Refused
        moved = [self.with_axis(v, has, a)[0] for (v, has), a in zip(given, (i, j, k))]
        self.emit(e, moved, [i])

    def _dot_general(self, e: Equation, given: list[Any]) -> None:
        ((x, i), (y, j)), dims = given, e.params["dimension_numbers"]
        (xc, yc), (xb, yb) = dims
        if i in xc or j in yc:
            raise Refused
        if i in xb or j in yb:
            k = list(xb).index(i) if i in xb else list(yb).index(j)
            (x, i), (y, j) = self.with_axis(x, i, xb[k]), self.with_axis(y, j, yb[k])
            self.emit(e, [x, y], [k])
            return
        if i is not None and j is not None:
            raise Refused
        xf, yf = other_axes(x.aval.ndim, xc, xb), other_axes(y.aval.ndim, yc, yb)
        at = xf.index(i) if i is not None else len(xf) + yf.index(j)
        self.emit(e, [x, y], [len(xb) + at])

    # ---- equations that hold Programs
    def _jit(self, e: Equation, given: list[Any]) -> None:
        made, axes = self.inner(e.params["jaxpr"], [a for _, a in given], None, lambda i: (i, 0))
        self.emit(e, [self.first, *[x for x, _ in given]], axes, jaxpr=made)

    def _cond(self, e: Equation, given: list[Any]) -> None:
        (index, where), *operands = given
        if where is not None:
            raise Refused
        given_axes = [a for _, a in operands]

        def branch(q: Program, wanted: Axes | None) -> tuple[Program, list[int | None]]:
            return self.inner(q, given_axes, wanted, lambda i: (1 + i, 0))

        found = [branch(q, None)[1] for q in e.params["branches"]]
        axes = [next((a for a in column if a is not None), None) for column in zip(*found)]
        branches = tuple(branch(q, axes)[0] for q in e.params["branches"])
        self.emit(e, [index, self.first, *[x for x, _ in operands]], axes, branches=branches)

    def _scan(self, e: Equation, given: list[Any]) -> None:
        p, body = e.params, e.params["jaxpr"]
        k, c = p["num_consts"], p["num_carry"]
        consts, start, xs = split_list(given, k, c)
        rows = [None if a is None else a - 1 for _, a in xs]
        if -1 in rows:
            raise Refused
        fixed = [a for _, a in consts]

        def where(i: int) -> tuple[int, int]:
            return i, int(i >= k + c)

        carry = self.carry_axes(body, fixed, [a for _, a in start], rows, where)
        made, outs = self.inner(body, [*fixed, *carry, *rows], carry, where)
        stacked = [None if a is None else a + 1 for a in outs[c:]]
        self.emit(e, [self.first, *[x for x, _ in consts],
                      *[self.with_axis(x, has, a)[0] for (x, has), a in zip(start, carry)],
                      *[x for x, _ in xs]],
                  [*carry, *stacked], jaxpr=made, num_consts=k + 1)

    def _while(self, e: Equation, given: list[Any]) -> None:
        p = e.params
        kc, kb = p["cond_nconsts"], p["body_nconsts"]
        heads, consts, start = split_list(given, kc, kb)

        def in_body(i: int) -> tuple[int, int]:
            return kc + i, 0

        axes = [a for _, a in consts]
        carry = self.carry_axes(p["body_jaxpr"], axes, [a for _, a in start], [], in_body)
        body, _ = self.inner(p["body_jaxpr"], [*axes, *carry], carry, in_body)
        test, _ = self.inner(p["cond_jaxpr"], [*[a for _, a in heads], *carry], self.ends,
                             lambda i: (i if i < kc else kb + i, 0))
        self.emit(e, [self.first, *[x for x, _ in heads], self.first, *[x for x, _ in consts],
                      *[self.with_axis(x, has, a)[0] for (x, has), a in zip(start, carry)]],
                  carry, cond_jaxpr=test, body_jaxpr=body, cond_nconsts=kc + 1,
                  body_nconsts=kb + 1)

    def carry_axes(self, body: Program, consts: Axes, carry: Axes, rows: Axes, where: Where
                ) -> list[int | None]:
        """Axes of an inner loop's carry that its body keeps."""
        now = list(carry)
        while True:
            _, outs = self.inner(body, [*consts, *now, *rows], None, where)
            after = [b if a is None else a for a, b in zip(now, outs)]
            if after == now:
                return now
            now = after
