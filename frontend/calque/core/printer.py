"""Programs as text, in jaxpr notation: `{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }`.

The layout is that of JAX 0.10.2: what fits stands on one line, a program, an equation, a parameter;
letters go on in inner programs, but that of `jit` has the names of what it is called on.  Names are
given first, then lines are broken.
Start reading at `program_text`.  Imports core.program.
"""
from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.core.mesh import Mesh
from calque.core.program import Atom, Equation, Literal, Program, Var

_WIDTH, _NESTED = 80, 82  # columns of a whole program on one line, and of lines in one


@dataclass(frozen=True, slots=True)
class _Lambda:
    """A program whose variables have names."""

    consts: list[str]
    inputs: list[str]
    equations: list[_Line]
    outputs: str

    def flat(self) -> str:
        body = "; ".join(e.flat() for e in self.equations)
        return f"{' '.join(self.head())} {body} in {self.outputs} }}"

    def head(self) -> list[str]:
        """Its words up to `let`."""
        words = ["{ lambda", *self.consts]
        words[-1] += ";" if self.consts else " ;"
        words += self.inputs or [""]
        words[-1] += "."
        return [*words, "let"]

    def broken(self, indent: int, prefix: str = "") -> list[str]:
        first = [prefix + self.head()[0]]
        for word in self.head()[1:]:
            start = 0 if len(first) == 1 else 4
            if indent + start + len(first[-1]) + 1 + len(word) > _NESTED and word != "let":
                first.append(word)
            else:
                first[-1] += " " + word
        lines = [first[0], *["    " + line for line in first[1:]]]
        for e in self.equations:
            lines += ["    " + line for line in e.lines(indent + 4)]
        return [*lines, f"  in {self.outputs} }}"]

    def lines(self, indent: int, prefix: str = "") -> list[str]:
        text = prefix + self.flat()
        return [text] if _fits(text, indent) else self.broken(indent, prefix)


@dataclass(frozen=True, slots=True)
class _Line:
    """An equation: what stands before its parameters, they, and what it reads."""

    head: str
    params: list[tuple[str, str | _Lambda | list[_Lambda]]]
    operands: str

    def flat(self) -> str:
        params = " ".join(f"{k}={_flat(v)}" for k, v in self.params)
        return f"{self.head}{params and f'[{params}]'}{self.operands}"

    def lines(self, indent: int) -> list[str]:
        text = self.flat()
        if _fits(text, indent) or not self.params:
            return [text]
        inner = [line for k, v in self.params for line in _lines(k, v, indent + 2)]
        return [f"{self.head}[", *["  " + line for line in inner], f"]{self.operands}"]


def _fits(text: str, indent: int) -> bool:
    return indent + len(text) <= (_NESTED if indent else _WIDTH)


def _flat(value: str | _Lambda | list[_Lambda]) -> str:
    if isinstance(value, list):
        return f"( {' '.join(v.flat() for v in value)} )"
    return value if isinstance(value, str) else value.flat()


def _lines(name: str, value: str | _Lambda | list[_Lambda], indent: int) -> list[str]:
    if isinstance(value, str):
        return [f"{name}={value}"]
    if isinstance(value, _Lambda):
        return value.lines(indent, f"{name}=")
    text = f"{name}={_flat(value)}"
    if _fits(text, indent):
        return [text]
    return [f"{name}=(", *["  " + line for v in value for line in v.lines(indent + 2)], ")"]


# ---- names
def _letters() -> Iterator[str]:
    """a .. z, ba, bb, .. as JAX counts."""
    for n in itertools.count():
        digits: list[str] = []
        while n or not digits:
            n, k = divmod(n, 26)
            digits.append("abcdefghijklmnopqrstuvwxyz"[k])
        yield "".join(reversed(digits))


class _Names:
    """Names of the variables of one program; letters are shared with those around it."""

    def __init__(self, letters: Iterator[str], known: Mapping[Var, str]) -> None:
        self.letters, self.known = letters, dict(known)

    def var(self, v: Var) -> str:
        if v not in self.known:
            self.known[v] = next(self.letters)
        return self.known[v]

    def binders(self, vs: Sequence[Var]) -> list[str]:
        return [f"{self.var(v)}:{v.aval.short()}" for v in vs]

    def atom(self, a: Atom) -> str:
        if isinstance(a, Literal):
            value = a.value
            text = str(value.item() if isinstance(value, np.generic) and value.dtype.kind in "iufbV"
                       else value)
            return f"{text}:{a.aval.short()}"
        return self.var(a)


def program_text(p: Program) -> str:
    """The whole program; inner programs are printed as parameters."""
    return "\n".join(_named(p, _letters(), {}).lines(0))


def _named(p: Program, letters: Iterator[str], known: Mapping[Var, str]) -> _Lambda:
    names = _Names(letters, known)
    consts, inputs = names.binders(p.const_vars), names.binders(p.inputs)
    used = {a for e in p.equations for a in e.inputs if isinstance(a, Var)} | {
        a for a in p.outputs if isinstance(a, Var)}
    lines = [_equation(e, names, used) for e in p.equations]
    outs = ", ".join(names.atom(o) for o in p.outputs)
    return _Lambda(consts, inputs, lines, f"({outs},)" if len(p.outputs) == 1 else f"({outs})")


def _equation(e: Equation, names: _Names, used: set[Var]) -> _Line:
    for v in e.outputs:
        if v not in used:
            names.known[v] = "_"
    operands = "".join(" " + names.atom(a) for a in e.inputs)
    results = " ".join(names.binders(e.outputs))
    known: dict[Var, str] = {}
    if e.name == "jit":
        inner = e.params["jaxpr"]
        known |= {v: names.var(o) for v, o in zip(inner.outputs, e.outputs)
                  if isinstance(v, Var) and o in used}
        known |= {v: names.var(a) for v, a in zip(inner.inputs, e.inputs) if isinstance(a, Var)}
    params = [(k, _value(v, names.letters, known)) for k, v in _shown(e)]
    return _Line(f"{results} = {e.name}", params, operands)


# What JAX prints although it says nothing, and what it does not.
_ADDED: dict[str, dict[str, Any]] = {"reduce_sum": {"out_sharding": None}}
_HIDDEN = ("sharding", "out_sharding", "precision")


def _shown(e: Equation) -> list[tuple[str, Any]]:
    """The parameters that are printed, the name of a function first."""
    name = e.name
    params = {k: v for k, v in e.params.items() if not (
        k in _HIDDEN and v is None and (name, k) != ("reshape", "sharding") or k == "masked")}
    if name == "broadcast_in_dim":
        params = {k: v for k, v in params.items() if k != "shape" and v != ()}
    if name == "dot_general":
        params["dimension_numbers"] = tuple(
            tuple(map(list, pair)) for pair in params["dimension_numbers"])
    return sorted({**params, **_ADDED.get(name, {})}.items(), key=lambda kv: (
        kv[0] != "name", kv[0]))


def _value(value: Any, letters: Iterator[str], known: Mapping[Var, str]
           ) -> str | _Lambda | list[_Lambda]:
    if isinstance(value, Program):
        return _named(value, letters, known)
    if isinstance(value, tuple) and value and all(isinstance(v, Program) for v in value):
        return [_named(v, letters, known) for v in value]
    if isinstance(value, np.dtype):
        return str(value.name)
    if callable(value) and not isinstance(value, type | Mesh):  # (a mesh decorates functions)
        return str(getattr(value, "__name__", type(value).__name__))
    return str(value)


Program.__str__ = Program.__repr__ = program_text  # type: ignore[assignment, method-assign]
