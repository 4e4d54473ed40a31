"""Which result is split how: from what is known of some values of a Program to all others.

A primitive's `factors` say which dimension of an operand is which dimension of a result
(primitives/factors); inner programs are entered.  Every dimension is a node's entry: the mesh axes
that split it.  Equations are visited forward and backward until nothing changes: what is fixed
stays, a mesh axis serves one factor of an equation, factors of the results go before those that are
summed over, and a size must divide.  In one process nothing is moved by this: the labels of results
are what comes of it.  Start reading at `propagate`.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.lists import split_list
from calque.core.primitive import Primitive, registry
from calque.core.program import Literal, Program
from calque.core.sharding import UNCONSTRAINED, NamedSharding, PartitionSpec
from calque.core.types import Axes, Params

Dims = Sequence[tuple[int, ...]]  # the factors of each dimension of a value, the major one first
Rule = tuple[Sequence[Dims], Sequence[Dims], dict[int, int]]  # operands, results, sizes of factors
MOST_ROUNDS = 8


class _Node:
    """A value: which axes split each dimension, and which of these entries may not change."""

    __slots__ = ("shape", "axes", "fixed", "changed")

    def __init__(self, shape: tuple[Any, ...]) -> None:
        self.shape = shape
        self.axes: list[tuple[Any, ...]] = [()] * len(shape)
        self.fixed = [False] * len(shape)
        self.changed = 0

    def fix(self, spec: PartitionSpec) -> None:
        for d, p in enumerate(spec.of_rank(len(self.shape)).partitions):
            if p is not UNCONSTRAINED:
                self.axes[d] = p if isinstance(p, tuple) else () if p is None else (p,)
                self.fixed[d] = True
        self.changed += 1


class _Graph:
    """Nodes, and the constraints between them in the order of the equations.

    What is said over another mesh of the same devices is not split here."""

    def __init__(self, mesh: Any) -> None:
        self.sizes: dict[Any, int] = dict(mesh.shape)
        self.whole, self.mesh = mesh, mesh.shape_tuple
        self.constraints: list[_Constraint] = []
        self.inspected: list[tuple[Any, _Node]] = []  # functions that are told, and of what
        self.all: dict[Any, _Node] = {}  # of every variable the node that it got last

    def spec(self, sharding: NamedSharding) -> PartitionSpec:
        return sharding.spec if sharding.mesh.shape_tuple == self.mesh else PartitionSpec()

    def annotated(self, avals: Sequence[ShapedArray],
                  shardings: Sequence[NamedSharding | None]) -> list[_Node]:
        """Nodes of values, with what is known of them."""
        nodes = [_Node(a.shape) for a in avals]
        for node, sharding in zip(nodes, shardings):
            if sharding is not None:
                node.fix(self.spec(sharding))
        return nodes

    def link(self, a: _Node, b: _Node, dims: Sequence[Axes] | None = None,
             of_b: Sequence[tuple[int, ...]] | None = None) -> None:
        """Two nodes that are split alike, dimension by dimension."""
        same = [(i,) for i in range(len(a.shape))]
        self.constraints.append(_Constraint([b], [a], [same if of_b is None else of_b],
                                            [same if dims is None else dims], {}))

    def enter(self, p: Program, inputs: Sequence[_Node], fixed: Callable[[Any], Any] | None = None
              ) -> list[_Node]:
        """The nodes of a program's results, for those of its inputs (consts come first)."""
        env: dict[Any, _Node] = dict(zip((*p.const_vars, *p.inputs), inputs))

        def read(a: Any) -> _Node:
            return _Node(a.aval.shape) if isinstance(a, Literal) else env[a]

        for e in p.equations:
            ins, outs = [read(a) for a in e.inputs], [_Node(v.aval.shape) for v in e.outputs]
            env.update(zip(e.outputs, outs))
            self.equation(e.primitive, ins, outs, [a.aval for a in e.inputs],
                          [v.aval for v in e.outputs], e.params)
        self.all.update(env)
        return [read(o) for o in p.outputs]

    def equation(self, prim: Primitive, ins: list[_Node], outs: list[_Node],
                 in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray],
                 params: Params) -> None:
        entered = _ENTERED.get(prim.name)
        if entered is not None:
            entered(self, ins, outs, params)
            return
        if prim.factors is not None:
            operands, results, sizes = prim.factors(in_avals, out_avals, params)
            self.constraints.append(_Constraint(ins, outs, operands, results, sizes))
            return
        inner = params.get("jaxpr", params.get("call_jaxpr"))
        if isinstance(inner, Program) and len(inner.inputs) == len(ins):
            self.call(inner, ins, outs)

    def carried(self, starts: Sequence[_Node], ends: Sequence[_Node], outs: Sequence[_Node]
                ) -> None:
        """What a loop carries is split alike at every step."""
        for start, end, out in zip(starts, ends, outs):
            self.link(end, start)
            self.link(end, out)

    def call(self, inner: Program, ins: Sequence[_Node], outs: Sequence[_Node]) -> None:
        for made, out in zip(self.enter(inner, ins), outs):
            self.link(made, out)

    def solve(self) -> None:
        for _ in range(MOST_ROUNDS):
            moved = False
            for c in self.constraints:
                moved |= c.settle(self.sizes)
            for c in reversed(self.constraints):
                moved |= c.settle(self.sizes)
            if not moved:
                return


