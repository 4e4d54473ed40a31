"""What can be said of small integers before a Program runs: of index maps, and of what a kernel
computes of its place in a grid.

`evaluate` gives the values of scalar integer equations for many arguments at once, as NumPy arrays
that broadcast; `simplified` runs a Program with some inputs known, so that their branches are
chosen.  Imports core and transforms; start reading at `evaluate`.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray, aval_of
from calque.core.evaluate import literal_value
from calque.core.program import Atom, Equation, Literal, Program, Var
from calque.core.source import replaying
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh


def _div(x: Any, y: Any, **_: Any) -> Any:
    """Towards zero; by zero as compiled code does (-1)."""
    by = np.where(y == 0, 1, y)
    q = np.abs(x) // np.abs(by)
    return np.where(y == 0, -1, np.where((x < 0) != (by < 0), -q, q))


def _rem(x: Any, y: Any, **_: Any) -> Any:
    return np.where(y == 0, x, np.fmod(x, np.where(y == 0, 1, y)))


def _select(which: Any, *cases: Any) -> Any:
    index = np.asarray(which).astype(np.int64)
    return np.select([index == i for i in range(len(cases))], cases)


RULES: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": _div, "rem": _rem,
    "max": np.maximum, "min": np.minimum, "neg": np.negative, "abs": np.abs, "sign": np.sign,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "not": np.invert, "select_n": _select, "clamp": lambda low, x, high: np.clip(x, low, high),
    "shift_left": np.left_shift, "shift_right_arithmetic": np.right_shift,
    "integer_pow": lambda x, y: np.power(x, y), "convert_element_type": lambda x, **_: x,
    "copy": lambda x: x, "stop_gradient": lambda x: x,
}
_SCALARS = ("reshape", "squeeze", "broadcast_in_dim")  # of a scalar that stays one


class UnknownError(Exception):
    """An equation whose value is not known beforehand; its text is the primitive's name."""


def evaluate(p: Program, inputs: Sequence[Any]) -> list[Any]:
    """The results of a Program of integer scalars for arrays of arguments, which broadcast.

    Raises:
      UnknownError: it does more than arithmetic and choices of integers.
    """
    env: dict[Var, Any] = dict(zip(p.inputs, inputs))
    for e in p.equations:
        outs = _outputs(e, [_read(env, a) for a in e.inputs])
        if outs is None:
            raise UnknownError(e.primitive.name)
        env.update(zip(e.outputs, outs))
    return [_read(env, o) for o in p.outputs]


def _read(env: dict[Var, Any], a: Atom) -> Any:
    return np.asarray(a.value) if isinstance(a, Literal) else env.get(a)


def _outputs(e: Equation, values: Sequence[Any]) -> list[Any] | None:
    """Values of an equation's results; None where they are not known."""
    if any(v is None for v in values) or any(
            v.aval.shape or v.aval.dtype.kind not in "iub" for v in e.outputs):
        return None
    name = e.primitive.name
    with np.errstate(all="ignore"):
        if name == "jit":
            return _each(e.params["jaxpr"], values)
        if name == "cond":
            cases = [_each(b, values[1:]) for b in e.params["branches"]]
            if any(c is None for c in cases):
                return None
            index = np.clip(values[0], 0, len(cases) - 1)
            return [_select(index, *outs) for outs in zip(*[c for c in cases if c is not None])]
        if name in _SCALARS:
            return [values[0]]
        if name not in RULES or any(a.aval.shape or a.aval.dtype.kind not in "iub"
                                    for a in e.inputs):
            return None
        params = {"y": e.params["y"]} if name == "integer_pow" else {}
        made = RULES[name](*[np.asarray(v, a.aval.dtype) for v, a in zip(values, e.inputs)],
                           **params)
    return [np.asarray(made).astype(e.outputs[0].aval.dtype)]


def _each(p: Program, inputs: Sequence[Any]) -> list[Any] | None:
    if p.consts:
        return None
    try:
        return evaluate(p, inputs)
    except UnknownError:
        return None


def choices(p: Program, known: dict[Var, Any]) -> list[Any]:
    """The indices of p's branches, also of those in calls, that are known where some inputs are:
    arrays that broadcast."""
    env, found = dict(known), []
    for e in p.equations:
        values = [_read(env, a) for a in e.inputs]
        if e.primitive.name == "cond" and values[0] is not None:
            found.append(values[0])
            for b in e.params["branches"]:
                found += choices(b, _given(b.inputs, values[1:]))
        elif e.primitive.name == "jit" and any(v is not None for v in values):
            found += choices(e.params["jaxpr"], _given(e.params["jaxpr"].inputs, values))
        outs = _outputs(e, values)
        if outs is not None:
            env.update(zip(e.outputs, outs))
    return found


