"""How much work a Program is, roughly: from it follow where it runs and which flags it gets.

`work` counts element operations (functions by core/weights, four multiply-adds of a dot as one);
`runs_inline` says whether to run inline (benchmarks/border.py measures the threshold), `is_cheap`
whether both branches of a cond may be computed.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from calque.core.dims import Dim, bounds, guess, is_static
from calque.core.lists import without
from calque.core.program import Equation, Program
from calque.core.types import Params, Shape
from calque.lowering.passes import hazards, loops, registers
from calque.lowering.passes.split import part_of, rows_of
from calque.lowering.plan.refusal import Refusal
from calque.lowering.plan.switches import off

INLINE_WORK = 500_000  # about 50 us of one core: what the queue costs (benchmarks/border.py)
PASS_WORK = 150_000  # more of it for each sum, product, join or update: queued each is some 10 us
RESULTS = 8  # results that a dispatch writes, about, where there are many
STREAMED = 6 << 20  # bytes of a matrix above which a second core pays (15,000 x 150 176 to 124 us)
# What C takes for a matrix: work for each of n^3, of n^2, and beside (4 to 200 rows on one core)
DECOMPOSED = {"cholesky": (0.02, 18, 400), "lu": (0.06, 30, 200),
              "triangular_solve": (0.06, 5, 400), "geqrf": (0.03, 45, 400),
              "householder_product": (0.03, 45, 400), "eigh": (0.2, 200, 8000),
              "svd": (0.4, 350, 15_000)}
MOST_WORK = 3_000_000  # but a call never keeps its caller longer than 300 us
CHEAP_WORK = 16_384
KERNEL_WORK = 1_200_000  # element operations of a step up to which a workgroup does a loop
AMID_TRANSFORMS = 6  # times as many where so much is computed between transforms: IREE does complex
# numbers one by one (steps of Navier-Stokes of 128 x 128 0.4 of the time; of waves, which multiply
# once a transform, 1.6)
LIGHT = 32  # so many sums and the like of a step count as one of them
WHOLE_WORK = 30_000  # the same for a whole program
ALONE_WORK = 10_000  # and for one of a single dispatch, of which IREE may make vectors
WHOLE_EQUATIONS = 300
MANY_PASSES, MANY_EQUATIONS, PASS_WHOLE_WORK = 16, 6000, 16_000  # the same for many of them
BUNDLED_BYTES = 256 * 1024  # of arrays that a kernel has no bindings for each of: they are copied
FEW_EQUATIONS = 20_000  # of numbers and arrays of FEW elements: IREE makes many dispatches of them
FEW = 128
MOST_STACKED = 64 << 20  # bytes that host loops of queued programs stack
MOST_BINDINGS = 30  # of a dispatch: IREE's loader takes 32
WHILE_STEPS = 20  # how often a loop runs whose end the data decides: a guess
TILED_SIZE = 512  # from here on, in all three sizes of a matmul, data tiling pays
INNER_TILED_SIZE = 2000
LEAST_VECTOR = 1 << 12  # elements of a matrix from which on a vector times it is a kernel's in C,
LEAST_VECTOR_SIZE = 8  # and of its sides
PLANES, MANY_UPDATES = 9, 4  # numbers of a place that lie in planes; updates, each from the host
SHORT, MANY_SHORT = 8, 1 << 12  # numbers side by side that are no vector, in an array of so many
_TILING, _INNER = "--iree-opt-data-tiling", "--iree-llvmcpu-enable-inner-tiled"


def inner_programs(e: Equation) -> list[tuple[Program, int]]:
    """(inner program, how often it runs)."""
    p = e.params
    if not e.inner and e.primitive.program is None:
        return []
    if e.name == "custom_linear_solve":  # the others are its derivatives'
        return [(p["solve"], 1)]
    if e.name == "scan":
        return [(p["jaxpr"], max(1, guess(p["length"])))]
    if e.name == "while":
        return [(p["cond_jaxpr"], WHILE_STEPS), (p["body_jaxpr"], WHILE_STEPS)]
    if e.name == "cond":
        return [(b, 1) for b in p["branches"]]
    if e.primitive.program is not None and not is_open(e):
        return [(e.primitive.program(*[a.aval for a in e.inputs], **p), 1)]
    return [(q, 1) for q in e.inner]


def is_open(e: Equation) -> bool:
    """Whether the sizes of a decomposition's matrices are known at the call only: its Program,
    which is the portable form's, cannot be written then."""
    lead = max(a.aval.ndim for a in e.inputs) - 2
    return e.name != "lu_pivots_to_permutation" and not all(
        is_static(a.aval.shape[lead:]) for a in e.inputs)


