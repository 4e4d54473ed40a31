"""Which loops can be kernels of ours: what their bodies may consist of.

`refusal` says why an equation has no form over memory (kernels/tensors); `lanes` whether each
element of an array runs its own loop in registers (kernels/registers).
"""
from __future__ import annotations

import math
from collections.abc import Iterator

import ml_dtypes
import numpy as np

from calque.core.config import is_off
from calque.core.program import Atom, Equation, Program
from calque.core.types import Shape
from calque.core.words import forms
from calque.lowering.emit.dtypes import BOOL
from calque.lowering.passes.empty import without_empty
from calque.lowering.plan.refusal import Refusal

BITS = "bitcast_convert_type"
DECOMPOSED = 32  # rows and columns of a matrix that a loop decomposes by itself
REFLECTED = 8192  # or, of one of many rows, elements times reflectors: C is better at more
enabled = not is_off("kernels")  # tests switch them off, too, to see the portable form
DTYPES = frozenset(np.dtype(t) for t in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8",
                                         "f2", ml_dtypes.bfloat16, "f4", "f8"))


def maps(p: Program) -> Iterator[Equation]:
    """The elementwise equations of a Program, at any depth."""
    for e in p.equations:
        if e.primitive.kernel == "map":
            yield e
        for q in e.inner:
            yield from maps(q)


def products(p: Program) -> Iterator[Equation]:
    """The products of a Program that are not in its loops, where a call would count."""
    for e in p.equations:
        if e.name == "dot_general":
            yield e
        elif e.primitive.kernel != "loop":
            for q in e.inner:
                yield from products(q)


def is_plain(e: Equation) -> bool:
    """Whether arrays of an equation are of dtypes that kernels have, and not empty."""
    for a in (*e.inputs, *e.outputs):  # noqa: SIM110 (asked of each equation by many)
        if not a.aval.size or a.aval.dtype not in DTYPES:
            return False
    return True


def have_kernel_forms(p: Program) -> bool:
    """Whether every equation has a form over memory."""
    return all(map(has_kernel_form, p.equations))


def refusal_within(p: Program) -> Refusal | None:
    """Why some equation has none."""
    return next((r for r in map(refusal, p.equations) if r is not None), None)


def has_kernel_form(e: Equation) -> bool:
    """Whether an equation has a form over memory."""
    if "form" not in e.facts:
        e.facts["form"] = refusal(e) is None
    has: bool = e.facts["form"]
    return has


def refusal(e: Equation) -> Refusal | None:
    """Why an equation has no form over memory."""
    name = e.name
    if not is_plain(e):
        return Refusal(e, "dtype" if all(a.aval.size for a in (*e.inputs, *e.outputs))
                       else "empty")
    if not e.primitive.kernel:
        if e.primitive.program is None:
            return Refusal(e, "no form")
        return refusal_within(decomposition(e)) if is_small_decomposition(e) else Refusal(
            e, "matrix", max(max(a.aval.shape, default=1) for a in e.inputs), DECOMPOSED)
    if e.primitive.kernel == "expanded":
        return Refusal(e, "no form")
    if e.primitive.kernel == "map" and not is_map(e):
        return Refusal(e, "width")
    if name == "while" and e.params["cond_jaxpr"].out_avals[0].ndim:
        return Refusal(e, "predicate of rows")
    if name == "dot_general":
        dtypes = {a.aval.dtype for a in (*e.inputs, *e.outputs)}
        if len(dtypes) > 1:
            return Refusal(e, "mixed product")
        return Refusal(e, "bool product") if BOOL in dtypes else None
    return next((r for r in map(refusal_within, e.inner) if r is not None), None)


def is_map(e: Equation) -> bool:
    """Whether it computes element by element: bits of another width are seen as more or fewer."""
    return e.primitive.kernel == "map" and (
        e.name != BITS or e.inputs[0].aval.shape == e.outputs[0].aval.shape)


def is_small_decomposition(e: Equation) -> bool:
    """Whether an equation decomposes a matrix that is small enough to do it among others; attention
    to a cache is written out whatever its size."""
    if e.primitive.program is None:
        return False
    if e.name == "prefix_attention":
        return True
    return all(max(a.aval.shape, default=1) <= DECOMPOSED for a in e.inputs) or (
        e.name in ("qr", "geqrf", "householder_product", "svd") and _reflected(e) <= REFLECTED)


