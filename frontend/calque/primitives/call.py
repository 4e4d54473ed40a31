"""jit: a call of an inner Program.  Its rules transform the inner Program once and keep the result
on it, so that a function called a thousand times is transformed once.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.lists import types_of
from calque.core.primitive import Primitive, is_linear
from calque.core.program import Program
from calque.core.zeros import Zero, nonzero_mask, nonzeros, zero_like
from calque.transforms.jvp import jvp_program
from calque.transforms.linearize import linearize_program
from calque.transforms.stage import closed
from calque.transforms.transpose import transpose_program
from calque.transforms.vmap import batch_program, front_axes

jit_p = Primitive("jit", multiple_results=True, higher_order=True,
                  effects=lambda params: params["jaxpr"].has_effects(), kernel="nest", keys=True)


def call(program: Program, args: Sequence[Any], name: str | None = None,
         masked: Any = None) -> list[Any]:
    """Bind a Program; its consts become operands.  masked: the Rows of a batch that it is for."""
    program, consts = closed(program)
    more = {} if masked is None else {"masked": masked}
    return jit_p.bind(*consts, *args, jaxpr=program, name=name or program.name, **more)


def _abstract(*avals: ShapedArray, jaxpr: Program, name: str, rows: Any = None,
              masked: Any = None) -> list[ShapedArray]:
    # (rows: how passes/rows lays a group over its space; masked: see primitives/masked)
    have = types_of(avals)
    want = types_of(jaxpr.in_avals)
    assert have == want, (name, have, want)
    return list(jaxpr.out_avals)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Program, name: str,
         masked: Any = None) -> Any:
    if masked is not None:
        return masked.jvp(primals, tangents, name)
    return called_jvp(jaxpr, primals, tangents, lambda p, xs: call(p, xs, f"jvp({name})"))


def called_jvp(p: Program, primals: Sequence[Any], tangents: Sequence[Any],
               call: Callable[[Program, list[Any]], Sequence[Any]]) -> Any:
    """jvp of a call of a Program, as a call of its derived Program."""
    program, mask = jvp_program(p, nonzero_mask(tangents))
    values = call(program, [*primals, *nonzeros(tangents)])
    n = len(p.outputs)
    return values[:n], unmask(values[n:], mask, p.outputs)


def unmask(given: Sequence[Any], mask: Sequence[bool], outs: Sequence[Any]) -> list[Any]:
    """One tangent per output: the given ones where mask, Zero elsewhere."""
    values = iter(given)
    return [next(values) if m else zero_like(o) for m, o in zip(mask, outs)]


def cotangents(given: Sequence[Any], mask: Sequence[bool], args: Sequence[Any]) -> list[Any]:
    """One cotangent per linear operand: the given ones where mask, Zero elsewhere; None for others.
    """
    values, flows = iter(given), iter(mask)
    return [(next(values) if next(flows) else Zero(a.aval.cotangent())) if is_linear(a) else None
            for a in args]


def known_of(args: Sequence[Any]) -> list[Any]:
    """The operands that a function is not linear in."""
    return [a for a in args if not is_linear(a)]


def transposed(jaxpr: Program, cts: Sequence[Any], args: Sequence[Any],
               bind: Callable[[Program, list[Any]], Sequence[Any]]) -> list[Any]:
    """The cotangents of a Program's linear operands, by its transpose that `bind` applies."""
    program, mask, uses = transpose_program(
        jaxpr, [is_linear(a) for a in args], nonzero_mask(cts))
    values = [*known_of(args), *nonzeros(cts)]
    if uses is None:
        return cotangents(bind(program, values), mask, args)
    return cotangents(uses.settle([], bind(program, uses.operands(program.name, values))),
                      mask, args)


def _linearize(nonzero: Sequence[bool], primals: Sequence[Any], *, jaxpr: Program, name: str,
               masked: Any = None) -> tuple[list[Any], Callable[..., list[Any]]]:
    if masked is not None:
        return masked.linearize(nonzero, primals, name)
    forward, tangent, mask, sources = linearize_program(jaxpr, nonzero)
    values = call(forward, primals, name)
    n = len(jaxpr.outputs)
    # a residual that is an input needs no copy through the call
    residuals = [primals[s] if s >= 0 else v for s, v in zip(sources, values[n:])]

    def apply(*tangents: Any) -> list[Any]:
        return unmask(call(tangent, [*residuals, *tangents], name), mask, jaxpr.outputs)

    return values[:n], apply


def _transpose(cts: Sequence[Any], *args: Any, jaxpr: Program, name: str,
               masked: Any = None) -> list[Any]:
    return transposed(jaxpr, cts, args, lambda p, xs: call(p, xs, f"transpose({name})"))


def _batch(size: int, args: Sequence[Any], dims: Sequence[int | None], *, jaxpr: Program,
           name: str, masked: Any = None) -> Any:
    if masked is not None:
        return masked.batch(size, args, dims)
    program, mask = batch_program(jaxpr, size, dims)
    return call(program, args, f"vmap({name})"), front_axes(mask)


jit_p.abstract, jit_p.jvp, jit_p.linearize = _abstract, _jvp, _linearize
jit_p.transpose, jit_p.batch = _transpose, _batch