def has_vector_kernel(rows: int, columns: int) -> bool:
    """Whether a matrix is large enough for the kernel that multiplies it by a vector."""
    return rows * columns >= LEAST_VECTOR and min(rows, columns) >= LEAST_VECTOR_SIZE


def equation_work(e: Equation, in_place: bool = False, fresh: bool = False) -> Any:
    """Element operations of one equation (a Dim where they depend on sizes); in_place: in a loop,
    whose updates and views copy nothing; fresh: what it updates is nobody else's."""
    fact = ("work", in_place, fresh)
    if fact not in e.facts:
        e.facts[fact] = _equation_work(e, in_place, fresh)
    return e.facts[fact]


def _equation_work(e: Equation, in_place: bool, fresh: bool) -> Any:
    inner = inner_programs(e)
    if inner:
        return sum(total(p, in_place or e.primitive.kernel == "loop") * n for p, n in inner)
    if in_place and e.primitive.kernel == "view":
        return 0
    out: Any = sum(v.aval.size for v in e.outputs)
    if e.name == "dot_general":
        (xc, _), _ = e.params["dimension_numbers"]
        return out * _at_least_1(math.prod(e.inputs[0].aval.shape[i] for i in xc)) // 4
    if e.name in ("gather", "dynamic_slice", "slice"):  # they read no more than they return
        return out
    if e.name in ("reshape", "squeeze"):  # the same memory
        return 0
    if hazards.is_update(e):
        update = max((a.aval.size for a in e.inputs[1:]), key=guess)
        return update * e.weight + (
            0 if in_place or fresh else e.inputs[0].aval.size)
    if e.name == "broadcast_in_dim" and e.inputs[0].aval.shape == ():
        return out // 4  # fused, or a fill: 20 us for a million f32
    if e.name == "conv_general_dilated":  # each result: all of a kernel but one axis
        kernel = e.inputs[1].aval
        features = kernel.shape[e.params["dimension_numbers"].rhs_spec[0]]
        return out * _at_least_1(guess(kernel.size) // _at_least_1(guess(features)))
    size = max([out, *[a.aval.size for a in e.inputs]], key=guess)
    if e.primitive.program is not None:  # a decomposition: about n^3 for a matrix of n^2
        return size * e.inputs[0].aval.shape[-1]
    return size * e.weight


def _at_least_1(n: Any) -> Any:
    return n if isinstance(n, Dim) else max(1, int(n))


def total(p: Program, in_place: bool = False) -> Any:
    """Element operations of a whole Program, loops counted (a Dim where they depend on sizes)."""
    def count() -> Any:
        made = {v for e in p.equations for v in e.outputs if e.primitive.memory != "view"
                or e.name == "broadcast_in_dim"}
        copying = hazards.copying(p)
        return sum(equation_work(e, in_place, i not in copying and bool(e.inputs)
                                 and e.inputs[0] in made) for i, e in enumerate(p.equations))
    return p.derived(("work", in_place), count)


def work(p: Program) -> int:
    """The same as a number."""
    return guess(total(p))


def transient_bytes(p: Program) -> Any:
    """Bytes of what lies between arguments and results, if nothing is fused, and as much again for
    what lowering adds (a Dim where they depend on sizes)."""
    return 2 * _between(p)


def _between(p: Program) -> Any:
    return p.derived("between", lambda: _sum_between(p))


def _sum_between(p: Program) -> Any:
    results = set(map(id, p.outputs))
    found: Any = 0
    for e in p.equations:
        found = found + sum(v.aval.nbytes for v in e.outputs if id(v) not in results)
        found = found + sum(_between(q) + sum(a.nbytes for a in q.out_avals)
                            for q, _ in inner_programs(e))
    return found


UNROLL_EQUATIONS = 200  # scans whose unrolled body stays below this are written out,
LOOPED = 4  # but those of as many steps that are kernels of work,
LOOPED_WORK = 1_000  # if it is more than this (100 steps of 100 numbers 4.6 to 0.2 s of compiling)
_APART = frozenset((
    "dot_general", "scatter", "scatter-add", "scatter-mul", "scatter-min", "scatter-max"))


def _equations(p: Program) -> int:
    """Equations of a Program with its loops written out."""
    return p.derived("size", lambda: sum(
        1 + sum(n * _equations(q) for q, n in inner_programs(e)) for e in p.equations))


def is_long(p: Program) -> bool:
    """Whether it has too many equations for one kernel, whatever they are."""
    return written(p) > MANY_EQUATIONS


def written(p: Program) -> int:
    """Equations of a Program as a kernel has them: loops are loops."""
    return p.derived("written", lambda: sum(
        1 + sum(written(q) for q, _ in inner_programs(e)) for e in p.equations))


def is_unrolled(params: Params) -> bool:
    """Whether a scan is written out instead of looped; never one with unroll=0."""
    length: int = params["length"]
    if not params["unroll"] or isinstance(length, Dim):
        return False
    size = length * max(1, _equations(params["jaxpr"]))
    return size <= UNROLL_EQUATIONS or length <= params["unroll"]


def is_better_looped(e: Equation) -> bool:
    """Whether a scan that would be written out is a kernel otherwise, and had better be one: its
    steps hold products or scatters, which would be a dispatch each (two products of 32 x 64 in each
    of 50 steps: 4.3 to 0.3 s of compiling), or run in registers (10 steps of a sine and a tangent
    of 100 numbers: 1.7 to 0.13 s)."""
    if e.name != "scan" or e.params["unroll"] != 1 or not is_unrolled(e.params):
        return False
    if e.params["length"] < LOOPED or guess(equation_work(e)) <= LOOPED_WORK:
        return False
    looped = e.replace(params={**e.params, "unroll": 0})
    return is_kernel(looped) and (registers.plan(looped) is not None or any(
        q.name in _APART for q in e.params["jaxpr"].equations))


def is_kernel(e: Equation) -> bool:
    """Whether a loop becomes a kernel of ours on CPU targets: its body has a form there, and a step
    is no work for several cores."""
    return refusal(e) is None


def refusal(e: Equation) -> Refusal | None:
    """Why a loop is no kernel."""
    if not loops.enabled:
        return Refusal(e, "switched off")
    if e.is_dynamic:
        return Refusal(e, "open size")
    if e.name == "scan":
        if is_unrolled(e.params):
            return Refusal(e, "written out", 0, UNROLL_EQUATIONS)
        body = e.params["jaxpr"]
    elif e.name == "while":
        body = e.params["body_jaxpr"]
    else:
        return Refusal(e, "no form")
    if registers.plan(e) is not None:
        return None
    missing = Refusal(e, "switched off") if off("memory") else loops.refusal(e)
    if missing is not None:
        return missing
    own = guess(step_work(body))
    most = KERNEL_WORK * (AMID_TRANSFORMS if _computes_amid_transforms(body) else 1)
    if own <= most or 0 < own * part_of(e) <= rows_of(e) * most:
        return None
    return Refusal(e, "work of a step", own, most)


def _computes_amid_transforms(p: Program) -> bool:
    """Whether a step in parts of complex numbers has transforms and a quarter of their work or more
    beside them."""
    transforms = guess(sum(equation_work(e) for e in p.equations if e.name == "fft_axis"))
    return transforms > 0 and 5 * transforms <= 4 * guess(total(p, True))


def step_work(p: Program) -> Any:
    """Work of a loop's step, of which the light part counts less: a kernel does it 16 numbers at a
    time in one pass, at the memory's pace, which further cores do not raise by much, and IREE's
    step from the host takes 2 to 25 times as long (stencils of 256 x 256 to 1024 x 1024, two
    cores)."""
    return total(p, True) - _light(p) * (LIGHT - 1) // LIGHT


def is_short(shape: Shape) -> bool:
    """Whether what lies side by side in a large array is less than a vector."""
    return len(shape) > 1 and shape[-1] < SHORT and loops.elements(shape) >= MANY_SHORT


def _adds_planes(e: Equation) -> bool:
    """Whether a fold goes over a few planes only, whose elements lie side by side in vectors."""
    shape, axes = e.inputs[0].aval.shape, e.params["axes"]
    return len(shape) - 1 not in axes and math.prod(shape[i] for i in axes) <= PLANES


def _light(p: Program) -> Any:
    """What sums and the like, and joins, of which a kernel reads the parts, count in it; not those
    of the shape that rows are folded of: with the fold they are one pass of many workgroups from
    the host (passes/rows), but for sums of a few planes that are written one by one.  Coordinates
    that are cut and joined are one by one in a kernel, and vectors in steps from the host
    (passes/points)."""
    def count() -> Any:
        in_planes = sum(map(hazards.is_update, p.equations)) >= MANY_UPDATES
        rows = {e.inputs[0].aval.shape for e in p.equations if (
            e.primitive.kernel == "fold" or e.name in ("argmax", "argmin"))
            and e.outputs[0].aval.ndim and not (in_planes and _adds_planes(e))}
        if any(e.name in ("concatenate", "slice", "rev") and is_short(e.outputs[0].aval.shape)
               for e in p.equations):
            return 0
        return sum(
            sum(_light(q) * n for q, n in inner) if (inner := inner_programs(e))
            else equation_work(e, True) if (
                e.name in ("concatenate", "pad") or e.primitive.kernel == "map"
                and e.weight == 1) and e.outputs[0].aval.shape not in rows
            else 0 for e in p.equations)
    return p.derived("light", count)


def is_whole(p: Program) -> bool:
    """Whether a Program becomes one kernel of ours on CPU targets: IREE would make a dispatch of
    each of its sums, products and joins, which costs more than what a few hundred elements do; and
    of one dispatch, too, the kernel is compiled in half the time (compiler/stream_module.py)."""
    return whole_refusal(p) is None


def whole_refusal(p: Program, many: bool = False) -> Refusal | None:
    """Why a Program is not one kernel; `many`: whether it may be for its many passes."""
    if not loops.enabled or off("program"):
        return Refusal(None, "switched off")
    for e in p.equations:
        if e.is_dynamic:
            return Refusal(e, "open size")
    alone = loops.passes(p) <= 1
    if not p.equations or alone and loops.folds(p):  # a fold is one kernel anyway (passes/rows)
        return Refusal(None, "fold alone")
    passed = [*p.const_vars, *p.inputs, *p.outputs]
    if len(passed) > MOST_BINDINGS and not (
            many and sum(v.aval.nbytes for v in passed) <= BUNDLED_BYTES):
        return Refusal(None, "arrays", len(passed), MOST_BINDINGS)
    most = ALONE_WORK if alone else WHOLE_WORK
    small = _equations(p) <= WHOLE_EQUATIONS and work(p) <= most or many and _has_many(p)
    if not (small or _has_few(p) and _equations(p) <= FEW_EQUATIONS and work(p) <= INLINE_WORK):
        return Refusal(None, "work", work(p), most) if work(p) > most else Refusal(
            None, "equations", _equations(p), WHOLE_EQUATIONS)
    missing = loops.refusal_within(p)
    if missing is None and not many and loops.decomposes(p):  # C is better at one
        return Refusal(next(loops.decompositions(p)), "decomposition")
    return missing


def _has_many(p: Program) -> bool:
    """Whether it runs inline and consists of so many sums, products and joins that a dispatch for
    each, compiled one by one, costs more than what they do (benchmarks/parts.py: the gradient
    through 60 stacked sums 7.1 s and 85 us, as one kernel 1.3 s and 57 us)."""
    passes = loops.passes(p)
    return passes >= MANY_PASSES and written(p) <= MANY_EQUATIONS and (
        work(p) <= min(inline_below(p), PASS_WHOLE_WORK * passes))


def _has_few(p: Program) -> bool:
    """Whether all that is computed, at any depth, is numbers and arrays of few elements, outside of
    loops."""
    return p.derived("few", lambda: all(
        e.primitive.kernel != "loop" and all(v.aval.size <= FEW for v in e.outputs)
        and all(map(_has_few, e.inner)) for e in p.equations))


def loop_steps(p: Program) -> int:
    """Iterations of host loops: each costs microseconds whatever it does."""
    return p.derived(("steps", loops.enabled), lambda: _loop_steps(p))


def _loop_steps(p: Program) -> int:
    steps = 0
    for e in p.equations:
        for inner, n in inner_programs(e):
            if is_kernel(e):
                continue
            own = n if e.name == "while" or (
                e.name == "scan" and not is_unrolled(e.params)) else 0
            steps += own + n * loop_steps(inner)
    return steps


def runs_inline(p: Program) -> bool:
    """Whether the program runs inline, on the caller's thread."""
    return guess(called_work(p)) < inline_below(p)


def called_work(p: Program) -> Any:
    """What a call costs: the whole work, of decompositions and convolutions in C and large matrices
    what these take (a Dim where it depends on sizes)."""
    return total(p) + _streamed(p) - _narrow(p) + (
        _decomposed(p) - _convolved(p) if loops.enabled else 0)


def _narrow(p: Program) -> Any:
    """What elements of a byte take less than those of four, and moved ones of two (a million of
    them reversed 47 and 58 us through the queue, 33 and 40 on the caller's thread), and what folds
    take less, which write nothing (a million floats added up 59 and 37)."""
    return p.derived("narrow", lambda: _of_narrow(p))


def _of_narrow(p: Program) -> Any:
    found: Any = 0
    for e in p.equations:
        wide = max((a.aval.dtype.itemsize for a in (*e.inputs, *e.outputs)), default=4)
        if e.inner:
            found += 0 if e.primitive.kernel == "loop" else sum(
                n * _narrow(q) for q, n in inner_programs(e))
        elif wide == 1 and e.weight == 1 and e.primitive.kernel in ("map", "fold") or (
                wide < 4 and e.primitive.moves):
            found += equation_work(e) * (4 - wide) // 4
        elif e.primitive.kernel == "fold" and e.weight == 1:
            found += equation_work(e) // 2
    return found


def _convolved(p: Program) -> int:
    """What convolutions, outside of loops, take less than their multiply-adds: an eighth is left
    (4M of them 40 us)."""
    return p.derived("convolved", lambda: _of_convolutions(p))


def _of_convolutions(p: Program) -> int:
    found = 0
    for e in p.equations:
        if e.name == "conv_general_dilated":
            found += 0 if e.params["feature_group_count"] > 1 or e.outputs[0].aval.dtype.kind != (
                "f") else guess(equation_work(e)) * 7 // 8
        elif e.primitive.kernel != "loop":
            found += sum(n * _convolved(q) for q, n in inner_programs(e))
    return found


def _decomposed(p: Program) -> int:
    """What decompositions in C, outside of loops, take beyond what their Programs would."""
    return p.derived("decomposed", lambda: _of_decompositions(p))


def _of_decompositions(p: Program) -> int:
    found = 0
    for e in p.equations:
        if e.name in DECOMPOSED and not e.is_dynamic:
            cubes, squares, each = DECOMPOSED[e.name]
            a = e.inputs[0].aval
            size = e.outputs[0].aval.size if e.name == "triangular_solve" else a.size
            number = size * (cubes * min(a.shape[-2:]) + squares) + each * math.prod(a.shape[:-2])
            found += int(number) - guess(equation_work(e))
        elif e.primitive.kernel != "loop":
            found += sum(n * _decomposed(q) for q, n in inner_programs(e))
    return found


def _streamed(p: Program) -> int:
    """What matrices that a vector is multiplied by cost beyond their arithmetic: of more than a
    core's cache holds, each element is read from memory once."""
    total = 0
    for e in p.equations:
        if e.name != "dot_general" or e.is_dynamic:
            continue
        x, y = (a.aval for a in e.inputs)
        matrix, vector = (x, y) if x.size > y.size else (y, x)
        if matrix.nbytes > STREAMED and vector.size * e.outputs[0].aval.size == matrix.size:
            total += matrix.size - equation_work(e)
    return total


def inline_below(p: Program) -> int:
    """The work below which the program runs inline; none where its loops are long."""
    if loop_steps(p) > 2 * WHILE_STEPS:
        return 0
    nests = loops.passes(p) + sum(
        e.name == "gather" or hazards.is_update(e) for e in p.equations)
    nests += len(p.outputs) // RESULTS
    return min(MOST_WORK, INLINE_WORK + PASS_WORK * nests)


def must_run_inline(p: Program) -> bool:
    """Whether it holds several host loops, in or beside each other, or kernels of loops in one: on
    local-task IREE frees memory of one too early ("transient buffer has not been committed", or
    another loop's values), on local-sync all is well.  Such a program keeps its caller waiting
    anyway.  Nor is one queued that stacks much: on local-task its steps take ten times as long (12
    arrays of 6.5 MB; up to 10 of them it is all the same)."""
    return host_loops(p) > 1 or _host_stacks(p) > MOST_STACKED


def host_loops(p: Program, kernels: bool = True) -> int:
    """Loops that IREE steps through from the host, and loops of ours within them; `kernels`: loops
    have forms of ours on the target."""
    return p.derived(("host loops", loops.enabled, kernels),
                     lambda: _host_loops(p, False, kernels))


def _host_loops(p: Program, inside: bool, kernels: bool) -> int:
    found = 0
    for e in p.equations:
        if kernels and is_kernel(e):
            found += inside
            continue
        stepped = e.name == "while" or (
            e.name == "scan" and not is_unrolled(e.params))
        found += stepped + sum(_host_loops(q, inside or stepped, kernels)
                               for q, _ in inner_programs(e))
    return found


def is_stepped(p: Program, kernels: bool) -> bool:
    """Whether some loop or branch of a Program, at any depth, runs from the host; `kernels`: loops
    have forms of ours on the target."""
    return p.derived(("stepped", loops.enabled, kernels), lambda: any(
        _is_stepped(e, kernels) for e in p.equations))


def _is_stepped(e: Equation, kernels: bool) -> bool:
    name = e.name
    if name in ("scan", "while") and kernels and is_kernel(e):
        return False
    if name == "while" or name == "scan" and not is_unrolled(e.params):
        return True
    if name == "cond" and len(e.params["branches"]) > 1 and not all(
            map(is_cheap, e.params["branches"])):
        return True
    return any(is_stepped(q, kernels) for q, _ in inner_programs(e))


def _host_stacks(p: Program) -> int:
    """Bytes that the loops which IREE steps through stack."""
    return p.derived(("host stacks", loops.enabled), lambda: sum(
        sum(guess(v.aval.nbytes) for v in e.outputs[e.params["num_carry"]:])
        for e in p.equations if e.name == "scan" and not (
            is_kernel(e) or is_unrolled(e.params))))


def is_cheap(p: Program) -> bool:
    """Whether running a branch for nothing costs less than waiting for its predicate, and shows
    nowhere."""
    return work(p) < CHEAP_WORK and loop_steps(p) == 0 and not calls_python(p)


def calls_python(p: Program) -> bool:
    """Whether some equation, at any depth, calls a function of the user's: also a pure one may
    raise, and is called where the program says and nowhere else."""
    return p.derived("calls python", lambda: any(map(is_callback, p.equations)))


def is_callback(e: Equation) -> bool:
    """Whether an equation calls a function of the user's, itself or in a Program that it holds: in
    Python, a handler of XLA's, or a kernel with side effects."""
    return e.primitive.calls_python or e.name == "ffi_call" and bool(
        e.params["has_side_effect"] or e.params["kernels"].handler) or any(
            map(calls_python, e.inner))


def writes_in_place(p: Program) -> bool:
    """Whether some equation, at any depth, may write into an operand."""
    return p.derived("in place", lambda: any(
        bool(hazards.updated(e)) or any(writes_in_place(q) for q, _ in inner_programs(e))
        for e in p.equations))


def matmul_flags(p: Program, ours: Callable[[int, int, int, str], bool] = lambda *_: False
                 ) -> tuple[str, ...]:
    """IREE's flags for the dots of a program, by the kind of all of them (flags are per program).

    Data tiling pays from TILED_SIZE on in all three sizes, and loses for large thin dots; the
    inner-tiled form of its kernels is ahead for f64 and for large f32 (benchmarks/run.py matmul).
    `ours` says of rows, columns, contracted size and dtype that a kernel of ours takes the product.
    """
    found = [d for d in _dots(p) if d[3] or not ours(*d[:3], d[4])]
    large = [e for e in found if not e[3] and min(e[:3]) >= TILED_SIZE]
    if not large or any(min(m, n, k) < 64 and m * n * k > 4_000_000
                        for m, n, k, *_ in found):
        return ()
    inner = all(t == "float64" or (t == "float32" and min(m, n, k) >= INNER_TILED_SIZE)
                for m, n, k, _, t in large)
    return (_TILING, _INNER) if inner else (_TILING,)


def _dots(p: Program) -> Iterator[tuple[int, int, int, bool, str]]:
    """(rows, columns, contracted size, whether batched, dtype) of every dot, inner ones too."""
    for e in p.equations:
        for q, _ in inner_programs(e):
            yield from _dots(q)
        if e.name != "dot_general":
            continue
        x, y = (a.aval for a in e.inputs)
        (xc, yc), (xb, yb) = e.params["dimension_numbers"]
        k = math.prod(x.shape[i] for i in xc)
        m = math.prod(without(x.shape, (*xc, *xb)))
        n = math.prod(without(y.shape, (*yc, *yb)))
        # tiles lose where a size is small
        m, n, k = (int(bounds(d, 1)[0]) for d in (m, n, k))
        yield m, n, k, bool(xb), str(x.dtype)
