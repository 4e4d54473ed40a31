"""Taylor series through Programs: the coefficients of f(x(t)) from those of x(t).

A `Series` is a value at t = 0 and the coefficients of t, t^2, ... up to an order.  `run` takes a
Program equation by equation.  Rules stand for what would grow without one (products, quotients,
linear operations, control flow); all else follows from its derivative: y' = df(x) x', so the
coefficients of y are those of df(x) x', one order lower, divided by 1, 2, ...  Used by jet.py.
Start reading at `run`.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from calque.api.control import scan, switch
from calque.api.loops import while_loop
from calque.core.avals import aval_of
from calque.core.evaluate import each, literal_value, replay
from calque.core.lists import split_list
from calque.core.program import (
    Equation,
    Literal,
    Program,
    Var,
    eliminate_dead_code,
)
from calque.core.zeros import zeros
from calque.transforms.jvp import jvp_program
from calque.trees import util as tree_util


@dataclass(frozen=True, slots=True)
class Series:
    """A value and the coefficients of t, t^2, ... behind it; None: it does not depend on t."""

    first: Any
    rest: tuple[Any, ...] | None = None

    def at(self, k: int) -> Any:
        """The coefficient of t^k, None where it is zero."""
        return self.first if k == 0 else None if self.rest is None else self.rest[k - 1]


tree_util.register_pytree_node(Series, lambda s: ((s.first, s.rest), None),
                               lambda _, parts: Series(*parts))
Rule = Callable[[Equation, Sequence[Series], int], Sequence[Series]]
RULES: dict[str, Rule] = {}
# primitives that are linear in these operands taken together; None: in all
LINEAR: dict[str, tuple[int, ...] | None] = {
    **dict.fromkeys(("add", "sub", "neg", "add_any", "real", "imag", "complex", "conj", "copy",
                     "concatenate", "pad", "pvary", "psum", "optimization_barrier")),
    **dict.fromkeys(("convert_element_type", "reshape", "transpose", "broadcast_in_dim", "slice",
                     "rev", "squeeze", "reduce_sum", "reduce_window_sum", "cumsum", "fft", "gather",
                     "dynamic_slice", "name", "reduce_precision"), (0,)),
    "select_n": tuple(range(1, 64)), "dynamic_update_slice": (0, 1), "scatter": (0, 2),
    "scatter-add": (0, 2), "scatter-sub": (0, 2)}
CALLS = {"jit", "custom_jvp_call", "custom_vjp_call", "custom_vmap_call", "checkpoint",
         "custom_partitioning"}


def run(p: Program, args: Sequence[Series], order: int) -> list[Series]:
    """The series of a Program's results up to t^order, under the current trace."""
    values = [*map(Series, p.consts), *args]
    return each(p, values, lambda a: Series(literal_value(a)),
                lambda e, xs: _equation(e, xs, order))


def _equation(e: Equation, xs: Sequence[Series], order: int) -> Sequence[Series]:
    if order == 0 or all(x.rest is None for x in xs):
        return [Series(y) for y in _bind(e, [x.first for x in xs])]
    name = e.primitive.name
    if name in CALLS:
        return run(e.inner[0], xs, order)
    if name in LINEAR:
        return _linear(e, xs, order)
    outs = RULES.get(name, _by_derivative)(e, xs, order)
    return [o if smooth(v) else Series(o.first) for o, v in zip(outs, e.outputs)]


def _bind(e: Equation, values: Sequence[Any]) -> Sequence[Any]:
    out = e.primitive.bind(*values, **e.params)
    return out if e.primitive.multiple_results else [out]


def smooth(v: Any) -> bool:
    """Whether a value has derivatives: it is a real or complex number."""
    aval = v.aval if isinstance(v, (Var, Literal)) else aval_of(v)
    return bool(aval.tangent().dtype == aval.dtype)


def total(terms: Sequence[Any]) -> Any:
    """The sum of values, of which None is zero."""
    found = [t for t in terms if t is not None]
    return functools.reduce(lambda a, b: a + b, found) if found else None


def scaled(x: Any, factor: float) -> Any:
    """A value (None: zero) times a number, in its dtype."""
    return x if x is None or factor == 1 else x * factor


def full(s: Series, order: int) -> Series:
    """The series with a value for each coefficient."""
    return Series(s.first, tuple(zeros(aval_of(s.first)) if s.at(k) is None else s.at(k)
                                 for k in range(1, order + 1)))


def _series(terms: Sequence[Any]) -> Series:
    first, *rest = terms
    return Series(first, None if all(t is None for t in rest) else tuple(rest))


