"""What IREE would make dispatches of, as kernels of ours, where that leaves it nothing.

Of a program that is kernels of ours alone IREE's first eight stages, half of its compile time, have
nothing to do (compiler/stream_module.py).  So what `passes/groups` leaves, elementwise work,
transpositions, sums, bits of index arithmetic, becomes kernels as well: work over large arrays a
kernel for each index space, small work as many operations as go into one.  It pays where nothing
is left, or a few operations beside many kernels, so lowering looks at what came of it
(driver/module).  Start reading at `close`.
"""
from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from calque.core.lists import other_axes
from calque.core.primitive import registry
from calque.core.program import Atom, Equation, Literal, Program, Var
from calque.core.types import Dtype
from calque.core.words import forms
from calque.lowering.passes import cost, loops, picks, rows, strided
from calque.lowering.passes.assembled import assemble
from calque.lowering.passes.flat import flat
from calque.lowering.passes.orders import is_of_keys, with_orders
from calque.lowering.passes.replacement import Replacement
from calque.lowering.passes.scalars import JOINS, is_of_rows
from calque.lowering.plan.switches import off
from calque.lowering.target.targets import Target

SMALL = 4096  # element operations that one workgroup does while another dispatch begins
FEW = 1024  # elements of which functions may be more
WORK = 16_384  # of one kernel of small ones, in a program whose dispatches several cores share
INLINE_WORK = 1 << 19  # and in one that its caller runs
EQUATIONS = 100  # beside views
LARGEST = 1 << 40  # elements of an array: of more the error is IREE's and the runtime's
PADDED = 1 << 15  # elements of an array with others around it that one workgroup writes
JOINED = 1 << 17  # or of joined ones,
MANY_PARTS = 8  # fewer than so many of at least
PART = 4  # elements side by side, or
JOINED_ALONE = 4096  # fewer elements
TURNED = 1 << 13  # elements of a transposition that is read in the order of its result, or
TURNED_WORK = 256  # as many as one for so many element operations of a program
LEFT = frozenset(("slice", "concatenate", "pad", "rev", "gather", "dynamic_slice", "transpose",
                  "broadcast_in_dim", "iota", "dynamic_update_slice", "select_n", loops.BITS,
                  "dot_general", "reshape", "squeeze", "cond"))
_OPENED = frozenset(("sort", "top_k", "random_bits", "random_split", "random_fold_in",
                     "random_seed", "random_wrap", "random_unwrap", "reduce_window_sum",
                     "reduce_window_max", "reduce_window_min", "cumsum", "cumprod", "cummax",
                     "cummin", "conv_general_dilated", "select_and_scatter_add",
                     *JOINS))
_WITH_MORE = frozenset(("sort", "top_k", "fft", "cumsum", "cumprod", "cummax", "cummin",
                        "cumlogsumexp", "select_and_scatter_add"))
SCATTERED = 1 << 17  # element operations of a scatter beside others: of more the kernel moves rows
_IN_C = frozenset((
    "conv_general_dilated", "cholesky", "triangular_solve", "lu", "lu_pivots_to_permutation",
    "geqrf", "geqp3", "householder_product", "qr", "eigh", "svd", "tridiagonal", "hessenberg",
    "quantized_dot", "dequantize", "prefix_attention"))
_FOLDED = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative,
           "div": np.divide, "sqrt": np.sqrt,
           "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
           "eq": np.equal, "ne": np.not_equal}
_EXACT = frozenset(map(np.dtype, ("float32", "float64", "bool")))
PRODUCT = 1 << 13  # multiply-adds of a product that is small work


def may_close(p: Program, target: Target) -> bool:
    """Whether a program consists of what has kernels, and of none that needs more around it than
    itself (keys of a sort, addresses of a scatter)."""
    return not off("remainder") and target.backend == "llvm-cpu" and (
        target.arch == "x86_64") and all(map(_may_be_kernel, p.equations))