class _Constraint:
    """Values whose dimensions share factors."""

    __slots__ = ("nodes", "dims", "factors", "seen", "of_results")

    def __init__(self, ins: list[_Node], outs: list[_Node], operands: Sequence[Dims],
                 results: Sequence[Dims], sizes: dict[int, int]) -> None:
        self.nodes = [*outs, *ins]
        self.dims = [*results, *operands]
        self.factors = sizes
        self.of_results = {f for dims in results for d in dims for f in d}
        self.seen = -1

    def settle(self, sizes: dict[Any, int]) -> bool:
        """Whether an entry was filled in."""
        now = 0
        for n in self.nodes:
            now += n.changed
        if now == self.seen:
            return False
        if not now:
            self.seen = now
            return False
        chosen = self._chosen(sizes)
        moved = False
        for node, dims in zip(self.nodes, self.dims):
            for d, factors in enumerate(dims):
                if node.axes[d] or node.fixed[d] or not factors:
                    continue
                axes = self._joined(factors, chosen, sizes)
                if not axes or any(a in node.axes[k] for k in range(len(dims)) for a in axes):
                    continue
                parts = math.prod(sizes[a] for a in axes)
                size = node.shape[d]
                if isinstance(size, int) and size % parts == 0 and size:
                    node.axes[d] = axes
                    node.changed += 1
                    moved = True
        self.seen = sum(n.changed for n in self.nodes)
        return moved

    def _chosen(self, sizes: dict[Any, int]) -> dict[int, tuple[Any, ...]]:
        """The axes of each factor: those of the results first, then those summed over."""
        found: list[tuple[bool, int, tuple[Any, ...]]] = []
        for node, dims in zip(self.nodes, self.dims):
            for axes, factors in zip(node.axes, dims):
                if axes and factors:
                    for f, mine in self._split(factors, axes, sizes):
                        found.append((f not in self.of_results, f, mine))
        found.sort(key=lambda t: t[0])
        chosen: dict[int, tuple[Any, ...]] = {}
        used: dict[Any, int] = {}
        for _, f, axes in found:
            have = chosen.get(f, ())
            if axes[:len(have)] != have or len(axes) <= len(have):
                continue
            more = axes[len(have):]
            if any(a in used for a in more):
                continue
            chosen[f] = axes
            used.update((a, f) for a in more)
        return chosen

    def _split(self, factors: tuple[int, ...], axes: tuple[Any, ...], sizes: dict[Any, int]
               ) -> list[tuple[int, tuple[Any, ...]]]:
        """The axes of a dimension, dealt out to its factors."""
        return dealt(factors, axes, self.factors, sizes.__getitem__)

    def _joined(self, factors: tuple[int, ...], chosen: dict[int, tuple[Any, ...]],
                sizes: dict[Any, int]) -> tuple[Any, ...]:
        return joined(factors, chosen, self.factors, sizes.__getitem__)


