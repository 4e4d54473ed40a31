"""Programs over arrays that span processes, as the Program of one process: on its pieces, with
messages where an operation needs what others have.

Only axes that run between processes count here: the devices of one share its piece.  Each value
knows which axes split each of its dimensions.  A primitive's factors (primitives/factors) say which
splits it can work on; operands are brought to them (a part is free, a whole is a message), and what
is summed over a split dimension is summed over processes.  What has no such form works on whole
arrays, in every process.  What propagation says of results (transforms/propagate) is a hint.
Start reading at `of_process`, then `_Partitioner.equation`.
"""
from __future__ import annotations

import hashlib
import math
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from calque.core.avals import ShapedArray, aval_of, shape_of
from calque.core.errors import explain
from calque.core.evaluate import each, literal_value
from calque.core.lists import replaced, split_list
from calque.core.mesh import Mesh, OwnRows
from calque.core.processes import Between, Origin, ProcessGrid, between, block_shape
from calque.core.program import Equation, Program, Var, eliminate_dead_code
from calque.core.sharding import UNCONSTRAINED, NamedSharding, PartitionSpec
from calque.core.types import Function
from calque.dispatch.sharded.custom_parts import has_custom_parts, with_custom_parts
from calque.dispatch.sharded.labels import meshes_of, named_sharding
from calque.dispatch.sharded.local_calls import calls_with_parts, with_local_calls
from calque.dispatch.sharded.partial_programs import expanded, is_partial
from calque.dispatch.sharded.spanning import any_spans
from calque.lowering.driver.module import Lowered
from calque.lowering.passes.accumulate import accumulate
from calque.lowering.passes.hoist import hoist
from calque.lowering.passes.messages import sends
from calque.primitives import messages, two_level
from calque.primitives import shape as sh
from calque.primitives.control import cond, scan
from calque.primitives.local_forms import LocalForm, form_of
from calque.primitives.while_loop import while_loop
from calque.transforms.propagate import specs_of_all
from calque.transforms.stage import closed, stage
from calque.transforms.vmap import move_axis

Axes = tuple[tuple[Any, ...], ...]
LOGGED = 1 << 20  # bytes of a gather from which on a line of the log names it


@dataclass(frozen=True, slots=True)
class Value:
    """A value of this process, and the axes that split each dimension between processes."""

    x: Any
    axes: Axes


def localized(p: Program, known: Sequence[NamedSharding | None],
              wanted: Sequence[NamedSharding | None], mesh: Mesh) -> Program:
    """The Program of this process.

    Args:
      p: of whole arrays.
      known: of its consts and inputs; None: every process has the same whole array.
      wanted: of its results; None: whole in every process.
      mesh: over the devices of several processes.

    Returns:
      A Program of the consts' and inputs' pieces; it may capture this process's place.
    """
    assert mesh.grid is not None
    live = accumulate(eliminate_dead_code(p.consts_as_inputs()))
    part = _Partitioner(mesh, live, known, wanted)
    ins = [part.said(s, v.aval.ndim) for v, s in zip(live.inputs, known)]
    outs = [part.said(s, v.aval.ndim) for v, s in zip(live.outputs, wanted)]

    def run(*xs: Any) -> list[Any]:
        values = [part.entering(x, a, s) for x, a, s in zip(xs, ins, known)]
        found = part.run(live, values)
        return [part.leaving(v, a, s) for v, a, s in zip(found, outs, wanted)]

    avals = [_piece(v.aval, s, a, mesh.grid) for v, s, a in zip(live.inputs, known, ins)]
    return stage(run, avals, p.name)


def spans_processes(p: Program, avals: Sequence[ShapedArray]) -> bool:
    """Whether a program's arguments, results or meshes are over several processes' devices."""
    return any_spans(avals) or any_spans(p.out_avals) or any_spans(
        [v.aval for v in p.const_vars]) or p.derived("spans", lambda: any(
            m.grid is not None for m in _meshes(p)))


