"""jax_debug_nans and jax_debug_infs: results are looked at, and where one is no number, the
operation that made it is named.

A compiled program is evaluated again for that, operation by operation.  Start reading at
`check_floats`, then `check_program`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.config import config
from calque.core.errors import explain
from calque.core.evaluate import each, literal_value
from calque.core.program import Equation, Literal, Program
from calque.core.trace import as_current, eval_trace
from calque.core.types import Function

_SHARDED = "shard_map"


def kinds() -> tuple[str, ...]:
    """What is looked for: nan, inf; most often nothing."""
    return (("nan",) if config.jax_debug_nans else ()) + (
        ("inf",) if config.jax_debug_infs else ())


def _has(x: Any, wanted: Sequence[str]) -> str:
    """Which of them an array, or a number, has."""
    if not hasattr(x, "_buffer"):
        return next((k for k in wanted if isinstance(x, (float, complex)) and _TESTS[k](x)), "")
    if dtypes.is_key(x.dtype) or not dtypes.is_inexact(x.dtype):
        return ""
    value = x._buffer.numpy()
    if value.dtype.kind == "V":
        value = value.astype(np.float32)
    return next((k for k in wanted if _TESTS[k](value).any()), "")


_TESTS: dict[str, Function] = {"nan": np.isnan, "inf": np.isinf}


def check_floats(arrays: Sequence[Any], where: str = "") -> None:
    """FloatingPointError for results that are no numbers; where: the operation, or the function."""
    if wanted := kinds():
        for x in arrays:
            if kind := _has(x, wanted):
                raise _error(kind, where)


def _error(kind: str, name: str, **parts: Any) -> FloatingPointError:
    what = (f"Invalid value ({kind}) encountered in sharded computation." if name == _SHARDED else
            f"invalid value ({kind}) encountered in {name or 'a computation'}.")
    return FloatingPointError(explain(what, **parts))


def check_program(arrays: Sequence[Any], program: Program, values: Sequence[Any]) -> None:
    """check_floats of a program's results; values: of its consts and inputs, to find by which of
    its operations they came.  What calls Python is not called again."""
    wanted = kinds()
    kind = next(filter(None, (_has(x, wanted) for x in arrays)), "") if wanted else ""
    if not kind:
        return
    if program.has_effects() or any([x.is_deleted() for x in values if hasattr(x, "is_deleted")]):
        raise _error(kind, program.name)
    with as_current(eval_trace), config.context("jax_debug_nans", False), config.context(
            "jax_debug_infs", False):
        found = _origin(program, values, wanted)
    if found is not None:
        raise found
    raise FloatingPointError(explain(
        f"invalid value ({kind}) encountered in {program.name}. The operations were run one by "
        "one, and the de-optimized function did not produce one: it is in an input, or a result is "
        "a literal, or it comes of what compiling changes.",
        fix="look at the arguments; what may be nan or inf is called under debug_nans(False)."))


def _origin(p: Program, values: Sequence[Any], wanted: Sequence[str]) -> FloatingPointError | None:
    """Of a result that is no number: the operation that made it of numbers, by walking back; None
    where it was there before."""
    env: dict[Any, Any] = dict(zip((*p.const_vars, *p.inputs), values))
    made: dict[Any, Equation] = {}

    def step(e: Equation, args: list[Any]) -> list[Any]:
        outs = e.primitive.bind(*args, **e.params)
        outs = list(outs) if e.primitive.multiple_results else [outs]
        env.update(zip(e.outputs, outs))
        made.update((o, e) for o in e.outputs)
        return outs

    def first(atoms: Sequence[Any]) -> Any:
        return next((a for a in atoms if a in env and _has(env[a], wanted)), None)

    each(p, values, literal_value, step)
    at = first([o for o in p.outputs if not isinstance(o, Literal)])
    while at in made:
        e, kind = made[at], _has(env[at], wanted)
        before = first([a for a in e.inputs if not isinstance(a, Literal)])
        if before is None:
            inner = e.params.get("jaxpr", e.params.get("call_jaxpr"))
            found = None
            if e.name in _CALLS and isinstance(inner, Program) and (
                    len(inner.inputs) == len(e.inputs)):
                found = _origin(inner, [*inner.consts, *[
                    literal_value(a) if isinstance(a, Literal) else env[a] for a in e.inputs]],
                    wanted)
            return found or _error(kind, str(e.params.get("name", e.name)) if e.name == "jit" else
                                   e.name, where=str(e.source))
        at = before
    return None


_CALLS = frozenset(("jit", "checkpoint", "custom_jvp_call", "custom_vjp_call", "custom_vmap_call"))

__all__ = ["check_floats", "check_program", "kinds"]
