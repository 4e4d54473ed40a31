"""Forward mode: values carry a tangent; rules run under the parent trace.

`jvp_flat(f, primals, tangents)` for functions, `jvp_program` for Programs (the form that rules of
higher-order primitives use).  Start reading at `JVPTrace.rule`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calque.core import leaks
from calque.core.avals import aval_of
from calque.core.config import config
from calque.core.primitive import Primitive
from calque.core.program import Program
from calque.core.source import here
from calque.core.trace import as_current, current
from calque.core.types import Function, Params
from calque.core.zeros import Zero, add_tangents, instantiate, is_zero, zero_like
from calque.transforms.pairs import PairTrace, PairTracer
from calque.transforms.stage import replay, stage


class JVPTracer(PairTracer):
    """A primal value with its tangent.

    Example:
      >>> import calque
      >>> from calque.interpreters import ad
      >>> seen = []
      >>> _ = calque.jvp(lambda x: seen.append(x) or x, (1.0,), (1.0,))
      >>> isinstance(seen[0], ad.JVPTracer)
      True
    """

    __slots__ = ()
    shown = "JVPTracer"

    def said(self) -> str:
        return f"primal={self.primal}, tangent={self.tangent}"


class JVPTrace(PairTrace):
    """Applies jvp rules under the parent trace.

    Example:
      >>> import calque
      >>> from calque.interpreters import ad
      >>> seen = []
      >>> _ = calque.jvp(lambda x: seen.append(x) or x, (1.0,), (1.0,))
      >>> isinstance(seen[0]._trace, ad.JVPTrace)
      True
    """

    __slots__ = ()
    kind = "jvp"
    tracer = JVPTracer

    def rule(self, prim: Primitive, primals: Sequence[Any], tangents: Sequence[Any],
             params: Params) -> tuple[Any, Any]:
        """The results of a primitive and their tangents."""
        assert self.parent is not None
        rule = prim.rule("jvp")
        with as_current(self.parent):
            return rule(primals, tangents, **params)


def jvp_flat(f: Callable[..., Sequence[Any]], primals: Sequence[Any],
             tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Outputs and tangents (Zero where zero) of a flat function under the current trace."""
    trace = JVPTrace(current.get())
    trace.source = here()
    try:
        with as_current(trace):
            outs = f(*[trace.wrap(p, t) for p, t in zip(primals, tangents)])
        pairs = [trace.split(o) for o in outs]
    finally:
        trace.close()
    if config.jax_check_tracer_leaks:
        del outs
        leaks.check(trace)
    return [p for p, _ in pairs], [t for _, t in pairs]


def jvp_program(p: Program, nonzero: Sequence[bool],
                instantiate_out: Sequence[bool] | None = None) -> tuple[Program, list[bool]]:
    """The Program of (primals, nonzero tangents) -> (outputs, nonzero output tangents).

    Returns it with the mask of outputs that have a tangent; `instantiate_out` forces some.
    """
    forced = list(instantiate_out) if instantiate_out is not None else [False] * len(p.outputs)

    def make() -> tuple[Program, list[bool]]:
        mask: list[bool] = []

        def run(*values: Any) -> list[Any]:
            primals, given = values[:len(p.inputs)], iter(values[len(p.inputs):])
            tangents = [next(given) if n else zero_like(x) for x, n in zip(primals, nonzero)]
            outs, outs_t = jvp_flat(lambda *xs: replay(p, *xs), primals, tangents)
            mask.extend((not is_zero(t)) or (f and _has_tangent(o))
                        for o, t, f in zip(outs, outs_t, forced))
            return outs + [instantiate(t) for t, m in zip(outs_t, mask) if m]

        tangent_avals = [a.tangent() for a, n in zip(p.in_avals, nonzero) if n]
        return stage(run, [*p.in_avals, *tangent_avals], f"jvp_{p.name}"), mask

    return p.derived(("jvp", tuple(nonzero), tuple(forced)), make)


def _has_tangent(x: Any) -> bool:
    aval = aval_of(x)
    return aval.tangent().dtype == aval.dtype


# ---- rules of primitives
def linear_jvp(p: Primitive) -> Function:
    """jvp of a primitive that is linear in its first operand; the others have no derivative."""
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        out = p.bind(*primals, **params)
        if is_zero(tangents[0]):
            return out, zero_like(out)
        return out, p.bind(tangents[0], *primals[1:], **params)
    return jvp


def bilinear_jvp(p: Primitive) -> Function:
    """jvp of a primitive that is linear in each of its two operands."""
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        (x, y), (tx, ty) = primals, tangents
        out = p.bind(x, y, **params)
        total: Any = zero_like(out)
        if not is_zero(tx):
            total = add_tangents(total, p.bind(tx, y, **params))
        if not is_zero(ty):
            total = add_tangents(total, p.bind(x, ty, **params))
        return out, total
    return jvp


__all__ = ["JVPTrace", "JVPTracer", "Zero", "bilinear_jvp", "jvp_flat", "jvp_program",
           "linear_jvp"]