def _meshes(p: Program) -> list[Mesh]:
    return [*meshes_of(p), *[rows.every for rows in meshes_of(p, OwnRows)]]


def has_own(p: Program, avals: Sequence[ShapedArray]) -> bool:
    """Whether what runs is not the program itself: over several processes, over summands, calls
    with parts, or user's functions that say what each device does."""
    every = (*avals, *[v.aval for v in p.const_vars], *p.out_avals)
    return spans_processes(p, avals) or (
        any([a.placement is not None for a in every]) and (
            is_partial(p) or calls_with_parts(p) or has_custom_parts(p)))


def own_program(p: Program, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]
                ) -> Program:
    """What runs then, in this process; consts' avals come first, and they are inputs of it."""
    spans = spans_processes(p, [*in_avals, *out_avals])
    if not is_partial(p):
        make = of_process if spans else with_local_calls
        if has_custom_parts(p):
            p = with_custom_parts(p, in_avals, out_avals)
        return make(p, in_avals, out_avals)
    if spans:
        raise NotImplementedError(explain(
            f"{p.name}: arrays of unreduced sharding over the devices of several processes.",
            fix="leave unreduced= out: sums over devices are whole then."))
    return expanded(p)


def of_process(p: Program, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]
               ) -> Program:
    """The Program of this process, of its pieces; consts' avals come first, and its own consts say
    where it stands."""
    known = [named_sharding(a) for a in in_avals]
    wanted = [named_sharding(a) for a in out_avals]
    meshes = [s.mesh for s in (*known, *wanted) if s is not None and s.spans]
    mesh = next(m for m in (*meshes, *_meshes(p)) if getattr(m, "grid", None) is not None)
    assert isinstance(mesh, Mesh)
    return localized(p, known, wanted, mesh)


def name_messages(lowered: Lowered, p: Program) -> None:
    """Tell a program's messages whose they are, by which processes know that they run the same."""
    sending = [(f, types) for f, types, _ in lowered.callbacks if getattr(f, "into", False)]
    sent = [str(f) for f, _ in sending]
    if sent:
        text = re.sub("0x[0-9a-f]+", "", str(hoist(lowered.program)))  # of functions: addresses
        if "compile" in os.environ.get("CALQUE_LOG", ""):
            _log_loops(hoist(lowered.program))
        told = f"{p.name}, which sends {len(sent)} messages: {'; '.join(sent[:3])}"
        digest = hashlib.sha256(f"{sent} {text}".encode()).hexdigest()
        ranks = tuple(sorted({r for f, _ in sending for r in f.axes[0].grid.ranks}))
        for i, (f, types) in enumerate(sending):
            of = ", ".join(f"{dtype}{list(shape)}" for shape, dtype in types)
            f.origin = Origin(p.name, told, digest, ranks, i, of)


def _log_loops(p: Program) -> None:
    for e in p.equations:
        inner = [q for q in e.inner if sends(q)]
        if inner and e.name in ("scan", "while"):
            print(f"calque: {e.name} ({e.source}) sends messages: its steps are taken "
                  "from the host", file=sys.stderr)
        for q in inner:
            _log_loops(q)


def _piece(aval: ShapedArray, sharding: NamedSharding | None, axes: Axes, grid: ProcessGrid
           ) -> ShapedArray:
    if sharding is not None and sharding.spans:
        grid = sharding.mesh.grid  # type: ignore[union-attr, assignment]
        axes = _full(sharding.between, aval.ndim)
    return aval.plain.update(shape=block_shape(aval.shape, axes, grid))


def _full(axes: Sequence[tuple[Any, ...]], ndim: int) -> Axes:
    return (*axes, *[()] * (ndim - len(axes)))


