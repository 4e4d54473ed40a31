"""Small Programs that become one kernel: as they are, on the words of keys, or but for what takes
complex numbers apart before it and puts them together behind it.

IREE would make a dispatch, compiled by itself, of each draw, extremum and complex product.
Start reading at `as_whole`.
"""
from __future__ import annotations

from calque.core import dtypes
from calque.core.avals import ShapedArray
from calque.core.primitive import registry
from calque.core.program import (
    Atom,
    Equation,
    Program,
    Var,
    eliminate_dead_code,
)
from calque.core.words import forms, has_transforms
from calque.lowering.passes import cost, loops
from calque.lowering.passes.empty import without_empty
from calque.lowering.passes.groups import grouped
from calque.lowering.passes.legalize import has_complex, has_masked, needs_words
from calque.lowering.passes.remainder import WHOLE, may_close
from calque.lowering.passes.staged import with_stages
from calque.lowering.passes.vectors import with_vectors_summed
from calque.lowering.plan.switches import off
from calque.lowering.target.targets import Target


def as_whole(p: Program, free: bool) -> Program | None:
    """p, or p on words, where that is one kernel; None where neither is.  free: p's consts are
    arguments of the module (on words they are inputs)."""
    if is_one(p):
        return p
    return in_words(p) if free and not off("words") and needs_words(p) and _may_be_one(p) else None


def is_one(p: Program) -> bool:
    """Whether a Program becomes one kernel: it is small, or has many parts of which groups take
    few."""
    return cost.whole_refusal(p) is None or cost.whole_refusal(p, many=True) is None and (
        0 < loops.passes(p) <= 2 * loops.passes(grouped(p), loose=True))


def _may_be_one(p: Program) -> bool:
    """Whether writing it otherwise is worth a try."""
    return cost.work(p) <= cost.MOST_WORK and not (
        cost.is_long(p) or _stays_apart(p) or any(e.is_dynamic for e in p.equations))


def _stays_apart(p: Program) -> bool:
    """Whether it sorts outside of loops, where the kernel in C does it faster, or keeps a product
    from the sum that it is fused with in a kernel (same_bits)."""
    return any(e.name in ("sort", "top_k", "optimization_barrier") or e.primitive.kernel != "loop"
               and any(map(_stays_apart, e.inner)) for e in p.equations)


def in_words(p: Program) -> Program | None:
    """p on words, its consts being inputs; None where that is not one kernel."""
    for masked in (False, True) if has_masked(p) else (False,):
        words = forms.program(_free(p), masked)
        if words is None or words.const_vars:
            return None
        made = without_empty(words)
        if is_one(made):
            return made
    return None


def in_pairs(p: Program) -> Program | None:
    """A Program of complex numbers with one call of a kernel on their parts, its consts being
    inputs; None where that is not one kernel."""
    if off("pairs") or not any(map(has_complex, p.equations)) or not _may_be_one(p):
        return None
    p = _free(p)
    inner = None if has_transforms(p) else forms.pairs(p)
    if inner is not None and needs_words(inner):
        inner = forms.program(inner, False)
    if inner is None or inner.const_vars:
        return None
    inner = without_empty(inner)
    # (what reads nothing IREE computes when it compiles, and takes one part for both)
    return _around(p, inner) if is_one(inner) and not inner.used().isdisjoint(
        inner.inputs) else None


def over_pairs(p: Program, target: Target) -> Program | None:
    """A Program with complex numbers, its consts being inputs, with parts in their place: what
    kernels are made of (passes/remainder); None where something in it has no such form."""
    real = [e for e in p.equations if not has_complex(e)]
    if off("pairs") or len(real) == len(p.equations) or any(e.is_dynamic for e in p.equations) or (
            not may_close(p.replace(equations=real), target)):
        return None
    made = forms.over_pairs(_free(p))
    if made is None or made.const_vars:
        return None
    return with_stages(with_vectors_summed(eliminate_dead_code(without_empty(made))))


def in_memory_of_pairs(p: Program, target: Target) -> Program | None:
    """The same as in_pairs where the kernel itself reads and writes the memory of complex arrays;
    None where that is not one kernel."""
    q = over_pairs(p, target)
    if q is None or any(e.name == "fft" for e in q.equations):
        return None
    views = [e for e in q.equations if e.name == "as_pairs"]
    before = [e for e in views if e.inputs[0] in q.inputs]
    after = [e for e in views if e not in before]
    read: dict[Atom, Var] = {e.inputs[0]: e.outputs[0] for e in before}
    written: dict[Atom, Atom] = {e.outputs[0]: e.inputs[0] for e in after}
    inputs = [read.get(v, v) for v in q.inputs if v.aval.dtype.kind != "c" or v in read]
    made = {v for e in q.equations if e not in before for v in e.outputs}
    outputs = list(dict.fromkeys(
        v for v in (written.get(o, o) for o in q.outputs) if v in made and isinstance(v, Var)))
    inner = Program(inputs, [e for e in q.equations if e not in views], outputs, name="whole")
    if not outputs or not is_one(inner) or inner.used().isdisjoint(inputs):
        return None
    first = q.equations[0]
    call = Equation(registry["jit"], tuple(inputs), tuple(outputs), {
        "jaxpr": inner, "name": "whole", "rows": WHOLE}, first.source, first.scope)
    return q.replace(equations=[*before, call, *after])


def _free(p: Program) -> Program:
    """p with its consts as inputs."""
    return Program([*p.const_vars, *p.inputs], p.equations, p.outputs, name=p.name)


def _around(p: Program, inner: Program) -> Program:
    """p by a call of what computes it on parts."""
    source, scope = p.equations[0].source, p.equations[0].scope
    before, parts, after = list[Equation](), list[Var](), list[Equation]()
    for v in p.inputs:
        if v.aval.dtype.kind != "c":
            parts.append(v)
            continue
        for name in ("real", "imag"):
            part = Var(ShapedArray(v.aval.shape, dtypes.real_dtype(v.aval.dtype)))
            parts.append(part)
            before.append(Equation(registry[name], (v,), (part,), {}, source, scope))
    made = [Var(a) for a in inner.out_avals]
    rest, outputs = iter(made), list[Atom]()
    for o in p.outputs:
        result = next(rest)
        if o.aval.dtype.kind == "c":
            both, result = (result, next(rest)), Var(o.aval)
            after.append(Equation(registry["complex"], both, (result,), {}, source, scope))
        outputs.append(result)
    call = Equation(registry["jit"], tuple(parts), tuple(made), {
        "jaxpr": inner, "name": "whole", "rows": WHOLE}, source, scope)
    return Program(p.inputs, [*before, call, *after], outputs, name=p.name)