def _may_be_kernel(e: Equation) -> bool:
    if e.is_dynamic or e.primitive.has_effects(e.params) or any(
            a.aval.size > LARGEST for a in (*e.inputs, *e.outputs)):
        return False
    if e.primitive.kernel == "loop":
        return cost.is_kernel(e) or e.name == "scan" and cost.is_unrolled(e.params) and all(
            map(_may_be_kernel, e.params["jaxpr"].equations))
    if e.name == "jit" and "rows" not in e.params:
        return all(map(_may_be_kernel, e.params["jaxpr"].equations))
    if e.name in JOINS:
        return _is_small(e) or is_of_rows(e.inputs[0].aval, e.inputs[1].aval, e.params)
    if e.name in ("sort", "top_k"):
        return is_of_keys(e)
    if e.name in ("fft", "as_pairs"):
        return True
    if e.name in ("argmax", "argmin"):  # (with what is around it: passes/rows)
        return True
    if e.name == "conv_general_dilated" and max(e.params["lhs_dilation"], default=1) > 1:
        return False  # (what has holes is opened: primitives/conv_phases)
    return "rows" in e.params or e.name in LEFT or e.name in _IN_C or (
        loops.has_kernel_form(e) and e.name not in _WITH_MORE)


def opened(p: Program) -> Program:
    """p with what rules write around their kernels as equations (primitives/outside), its consts
    being inputs; p itself where there is nothing of it, or an equation has no such form."""
    return p.derived("opened", lambda: _opened(p))


def _opened(p: Program) -> Program:
    whole = flat(p)
    if not any(e.name in _OPENED for e in whole.equations) or any(
            e.is_dynamic for e in whole.equations) or any(
            e.primitive.has_effects(e.params) for e in whole.equations):
        return p
    made = forms.outside(whole.consts_as_inputs())
    return p if made is None or made.const_vars else made


class Whole:
    """Marks a call that becomes one kernel over memory (kernels/loop.emit_whole)."""

    def __repr__(self) -> str:
        return "whole"


WHOLE = Whole()


def prepared(p: Program) -> Program:
    """p with what convolutions put around their operand as equations before them, and with numbers
    that follow from constants computed."""
    p = with_orders(p)
    equations: list[Equation] = []
    known: dict[Atom, Literal] = {}
    results = set(p.outputs)
    users: dict[Atom, list[Equation]] = defaultdict(list)
    for e in p.equations:
        for a in e.inputs:
            users[a].append(e)
    for e in p.equations:
        e = e.reading(known)
        value = None if results & set(e.outputs) else _folded(e)
        if value is not None:
            known[e.outputs[0]] = value
        else:
            apart = _APART.get(e.name)
            equations += [e] if apart is None else apart(e, users[e.outputs[0]])
    return p.replace(equations=equations)


def _turned_apart(e: Equation, users: Sequence[Equation]) -> list[Equation]:
    """A transposition that products would have copied, so that rows are copied and products turn
    them round."""
    order = e.params["permutation"]
    last = len(order) - 1
    if order[-1] == last or not users or any(
            u.name != "dot_general" or _takes_turned(u, e) for u in users):
        return [e]
    first = (*[i for i in order if i != last], last)
    x = e.inputs[0].aval
    between = Var(x.update(shape=tuple(x.shape[i] for i in first)))
    return [e.replace(outputs=(between,), params={"permutation": first}),
            e.replace(inputs=(between,), params={
                "permutation": tuple(first.index(i) for i in order)})]


def _folded(e: Equation) -> Literal | None:
    """The number that an equation computes of constants, where each is rounded as NumPy does."""
    if e.name not in _FOLDED or not all(isinstance(a, Literal) for a in e.inputs) or any(
            a.aval.shape or a.aval.dtype not in _EXACT for a in (*e.inputs, *e.outputs)):
        return None
    with np.errstate(all="ignore"):
        value = _FOLDED[e.name](*[np.asarray(a.value) for a in e.inputs if isinstance(a, Literal)])
    return Literal(value, e.outputs[0].aval)