class _Partitioner:
    """The Programs of one mesh's processes."""

    def __init__(self, mesh: Mesh, p: Program, known: Sequence[NamedSharding | None],
                 wanted: Sequence[NamedSharding | None]) -> None:
        assert mesh.grid is not None
        self.mesh, self.grid = mesh, mesh.grid
        self.hints: dict[Var, PartitionSpec] = specs_of_all(p, known, mesh, wanted)

    # ---- axes
    def said(self, sharding: NamedSharding | None, ndim: int) -> Axes:
        """The axes of a value with a sharding; none where it is over another grid of processes."""
        if sharding is None or not sharding.spans or not self.is_mine(sharding):
            return ((),) * ndim
        return _full(sharding.between, ndim)

    def is_mine(self, sharding: NamedSharding) -> bool:
        return sharding.mesh.grid == self.grid  # type: ignore[union-attr]

    def hint(self, v: Any) -> Axes | None:
        """What propagation says of a variable."""
        spec = self.hints.get(v) if isinstance(v, Var) else None
        if spec is None:
            return None
        try:
            return _full(between(spec.axes(), self.grid, ""), v.aval.ndim)
        except NotImplementedError:
            return None

    def far(self, names: Sequence[Any]) -> tuple[Between, ...]:
        return tuple(Between(n, self.grid) for n in names)

    def entering(self, x: Any, axes: Axes, sharding: NamedSharding | None) -> Value:
        """An operand; what is over another grid of processes is whole from here on."""
        return Value(self._elsewhere(x, sharding, two_level.joined), axes)

    def leaving(self, v: Value, axes: Axes, sharding: NamedSharding | None) -> Any:
        return self._elsewhere(self.brought(v, axes), sharding, two_level.piece)

    def _elsewhere(self, x: Any, sharding: NamedSharding | None, step: Function) -> Any:
        """x after a step along each dimension that axes of another grid of processes split."""
        if sharding is not None and sharding.spans and not self.is_mine(sharding):
            for d, names in enumerate(sharding.between):
                x = step(x, d, _far(names, sharding.mesh))
        return x

    # ---- bringing values to axes
    def brought(self, v: Value, axes: Axes, why: Equation | None = None) -> Any:
        """The value split by other axes."""
        x, have = v.x, list(v.axes)
        for i in range(len(have)):  # an axis that goes from one dimension to another
            j = next((j for j in range(len(have)) if j != i and _moves(have, axes, i, j)), None)
            if j is not None:
                name = have[i][-1]
                x = self._exchanged(x, i, j, self.far([name]))
                have[i], have[j] = have[i][:-1], (*have[j], name)
        for d, (h, w) in enumerate(zip(have, axes)):
            gone = h[_shared(h, w):]
            if gone:
                self._log(x, gone, why)
                x = two_level.joined(x, d, self.far(gone))
        for d, (h, w) in enumerate(zip(have, axes)):
            x = two_level.piece(x, d, self.far(w[_shared(h, w):]))
        return x

    def _exchanged(self, x: Any, source: int, target: int, far: tuple[Between, ...]) -> Any:
        """A split goes from one dimension to another: each gets its part of all others'."""
        x = move_axis(sh.split_axis(x, target, far[0].size), target, 0)
        return sh.merge_axes(move_axis(messages.exchanged(x, far), 0, source), source)

    def _log(self, x: Any, names: Sequence[Any], why: Equation | None) -> None:
        if "compile" not in os.environ.get("CALQUE_LOG", ""):
            return
        a = aval_of(x)
        size = a.nbytes * math.prod(self.grid.count(n) for n in names)
        if size >= LOGGED:
            reason = "as asked for" if why is None else (
                f"replicated because {why.name} has no sharded form ({why.source})")
            print(f"calque: gather of {size >> 20} MiB over {', '.join(map(str, names))}: {reason}",
                  file=sys.stderr)

    def whole(self, v: Value, why: Equation | None = None) -> Any:
        return self.brought(v, ((),) * len(v.axes), why)

    # ---- programs
    def run(self, p: Program, args: Sequence[Value]) -> list[Value]:
        return each(p, args, lambda a: Value(literal_value(a), ()), self.equation)

    def inner(self, p: Program, axes: Sequence[Axes], wanted: Sequence[Axes]) -> Program:
        """An inner Program of pieces that are split so, its results brought to `wanted`."""
        avals = [v.aval.plain.update(shape=block_shape(v.aval.shape, a, self.grid))
                 for v, a in zip(p.inputs, axes)]

        def run(*xs: Any) -> list[Any]:
            found = self.run(p, [Value(x, a) for x, a in zip(xs, axes)])
            return [self.brought(v, w) for v, w in zip(found, wanted)]

        return stage(run, avals, p.name)

    def equation(self, e: Equation, values: list[Value]) -> list[Value]:
        special = _SPECIAL.get(e.name)
        if special is not None:
            return special(self, e, values)
        form = form_of(e)
        if form is None or not (any(any(v.axes) for v in values) or any(
                any(self.hint(o) or ()) for o in e.outputs)):
            return self.replicated(e, values)
        return self.split(e, values, form)

    def replicated(self, e: Equation, values: list[Value]) -> list[Value]:
        """The operation on whole arrays, in every process."""
        outs = e.primitive.bind(*[self.whole(v, e) for v in values], **e.params)
        outs = outs if e.primitive.multiple_results else [outs]
        return [Value(o, _whole(v)) for o, v in zip(outs, e.outputs)]

    def split(self, e: Equation, values: list[Value], form: LocalForm) -> list[Value]:
        """The operation on pieces."""
        chosen = self._chosen(e, values, form)
        ins = [self.brought(v, form.axes(d, chosen, self.grid), e)
               for v, d in zip(values, form.operands)]
        outs_axes = [form.axes(d, chosen, self.grid) for d in form.results]
        shapes = [block_shape(v.aval.shape, a, self.grid) for v, a in zip(e.outputs, outs_axes)]
        outs = e.primitive.bind(*ins, **form.params(e.params, [shape_of(x) for x in ins],
                                                    shapes))
        outs = list(outs) if e.primitive.multiple_results else [outs]
        in_results = {f for dims in form.results for d in dims for f in d}
        summed = [n for f, names in chosen.items() if f not in in_results for n in names]
        if not summed:
            return [Value(o, a) for o, a in zip(outs, outs_axes)]
        assert form.reduction is not None
        if form.reduction == "sum" and len(outs) == 1 and len(summed) == 1:
            found = self._scattered(e.outputs[0], outs[0], outs_axes[0], summed[0])
            if found is not None:
                return [found]
        outs = messages.reduced(outs, self.far(summed), form.reduction)
        return [Value(o, a) for o, a in zip(outs, outs_axes)]

    def _scattered(self, v: Var, x: Any, axes: Axes, name: Any) -> Value | None:
        """A sum of which each process keeps a part, where that is what is wanted."""
        hint = self.hint(v) or ()
        for d, (have, want) in enumerate(zip(axes, hint)):
            if want == (*have, name):
                x = move_axis(sh.split_axis(x, d, self.grid.count(name)), d, 0)
                return Value(messages.scattered(x, self.far([name])), replaced(axes, d, want))
        return None

    def _chosen(self, e: Equation, values: list[Value], form: LocalForm
                ) -> dict[int, tuple[Any, ...]]:
        """The axes of each factor: the largest operand decides, hints where none does."""
        rows = [(a.aval.nbytes, v.axes, d) for a, v, d in zip(e.inputs, values, form.operands)]
        rows.sort(key=lambda row: -row[0])
        rows += [(0, self.hint(o) or (), d) for o, d in zip(e.outputs, form.results)]
        chosen: dict[int, tuple[Any, ...]] = {}
        used: set[Any] = set()
        for _, axes, dims in rows:
            for names, factors in zip(axes, dims):
                for f, mine in form.dealt(factors, names, self.grid):
                    if f in chosen or f in form.unsummable or used & set(mine):
                        continue
                    chosen[f] = mine
                    used |= set(mine)
        while gone := form.unsaid(chosen, self.grid):
            chosen = {f: names for f, names in chosen.items() if f not in gone}
        return chosen