def _given(inputs: Sequence[Var], values: Sequence[Any]) -> dict[Var, Any]:
    return {v: x for v, x in zip(inputs, values) if x is not None}


def simplified(p: Program, args: Sequence[Any], facts: Sequence[Any], cells: int = 0
               ) -> list[Any]:
    """Run p's equations under the current trace.  What is the same wherever it is run is computed
    at once, and branches that it chooses are run in place.

    Args:
      facts: for each argument the values that it takes, an array that broadcasts with the others'
        (the cells in which p is run); None where they are not known.
      cells: how many cells are computed at once; short loops whose steps are much work in so many
        are written out (0: none).
    """
    return [x for x, _ in _traced(p, args, facts, cells)]


def _traced(p: Program, args: Sequence[Any], facts: Sequence[Any], cells: int
            ) -> list[tuple[Any, Any]]:
    """(value, fact) of each result."""
    env: dict[Var, tuple[Any, Any]] = dict(zip(p.inputs, zip(args, facts)))

    def read(a: Atom) -> tuple[Any, Any]:
        return (literal_value(a), np.asarray(a.value)) if isinstance(a, Literal) else env[a]

    for e in p.equations:
        token = replaying.set(e.source)
        try:
            env.update(zip(e.outputs, _run(e, [read(a) for a in e.inputs], cells)))
        finally:
            replaying.reset(token)
    return [read(o) for o in p.outputs]


def _run(e: Equation, inputs: Sequence[tuple[Any, Any]], cells: int
         ) -> Sequence[tuple[Any, Any]]:
    """(value, fact) of each result."""
    facts = [f for _, f in inputs]
    outs = _outputs(e, facts)
    if outs is not None and all(_constant(o) for o in outs):
        return [(_number(o, v.aval), o) for o, v in zip(outs, e.outputs)]
    name = e.primitive.name
    program, given = None, inputs
    if name == "cond" and facts[0] is not None and _constant(facts[0]):
        branches, index = e.params["branches"], int(facts[0].flat[0])
        program, given = branches[min(max(index, 0), len(branches) - 1)], inputs[1:]
    elif name == "jit" and any(f is not None for f in facts):
        program = e.params["jaxpr"]
    values = [x for x, _ in given]
    made: Any
    if name == "scan" and is_written_out(e.params["jaxpr"], e.params["length"], cells):
        return _written_out(given, cells, **e.params)
    if name == "while" and (alive := _steps_of(given, cells, **e.params)) is not None:
        return _while_written_out(given, alive, cells, **e.params)
    if name == "dynamic_slice" and all(f is not None and _constant(f) for f in facts[1:]):
        made = [_slice(e, values[0], [int(f.flat[0]) for f in facts[1:]])]
    elif program is not None:
        made = simplified(program, values, [f for _, f in given], cells)
    else:
        made = e.primitive.bind(*values, **e.params)
        made = made if e.primitive.multiple_results else [made]
    return list(zip(made, outs if outs is not None else [None] * len(made)))


# ---- loops that are written out
MOST_STEPS, MOST_EQUATIONS = 32, 500
MUCH = 1_200_000  # element operations of a step that a loop kernel would not take (passes/cost)
MOST_CELLS = 1 << 20  # whose loops are counted


def is_written_out(body: Program, length: int, cells: int) -> bool:
    """Whether a loop's steps, each of which would be dispatches of its own, are written out."""
    return (length <= MOST_STEPS and length * _count(body) <= MOST_EQUATIONS
            and _work(body) * cells > MUCH)


def _inner(e: Equation) -> list[Program]:
    return [q for value in e.params.values() for q in (
        value if isinstance(value, tuple) else (value,)) if isinstance(q, Program)]


def _count(p: Program) -> int:
    """Equations, with those of loops in it as if they were written out."""
    return sum(1 + sum(map(_count, _inner(e))) * (
        e.params["length"] if e.primitive.name == "scan" else 1) for e in p.equations)


def _work(p: Program) -> int:
    """Element operations, about."""
    total = 0
    for e in p.equations:
        times = e.params["length"] if e.primitive.name == "scan" else 1
        total += times * sum(map(_work, _inner(e)))
        size = sum(v.aval.size for v in e.outputs)
        if e.primitive.name == "dot_general":
            contracted = e.params["dimension_numbers"][0][0]
            size *= math.prod(e.inputs[0].aval.shape[i] for i in contracted)
        total += size
    return total


