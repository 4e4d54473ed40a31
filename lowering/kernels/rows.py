"""A group of equations over independent rows (passes/rows) as one dispatch.

Workgroups take rows; each row is swept over a few times: what a fold gives is known in the next
sweep.  A sweep computes what its folds and stores need, by vectors; values that a later sweep needs
again are computed again where that is cheap, else kept in scratch of one row.  Vectors run along
the last axis of the space: where that is folded, numbers of a row are scalars; else (columns) they
are vectors, a row in each lane.  Start reading at `emit_rows`, then `Kernel.sweep`.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray
from calque.core.primitive import registry
from calque.core.program import Atom, Equation, Literal, Program, Var
from calque.core.types import Axes, Dtype, Shape
from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.emit.dtypes import BOOL
from calque.lowering.kernels import indexing, memory
from calque.lowering.kernels.folds import Chains, Fold, across, fold_of
from calque.lowering.kernels.memory import Index, Memory
from calque.lowering.kernels.shell import FEW, Shell
from calque.lowering.kernels.stretch import emit_stretch
from calque.lowering.kernels.values import SCALAR, KernelBuilder
from calque.lowering.passes import cost, picks, strided
from calque.lowering.passes.rows import EXTREMA, VECTOR, VIEWS, Rows, is_fold, numbered, price
from calque.lowering.passes.strided import Layout

GROUPS = 64  # workgroups at most
WORTH = 50_000  # element operations that one should have
AGAIN = 3  # weight of what is rather computed again than kept
LIGHT = 8  # weight of what is computed by vectors of which there are many in hand
HEAVY = 40  # weight of what is computed one vector at a time: compiling it takes time, too
WIDE_UNITS = 8  # workgroups there should be for such vectors
EACH = 5  # weight of a load for each lane
MANY_PICKS = 8
SHORT = 16  # elements of a row that is one vector, where nothing is folded
TILE = 48  # or several such rows at a time
BLOCK = 64  # such rows that one goes through before the place of the next is computed


class Node:
    """A value of the group at each point of its space.

    what: the equation, or a literal; axes: those it depends on; ready: the sweep in which it is
    known; price: what computing it costs beside its operands.
    """

    __slots__ = ("kind", "what", "operands", "axes", "dtype", "ready", "price")

    def __init__(self, kind: str, dtype: Dtype, axes: Iterable[int] = (), ready: int = 0,
                 what: Any = None, operands: Sequence[Node] = (), price: int = 0) -> None:
        self.kind, self.dtype, self.axes, self.ready = kind, dtype, frozenset(axes), ready
        self.what, self.operands, self.price = what, tuple(operands), price


def emit_rows(ctx: Context, p: Program, rows: Rows, xs: Sequence[Value],
              outs: Sequence[ShapedArray]) -> list[Value]:
    """The outputs of a group; equal groups share a kernel."""
    key = "rows", p.key(), rows, tuple((x.shape, x.dtype) for x in xs)
    shell = ctx.sources.get(key)
    if shell is None:
        ctx.sources[key] = shell = Shell(ctx, "rows" if rows.folded else "chain", xs, outs)
        with shell.inside():
            Kernel(shell, p, rows).emit()
        shell.close()
    made = shell.call(ctx.entering(xs), p.equations)
    ctx.aliases.add_new(made)
    return made


def turned(ctx: Context, x: Value, order: Sequence[int]) -> Value:
    """x with its axes in another order: by a kernel of ours where IREE is to get nothing."""
    if not ctx.closing or not math.prod(x.shape) or list(order) == sorted(order):
        return ctx.b.transpose(x, order)
    before, after = (Var(ShapedArray(shape, x.dtype)) for shape in (
        x.shape, tuple(x.shape[i] for i in order)))
    e = Equation(registry["transpose"], (before,), (after,), {"permutation": tuple(order)})
    sizes = tuple(n for n in after.aval.shape if n > 1)
    rows = Rows(sizes, frozenset(), (((),),), (numbered(after.aval.shape),), frozenset((0,)))
    return emit_rows(ctx, Program([before], [e], [after]), rows, [x], [after.aval])[0]


class _Space:
    """The index space, neighbouring axes taken as one where all arrays allow it."""

    def __init__(self, rows: Rows, places: dict[Any, tuple[int, ...]], kept: set[int]) -> None:
        self.sizes = list(rows.sizes)
        self.folded = [i in rows.folded for i in range(len(rows.sizes))]
        self.numbers = list(range(len(rows.sizes)))  # of the given axes, now
        self.places = {k: list(s) for k, s in places.items()}
        if not self.sizes:  # numbers
            self.sizes, self.folded, self.numbers = [1], [False], [0]
            for s in self.places.values():
                s.append(0)
        for i in reversed(range(len(rows.sizes) - 1)):
            if self.folded[i] == self.folded[i + 1] and not {i, i + 1} & kept and all(
                    s[i] == s[i + 1] * self.sizes[i + 1] for s in self.places.values()):
                self.sizes[i:i + 2] = [self.sizes[i] * self.sizes[i + 1]]
                del self.folded[i + 1]
                for s in self.places.values():
                    del s[i]
                self.numbers[i + 1:] = [n - 1 for n in self.numbers[i + 1:]]


class Kernel:
    """A group's code over memory of `operands` and `results` (by default the shell's), of all its
    rows, shared among workgroups, or of those from first to end; `among`: the number of this
    workgroup and how many there are, where that is known."""

    def __init__(self, shell: Shell, p: Program, rows: Rows,
                 operands: Sequence[Memory] | None = None,
                 results: Sequence[Memory] | None = None,
                 span: tuple[Index, Index] | None = None,
                 among: tuple[Index, int] | None = None) -> None:
        self.shell, self.p = shell, p
        inputs: dict[Atom, Memory] = dict(
            zip(p.inputs, shell.operands if operands is None else operands))
        for k in sorted(rows.views):
            e = p.equations[k]
            m = inputs[e.inputs[0]]
            seen = strided.after(e, Layout(m.shape, m.strides))
            assert seen is not None, e
            inputs[e.outputs[0]] = m.view(seen.shape, seen.strides, seen.base)
        made: dict[Atom, Axes] = {e.outputs[0]: a for e, a in zip(p.equations, rows.made)}
        places: dict[Any, tuple[int, ...]] = {
            (a, axes): _strides(inputs[a], axes, len(rows.sizes))
            for k, (e, reads) in enumerate(zip(p.equations, rows.reads)) if k not in rows.views
            for a, axes in zip(e.inputs, reads) if a in inputs}
        outputs = list(zip(p.outputs, shell.results if results is None else results))
        places |= {(o, made[o]): _strides(inputs[o], made[o], len(rows.sizes))
                   for o, _ in outputs if o in inputs}
        places |= {o: _strides(m, made[o], len(rows.sizes)) for o, m in outputs}
        counted = {axes[e.params["dimension"]] for e, axes in zip(p.equations, rows.made)
                   if e.name == "iota"}
        self.space = _Space(rows, places, counted)
        self.last = len(self.space.sizes) - 1
        self.free = [i for i, f in enumerate(self.space.folded) if f]
        self.row_axes = [i for i, f in enumerate(self.space.folded) if not f]
        self.columns = not self.space.folded[self.last]  # a row each lane
        self.memories: dict[Node, Memory] = {}
        self.picks: dict[Node, tuple[Memory, list[tuple[int, int]]]] = {}
        self.unique: dict[Any, Node] = {}
        self.nodes: list[Node] = []
        self.follow(p, rows, inputs)
        self.shell.count(n.what for n in self.nodes if n.kind == "map")
        if math.prod(self.space.sizes) <= FEW:
            self.shell.often = 2
        self.targets = [(self.env[o] if o in self.env else self.atom(o, made[o], inputs),
                         self.view(m, self.space.places[o])) for o, m in outputs]
        self.lanes = self.width()
        self.units = [self.space.sizes[i] for i in self.row_axes]
        if self.columns:
            self.units[-1] = -(-self.units[-1] // self.lanes)
        # where rows are short, a unit is a block of them, which it goes through in a loop, some
        # at a time (`tile`)
        self.block = self.tile = 1
        if not any(self.space.folded) and self.units[-1] == 1 and self.lanes <= SHORT and len(
                self.units) > 1:
            self.tile = self.rows_at_a_time(self.units[-2])
            self.units[-2] = -(-self.units[-2] // self.tile)
            self.block = min(BLOCK, self.units[-2])
            self.units[-2] = -(-self.units[-2] // self.block)
        # positions of a row are read once, not at each of its vectors
        self.fixed: dict[Node, Value] = {}
        self.lines = not any(self.space.folded) and self.units[-1] > 1 and (
            math.prod(self.units[:-1]) >= GROUPS) and any(
            n.kind == "picked" and all(self.last not in x.axes for x in n.operands)
            for n in self.nodes)
        if self.lines:
            self.units[-1] = 1
        self.span = self.share(among) if span is None else span
        self.scratch: dict[Node, Memory] = {}
        self.prices: dict[Node, int] = {}
        self.plan()

    def share(self, among: tuple[Index, int] | None) -> tuple[Index, Index]:
        """The units of this workgroup."""
        units = math.prod(self.units)
        groups = max(1, min(GROUPS, units, cost.work(self.p) // WORTH)) if among is None else (
            among[1])
        each = -(-units // groups)
        first = memory.times(self.shell.distribute(-(-units // each)) if among is None else (
            among[0]), each)
        return first, memory.computed("minsi", memory.add(first, each), units)

    # ---- values
    def view(self, m: Memory, strides: Sequence[int]) -> Memory:
        return m.view(tuple(self.space.sizes), tuple(strides))

    def node(self, key: Any, kind: str, dtype: Dtype, *rest: Any) -> Node:
        """The only node of a key."""
        if key not in self.unique:
            self.unique[key] = Node(kind, dtype, *rest)
            self.nodes.append(self.unique[key])
        return self.unique[key]

    def follow(self, p: Program, rows: Rows, inputs: dict[Atom, Memory]) -> None:
        """The nodes of a Program; views are what they are views of."""
        self.env: dict[Atom, Node] = {}
        for k, (e, reads, made) in enumerate(zip(p.equations, rows.reads, rows.made)):
            if k in rows.views:
                continue
            if e.name == "gather":
                self.env[e.outputs[0]] = self.picked(e, reads, inputs)
                continue
            xs = [self.atom(a, axes, inputs) for a, axes in zip(e.inputs, reads)]
            name, out, dtype = e.name, e.outputs[0], e.outputs[0].aval.dtype
            key = (name, tuple(map(id, xs)), dtype,
                   e.params_key)
            ready = max([x.ready for x in xs], default=0)
            # folds of one element
            alone = is_fold(e.primitive) and set(reads[0]) - {-1} <= set(made)
            if name in EXTREMA and alone:
                zero = Literal(0, ShapedArray((), dtype))
                self.env[out] = self.node(("zero", dtype), "literal", dtype, (), 0, zero)
            elif name in (*VIEWS, "transpose") or alone:
                self.env[out] = xs[0]
            elif is_fold(e.primitive):
                self.env[out] = self.node(key, "fold", dtype, xs[0].axes - set(self.free),
                                          ready + 1, e, xs)
            elif name == "iota":
                axis = made[e.params["dimension"]]
                axes = [] if axis < 0 else [self.space.numbers[axis]]
                self.env[out] = self.node(("iota", *axes, dtype), "iota", dtype, axes)
            else:
                depends = frozenset[int]().union(*[x.axes for x in xs])
                self.env[out] = self.node(key, "map", dtype, depends, ready, e, xs,
                                          price(e.primitive))

    def atom(self, a: Atom, axes: Axes, inputs: dict[Atom, Memory]) -> Node:
        if isinstance(a, Literal):
            key = "literal", a.aval, np.asarray(a.value).tobytes()
            return self.node(key, "literal", a.aval.dtype, (), 0, a)
        if a in self.env:
            return self.env[a]
        strides = self.space.places[a, axes]
        made = self.node((a, tuple(strides)), "input", a.aval.dtype,
                         [i for i, s in enumerate(strides) if s])
        self.memories[made] = self.view(inputs[a], strides)
        return made

    def picked(self, e: Equation, reads: Sequence[Axes], inputs: dict[Atom, Memory]) -> Node:
        """Rows that a gather picks (passes/picks)."""
        x, ids = e.inputs
        assert isinstance(x, Var) and isinstance(ids, Var)  # as is_picked says
        strides = self.space.places[x, reads[0]]
        if picks.is_single(e):
            at = [self.atom(ids, reads[1], inputs)]
        else:
            m, across = inputs[ids], self.space.places[ids, reads[1]]
            at = []
            for k, _, _ in picks.positions(e):
                at.append(self.node((ids, tuple(across), k), "input", ids.aval.dtype,
                                    [i for i, s in enumerate(across) if s]))
                self.memories[at[-1]] = self.view(
                    m.view(m.shape, m.strides, k * m.strides[-1]), across)
        axes = {i for i, s in enumerate(strides) if s}.union(*[n.axes for n in at])
        key = ("gather", x, tuple(strides), tuple(map(id, at)),
               e.params_key)
        made = self.node(key, "picked", e.outputs[0].aval.dtype, axes,
                         max([n.ready for n in at], default=0), e, at,
                         EACH if any(self.last in n.axes for n in at) else 0)
        self.picks[made] = self.view(inputs[x], strides), [
            (inputs[x].strides[axis], most) for _, axis, most in picks.positions(e)]
        return made

    def pick(self, b: KernelBuilder, n: Node, at: Sequence[Value], where: list[Index]) -> Value:
        """The value that a gather gives at one place, by its positions."""
        x, entries = self.picks[n]
        each = b if any(self.last in p.axes for p in n.operands) else SCALAR
        if each.lanes < b.lanes:  # (the same in all lanes)
            at = [memory.lane(given, 0) for given in at]
        return indexing.pick(b, each, n.what, x, entries, at, where)

    def is_row(self, n: Node) -> bool:
        """Whether there is one of it in a row."""
        return n.axes.isdisjoint(self.free)

    def width(self) -> int:
        """Lanes of a vector.  Of columns there are several vectors side by side, so that memory is
        read in long runs (sum of 4096 x 4096 along axis 0: 7 to 1.3 ms), unless registers are many
        or workgroups few."""
        lanes = VECTOR // max([4, *[n.dtype.itemsize for n in self.nodes]])
        size = self.space.sizes[self.last]
        if self.columns:
            others = math.prod(self.space.sizes[i] for i in self.row_axes[:-1])
            weight = sum(n.price for n in self.nodes)
            most = 16 if weight <= LIGHT else 4 if weight <= HEAVY else 1
            if not any(self.space.folded):
                # What is long waits for itself, so several at a time; with more of them stores meet
                # loads at addresses alike but for their page (tanh of 4M f32 1.1 to 3.0 ms).
                # What picks an element for each lane is as much code as there are lanes.
                most = 4 if sum(n.kind == "picked" for n in self.nodes) <= MANY_PICKS else 2
            while most > 1 and (others * size < WIDE_UNITS * most * lanes
                                or 8 * (-size % (most * lanes)) > size):  # what is done twice
                most //= 2
            if most == 1 and size <= SHORT and not any(self.space.folded):
                return size  # a row is one vector, whatever its size
            lanes *= most
        return min(lanes, 1 << (size.bit_length() - 1))

    def rows_at_a_time(self, count: int) -> int:
        """How many short rows are one vector of so many: 1 where an array is not read so."""
        n = self.lanes
        views = [*self.memories.values(), *[m for _, m in self.targets]]
        if any(node.kind in ("picked", "iota") for node in self.nodes) or not all(
                memory.is_tile(m, n) for m in views) or any(
                m.strides[-2:] != (n, 1) for _, m in self.targets):
            return 1
        most = TILE if sum(node.price for node in self.nodes) <= HEAVY else SHORT
        return next((k for k in range(min(count, max(1, most // n)), 1, -1)
                     if 8 * (-count % k) <= count), 1)

    # ---- what each sweep does
    def plan(self) -> None:
        """Which folds and stores each sweep does, and what it keeps for a later one."""
        full = [(n, m) for n, m in self.targets if any(m.strides[i] for i in self.free)]
        self.numbers = [(n, m) for n, m in self.targets if (n, m) not in full]
        live = self.needed([n for n, _ in self.targets])
        folds = [n for n in live if n.kind == "fold"]
        count = max([0, *[n.ready + 1 for n, _ in full], *[f.ready for f in folds]])
        self.folds = [[f for f in folds if f.ready == k + 1] for k in range(count)]
        self.stores = [[(n, m) for n, m in full if n.ready == k] for k in range(count)]
        at: dict[Node, set[int]] = {}
        for k in range(count):
            for n in (*[f.operands[0] for f in self.folds[k]], *[n for n, _ in self.stores[k]]):
                at.setdefault(n, set()).add(k)
        for n in reversed(self.nodes):
            if n not in at or n.kind not in ("map", "picked") or self.is_row(n):
                continue
            if max(at[n]) > n.ready and self.again(n) > AGAIN:
                at[n] = {n.ready}
                kept = next((m for v, m in full if v is n), None)
                if kept is None:
                    kept = self.room(n)
                    self.stores[n.ready].append((n, kept))
                self.scratch[n] = kept
            for x in n.operands:
                at.setdefault(x, set()).update(at[n])

    def needed(self, wanted: Iterable[Node]) -> list[Node]:
        found = set(wanted)
        for n in reversed(self.nodes):
            if n in found:
                found.update(n.operands)
        return [n for n in self.nodes if n in found]

    def again(self, n: Node) -> int:
        """What it costs to compute a value once more."""
        if n not in self.prices:
            self.prices[n] = 0 if n.kind not in ("map", "picked") or self.is_row(n) else (
                n.price + sum(map(self.again, n.operands)))
        return self.prices[n]

    def room(self, n: Node) -> Memory:
        """Scratch for the values of one row (of as many as there are lanes)."""
        sizes = [self.space.sizes[i] if i in self.free else 1 for i in range(self.last + 1)]
        if self.columns:
            sizes[self.last] = self.lanes
        made = self.shell.allocate(tuple(sizes), n.dtype)
        strides = [s if k > 1 else 0 for s, k in zip(made.strides, sizes)]
        return made.view(made.shape, strides)

    # ---- emission
    def emit(self) -> None:
        def unit(u: Index) -> list[Any]:
            where = indices_of(u, self.units)
            if self.lines:
                self.line(where)
                return []
            if self.block == 1:
                self.row(where)
                return []

            size = self.space.sizes[self.row_axes[-2]]

            def one(i: Index) -> list[Any]:
                at = memory.times(i, self.tile)
                if size % self.tile:  # the last one begins earlier
                    at = memory.computed("minsi", at, size - self.tile)
                self.row([*where[:-2], at, where[-1]])
                return []

            start = memory.times(where[-2], self.block)
            memory.loop(memory.computed("minsi", memory.add(start, self.block),
                                        -(-size // self.tile)), one, start=start)
            return []

        first, end = self.span
        memory.loop(end, unit, start=first)

    def line(self, where: list[Index]) -> None:
        """A row by vectors, the positions of what it picks computed before."""
        self.where: list[Index] = [0] * (self.last + 1)
        for axis, i in zip(self.row_axes, where):
            self.where[axis] = i
        at = [x for n in self.nodes if n.kind == "picked" for x in n.operands]
        b = KernelBuilder(self.lanes) if self.lanes > 1 else SCALAR
        for n in self.needed([x for x in at if self.last not in x.axes]):
            self.fixed[n] = self.computed(b, n, self.fixed, self.where)

        def one(i: Index) -> list[Any]:
            self.row([*where[:-1], i])
            return []

        memory.loop(-(-self.space.sizes[self.last] // self.lanes), one)

    def row(self, where: list[Index]) -> None:
        """All of one row, or of as many columns as there are lanes."""
        self.where = [0] * (self.last + 1)
        for axis, i in zip(self.row_axes, where):
            self.where[axis] = i
        lanes = self.tile * self.lanes
        self.across = KernelBuilder(lanes) if self.columns and lanes > 1 else SCALAR
        if self.columns and self.lanes > 1:
            at = memory.times(where[-1], self.lanes)
            n = self.space.sizes[self.last]
            if n % self.lanes:  # the last vector begins earlier, over columns that are done twice
                at = memory.computed("minsi", at, n - self.lanes)
            self.where[self.last] = at
        self.values: dict[Node, Value] = {}  # numbers of the row
        if not self.free:
            emit_stretch(self)
            return
        for k in range(len(self.folds)):
            self.sweep(k)
        for node, m in self.numbers:
            memory.store(self.across, self.number(node), m, self.where)

    def number(self, n: Node) -> Value:
        """A value that a row has one of."""
        for x in self.needed([n]):
            if x not in self.values and x.kind != "fold" and self.is_row(x):
                self.values[x] = self.computed(self.across, x, self.values, self.where)
        return self.values[n]

    def computed(self, b: KernelBuilder, n: Node, env: dict[Node, Value],
                 where: list[Index]) -> Value:
        """The value of a node at one place, of whose operands env knows the values."""
        if n.kind == "literal":
            return b.splat(n.what.value, (), n.dtype)
        if n.kind == "input":
            if self.tile > 1:
                return memory.load_tile(b, self.memories[n], where, self.lanes)
            return memory.load(b, self.memories[n], where)
        if n.kind == "picked":
            return self.pick(b, n, [env[x] for x in n.operands], where)
        if n.kind == "iota":
            return self.counted(b, n, where)
        return self.shell.apply(b, n.what, [env[x] for x in n.operands])

    def counted(self, b: KernelBuilder, n: Node, where: list[Index]) -> Value:
        """The index along an axis."""
        from calque.lowering.math import convert
        if not n.axes:
            return b.splat(0, (), n.dtype)
        return convert(b, self.place(b, next(iter(n.axes)), where), n.dtype)

    def place(self, b: KernelBuilder, axis: int, where: list[Index]) -> Value:
        if axis == self.last:
            return memory.numbers(b, where[axis])
        return b.to_lanes(memory.number(where[axis]))

    def sweep(self, k: int) -> None:
        """Folds and stores of sweep k."""
        folds, stores = self.folds[k], self.stores[k]
        wanted = [*[f.operands[0] for f in folds], *[n for n, _ in stores]]
        order = self.within(wanted, k)
        for n in order:
            if self.is_row(n):
                self.number(n)
        how = [fold_of(f.what) for f in folds]

        def body(b: KernelBuilder, where: list[Index], mask: Value | None,
                 totals: list[Value]) -> list[Value]:
            def place() -> Value:
                return self.place(b, self.free[0], where)

            env: dict[Node, Value] = {}
            for n in order:
                if self.is_row(n):
                    v = self.values[n]
                    env[n] = b.to_lanes(v) if v.b is SCALAR and b.lanes > 1 else v
                elif n in self.scratch and n.ready < k:
                    env[n] = memory.load(b, self.scratch[n], self.local(n, where))
                else:
                    env[n] = self.computed(b, n, env, where)
            for n, m in stores:
                memory.store(b, env[n], m, self.local(n, where) if m is self.scratch.get(n)
                             else where)
            made: list[Value] = []
            for f, fold in zip(folds, how):
                mine = totals[len(made):len(made) + len(fold.specs)]
                made += fold.take(b, mine, env[f.operands[0]], mask, place)
            return made

        totals = self.through(body, how, sum(n.price for n in order if not self.is_row(n)))
        for f, fold, total in zip(folds, how, totals):
            self.values[f] = fold.result(self.across, total)

    def within(self, wanted: Sequence[Node], k: int) -> list[Node]:
        """The values that sweep k computes or reads, in order."""
        found = set(wanted)
        for n in reversed(self.nodes):
            if n in found and not self.is_row(n) and not (n in self.scratch and n.ready < k):
                found.update(n.operands)
        return [n for n in self.nodes if n in found]

    def local(self, n: Node, where: list[Index]) -> list[Index]:
        """Where in scratch a value of the row lies."""
        if n not in self.scratch or not self.columns or any(
                self.scratch[n] is m for _, m in self.targets):
            return where
        return [*where[:self.last], 0]

    # ---- loops
    def through(self, body: Callable[..., list[Value]], folds: list[Fold], weight: int
                ) -> list[list[Value]]:
        """Body at all places of a row; the accumulators of each fold."""
        b = KernelBuilder(self.lanes) if self.lanes > 1 else SCALAR
        outer = [i for i in self.free if i != self.last]
        many = 1 if self.columns or self.lanes == 1 or weight > HEAVY else (
            4 if weight <= LIGHT else 2)
        many = max(1, min(many, self.space.sizes[self.last] // self.lanes))
        chains = Chains(b, folds)

        def line(axes: list[int], where: list[Index], carry: list[Any]) -> list[Any]:
            if axes:
                def step(i: Index, *raw: Any) -> list[Any]:
                    return line(axes[1:], _put(where, axes[0], i), list(raw))
                return chains.loop(self.space.sizes[axes[0]], 1, step, carry)
            if self.columns:
                return [v.ir for v in body(b, where, None, chains.values(carry))]
            return self.strip(chains, many, body, where, carry)

        found = chains.joined(line(outer, self.where, chains.start * many))
        return found if self.columns else [across(f, xs) for f, xs in zip(folds, found)]

    def strip(self, chains: Chains, many: int, body: Callable[..., list[Value]],
              where: list[Index], carry: list[Any]) -> list[Any]:
        """Body along the last axis: several vectors a step, then one, then what is left, whose
        vector begins earlier."""
        n, b, k = self.space.sizes[self.last], chains.b, len(chains.start)

        def some(count: int) -> Callable[..., list[Any]]:
            def step(i: Index, *raw: Any) -> list[Any]:
                out = []
                for c in range(count):
                    at = _put(where, self.last, memory.add(i, c * b.lanes))
                    out += [v.ir for v in body(b, at, None, chains.values(raw[c * k:]))]
                return [*out, *raw[count * k:]]
            return step

        wide = many * b.lanes
        stop, whole = n // wide * wide, n // b.lanes * b.lanes
        carry = chains.loop(stop, wide, some(many), carry)
        carry = memory.loop(whole, some(1), carry, start=stop, step=b.lanes)
        if whole < n:
            mask = memory.constant(b, [j >= whole - n + b.lanes for j in range(b.lanes)], BOOL)
            last = body(b, _put(where, self.last, n - b.lanes), mask, chains.values(carry))
            carry = [*[v.ir for v in last], *carry[k:]]
        return carry


def _strides(m: Memory, axes: Axes, rank: int) -> Shape:
    """How far apart neighbours along each axis of the space lie in an array."""
    found = [0] * rank
    for axis, step in zip(axes, m.strides):
        if axis >= 0:
            found[axis] = step
    return tuple(found)


def indices_of(u: Index, sizes: Sequence[int]) -> list[Index]:
    """The place of a number in row-major order."""
    found: list[Index] = []
    for n in reversed(sizes[1:]):
        at = n if isinstance(u, int) else memory.index(n)
        found.append(memory.remainder(u, at))
        u = memory.quotient(u, at)
    return [*([u] if sizes else []), *reversed(found)]


def _put(where: list[Index], axis: int, i: Index) -> list[Index]:
    return [*where[:axis], i, *where[axis + 1:]]
