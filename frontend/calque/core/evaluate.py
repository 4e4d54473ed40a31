"""Running a Program's equations one by one under the current trace: whatever that makes of them.

Start reading at `replay`.  Imports core only.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calque.core.errors import explain
from calque.core.program import Atom, Equation, Literal, Program, Var
from calque.core.source import replaying
from calque.core.trace import scopes


def replay(p: Program, *args: Any, consts: Sequence[Any] | None = None) -> list[Any]:
    """Run a Program's equations under the current trace; args are its inputs."""
    if len(args) != len(p.inputs):
        raise TypeError(f"replay: {p.name} takes {len(p.inputs)} values, got {len(args)}")

    def run(e: Equation, xs: list[Any]) -> Sequence[Any]:
        out = e.primitive.bind(*xs, **e.params)
        return out if e.primitive.multiple_results else [out]

    with p.own_width():
        return each(p, [*(p.consts if consts is None else consts), *args], literal_value, run)


def each(p: Program, values: Sequence[Any], literal: Callable[[Literal], Any],
         run: Callable[[Equation, list[Any]], Sequence[Any]]) -> list[Any]:
    """The results of a Program whose equations `run` takes one by one, each at its place in the
    user's program; values: of the consts and the inputs; literal: what a literal is as a value."""
    env: dict[Var, Any] = dict(zip((*p.const_vars, *p.inputs), values))

    def read(a: Atom) -> Any:
        return literal(a) if isinstance(a, Literal) else env[a]

    for e in p.equations:
        token = replaying.set(e.source)
        named = scopes.set((*scopes.get(), *e.scope)) if e.scope else None
        try:
            outs = run(e, [read(a) for a in e.inputs])
        finally:
            replaying.reset(token)
            if named is not None:
                scopes.reset(named)
        env.update(zip(e.outputs, outs))
    return [read(o) for o in p.outputs]


def literal_value(a: Literal) -> Any:
    """The literal as a value that keeps its weak type when bound again."""
    return a.value.item() if a.aval.weak_type else a.value


def eval_jaxpr(jaxpr: Program, consts: Sequence[Any], *args: Any,
               propagate_source_info: bool = True) -> list[Any]:
    """The results of a jaxpr on values, one equation after the other under the current trace.

    Args:
      jaxpr: from make_jaxpr.
      consts: one value for each of its constvars.
      *args: one value for each of its invars.
      propagate_source_info: accepted; equations keep their places in the user's program.

    Returns:
      A list of the results.

    Raises:
      TypeError: the number of consts or values is wrong.

    Example:
      >>> import calque
      >>> closed = calque.make_jaxpr(lambda x: 2 * x)(1.0)
      >>> calque.core.eval_jaxpr(closed.jaxpr, closed.consts, 3.0)
      [Array(6., dtype=float32, weak_type=True)]
    """
    if len(consts) != len(jaxpr.const_vars) or len(args) != len(jaxpr.inputs):
        raise TypeError(explain(
            f"eval_jaxpr: the jaxpr has {len(jaxpr.const_vars)} constvars and {len(jaxpr.inputs)} "
            f"invars, got {len(consts)} consts and {len(args)} values.",
            fix="pass closed.consts and one value for each argument."))
    return replay(jaxpr, *args, consts=list(consts))
