"""Forward mode: values carry a tangent; rules run under the parent trace.

`jvp_flat(f, primals, tangents)` for functions, `jvp_program` for Programs (the form that rules of
higher-order primitives use).  Start reading at `JVPTrace.process`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calque.core.avals import ShapedArray, aval_of
from calque.core.primitive import Primitive
from calque.core.program import Program
from calque.core.source import here
from calque.core.trace import Trace, Tracer, current, leaked, under
from calque.core.zeros import Zero, instantiate, is_zero, zero_like
from calque.transforms.stage import replay, stage


class JVPTracer(Tracer):
    """A primal value with its tangent."""

    __slots__ = ("primal", "tangent")

    def __init__(self, trace: Trace, primal: Any, tangent: Any) -> None:
        self._trace, self.primal, self.tangent = trace, primal, tangent

    @property
    def aval(self) -> ShapedArray:
        return aval_of(self.primal)

    def concrete(self) -> Any:
        return self.primal.concrete() if hasattr(self.primal, "concrete") else self.primal


class JVPTrace(Trace):
    """Applies jvp rules."""

    __slots__ = ()
    kind = "jvp"

    def split(self, x: Any) -> tuple[Any, Any]:
        """(primal, tangent) of any value in this trace."""
        if type(x) is JVPTracer and x._trace is self:
            if not self.open:
                raise leaked(x, "jvp")
            return x.primal, x.tangent
        return x, zero_like(x)

    def wrap(self, primal: Any, tangent: Any) -> Any:
        return primal if is_zero(tangent) else JVPTracer(self, primal, tangent)

    def process(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        assert self.parent is not None
        if not any(type(a) is JVPTracer and a._trace is self for a in args):
            return self.parent.process(prim, args, params)
        primals, tangents = zip(*[self.split(a) for a in args])
        if not prim.differentiable and prim.jvp is None:
            return self.parent.process(prim, primals, params)
        rule = prim.rule("jvp")
        with under(self.parent):
            out, tangent = rule(primals, tangents, **params)
        if prim.multiple_results:
            return [self.wrap(o, t) for o, t in zip(out, tangent)]
        return self.wrap(out, tangent)


def jvp_flat(f: Callable[..., Sequence[Any]], primals: Sequence[Any],
             tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Outputs and tangents (Zero where zero) of a flat function under the current trace."""
    trace = JVPTrace(current.get())
    trace.source = here()
    try:
        with under(trace):
            outs = f(*[trace.wrap(p, t) for p, t in zip(primals, tangents)])
        pairs = [trace.split(o) for o in outs]
    finally:
        trace.close()
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


__all__ = ["JVPTrace", "JVPTracer", "Zero", "jvp_flat", "jvp_program"]
