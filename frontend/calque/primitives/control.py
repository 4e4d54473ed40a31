"""Structured control flow: cond (with any number of branches) and scan.  Both hold Programs and
transform them; what a branch or body captures is passed as an operand.

scan's operands are (consts, initial carry, xs), its results (final carry, stacked ys).
Start reading at `_scan_abstract`; the linearize rules say what is saved for the backward pass.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray, aval_of, shape_of
from calque.core.errors import explain
from calque.core.lists import flagged, split_list, types_of
from calque.core.primitive import Primitive, is_linear, registry
from calque.core.program import Program, Var
from calque.core.refs import equal_uses
from calque.core.zeros import instantiate, nonzero_mask, nonzeros, zeros
from calque.primitives import elementwise as ew
from calque.primitives.call import cotangents, known_of, unmask
from calque.primitives.masked import call_rows
from calque.transforms.jvp import jvp_program
from calque.transforms.linearize import linearize_program
from calque.transforms.stage import closed, replay, stage
from calque.transforms.transpose import transpose_program
from calque.transforms.vmap import (
    all_to_front,
    batch_program,
    front_axes,
    mapped_to_front,
    move_axis,
    named,
    of_devices,
    uses_axis,
)

# ---- cond: operands (index, *operands); params branches: tuple of Programs of equal types
cond_p = Primitive("cond", multiple_results=True, higher_order=True,
                   effects=lambda params: any(b.has_effects() for b in params["branches"]),
                   kernel="nest", keys=True)


def cond(index: Any, operands: Sequence[Any], branches: Sequence[Program]) -> list[Any]:
    branches, consts = with_consts(branches)
    return cond_p.bind(index, *consts, *operands, branches=tuple(branches))


def with_consts(programs: Sequence[Program]) -> tuple[Sequence[Program], list[Any]]:
    """Programs that all take the union of their consts first, and those consts."""
    consts: list[Any] = []
    index: dict[int, int] = {}
    for p in programs:
        for c in p.consts:
            if id(c) not in index:
                index[id(c)] = len(consts)
                consts.append(c)
    if not consts:
        return programs, consts
    made = []
    for p in programs:
        leading = [Var(aval_of(c)) for c in consts]
        for v, c in zip(p.const_vars, p.consts):
            leading[index[id(c)]] = v
        made.append(p.replace(inputs=(*leading, *p.inputs), const_vars=(), consts=()))
    return made, consts


def _cond_abstract(index: ShapedArray, *operands: ShapedArray,
                   branches: tuple[Program, ...]) -> list[ShapedArray]:
    assert not index.shape and index.dtype == dtypes.int32, index
    for b in branches:
        assert types_of(b.in_avals) == types_of(operands)
    outs = [b.out_avals for b in branches]
    return [a.update(weak_type=all(o[i].weak_type for o in outs)) for i, a in enumerate(outs[0])]


def _cond_jvp(primals: Sequence[Any], tangents: Sequence[Any], *,
              branches: tuple[Program, ...]) -> Any:
    nonzero = nonzero_mask(tangents[1:])
    union = _union(jvp_program(b, nonzero)[1] for b in branches)
    programs = [jvp_program(b, nonzero, union)[0] for b in branches]
    values = cond(primals[0], [*primals[1:], *nonzeros(tangents[1:])], programs)
    n = len(branches[0].outputs)
    return values[:n], unmask(values[n:], union, branches[0].outputs)


def _union(masks: Iterable[Sequence[bool]]) -> list[bool]:
    return [any(m) for m in zip(*masks)]


def _cond_linearize(nonzero: Sequence[bool], primals: Sequence[Any], *,
                    branches: tuple[Program, ...]) -> tuple[list[Any], Callable[..., list[Any]]]:
    """Each branch saves what it computed; the other branches fill theirs with zeros.  Operands are
    residuals as they are: chosen between them and zeros once more, they would be other arrays of
    equal values, and for such IREE may read others (tests/lowering/test_refusals.py).
    """
    assert not nonzero[0]
    union = _union(linearize_program(b, nonzero[1:])[2] for b in branches)
    parts = [linearize_program(b, nonzero[1:], union) for b in branches]
    n = len(branches[0].outputs)
    used = sorted({s for *_, sources in parts for s in sources if s >= 0})
    saved = [[a for a, s in zip(fwd.out_avals[n:], sources) if s < 0]
             for fwd, _, _, sources in parts]
    forwards = [_with_padding(fwd, n, saved, i, sources)
                for i, (fwd, _, _, sources) in enumerate(parts)]
    values = cond(primals[0], primals[1:], forwards)
    residuals = values[n:]
    tangent_programs = [_picking(t, saved, i, used, sources, branches[i])
                        for i, (_, t, _, sources) in enumerate(parts)]
    assert len(residuals) == sum(map(len, saved))

    def apply(*tangents: Any) -> list[Any]:
        operands = [*[primals[1 + s] for s in used], *residuals, *tangents]
        return unmask(cond(primals[0], operands, tangent_programs), union, branches[0].outputs)

    return values[:n], apply


def _with_padding(fwd: Program, n: int, saved: list[list[ShapedArray]], mine: int,
                  sources: Sequence[int]) -> Program:
    def run(*args: Any) -> list[Any]:
        outs = replay(fwd, *args)
        computed = [r for r, s in zip(outs[n:], sources) if s < 0]
        rest = [computed if i == mine else [zeros(a) for a in avals]
                for i, avals in enumerate(saved)]
        return [*outs[:n], *[r for part in rest for r in part]]
    return stage(run, fwd.in_avals, fwd.name)


def _picking(tangent: Program, saved: list[list[ShapedArray]], mine: int, used: Sequence[int],
             sources: Sequence[int], branch: Program) -> Program:
    """The tangent program of (operands that are residuals, residuals of all branches, tangents)."""
    first = len(used) + sum(len(s) for s in saved[:mine])
    total = len(used) + sum(len(s) for s in saved)

    def run(*args: Any) -> list[Any]:
        computed = iter(args[first:])
        own = [args[used.index(s)] if s >= 0 else next(computed) for s in sources]
        return replay(tangent, *own, *args[total:])

    avals = [*[branch.in_avals[s] for s in used], *[a for s in saved for a in s],
             *tangent.in_avals[len(sources):]]
    return stage(run, avals, tangent.name)


def _cond_transpose(cts: Sequence[Any], index: Any, *operands: Any,
                    branches: tuple[Program, ...]) -> list[Any]:
    linear, given = [is_linear(o) for o in operands], nonzero_mask(cts)
    union = _union(transpose_program(b, linear, given)[1] for b in branches)
    made = [transpose_program(b, linear, given, union) for b in branches]
    values = [*known_of(operands), *nonzeros(cts)]
    programs, uses = equal_uses(len(values), [(p, u) for p, _, u in made])
    if uses is None:
        outs = cond(index, values, programs)
    else:
        outs = uses.settle([], cond(index, uses.operands("cond", values), programs))
    return [None, *cotangents(outs, union, operands)]


def _cond_batch(size: int, args: Sequence[Any], dims: Sequence[int | None], *,
                branches: tuple[Program, ...]) -> Any:
    index, *operands = args
    if dims[0] is None:
        union = _union(batch_program(b, size, dims[1:])[1] for b in branches)
        programs = [batch_program(b, size, dims[1:], union)[0] for b in branches]
        return cond(index, operands, programs), front_axes(union)
    if of_devices.get() and not uses_axis(cond_p, {"branches": branches}, named.get()):
        return batch_by_loop(cond_p, size, args, dims, branches=branches)
    # a batch of predicates: run all branches, choose elementwise
    refuse_io(branches, "IO effect not supported in vmap-of-cond: its branches would all run.")
    index = ew.clamp(np.int32(0), move_axis(index, dims[0], 0), np.int32(len(branches) - 1))
    results = [call_rows(b, size, dims[1:], ew.eq(index, np.int32(i)), operands, "branch")[0]
               for i, b in enumerate(branches)]
    passed = [_passed_on([b.outputs[i] for b in branches], branches)
              for i in range(len(branches[0].outputs))]  # these are no choice
    picked = [_choose(index, list(cases)) if p is None else operands[p]
              for p, cases in zip(passed, zip(*results))]
    return picked, [0 if p is None else dims[1 + p] for p in passed]


def _passed_on(outputs: Sequence[Any], branches: Sequence[Program]) -> int | None:
    """Which operand a result is whatever the index is."""
    places = {b.inputs.index(o) if o in b.inputs else None for o, b in zip(outputs, branches)}
    return places.pop() if len(places) == 1 else None


def refuse_io(programs: Iterable[Program], what: str) -> None:
    """NotImplementedError where one calls Python for what it does: masked elements would, too."""
    def calls(p: Program) -> bool:
        return any(e.name == "io_callback" or any(map(calls, e.inner))
                   for e in p.equations)

    if any(p.has_effects() and calls(p) for p in programs):
        raise NotImplementedError(explain(what, fix="call it outside of what is mapped, or use "
                                          "lax.map instead of vmap."))


def _choose(index: Any, cases: list[Any]) -> Any:
    shape = shape_of(cases[0])
    which: Any = ew.ne(index, np.int32(0)) if len(cases) == 2 else index
    which = registry["broadcast_in_dim"].bind(
        which, shape=shape, broadcast_dimensions=(0,), sharding=None)
    return ew.select_n(which, *cases)


cond_p.abstract, cond_p.jvp, cond_p.linearize = _cond_abstract, _cond_jvp, _cond_linearize
cond_p.transpose, cond_p.batch = _cond_transpose, _cond_batch

# ---- scan
scan_p = Primitive("scan", multiple_results=True, higher_order=True,
                   effects=lambda params: params["jaxpr"].has_effects(), kernel="loop", keys=True)


def scan(body: Program, consts: Sequence[Any], init: Sequence[Any], xs: Sequence[Any], *,
         length: int, reverse: bool = False, unroll: int = 1) -> list[Any]:
    if isinstance(length, int) and length == 0:  # no step: nothing to loop over, or to write out
        return [*[x if hasattr(x, "aval") else ew.copy(x) for x in init],
                *[zeros(_stacked(a, 0)) for a in body.out_avals[len(init):]]]
    body, more = closed(body)
    consts = [*more, *consts]
    return scan_p.bind(
        *consts, *init, *xs, jaxpr=body, length=length, reverse=reverse, unroll=unroll,
        num_consts=len(consts), num_carry=len(init))


def _stacked(a: ShapedArray, length: int) -> ShapedArray:
    made = a.of_shape((length, *a.shape))
    spec = getattr(a.placement, "spec", None)
    if spec is None or not a.placement.explicit:
        return made
    return made.marked(a.placement.update(spec=spec.update(partitions=(None, *spec.partitions))),
                       made.vma)


def _scan_abstract(*avals: ShapedArray, jaxpr: Program, length: int, reverse: bool, unroll: int,
                   num_consts: int, num_carry: int) -> list[ShapedArray]:
    _, carry, xs = split_list(avals, num_consts, num_carry)
    assert all(x.shape[:1] == (length,) for x in xs), (length, xs)
    outs = jaxpr.out_avals
    assert types_of(outs[:num_carry]) == types_of(carry)
    return [*outs[:num_carry], *[_stacked(a, length) for a in outs[num_carry:]]]


def fixed_point(mask: Sequence[bool], num_consts: int, num_carry: int,
                step: Callable[[list[bool]], Sequence[bool]]) -> list[bool]:
    """Grow the carry part of an input mask until the body's carry outputs are within it."""
    consts, carry, xs = split_list(list(mask), num_consts, num_carry)
    while True:
        mask = [*consts, *carry, *xs]
        grown = [a or b for a, b in zip(carry, step(mask))]
        if grown == carry:
            return mask
        carry = grown


