"""What a pallas_call is on whole arrays.

Axes of the grid whose cells write blocks of their own are mapped: each becomes a batch axis of the
body (an array is reshaped into its blocks, and nothing is copied where that is all).  The other
axes, and all where scratch is handed from cell to cell, are a scan in the grid's order: a block
that a cell finds as another left it is carried.  What the body does at certain steps only
(`when(program_id(2) == 0)`) cuts the scan into runs without branches.
Which axes these are, follows from the values of the index maps, known here (layout.py).
Start reading at `expanded`.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray, aval_of, dtype_of, shape_of
from calque.core.evaluate import replay
from calque.core.lists import flagged
from calque.core.program import Equation, Program, Var, eliminate_dead_code
from calque.core.types import Shape
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.primitives.control import scan
from calque.primitives.gather import GatherScatterMode, ScatterDimensionNumbers
from calque.primitives.index import dynamic_update_slice
from calque.primitives.known import choices
from calque.primitives.layout import Block, Layout, layout_of, places
from calque.primitives.scatter import scatter, scatter_p
from calque.primitives.simplify import simplified
from calque.primitives.steps import scanned
from calque.transforms.stage import stage
from calque.transforms.vmap import all_to_front, broadcast_axis, move_axis, vmap_flat

MOST_RUNS = 4  # parts into which a scan is cut; more stay one with branches
MOST_BYTES = 1 << 28  # of an intermediate result of all cells that are computed at once
LARGE = 4  # times the operands and results: such intermediate results are looked at
MOST_FACTS = 1 << 20  # cells up to which values of all axes together are looked at
Where = dict[int, int]  # axis of the grid -> axis of an array


def unset(aval: ShapedArray) -> Any:
    """What nobody has written, and what lies outside of an array: NaN, the smallest integer."""
    return sh.broadcast_in_dim(_blank(aval.dtype), aval.shape, ())


def _blank(dtype: Any) -> Any:
    if dtypes.is_inexact(dtype):
        return np.full((), np.nan).astype(dtype)[()]
    if dtype == dtypes.bool_:
        return np.False_
    return np.asarray(dtypes.iinfo(dtype).min, dtype)[()]


def expanded(jaxpr: Program, grid: Shape, blocks: Sequence[Block],
             index_maps: Sequence[Program], out_avals: Sequence[ShapedArray],
             aliases: dict[int, int]) -> Program:
    """The Program of whole operands and results; aliases: result -> operand whose values it has
    before."""
    n_out = len(out_avals)
    n_in = len(blocks) - n_out
    avals = [ShapedArray(b.shape, a.dtype) for b, a in zip(
        blocks, jaxpr.in_avals[len(grid):])][:n_in]

    def run(*xs: Any) -> list[Any]:
        before = [xs[aliases[o]] if o in aliases else None for o in range(n_out)]
        if 0 in grid:
            return [unset(a) if x is None else x for a, x in zip(out_avals, before)]
        layouts = [layout_of(b, m, grid) for b, m in zip(blocks, index_maps)]
        return _Cells(jaxpr, grid, layouts, out_avals, n_in).run(xs, before)

    return eliminate_dead_code(_spread_once(stage(run, avals, jaxpr.name)))


def _spread_once(p: Program) -> Program:
    """p without broadcasts of broadcasts, which vmaps in vmaps make."""
    made: dict[Any, Equation] = {}
    equations = []
    for e in p.equations:
        if e.primitive is sh.broadcast_in_dim_p:
            inner = made.get(e.inputs[0])
            if inner is not None:
                name = "broadcast_dimensions"
                dims = tuple(e.params[name][i] for i in inner.params[name])
                e = e.replace(inputs=inner.inputs, params={**e.params, name: dims})
            made[e.outputs[0]] = e
        equations.append(e)
    return p.replace(equations=equations)


class _Cells:
    """One pallas_call: which axes are mapped, which are steps, and what is carried."""

    def __init__(self, body: Program, grid: Shape, layouts: Sequence[Layout],
                 out_avals: Sequence[ShapedArray], n_in: int) -> None:
        self.body, self.grid, self.out_avals = body, grid, out_avals
        self.rank, self.n_in, self.n_out = len(grid), n_in, len(out_avals)
        self.ins, self.outs = layouts[:n_in], layouts[n_in:]
        self.blocks = body.in_avals[self.rank:self.rank + n_in + self.n_out]
        self.scratch = body.in_avals[self.rank + n_in + self.n_out:]
        self.carried = self._carried()
        self._divide()

    # ---- decisions
    def _facts(self, steps: Sequence[int] = (), run: tuple[int, int] | None = None,
               ) -> list[Any]:
        """What is known of the cell's place in a run of steps."""
        facts: list[Any] = list(places(self.grid))
        if math.prod(self.grid) > MOST_FACTS:
            facts = [f if f.size == 1 else None for f in facts]
        if steps and run is not None:
            shape = [self.grid[s] for s in steps]
            at = np.unravel_index(np.arange(*run), shape)
            for s, values in zip(steps, at):  # beside the axes of the grid
                facts[s] = values.astype(np.int32).reshape((-1,) + (1,) * self.rank)
        return facts

    def _depends(self, facts: Sequence[Any]) -> list[set[int]]:
        """For each result of the body which of its inputs it is computed of."""
        p = self._staged(facts)
        number = {v: i for i, v in enumerate(p.inputs)}
        found: dict[Any, set[int]] = {v: {i} for v, i in number.items()}
        for e in p.equations:
            of: set[int] = set().union(*[found.get(a, set()) for a in e.inputs])
            found.update(dict.fromkeys(e.outputs, of))
        return [found.get(o, set()) for o in p.outputs]

    def _carried(self) -> list[bool]:
        """Which scratch arrays a cell may read as another left them."""
        if not self.scratch:
            return []
        depends = self._depends(self._facts())
        first = self.rank + self.n_in + self.n_out
        needed = {i for of in depends[:self.n_out] for i in of if i >= first}
        more = set(needed)
        while more:
            more = {i for j in more for i in depends[self.n_out + j - first] if i >= first} - needed
            needed |= more
        return [first + j in needed for j in range(len(self.scratch))]

    def _divide(self) -> None:
        """Which axes are mapped and which are steps."""
        every = [g for g in range(self.rank) if self.grid[g] > 1]
        own = [g for g in every if all(o.separates(g) for o in self.outs)]
        if any(self.carried):
            count = next((i for i, g in enumerate(every) if g not in own), len(every))
            while count and not self._fresh(every[count:]):
                count -= 1
            own = every[:count]
        steps = [g for g in every if g not in own]
        self.kinds = [self._kind(o, steps) for o in self.outs]
        if own and "whole" in self.kinds:
            own, steps = [], every
            self.kinds = [self._kind(o, steps) for o in self.outs]
        self.mapped, self.steps = own, steps
        self.count = math.prod(self.grid[g] for g in steps)
        # mapped axes of which so many places are taken at once, the others one after another
        self.looped: dict[int, int] = {}
        need, self.cells = _largest(self._staged(self._facts())), math.prod(
            self.grid[g] for g in own)
        arrays = sum(math.prod(x.size) * b.dtype.itemsize
                     for x, b in zip([*self.ins, *self.outs], self.blocks))
        most = max(MOST_BYTES, LARGE * arrays)
        for g in own:
            if need * self.cells <= most:
                break
            rest = self.cells // self.grid[g]
            self.looped[g] = max([1] + [c for c in range(1, self.grid[g]) if self.grid[g] % c == 0
                                        and need * rest * c <= most])
            self.cells = rest * self.looped[g]

    def _fresh(self, steps: Sequence[int]) -> bool:
        """Whether the first of these steps reads no scratch."""
        depends = self._depends(self._facts(steps, (0, 1)))
        first = self.rank + self.n_in + self.n_out
        kept = [*depends[:self.n_out],
                *flagged(depends[self.n_out:], self.carried)]
        return not any(i >= first for of in kept for i in of)

    def _kind(self, out: Layout, steps: Sequence[int]) -> str:
        """How the blocks of a result pass from step to step: one is `kept`, each step has its own
        (`stacked`), or any may come again, so that the array is carried (`whole`)."""
        if not any(g in out.axes for g in steps):
            return "kept"
        return "stacked" if all(out.separates(g) for g in steps) else "whole"

    # ---- the Program
    def run(self, xs: Sequence[Any], before: Sequence[Any]) -> list[Any]:
        read = [*zip(self.ins, xs), *zip(self.outs, before)]
        self.forms = [self._form(x, layout) for layout, x in read]
        values, where = [], []
        for form, (layout, x) in zip(self.forms, read):
            padded = None if x is None else layout.padded(x, _blank(dtype_of(x)))
            if form == "blocks":
                padded, at = layout.split(padded)
                where.append(at)
            else:
                where.append({})
            values.append(0 if padded is None else padded)
        values += [sh.iota(np.int32, (self.grid[g],)) for g in self.mapped]
        where += [{g: 0} for g in self.mapped]
        outs, found = _mapped(self.mapped, self.grid, values, where, self._sequence, self.looped)
        return [self._joined(o, p, k, layout, a, b) for o, p, k, layout, a, b in zip(
            outs, found, self.kinds, self.outs, self.out_avals, before)]

    def _form(self, x: Any, layout: Layout) -> str:
        """How a cell gets its block: from an array of `blocks`, of the `whole`, or of `nothing`."""
        if x is None:
            return "nothing"
        inside = [g for g in layout.axes if g in self.steps]
        return "blocks" if layout.orders is not None and (
            not inside or len(inside) == len(self.steps)) else "whole"

    def _sequence(self, values: Sequence[Any], where: Sequence[Where]
                  ) -> tuple[list[Any], list[Where]]:
        """The steps of one cell of the mapped axes: for each result its block, blocks or array."""
        n = self.n_in + self.n_out
        arrays = [self._stepped(x, at) for x, at in zip(values[:n], where)]
        self.stacked = [bool(at) for at in where[:n]]
        self.place = dict(zip(self.mapped, values[n:]))
        state = self._start(arrays)
        stacks: list[list[Any]] = [[] for _ in self.outs]
        runs = self._runs()
        begun = self._begun(runs)
        if begun is not None:  # the first step is one of the others that starts from these
            state = [x if y is None else y for x, y in zip(state, begun)]
            runs = [(0, runs[1][1]), *runs[2:]]
        for i, (first, last) in enumerate(runs):
            state, made = self._run(first, last, arrays, state, i == 0 and begun is not None)
            for stack, y in zip(stacks, made):
                stack.append(y)
        outs, positions = [], []
        shape = tuple(self.grid[g] for g in self.steps)
        kept = iter(state)
        for kind, stack in zip(self.kinds, stacks):
            if kind == "stacked":
                y = stack[0] if len(stack) == 1 else sh.concatenate(stack, 0)
                outs.append(sh.reshape(y, (*shape, *shape_of(y)[1:])))
                positions.append({g: i for i, g in enumerate(self.steps)})
            else:
                outs.append(next(kept))
                positions.append({})
        return outs, positions

    def _stepped(self, x: Any, at: Where) -> Any:
        """An array of blocks with one leading axis for all steps."""
        if not at:
            return x
        shape = shape_of(x)
        lead = [at[g] for g in self.steps]
        rest = [i for i in range(len(shape)) if i not in lead]
        if [*lead, *rest] != list(range(len(shape))):
            x = sh.transpose(x, [*lead, *rest])
        return sh.reshape(x, (self.count, *[shape[i] for i in rest]))

    def _start(self, arrays: Sequence[Any]) -> list[Any]:
        """What is carried before the first step: blocks kept, arrays, scratch."""
        state = []
        for i, kind in enumerate(self.kinds):
            x, layout, form = arrays[self.n_in + i], self.outs[i], self.forms[self.n_in + i]
            if kind == "kept":
                state.append(self._block(self.n_in + i, x, self._pids([np.int32(0)] * len(
                    self.steps)), 0))
            elif kind == "whole":
                state.append(x if form != "nothing" else unset(ShapedArray(
                    layout.size, self.out_avals[i].dtype)))
        return state + [unset(a) for a, c in zip(self.scratch, self.carried) if c]

    def _pids(self, steps: Sequence[Any]) -> list[Any]:
        place = {**self.place, **dict(zip(self.steps, steps))}
        return [place.get(g, np.int32(0)) for g in range(self.rank)]

    def _block(self, i: int, x: Any, pids: Sequence[Any], step: int | None) -> Any:
        """The block of array i; step: which one of a stack, None where x is a row of it."""
        layout = [*self.ins, *self.outs][i]
        if self.forms[i] == "nothing":
            return unset(self.blocks[i])
        if self.forms[i] == "whole":
            return layout.read(x, pids)
        if self.stacked[i] and step is not None:
            x = sh.slice_in_dim(x, step, step + 1, 0)
            return sh.reshape(x, shape_of(x)[1:])
        return x

    def _runs(self) -> list[tuple[int, int]]:
        """Steps first to last - 1 in which the same branches are taken."""
        if self.count == 1:
            return [(0, 1)]
        at = np.unravel_index(np.arange(self.count), [self.grid[g] for g in self.steps])
        known: dict[Var, Any] = {self.body.inputs[g]: values.astype(np.int32)
                                 for g, values in zip(self.steps, at)}
        known.update({self.body.inputs[g]: np.int32(0)
                      for g in range(self.rank) if self.grid[g] == 1})
        cuts: set[int] = set()
        for index in choices(self.body, known):
            if np.ndim(index) == 1:
                cuts.update((np.flatnonzero(np.diff(index)) + 1).tolist())
        if len(cuts) >= MOST_RUNS:
            cuts = set()
        ends = [0, *sorted(cuts), self.count]
        return list(zip(ends, ends[1:]))

    def _begun(self, runs: Sequence[tuple[int, int]]) -> list[Any] | None:
        """What steps carry before the first one, where that only sets this (`when(k == 0)`) and
        then does what the second run does; None for what it does not set.  None: it does more."""
        if len(runs) < 2 or runs[0] != (0, 1) or "whole" in self.kinds:
            return None
        zeroth, later = (self._staged(self._facts(self.steps, run)) for run in runs[:2])
        start, n = self.rank + self.n_in, self.n_out
        carried = [i for i, k in enumerate(self.kinds) if k == "kept"] + [
            n + i for i, c in enumerate(self.carried) if c]
        made = {v: e for e in zeroth.equations for v in e.outputs}
        found: dict[Any, Any] = {}
        closure: set[int] = set()
        for i in carried:
            e = made.get(zeroth.outputs[i])  # type: ignore[arg-type]
            for a in e.inputs if e is not None and len(e.inputs) == 2 else ():
                needs = _closure(a, made, zeroth.inputs)
                if needs is not None and a.aval == self.body.inputs[start + i].aval:
                    found[later.inputs[start + i]] = a
                    closure |= needs
        first = [e for e in zeroth.equations if id(e) in closure]
        begun = Program(later.inputs, [*first, *[e.replace(inputs=tuple(
            found.get(a, a) for a in e.inputs)) for e in later.equations]],
            [found.get(o, o) for o in later.outputs])
        if not found or eliminate_dead_code(begun).key() != zeroth.key():
            return None
        values = iter(replay(Program([], first, list(found.values()))))
        return [next(values) if later.inputs[start + i] in found else None for i in carried]

    def _staged(self, facts: Sequence[Any]) -> Program:
        rest = [None] * (len(self.body.inputs) - self.rank)
        return eliminate_dead_code(stage(
            lambda *xs: simplified(self.body, xs, [*facts, *rest]), self.body.in_avals))

    def _run(self, first: int, last: int, arrays: Sequence[Any], state: Sequence[Any],
             begun: bool = False) -> tuple[list[Any], list[Any]]:
        """(what is carried, what is stacked) after the steps first to last - 1; begun: the first
        one does what the others do."""
        facts = self._facts(self.steps, (first + begun, last))
        if last - first == 1:
            at = np.unravel_index(first, [self.grid[g] for g in self.steps]) if self.steps else ()
            pids = self._pids([np.int32(i) for i in at])
            state, ys = self._cell(arrays, pids, state, facts, first)
            return state, [y if y is None else broadcast_axis(y, 1, 0) for y in ys]
        rows = [i for i, s in enumerate(self.stacked) if s]
        consts = [i for i, s in enumerate(self.stacked) if not s]
        own = [self.place[g] for g in self.mapped]
        fixed = [*own, *[arrays[i] for i in consts]]
        taken = [arrays[i] if last - first == self.count else sh.slice_in_dim(
            arrays[i], first, last, 0) for i in rows]

        def step(*values: Any) -> list[Any]:
            it = iter(values)
            place = {g: next(it) for g in self.mapped}
            given: dict[int, Any] = {i: next(it) for i in consts}
            index = next(it)
            carried = [next(it) for _ in state]
            given.update({i: next(it) for i in rows})
            held, self.place = self.place, place
            try:
                new, ys = self._cell([given[i] for i in range(len(arrays))],
                                     self._pids(self._unraveled(index)), carried, facts, None)
            finally:
                self.place = held
            return [ew.add(index, np.int32(1)), *new, *[y for y in ys if y is not None]]

        body = stage(step, [*[aval_of(x) for x in (*fixed, np.int32(first), *state)], *[
            aval_of(x).of_shape(shape_of(x)[1:]) for x in taken]], self.body.name)
        outs = scanned(body, fixed, first, state, taken, last - first, self.cells)
        made = iter(outs[1 + len(state):])
        return outs[1:1 + len(state)], [next(made) if k == "stacked" else None for k in self.kinds]

    def _unraveled(self, index: Any) -> list[Any]:
        """Places along the steps' axes of a step's number."""
        if len(self.steps) == 1:
            return [index]
        found = []
        for g in reversed(self.steps):
            found.append(ew.rem(index, np.int32(self.grid[g])))
            index = ew.div(index, np.int32(self.grid[g]))
        return found[::-1]

    def _cell(self, arrays: Sequence[Any], pids: Sequence[Any], state: Sequence[Any],
              facts: Sequence[Any], step: int | None) -> tuple[list[Any], list[Any]]:
        """(what is carried, blocks that are stacked) after one cell."""
        ins = [self._block(i, arrays[i], pids, step) for i in range(self.n_in)]
        carried = iter(state)
        before, wholes = [], []
        for o, kind in enumerate(self.kinds):
            if kind == "stacked":
                before.append(self._block(self.n_in + o, arrays[self.n_in + o], pids, step))
                continue
            x = next(carried)
            wholes.append(x)
            before.append(self.outs[o].read(x, pids) if kind == "whole" else x)
        scratch = [next(carried) if c else unset(a) for a, c in zip(self.scratch, self.carried)]
        values = [*pids, *ins, *before, *scratch]
        facts = [*facts, *[None] * (len(values) - self.rank)]
        outs = simplified(self.body, values, facts, self.cells)
        new, ys = [], []
        for o, kind in enumerate(self.kinds):
            ys.append(outs[o] if kind == "stacked" else None)
            if kind != "stacked":
                x = wholes.pop(0)
                new.append(self.outs[o].written(x, outs[o], pids) if kind == "whole" else outs[o])
        return new + flagged(outs[self.n_out:], self.carried), ys

    # ---- results
    def _joined(self, x: Any, at: Where, kind: str, layout: Layout, aval: ShapedArray,
                before: Any) -> Any:
        """The array of a result's blocks."""
        if kind == "whole":
            return layout.cut(x)
        if layout.orders is not None:
            made, first = layout.joined(x, at)
            if shape_of(made) == layout.size:
                return layout.cut(made)
            array = self._before(layout, aval, before)
            return layout.cut(dynamic_update_slice(array, made, [np.int32(i) for i in first]))
        return layout.cut(self._scattered(x, at, layout, self._before(layout, aval, before)))

    def _before(self, layout: Layout, aval: ShapedArray, before: Any) -> Any:
        if before is None:
            return unset(ShapedArray(layout.size, aval.dtype))
        return layout.padded(before, _blank(aval.dtype))

    def _scattered(self, x: Any, at: Where, layout: Layout, array: Any) -> Any:
        """Blocks written where their index map says."""
        axes = sorted(at)
        shape = shape_of(x)
        lead = [at[g] for g in axes]
        rest = [i for i in range(len(shape)) if i not in lead]
        x = sh.transpose(x, [*lead, *rest])
        cells = tuple(self.grid[g] for g in axes)
        count, ndim = math.prod(cells), len(layout.size)
        x = sh.reshape(x, (count, *layout.block.sizes))
        iotas = [sh.reshape(sh.iota(np.int32, cells, i), (count,)) for i in range(len(axes))]

        def starts(*places: Any) -> list[Any]:
            pids = dict(zip(axes, places))
            return layout.starts_at([pids.get(g, np.int32(0)) for g in range(self.rank)])

        found, dims = vmap_flat(starts, count, iotas, [0] * len(axes), devices=False)
        columns = [sh.reshape(s, (count, 1)) if d is not None else sh.broadcast_in_dim(
            s, (count, 1), ()) for s, d in zip(found, dims)]
        return scatter(scatter_p, array, sh.concatenate(columns, 1), x, ScatterDimensionNumbers(
            tuple(range(1, ndim + 1)), (), tuple(range(ndim))), mode=GatherScatterMode.CLIP)


