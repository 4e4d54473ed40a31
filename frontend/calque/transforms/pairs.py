"""Values that carry a tangent: what jvp and linearize have in common.

A trace of pairs takes operands apart, asks `rule` for the result of a primitive and its tangent,
and puts them together again.  Start reading at `PairTrace.process`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core.avals import aval_of
from calque.core.primitive import Primitive
from calque.core.trace import Trace, Tracer, escaped_tracer_error
from calque.core.types import Params
from calque.core.zeros import is_zero, zero_like


class PairTracer(Tracer):
    """A primal value with its tangent."""

    __slots__ = ("primal", "tangent")

    def __init__(self, trace: Trace, primal: Any, tangent: Any) -> None:
        self._trace, self.primal, self.tangent = trace, primal, tangent

    @property
    def aval(self) -> Any:
        return aval_of(self.primal)

    def concrete(self) -> Any:
        return self.primal.concrete() if hasattr(self.primal, "concrete") else self.primal


class PairTrace(Trace):
    """Applies rules to pairs of its own; all else goes to the parent."""

    __slots__ = ()
    tracer: type[PairTracer]

    def split(self, x: Any) -> tuple[Any, Any]:
        """(primal, tangent) of any value in this trace."""
        if type(x) is self.tracer and x._trace is self:
            if not self.open:
                raise escaped_tracer_error(x, self.kind)
            return x.primal, x.tangent
        return x, zero_like(x)

    def wrap(self, primal: Any, tangent: Any) -> Any:
        return primal if is_zero(tangent) else self.tracer(self, primal, tangent)

    def rule(self, prim: Primitive, primals: Sequence[Any], tangents: Sequence[Any],
             params: Params) -> tuple[Any, Any]:
        """Result(s) of a primitive, and their tangent(s)."""
        raise NotImplementedError

    def process(self, prim: Primitive, args: Sequence[Any], params: Params) -> Any:
        assert self.parent is not None
        if not any(type(a) is self.tracer and a._trace is self for a in args):
            return self.parent.process(prim, args, params)
        primals, tangents = zip(*[self.split(a) for a in args])
        if not prim.differentiable and prim.jvp is None:
            return self.parent.process(prim, primals, params)
        out, tangent = self.rule(prim, primals, tangents, params)
        if prim.multiple_results:
            return list(map(self.wrap, out, tangent))
        return self.wrap(out, tangent)
