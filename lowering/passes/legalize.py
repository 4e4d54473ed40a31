"""Loops in operations that kernels have: keys become their words; draws, positions of extrema,
running sums and sorts what primitives/expansions writes them in; complex numbers two real ones
each (primitives/pairs); marks what they stand at.  Outside of loops, convolutions of one feature
with a small window are sums of what its places see.

A loop is rewritten only where it is a kernel then (cost.is_kernel), and its keys are words within
it alone: around it stand the conversions, which are nothing in memory.  What cannot be one is as it
was, but for the loops in it.  Start reading at `legalize`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence

from calque.core import dtypes
from calque.core.primitive import registry
from calque.core.program import Atom, Equation, Program, Var, eliminate_dead_code
from calque.core.words import forms, has_transforms
from calque.lowering.passes import cost, loops
from calque.lowering.passes.blocks import by_blocks
from calque.lowering.passes.choices import with_choices_written
from calque.lowering.passes.empty import without_empty
from calque.lowering.passes.epilogues import with_epilogues
from calque.lowering.passes.padded import with_paddings_joined
from calque.lowering.passes.phases import with_phases_apart
from calque.lowering.passes.planes import in_planes
from calque.lowering.passes.reads import with_reads_first
from calque.lowering.passes.same import merged_within
from calque.lowering.passes.selected import with_windows_selected
from calque.lowering.passes.shared import with_shared_solves
from calque.lowering.passes.spmm import with_rows_added
from calque.lowering.passes.staged import with_stages
from calque.lowering.passes.undone import with_moves_undone
from calque.lowering.passes.vectors import with_vectors_summed
from calque.lowering.passes.wide import with_wide_rows
from calque.lowering.passes.written import with_parts_written
from calque.lowering.plan.switches import off

LEAST_TURNED = 1 << 12  # numbers of an operand that is converted before it is turned round
FEW_TAPS = 25  # of a window outside of loops: each of more is worth less than compiling it


def legalize(p: Program, transforms: bool = False, sparse: bool = False,
             products: bool = False) -> Program:
    """p with such loops, at any depth, and such convolutions; `transforms`: whether kernels of the
    target can call the C kernels of FFTs; `sparse`: whether the C kernel of sparse products is
    there; `products`: whether that of products, and convolutions, is."""
    def write() -> Program:
        plain = by_blocks(with_shared_solves(with_parts_written(with_choices_written(
            with_paddings_joined(with_phases_apart(_as_they_lie(with_moves_undone(
                merged_within(live(p))))))))))
        summed = with_vectors_summed(_in_slices(with_loops(plain, transforms)))
        made = with_stages(with_wide_rows(with_windows_selected(_turned_last(summed))))
        made = with_reads_first(with_rows_added(made) if sparse else made)
        return with_epilogues(made) if products else made

    return p.derived(("legalize", loops.enabled, transforms, sparse, products), write)


def live(p: Program) -> Program:
    """p without what nobody needs within it: in the bodies of its loops, at any depth."""
    def of_body(p: Program) -> Program:
        least = eliminate_dead_code(p)
        return live(p if len(least.equations) == len(p.equations) else least)

    def write() -> Program:
        made = [e.with_inner(of_body) for e in p.equations]
        return p if tuple(made) == p.equations else p.replace(equations=made)

    return p.derived("live", write) if any(e.inner for e in p.equations) else p


def _as_they_lie(p: Program) -> Program:
    """p whose attention to a cache reads keys and values that are transposed where they lie: all of
    them were copied, of which it reads some."""
    if "prefix_attention" not in p.names():
        return p
    makers: dict[Atom, Equation] = {v: e for e in p.equations for v in e.outputs}
    equations: list[Equation] = []
    for e in p.equations:
        if e.name == "prefix_attention":
            inputs, orders = list(e.inputs), list(e.params["orders"])
            for i in (1, 2):
                while (maker := makers.get(inputs[i])) and maker.name == "transpose":
                    axes = maker.params["permutation"]
                    inputs[i] = maker.inputs[0]
                    orders[i - 1] = tuple(axes[k] for k in orders[i - 1])
            e = e.replace(inputs=tuple(inputs), params={**e.params, "orders": tuple(orders)})
        equations.append(e)
    return p if tuple(equations) == p.equations else eliminate_dead_code(
        p.replace(equations=equations))


def _turned_last(p: Program) -> Program:
    """p whose products take the transposition of what is converted for what is converted of a
    transposition: kernels read a transposition where it lies, and conversions run along memory (one
    row of float64 times the transpose of 32,000 x 768 of float32 took 25 times as long)."""
    if not p.names() >= {"dot_general", "convert_element_type", "transpose"}:
        return p
    makers: dict[Atom, Equation] = {v: e for e in p.equations for v in e.outputs}
    known, equations = dict[Atom, Atom](), list[Equation]()
    for e in p.equations:
        if e.name == "dot_general" and not e.is_dynamic:
            for a in dict.fromkeys(e.inputs):
                chain, maker = list[Equation](), makers.get(a)
                while maker is not None and maker.name == "convert_element_type":
                    chain.append(maker)
                    maker = makers.get(maker.inputs[0])
                if not chain or maker is None or maker.name != "transpose" or a in known or (
                        a.aval.size < LEAST_TURNED):
                    continue
                made = maker.inputs[0]
                for c in reversed(chain):
                    v = Var(c.outputs[0].aval.update(shape=made.aval.shape))
                    equations.append(c.replace(inputs=(made,), outputs=(v,)))
                    made = v
                known[a] = Var(a.aval)
                equations.append(maker.replace(inputs=(made,), outputs=(known[a],)))
            e = e.reading(known)
        equations.append(e)
    return p if not known else eliminate_dead_code(p.replace(equations=equations))


def _in_slices(p: Program) -> Program:
    if "conv_general_dilated" not in p.names():
        return p
    equations: list[Equation] = []
    for e in p.equations:
        made = in_forms(e) if e.name == "conv_general_dilated" and _has_one_feature(e) else None
        equations += [e] if made is None else made
    return p if len(equations) == len(p.equations) else p.replace(equations=equations)


def in_forms(e: Equation) -> list[Equation] | None:
    """What primitives/expansions writes an equation in; None where it does not."""
    inputs = [a for a in dict.fromkeys(e.inputs) if isinstance(a, Var)]
    made = forms.program(Program(inputs, [e], e.outputs), False)
    if made is None:
        return None
    names = dict[Atom, Atom](zip(made.inputs, inputs)) | dict(zip(made.outputs, e.outputs))
    return [q.replace(inputs=tuple(names.get(a, a) for a in q.inputs), outputs=tuple(
        names.get(v, v) for v in q.outputs), source=e.source, scope=e.scope)
        for q in made.equations]


def _has_one_feature(e: Equation) -> bool:
    """Whether a convolution's weights are one number for each place of a small window, of a feature
    (of each, where places lie side by side): a sum of shifted slices takes 0.1 to 0.9 of the time
    of products (256 x 256 by 3 x 3 0.23 to 0.06 ms, 1024 x 1024 2.9 to 0.5)."""
    p, weights = e.params, e.inputs[1].aval
    d, groups = p["dimension_numbers"], p["feature_group_count"]
    outputs, inputs, *taps = (weights.shape[i] for i in d.rhs_spec)
    return (not e.is_dynamic and outputs == groups and inputs == 1
            and math.prod(taps) <= FEW_TAPS and set(p["lhs_dilation"]) == {1}
            and (groups == 1 or weights.ndim - 1 not in (d.lhs_spec[1], d.out_spec[1])))


def with_loops(p: Program, transforms: bool = False) -> Program:
    return p.derived(("with loops", loops.enabled, transforms),
                     lambda: _with_legal_loops(p, transforms))


def _with_legal_loops(p: Program, transforms: bool) -> Program:
    equations: list[Equation] = []
    for e in p.equations:
        e = e.with_inner(lambda q: with_loops(q, transforms))
        if cost.is_better_looped(e):
            e = e.replace(params={**e.params, "unroll": 0})
        written = None
        if e.primitive.words is not None and not e.is_dynamic and not cost.is_kernel(e) and (
                transforms or not any(map(has_transforms, e.inner))):
            if has_complex(e):
                written = in_pairs(e)
            elif is_masked(e) or any(map(needs_words, e.inner)):
                written = in_words(e)
        for q in [e] if written is None else written:
            equations += (None if off("planes") else in_planes(q)) or [q]
    return p if tuple(equations) == p.equations else p.replace(equations=equations)


def needs_words(p: Program) -> bool:
    """Whether some equation, at any depth, is written otherwise in words."""
    return p.derived("needs words", lambda: any(
        e.primitive.kernel == "expanded" or is_masked(e) or any(map(needs_words, e.inner))
        for e in p.equations) or any(map(dtypes.is_key, p.dtypes())))


def is_masked(e: Equation) -> bool:
    """Whether a loop has a predicate for each element."""
    return e.name == "while" and e.params["cond_jaxpr"].out_avals[0].ndim > 0


def has_masked(p: Program) -> bool:
    """Whether a loop in it, at any depth, has one."""
    return p.derived("has masked", lambda: any(
        is_masked(e) or any(map(has_masked, e.inner)) for e in p.equations))


def has_complex(e: Equation) -> bool:
    """Whether an equation has complex numbers, at any depth."""
    return any(a.aval.dtype.kind == "c" for a in (*e.inputs, *e.outputs)) or any(
        d.kind == "c" for q in e.inner for d in q.dtypes())


def in_pairs(e: Equation) -> list[Equation] | None:
    """A loop that is a kernel on the parts of complex numbers, with what takes them apart before it
    and puts them together after it; None where none becomes of it."""
    assert e.primitive.pairs is not None  # (of loops, as the rule `words`)
    made: Program | None = e.primitive.pairs(e)
    made = made and without_empty(made)
    if made is None or len(made.equations) != 1 or made.const_vars:
        return None
    (loop,) = made.equations
    if loop.name == "scan":  # (written out, its steps would be dispatches)
        loop = loop.replace(params={**loop.params, "unroll": 0})
    whole = [loop] if cost.is_kernel(loop) else in_words(loop) if loop.primitive.words else None
    if whole is None:
        return None
    before, after = list[Equation](), list[Equation]()
    given, rest = dict[Atom, Atom](), iter(made.inputs)
    for a in e.inputs:
        for part in ("real", "imag") if a.aval.dtype.kind == "c" else ("",):
            v = next(rest)
            given[v] = a
            if part:
                given[v] = mine = Var(v.aval)
                before.append(Equation(registry[part], (a,), (mine,), {}, e.source, e.scope))
    outputs = iter(loop.outputs)
    renamed = dict[Atom, Var]()
    for o in e.outputs:
        if o.aval.dtype.kind == "c":
            both = next(outputs), next(outputs)
            after.append(Equation(registry["complex"], both, (o,), {}, e.source, e.scope))
        else:
            renamed[next(outputs)] = o
    return [*before, *[q.replace(
        inputs=tuple(given.get(a, a) for a in q.inputs),
        outputs=tuple(renamed.get(v, v) for v in q.outputs)) for q in whole], *after]


def in_words(e: Equation) -> list[Equation] | None:
    """A loop that is a kernel, or one of rows that writes into large arrays (primitives/guarded),
    with what converts its keys before and after it; None where none becomes of it."""
    assert e.primitive.words is not None
    for masked in (False, True) if is_masked(e) or any(map(has_masked, e.inner)) else (
            False,):
        made: Program | None = e.primitive.words(e, masked)
        made = made and without_empty(made)  # (sums over one step have nothing left to add)
        if made is None or len(made.equations) != 1 or made.const_vars:
            return None
        loop = made.equations[0].with_inner(merged_within)
        if loop.name == "scan":  # (written out, its steps would be dispatches)
            loop = loop.replace(params={**loop.params, "unroll": 0})
        if cost.is_kernel(loop) or masked and _writes_rows(e):
            return _between_keys(e, loop, made.inputs)
    return None


def _writes_rows(e: Equation) -> bool:
    return is_masked(e) and not any(map(needs_words, e.inner)) and forms.writes_rows(
        e.params["body_jaxpr"], e.params["cond_jaxpr"].out_avals[0].ndim)


def _between_keys(e: Equation, loop: Equation, inputs: Sequence[Var]) -> list[Equation]:
    """The loop on words that e is, with what converts keys before and after it."""
    before, after, outs = [], [], []
    given = dict(zip(inputs, e.inputs))
    for v, a in zip(inputs, e.inputs):
        if dtypes.is_key(a.aval.dtype):
            word = Var(v.aval)
            before.append(Equation(registry["random_unwrap"], (a,), (word,), {}, e.source, e.scope))
            given[v] = word
    for v, o in zip(e.outputs, loop.outputs):
        outs.append(v if v.aval.dtype == o.aval.dtype else Var(o.aval))
        if outs[-1] is not v:
            after.append(Equation(registry["random_wrap"], (outs[-1],), (v,), {
                "impl": v.aval.dtype.tag}, e.source, e.scope))
    return [*before, loop.replace(
        inputs=tuple(given[a] if isinstance(a, Var) else a for a in loop.inputs),
        outputs=tuple(outs), source=e.source, scope=e.scope), *after]