def _spread_apart(e: Equation, users: Sequence[Equation]) -> list[Equation]:
    """A product over one element as what it is: both operands spread, and multiplied."""
    contracted, batch = e.params["dimension_numbers"]
    out, (x, y) = e.outputs[0].aval, e.inputs
    if any(x.aval.shape[i] != 1 for i in contracted[0]) or e.is_dynamic or not (
            x.aval.dtype == y.aval.dtype == out.dtype) or out.dtype.kind not in "fi":
        return [e]
    made, count = Replacement(e), len(batch[0])
    wide, first = [], count
    for a, axes, own in zip(e.inputs, contracted, batch):
        free = other_axes(a.aval.ndim, axes, own)
        turned = made.transposed(a, (*own, *free, *axes))
        small = made.reshaped(turned, turned.aval.shape[:len(own) + len(free)])
        wide.append(made.spread(small, out.shape, (*range(count), *range(
            first, first + len(free)))))
        first += len(free)
    made.emit("mul", wide, out.shape, out.dtype)
    return [*made.made[:-1], made.made[-1].replace(outputs=e.outputs)]


def _padded_apart(e: Equation, users: Sequence[Equation]) -> list[Equation]:
    x, y = e.inputs
    d, pairs = e.params["dimension_numbers"], e.params["padding"]
    if e.is_dynamic or not any(map(any, pairs)) or min(map(min, pairs)) < 0 or (
            set(e.params["lhs_dilation"]) != {1} or x.aval.dtype.kind != "f"):
        return [e]
    config = [(0, 0, 0)] * x.aval.ndim
    for axis, (low, high) in zip(d.lhs_spec[2:], pairs):
        config[axis] = low, high, 0
    around = Var(x.aval.update(shape=tuple(
        n + low + high for n, (low, high, _) in zip(x.aval.shape, config))))
    zero = Literal(x.aval.dtype.type(0), x.aval.update(shape=()))
    return [Equation(registry["pad"], (x, zero), (around,), {"padding_config": tuple(config)},
                     e.source, e.scope),
            e.replace(inputs=(around, y), params={**e.params, "padding": ((0, 0),) * len(pairs)})]


_APART = {"conv_general_dilated": _padded_apart, "transpose": _turned_apart,
          "dot_general": _spread_apart}


def close(finder: rows.Finder, p: Program) -> None:
    """Make kernels of what is left in a program."""
    allowed = cost.work(p) // TURNED_WORK
    read = {a for e in finder.equations for a in e.inputs}
    own = {i for i in finder.live if _is_left(finder, i)}
    finder.widened |= finder.live - own  # they stay what they are
    finder.through = True
    finder.row_forms.clear()  # (parts of arrays have one now)
    small = {i for i in own if _is_small(finder.equations[i])}
    large = sorted(own - small, key=finder.position.__getitem__)
    for moves in (False, True):
        for i in reversed(large) if moves else large:
            group = _around(finder, i) if i in finder.live and moves == _moves(
                finder.equations[i]) else None
            turned = 0 if group is None else _turned(group)
            if group is not None and turned <= allowed:
                allowed -= turned
                finder.join(group, _written(finder, group))
        if not moves:
            for i in sorted(finder.live):
                _see_through(finder, i)
    assemble(finder)
    given = [*p.inputs, *(e.outputs[0] for e in p.equations if e.name == "as_pairs"
                          and e.inputs[0] in p.inputs)]  # (complex numbers as their parts)
    plain = min((v for v in given if v in read and v.aval.dtype in loops.DTYPES and v.aval.size),
                key=lambda v: v.aval.size, default=None)
    for i in sorted(small & finder.live, key=finder.position.__getitem__):
        if is_spread(finder.equations[i]):  # workgroups share it, and nothing else
            small.remove(i)
            _join_whole(finder, [i], plain)
    most = INLINE_WORK if cost.runs_inline(p) else WORK
    for members in _batches(finder, [i for i in small if i in finder.live], most):
        _join_whole(finder, members, plain)