def dealt(factors: tuple[int, ...], axes: Sequence[Any], wholes: dict[int, int],
          count: Callable[[Any], int]) -> list[tuple[int, tuple[Any, ...]]]:
    """The axes that split a dimension, of so many devices each, dealt out to its factors."""
    if len(factors) == 1:
        return [(factors[0], tuple(axes))]
    found: dict[int, list[Any]] = {}
    at, left = 0, wholes[factors[0]]
    for a in axes:
        while left == 1 and at + 1 < len(factors):
            at += 1
            left = wholes[factors[at]]
        if left % count(a):
            break
        left //= count(a)
        found.setdefault(factors[at], []).append(a)
    return [(f, tuple(mine)) for f, mine in found.items()]


def joined(factors: tuple[int, ...], chosen: dict[int, tuple[Any, ...]], wholes: dict[int, int],
           count: Callable[[Any], int]) -> tuple[Any, ...]:
    """The axes of a dimension: its factors', up to the first that is not split wholly."""
    if len(factors) == 1:
        return chosen.get(factors[0], ())
    axes: tuple[Any, ...] = ()
    for f in factors:
        mine = chosen.get(f, ())
        axes += mine
        if math.prod(map(count, mine)) != wholes[f]:
            break
    return axes


# ---- equations with programs inside
def _scan(g: _Graph, ins: list[_Node], outs: list[_Node], p: Params) -> None:
    n = p["num_carry"]
    consts, carry, xs = split_list(ins, p["num_consts"], n)
    rows = [_Node(x.shape[1:]) for x in xs]
    for x, row in zip(xs, rows):
        _rows(g, x, row)
    results = g.enter(p["jaxpr"], [*consts, *carry, *rows])
    g.carried(carry, results, outs)
    for row, out in zip(results[n:], outs[n:]):
        _rows(g, out, row)


def _rows(g: _Graph, whole: _Node, row: _Node) -> None:
    dims = [(i,) for i in range(len(row.shape))]
    g.link(whole, row, dims=[(), *dims], of_b=dims)


def _while(g: _Graph, ins: list[_Node], outs: list[_Node], p: Params) -> None:
    _, consts, carry = split_list(ins, p["cond_nconsts"], p["body_nconsts"])
    g.carried(carry, g.enter(p["body_jaxpr"], [*consts, *carry]), outs)


def _cond(g: _Graph, ins: list[_Node], outs: list[_Node], p: Params) -> None:
    for b in p["branches"]:
        g.call(b, ins[1:], outs)


def _mapped(g: _Graph, ins: list[_Node], outs: list[_Node], p: Params) -> None:
    mine = p["mesh"].shape_tuple == g.mesh
    for node, spec in zip(outs, p["out_specs"]):
        node.fix(spec if mine else PartitionSpec())
    if not mine:
        return
    for node, spec in zip(ins, p["in_specs"]):
        if not any(node.fixed) and len(spec) <= len(node.shape):
            for d, axes in enumerate(spec.axes()):
                node.axes[d] = node.axes[d] or axes
            node.changed += 1


def _constrained(g: _Graph, ins: list[_Node], outs: list[_Node], p: Params) -> None:
    if isinstance(p["sharding"], NamedSharding):
        outs[0].fix(_dividing(g.spec(p["sharding"]), outs[0].shape, g.sizes))
    g.link(ins[0], outs[0])


def _dividing(spec: PartitionSpec, shape: Sequence[Any], sizes: dict[Any, int]) -> PartitionSpec:
    """Without the entries that do not divide the shape."""
    parts = [math.prod(sizes[n] for n in axes) for axes in spec.axes()]
    return PartitionSpec(*[
        entry if not isinstance(size, int) or size % count == 0 else None
        for entry, size, count in zip(spec.partitions, shape, parts)])


def _inspected(g: _Graph, ins: list[_Node], outs: list[_Node], p: Params) -> None:
    g.inspected.append((p["callback"], ins[0]))


def _expanded(g: _Graph, ins: list[_Node], outs: list[_Node], p: Params) -> None:
    program = registry["pallas_call"].program
    assert program is not None
    g.call(program(**p), ins, outs)


