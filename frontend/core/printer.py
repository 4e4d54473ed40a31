"""Programs as text, in jaxpr notation: `{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }`.

Start reading at `program_text`.  Imports core.program.
"""
from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from calque.core.program import Atom, Equation, Literal, Program, Var


def _letters() -> Iterator[str]:
    for n in itertools.count(1):
        for t in itertools.product("abcdefghijklmnopqrstuvwxyz", repeat=n):
            yield "".join(t)


class _Names:
    def __init__(self) -> None:
        self.fresh = _letters()
        self.known: dict[Var, str] = {}

    def var(self, v: Var) -> str:
        if v not in self.known:
            self.known[v] = next(self.fresh)
        return self.known[v]

    def atom(self, a: Atom) -> str:
        if isinstance(a, Literal):
            value = a.value
            text = str(value.item() if isinstance(value, np.generic) and value.dtype.kind in "iufb"
                       else value)
            return f"{text}:{a.aval.short()}"
        return self.var(a)


def program_text(p: Program) -> str:
    """The whole program; inner programs are printed as parameters."""
    names = _Names()
    return _lambda_text(p, names, "")


def _binders(vs: tuple[Var, ...], names: _Names) -> str:
    return " ".join(f"{names.var(v)}:{v.aval.short()}" for v in vs)


def _lambda_text(p: Program, names: _Names, indent: str) -> str:
    consts, inputs = _binders(p.const_vars, names), _binders(p.inputs, names)
    head = f"{{ lambda {consts + ' ' if consts else ''};{' ' + inputs if inputs else ''}. let"
    lines = [f"{indent}    {line}" for e in p.equations
             for line in _equation_text(e, names).split("\n")]
    outs = ", ".join(names.atom(o) for o in p.outputs)
    tail = f"({outs},)" if len(p.outputs) == 1 else f"({outs})"
    if not lines:
        return f"{head}  in {tail} }}"
    return "\n".join([head, *lines, f"{indent}  in {tail} }}"])


def _equation_text(e: Equation, names: _Names) -> str:
    ins = " ".join(names.atom(a) for a in e.inputs)
    outs = _binders(e.outputs, names)
    params = _params_text(e.params)
    return f"{outs} = {e.primitive.name}{params} {ins}".rstrip()


_HIDDEN = {"sharding": None, "out_sharding": None}


def _value_text(value: Any) -> str:
    if isinstance(value, Program):
        return _lambda_text(value, _Names(), "  ")
    if isinstance(value, tuple) and value and all(isinstance(v, Program) for v in value):
        return "(\n" + "\n".join(_value_text(v) for v in value) + "\n)"
    if isinstance(value, np.dtype):
        return value.name
    if callable(value) and not isinstance(value, type):
        return getattr(value, "__name__", type(value).__name__)
    return str(value)


def _params_text(params: dict[str, Any]) -> str:
    shown = [(k, _value_text(v)) for k, v in sorted(params.items())
             if not (k in _HIDDEN and v is None)]
    if not shown:
        return ""
    if len(shown) == 1 and "\n" not in shown[0][1]:
        return f"[{shown[0][0]}={shown[0][1]}]"
    body = "\n".join("  " + line for k, v in shown for line in f"{k}={v}".split("\n"))
    return f"[\n{body}\n]"


text_of: Callable[[Program], str] = program_text