def _see_through(finder: rows.Finder, i: int) -> None:
    """Let a group read through views of arrays what it reads of them."""
    e, equations = finder.equations[i], list[Equation]()
    how = e.params.get("rows")
    if not isinstance(how, rows.Rows):
        return
    sources = dict[Var, None]()
    inner: Program = e.params["jaxpr"]
    for a in inner.inputs:
        chain = _views_of(finder, a)
        if not any(v.name in ("slice", "transpose", "rev") for v in chain) or any(
                v in inner.equations for v in chain) or (  # (it computes one of them itself)
                not _may_read(a, _layout(chain), inner, how)):
            sources[a] = None
            continue
        equations += [v for v in chain if v not in equations]
        sources[chain[0].inputs[0]] = None  # type: ignore[index]
    if not equations:
        return
    made = {v for e in equations for v in e.outputs}  # (one may be read as it is, too)
    count, found = len(equations), [a for a in sources if a not in made]
    more = rows.Rows(how.sizes, how.folded, (((),),) * count + how.reads, ((),) * count + how.made,
                     frozenset(range(count)) | {count + k for k in how.views})
    finder.contract([i], e.replace(inputs=tuple(found), params={
        **e.params, "rows": more, "jaxpr": inner.replace(
            inputs=found, equations=[*equations, *inner.equations])}), [])


def _views_of(finder: rows.Finder, a: Var) -> list[Equation]:
    """The equations that make a of an array in memory by views alone."""
    chain = list[Equation]()
    while True:
        i = finder.producer.get(a, -1)
        e = finder.equations[i] if i >= 0 else None
        if e is None or e.name not in strided.NAMES or not loops.has_kernel_form(e) or (
                not isinstance(e.inputs[0], Var)):
            return chain
        layout: strided.Layout | None = strided.dense(e.inputs[0].aval.shape)
        for v in (e, *chain):
            layout = None if layout is None else strided.after(v, layout)
        if layout is None:
            return chain
        chain.insert(0, e)
        a = e.inputs[0]


def _layout(chain: Sequence[Equation]) -> strided.Layout:
    """Of what views make of an array, one after the other."""
    found = strided.dense(chain[0].inputs[0].aval.shape)
    for v in chain:
        found = strided.after(v, found) or found
    return found


def _may_read(a: Var, layout: strided.Layout, inner: Program, how: rows.Rows) -> bool:
    """Whether a group may read a view: its own views are still some, and what is large lies side by
    side along its last axis."""
    own = [inner.equations[k] for k in sorted(how.views)]
    if any(v.inputs[0] is a and strided.through(v, layout, own) is None for v in own):
        return False
    last = len(how.sizes) - 1
    return a.aval.size <= TURNED or all(
        1 <= layout.strides[axes.index(last)] <= strided.CLOSE
        for e, reads in zip(inner.equations, how.reads)
        for b, axes in zip(e.inputs, reads) if b is a and last in axes)


def _is_free(e: Equation) -> bool:
    """Whether it gives an array another shape, or fills one with a number."""
    a = e.inputs[0] if e.inputs else None
    return e.name in ("reshape", "squeeze") or e.name == "broadcast_in_dim" and (
        not isinstance(a, Var) or a.aval.ndim > 0 and a.aval.size == e.outputs[0].aval.size)


def _moves(e: Equation) -> bool:
    """Whether it computes nothing."""
    return e.name in (*rows.VIEWS, *strided.NAMES, "gather")


def _is_left(finder: rows.Finder, i: int) -> bool:
    """Whether an equation is IREE's: what others read where it lies is nobody's."""
    e = finder.equations[i]
    if "rows" in e.params or e.is_dynamic or i in finder.widened:
        return False
    if e.name == "broadcast_in_dim" and not isinstance(e.inputs[0], Var):
        users = [finder.equations[u] for v in e.outputs for u in finder.users.get(v, ())]
        return any(u.name in (*LEFT, *JOINS) or rows.is_elementwise(u) for u in users)
    if e.name == "transpose" and e.outputs[0] not in finder.results and all(
            _takes_turned(finder.equations[u], e) for u in finder.users.get(e.outputs[0], ())):
        return False
    if e.name == "slice" and e.outputs[0] not in finder.results and all(
            _takes_cut(finder.equations[u], e) for u in finder.users.get(e.outputs[0], ())):
        return False
    return loops.has_kernel_form(e) and (
        rows.is_elementwise(e) or rows.is_fold(e.primitive) or e.name in LEFT or e.name in JOINS)


