"""while: a loop whose end the data decides.  Operands: cond consts, body consts, initial carry.

The predicate may have a shape: a leading part of every carry's shape, made by vmap.  The loop runs
while any of its elements holds, and an element whose predicate is false keeps its carry; so a
kernel may give each element a loop of its own.  Start reading at `_abstract`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calque.core import dtypes
from calque.core.avals import ShapedArray, aval_of
from calque.core.errors import explain
from calque.core.primitive import Primitive
from calque.core.program import Program
from calque.core.zeros import instantiate, is_zero
from calque.primitives.call import unmask
from calque.primitives.control import batch_by_loop
from calque.transforms.jvp import jvp_program
from calque.transforms.stage import closed, replay, stage
from calque.transforms.vmap import (
    batch_program,
    move_axis,
    named,
    of_devices,
    to_front,
    uses_axis,
)

while_p = Primitive("while", multiple_results=True, higher_order=True,
                    effects=lambda params: any(
                        e.primitive.has_effects(e.params)
                        for p in (params["cond_jaxpr"], params["body_jaxpr"]) for e in p.equations),
                    kernel="loop", keys=True)


def while_loop(cond: Program, cond_consts: Sequence[Any], body: Program, body_consts: Sequence[Any],
               init: Sequence[Any]) -> list[Any]:
    cond, more = closed(cond)
    cond_consts = [*more, *cond_consts]
    body, more = closed(body)
    body_consts = [*more, *body_consts]
    return while_p.bind(
        *cond_consts, *body_consts, *init, cond_jaxpr=cond, cond_nconsts=len(cond_consts),
        body_jaxpr=body, body_nconsts=len(body_consts))


def _parts(values: Sequence[Any], cond_nconsts: int, body_nconsts: int) -> tuple[Any, Any, Any]:
    """(cond consts, body consts, carry) of a flat sequence."""
    k = cond_nconsts + body_nconsts
    return values[:cond_nconsts], values[cond_nconsts:k], values[k:]


def _abstract(*avals: ShapedArray, cond_jaxpr: Program, cond_nconsts: int, body_jaxpr: Program,
              body_nconsts: int) -> list[ShapedArray]:
    _, _, carry = _parts(avals, cond_nconsts, body_nconsts)
    (pred,), outs = cond_jaxpr.out_avals, body_jaxpr.out_avals
    assert pred.dtype == dtypes.bool_, pred
    assert all(a.shape[:pred.ndim] == pred.shape for a in carry) or not pred.ndim, (pred, carry)
    assert [(a.shape, a.dtype) for a in outs] == [(a.shape, a.dtype) for a in carry], (outs, carry)
    return list(outs)


def _grown(mask: Sequence[bool], cond_nconsts: int, body_nconsts: int,
           step: Callable[[list[bool]], Sequence[bool]]) -> list[bool]:
    """The carry's mask, grown until the body's outputs are within it (`step` maps masks)."""
    _, consts, carry = _parts(list(mask), cond_nconsts, body_nconsts)
    for _ in range(len(carry) + 1):
        grown = [a or b for a, b in zip(carry, step([*consts, *carry]))]
        if grown == list(carry):
            break
        carry = grown
    return list(carry)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, cond_jaxpr: Program,
         cond_nconsts: int, body_jaxpr: Program, body_nconsts: int) -> Any:
    """Tangents ride along in the carry; the condition sees the primals alone."""
    cc, bc, init = _parts(primals, cond_nconsts, body_nconsts)
    _, tc, ti = _parts(tangents, cond_nconsts, body_nconsts)
    start = [not is_zero(t) for t in tangents]
    nz_consts = [not is_zero(t) for t in tc]
    nz_carry = _grown(start, cond_nconsts, body_nconsts, lambda m: jvp_program(body_jaxpr, m)[1])
    program, _ = jvp_program(body_jaxpr, [*nz_consts, *nz_carry], nz_carry)
    n, k, moving = len(init), len(bc), sum(nz_carry)
    const_tangents = [t for t in tc if not is_zero(t)]
    # program: (consts, carry, const tangents, carry tangents) -> (carry, carry tangents)
    ins = program.inputs
    order = [*ins[:k], *ins[k + n:len(ins) - moving], *ins[k:k + n], *ins[len(ins) - moving:]]
    body = program.derived(("while_body", k), lambda: program.replace(
        inputs=order))
    cond = _ignoring(cond_jaxpr, [a.tangent() for a, m in zip(body_jaxpr.out_avals, nz_carry) if m])
    given = [instantiate(t) if m else t for t, m in zip(ti, nz_carry)]
    outs = while_loop(cond, cc, body, [*bc, *const_tangents],
                      [*init, *[t for t, m in zip(given, nz_carry) if m]])
    return outs[:n], unmask(outs[n:], nz_carry, [aval_of(o) for o in outs[:n]])


def _ignoring(cond: Program, more: Sequence[ShapedArray]) -> Program:
    """A condition that takes more carry and does not look at it."""
    if not more:
        return cond
    avals = [*cond.in_avals, *more]
    return cond.derived(("ignoring", tuple(more)), lambda: stage(
        lambda *xs: replay(cond, *xs[:len(cond.in_avals)]), avals, cond.name))


def _linearize(nonzero: Sequence[bool], primals: Sequence[Any], **params: Any
               ) -> tuple[list[Any], Callable[..., list[Any]]]:
    """The tangents get a loop of their own, which repeats the primal one: nothing can be saved
    when the number of iterations is unknown (so it cannot be transposed either)."""
    values = while_p.bind(*primals, **params)

    def apply(*tangents: Any) -> list[Any]:
        avals = [aval_of(p) for p in primals]
        return _jvp(primals, unmask(tangents, nonzero, avals), **params)[1]

    return values, apply


def _transpose(cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
    raise ValueError(explain(
        "Reverse-mode differentiation does not work for lax.while_loop or lax.fori_loop with "
        "dynamic start/stop values.",
        fix="use lax.scan, or lax.fori_loop with start and stop known while tracing; forward mode "
            "(jvp, jacfwd) works."))


def _batch(size: int, args: Sequence[Any], dims: Sequence[int | None], *, cond_jaxpr: Program,
           cond_nconsts: int, body_jaxpr: Program, body_nconsts: int) -> Any:
    cc, bc, init = _parts(args, cond_nconsts, body_nconsts)
    dc, db, di = _parts(dims, cond_nconsts, body_nconsts)

    def axes(mask: Sequence[bool]) -> list[int | None]:
        return [0 if m else None for m in mask]

    start = [d is not None for d in dims]
    carry = _grown(start, cond_nconsts, body_nconsts,
                   lambda m: batch_program(body_jaxpr, size, axes(m))[1])
    by_cond = [d is not None for d in dc]
    _, (each,) = batch_program(cond_jaxpr, size, axes([*by_cond, *carry]))
    if each and of_devices.get() and not uses_axis(
            while_p, {"cond": cond_jaxpr, "body": body_jaxpr}, named.get()):
        return batch_by_loop(while_p, size, args, dims, cond_jaxpr=cond_jaxpr,
                             cond_nconsts=cond_nconsts, body_jaxpr=body_jaxpr,
                             body_nconsts=body_nconsts)
    if each or (cond_jaxpr.out_avals[0].ndim and any(carry)):
        each, carry = True, [True] * len(carry)
    cond, _ = batch_program(cond_jaxpr, size, axes([*by_cond, *carry]), [each])
    body, _ = batch_program(body_jaxpr, size, axes([*[d is not None for d in db], *carry]), carry)
    outs = while_loop(
        cond, [c if d is None else move_axis(c, d, 0) for c, d in zip(cc, dc)],
        body, [c if d is None else move_axis(c, d, 0) for c, d in zip(bc, db)],
        [to_front(x, d, size) if m else x for x, d, m in zip(init, di, carry)])
    return outs, [0 if m else None for m in carry]


while_p.abstract, while_p.jvp, while_p.linearize = _abstract, _jvp, _linearize
while_p.transpose, while_p.batch = _transpose, _batch