def _closure(a: Any, made: dict[Any, Equation], inputs: Sequence[Any]) -> set[int] | None:
    """The equations that lead to a constant; None where an input does."""
    found: set[int] = set()
    wanted = [a]
    while wanted:
        a = wanted.pop()
        if a in inputs:
            return None
        e = made.get(a)
        if e is not None and id(e) not in found:
            found.add(id(e))
            wanted += e.inputs
    return found


def _cut(x: Any, size: int) -> Any:
    """An array with its leading axis in parts of a size."""
    n, *rest = shape_of(x)
    return sh.reshape(x, (n // size, size, *rest))


def _largest(p: Program) -> int:
    """Bytes of the largest result in a Program that is computed of arrays."""
    found = [0]
    for e in p.equations:
        if any(a.aval.shape for a in e.inputs) and e.name != "broadcast_in_dim":
            found += [v.aval.nbytes for v in e.outputs]
        found += map(_largest, e.inner)
    return max(found)


def _mapped(axes: Sequence[int], grid: Shape, values: Sequence[Any],
            where: Sequence[Where], f: Callable[..., tuple[list[Any], list[Where]]],
            looped: dict[int, int]) -> tuple[list[Any], list[Where]]:
    """f under a vmap for each axis, or for so many places of it in a loop; where: which axis of a
    value belongs to one of the grid's."""
    if not axes:
        return f(values, where)
    g = axes[0]
    inner_at: list[Where] = []
    dims = [at.get(g) for at in where]
    inner = [{a: i - (d is not None and i > d) for a, i in at.items() if a != g}
             for at, d in zip(where, dims)]

    def run(*xs: Any) -> list[Any]:
        outs, at = _mapped(axes[1:], grid, xs, inner, f, looped)
        inner_at[:] = at
        return outs

    if g in looped:
        size = looped[g]
        rows = [_cut(move_axis(x, d, 0), size) for x, d in zip(values, dims) if d is not None]
        consts = [x for x, d in zip(values, dims) if d is None]

        def step(*xs: Any) -> list[Any]:
            fixed, some = iter(xs[:len(consts)]), iter(xs[len(consts):])
            outs, found = vmap_flat(
                run, size, [next(fixed) if d is None else next(some) for d in dims],
                [None if d is None else 0 for d in dims], devices=False, spmd=())
            return all_to_front(outs, found, size)

        body = eliminate_dead_code(stage(step, [aval_of(x) for x in consts] + [
            aval_of(x).of_shape(shape_of(x)[1:]) for x in rows]))
        outs = [sh.reshape(o, (grid[g], *shape_of(o)[2:]))
                for o in scan(body, consts, [], rows, length=grid[g] // size)]
        return outs, [{g: 0, **{a: i + 1 for a, i in at.items()}} for at in inner_at]
    outs, found = vmap_flat(run, grid[g], values, dims, devices=False, spmd=())
    made, positions = [], []
    for o, d, at in zip(outs, found, inner_at):
        made.append(broadcast_axis(o, grid[g], 0) if d is None else o)
        d = d or 0
        positions.append({g: d, **{a: i + (i >= d) for a, i in at.items()}})
    return made, positions


__all__ = ["Block", "expanded", "unset"]
