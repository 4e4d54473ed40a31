"""Programs of small arrays, number by number: an array is a NumPy array of symbols.

`Scalars` evaluates a Program so; what a symbol is, and what computes one from others, an
`Arithmetic` says: a count (`counted`, below) or values in registers (kernels/registers).  Shape
operations move symbols about and cost nothing, and integers and bools that are known (iota, the
step of a loop that is written out, what follows from them) are NumPy's numbers, so that what they
choose is chosen here.
Start reading at `Scalars.run`.
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from calque.core.dims import is_static
from calque.core.lists import other_axes, split_list, without
from calque.core.program import Atom, Equation, Literal, Program, Var
from calque.core.types import Dtype, Function, Params, Shape
from calque.lowering.emit.dtypes import BOOL, summed
from calque.lowering.passes.loops import DTYPES, decomposition, is_map
from calque.lowering.plan.refusal import Refusal

Grid = Any  # a NumPy array of symbols and of NumPy numbers
Symbol = Any
Start = tuple[Symbol, int, int]  # of a window, its axis, the greatest

ONE_ROW = 1 << 14  # numbers of a matrix of which a scatter of a single row goes the way of several
FOLDS = {"reduce_sum": "add", "reduce_prod": "multiply", "reduce_max": "maximum",
         "reduce_min": "minimum", "reduce_and": "and", "reduce_or": "or"}
KNOWN: dict[str, Function] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "max": np.maximum,
    "min": np.minimum, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "not": np.invert, "copy": lambda x: x}
_EXACT = frozenset(np.dtype(t) for t in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4",
                                         "f8"))  # NumPy rounds these as the CPU does
TABLE = 32  # elements of a loop's constant above which registers do not hold it
PICK = 4  # what an element at a row's own position costs, an addition being 1
FUNCTION = 16  # what a function costs in code, an addition being 1


READING = frozenset((  # what takes a Table
    "dynamic_slice", "gather", "jit", "cond", "scan", "while"))
JOINS = {"scatter": "", "scatter-add": "add", "scatter-sub": "subtract", "scatter-mul": "multiply",
         "scatter-min": "minimum", "scatter-max": "maximum"}
_ROWS = ((1,), (0,), (0,), (), ())  # dimension numbers of a scatter of rows
_JOINED = frozenset(map(np.dtype, ("float32", "float64", "int32", "int64")))


def is_of_rows(x: Any, indices: Any, params: Params) -> bool:
    """Whether a scatter writes whole rows of a matrix, at one number each, but for those outside:
    what a kernel does as it is (primitives/outside writes others so)."""
    return (params["dimension_numbers"] == _ROWS and params["mode"].name == "FILL_OR_DROP"
            and x.dtype in _JOINED and indices.dtype == np.int32 and len(indices.shape) == 2
            and is_static((*x.shape, *indices.shape)) and math.prod(x.shape) > 1
            and (indices.shape[0] > 1 or math.prod(x.shape) >= ONE_ROW))


class Unfit(Exception):
    """Something that has no form number by number.

    Attributes:
      why: the fact, and the number that is met, which is known here; `run` knows the equation.
    """

    def __init__(self, fact: str = "not by numbers", n: int = 0, limit: int = 0) -> None:
        self.why = Refusal(None, fact, n, limit)


def grid(shape: Sequence[int], symbols: Sequence[Symbol]) -> Grid:
    """An array of symbols, given in order."""
    out = np.empty(len(symbols), object)
    out[:] = symbols
    return out.reshape(tuple(shape))


def is_known(s: Symbol) -> bool:
    """Whether a symbol is a number that is known when the program is compiled."""
    return isinstance(s, np.generic)


class Table:
    """An array that stays in memory, of which elements at any position are read: parts of a size
    at starts that all rows share, and (`pick`) elements at positions of each row's own: where
    window starts are brought to (a start, its axis, the greatest), and where in it."""

    def __init__(self, shape: Shape, take: Callable[[list[Symbol], tuple[int, ...]], Grid],
                 pick: Callable[[list[Start], Sequence[int]], Symbol] | None = None) -> None:
        self.shape, self.take, self.pick = shape, take, pick

    @property
    def ndim(self) -> int:
        return len(self.shape)


class Arithmetic(Protocol):
    """What computes one symbol from others."""

    def constant(self, value: Any, dtype: Dtype) -> Symbol: ...
    def leaf(self, e: Equation, xs: list[Symbol]) -> Symbol: ...
    def binary(self, how: str, x: Symbol, y: Symbol, dtype: Dtype) -> Symbol: ...
    def fma(self, x: Symbol, y: Symbol, z: Symbol, dtype: Dtype) -> Symbol: ...
    def select(self, where: Symbol, x: Symbol, y: Symbol) -> Symbol: ...
    def at_least(self, x: Symbol, k: int) -> Symbol: ...
    def below(self, x: Symbol, k: int) -> Symbol: ...
    def convert(self, x: Symbol, old: Dtype, new: Dtype) -> Symbol: ...
    def loop(self, length: int, carry: list[Symbol],
             step: Callable[[list[Symbol]], list[Symbol]]) -> list[Symbol]: ...
    def until(self, go: Callable[[list[Symbol]], Symbol], carry: list[Symbol],
              step: Callable[[list[Symbol]], list[Symbol]]) -> list[Symbol]: ...


class Scalars:
    """Evaluates Programs by an Arithmetic; arrays of at most `most` numbers.

    flat: a shape that stands for one number (each element of it runs the program by itself).
    """

    def __init__(self, arithmetic: Arithmetic, most: int, flat: Shape | None = None
                 ) -> None:
        self.a, self.most, self.flat = arithmetic, most, flat

    def run(self, p: Program, args: Sequence[Grid]) -> list[Grid]:
        """The outputs of a Program."""
        env: dict[Var, Grid] = dict(zip(p.inputs, args, strict=True))
        for v, c in zip(p.const_vars, p.consts):
            env[v] = self.number(c, v.aval)

        def read(a: Atom) -> Grid:
            return self.number(a.value, a.aval) if isinstance(a, Literal) else env[a]

        for e in p.equations:
            try:
                for v in e.outputs:
                    self.check(v.aval)
                outs = self.equation(e, [read(a) for a in e.inputs])
            except Unfit as error:
                if error.why.equation is None:
                    error.why = error.why._replace(equation=e)
                raise
            env.update(zip(e.outputs, outs, strict=True))
        return [read(o) for o in p.outputs]

    def check(self, aval: Any) -> None:
        """Refuse an array that is not numbers in registers."""
        if not is_static(aval.shape) or not aval.size or aval.dtype not in DTYPES:
            raise Unfit
        if aval.size > self.most and aval.shape != self.flat:
            raise Unfit("array of a row", aval.size, self.most)

    def number(self, value: Any, aval: Any) -> Grid:
        if aval.dtype not in DTYPES or aval.size > self.most:
            raise Unfit
        given = np.broadcast_to(np.asarray(value, aval.dtype), aval.shape)
        return grid(aval.shape, [given[i] if aval.dtype in _EXACT else
                                 self.a.constant(given[i], aval.dtype)
                                 for i in np.ndindex(given.shape)])

    def symbol(self, x: Symbol, dtype: Dtype) -> Symbol:
        """A symbol of what may be known."""
        return self.a.constant(x, dtype) if is_known(x) else x

    def symbols(self, g: Grid, dtype: Dtype) -> list[Symbol]:
        if isinstance(g, Table):  # (a loop hands a constant on)
            raise Unfit
        return [self.symbol(x, dtype) for x in g.flat]

    def state(self, start: Sequence[Grid], dtypes: Sequence[Dtype]) -> State:
        return State(self, start, dtypes)

    # ---- equations
    def equation(self, e: Equation, xs: list[Grid]) -> list[Grid]:
        name = e.name
        tables = [k for k, x in enumerate(xs) if isinstance(x, Table)]  # (positions are none)
        if tables and name not in READING or any(tables) and name in ("gather", "dynamic_slice"):
            raise Unfit
        if is_map(e):
            return [self.elementwise(e, xs)]
        if name in JOINS:
            return [self.scatter(e, *xs)]
        if name in FOLDS:
            return [self.fold(e, xs[0])]
        form = getattr(self, f"_{name}", None)
        if form is not None:
            made = form(e, *xs)
            return made if isinstance(made, list) else [made]
        if e.primitive.program is not None:  # a decomposition of a small matrix
            return self.run(decomposition(e), xs)
        raise Unfit

    def elementwise(self, e: Equation, xs: list[Grid]) -> Grid:
        out = e.outputs[0].aval
        shape = np.broadcast_shapes(*[x.shape for x in xs])
        columns = [np.broadcast_to(x, shape) for x in xs]
        return grid(shape, [self.one(e, [c[i] for c in columns], out.dtype)
                            for i in np.ndindex(shape)])

    def one(self, e: Equation, xs: list[Symbol], dtype: Dtype) -> Symbol:
        name, dtypes = e.name, [a.aval.dtype for a in e.inputs]
        if name == "select_n" and is_known(xs[0]):
            return xs[1 + int(xs[0])]
        if all(map(is_known, xs)) and {dtype, *dtypes} <= _EXACT:
            if name in KNOWN:
                with np.errstate(all="ignore"):
                    return dtype.type(KNOWN[name](*xs))
            if name == "convert_element_type" and dtypes[0].kind in "biu" and (
                    dtype.kind in "iuf" and np.can_cast(dtypes[0], dtype)):
                return dtype.type(xs[0])
        return self.a.leaf(e, [self.symbol(x, d) for x, d in zip(xs, dtypes)])

    def fold(self, e: Equation, x: Grid) -> Grid:
        """Pairs, then pairs of these: short chains, and errors of log2(n)."""
        aval, axes, how = e.inputs[0].aval, tuple(e.params["axes"]), FOLDS[e.name]
        kind = summed(aval.dtype) if how in ("add", "multiply") else aval.dtype
        kept = other_axes(x.ndim, axes)
        rows = x.transpose(*kept, *axes).reshape(*[x.shape[i] for i in kept], -1)

        def folded(row: Grid) -> Symbol:
            xs = [self.a.convert(s, aval.dtype, kind) for s in self.symbols(row, aval.dtype)]
            while len(xs) > 1:
                xs = [*[self.a.binary(how, *pair, kind) for pair in zip(xs[::2], xs[1::2])],
                      *xs[len(xs) // 2 * 2:]]
            return self.a.convert(xs[0], kind, aval.dtype)

        return grid(rows.shape[:-1], [folded(rows[i]) for i in np.ndindex(rows.shape[:-1])])

    # ---- shapes
    def _broadcast_in_dim(self, e: Equation, x: Grid) -> Grid:
        shape = e.outputs[0].aval.shape
        if shape == self.flat:
            return x
        unit = [1] * len(shape)
        for axis, n in zip(e.params["broadcast_dimensions"], x.shape):
            unit[axis] = n
        return np.broadcast_to(x.reshape(unit), shape)

    def _reshape(self, e: Equation, x: Grid) -> Grid:
        return x.reshape(e.outputs[0].aval.shape)

    _squeeze = _reshape

    def _transpose(self, e: Equation, x: Grid) -> Grid:
        return x.transpose(e.params["permutation"])

    def _slice(self, e: Equation, x: Grid) -> Grid:
        p = e.params
        return x[(*map(slice, p["start_indices"], p["limit_indices"],
                       p["strides"] or [1] * x.ndim), ...)]

    def _rev(self, e: Equation, x: Grid) -> Grid:
        return np.flip(x, e.params["dimensions"])

    def _concatenate(self, e: Equation, *xs: Grid) -> Grid:
        return np.concatenate(xs, e.params["dimension"])

    def _iota(self, e: Equation) -> Grid:
        out, axis = e.outputs[0].aval, e.params["dimension"]
        if out.dtype not in _EXACT:
            raise Unfit
        unit = [1] * out.ndim
        unit[axis] = out.shape[axis]
        numbers = np.arange(out.shape[axis]).astype(out.dtype).reshape(unit)
        return self.number(np.broadcast_to(numbers, out.shape), out)

    def _pad(self, e: Equation, x: Grid, value: Grid) -> Grid:
        out = np.empty(e.outputs[0].aval.shape, object)
        out[...] = value[()]
        for i in np.ndindex(x.shape):
            where = tuple(low + k * (inner + 1)
                          for k, (low, _, inner) in zip(i, e.params["padding_config"]))
            if all(0 <= k < n for k, n in zip(where, out.shape)):
                out[where] = x[i]
        return out

    # ---- positions
    def moved(self, start: Symbol, last: int, made: Callable[[int], Grid], dtype: Dtype) -> Grid:
        """made(start), start brought to 0..last: all of them are made where it is not known."""
        if is_known(start):
            return made(min(max(int(start), 0), last))
        found = made(0)
        for k in range(1, last + 1):
            found = self.chosen(self.a.at_least(start, k), made(k), found, dtype)
        return found

    def chosen(self, where: Symbol, x: Grid, y: Grid, dtype: Dtype) -> Grid:
        """x where a bool holds, else y."""
        return grid(x.shape, [
            s if s is t else self.a.select(where, self.symbol(s, dtype), self.symbol(t, dtype))
            for s, t in zip(x.flat, y.flat)])

    def _dynamic_slice(self, e: Equation, x: Grid, *starts: Grid) -> Grid:
        dtype = e.inputs[0].aval.dtype
        if isinstance(x, Table):
            return x.take([s[()] for s in starts], e.params["slice_sizes"])
        for axis, (start, n, k) in enumerate(zip(starts, x.shape, e.params["slice_sizes"])):
            x = self.moved(start[()], n - k, lambda i, x=x, axis=axis, k=k: x[  # type: ignore[misc]
                (slice(None),) * axis + (slice(i, i + k),)], dtype)
        return x

    def _dynamic_update_slice(self, e: Equation, x: Grid, update: Grid, *starts: Grid) -> Grid:
        def put(where: tuple[int, ...]) -> Grid:
            axis = len(where)
            if axis == x.ndim:
                out = x.copy()
                out[(*(slice(i, i + n) for i, n in zip(where, update.shape)), ...)] = update
                return out
            return self.moved(starts[axis][()], x.shape[axis] - update.shape[axis],
                              lambda i: put((*where, i)), e.inputs[0].aval.dtype)

        return put(())

    def _gather(self, e: Equation, x: Grid, indices: Grid) -> Grid:
        p, out = e.params, e.outputs[0].aval
        d, sizes = p["dimension_numbers"], p["slice_sizes"]
        fills = p["mode"].name == "FILL_OR_DROP"
        fill = self.number(0 if p["fill_value"] is None else p["fill_value"], out.update(shape=()))
        dropped = {*d.collapsed_slice_dims, *d.operand_batching_dims}
        kept = other_axes(x.ndim, dropped)

        def picked(batch: tuple[int, ...], at: list[int]) -> Symbol:
            if x.pick is None:
                raise Unfit
            starts = [(indices[(*batch, k)], a, x.shape[a] - sizes[a])
                      for k, a in enumerate(d.start_index_map)]
            found = grid((), [x.pick(starts, at)])
            for start, _, last in starts if fills else ():
                found = self.within(start, last, found, fill, out.dtype)
            return found[()]

        def element(where: tuple[int, ...]) -> Symbol:
            batch = without(where, d.offset_dims)
            at = dict(zip(kept, (where[i] for i in d.offset_dims)))
            for a, k in zip(d.operand_batching_dims, d.start_indices_batching_dims):
                at[a] = batch[k]
            if isinstance(x, Table):
                return picked(batch, [at.get(a, 0) for a in range(x.ndim)])
            found = x[(*(slice(None) if a in d.start_index_map else
                         slice(at.get(a, 0), at.get(a, 0) + 1) for a in range(x.ndim)), ...)]
            for k, a in enumerate(d.start_index_map):
                found = self.moved(
                    indices[(*batch, k)], x.shape[a] - sizes[a],
                    lambda i, found=found, a=a: found[(slice(None),) * a + (  # type: ignore[misc]
                        slice(i + at.get(a, 0), i + at.get(a, 0) + 1),)], out.dtype)
            for k, a in enumerate(d.start_index_map) if fills else ():
                found = self.within(indices[(*batch, k)], x.shape[a] - sizes[a], found, fill,
                                    out.dtype)
            return found.reshape(-1)[0]

        return grid(out.shape, [element(w) for w in np.ndindex(*out.shape)])

    def within(self, start: Symbol, last: int, x: Grid, fill: Grid, dtype: Dtype) -> Grid:
        """x, or fill where start is not in 0..last."""
        fill = np.broadcast_to(fill, x.shape)
        if is_known(start):
            return x if 0 <= int(start) <= last else fill
        x = self.chosen(self.a.at_least(start, last + 1), fill, x, dtype)
        return self.chosen(self.a.at_least(start, 0), x, fill, dtype)

    def scatter(self, e: Equation, x: Grid, indices: Grid, updates: Grid) -> Grid:
        """Windows joined with what is there, in their order; what an index may name is chosen."""
        d, dtype = e.params["dimension_numbers"], e.inputs[0].aval.dtype
        dropped = {*d.inserted_window_dims, *d.operand_batching_dims}
        sizes = [1] * x.ndim
        for a, i in zip(other_axes(x.ndim, dropped), d.update_window_dims):
            sizes[a] = updates.shape[i]
        places = other_axes(updates.ndim, d.update_window_dims)
        moves, out = dict(zip(d.scatter_dims_to_operand_dims, itertools.count())), x.copy()
        for batch in np.ndindex(*[updates.shape[i] for i in places]):
            window = updates[(*(batch[places.index(i)] if i in places else slice(None)
                                for i in range(updates.ndim)), ...)]
            fixed = {a: batch[k] for a, k in zip(d.operand_batching_dims,
                                                 d.scatter_indices_batching_dims)}
            ranges = [range(x.shape[a] - sizes[a] + 1) if a in moves else
                      range(fixed.get(a, 0), fixed.get(a, 0) + 1) for a in range(x.ndim)]
            for start in itertools.product(*ranges):
                asked = [c for a, k in moves.items() for c in self.is_at(
                    indices[(*batch, k)], start[a], ranges[a][-1], e.params["mode"].name == "CLIP")]
                if False in asked:
                    continue
                at = tuple(slice(i, i + n) for i, n in zip(start, sizes))
                old = out[(*at, ...)]
                new = self.joined(e, old, window.reshape(old.shape))
                for c in asked:
                    new = self.chosen(c, new, old, dtype)
                out[(*at, ...)] = new
        return out

    def is_at(self, start: Symbol, k: int, last: int, clips: bool) -> list[Any]:
        """What must hold for a start to be k: nothing, False, or symbols."""
        if is_known(start):
            known = min(max(int(start), 0), last) if clips else int(start)
            return [] if known == k else [False]
        if clips and last == 0:
            return []
        if clips and k == last:
            return [self.a.at_least(start, k)]
        if clips and k == 0:
            return [self.a.below(start, 1)]
        return [self.a.at_least(start, k), self.a.below(start, k + 1)]

    def joined(self, e: Equation, old: Grid, new: Grid) -> Grid:
        how, dtype = JOINS[e.name], e.inputs[0].aval.dtype
        if not how:
            return new
        return grid(old.shape, [self.a.binary(how, x, y, dtype) for x, y in zip(
            self.symbols(old, dtype), self.symbols(new, dtype))])

    # ---- products
    def _dot_general(self, e: Equation, x: Grid, y: Grid) -> Grid:
        (xc, yc), (xb, yb) = e.params["dimension_numbers"]
        dtypes = {a.aval.dtype for a in (*e.inputs, *e.outputs)}
        if len(dtypes) > 1 or BOOL in dtypes:
            raise Unfit
        dtype = e.outputs[0].aval.dtype
        kind = summed(dtype)
        xf, yf = other_axes(x.ndim, xc, xb), other_axes(y.ndim, yc, yb)
        batch, m, n = ([g.shape[i] for i in axes] for g, axes in ((x, xb), (x, xf), (y, yf)))

        def matrices(g: Grid, *axes: Sequence[int]) -> Grid:
            order = [i for group in axes for i in group]
            sizes = [math.prod(g.shape[i] for i in group) for group in axes]
            wide = [self.a.convert(s, dtype, kind) for s in self.symbols(g, dtype)]
            return grid(g.shape, wide).transpose(order).reshape(sizes)

        a, b = matrices(x, xb, xf, xc), matrices(y, yb, yf, yc)

        def inner(row: Grid, column: Grid) -> Symbol:
            total = self.a.binary("multiply", row[0], column[0], kind)
            for s, t in zip(row[1:], column[1:]):
                total = self.a.fma(s, t, total, kind)
            return self.a.convert(total, kind, dtype)

        return grid([*batch, *m, *n], [inner(row, column) for left, right in zip(a, b)
                                       for row in left for column in right])

    # ---- equations that hold Programs
    def _jit(self, e: Equation, *xs: Grid) -> list[Grid]:
        return self.run(e.params["jaxpr"], xs)

    def _cond(self, e: Equation, index: Grid, *xs: Grid) -> list[Grid]:
        """All branches, of which one is chosen: no loop among them whose end the data decides."""
        branches, which = e.params["branches"], index[()] if index.ndim == 0 else None
        if which is None or any(map(may_hang, branches)):
            raise Unfit
        if is_known(which):
            return self.run(branches[min(max(int(which), 0), len(branches) - 1)], xs)
        found = self.run(branches[0], xs)
        bools = e.inputs[0].aval.dtype == BOOL
        for k, branch in enumerate(branches[1:], 1):
            take = which if bools else self.a.at_least(which, k)
            made = []
            for v, x, y in zip(e.outputs, self.run(branch, xs), found):
                made.append(self.chosen(take, x, y, v.aval.dtype))
            found = made
        return found

    def _scan(self, e: Equation, *args: Grid) -> list[Grid]:
        p, body = e.params, e.params["jaxpr"]
        consts, carry, xs = split_list(args, p["num_consts"], p["num_carry"])
        if xs or len(body.outputs) > len(carry) or not p["unroll"]:
            return self.written_out(p, consts, carry, xs)
        state = self.state(carry, [a.dtype for a in body.in_avals[len(consts):]])
        return state.packed(self.a.loop(p["length"], state.flat(carry), lambda now: state.flat(
            self.run(body, [*consts, *state.packed(now)]))))

    def written_out(self, p: Params, consts: Sequence[Grid], carry: Sequence[Grid],
                    xs: Sequence[Grid]) -> list[Grid]:
        if any(isinstance(x, Table) for x in (*carry, *xs)):
            raise Unfit
        steps = range(p["length"])
        rows: list[list[Grid]] = []
        for i in reversed(steps) if p["reverse"] else steps:
            outs = self.run(p["jaxpr"], [*consts, *carry, *[x[i, ...] for x in xs]])
            carry = outs[:p["num_carry"]]
            rows.append(outs[p["num_carry"]:])
        if not rows:
            raise Unfit
        if p["reverse"]:
            rows.reverse()
        return [*carry, *[np.stack(column) for column in zip(*rows)]]

    def _while(self, e: Equation, *args: Grid) -> list[Grid]:
        return self.loop_while(e.params, args)

    def loop_while(self, p: Params, args: Sequence[Grid]) -> list[Grid]:
        """A loop whose end the data decides: its carry in the end."""
        before, inside, carry = split_list(args, p["cond_nconsts"], p["body_nconsts"])
        state = self.state(carry, [a.dtype for a in p["body_jaxpr"].in_avals[len(inside):]])

        def go(now: list[Symbol]) -> Symbol:
            (pred,) = self.run(p["cond_jaxpr"], [*before, *state.packed(now)])
            if pred.size != 1:
                raise Unfit
            return self.symbol(pred.reshape(-1)[0], BOOL)

        return state.packed(self.a.until(go, state.flat(carry), lambda now: state.flat(
            self.run(p["body_jaxpr"], [*inside, *state.packed(now)]))))


class State:
    """The carry of a loop that stays one, as a list of symbols."""

    def __init__(self, scalars: Scalars, start: Sequence[Grid], dtypes: Sequence[Dtype]) -> None:
        if any(isinstance(g, Table) for g in start):
            raise Unfit
        self.scalars, self.shapes, self.dtypes = scalars, [g.shape for g in start], dtypes

    def flat(self, grids: Sequence[Grid]) -> list[Symbol]:
        return [s for g, d in zip(grids, self.dtypes) for s in self.scalars.symbols(g, d)]

    def packed(self, symbols: Sequence[Symbol]) -> list[Grid]:
        made, at = [], 0
        for shape in self.shapes:
            n = math.prod(shape)
            made.append(grid(shape, symbols[at:at + n]))
            at += n
        return made


def may_hang(p: Program) -> bool:
    """Whether the data decides when some loop in p ends."""
    return any(e.name == "while" or any(map(may_hang, e.inner))
               for e in p.equations)


class Count:
    """Counts what is computed, functions in it, and choices in its loops; a symbol is nothing but
    itself."""

    def __init__(self, limit: int) -> None:
        self.total, self.functions, self.limit = 0, 0, limit
        self.choices, self.depth = 0, 0

    def more(self, n: int = 1) -> Symbol:
        self.total += n
        if self.total > self.limit:
            raise Unfit("numbers", self.total, self.limit)
        return object()

    def constant(self, value: Any, dtype: Dtype) -> Symbol:
        return object()

    def leaf(self, e: Equation, xs: list[Symbol]) -> Symbol:
        self.functions += e.primitive.function
        return self.more(max(e.weight, FUNCTION if e.primitive.function else 1))

    def binary(self, how: str, x: Symbol, y: Symbol, dtype: Dtype) -> Symbol:
        return self.more()

    def fma(self, x: Symbol, y: Symbol, z: Symbol, dtype: Dtype) -> Symbol:
        return self.more()

    def select(self, where: Symbol, x: Symbol, y: Symbol) -> Symbol:
        self.choices += self.depth > 0
        return self.more()

    def at_least(self, x: Symbol, k: int) -> Symbol:
        return self.more()

    def below(self, x: Symbol, k: int) -> Symbol:
        return self.more()

    def convert(self, x: Symbol, old: Dtype, new: Dtype) -> Symbol:
        return x if old == new else self.more()

    def loop(self, length: int, carry: list[Symbol],
             step: Callable[[list[Symbol]], list[Symbol]]) -> list[Symbol]:
        return self.until(lambda carry: None, carry, step)

    def until(self, go: Callable[[list[Symbol]], Symbol], carry: list[Symbol],
              step: Callable[[list[Symbol]], list[Symbol]]) -> list[Symbol]:
        self.depth += 1
        go(carry)
        made = step(carry)
        self.depth -= 1
        return made


def counted(programs: Sequence[tuple[Program, int]], limit: int, most: int,
            flat: Shape | None = None, picks: bool = False) -> Count | Refusal:
    """How many numbers Programs compute, functions as several; why not, where one is not fit, or
    there are more than `limit`, or an array has more than `most`.  Of each Program so many inputs,
    the first ones, may be tables; `picks`: of which gathers pick for each row."""
    count = Count(limit)
    scalars = Scalars(count, most, flat)

    def taken(starts: list[Symbol], sizes: Shape) -> Grid:
        return grid(sizes, [count.more() for _ in range(math.prod(sizes))])

    def picked(starts: list[Start], at: Sequence[int]) -> Symbol:
        return count.more(PICK)

    try:
        for p, tables in programs:
            args = []
            for i, a in enumerate(p.in_avals):
                shape = () if flat is not None else a.shape
                if flat is None and i < tables and is_table(shape) and is_static(shape) and (
                        a.dtype in DTYPES and a.size):
                    args.append(Table(shape, taken, picked if picks else None))
                    continue
                if flat is None:
                    scalars.check(a)
                elif a.dtype not in DTYPES or not is_static(a.shape) or not a.size:
                    raise Unfit
                args.append(grid(shape, [object() for _ in range(math.prod(shape))]))
            if any(isinstance(made, Table) for made in scalars.run(p, args)):
                raise Unfit
    except Unfit as error:
        return error.why
    return count


def is_table(shape: Sequence[int]) -> bool:
    """Whether a constant of a loop stays in memory, of which so much belongs to one row."""
    return math.prod(shape) > TABLE