def _scan_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Program, length: int,
              reverse: bool, unroll: int, num_consts: int, num_carry: int) -> Any:
    nonzero = fixed_point(nonzero_mask(tangents), num_consts, num_carry,
                          lambda m: jvp_program(jaxpr, m)[1])
    nz_consts, nz_carry, nz_xs = split_list(nonzero, num_consts, num_carry)
    n_out = len(jaxpr.outputs)
    forced = [*nz_carry, *[False] * (n_out - num_carry)]
    program, mask = jvp_program(jaxpr, nonzero, forced)
    values = [instantiate(t) if n else t for t, n in zip(tangents, nonzero)]
    given = flagged(values, nonzero)
    counts = [sum(nz_consts), sum(nz_carry), sum(nz_xs)]
    body = _interleaved(program, (num_consts, num_carry, len(nz_xs)), counts,
                        (num_carry, n_out - num_carry), sum(mask[:num_carry]))
    pc, pi, px = split_list(primals, num_consts, num_carry)
    tc, ti, tx = split_list(given, counts[0], counts[1])
    outs = scan(body, [*pc, *tc], [*pi, *ti], [*px, *tx], length=length, reverse=reverse,
                unroll=unroll)
    n_tc = counts[1]
    primal_out = [*outs[:num_carry], *outs[num_carry + n_tc:num_carry + n_tc + n_out - num_carry]]
    tangent_out = [*outs[num_carry:num_carry + n_tc], *outs[n_out + n_tc:]]
    return primal_out, unmask(tangent_out, mask, primal_out)