def _takes_cut(user: Equation, e: Equation) -> bool:
    """Whether what joins large arrays reads a part of one where it lies (kernels/move)."""
    if user.name != "concatenate" or _is_small(user) or set(e.params["strides"] or (1,)) != {1}:
        return False
    return all(i == user.params["dimension"] or n == m for i, (n, m) in enumerate(zip(
        e.inputs[0].aval.shape, e.outputs[0].aval.shape)))


def _takes_turned(user: Equation, e: Equation) -> bool:
    """Whether a product reads what an equation turns round where it lies (kernels/gemm)."""
    if user.name != "dot_general" or _is_small(user):
        return False
    contracted, batch = user.params["dimension_numbers"]
    seen = strided.after(e, strided.dense(e.inputs[0].aval.shape))
    assert seen is not None  # a transposition
    return all(strided.reshaped(
        tuple(seen.shape[i] for i in axes), tuple(seen.strides[i] for i in axes),
        (math.prod(seen.shape[i] for i in axes),)) is not None
        for a, c, b in zip(user.inputs, contracted, batch) if a is e.outputs[0]
        for axes in (b, other_axes(len(seen.shape), c, b), c))


def is_spread(e: Equation) -> bool:
    """Whether an equation puts a number around rows of an array, and is work for workgroups."""
    return e.name == "pad" and isinstance(e.inputs[1], Literal) and (
        e.outputs[0].aval.size > PADDED and e.params["padding_config"][0] == (0, 0, 0)
        and all(low >= 0 and high >= 0 and not inside
                for low, high, inside in e.params["padding_config"]))


def joins_many(shapes: Sequence[Sequence[int]], axis: int, dtype: Dtype) -> bool:
    """Whether arrays are so many, and their rows so long, that they are joined by a kernel of their
    own (kernels/joins), whatever their size."""
    inner = math.prod(shapes[0][axis + 1:])
    return (len(shapes) >= MANY_PARTS and dtype.kind != "c" and dtype.itemsize in (1, 2, 4, 8)
            and sum(math.prod(s) for s in shapes) >= JOINED_ALONE
            and min(s[axis] for s in shapes) * inner >= PART)


def _joins_many(e: Equation) -> bool:
    return e.name == "concatenate" and joins_many(
        [a.aval.shape for a in e.inputs], e.params["dimension"], e.outputs[0].aval.dtype)


def _is_small(e: Equation) -> bool:
    """Whether one workgroup does an equation beside others."""
    if is_spread(e):
        return True  # (and alone in its kernel)
    if _joins_many(e):
        return False
    if e.name == "dot_general":
        return 4 * cost.equation_work(e) <= PRODUCT
    if e.name in JOINS:
        return loops.has_kernel_form(e) and cost.equation_work(e) <= SCATTERED
    most = {"pad": PADDED, "concatenate": JOINED, "iota": PADDED}.get(e.name, SMALL)
    if e.name == "broadcast_in_dim" and not isinstance(e.inputs[0], Var):
        most = PADDED  # (a fill)
    size = max(v.aval.size for v in e.outputs)
    return size <= most and cost.equation_work(e) <= (most if size > FEW else WORK)


def _around(finder: rows.Finder, i: int) -> rows.Group | None:
    """The group of large work around an equation."""
    e = finder.equations[i]
    shape = e.outputs[0].aval.shape
    if rows.is_fold(e.primitive):
        group = rows.Group.around(e, i)
        if group is None:
            return None
    else:
        group = rows.Group(tuple(n for n in shape if n > 1), frozenset(), i)
    group.through = True
    if not rows.is_fold(e.primitive):
        if _is_free(e) or not (_moves(e) or rows.is_elementwise(e)) or (
                e.name == "gather" and not picks.is_picked(e, True)) or not _is_read(finder, e):
            return None
        found = group.infer(e, made=rows.numbered(shape))
        if found is None or not finder.is_convex({i}):
            return None
        group.members[i] = e, found
        group.take(e, found)
    finder.spread(group)
    if not _moves(e):
        finder.trim(group)
    return group if group.members else None


def _turned(group: rows.Group) -> int:
    """Elements that a group reads in another order than they lie."""
    return sum(v.aval.size for v, seen in group.views.items()
               if v.aval.size > TURNED and v.aval.shape[-1] > 1
               and not 1 <= seen.strides[-1] <= strided.CLOSE)