class _Asked(_Constraint):
    """A call whose user says, of shardings, how the other values are split."""

    __slots__ = ("mesh", "how", "ins", "outs", "avals")

    def __init__(self, ins: list[_Node], outs: list[_Node], p: Params, mesh: Any) -> None:
        super().__init__(ins, outs, [], [], {})
        self.mesh, self.how, self.ins, self.outs = mesh, p["how"], ins, outs
        self.avals = p["jaxpr"].in_avals[p["num_consts"]:], p["jaxpr"].out_avals

    def settle(self, sizes: dict[Any, int]) -> bool:
        now = sum(n.changed for n in self.nodes)
        if now in (0, self.seen):
            return False
        ins, outs = [list(map(_spec, nodes)) for nodes in (self.ins, self.outs)]
        users = not any(n.changed for n in self.ins)
        found = self.how.of_users(self.mesh, self.avals[1], outs) if users else (
            self.how.of_operands(self.mesh, *self.avals, ins))
        moved = False
        for node, spec in zip(self.outs, found):
            for d, axes in enumerate(_dividing(spec, node.shape, sizes).axes()):
                if axes and not (node.axes[d] or node.fixed[d]):
                    node.axes[d] = axes
                    node.changed += 1
                    moved = True
        self.seen = sum(n.changed for n in self.nodes)
        return moved


def _partitioned(g: _Graph, ins: list[_Node], outs: list[_Node], p: Params) -> None:
    how, ins = p["how"], ins[p["num_consts"]:]
    if how.asks:
        g.constraints.append(_Asked(ins, outs, p, g.whole))
    elif how.rule is not None:
        avals = p["jaxpr"].in_avals[p["num_consts"]:], p["jaxpr"].out_avals
        g.constraints.append(_Constraint(ins, outs, *how.factors(g.whole, *avals)))


_ENTERED: dict[str, Callable[[_Graph, list[_Node], list[_Node], dict[str, Any]], None]] = {
    "scan": _scan, "while": _while, "cond": _cond, "shard_map": _mapped, "pallas_call": _expanded,
    "sharding_constraint": _constrained, "inspect_sharding": _inspected,
    "custom_partitioning": _partitioned}


# ---- the whole
def propagate(p: Program, known: Sequence[NamedSharding | None], mesh: Any,
              wanted: Sequence[NamedSharding | None] | None = None) -> list[PartitionSpec]:
    """The specs of a program's results.

    known: of its consts and inputs (None: left to us); wanted: of its results.
    """
    g, _, outs = _solved(p, known, mesh, wanted)
    for callback, node in g.inspected:
        callback(NamedSharding(mesh, _spec(node)))
    return [_spec(n) for n in outs]


def specs_of(p: Program, known: Sequence[NamedSharding | None], mesh: Any
             ) -> tuple[list[PartitionSpec], list[PartitionSpec]]:
    """The specs of a program's consts and inputs, and of its results."""
    _, inputs, outs = _solved(p, known, mesh)
    return [_spec(n) for n in inputs], [_spec(n) for n in outs]


def specs_of_all(p: Program, known: Sequence[NamedSharding | None], mesh: Any,
                 wanted: Sequence[NamedSharding | None]) -> dict[Any, PartitionSpec]:
    """The spec of every variable, those of inner programs included; of one that belongs to a
    program which is called twice, that of one call."""
    g, _, _ = _solved(p, known, mesh, wanted)
    return {v: _spec(n) for v, n in g.all.items() if n.changed}


def _solved(p: Program, known: Sequence[NamedSharding | None], mesh: Any,
            wanted: Sequence[NamedSharding | None] | None = None
            ) -> tuple[_Graph, list[_Node], list[_Node]]:
    g = _Graph(mesh)
    inputs = g.annotated([v.aval for v in (*p.const_vars, *p.inputs)], known)
    outs = g.enter(p, inputs)
    for node, want in zip(outs, wanted or ()):
        if want is not None and not any(node.fixed):
            node.fix(g.spec(want))
    g.solve()
    return g, inputs, outs


def of_equation(prim: Primitive, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray],
                params: Params, known: Sequence[NamedSharding | None], mesh: Any
                ) -> list[PartitionSpec]:
    """The same for one operation."""
    g = _Graph(mesh)
    ins = g.annotated(in_avals, known)
    outs = [_Node(a.shape) for a in out_avals]
    g.equation(prim, ins, outs, in_avals, out_avals, params)
    g.solve()
    return [_spec(n) for n in outs]


def _spec(node: _Node) -> PartitionSpec:
    axes = list(node.axes)
    while axes and not axes[-1]:
        axes.pop()
    return PartitionSpec(*[a or None for a in axes])


__all__ = ["Dims", "Rule", "of_equation", "propagate", "specs_of", "specs_of_all"]