def _interleaved(p: Program, primal: tuple[int, int, int], tangent: Sequence[int],
                 outs: tuple[int, int], carry_tangents: int) -> Program:
    """Reorder (primals, tangents) into scan's (consts, carry, xs), each primals then tangents."""
    a = sum(primal)
    pc, pi, px = p.inputs[:primal[0]], p.inputs[primal[0]:primal[0] + primal[1]], \
        p.inputs[primal[0] + primal[1]:a]
    ts = p.inputs[a:]
    tc, ti, tx = ts[:tangent[0]], ts[tangent[0]:tangent[0] + tangent[1]], \
        ts[tangent[0] + tangent[1]:]
    n = outs[0] + outs[1]
    oc, oy, ot = p.outputs[:outs[0]], p.outputs[outs[0]:n], p.outputs[n:]
    order = [*oc, *ot[:carry_tangents], *oy, *ot[carry_tangents:]]
    return p.derived(("interleaved", primal, tuple(tangent)), lambda: p.replace(
        inputs=[*pc, *tc, *pi, *ti, *px, *tx], outputs=order))


def _scan_linearize(nonzero: Sequence[bool], primals: Sequence[Any], *, jaxpr: Program,
                    length: int, reverse: bool, unroll: int, num_consts: int,
                    num_carry: int) -> tuple[list[Any], Callable[..., list[Any]]]:
    """The forward scan stacks the residuals; those that are consts of the body are not stacked."""
    grown = fixed_point(nonzero, num_consts, num_carry,
                        lambda m: linearize_program(jaxpr, m)[2])
    nz_consts, nz_carry, nz_xs = split_list(grown, num_consts, num_carry)
    n_out = len(jaxpr.outputs)
    forced = [*nz_carry, *[False] * (n_out - num_carry)]
    forward, tangent, mask, sources = linearize_program(jaxpr, grown, forced)
    looped = [k for k, s in enumerate(sources) if not 0 <= s < num_consts]
    body = forward.replace(
        outputs=[*forward.outputs[:n_out], *[forward.outputs[n_out + k] for k in looped]])
    pc, pi, px = split_list(primals, num_consts, num_carry)
    outs = scan(body, pc, pi, px, length=length, reverse=reverse, unroll=unroll)
    stacked = dict(zip(looped, outs[n_out:]))
    fixed = {k: pc[s] for k, s in enumerate(sources) if 0 <= s < num_consts}
    t_body = _tangent_body(tangent, list(fixed), looped, sum(nz_consts), sum(nz_carry))
    grown_only = [g and not n for g, n in zip(grown, nonzero)]

    def apply(*tangents: Any) -> list[Any]:
        given = iter(tangents)
        full = [zeros(aval_of(p).tangent()) if extra else next(given)
                for p, n, extra in zip(primals, grown, grown_only) if n]
        tc, ti, tx = split_list(full, sum(nz_consts), sum(nz_carry))
        result = scan(t_body, [*fixed.values(), *tc], ti, [*[stacked[k] for k in looped], *tx],
                      length=length, reverse=reverse, unroll=unroll)
        return unmask(result, mask, outs)

    return outs[:n_out], apply