def _reflected(e: Equation) -> int:
    """Elements that the reflectors of a matrix of many rows and few columns are applied to."""
    lead, *rest = [a.aval.shape for a in e.inputs]
    count = rest[0][-1] if rest else min(lead[-2:])
    return count * max(a.aval.size for a in (*e.inputs, *e.outputs))


def decomposes(p: Program) -> bool:
    """Whether a Program decomposes a small matrix, at any depth."""
    return any(True for _ in decompositions(p))


def decompositions(p: Program) -> Iterator[Equation]:
    """The equations that do."""
    for e in p.equations:
        if is_small_decomposition(e):
            yield e
        for q in e.inner:
            yield from decompositions(q)


def decomposition(e: Equation) -> Program:
    """The Program of such an equation."""
    assert e.primitive.program is not None
    p: Program = e.primitive.program(*[a.aval for a in e.inputs], **e.params)
    return p.derived("in a kernel", lambda: without_empty(_in_words(p)))


def _in_words(p: Program) -> Program:
    """What eigenvalues are sorted by, in operations that kernels have, where it has such."""
    if not any(e.primitive.kernel == "expanded" for e in p.equations):
        return p
    return forms.program(p, False) or p


def passes(p: Program, loose: bool = False) -> int:
    """How many equations begin a loop nest of their own, at least; `loose`: of those that no group
    has taken (passes/groups)."""
    return sum((0 if loose and "rows" in e.params else
                sum(passes(q, loose) for q in e.inner)) if e.name == "jit" else
               e.primitive.kernel in ("fold", "loop", "nest") for e in p.equations)


def folds(p: Program) -> bool:
    """Whether a sum, an extremum or the like is in it."""
    return any(e.primitive.kernel == "fold" or e.name == "jit" and any(
        map(folds, e.inner)) for e in p.equations)


def lanes(e: Equation, counts: bool = False) -> tuple[int, ...] | None:
    """The shape over which a loop falls into one loop per element; None if it does not.  `counts`:
    or would, if positions (iota) were computed before it."""
    if e.primitive.kernel != "loop" or not is_plain(e):
        return None
    shapes = {_per_step(a.aval.shape, part) for a, part in parts(e)} - {()}
    if len(shapes) != 1:
        return None
    (shape,) = shapes
    return shape if all(_in_lanes(q, shape, counts) for q in e.inner) else None


def parts(e: Equation) -> Iterator[tuple[Atom, bool]]:
    """(operand or result, whether its leading axis counts the steps)."""
    if e.name == "while":
        yield from ((a, False) for a in (*e.inputs, *e.outputs))
        return
    k = e.params["num_consts"] + e.params["num_carry"]
    yield from ((a, i >= k) for i, a in enumerate(e.inputs))
    yield from ((a, i >= e.params["num_carry"]) for i, a in enumerate(e.outputs))


def _per_step(shape: Shape, stacked: bool) -> tuple[int, ...]:
    return shape[1:] if stacked else shape


def _in_lanes(p: Program, shape: Shape, counts: bool) -> bool:
    for e in p.equations:
        name = e.name
        if not is_plain(e):
            return False
        if e.primitive.kernel == "loop":
            around = list(parts(e))
            if any(stacked or a.aval.shape not in ((), shape) for a, stacked in around) or not all(
                    _in_lanes(q, shape, counts) for q in e.inner):
                return False
        elif name == "jit":
            if not all(_in_lanes(q, shape, counts) for q in e.inner):
                return False
        elif name == "broadcast_in_dim":
            if e.inputs[0].aval.shape not in ((), shape):
                return False
        elif name == "iota":
            if not counts or e.outputs[0].aval.shape != shape:
                return False
        elif not is_map(e):
            return False
        if e.primitive.kernel != "loop" and any(a.aval.shape not in ((), shape)
                                     for a in (*e.inputs, *e.outputs)):
            return False
    return all(o.aval.shape in ((), shape) for o in (*p.inputs, *p.outputs))


def elements(shape: Shape) -> int:
    return math.prod(shape)
