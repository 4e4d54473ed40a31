"""Equations that become one kernel of ours: those around folds (passes/rows), then rows of few
numbers (passes/points), elementwise work of uneven sizes (passes/uneven) and long stretches
(passes/chains) of what is left."""
from __future__ import annotations

from calque.core.program import Equation, Program, Var, eliminate_dead_code
from calque.lowering.passes import cost, loops
from calque.lowering.passes.attention import attention
from calque.lowering.passes.chains import chains
from calque.lowering.passes.components import split_components
from calque.lowering.passes.edges import edges
from calque.lowering.passes.flat import flat
from calque.lowering.passes.lists import lists
from calque.lowering.passes.points import points
from calque.lowering.passes.remainder import close, prepared
from calque.lowering.passes.rows import Finder, is_fold
from calque.lowering.passes.same import merged
from calque.lowering.passes.turned import with_transpositions_alone
from calque.lowering.passes.uneven import uneven
from calque.lowering.plan.switches import off

_APART = frozenset(("scan", "while", "cond", "checkpoint"))  # a second computation stays one


def grouped(p: Program, closing: bool = False) -> Program:
    """p with each group as a call that says so (params "rows"), in loops that are no kernels and in
    branches, too; p itself where there is none.  `closing`: of what is left, too
    (passes/remainder)."""
    return p.derived(("rows", loops.enabled, closing), lambda: _grouped(p, closing))


def _grouped(p: Program, closing: bool) -> Program:
    if not loops.enabled:
        return p
    whole = merged(eliminate_dead_code(flat(p)))
    inner = [_with_groups(e, closing) for e in whole.equations]
    same = all(a is b for a, b in zip(inner, whole.equations))
    live = whole if same else whole.replace(equations=inner)
    if not off("moves"):
        live = with_transpositions_alone(live, closing)
    if not off("components"):
        live = split_components(live)
    if closing:
        live = prepared(live)
    results = {o for o in live.outputs if isinstance(o, Var)}
    finder, found = Finder(live.equations, results), live is not whole
    finder.closing = closing
    if not off("points"):
        before = len(finder.equations)
        points(finder, folds=True)
        found |= len(finder.equations) > before
    for i, e in enumerate(live.equations):
        if is_fold(e.primitive) and i in finder.live and not off("rows"):
            group = finder.grow(i)
            found |= group is not None and finder.join(group)
    if not off("attention"):
        found |= attention(finder, results)
    if not off("lists"):
        before = len(finder.equations)
        lists(finder)
        found |= len(finder.equations) > before
    if not off("moves"):
        before = len(finder.equations)
        edges(finder)
        found |= len(finder.equations) > before
    if not off("points"):
        before = len(finder.equations)
        points(finder)
        found |= len(finder.equations) > before
    for group in () if off("uneven") else uneven(finder):
        found |= finder.join(group)
    for group in () if off("chains") else chains(finder):
        found |= finder.join(group)
    if closing:
        close(finder, live)
        if not off("points"):  # (of what is in memory now)
            points(finder)
        return eliminate_dead_code(live.replace(equations=finder.ordered()))
    return live.replace(equations=finder.ordered()) if found else p


def _with_groups(e: Equation, closing: bool) -> Equation:
    if e.name not in _APART or cost.is_kernel(e):
        return e
    made = e.with_inner(lambda p: grouped(p, closing))
    if closing and e.name == "scan" and cost.is_unrolled(e.params):  # it stays written out
        made = made.replace(params={**made.params, "unroll": e.params["length"]})
    return made