def _tangent_body(tangent: Program, fixed: list[int], looped: list[int], n_consts: int,
                  n_carry: int) -> Program:
    """Inputs (residuals, tangents) reordered to (fixed, t_consts), t_carry, (looped, t_xs)."""
    n_res = len(fixed) + len(looped)
    res, ts = tangent.inputs[:n_res], tangent.inputs[n_res:]
    order = [*[res[k] for k in fixed], *ts[:n_consts], *ts[n_consts:n_consts + n_carry],
             *[res[k] for k in looped], *ts[n_consts + n_carry:]]
    what = ("tangent_body", tuple(fixed), tuple(looped), n_consts, n_carry)
    return tangent.derived(what, lambda: tangent.replace(inputs=order))


def _scan_transpose(cts: Sequence[Any], *args: Any, jaxpr: Program, length: int, reverse: bool,
                    unroll: int, num_consts: int, num_carry: int) -> list[Any]:
    """The loop runs the other way; cotangents of linear consts are summed in the carry."""
    linear = [is_linear(a) for a in args]
    lin_c, lin_i, lin_x = split_list(linear, num_consts, num_carry)
    # a carry that starts at a known value starts at zero: the scan is linear
    linear = [*lin_c, *[True] * num_carry, *lin_x]
    ct_carry, ct_ys = map(instantiate, cts[:num_carry]), cts[num_carry:]
    given = nonzero_mask(ct_ys)
    back, _, uses = transpose_program(jaxpr, linear, [*[True] * num_carry, *given],
                                      [True] * sum(linear))
    n_lc, n_kc = sum(lin_c), num_consts - sum(lin_c)
    n_kx, n_lx = len(lin_x) - sum(lin_x), sum(lin_x)
    refs = [] if uses is None else uses.closed  # what backward rules hold is carried first
    # back: (known consts, known xs, ct carry, ct ys, refs)
    #       -> (ct consts, ct carry, ct xs, what is left in the refs that are written)

    def run(*values: Any) -> list[Any]:
        known_c, values = values[:n_kc], values[n_kc:]
        held: Sequence[Any] = values[:len(refs)]
        values = values[len(refs):]
        sums, values = values[:n_lc], values[n_lc:]
        carry, values = values[:num_carry], values[num_carry:]
        known_x, ct_y = values[:n_kx], values[n_kx:]
        outs = replay(back, *known_c, *known_x, *carry, *ct_y, *held)
        if uses is not None:
            outs, held = uses.split(outs, held)
        added = [ew.add_any(s, c) for s, c in zip(sums, outs)]
        return [*held, *added, *outs[n_lc:]]

    kinds = list(jaxpr.in_avals)
    avals_c, avals_i, avals_x = split_list(kinds, num_consts, num_carry)
    body_avals = [a for a, n in zip(avals_c, lin_c) if not n]
    body_avals += [r.abstract.inner_aval for r in refs]
    body_avals += [a.strong().cotangent() for a, n in zip(avals_c, lin_c) if n]
    body_avals += [a.strong().cotangent() for a in avals_i]
    body_avals += [a for a, n in zip(avals_x, lin_x) if not n]
    body_avals += [a.cotangent() for a in flagged(jaxpr.out_avals[num_carry:], given)]
    what = ("scan_transpose", tuple(linear), tuple(given))
    body = jaxpr.derived(what, lambda: stage(run, body_avals, f"transpose_{jaxpr.name}"))
    consts, _, xs = split_list(args, num_consts, num_carry)
    sums = [zeros(a.aval.cotangent()) for a in flagged(consts, lin_c)]
    before = [] if uses is None else uses.operands("scan", [])
    outs = scan(body, known_of(consts), [*before, *sums, *ct_carry],
                [*known_of(xs), *nonzeros(ct_ys)], length=length, reverse=not reverse,
                unroll=unroll)
    if uses is not None:
        outs = uses.settle([], [*outs[len(refs):], *flagged(outs[:len(refs)], uses.written)])
    ct_c, ct_i, ct_x = iter(outs[:n_lc]), outs[n_lc:n_lc + num_carry], iter(outs[n_lc + num_carry:])
    assert n_lx == len(outs) - n_lc - num_carry
    return [*[next(ct_c) if n else None for n in lin_c],
            *[c if n else None for c, n in zip(ct_i, lin_i)],
            *[next(ct_x) if n else None for n in lin_x]]


