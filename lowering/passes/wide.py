"""Reductions over what lies side by side in memory as few numbers, over wider rows.

The largest of an array of 200,000 x 10 numbers is that of 2,000,000 in a row; of its columns, that
of 6,250 rows of 320, and then of 32 rows of 10: vectors are full, and kernels share the work
(0.29 to 0.1 ms, `all` along the first axis 1.9 to 0.1).  What is computed of such an array element
by element, and for the reduction alone, is taken in the other shape, too.  Start reading at
`with_wide_rows`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence

from calque.core.program import Atom, Equation, Program, Var
from calque.lowering.emit.dtypes import is_narrow
from calque.lowering.passes import cost, loops
from calque.lowering.passes.replacement import Replacement
from calque.lowering.plan.switches import off

LEAST = 1 << 15  # elements
SHORT = 64  # numbers side by side that are no row
WIDE, MOST = 256, 1 << 12  # elements of a row that is one
DEEPEST = 8  # equations one behind the other that are taken in another shape
_ROUNDED = frozenset(("reduce_sum", "reduce_prod"))
_FOLDS = _ROUNDED | {"reduce_max", "reduce_min", "reduce_and", "reduce_or"}


def with_wide_rows(p: Program) -> Program:
    """p with such reductions written so, outside of loops."""
    if off("rows") or p.names().isdisjoint(_FOLDS):
        return p
    makers = {v: e for e in p.equations for v in e.outputs}
    users: dict[Atom, int] = {}
    for a in (*[a for e in p.equations for a in e.inputs], *p.outputs):
        users[a] = users.get(a, 0) + 1
    equations = list[Equation]()
    for e in p.equations:
        rows = _rows(e)
        if rows and _lies(e.inputs[0], makers, users, DEEPEST):
            equations += _written(e, rows, makers)
        else:
            equations.append(e if cost.is_kernel(e) else e.with_inner(with_wide_rows))
    same = len(equations) == len(p.equations) and all(
        a is b for a, b in zip(equations, p.equations))
    return p if same else p.replace(equations=equations)


def _rows(e: Equation) -> tuple[int, ...]:
    """The shape in which the operand of a reduction is read first, of one or two axes; none where
    it stays."""
    if e.name not in _FOLDS or e.is_dynamic:
        return ()
    x, axes = e.inputs[0].aval, sorted(e.params["axes"])
    if x.size < LEAST or x.dtype.kind not in "fiub" or (
            is_narrow(x.dtype) and e.name in _ROUNDED and len(axes) < x.ndim):
        return ()  # (what is rounded between stages is rounded twice)
    if len(axes) == x.ndim:
        return (x.size,) if x.ndim > 1 and x.shape[-1] < WIDE else ()
    inner = math.prod(x.shape[len(axes):])
    if axes != list(range(len(axes))) or not 1 < inner < SHORT:
        return ()
    count = x.size // inner
    fits = [k for k in range(-(-WIDE // inner), MOST // inner + 1) if count % k == 0 and k < count]
    best = next((k for k in fits if k * inner % 16 == 0), fits[0] if fits else 0)
    return (count // best, best * inner) if best else ()


def _lies(a: Atom, makers: dict[Var, Equation], users: dict[Atom, int], depth: int) -> bool:
    """Whether an array is in memory, or computed of such of its shape and numbers, for this alone:
    what repeats rows, or views others, would be written for it."""
    e = makers.get(a) if isinstance(a, Var) else None
    if e is None or e.primitive.kernel not in ("map", "view") and e.name not in (
            "broadcast_in_dim", "iota"):
        return True
    if e.name == "broadcast_in_dim":
        return not e.inputs[0].aval.shape
    return depth > 0 and users[a] == 1 and loops.is_map(e) and not e.is_dynamic and all(
        not b.aval.shape or b.aval.shape == a.aval.shape and _lies(b, makers, users, depth - 1)
        for b in e.inputs)


def _written(e: Equation, rows: Sequence[int], makers: dict[Var, Equation]) -> list[Equation]:
    made, out = Replacement(e), e.outputs[0].aval
    where = {"out_sharding": None} if "out_sharding" in e.params else {}
    x = _shaped(made, e.inputs[0], rows, makers)
    if len(rows) == 1:
        made.emit(e.name, [x], (), out.dtype, axes=(0,), **where)
    else:
        wide = made.emit(e.name, [x], rows[1:], out.dtype, axes=(0,), **where)
        inner = out.size
        few = made.emit(e.name, [made.reshaped(wide, (rows[1] // inner, inner))], (inner,),
                        out.dtype, axes=(0,), **where)
        if out.shape != (inner,):
            made.reshaped(few, out.shape)
    return [*made.made[:-1], made.made[-1].replace(outputs=e.outputs)]


def _shaped(made: Replacement, a: Atom, shape: Sequence[int], makers: dict[Var, Equation]
            ) -> Atom:
    """An array in another shape, with what makes it element by element."""
    e = makers.get(a) if isinstance(a, Var) else None
    if e is not None and e.name == "broadcast_in_dim":
        return made.spread(e.inputs[0], shape, ())
    if e is None or e.primitive.kernel != "map":
        return made.reshaped(a, shape)
    inputs = [_shaped(made, b, shape, makers) if b.aval.shape else b for b in e.inputs]
    return made.emit(e.name, inputs, shape, a.aval.dtype, **e.params)


__all__ = ["with_wide_rows"]
