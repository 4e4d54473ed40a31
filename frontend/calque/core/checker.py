"""The IR checker: run after staging and after each pass, in tests and with CALQUE_CHECK=1.

Checks scoping (every variable defined once, before its use), that abstract rules reproduce the
types of the equations' outputs, and that inner programs are closed.  Imports core.
"""
from __future__ import annotations

import os

from calque.core.avals import ShapedArray, same_type
from calque.core.program import Literal, Program, Var

enabled = os.environ.get("CALQUE_CHECK", "0") not in ("0", "", "false")


class ProgramError(AssertionError, TypeError):
    """The program is malformed: a bug in calque, or in who made the program.

    Example:
      >>> from calque.extend.core import JaxprTypeError
      >>> issubclass(JaxprTypeError, AssertionError)
      True
    """


def check(p: Program, when: str = "") -> Program:
    """p itself, or ProgramError saying which equation is wrong.

    Args:
      p: a jaxpr; when: said in the error.

    Returns:
      The jaxpr.

    Raises:
      ProgramError: a variable is used before it is defined, or bound twice, or types differ.

    Example:
      >>> import calque
      >>> from calque.extend.core import check_jaxpr
      >>> check_jaxpr(calque.make_jaxpr(lambda x: x)(1.0).jaxpr) is not None
      True
    """
    known: set[Var] = set()
    for v in (*p.const_vars, *p.inputs):
        if v in known:
            raise ProgramError(f"{when}: a variable is bound twice in\n{p}")
        known.add(v)
    if len(p.const_vars) != len(p.consts):
        raise ProgramError(f"{when}: {len(p.const_vars)} const variables, {len(p.consts)} consts")
    for i, e in enumerate(p.equations):
        for a in e.inputs:
            if isinstance(a, Var) and a not in known:
                raise ProgramError(
                    f"{when}: equation {i} ({e.primitive}) uses an undefined variable in\n{p}")
        _check_types(p, i, when)
        for v in e.outputs:
            if v in known:
                raise ProgramError(f"{when}: equation {i} ({e.primitive}) redefines a variable")
            known.add(v)
        for inner in e.inner:
            if inner.const_vars:
                raise ProgramError(f"{when}: inner program of {e.primitive} has consts")
            check(inner, f"{when}, inside {e.primitive}")
    for o in p.outputs:
        if isinstance(o, Var) and o not in known:
            raise ProgramError(f"{when}: an output is undefined in\n{p}")
    return p


def _check_types(p: Program, i: int, when: str) -> None:
    e = p.equations[i]
    have = [v.aval for v in e.outputs]

    def says() -> tuple[bool, list[ShapedArray]]:
        want = e.primitive.rule("abstract")(*[a.aval for a in e.inputs], **e.params)
        avals: list[ShapedArray] = list(want) if e.primitive.multiple_results else [want]
        return len(avals) == len(have) and all(map(same_type, avals, have)), avals

    right, avals = says()
    if not right:  # (a size as an integer has the width of where it was asked for)
        with p.own_width():
            right, _ = says()
    if not right:
        ins = ", ".join(a.aval.short() + ("" if isinstance(a, Var) else " literal")
                        for a in e.inputs)
        raise ProgramError(
            f"{when}: equation {i} ({e.primitive} of {ins}) has outputs "
            f"{[v.short() for v in have]}, its rule says {[v.short() for v in avals]}")


def checked(p: Program, when: str) -> Program:
    """check(p) when checking is on, else p as it is."""
    return check(p, when) if enabled else p


__all__ = ["ProgramError", "check", "checked", "enabled", "Literal"]


Program.checked = staticmethod(checked)
