"""Products with a vector for each of a batch, as sums of what is multiplied element by element.

Of `einsum("bi,bi->b", x, y)`, of a vmapped `jnp.dot`, of many small matrices times a vector each,
and of many of up to 4 x 4 times one another, every product is too small for a kernel of products:
taken one after another, 4096 dot products of 128 numbers cost 20 times what a multiplication and a
sum along rows cost, which are one pass over memory and run along whichever axis lies in it (10,000
products of 3 x 3 four times).  One matrix of up to 4 x 4 complex numbers times a long one
(butterflies of a Fourier transform) is written out term by term.  A matrix from LEAST_VECTOR
elements on is read by the kernel of kernels/gemm.vector_product.  Integers of a byte or two are
widened here, as the kernel of integer products (native/gemm_int.c) takes them, or their products
have 32 bits and are converted here: as conversions of the rule's own they would be left to IREE; a
matrix of them times a vector is a sum.  A matrix that is converted from fewer bytes and multiplied
by one vector is a sum, too, if no kernel widens it as it reads: the wide matrix would be written to
memory.  Start reading at `with_vectors_summed`.
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from calque.core.lists import other_axes
from calque.core.program import Atom, Equation, Program, eliminate_dead_code
from calque.core.types import Dtype
from calque.lowering.emit.dtypes import BOOL, F32, F64, I8, I16, I32, I64, U8, WIDENED, summed
from calque.lowering.passes import cost
from calque.lowering.passes.replacement import Replacement
from calque.lowering.plan.switches import off

LEAST = 1 << 12  # elements of all matrices: less is one kernel's either way
TINY, LEAST_TINY = 4, 1 << 14  # sizes of matrices that go the same way, and elements of all of them
LONGEST = 1 << 20  # numbers of two vectors that IREE multiplies and adds up: of 4M the packed
# product of one row and one column takes 14 ms, a sum 0.3
SHORT_ROW = 64  # numbers of a row that is no vector: 1M rows of 10 times a vector 4.5 ms, as sums
# 0.5; a million rows of 10 added up, each times a number, 5.2 and 0.7
LEAST_WIDENED = 1 << 14  # multiply-adds of a product of narrow integers
PAIRED = (I8, U8, I16)  # that are multiplied two at a time,
LEAST_PAIRED_SIZE = 8  # from so many rows and columns on
LEAST_NARROW = 1 << 14  # numbers of a matrix that is converted where it is multiplied by a vector


def with_vectors_summed(p: Program) -> Program:
    """p with such products written so, at any depth, but for loops that are kernels."""
    return p if off("sums") or "dot_general" not in p.names() else p.derived(
        "vectors summed", lambda: _with_vectors_summed(p))


def _with_vectors_summed(p: Program) -> Program:
    equations: list[Equation] = []
    makers: dict[Atom, Equation] = {v: e for e in p.equations for v in e.outputs}
    for given in p.equations:
        e = given
        if e.name == "dot_general" and _is_sum(turned := _as_it_lies(e, makers)):
            e = turned
        narrow = _of_narrow_matrix(e, makers) if e.name == "dot_general" else None
        if narrow is not None:
            equations += narrow
        elif e.name == "dot_general" and _is_sum(e):
            equations += _summed(e)
        elif e.name == "dot_general" and _is_thin(e):
            equations += _written_out(e)
        elif e.name == "dot_general" and _is_of_narrow_integers(e):
            equations += _widened(e)
        else:
            equations.append(e if cost.is_kernel(e) else e.with_inner(with_vectors_summed))
    return p if tuple(equations) == p.equations else eliminate_dead_code(
        p.replace(equations=equations))


def _as_it_lies(e: Equation, makers: Mapping[Atom, Equation]) -> Equation:
    """A product of what its operands are transpositions of, where its result is the same."""
    (contracted, batch), inputs = e.params["dimension_numbers"], list(e.inputs)
    dims = [[list(c), list(b)] for c, b in zip(contracted, batch)]
    for i, a in enumerate(e.inputs):
        maker = makers.get(a)
        if maker is None or maker.name != "transpose":
            continue
        order = maker.params["permutation"]
        free = [order[k] for k in other_axes(len(order), *dims[i])]
        if free == sorted(free):
            inputs[i], dims[i] = maker.inputs[0], [[order[k] for k in some] for some in dims[i]]
    (xc, xb), (yc, yb) = dims
    return e if inputs == list(e.inputs) else e.replace(inputs=tuple(inputs), params={
        **e.params, "dimension_numbers": ((tuple(xc), tuple(yc)), (tuple(xb), tuple(yb)))})


def _is_sum(e: Equation) -> bool:
    return _is_of_vectors(e) or _is_of_narrow_rows(e)


def _is_of_vectors(e: Equation) -> bool:
    """Whether one operand is a vector of each of a batch, and the other none for the kernel."""
    if e.is_dynamic:
        return False
    (x, y), ((xc, yc), (xb, _)) = (a.aval for a in e.inputs), e.params["dimension_numbers"]
    batch, k = (math.prod(x.shape[i] for i in axes) for axes in (xb, xc))
    if min(x.size, y.size, k) < 2:
        return False
    rows, columns = x.size // (batch * k), y.size // (batch * k)
    if batch == 1:  # all of both, in another order each, or more than IREE takes in one go
        if min(rows, columns) == 1 < max(rows, columns):
            return _has_short_rows(e, 0 if rows > 1 else 1)
        return x.size >= LEAST and rows == columns == 1 and (
            k > LONGEST or sorted(yc) != [axis for _, axis in sorted(zip(xc, yc))])
    matrix = max(rows, columns)
    if batch * k * matrix < LEAST:
        return False
    if min(rows, columns) > 1:
        return max(matrix, k) <= TINY and batch * k * matrix >= LEAST_TINY
    return matrix == 1 or not cost.has_vector_kernel(matrix, k)


def _has_short_rows(e: Equation, i: int) -> bool:
    """Whether the rows of operand i, a matrix that is multiplied by a vector, are no vectors for
    the kernel that reads it: short, or few and longer than it takes in one go."""
    x, contracted = e.inputs[i].aval, set(e.params["dimension_numbers"][0][i])
    if x.dtype not in (F32, F64) or x.size < LEAST:
        return False
    last, short = x.ndim, 1
    while last and (last - 1 in contracted) == (x.ndim - 1 in contracted):
        last -= 1
        short *= x.shape[last]
    return short <= SHORT_ROW or x.ndim - 1 in contracted and (
        x.size > LONGEST and x.size // short < LEAST_PAIRED_SIZE)


def _summed(e: Equation) -> list[Equation]:
    (x, y), out = e.inputs, e.outputs[0]
    (xc, yc), (xb, yb) = e.params["dimension_numbers"]
    swapped = y.aval.size > x.aval.size
    if swapped:
        x, y, xc, yc, xb, yb = y, x, yc, xc, yb, xb
    made = Replacement(e)
    emit, converted = made.emit, made.converted

    dtype = out.aval.dtype
    wide = summed(dtype)
    yf = [i for i in other_axes(y.aval.ndim, yc, yb) if y.aval.shape[i] > 1]
    places = dict(zip((*yb, *yc, *yf), (*xb, *xc, *range(x.aval.ndim, x.aval.ndim + len(yf)))))
    shape = (*x.aval.shape, *[y.aval.shape[i] for i in yf])

    order = sorted(places, key=places.__getitem__)
    ones = [i for i in range(y.aval.ndim) if i not in places]
    y = made.reshaped(made.transposed(converted(y, wide), [*order, *ones]),
                      [y.aval.shape[i] for i in order])
    names = ("and", "reduce_or") if wide == BOOL else ("mul", "reduce_sum")
    products = emit(names[0], [made.spread(converted(x, wide), shape, range(x.aval.ndim)),
                               made.spread(y, shape, sorted(places.values()))], shape, wide)
    left = other_axes(len(shape), xc)
    sums = emit(names[1], [products], [shape[i] for i in left], wide, axes=tuple(xc),
                out_sharding=None)
    free = [other_axes(x.aval.ndim, xc, xb), tuple(range(x.aval.ndim, len(shape)))]
    order = [left.index(i) for axes in (xb, *(reversed(free) if swapped else free)) for i in axes]
    return made.ending(made.reshaped(made.transposed(sums, order), out.aval.shape))


def _is_thin(e: Equation) -> bool:
    """Whether one operand is a matrix of a few complex numbers, the other one of many: as parts
    that are four products."""
    if e.is_dynamic:
        return False
    (x, y), ((xc, _), (xb, _)) = (a.aval for a in e.inputs), e.params["dimension_numbers"]
    batch, k = (math.prod(x.shape[i] for i in axes) for axes in (xb, xc))
    if batch != 1 or not 1 < k <= TINY or not x.size or not y.size or x.dtype.kind != "c":
        return False
    rows, columns = x.size // k, y.size // k
    return 1 < min(rows, columns) <= TINY and max(rows, columns) >= LEAST


def _written_out(e: Equation) -> list[Equation]:
    """A product as a sum of one term for each number that is contracted."""
    out = e.outputs[0]
    dtype = summed(out.aval.dtype)
    (contracted, batches), made = e.params["dimension_numbers"], Replacement(e)
    sides, first = list[tuple[Atom, Sequence[int], list[int], list[int]]](), len(batches[0])
    for a, axes, batch in zip(e.inputs, contracted, batches):
        free = other_axes(a.aval.ndim, axes, batch)
        sides.append((made.converted(a, dtype), axes, [*batch, *free], [
            *range(len(batch)), *range(first, first + len(free))]))
        first += len(free)
    total: Atom | None = None
    for where in itertools.product(*[range(e.inputs[0].aval.shape[i]) for i in contracted[0]]):
        parts = list[Atom]()
        for a, axes, kept, places in sides:
            at = dict(zip(axes, where))
            starts = [at.get(i, 0) for i in range(a.aval.ndim)]
            stops = [at[i] + 1 if i in at else n for i, n in enumerate(a.aval.shape)]
            part: Atom = made.emit(
                "slice", [a], [n - k for k, n in zip(starts, stops)], dtype,
                start_indices=tuple(starts), limit_indices=tuple(stops), strides=None)
            order = [*axes, *kept]
            part = made.reshaped(made.transposed(part, order), [a.aval.shape[i] for i in kept])
            parts.append(made.spread(part, out.aval.shape, places))
        term = made.emit("mul", parts, out.aval.shape, dtype)
        total = term if total is None else made.emit("add", [total, term], out.aval.shape, dtype)
    assert total is not None
    return made.ending(total)


def _of_narrow_matrix(e: Equation, makers: Mapping[Atom, Equation]) -> list[Equation] | None:
    """A vector times what is converted from a matrix of fewer bytes, or from its transposition."""
    sides, batches = e.params["dimension_numbers"]
    i = int(not e.is_dynamic and e.inputs[1].aval.size > e.inputs[0].aval.size)
    a, out = e.inputs[i], e.outputs[0].aval
    if batches[0] or out.dtype.kind != "f" or a.aval.ndim != 2 or len(sides[i]) != 1 or (
            e.is_dynamic or a.aval.size < LEAST_NARROW):
        return None
    axis, k, source, dtypes = sides[i][0], a.aval.shape[sides[i][0]], a, list[Dtype]()
    while (maker := makers.get(source)) and maker.name in ("convert_element_type", "transpose"):
        if maker.name == "transpose":
            axis = maker.params["permutation"][axis]
        else:
            dtypes.append(source.aval.dtype)
        source = maker.inputs[0]
    narrow, wide = source.aval.dtype, a.aval.dtype
    if e.inputs[1 - i].aval.size != k or narrow.itemsize >= wide.itemsize or (
            wide == F32 and narrow in WIDENED) or narrow.kind == "c":
        return None
    made = Replacement(e)
    for dtype in reversed(dtypes):
        source = made.converted(source, dtype)
    inputs, axes = list(e.inputs), list(sides)
    inputs[i], axes[i] = source, (axis,)
    return [*made.made, *_summed(e.replace(inputs=tuple(inputs), params={
        **e.params, "dimension_numbers": (tuple(axes), batches)}))]


def _is_of_narrow_rows(e: Equation) -> bool:
    """Whether a matrix of integers of a byte or two is multiplied by a vector: the kernel of 32
    bits would have it written so (1000 x 1000 int8 89 to 41 us).  What has few bits wraps round in
    the end, and on the way."""
    if not _is_of_narrow_integers(e) or e.params["dimension_numbers"][1][0]:
        return False
    (x, y), ((xc, _), _) = (a.aval for a in e.inputs), e.params["dimension_numbers"]
    k = math.prod(x.shape[i] for i in xc)
    return k > 1 and min(x.size, y.size) == k < max(x.size, y.size) >= LEAST_NARROW and (
        max(x, y, key=lambda a: a.size).dtype.itemsize < I32.itemsize)


def _is_of_narrow_integers(e: Equation) -> bool:
    wide = _sums_of_integers(e)
    return e.outputs[0].aval.dtype.kind in "iu" and not e.is_dynamic and any(
        a.aval.dtype.itemsize < wide.itemsize for a in e.inputs) and (
        4 * cost.equation_work(e) >= LEAST_WIDENED)


def _are_paired(e: Equation) -> bool:
    """Whether the kernel of pairs takes a product (kernels/gemm.pair_product)."""
    (x, y), ((xc, _), (xb, _)) = (a.aval for a in e.inputs), e.params["dimension_numbers"]
    both = math.prod(x.shape[i] for i in (*xb, *xc))
    return x.dtype == y.dtype and x.dtype in PAIRED and _sums_of_integers(e) == I32 and min(
        x.size, y.size) >= LEAST_PAIRED_SIZE * both


def _sums_of_integers(e: Equation) -> Dtype:
    return I64 if e.outputs[0].aval.dtype.itemsize == 8 else I32


def _widened(e: Equation) -> list[Equation]:
    made, wide = Replacement(e), _sums_of_integers(e)
    sides = list(e.inputs) if _are_paired(e) else [made.converted(a, wide) for a in e.inputs]
    return made.ending(made.emit("dot_general", sides, e.outputs[0].aval.shape, wide, **{
        **e.params, "preferred_element_type": wide}))
