"""while: a loop whose end the data decides.  Operands: cond consts, body consts, initial carry.

The predicate may have a shape: a leading part of every carry's shape, made by vmap.  The loop runs
while any of its elements holds, and an element whose predicate is false keeps its carry; so a
kernel may give each element a loop of its own.  Start reading at `_abstract`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calque.core import dtypes
from calque.core.avals import ShapedArray
from calque.core.errors import explain
from calque.core.lists import flagged, split_list, types_of
from calque.core.primitive import Primitive
from calque.core.program import Program
from calque.core.zeros import instantiate, nonzero_mask, nonzeros
from calque.primitives.call import unmask
from calque.primitives.control import batch_by_loop, fixed_point, refuse_io
from calque.transforms.jvp import jvp_program
from calque.transforms.stage import closed, replay, stage
from calque.transforms.vmap import (
    all_to_front,
    batch_program,
    front_axes,
    mapped_to_front,
    named,
    of_devices,
    uses_axis,
)

while_p = Primitive("while", multiple_results=True, higher_order=True,
                    effects=lambda params: params["cond_jaxpr"].has_effects()
                    or params["body_jaxpr"].has_effects(), kernel="loop", keys=True)


def while_loop(cond: Program, cond_consts: Sequence[Any], body: Program, body_consts: Sequence[Any],
               init: Sequence[Any]) -> list[Any]:
    cond, more = closed(cond)
    cond_consts = [*more, *cond_consts]
    body, more = closed(body)
    body_consts = [*more, *body_consts]
    return while_p.bind(
        *cond_consts, *body_consts, *init, cond_jaxpr=cond, cond_nconsts=len(cond_consts),
        body_jaxpr=body, body_nconsts=len(body_consts))


def _abstract(*avals: ShapedArray, cond_jaxpr: Program, cond_nconsts: int, body_jaxpr: Program,
              body_nconsts: int) -> list[ShapedArray]:
    _, _, carry = split_list(avals, cond_nconsts, body_nconsts)
    (pred,), outs = cond_jaxpr.out_avals, body_jaxpr.out_avals
    assert pred.dtype == dtypes.bool_, pred
    assert all(a.shape[:pred.ndim] == pred.shape for a in carry) or not pred.ndim, (pred, carry)
    assert types_of(outs) == types_of(carry), (outs, carry)
    return list(outs)


def _grown(mask: Sequence[bool], cond_nconsts: int, body_nconsts: int,
           step: Callable[[list[bool]], Sequence[bool]]) -> list[bool]:
    """The carry's mask, grown until the body's outputs are within it (`step` maps masks)."""
    given = mask[cond_nconsts:]
    return fixed_point(given, body_nconsts, len(given) - body_nconsts, step)[body_nconsts:]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, cond_jaxpr: Program,
         cond_nconsts: int, body_jaxpr: Program, body_nconsts: int) -> Any:
    """Tangents ride along in the carry; the condition sees the primals alone."""
    cc, bc, init = split_list(primals, cond_nconsts, body_nconsts)
    _, tc, ti = split_list(tangents, cond_nconsts, body_nconsts)
    nz_carry = _grown(nonzero_mask(tangents), cond_nconsts, body_nconsts,
                      lambda m: jvp_program(body_jaxpr, m)[1])
    program, _ = jvp_program(body_jaxpr, [*nonzero_mask(tc), *nz_carry], nz_carry)
    n, k, moving = len(init), len(bc), sum(nz_carry)
    # program: (consts, carry, const tangents, carry tangents) -> (carry, carry tangents)
    ins = program.inputs
    order = [*ins[:k], *ins[k + n:len(ins) - moving], *ins[k:k + n], *ins[len(ins) - moving:]]
    body = program.derived(("while_body", k), lambda: program.replace(inputs=order))
    cond = _ignoring(cond_jaxpr, [a.tangent() for a, m in zip(body_jaxpr.out_avals, nz_carry) if m])
    outs = while_loop(cond, cc, body, [*bc, *nonzeros(tc)],
                      [*init, *map(instantiate, flagged(ti, nz_carry))])
    return outs[:n], unmask(outs[n:], nz_carry, outs)


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
        return _jvp(primals, unmask(tangents, nonzero, primals), **params)[1]

    return values, apply


def _transpose(cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
    raise ValueError(explain(
        "Reverse-mode differentiation does not work for lax.while_loop or lax.fori_loop with "
        "dynamic start/stop values.",
        fix="use lax.scan, or lax.fori_loop with start and stop known while tracing; forward mode "
            "(jvp, jacfwd) works."))


def _batch(size: int, args: Sequence[Any], dims: Sequence[int | None], *, cond_jaxpr: Program,
           cond_nconsts: int, body_jaxpr: Program, body_nconsts: int) -> Any:
    cc, bc, init = split_list(args, cond_nconsts, body_nconsts)
    dc, db, di = split_list(dims, cond_nconsts, body_nconsts)

    start = [d is not None for d in dims]
    carry = _grown(start, cond_nconsts, body_nconsts,
                   lambda m: batch_program(body_jaxpr, size, front_axes(m))[1])
    by_cond, by_body = ([d is not None for d in of] for of in (dc, db))
    _, (each,) = batch_program(cond_jaxpr, size, front_axes([*by_cond, *carry]))
    if each and of_devices.get() and not uses_axis(
            while_p, {"cond": cond_jaxpr, "body": body_jaxpr}, named.get()):
        return batch_by_loop(while_p, size, args, dims, cond_jaxpr=cond_jaxpr,
                             cond_nconsts=cond_nconsts, body_jaxpr=body_jaxpr,
                             body_nconsts=body_nconsts)
    if each:
        refuse_io((cond_jaxpr, body_jaxpr), "IO effects not supported in while_loop with batched "
                  "predicate: elements that are done would call, too.")
    if each or (cond_jaxpr.out_avals[0].ndim and any(carry)):
        each, carry = True, [True] * len(carry)
    cond, _ = batch_program(cond_jaxpr, size, front_axes([*by_cond, *carry]), [each])
    body, _ = batch_program(body_jaxpr, size, front_axes([*by_body, *carry]), carry)
    outs = while_loop(
        cond, mapped_to_front(cc, dc), body, mapped_to_front(bc, db),
        all_to_front(init, di, size, carry))
    return outs, front_axes(carry)


while_p.abstract, while_p.jvp, while_p.linearize = _abstract, _jvp, _linearize
while_p.transpose, while_p.batch = _transpose, _batch
