"""What can be said of integer scalars before a Program runs: of index maps, and of what a kernel
computes of its place in a grid.

Values of many cells at once are NumPy arrays that broadcast.  Imports core; start reading at
`evaluate`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core.evaluate import each
from calque.core.program import Atom, Equation, Literal, Program, Var
from calque.core.types import Function


def _div(x: Any, y: Any, **_: Any) -> Any:
    """Towards zero; by zero as compiled code does (-1)."""
    x, by = x.astype(np.int64), np.where(y == 0, 1, y).astype(np.int64)
    q = np.abs(x) // np.abs(by)
    return np.where(y == 0, -1, np.where((x < 0) != (by < 0), -q, q))


def _rem(x: Any, y: Any, **_: Any) -> Any:
    return np.where(y == 0, x, np.fmod(x, np.where(y == 0, 1, y)))


def _select(which: Any, *cases: Any) -> Any:
    index = np.asarray(which).astype(np.int64)
    return np.select([index == i for i in range(len(cases))], cases)


def _shifted(shift: Any, x: Any, y: Any, beyond: Any) -> Any:
    """By more bits than there are, `beyond`."""
    bits = 8 * x.dtype.itemsize
    return np.where((y < 0) | (y >= bits), beyond, shift(x, np.clip(y, 0, bits - 1)))


RULES: dict[str, Function] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": _div, "rem": _rem,
    "max": np.maximum, "min": np.minimum, "neg": np.negative, "abs": np.abs, "sign": np.sign,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "not": np.invert, "select_n": _select, "clamp": lambda low, x, high: np.clip(x, low, high),
    "shift_left": lambda x, y: _shifted(np.left_shift, x, y, 0),
    "shift_right_arithmetic": lambda x, y: _shifted(
        np.right_shift, signed := x.astype(f"i{x.dtype.itemsize}"), y, np.where(signed < 0, -1, 0)),
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
    def run(e: Equation, values: list[Any]) -> list[Any]:
        outs = outputs(e, values)
        if outs is None:
            raise UnknownError(e.name)
        return outs

    return each(p, _given_of(p, inputs), _value_of, run)


def read(env: dict[Var, Any], a: Atom) -> Any:
    return _value_of(a) if isinstance(a, Literal) else env.get(a)


def _value_of(a: Literal) -> Any:
    return np.asarray(a.value)


def _given_of(p: Program, facts: Sequence[Any]) -> list[Any]:
    """What is known of a Program's inputs, and nothing of its consts."""
    return [*[None] * len(p.const_vars), *facts]


def outputs(e: Equation, values: Sequence[Any]) -> list[Any] | None:
    """Values of an equation's results; None where they are not known."""
    if any(v is None for v in values) or any(
            v.aval.shape or v.aval.dtype.kind not in "iub" for v in e.outputs):
        return None
    name = e.name
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
        values = [read(env, a) for a in e.inputs]
        if e.name == "cond" and values[0] is not None:
            found.append(values[0])
            for b in e.params["branches"]:
                found += choices(b, _given(b.inputs, values[1:]))
        elif e.name == "jit" and any(v is not None for v in values):
            found += choices(e.params["jaxpr"], _given(e.params["jaxpr"].inputs, values))
        outs = outputs(e, values)
        if outs is not None:
            env.update(zip(e.outputs, outs))
    return found


def _given(inputs: Sequence[Var], values: Sequence[Any]) -> dict[Var, Any]:
    return {v: x for v, x in zip(inputs, values) if x is not None}


def known_outputs(p: Program, facts: Sequence[Any]) -> list[Any]:
    """What is known of a Program's results where this is known of its inputs."""
    return each(p, _given_of(p, facts), _value_of,
                lambda e, values: outputs(e, values) or [None] * len(e.outputs))
