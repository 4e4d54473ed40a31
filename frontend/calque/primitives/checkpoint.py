"""checkpoint: a call whose residuals are computed again in the backward pass; and names of values.

Its linearization keeps the operands (and what the policy says) and nothing else; the linear part
computes the residuals anew.  Start reading at `_linearize`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.client import ClientPrimitive
from calque.core.primitive import Primitive
from calque.core.program import Equation, Program, Var, eliminate_dead_code
from calque.primitives.call import called_jvp, transposed, unmask
from calque.transforms.linearize import linearize_program
from calque.transforms.stage import closed, replay, stage
from calque.transforms.vmap import batch_program, front_axes

checkpoint_p = Primitive(
    "checkpoint", multiple_results=True, higher_order=True,
    effects=lambda params: params["jaxpr"].has_effects(), keys=True)
name_p = Primitive("name", moves=True, memory="view", keys=True)
Policy = Callable[..., Any]


def bind(program: Program, args: Sequence[Any], *, policy: Policy | None, prevent_cse: bool,
         differentiated: bool = False) -> list[Any]:
    program, consts = closed(program)
    return checkpoint_p.bind(
        *consts, *args, jaxpr=program, policy=policy, prevent_cse=prevent_cse,
        differentiated=differentiated)


def _abstract(*avals: ShapedArray, jaxpr: Program, **_: Any) -> list[ShapedArray]:
    return list(jaxpr.out_avals)


def _opened(params: dict[str, Any]) -> Any:
    """With a client's primitive inside that runs on values only: one equation after another."""
    if not _only_on_values(params["jaxpr"]):
        return None
    return lambda *args, jaxpr, **_: replay(jaxpr, *args)


def _only_on_values(p: Program) -> bool:
    return any(isinstance(e.primitive, ClientPrimitive) and e.primitive.program is None
               and e.primitive.lowering is None or any(map(_only_on_values, e.inner))
               for e in p.equations)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Program, **params: Any) -> Any:
    return called_jvp(jaxpr, primals, tangents, lambda p, xs: bind(p, xs, **params))


def _linearize(nonzero: Sequence[bool], primals: Sequence[Any], *, jaxpr: Program,
               policy: Policy | None, prevent_cse: bool, differentiated: bool) -> Any:
    forward, tangent, mask, _ = linearize_program(jaxpr, nonzero)
    saved = _saved(forward, len(jaxpr.outputs), policy)
    known = eliminate_dead_code(forward.replace(
        outputs=[*forward.outputs[:len(jaxpr.outputs)], *saved]))
    if not saved and _spares_rules(jaxpr):
        known = jaxpr
    outs = bind(known, primals, policy=policy, prevent_cse=prevent_cse)
    kept = outs[len(jaxpr.outputs):]
    again = _again(forward, len(jaxpr.outputs), saved)

    def apply(*tangents: Any) -> list[Any]:
        def whole(*xs: Any) -> list[Any]:
            count = len(primals) + len(saved)
            return replay(tangent, *replay(again, *xs[:count]), *xs[count:])

        avals = [*again.in_avals, *tangent.in_avals[len(tangent.inputs) - len(tangents):]]
        program = stage(whole, avals, f"remat_{jaxpr.name}")
        made = bind(program, [*primals, *kept, *tangents], policy=policy,
                    prevent_cse=prevent_cse, differentiated=True)
        return unmask(made, mask, jaxpr.outputs)

    return outs[:len(jaxpr.outputs)], apply


def _spares_rules(p: Program) -> bool:
    """Whether forward rules wait for the backward pass (custom_vjp's optimize_remat)."""
    return any(getattr(e.params.get("fwd"), "spared", False) or any(
        map(_spares_rules, e.inner)) for e in p.equations)


def _saved(forward: Program, n: int, policy: Policy | None) -> list[Var]:
    """The values that the policy keeps, as far as residuals depend on them."""
    if policy is None:
        return []
    found: list[Var] = []
    for e in forward.equations:
        if policy(e.primitive, *[a.aval for a in e.inputs], **e.params):
            found += [v for v in e.outputs if v not in found]
    needed = {a for e in eliminate_dead_code(forward.replace(
        outputs=forward.outputs[n:])).equations for a in e.outputs}
    return [v for v in found if v in needed]


def _again(forward: Program, n: int, saved: Sequence[Var]) -> Program:
    """(operands, saved values) -> residuals."""
    made = set(saved)
    equations: list[Equation] = []
    for e in forward.equations:
        if all(v in made for v in e.outputs) and e.outputs:
            continue
        fresh = tuple(Var(v.aval) if v in made else v for v in e.outputs)
        equations.append(e.replace(outputs=fresh))
    return eliminate_dead_code(forward.replace(
        inputs=[*forward.inputs, *saved], equations=equations, outputs=forward.outputs[n:],
        name=f"again_{forward.name}"))


def _transpose(cts: Sequence[Any], *args: Any, jaxpr: Program, **params: Any) -> list[Any]:
    return transposed(jaxpr, cts, args, lambda p, xs: bind(p, xs, **params))


def _batch(size: int, args: Sequence[Any], dims: Sequence[int | None], *, jaxpr: Program,
           **params: Any) -> Any:
    program, mask = batch_program(jaxpr, size, dims)
    return bind(program, args, **params), front_axes(mask)


checkpoint_p.abstract, checkpoint_p.jvp, checkpoint_p.linearize = _abstract, _jvp, _linearize
checkpoint_p.transpose, checkpoint_p.batch, checkpoint_p.opened = _transpose, _batch, _opened


# ---- names that policies read
name_p.abstract = lambda x, *, name: x
name_p.jvp = lambda primals, tangents, *, name: (name_p.bind(primals[0], name=name), tangents[0])
name_p.batch = lambda size, args, dims, *, name: (name_p.bind(args[0], name=name), dims[0])