def _shared(have: Sequence[Any], want: Sequence[Any]) -> int:
    """How many leading axes are the same."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(have, want)))


def _far(names: Sequence[Any], mesh: Any) -> tuple[Between, ...]:
    return tuple(Between(n, mesh.grid) for n in names)


def _moves(have: Sequence[tuple[Any, ...]], want: Axes, i: int, j: int) -> bool:
    """Whether the last axis of dimension i goes behind those of dimension j, and nothing else."""
    return bool(have[i]) and want[i] == have[i][:-1] and want[j] == (*have[j], have[i][-1])


# ---- equations with programs inside
def _call(part: _Partitioner, e: Equation, values: list[Value]) -> list[Value]:
    inner = e.params.get("jaxpr", e.params.get("call_jaxpr"))
    assert isinstance(inner, Program) and len(inner.inputs) == len(values)
    if e.name != "checkpoint":
        return part.run(inner, values)
    found: list[Value] = []

    def run(*xs: Any) -> list[Any]:
        outs = part.run(inner, [Value(x, v.axes) for x, v in zip(xs, values)])
        found[:] = outs
        return [o.x for o in outs]

    made, consts = closed(stage(run, [aval_of(v.x).plain for v in values], inner.name))
    outs = e.primitive.bind(*consts, *[v.x for v in values], **{**e.params, "jaxpr": made})
    return [Value(o, v.axes) for o, v in zip(outs, found)]


def _carry_axes(part: _Partitioner, v: Var, start: Value) -> Axes:
    """The axes of a carry: as propagation says, else as it starts."""
    return part.hint(v) or start.axes or _whole(v)


def _whole(v: Var) -> Axes:
    """Of a value that no axis splits."""
    return ((),) * v.aval.ndim


def _scan(part: _Partitioner, e: Equation, values: list[Value]) -> list[Value]:
    p = e.params
    body = p["jaxpr"]
    consts, start, scanned = split_list(values, p["num_consts"], p["num_carry"])
    carry = [_carry_axes(part, v, s) for v, s in zip(e.outputs, start)]
    init = [part.brought(v, a) for v, a in zip(start, carry)]
    rows = [((), *v.axes[1:]) for v in scanned]
    xs = [part.brought(v, a, e) for v, a in zip(scanned, rows)]
    ys = [((), *(part.hint(v) or _whole(v))[1:]) for v in e.outputs[len(carry):]]
    made = part.inner(body, [*[v.axes for v in consts], *carry, *[r[1:] for r in rows]],
                      [*carry, *[y[1:] for y in ys]])
    outs = scan(made, [v.x for v in consts], init, xs, length=p["length"],
                reverse=p["reverse"], unroll=p["unroll"])
    return [Value(o, a) for o, a in zip(outs, [*carry, *ys])]


def _while(part: _Partitioner, e: Equation, values: list[Value]) -> list[Value]:
    p = e.params
    before, inside, start = split_list(values, p["cond_nconsts"], p["body_nconsts"])
    pred = p["cond_jaxpr"].outputs[0].aval
    carry = [_carry_axes(part, v, s) for v, s in zip(e.outputs, start)]
    if pred.ndim:  # a batch of predicates: elements end by themselves
        carry = [((),) * pred.ndim + a[pred.ndim:] for a in carry]
    init = [part.brought(v, a) for v, a in zip(start, carry)]
    test = part.inner(p["cond_jaxpr"], [*[v.axes for v in before], *carry],
                      [((),) * pred.ndim])
    body = part.inner(p["body_jaxpr"], [*[v.axes for v in inside], *carry], carry)
    outs = while_loop(test, [v.x for v in before], body, [v.x for v in inside], init)
    return [Value(o, a) for o, a in zip(outs, carry)]


def _cond(part: _Partitioner, e: Equation, values: list[Value]) -> list[Value]:
    wanted = [part.hint(v) or _whole(v) for v in e.outputs]
    axes = [v.axes for v in values[1:]]
    branches = [part.inner(b, axes, wanted) for b in e.params["branches"]]
    outs = cond(values[0].x, [v.x for v in values[1:]], branches)
    return [Value(o, a) for o, a in zip(outs, wanted)]


def _mapped(part: _Partitioner, e: Equation, values: list[Value]) -> list[Value]:
    """shard_map: its operands as its specs say, its body over this process's devices."""
    p = e.params
    mesh = p["mesh"]
    if isinstance(mesh, OwnRows):  # of this process's rows
        assert mesh.every.grid is not None
        outs = two_level.mapped(p, mesh.every.grid, [part.whole(v, e) for v in values])
        return [Value(o, _whole(v)) for o, v in zip(outs, e.outputs)]
    grid = getattr(mesh, "grid", None)
    if grid is None and mesh.shape_tuple == part.mesh.shape_tuple:
        grid = part.grid
    if grid is None:
        return part.replicated(e, values)
    mine = grid == part.grid
    ins = []
    for v, spec in zip(values, p["in_specs"]):
        axes = _full(between(spec.axes(), grid, f"shard_map with {spec}"), len(v.axes))
        x = part.brought(v, axes) if mine else part.whole(v)
        for d, names in enumerate(() if mine else axes):
            x = two_level.piece(x, d, _far(names, mesh))
        ins.append(x)
    outs = two_level.mapped(p, grid, ins)
    found = []
    for o, made, spec in zip(outs, e.outputs, p["out_specs"]):
        axes = _full(between(spec.axes(), grid, f"shard_map with {spec}"), made.aval.ndim)
        for d, names in enumerate(() if mine else axes):
            o = two_level.joined(o, d, _far(names, mesh))
        found.append(Value(o, axes if mine else _whole(made)))
    return found


