"""Direct linearize: primal operations run under the parent, what touches a tangent is staged.

The result is the primal outputs plus a linear Program of the tangents whose consts are the
residuals.  No partial evaluator: higher-order primitives have a `linearize` rule instead.
Start reading at `LinearizeTrace.rule`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calque.core import leaks
from calque.core.avals import aval_of
from calque.core.config import config
from calque.core.primitive import Primitive
from calque.core.program import Program, Var, eliminate_dead_code
from calque.core.source import here
from calque.core.trace import Trace, Tracer, as_current, current
from calque.core.types import Params
from calque.core.zeros import instantiate, is_zero, zeros
from calque.transforms.pairs import PairTrace, PairTracer
from calque.transforms.stage import StageTrace, StageTracer, replay, stage


class LinearizeTracer(PairTracer):
    """A primal value with its tangent as a variable of the tangent program."""

    __slots__ = ()
    shown = "GradTracer"

    def said(self) -> str:
        return f"primal={self.primal}, typeof(tangent)={aval_of(self.primal).tangent().short()}"


# Equations of Programs: what of them does not depend on tangents is not staged with the rest.
_OF_PROGRAMS = frozenset(("jit", "scan", "cond", "while", "checkpoint", "shard_map"))


class SplitTrace(Trace):
    """Runs jvp rules: operations on tangents are staged, all others go to the parent.

    A rule may call jvp itself (a custom_jvp whose rule differentiates a loop): its loops and calls
    then take primals and tangents together, and `_split` parts them.
    """

    __slots__ = ("tangents",)
    kind = "split"

    def __init__(self, parent: Trace, tangents: StageTrace) -> None:
        super().__init__(parent)
        self.tangents = tangents

    def number(self, x: Any) -> Any:
        assert self.parent is not None
        return self.parent.number(x)

    def process(self, prim: Primitive, args: Sequence[Any], params: Params) -> Any:
        assert self.parent is not None
        mine = [type(a) is StageTracer and a._trace is self.tangents for a in args]
        if not any(mine):
            return self.parent.process(prim, args, params)
        if prim.name in _OF_PROGRAMS and not all(mine):
            return self._split(prim, mine, args, params)
        return self.tangents.process(prim, args, params)

    def _split(self, prim: Primitive, mine: Sequence[bool], args: Sequence[Any],
               params: Params) -> list[Any]:
        """An equation that is linear in the tangents among its operands, as its value at zero and
        its derivative: results without one do not depend on them."""
        assert self.parent is not None
        assert prim.linearize is not None
        with as_current(self.parent):
            primals = [zeros(aval_of(a)) if m else a for a, m in zip(args, mine)]
            outs, tangent_fn = prim.linearize(mine, primals, **params)
        with as_current(self.tangents):
            tangents = tangent_fn(*[a for a, m in zip(args, mine) if m])
        return [o if is_zero(t) else t for o, t in zip(outs, tangents, strict=True)]


class LinearizeTrace(PairTrace):
    """Splits a function into its primal run and its tangent program."""

    __slots__ = ("tangents", "rules")
    kind = "linearize"
    tracer = LinearizeTracer

    def __init__(self, parent: Trace) -> None:
        super().__init__(parent)
        self.tangents = StageTrace("tangent")
        self.rules = SplitTrace(parent, self.tangents)

    def rule(self, prim: Primitive, primals: Sequence[Any], tangents: Sequence[Any],
             params: Params) -> tuple[Any, Any]:
        assert self.parent is not None
        if prim.linearize is None:
            rule = prim.rule("jvp")
            with as_current(self.rules):
                return rule(primals, tangents, **params)
        nonzero = [not is_zero(t) for t in tangents]
        with as_current(self.parent):
            out, tangent_fn = prim.linearize(nonzero, primals, **params)
        with as_current(self.tangents):
            return out, tangent_fn(*[t for t in tangents if not is_zero(t)])


def linearize_flat(f: Callable[..., Sequence[Any]], primals: Sequence[Any],
                   nonzero: Sequence[bool], forced: Sequence[bool] | None = None
                   ) -> tuple[list[Any], list[bool], Program]:
    """(outputs, which outputs have a tangent, tangent program with residuals as consts).

    The tangent program maps the tangents of the inputs marked nonzero to those of the outputs
    that have one; `forced` gives some outputs a tangent of zeros.
    """
    trace = LinearizeTrace(current.get())
    trace.source = here()
    inputs = [trace.tangents.new(aval_of(p).tangent()) for p, n in zip(primals, nonzero) if n]
    try:
        given = iter(inputs)
        wrapped = [trace.wrap(p, next(given)) if n else p for p, n in zip(primals, nonzero)]
        with as_current(trace):
            outs = f(*wrapped)
        pairs = [trace.split(o) for o in outs]
        if forced is not None:
            with as_current(trace.tangents):
                pairs = [(o, instantiate(t) if f else t) for (o, t), f in zip(pairs, forced)]
        tangents = [t for _, t in pairs if not is_zero(t)]
        program = trace.tangents.program(inputs, tangents)
    finally:
        trace.close()
        trace.tangents.close()
    if config.jax_check_tracer_leaks:
        del outs, wrapped
        leaks.check(trace)
    return ([p for p, _ in pairs], [not is_zero(t) for _, t in pairs],
            eliminate_dead_code(program))


def linearize_program(p: Program, nonzero: Sequence[bool],
                      forced: Sequence[bool] | None = None
                      ) -> tuple[Program, Program, list[bool], list[int]]:
    """(forward, tangent, nonzero outputs, residual sources) of a Program.

    forward: inputs -> (outputs, residuals); tangent: (residuals, nonzero tangents) -> nonzero
    output tangents.  `sources[k]` is the index of the input that residual k is, or -1 when it was
    computed: a loop need not stack what it already has.  Arrays that a rule captures are consts of
    forward and of tangent, no residuals.
    """
    def make() -> tuple[Program, Program, list[bool], list[int]]:
        kept: dict[str, Any] = {}

        def run(*primals: Any) -> list[Any]:
            outs, mask, tangent = linearize_flat(
                lambda *xs: replay(p, *xs), primals, nonzero, forced)
            traced = [isinstance(c, Tracer) for c in tangent.consts]
            residuals = [(v, c) for v, c, t in zip(tangent.const_vars, tangent.consts, traced) if t]
            fixed = [(v, c) for v, c, t in zip(tangent.const_vars, tangent.consts, traced) if not t]
            kept.update(mask=mask, tangent=tangent.replace(
                inputs=(*[v for v, _ in residuals], *tangent.inputs),
                const_vars=[v for v, _ in fixed], consts=[c for _, c in fixed]))
            return [*outs, *[c for _, c in residuals]]

        forward = stage(run, p.in_avals, f"fwd_{p.name}")
        order = {v: i for i, v in enumerate(forward.inputs)}
        residuals = forward.outputs[len(p.outputs):]
        sources = [order.get(r, -1) if isinstance(r, Var) else -1 for r in residuals]
        return forward, kept["tangent"], kept["mask"], sources

    return p.derived(("linearize", tuple(nonzero), tuple(forced or ())), make)
