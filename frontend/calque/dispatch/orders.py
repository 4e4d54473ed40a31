"""Programs whose arguments or results lie in other orders than row-major.

A traced Program knows nothing of memory.  What is compiled for a signature in which orders occur
reads such an argument as a transposition of what lies there, and returns what is to lie there of
such a result (`Orders.program`).  With Layout.AUTO a result lies as it comes: a transposition of a
row-major value, and what is computed element by element from one, is written as that value, without
a copy; that is what XLA chooses on CPUs, too.  Start reading at `Orders`.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.errors import explain
from calque.core.formats import AUTO, LaidOut, Order, order_of
from calque.core.program import Atom, Equation, Program, Var, eliminate_dead_code
from calque.dispatch.array import Array
from calque.dispatch.laid import held_in, inverse, laid, turned
from calque.dispatch.sharded.spanning import made
from calque.primitives.shape import transpose_p
from calque.runtime import Buffer

__all__ = ["Orders", "check_donated", "orders_for", "split"]

_MARKS = frozenset(("sharding_constraint", "stop_gradient"))  # results are their operand's value


@dataclass(frozen=True, slots=True)
class Orders:
    """In which orders the arguments and results of a program lie; None: row-major."""

    ins: tuple[Order | None, ...]
    outs: tuple[Order | None, ...]

    def program(self, p: Program) -> Program:
        """The program of what lies in memory."""
        memory = _Memory(p, self.ins)
        outputs = [memory.output(o, order) for o, order in zip(p.outputs, self.outs)]
        return eliminate_dead_code(p.replace(
            inputs=memory.inputs, equations=memory.equations, outputs=outputs))

    def buffers(self, leaves: Sequence[Any]) -> list[Buffer]:
        """What lies in memory of arguments."""
        return [held_in(x, order) for x, order in zip(leaves, self.ins)]

    def arrays(self, outs: Sequence[Buffer], avals: Sequence[ShapedArray]) -> list[Array]:
        """The results of what the program returned."""
        return [made(b, a) if order is None else laid(b, a, order)
                for b, a, order in zip(outs, avals, self.outs)]


def split(avals: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """(types, orders) of what stands for arguments in a signature."""
    return ([a.aval if type(a) is LaidOut else a for a in avals],
            [a.order if type(a) is LaidOut else None for a in avals])


def orders_for(name: str, p: Program, ins: Sequence[Any], layouts: Sequence[Any], plain: bool
               ) -> Orders | None:
    """The orders of a program's arguments and results; None where all are row-major.

    ins: of the arguments, AUTO meaning row-major; layouts: what was said of each result: a Layout,
    AUTO (as it comes), or None (row-major, but as a with_layout_constraint says that it is made
    by); plain: the program runs on row-major arrays only, of which arguments are copies
    """
    ins = given = tuple(None if o is AUTO else o for o in ins)
    constrained = any([e.name == "layout_constraint" for e in p.equations])
    if not (any(given) or any(layouts) or constrained):
        return None
    said = list(layouts) or [None] * len(p.outputs)
    outs = []
    memory = _Memory(p, given)
    for o, layout in zip(p.outputs, said):
        if layout is None and constrained:
            layout = _constrained(p, o)
        if layout is AUTO:
            outs.append(memory.found[o][1] if o in memory.found else None)
        else:
            outs.append(order_of(f"a result of {name}", layout, o.aval.shape))
    if plain and any(outs):
        raise NotImplementedError(explain(
            f"{name}: results of functions that use references, or run over several processes, are "
            f"row-major, got orders {outs}.", fix="leave the layout out."))
    if plain:
        given = (None,) * len(given)
    return Orders(given, tuple(outs)) if any(ins) or any(outs) else None


def _constrained(p: Program, o: Atom) -> Any:
    """The layout that the last constraint says of a result that it makes."""
    for e in reversed(p.equations):
        if o in e.outputs:
            if e.name == "layout_constraint":
                return e.params["layout"]
            if e.name not in _MARKS:
                return None
            o = e.inputs[0]
    return None


def check_donated(name: str, avals: Sequence[ShapedArray], ins: Sequence[Any],
                  results: Sequence[ShapedArray], layouts: Sequence[Any],
                  donated: Sequence[int]) -> None:
    """ValueError where AUTO is said of a donated argument, or of the result that could take its
    memory, and nothing of the other.

    ins: of the arguments: AUTO, an order or None (known to be row-major), or "" (nothing is known)
    """
    free = list(range(len(results)))
    for i in donated:
        found = next((k for k in free if (results[k].shape, results[k].dtype)
                      == (avals[i].shape, avals[i].dtype)), None)
        if found is None:
            continue
        free.remove(found)
        into = layouts[found] if layouts else None
        side = ("output" if ins[i] is AUTO and into is not AUTO else
                "input" if into is AUTO and ins[i] == "" else None)
        if side:
            raise ValueError(explain(
                f"{name}: the layout of a donated argument, {avals[i].short()}, was "
                f"{ins[i] or 'not said'} and that of the result in its memory {into}. Did you mean "
                f"to set the **{side} layout** to **Layout.AUTO**?",
                fix="say Layout.AUTO of both, or of neither."))


class _Memory:
    """A program over what lies in its arguments' memory, and of its variables what is known of
    them in other orders: (what is the value's transposition by this order, the order)."""

    def __init__(self, p: Program, ins: Sequence[Order | None]) -> None:
        self.inputs: list[Var] = []
        self.equations: list[Equation] = []
        self.found: dict[Atom, tuple[Atom, Order | None]] = {}
        same: dict[Atom, Atom] = {}  # values that lie there row-major
        for v, order in zip(p.inputs, ins):
            if order is None:
                self.inputs.append(v)
                continue
            held = Var(turned(v.aval, order))
            self.inputs.append(held)
            self.equations.append(Equation(
                transpose_p, (held,), (v,), {"permutation": inverse(order)}))
            self.found[v] = held, order
        for e in p.equations:
            if same:
                e = e.reading(same)
            self.equations.append(e)
            known = self.known(e) if len(e.outputs) == 1 else None
            if known is not None:
                self.found[e.outputs[0]] = known
                if known[1] is None:
                    same[e.outputs[0]] = known[0]

    def known(self, e: Equation) -> tuple[Atom, Order | None] | None:
        """The result of an equation in the order in which it comes, where that is not row-major, or
        is and less work."""
        if e.name == "transpose":
            held, order = self.found.get(e.inputs[0], (e.inputs[0], None))
            back = inverse(e.params["permutation"])
            come = tuple(back[i] for i in order or range(len(back)))
            return held, None if come == tuple(range(len(come))) else come
        if e.name in _MARKS:
            return self.found.get(e.inputs[0])
        if e.name == "layout_constraint":
            (x,), shape = e.inputs, e.outputs[0].aval.shape
            order = order_of("with_layout_constraint", e.params["layout"], shape)
            return self.output(x, order), order
        if e.primitive.elementwise:
            return self.elementwise(e)
        return None

    def elementwise(self, e: Equation) -> tuple[Atom, Order | None] | None:
        """Of operands that all come in one order."""
        whole = [x for x in e.inputs if x.aval.ndim]
        orders = {self.found[x][1] if x in self.found else None for x in whole}
        if len(orders) != 1 or None in orders:
            return None
        (order,) = orders
        assert order is not None
        made = Var(turned(e.outputs[0].aval, order))
        self.equations.append(e.replace(outputs=(made,), inputs=tuple(
            self.found[x][0] if x.aval.ndim else x for x in e.inputs)))
        return made, order

    def output(self, o: Atom, order: Order | None) -> Atom:
        """What lies in memory of a value in an order."""
        held, come = self.found.get(o, (o, None))
        if come == order:
            return held
        if order is None:
            return o
        made = Var(turned(o.aval, order))
        self.equations.append(Equation(transpose_p, (o,), (made,), {"permutation": order}))
        return made
