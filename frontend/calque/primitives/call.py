"""jit: a call of an inner Program.  Its rules transform the inner Program once and keep the result
on it, so that a function called a thousand times is transformed once.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.primitive import Primitive, is_linear
from calque.core.program import Program
from calque.core.zeros import Zero, is_zero
from calque.transforms.jvp import jvp_program
from calque.transforms.linearize import linearize_program
from calque.transforms.stage import closed
from calque.transforms.transpose import transpose_program
from calque.transforms.vmap import batch_program

jit_p = Primitive("jit", multiple_results=True, higher_order=True,
                  effects=lambda params: any(e.primitive.has_effects(e.params)
                                             for e in params["jaxpr"].equations),
                  kernel="nest", keys=True)


def call(program: Program, args: Sequence[Any], name: str | None = None) -> list[Any]:
    """Bind a Program; its consts become operands."""
    program, consts = closed(program)
    return jit_p.bind(*consts, *args, jaxpr=program, name=name or program.name)


def _abstract(*avals: ShapedArray, jaxpr: Program, name: str, rows: Any = None
              ) -> list[ShapedArray]:  # (rows: how passes/rows lays a group over its space)
    have = [(a.shape, a.dtype) for a in avals]
    want = [(a.shape, a.dtype) for a in jaxpr.in_avals]
    assert have == want, (name, have, want)
    return list(jaxpr.out_avals)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Program, name: str) -> Any:
    nonzero = [not is_zero(t) for t in tangents]
    program, mask = jvp_program(jaxpr, nonzero)
    values = call(program, [*primals, *[t for t in tangents if not is_zero(t)]], f"jvp({name})")
    n = len(jaxpr.outputs)
    return values[:n], unmask(values[n:], mask, jaxpr.out_avals)


def unmask(given: Sequence[Any], mask: Sequence[bool],
           avals: Sequence[ShapedArray]) -> list[Any]:
    """One tangent per output: the given ones where mask, Zero elsewhere."""
    values = iter(given)
    return [next(values) if m else Zero(a.tangent()) for m, a in zip(mask, avals)]


def _linearize(nonzero: Sequence[bool], primals: Sequence[Any], *, jaxpr: Program,
               name: str) -> tuple[list[Any], Callable[..., list[Any]]]:
    forward, tangent, mask, sources = linearize_program(jaxpr, nonzero)
    values = call(forward, primals, name)
    n = len(jaxpr.outputs)
    # a residual that is an input needs no copy through the call
    residuals = [primals[s] if s >= 0 else v for s, v in zip(sources, values[n:])]

    def apply(*tangents: Any) -> list[Any]:
        outs = call(tangent, [*residuals, *tangents], name)
        return unmask(outs, mask, jaxpr.out_avals)

    return values[:n], apply


def _transpose(cts: Sequence[Any], *args: Any, jaxpr: Program, name: str) -> list[Any]:
    linear = [is_linear(a) for a in args]
    given = [not is_zero(c) for c in cts]
    program, mask = transpose_program(jaxpr, linear, given)
    values = iter(call(program, [a for a in args if not is_linear(a)]
                       + [c for c in cts if not is_zero(c)], f"transpose({name})"))
    flow = iter(mask)
    return [(next(values) if next(flow) else Zero(a.aval)) if n else None
            for a, n in zip(args, linear)]


def _batch(size: int, args: Sequence[Any], dims: Sequence[int | None], *, jaxpr: Program,
           name: str) -> Any:
    program, mask = batch_program(jaxpr, size, dims)
    return call(program, args, f"vmap({name})"), [0 if m else None for m in mask]


jit_p.abstract, jit_p.jvp, jit_p.linearize = _abstract, _jvp, _linearize
jit_p.transpose, jit_p.batch = _transpose, _batch