def _is_read(finder: rows.Finder, e: Equation) -> bool:
    """Whether something needs its result in memory."""
    return any(v in finder.results or finder.users.get(v) for v in e.outputs)


def _written(finder: rows.Finder, group: rows.Group) -> tuple[list[Var], set[int]]:
    """What a group writes, and its equations that are computed outside once more: views that others
    read, and what follows from constants."""
    outputs = finder.outputs(group)
    axes = {v: made for e, (_, made) in group.members.values() for v in e.outputs}
    kept = [v for v in outputs if v not in group.views and group.rows <= set(axes[v])]
    if not kept:  # a view is all there is
        kept = list(finder.equations[group.seed].outputs)
    again, waiting = set[int](), [v for v in outputs if v not in kept]
    while waiting:
        i = finder.producer[waiting.pop()]
        again.add(i)
        waiting += [a for a in finder.equations[i].inputs if isinstance(a, Var) and (
            a in group.views or a in axes and not group.rows <= set(axes[a]))]
    return kept, again


def _batches(finder: rows.Finder, small: list[int], most: int) -> Iterator[list[int]]:
    """Small equations that one kernel each does, of `most` work; constants among them come with
    what reads them."""
    order = sorted(small, key=finder.position.__getitem__)
    constant, taken = set[int](), set[int]()
    for i in order:
        if all(finder.producer.get(a, -1) in constant for a in finder.equations[i].inputs
               if isinstance(a, Var)):
            constant.add(i)

    def with_constants(i: int, found: list[int]) -> list[int]:
        """It, behind those that it reads and no kernel has yet."""
        for a in finder.equations[i].inputs:
            j = finder.producer.get(a, -1)
            if j in constant and j not in taken and j not in found:
                with_constants(j, found)
        found.append(i)
        return found

    def is_too_much(members: list[int], more: list[int]) -> bool:
        return not finder.is_convex([*members, *more]) or (
            _arrays(finder, [*members, *more]) > cost.MOST_BINDINGS)

    members: list[int] = []
    work = count = 0
    for i in (i for i in order if i not in constant):
        own = cost.equation_work(finder.equations[i])
        more = with_constants(i, [])
        if members and (work + own > most or count >= EQUATIONS or is_too_much(members, more)):
            yield members
            members, work, count = [], 0, 0
        if not finder.is_convex(more):  # others follow from a constant of it, and it from those
            more = [i]
        members += more
        taken.update(more)
        work += own
        count += finder.equations[i].primitive.kernel != "view"
    if members:
        yield members
    members = []
    for i in (i for i in order if i in constant - taken):
        if members and is_too_much(members, [i]):  # it follows from one that is in a kernel by now
            yield members
            members = []
        members.append(i)
    if members:
        yield members


def _ends(finder: rows.Finder, members: list[int]) -> tuple[list[Var], list[Var]]:
    """What members read, and what others read of them."""
    inside = set(members)
    made = {v for i in members for v in finder.equations[i].outputs}
    read = dict.fromkeys(a for i in members for a in finder.equations[i].inputs
                         if isinstance(a, Var) and a not in made)
    given = [v for i in members for v in finder.equations[i].outputs
             if v in finder.results or finder.users.get(v, set()) - inside]
    return list(read), given


def _arrays(finder: rows.Finder, members: list[int]) -> int:
    return sum(map(len, _ends(finder, members)))


def _join_whole(finder: rows.Finder, members: list[int], plain: Var | None) -> None:
    """Put one call for members; where they read nothing, it is given an array of the program: of a
    dispatch without operands IREE makes constants, and takes one result for the other."""
    equations = [finder.equations[i] for i in members]
    read, given = _ends(finder, members)
    if all(map(_is_free, equations)) or not given or not (read or plain):
        return
    if not read and plain is not None:
        read = [plain]
    inner = Program(read, equations, given, name="whole")
    finder.contract(members, Equation(registry["jit"], tuple(read), tuple(given), {
        "jaxpr": inner, "name": "whole", "rows": WHOLE}, equations[0].source, equations[0].scope),
        [])


__all__ = ["WHOLE", "Whole", "close"]