def _written_out(given: Sequence[tuple[Any, Any]], cells: int, *, jaxpr: Program, length: int,
                 reverse: bool, num_consts: int, num_carry: int, **_: Any
                 ) -> list[tuple[Any, Any]]:
    """A scan's steps one after the other; facts of the carry go on as long as they are known."""
    end = num_consts + num_carry
    consts, carry, xs = given[:num_consts], list(given[num_consts:end]), given[end:]
    stacks: list[list[Any]] = [[] for _ in jaxpr.outputs[num_carry:]]
    for step in reversed(range(length)) if reverse else range(length):
        rows = [(_row(x, step), None) for x, _ in xs]
        values, facts = zip(*[*consts, *carry, *rows]) if consts or carry or rows else ((), ())
        env = _traced(jaxpr, values, facts, cells)
        carry = env[:num_carry]
        for stack, (y, _) in zip(stacks, env[num_carry:]):
            stack.append(y)
    ys = [(_stacked(stack[::-1] if reverse else stack, v.aval, length), None)
          for stack, v in zip(stacks, jaxpr.outputs[num_carry:])]
    return [*carry, *ys]


def _known(p: Program, facts: Sequence[Any]) -> list[Any]:
    """What is known of a Program's results where this is known of its inputs."""
    env: dict[Var, Any] = dict(zip(p.inputs, facts))
    for e in p.equations:
        outs = _outputs(e, [_read(env, a) for a in e.inputs])
        if outs is not None:
            env.update(zip(e.outputs, outs))
    return [_read(env, o) for o in p.outputs]


def _steps_of(given: Sequence[tuple[Any, Any]], cells: int, *, cond_jaxpr: Program,
              body_jaxpr: Program, cond_nconsts: int, body_nconsts: int, **_: Any
              ) -> list[Any] | None:
    """For each step of a loop the cells that take it; None where they are not known, or where the
    loop is not written out."""
    facts = [f for _, f in given]
    before, inside = facts[:cond_nconsts], facts[cond_nconsts:cond_nconsts + body_nconsts]
    carry = facts[cond_nconsts + body_nconsts:]
    alive: Any = np.True_
    found: list[Any] = []
    while True:
        (go,) = _known(cond_jaxpr, [*before, *carry])
        if go is None or go.size > MOST_CELLS:
            return None
        alive = alive & go
        if not alive.any():
            return found
        found.append(alive)
        if not is_written_out(body_jaxpr, len(found), cells):
            return None
        carry = _known(body_jaxpr, [*inside, *carry])


def _while_written_out(given: Sequence[tuple[Any, Any]], alive: Sequence[Any], cells: int, *,
                       cond_jaxpr: Program, body_jaxpr: Program, cond_nconsts: int,
                       body_nconsts: int, **_: Any) -> list[tuple[Any, Any]]:
    """A loop's steps; a cell whose loop has ended keeps what it has."""
    before, inside = given[:cond_nconsts], given[cond_nconsts:cond_nconsts + body_nconsts]
    carry = list(given[cond_nconsts + body_nconsts:])
    for cells_of_step in alive:
        state = [*inside, *carry]
        new = _traced(body_jaxpr, [x for x, _ in state], [f for _, f in state], cells)
        if not cells_of_step.all():
            test = [*before, *carry]
            (go,) = _traced(cond_jaxpr, [x for x, _ in test], [f for _, f in test], cells)
            new = [(_chosen(go[0], v.aval, y, x), None)
                   for (x, _), (y, _), v in zip(carry, new, body_jaxpr.outputs)]
        carry = new
    return carry


def _chosen(go: Any, aval: ShapedArray, new: Any, old: Any) -> Any:
    if aval.shape:
        go = sh.broadcast_in_dim(go, aval.shape, ())
    return ew.select_n(go, old, new)


def _row(x: Any, i: int) -> Any:
    part = sh.slice_in_dim(x, i, i + 1, 0)
    return sh.reshape(part, aval_of(part).shape[1:])


def _stacked(ys: Sequence[Any], aval: ShapedArray, length: int) -> Any:
    if not ys:
        return sh.broadcast_in_dim(np.zeros((), aval.dtype)[()], (0, *aval.shape), ())
    return sh.concatenate([sh.broadcast_in_dim(
        y, (1, *aval.shape), tuple(range(1, aval.ndim + 1))) for y in ys], 0)


def _slice(e: Equation, x: Any, starts: Sequence[int]) -> Any:
    sizes, shape = e.params["slice_sizes"], aval_of(x).shape
    first = [min(max(s, 0), n - k) for s, k, n in zip(starts, sizes, shape)]
    return sh.slice_(x, first, [f + k for f, k in zip(first, sizes)])


def _constant(fact: Any) -> bool:
    return fact.size > 0 and bool((fact == fact.flat[0]).all())


def _number(fact: Any, aval: Any) -> Any:
    """The one value of a fact as it is bound: with its weak type."""
    return fact.flat[0].item() if aval.weak_type else fact.flat[0]
