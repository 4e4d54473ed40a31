"""Sums over the steps of a scan leave it: c + x^T y in every step, which is how a network's weights
get their gradients, is one product of all steps' x and y behind the loop.

A member of the carry that a step only adds to is such a sum, where what is added is a product or a
reduce_sum, possibly seen through linear operations.  What these read in a step is stacked, unless
it is scanned or stacked already, and the steps become one more summed axis.  The loop's carry is
then what depends on itself, whose rows several workgroups may share (passes/split).  Sums of floats
are rounded in another order, as those of any product; halves are rounded once.
Start reading at `accumulate`, then `_Loop.total`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.lists import other_axes
from calque.core.primitive import registry
from calque.core.program import Atom, Equation, Literal, Program, Var, eliminate_dead_code
from calque.core.types import Dtype
from calque.lowering.emit.dtypes import F16
from calque.lowering.passes.cost import is_unrolled
from calque.lowering.passes.flat import flat

MOST_STACKED = 1 << 28  # bytes of what is stacked for sums, and no more than is stacked already
VIEWS = frozenset(("transpose", "reshape", "squeeze", "convert_element_type", "copy"))
LINEAR = VIEWS | frozenset(("neg", "broadcast_in_dim", "slice", "rev", "pad", "mul", "reduce_sum"))


def accumulate(p: Program) -> Program:
    """p with the sums over steps of its scans, at any depth, behind them."""
    return p if "scan" not in p.names() else p.derived("accumulate", lambda: _accumulate(p))


def _accumulate(p: Program) -> Program:
    equations: list[Equation] = []
    for e in p.equations:
        e = e.with_inner(accumulate)
        equations += _without_sums(e) if e.name == "scan" else [e]
    return p if tuple(equations) == p.equations else p.replace(equations=equations)


def _without_sums(e: Equation) -> list[Equation]:
    if e.is_dynamic or not e.params["length"] or is_unrolled(e.params):
        return [e]
    loop = _Loop(e)
    for i in range(e.params["num_carry"]):
        loop.take(i)
    return loop.equations() if loop.sums else [e]


class _Refused(Exception):
    """A term that is no sum of ours."""


class _Loop:
    """A scan, and what is made of its steps behind it."""

    def __init__(self, e: Equation) -> None:
        self.e, self.body = e, flat(e.params["jaxpr"])
        self.length, self.n = e.params["length"], e.params["num_consts"]
        self.k = self.n + e.params["num_carry"]
        self.made: dict[Atom, Equation] = {v: q for q in self.body.equations for v in q.outputs}
        self.users: dict[Atom, list[Equation | int]] = {}
        for q in self.body.equations:
            for a in q.inputs:
                self.users.setdefault(a, []).append(q)
        for i, o in enumerate(self.body.outputs):
            self.users.setdefault(o, []).append(i)
        self.place = {v: i for i, v in enumerate(self.body.inputs)}
        self.still = set(self.body.inputs[:self.n])  # what is the same in every step
        for q in self.body.equations:
            if all(isinstance(a, Literal) or a in self.still for a in q.inputs):
                self.still.update(q.outputs)
        # what of the body is there for all steps: scanned arrays and stacked results
        self.stacks: dict[Atom, Var] = {}
        for v, a in zip(self.body.inputs[self.k:], e.inputs[self.k:]):
            if isinstance(a, Var):
                self.stacks[v] = a
        for o, v in zip(self.body.outputs[e.params["num_carry"]:],
                        e.outputs[e.params["num_carry"]:]):
            self.stacks.setdefault(o, v)
        self.room = min(MOST_STACKED, sum(a.aval.nbytes for a in (
            *e.inputs[self.k:], *e.outputs[e.params["num_carry"]:])))
        self.stacked: dict[Atom, Var] = {}  # added to the results
        self.behind: list[Equation] = []
        self.sums: dict[int, Var] = {}  # carry -> what takes the place of its last value

    # ---- which members of the carry
    def take(self, i: int) -> None:
        """Carry i as a sum behind the loop, where it is one."""
        terms = self.terms(i)
        if not terms:
            return
        state = dict(self.stacks), dict(self.stacked), self.room, len(self.behind)
        try:
            total: Atom = self.e.inputs[self.n + i]
            for t in terms:
                total = self.put("add", [total, self.total(t)], t.aval)
        except _Refused:
            self.stacks, self.stacked, self.room, count = state
            del self.behind[count:]
            return
        assert isinstance(total, Var)
        self.sums[i] = total

    def terms(self, i: int) -> list[Var]:
        """What a step adds to carry i; nothing where it does more."""
        v, found = self.body.inputs[self.n + i], list[Var]()
        while True:
            users = self.users.get(v, [])
            if len(users) != 1:
                return []
            (q,) = users
            if isinstance(q, int):
                return found if q == i else []
            (other,) = [a for a in q.inputs if a is not v] if len(q.inputs) == 2 else [None]
            if q.name not in ("add", "add_any") or not isinstance(other, Var) or (
                    other.aval.shape != v.aval.shape):
                return []
            found.append(other)
            (v,) = q.outputs

    # ---- the sum of a term over all steps
    def total(self, term: Var) -> Atom:
        """The sum of a value of the body over all steps."""
        chain: list[Equation] = []  # linear operations, the last one first
        v, least = term, None  # least: where the innermost reduce_sum stands in it
        while True:
            if v in self.stacks:
                return self.through(chain, v, self.put(
                    "reduce_sum", [self.stacks[v]], v.aval, out_sharding=None, axes=(0,)))
            q = self.made.get(v)
            if q is None:
                break
            dot = self.made.get(q.inputs[0]) if _widens(q) else q  # (a product's sums are wide)
            if dot is not None and dot.name == "dot_general" and (
                    least is None or len(self.users[v]) == 1):
                try:
                    return self.through(chain, v, self.product(dot, v.aval))
                except _Refused:
                    break
            source = self.linear(q)
            if source is None:
                break
            if q.name == "reduce_sum":
                least = len(chain)
            chain.append(q)
            v = source
        if least is None:
            raise _Refused
        q, out = chain[least], chain[least].outputs[0]
        made = self.put("reduce_sum", [self.stack(q.inputs[0])], out.aval, out_sharding=None,
                        axes=(0, *[a + 1 for a in q.params["axes"]]))
        return self.through(chain[:least], out, made)

    def linear(self, q: Equation) -> Var | None:
        """The operand in which an equation is linear; None where it is in none."""
        name = q.name
        if name not in LINEAR:
            return None
        x, *others = sorted(q.inputs, key=self.is_fixed) if name == "mul" else q.inputs
        if not isinstance(x, Var):
            return None
        before, after = x.aval.dtype, q.outputs[0].aval.dtype
        if before != after and (_widens(q) or not (_is_real(before) and _is_real(after))):
            return None
        if name == "pad" and not (isinstance(others[0], Literal) and others[0].value == 0):
            return None
        if name == "mul" and (not self.is_fixed(others[0]) or before == F16):
            return None  # (the sum of what is made smaller may be too large for a half)
        return x

    def is_fixed(self, a: Atom) -> bool:
        """Whether it is a literal or a const of the loop."""
        return isinstance(a, Literal) or self.place.get(a, self.n) < self.n

    def product(self, q: Equation, aval: ShapedArray) -> Var:
        """The sum of a product, as an aval that may be wider than its own."""
        (xc, yc), (xb, yb) = q.params["dimension_numbers"]
        kind = q.params["preferred_element_type"]
        if aval.dtype != q.outputs[0].aval.dtype:
            kind = aval.dtype
        x, y = (self.stack(a) for a in q.inputs)
        dims: Any = [[(0, *[i + 1 for i in axes]) for axes in (xc, yc)],
                     [tuple(i + 1 for i in axes) for axes in (xb, yb)]]
        lead = len(xc) + 1
        if not xb and all(axes == tuple(range(lead)) for axes in dims[0]):  # one matrix each
            x, y = [self.put("reshape", [a], a.aval.update(shape=(
                math.prod(a.aval.shape[:lead]), *a.aval.shape[lead:])), dimensions=None,
                sharding=None) for a in (x, y)]
            dims = [[(0,), (0,)], [(), ()]]
        return self.put("dot_general", [x, y], aval, **{
            **q.params, "dimension_numbers": tuple(map(tuple, dims)),
            "preferred_element_type": kind})

    def through(self, chain: Sequence[Equation], v: Var, now: Atom) -> Atom:
        """Linear operations (the last one first) from v on, of what takes its place."""
        for q in reversed(chain):
            if q.name == "reduce_sum" and q.outputs[0].aval.dtype == F16:
                raise _Refused  # (the sum of each of what is then added up may be too large)
            out = Var(q.outputs[0].aval)
            self.behind.append(q.replace(outputs=(out,), inputs=tuple(
                now if a is v else self.outside(a) for a in q.inputs)))
            v, now = q.outputs[0], out
        return now

    def outside(self, a: Atom) -> Atom:
        """A literal or a const of the body, before the loop."""
        return a if isinstance(a, Literal) else self.e.inputs[self.place[a]]

    def put(self, name: str, inputs: Sequence[Atom], aval: ShapedArray, **params: Any) -> Var:
        """A further equation behind the loop."""
        if name == "reshape":
            params["new_sizes"] = aval.shape
        out = Var(aval)
        self.behind.append(Equation(registry[name], tuple(inputs), (out,), params, self.e.source,
                                    self.e.scope))
        return out

    # ---- what is there for all steps
    def stack(self, a: Atom) -> Var:
        """All steps' values of a."""
        if not isinstance(a, Var) or a in self.still:
            raise _Refused
        if a in self.stacks:
            return self.stacks[a]
        aval = _stacked(a.aval, self.length)
        q = self.made.get(a)
        if q is not None and q.name in VIEWS and q.inputs[0] in self.stacks:
            if q.name == "convert_element_type":
                self.take_room(aval)
            self.stacks[a] = self.put(q.name, [self.stacks[q.inputs[0]]], aval,
                                      **_behind_steps(q))
            return self.stacks[a]
        self.take_room(aval)
        self.stacked[a] = self.stacks[a] = Var(aval)
        return self.stacks[a]

    def take_room(self, a: ShapedArray) -> None:
        self.room -= a.nbytes
        if self.room < 0:
            raise _Refused

    # ---- what is left
    def equations(self) -> list[Equation]:
        """The loop without its sums, and these."""
        e, body, gone = self.e, self.body, self.sums
        c = e.params["num_carry"]
        kept = other_axes(c, gone)
        inputs = [*body.inputs[:self.n], *[body.inputs[self.n + i] for i in kept],
                  *body.inputs[self.k:]]
        outputs = [*[body.outputs[i] for i in kept], *body.outputs[c:], *self.stacked]
        program = eliminate_dead_code(Program(inputs, body.equations, outputs, name=body.name))
        scan = e.replace(
            inputs=(*e.inputs[:self.n], *[e.inputs[self.n + i] for i in kept],
                    *e.inputs[self.k:]),
            outputs=(*[e.outputs[i] for i in kept], *e.outputs[c:], *self.stacked.values()),
            params={**e.params, "jaxpr": program, "num_carry": len(kept)})
        last = {v: e.outputs[i] for i, v in gone.items()}
        left = [scan] if scan.outputs or program.equations else []
        return [*left, *[q.replace(outputs=tuple(last.get(v, v) for v in q.outputs))
                        for q in self.behind]]


def _is_real(dtype: Dtype) -> bool:
    return dtype.kind in "fV"


def _widens(q: Equation) -> bool:
    """Whether an equation makes wider floats of narrow ones."""
    if q.name != "convert_element_type":
        return False
    before, after = q.inputs[0].aval.dtype, q.outputs[0].aval.dtype
    return _is_real(before) and _is_real(after) and after.itemsize > before.itemsize


def _stacked(a: ShapedArray, length: int) -> ShapedArray:
    return a.update(shape=(length, *a.shape))


def _behind_steps(q: Equation) -> dict[str, Any]:
    """The parameters of a view of all steps' values."""
    p, name = dict(q.params), q.name
    if name == "transpose":
        p["permutation"] = (0, *[i + 1 for i in p["permutation"]])
    elif name == "squeeze":
        p["dimensions"] = tuple(i + 1 for i in p["dimensions"])
    return p
