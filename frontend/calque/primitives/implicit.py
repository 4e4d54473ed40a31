"""custom_linear_solve: a linear system given by functions, with implicit derivatives.

Its four Programs (matvec, vecmat, solve, transpose_solve) each take their own captured values and
then a vector.  Of `linear_call` only the last two are there: a linear function and its transpose.
Start reading at `_jvp`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.errors import explain
from calque.core.primitive import Primitive, is_linear
from calque.core.program import Program
from calque.core.zeros import Zero, add_tangents, instantiate, is_zero, zero_like
from calque.primitives.elementwise import neg
from calque.transforms.jvp import jvp_flat
from calque.transforms.stage import closed, replay
from calque.transforms.vmap import batch_program, to_front

linear_solve_p = Primitive("custom_linear_solve", multiple_results=True)  # by its jvp
PARTS = ("matvec", "vecmat", "solve", "transpose_solve")


def _parts(args: Sequence[Any], counts: tuple[int, ...]) -> tuple[list[list[Any]], list[Any]]:
    """(captured values of each Program, b)."""
    found, at = [], 0
    for n in counts:
        found.append(list(args[at:at + n]))
        at += n
    return found, list(args[at:])


def solved(args: Sequence[Any], *, counts: tuple[int, ...], solve: Program, aux: int,
           **_: Any) -> tuple[Program, list[Any]]:
    """The Program that solves the system, and its arguments: what the operation computes."""
    captured, b = _parts(args, counts)
    return solve, [*captured[2], *b]


def _abstract(*avals: ShapedArray, counts: tuple[int, ...], solve: Program, aux: int,
              **_: Any) -> list[ShapedArray]:
    return list(solve.out_avals)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, counts: tuple[int, ...], aux: int,
         **programs: Any) -> Any:
    """dx = A^-1 (db - dA x)."""
    outs = linear_solve_p.bind(*primals, counts=counts, aux=aux, **programs)
    x = outs[:len(outs) - aux]
    (captured, *_), _ = _parts(primals, counts)
    (moved, *_), right = _parts(tangents, counts)
    if not all(is_zero(t) for t in moved):
        n = len(captured)
        _, changes = jvp_flat(lambda *xs: replay(programs["matvec"], *xs), [*captured, *x],
                              [*moved, *[zero_like(v) for v in x]])
        assert n + len(x) == len(programs["matvec"].inputs)
        right = [add_tangents(r, c if is_zero(c) else neg(c)) for r, c in zip(right, changes)]
    none = [zero_like(o) for o in outs[len(x):]]
    if all(is_zero(r) for r in right):
        return outs, [*[zero_like(v) for v in x], *none]
    solved = linear_solve_p.bind(*primals[:sum(counts)], *[instantiate(r) for r in right],
                                 counts=counts, aux=aux, **programs)
    return outs, [*solved[:len(x)], *none]


def _transpose(cts: Sequence[Any], *args: Any, counts: tuple[int, ...], aux: int,
               **programs: Any) -> list[Any]:
    if programs["transpose_solve"] is None:
        raise TypeError(explain(
            "transpose_solve required for backwards mode automatic differentiation of "
            "custom_linear_solve",
            fix="pass transpose_solve, or symmetric=True for a symmetric matrix."))
    captured, b = _parts(args, counts)
    assert all(is_linear(x) for x in b)
    cts = list(cts[:len(cts) - aux])
    if all(is_zero(c) for c in cts):
        return [None] * sum(counts) + [Zero(x.aval.cotangent()) for x in b]
    matvec, vecmat, solve, back = captured
    swapped = {"matvec": programs["vecmat"], "vecmat": programs["matvec"],
               "solve": programs["transpose_solve"], "transpose_solve": programs["solve"]}
    found = linear_solve_p.bind(
        *vecmat, *matvec, *back, *solve, *[instantiate(c) for c in cts],
        counts=(len(vecmat), len(matvec), len(back), len(solve)), aux=0, **swapped)
    return [None] * sum(counts) + found[:len(b)]


def _batch(size: int, args: Sequence[Any], dims: Sequence[int | None], *,
           counts: tuple[int, ...], aux: int, **programs: Any) -> Any:
    """Every Program takes a batch of vectors; captured values stay as they are mapped."""
    groups, b = _parts(list(zip(args, dims)), counts)
    fronted: list[Any] = []
    batched, held = {}, []
    for name, group in zip(PARTS, groups):
        p = programs[name]
        fronted += [v if d is None else to_front(v, d, size) for v, d in group]
        if p is not None:
            axes = [None if d is None else 0 for _, d in group]
            axes += [0] * (len(p.inputs) - len(group))
            p, more = closed(batch_program(p, size, axes, True)[0])
            fronted[len(fronted) - len(group):len(fronted) - len(group)] = more
            group = [*more, *group]
        batched[name] = p
        held.append(len(group))
    outs = linear_solve_p.bind(*fronted, *[to_front(v, d, size) for v, d in b],
                               counts=tuple(held), aux=aux, **batched)
    return outs, [0] * len(outs)


linear_solve_p.abstract, linear_solve_p.jvp = _abstract, _jvp
linear_solve_p.transpose, linear_solve_p.batch = _transpose, _batch