# ---- rules
def _linear(e: Equation, xs: Sequence[Series], order: int) -> Sequence[Series]:
    places = LINEAR[e.primitive.name]
    moving = range(len(xs)) if places is None else [i for i in places if i < len(xs)]
    rows = [_bind(e, [x.first for x in xs])]
    for k in range(1, order + 1):
        if all(xs[i].at(k) is None for i in moving):
            rows.append([None] * len(e.outputs))
            continue
        values = [x.first for x in xs]
        for i in moving:
            term = xs[i].at(k)
            values[i] = zeros(aval_of(xs[i].first)) if term is None else term
        rows.append(_bind(e, values))
    return [_series(column) if smooth(v) else Series(column[0])
            for column, v in zip(zip(*rows), e.outputs)]


def _product(e: Equation, xs: Sequence[Series], order: int) -> Sequence[Series]:
    """Cauchy's product, for what is linear in each of two operands."""
    a, b = xs
    terms = []
    for k in range(order + 1):
        pairs = [(a.at(i), b.at(k - i)) for i in range(k + 1)]
        terms.append(total([_bind(e, p)[0] for p in pairs if p[0] is not None
                            and p[1] is not None]))
    return [_series(terms)]


def _quotient(e: Equation, xs: Sequence[Series], order: int) -> Sequence[Series]:
    """y b = a, solved for one coefficient of y after the other."""
    a, b = xs
    terms = _bind(e, [a.first, b.first])[:1]
    for k in range(1, order + 1):
        carried = total([terms[k - j] * b.at(j) for j in range(1, k + 1)
                         if terms[k - j] is not None and b.at(j) is not None])
        above = a.at(k) if carried is None else total([a.at(k), -carried])
        terms = [*terms, None if above is None else _bind(e, [above, b.first])[0]]
    return [_series(terms)]


def _by_derivative(e: Equation, xs: Sequence[Series], order: int) -> Sequence[Series]:
    """The integral of the derivative's series (the module's docstring)."""
    mask = [x.rest is not None for x in xs]
    program, has = _derivative(e, mask)
    outs = [Series(y) for y in _bind(e, [x.first for x in xs])]
    moved = [_slope(x, order) for x, m in zip(xs, mask) if m]
    lower = [x if x.rest is None else Series(x.first, x.rest[:order - 1]) for x in xs]
    found = iter(run(program, [*lower, *moved], order - 1))
    for i, h in enumerate(has):
        if h:
            slope = next(found)
            outs[i] = _series([outs[i].first, *[scaled(slope.at(k), 1 / (k + 1))
                                                for k in range(order)]])
    return outs


def _slope(x: Series, order: int) -> Series:
    """The series of x', one order lower."""
    terms = [scaled(x.at(k), k) for k in range(1, order + 1)]
    if terms[0] is None:
        terms[0] = zeros(aval_of(x.first))
    return _series(terms)


def _derivative(e: Equation, mask: Sequence[bool]) -> tuple[Program, list[bool]]:
    """The Program of (operands, tangents) -> tangents of an equation; which results have one."""
    inputs = [Var(a.aval) for a in e.inputs]
    outputs = [Var(v.aval) for v in e.outputs]
    alone = Program(inputs, [e.replace(inputs=tuple(inputs), outputs=tuple(outputs))], outputs,
                    name=e.primitive.name)
    program, has = jvp_program(alone, mask)
    used = [False] * len(outputs) + [True] * sum(has)
    return eliminate_dead_code(program, used), has


# ---- control flow: series are carried, scanned and returned as trees
def _forced(outs: Sequence[Series], order: int) -> list[Series]:
    return [full(o, order) if smooth(o.first) else Series(o.first) for o in outs]


def _cond(e: Equation, xs: Sequence[Series], order: int) -> Sequence[Series]:
    index, *operands = xs
    branches = [lambda given, p=p: _forced(run(p, given, order), order)
                for p in e.params["branches"]]
    return switch(index.first.astype("int32"), branches, operands)


def _scan(e: Equation, xs: Sequence[Series], order: int) -> Sequence[Series]:
    given = e.params
    consts, init, rows = split_list(xs, given["num_consts"], given["num_carry"])

    def body(carry: Any, row: Any) -> Any:
        outs = run(given["jaxpr"], [*consts, *carry, *row], order)
        return (_forced(outs[:len(init)], order), outs[len(init):])

    carry, stacked = scan(body, _forced(init, order), rows, length=given["length"],
                          reverse=given["reverse"], unroll=given["unroll"])
    return [*carry, *stacked]


def _while(e: Equation, xs: Sequence[Series], order: int) -> Sequence[Series]:
    given = e.params
    looks, consts, init = split_list(xs, given["cond_nconsts"], given["body_nconsts"])
    return while_loop(
        lambda carry: replay(given["cond_jaxpr"], *[x.first for x in (*looks, *carry)])[0],
        lambda carry: _forced(run(given["body_jaxpr"], [*consts, *carry], order), order),
        _forced(init, order))


RULES |= {"mul": _product, "dot_general": _product, "conv_general_dilated": _product,
          "div": _quotient, "cond": _cond, "scan": _scan, "while": _while}
