"""What of a function is known before some of its arguments are; and equations that nobody needs.

Start reading at `trace_to_jaxpr_nounits`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core.avals import aval_of
from calque.core.errors import explain
from calque.core.lists import flagged
from calque.core.program import Equation, Program, eliminate_dead_code
from calque.core.refs import AbstractRef
from calque.core.source import here
from calque.core.trace import as_current, current
from calque.dispatch.tracing import trace_with_refs
from calque.interpreters.known_parts import KnownTrace
from calque.transforms.stage import StageTrace, StageTracer, stage
from calque.trees import util as tree_util

DynamicJaxprTracer = StageTracer
JaxprTracer = StageTracer


class PartialVal(tuple):  # type: ignore[type-arg]
    """A value of which the type is known (aval, None), or the value itself (None, value).

    Args:
      xs: the pair.

    Example:
      >>> from calque.interpreters.partial_eval import PartialVal
      >>> PartialVal.known(3).is_known()
      True
    """

    def __new__(cls, xs: Any) -> PartialVal:
        return tuple.__new__(cls, xs)

    @classmethod
    def known(cls, const: Any) -> PartialVal:
        """Of a value."""
        return cls((None, const))

    @classmethod
    def unknown(cls, aval: Any) -> PartialVal:
        """Of a type."""
        return cls((aval, None))

    def is_known(self) -> bool:
        """Whether the value is known."""
        return self[0] is None

    def get_known(self) -> Any:
        """The value, None where it is not known."""
        return self[1] if self[0] is None else None

    def get_aval(self) -> Any:
        """The type."""
        return aval_of(self[1]) if self[0] is None else self[0]


def trace_to_jaxpr_nounits(fun: Any, pvals: Sequence[Any],
                           instantiate: bool | Sequence[bool] = False
                           ) -> tuple[Program, list[PartialVal], list[Any]]:
    """Run what depends on known arguments alone, and trace the rest.

    Args:
      fun: linear_util.WrappedFun of flat values that returns a list.
      pvals: a PartialVal for each argument.
      instantiate: whether (which) known results are results of the jaxpr all the same.

    Returns:
      (jaxpr of the unknown results by the unknown arguments, a PartialVal for each result, values
      of the jaxpr's constvars).

    Raises:
      What fun raises.

    Example:
      >>> import calque
      >>> from calque.extend import linear_util as lu
      >>> from calque.interpreters import partial_eval as pe
      >>> aval = calque.core.ShapedArray((), "float32")
      >>> f = lu.wrap_init(lambda x, y: [x * 2, x + y])
      >>> _, outs, _ = pe.trace_to_jaxpr_nounits(
      ...     f, [pe.PartialVal.known(1.0), pe.PartialVal.unknown(aval)])
      >>> [o.is_known() for o in outs]
      [True, False]
    """
    staged = StageTrace("unknown")
    staged.source = here()
    trace = KnownTrace(current.get(), staged)
    pairs = [PartialVal(p) for p in pvals]
    inputs = [None if p.is_known() else staged.new(p[0]) for p in pairs]
    try:
        with as_current(trace):
            outs = list(fun.call_wrapped(
                *[p[1] if x is None else x for p, x in zip(pairs, inputs)]))
        forced = [instantiate] * len(outs) if isinstance(instantiate, bool) else instantiate
        unknown = [isinstance(o, StageTracer) and o._trace is staged or bool(f)
                   for o, f in zip(outs, forced)]
        made = staged.program([x for x in inputs if x is not None],
                              flagged(outs, unknown))
    finally:
        staged.close()
    made = eliminate_dead_code(made)
    found = [PartialVal.unknown(aval_of(o)) if u else PartialVal.known(o)
             for o, u in zip(outs, unknown)]
    return made, found, list(made.consts)


def trace_to_jaxpr_dynamic(fun: Any, in_avals: Sequence[Any], *, keep_inputs: Any = None,
                           lower: bool = False, auto_dce: bool = False
                           ) -> tuple[Program, list[Any], list[Any]]:
    """Trace a function of flat values.

    Args:
      fun: linear_util.WrappedFun that returns a list.
      in_avals: a ShapedArray for each argument; an AbstractRef where it is a reference, whose
        value the jaxpr takes and, where it is written, returns behind the results.
      keep_inputs, lower, auto_dce: accepted.

    Returns:
      (jaxpr, types of its results, values of its constvars).

    Raises:
      What fun raises.

    Example:
      >>> import calque
      >>> from calque.extend import linear_util as lu
      >>> from calque.interpreters import partial_eval as pe
      >>> aval = calque.core.ShapedArray((), "float32")
      >>> pe.trace_to_jaxpr_dynamic(lu.wrap_init(lambda x: [x + 1]), [aval])[1]
      [ShapedArray(float32[])]
    """
    name = getattr(fun, "__name__", "fun")
    if any(isinstance(a, AbstractRef) for a in in_avals):
        tree = tree_util.tree_structure(((0,) * len(in_avals), {}))
        made, _, _ = trace_with_refs(fun.call_wrapped, tree, list(in_avals), name)
    else:
        made = stage(fun.call_wrapped, list(in_avals), name)
    return made, list(made.out_avals), list(made.consts)


def dce_jaxpr(jaxpr: Program, used_outputs: bool | Sequence[bool],
              instantiate: bool | Sequence[bool] = False) -> tuple[Program, list[bool]]:
    """A jaxpr without what some of its results do not need.

    Args:
      jaxpr: without constvars, or with.
      used_outputs: which results are kept (True: all).
      instantiate: whether (which) unused arguments are kept.

    Returns:
      (jaxpr of the arguments that are used, which these are).

    Raises:
      ValueError: used_outputs has another length than the results.

    Example:
      >>> import calque
      >>> from calque.interpreters import partial_eval as pe
      >>> jaxpr = calque.make_jaxpr(lambda x, y: (x + 1, y * 2))(1.0, 2.0).jaxpr
      >>> pe.dce_jaxpr(jaxpr, [True, False])[1]
      [True, False]
    """
    outs = [used_outputs] * len(jaxpr.outputs) if isinstance(used_outputs, bool) else used_outputs
    if len(outs) != len(jaxpr.outputs):
        raise ValueError(explain(
            f"dce_jaxpr: {len(outs)} flags for {len(jaxpr.outputs)} results.",
            fix="give one flag for each result."))
    kept = _without_dead(jaxpr, list(outs))
    read = kept.used()
    forced = [instantiate] * len(kept.inputs) if isinstance(instantiate, bool) else instantiate
    used = [v in read or bool(f) for v, f in zip(kept.inputs, forced)]
    return kept.replace(inputs=flagged(kept.inputs, used)), used


def _without_dead(p: Program, used: Sequence[bool]) -> Program:
    """eliminate_dead_code, also inside the maps over devices."""
    kept = eliminate_dead_code(p, used)
    while True:
        live = {a for e in kept.equations for a in e.inputs} | set(kept.outputs)
        trimmed = [_trimmed(e, [v in live for v in e.outputs]) if e.name == "shard_map" else e
                   for e in kept.equations]
        if all(a is b for a, b in zip(trimmed, kept.equations)):
            return kept
        kept = eliminate_dead_code(kept.replace(equations=trimmed))


def _trimmed(e: Equation, used: Sequence[bool]) -> Equation:
    inner, read = dce_jaxpr(e.params["jaxpr"], used)
    if all(used) and all(read) and len(inner.equations) == len(e.params["jaxpr"].equations):
        return e
    return e.replace(
        inputs=tuple(flagged(e.inputs, read)), outputs=tuple(flagged(e.outputs, used)),
        params={**e.params, "jaxpr": inner, "in_specs": tuple(flagged(e.params["in_specs"], read)),
                "out_specs": tuple(flagged(e.params["out_specs"], used))})


__all__ = ["DynamicJaxprTracer", "JaxprTracer", "PartialVal", "dce_jaxpr",
           "trace_to_jaxpr_dynamic", "trace_to_jaxpr_nounits"]


def __dir__() -> list[str]:
    return __all__