def _scan_batch(size: int, args: Sequence[Any], dims: Sequence[int | None], *, jaxpr: Program,
                length: int, reverse: bool, unroll: int, num_consts: int, num_carry: int) -> Any:
    start = [d is not None for d in dims]
    batched = fixed_point(start, num_consts, num_carry,
                          lambda m: batch_program(jaxpr, size, front_axes(m))[1])
    _, b_carry, _ = split_list(batched, num_consts, num_carry)
    force = [*b_carry, *[False] * (len(jaxpr.outputs) - num_carry)]
    body, mask = batch_program(jaxpr, size, front_axes(batched), force)
    consts, init, xs = split_list(args, num_consts, num_carry)
    dc, di, dx = split_list(dims, num_consts, num_carry)
    consts, init = mapped_to_front(consts, dc), all_to_front(init, di, size, b_carry)
    xs = [x if d is None else move_axis(x, d, 1) for x, d in zip(xs, dx)]
    outs = scan(body, consts, init, xs, length=length, reverse=reverse, unroll=unroll)
    out_axes = [(0 if i < num_carry else 1) if m else None for i, m in enumerate(mask)]
    return outs, out_axes


scan_p.abstract, scan_p.jvp, scan_p.linearize = _scan_abstract, _scan_jvp, _scan_linearize
scan_p.transpose, scan_p.batch = _scan_transpose, _scan_batch


def batch_by_loop(prim: Primitive, size: int, args: Sequence[Any], dims: Sequence[int | None],
                  **params: Any) -> Any:
    """Batch a primitive by scanning over the mapped axis (where no wider form exists)."""
    fixed = [a for a, d in zip(args, dims) if d is None]
    mapped = [move_axis(a, d, 0) for a, d in zip(args, dims) if d is not None]

    def run(*values: Any) -> list[Any]:
        rest, looped = iter(values[:len(fixed)]), iter(values[len(fixed):])
        one = [next(rest) if d is None else next(looped) for d in dims]
        out = prim.bind(*one, **params)
        return out if prim.multiple_results else [out]

    avals = [aval_of(a) for a in fixed]
    avals += [aval_of(a).update(shape=shape_of(a)[1:]) for a in mapped]
    body = stage(run, avals, f"loop_{prim.name}")
    outs = scan(body, fixed, [], mapped, length=size)
    return (outs, [0] * len(outs)) if prim.multiple_results else (outs[0], 0)