def _constrained(part: _Partitioner, e: Equation, values: list[Value]) -> list[Value]:
    (v,) = values
    sharding = e.params["sharding"]
    if not isinstance(sharding, NamedSharding):
        return [v]
    grid = getattr(sharding.mesh, "grid", None)
    if sharding.mesh.shape_tuple != part.mesh.shape_tuple or grid not in (None, part.grid):
        return [v]
    ndim = e.outputs[0].aval.ndim
    said = _full(between(sharding.spec.axes(), part.grid, repr(sharding)), ndim)
    have = v.axes or ((),) * ndim
    taken = {n for names in said for n in names}
    free = [i < len(sharding.spec) and sharding.spec[i] is UNCONSTRAINED for i in range(ndim)]
    axes = tuple(tuple(n for n in h if n not in taken) if f else s
                 for h, s, f in zip(have, said, free))
    shape = e.outputs[0].aval.shape
    axes = tuple(a if shape[d] % math.prod([part.grid.count(n) for n in a]) == 0 else ()
                 for d, a in enumerate(axes))
    return [Value(part.brought(Value(v.x, have), axes), axes)]


_SPECIAL: dict[str, Callable[[_Partitioner, Equation, list[Value]], list[Value]]] = {
    "jit": _call, "checkpoint": _call, "custom_jvp_call": _call, "custom_vjp_call": _call,
    "custom_vmap_call": _call, "scan": _scan, "while": _while, "cond": _cond,
    "shard_map": _mapped, "sharding_constraint": _constrained,
    "inspect_sharding": lambda part, e, values: []}

__all__ = ["has_own", "localized", "name_messages", "own_program", "spans_processes"]
