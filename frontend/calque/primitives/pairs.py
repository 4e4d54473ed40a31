"""Loops on the real and imaginary parts of complex numbers, which kernels of ours have no forms of:
the rule `pairs` of scan and while, which lowering asks (lowering/passes/legalize).

Every equation of a loop's Programs is bound anew: a complex value is two real ones.  Sums, products
and moves are written in the parts; of a function each part is a `complex_part`, which lowering
computes as it computes the function.  Start reading at `loop_in_pairs`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray, shape_of
from calque.core.config import config
from calque.core.dims import is_static
from calque.core.dtypes import real_dtype
from calque.core.errors import explain
from calque.core.evaluate import each
from calque.core.lists import split_list
from calque.core.primitive import Primitive, registry
from calque.core.program import Atom, Equation, Program
from calque.core.types import Params
from calque.core.words import forms, has_transforms
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.primitives.control import cond, scan
from calque.primitives.pair_moves import MOVES, moved
from calque.primitives.while_loop import while_loop
from calque.transforms.stage import replay, stage
from calque.transforms.vmap import move_axis, to_front

Parts = tuple[Any, ...]  # (real, imaginary), or a value of another dtype alone
# each part of the result is the same of that part of the operands
ALIKE = frozenset((
    "add", "add_any", "sub", "neg", "broadcast_in_dim", "reshape", "squeeze", "transpose", "slice",
    "dynamic_slice", "dynamic_update_slice", "concatenate", "pad", "rev", "gather", "scatter",
    "scatter-add", "scatter-sub", "select_n", "copy", "reduce_sum", "cumsum", "stop_gradient"))
FUNCTIONS = frozenset((
    "div", "exp", "expm1", "log", "log1p", "logistic", "sqrt", "rsqrt", "sin", "cos", "tan", "sinh",
    "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "sign", "pow"))
MOST_POWER = 16  # that is written out
LONGEST = 4096  # numbers along an axis that a kernel transforms: of more a step is dispatches
LEAST_WHOLE, TIMES = 1 << 12, 4  # numbers of a matrix that is multiplied as it lies; as many times
# as the other operand has


class NoPairs(Exception):
    """An equation that is not written in the parts of its operands."""


# ---- a part of a complex function: real operands -> real
complex_part_p = Primitive("complex_part", elementwise=True, differentiable=False, memory="fresh",
                           function=True, weight=20)


def _part_abstract(*parts: ShapedArray, function: str, part: int) -> ShapedArray:
    """The real and imaginary parts of each operand, of one shape and dtype."""
    if len(parts) % 2 or any(x.shape != parts[0].shape or x.dtype != parts[0].dtype
                             or x.dtype.name not in ("float32", "float64") for x in parts):
        raise TypeError(explain("complex_part: takes pairs of float32 or float64 arrays of one "
                                "shape, got "
                                f"{', '.join(x.short() for x in parts)}."))
    return ShapedArray(parts[0].shape, parts[0].dtype)


complex_part_p.abstract = _part_abstract
complex_part_p.batch = ew.batch_elementwise(complex_part_p, scalars=False)


# ---- memory of complex numbers as one of real numbers, or back
as_pairs_p = Primitive("as_pairs", differentiable=False, memory="view")


def _as_pairs_abstract(x: ShapedArray) -> ShapedArray:
    """complex (...) as real (..., 2), and real (..., 2) as complex (...)."""
    if x.dtype.name in ("complex64", "complex128"):
        return ShapedArray((*x.shape, 2), real_dtype(x.dtype))
    if x.dtype.name not in ("float32", "float64") or x.shape[-1:] != (2,):
        raise TypeError(explain("as_pairs: takes complex numbers, or float32 or float64 with a "
                                f"last axis of 2, got {x.short()}."))
    return ShapedArray(x.shape[:-1], np.dtype(f"c{2 * x.dtype.itemsize}"))


as_pairs_p.abstract = _as_pairs_abstract
as_pairs_p.batch = lambda size, args, axes: (as_pairs_p.bind(move_axis(
    args[0], axes[0], 0)), 0)


# ---- a transform along one axis, of parts
fft_axis_p = Primitive("fft_axis", differentiable=False, memory="fresh", kernel="nest", weight=16,
                       multiple_results=True)


def _axis_abstract(*parts: ShapedArray, kind: str, axis: int, n: int) -> list[ShapedArray]:
    """The parts of `fft` along one axis of n numbers: kind FFT and IFFT of two parts, RFFT of one,
    IRFFT (one result) of two; the last two along the last axis."""
    x = parts[0]
    if len(parts) != 1 + (kind != "RFFT") or any(
            p.shape != x.shape or p.dtype != x.dtype for p in parts) or (
            x.dtype.name not in ("float32", "float64")):
        raise TypeError(explain(f"fft_axis: {kind} takes float32 or float64 parts of one shape, "
                                f"got {', '.join(p.short() for p in parts)}."))
    size = {"RFFT": n // 2 + 1, "IRFFT": n}.get(kind, x.shape[axis])
    out = ShapedArray((*x.shape[:axis], size, *x.shape[axis + 1:]), x.dtype)
    return [out] * (1 + (kind != "IRFFT"))


def _axis_batch(size: int, args: Sequence[Any], dims: Sequence[int | None], *, kind: str,
                axis: int, n: int) -> Any:
    """axis counts from the front, and one more comes before it."""
    moved = [to_front(x, d, size) for x, d in zip(args, dims)]
    outs = fft_axis_p.bind(*moved, kind=kind, axis=axis + 1, n=n)
    return outs, [0] * len(outs)


fft_axis_p.abstract, fft_axis_p.batch = _axis_abstract, _axis_batch


class _Whole:
    """Parts beside the complex arrays that they lie in, which some primitives take whole."""

    def __init__(self) -> None:
        # (array or None, the same as pairs, real part, imaginary part)
        self.known: list[tuple[Any, Any, Any, Any]] = []
        self.whole = set[Atom]()  # what is taken as it lies, by moves, transforms and callers

    def parts(self, z: Any) -> Parts:
        """The parts of a complex array in memory."""
        return self.taken(as_pairs_p.bind(z), z)

    def taken(self, both: Any, z: Any = None) -> Parts:
        """The parts of pairs in memory, (..., 2); z: the complex array, where there is one."""
        re, im = (_part_of(both, k, len(shape_of(both)) - 1) for k in (0, 1))
        self.known.append((z, both, re, im))
        return re, im

    def lying(self, x: Parts) -> tuple[Any, Any] | None:
        """What parts lie in: (array or None, pairs); None where they have been computed."""
        return next(((z, both) for z, both, re, im in self.known
                     if len(x) == 2 and x[0] is re and x[1] is im), None)

    def pairs(self, x: Parts) -> Any:
        """Parts as pairs."""
        known = self.lying(x)
        if known is not None:
            return known[1]
        re, im = x if len(x) == 2 else (x[0], _zeros(x[0]))
        shape = shape_of(re) or shape_of(im)
        columns = [sh.broadcast_in_dim(v, (*shape, 1), range(len(shape_of(v)))) for v in (re, im)]
        return registry["concatenate"].bind(*columns, dimension=len(shape))

    def array(self, x: Parts) -> Any:
        """The complex array of parts."""
        known = self.lying(x)
        return as_pairs_p.bind(self.pairs(x)) if known is None or known[0] is None else known[0]

    def moved(self, e: Equation, xs: Sequence[Parts]) -> Parts | None:
        """A move of what lies in memory, mostly; None where parts are moved, or nothing is.  Of
        what is computed on, only a smaller part of it is taken before it is taken apart."""
        which = [i for i, a in enumerate(e.inputs) if is_complex(a.aval)]
        lying = [i for i in which if self.lying(xs[i]) is not None]
        size = [a.aval.size for a in e.inputs]
        if e.name not in MOVES or not is_static((*size, e.outputs[0].aval.size)) or (
                e.outputs[0] not in self.whole and 2 * e.outputs[0].aval.size > size[0]) or (
                2 * sum(size[i] for i in lying) <= sum(size[i] for i in which)):
            return None
        fills = (1,) if e.name == "pad" else ()
        both = moved(e, [x if i in fills else self.pairs(x) if i in which else x[0]
                         for i, x in enumerate(xs)])
        return None if both is None else self.taken(both)

    def program(self, p: Program, xs: Sequence[Parts]) -> list[Parts]:
        """The results of a Program, of which inner ones with transforms are written out."""
        consts = [_parts(np.asarray(c)) if is_complex(v.aval) else (c,)
                  for v, c in zip(p.const_vars, p.consts)]
        self.whole.update(p.outputs)
        for e in reversed(p.equations):
            if e.name == "fft" or e.name in MOVES and not self.whole.isdisjoint(e.outputs):
                self.whole.update(e.inputs)
        return each(p, [*consts, *xs], lambda a: _parts(a.value), self.results)

    def results(self, e: Equation, xs: list[Parts]) -> Sequence[Parts]:
        if e.name == "jit" and has_transforms(e.params["jaxpr"]):
            return self.program(e.params["jaxpr"], xs)
        if e.name == "dot_general":
            return [self.product(e, *xs)]
        if e.name != "fft":
            made = self.moved(e, xs)
            return _results(e, xs) if made is None else [made]
        x = self.array(xs[0]) if is_complex(e.inputs[0].aval) else xs[0][0]
        out = e.primitive.bind(x, **e.params)
        return [self.parts(out) if is_complex(e.outputs[0].aval) else (out,)]

    def product(self, e: Equation, *xs: Parts) -> Parts:
        """dot_general; a matrix in memory that is much larger than the other operand is read once,
        as the real numbers that it is: its parts would be written and read twice each."""
        sizes = [a.aval.size for a in e.inputs]
        (cs, bs), kind = e.params["dimension_numbers"], e.params["preferred_element_type"]
        if all(len(x) == 2 for x in xs) and kind in (None, e.inputs[0].aval.dtype) and (
                cs[0] == cs[1] and bs[0] == bs[1] == tuple(range(len(bs[0]))) and all(
                    len(cs[0]) + len(bs[0]) == a.aval.ndim for a in e.inputs)):
            return tuple(registry["reduce_sum"].bind(v, axes=tuple(cs[0]), out_sharding=None)
                         for v in _mul(*xs))  # (no vectors for a kernel of products)
        i = int(not is_static(sizes) or sizes[1] > sizes[0])
        lying = self.lying(xs[i])
        if lying is None or len(xs[1 - i]) != 2 or kind not in (None, e.inputs[i].aval.dtype) or (
                not sizes[i] >= max(LEAST_WHOLE, TIMES * sizes[1 - i])):
            (made,) = _results(e, list(xs))
            return made
        c, d = xs[1 - i]
        mine, other = (list(cs[i]), list(bs[i])), (list(cs[1 - i]), list(bs[1 - i]))
        both, end = lying[1], len(shape_of(c))
        last = len(shape_of(both)) - 1
        params = {**e.params, "preferred_element_type": None}
        free = [last - len(cs[i]) - len(bs[i]), end - len(cs[i]) - len(bs[i])]  # of z, of the other
        lead = list(range(len(bs[i])))
        if mine[0] and mine[0][-1] == last - 1:  # z's rows, of pairs, lie along what is contracted
            rows = _stacked(c, ew.neg(d)), _stacked(d, c)
            shift = int(not free[1])  # vectors: each of both along memory, as the matrix' rows lie
            columns = sh.concatenate([sh.reshape(v, (1, *shape_of(v))) for v in rows], 0) if (
                shift) else _stacked(*rows)
            made = registry["dot_general"].bind(both, columns, **{**params, "dimension_numbers": (
                ([*mine[0], last], [k + shift for k in (*other[0], end)]),
                (mine[1], [k + shift for k in other[1]]))})
            if i == 0:
                return self.taken(made)
            re, im = (_part_of(made, k, len(shape_of(made)) - 1) for k in (0, 1))
            order = [*lead, *[len(lead) + free[0] + k for k in range(free[1])],
                     *[len(lead) + k for k in range(free[0])]]
            return sh.transpose(re, order), sh.transpose(im, order)
        made = registry["dot_general"].bind(_stacked(c, d), both, **{
            **params, "dimension_numbers": ((other[0], mine[0]), (other[1], mine[1]))})
        at = len(lead) + free[1]  # the axis of c and d; the last one is that of z's parts
        (p, q), (r, s) = ([_part_of(_part_of(made, k, len(shape_of(made)) - 1), n, at)
                           for k in (0, 1)] for n in (0, 1))
        re, im = ew.sub(p, s), ew.add(q, r)
        if i == 1:
            return re, im
        order = [*lead, *[at + k for k in range(free[0])],
                 *[len(lead) + k for k in range(free[1])]]
        return sh.transpose(re, order), sh.transpose(im, order)


def _stacked(x: Any, y: Any) -> Any:
    """Both along a new last axis."""
    shape = shape_of(x)
    return sh.concatenate([sh.broadcast_in_dim(v, (*shape, 1), range(len(shape)))
                           for v in (x, y)], len(shape))


def _part_of(x: Any, k: int, axis: int) -> Any:
    return sh.squeeze(sh.slice_in_dim(x, k, k + 1, axis=axis), (axis,))


def program_over_pairs(p: Program) -> Program:
    """p, which has no consts, with complex inputs and results as they are and everything between,
    but for transforms, on parts; NoPairs where an equation has no such form."""
    def write(*xs: Any) -> list[Any]:
        whole = _Whole()
        inputs = [whole.parts(x) if is_complex(v.aval) else (x,) for v, x in zip(p.inputs, xs)]
        made = whole.program(p, inputs)
        return [whole.array(x) if is_complex(o.aval) else x[0] for x, o in zip(made, p.outputs)]

    def staged() -> Program:
        with config.context("jax_enable_x64", True):
            return stage(write, [v.aval for v in p.inputs], p.name)

    return p.derived("over pairs", staged)


# ---- loops
def loop_in_pairs(e: Equation) -> Program | None:
    """A loop as a Program of that loop alone, on the parts of its operands; None where something in
    it has no such form."""
    try:
        return _staged([a.aval for a in e.inputs], lambda xs: _results(e, xs), e.name)
    except NoPairs:
        return None


def program_in_pairs(p: Program) -> Program:
    """p on parts; NoPairs where an equation has no such form."""
    def write(xs: list[Parts]) -> Sequence[Parts]:
        consts = [_parts(np.asarray(c)) if is_complex(v.aval) else (c,)
                  for v, c in zip(p.const_vars, p.consts)]
        return each(p, [*consts, *xs], lambda a: _parts(a.value), _results)

    return p.derived("in pairs", lambda: _staged([v.aval for v in p.inputs], write, p.name))


def is_complex(aval: Any) -> bool:
    return getattr(aval.dtype, "kind", "") == "c"


def _staged(avals: Sequence[Any], f: Callable[[list[Parts]], Sequence[Parts]], name: str
            ) -> Program:
    """The same whatever the user's settings are now: every number has the dtype that it says."""
    flat = [ShapedArray(a.shape, real_dtype(a.dtype) if is_complex(a) else a.dtype)
            for a in avals for _ in range(1 + is_complex(a))]
    with config.context("jax_enable_x64", True):
        return stage(lambda *xs: _flat(f(_grouped(avals, xs))), flat, name)


def _parts(value: Any) -> Parts:
    """A known value as parts."""
    if np.asarray(value).dtype.kind != "c":
        return (value,)
    return np.real(value), np.imag(value)


def _flat(groups: Sequence[Parts]) -> list[Any]:
    return [x for g in groups for x in g]


def _grouped(avals: Sequence[Any], xs: Sequence[Any]) -> list[Parts]:
    rest = iter(xs)
    return [tuple(next(rest) for _ in range(1 + is_complex(a))) for a in avals]


def _results(e: Equation, xs: list[Parts]) -> Sequence[Parts]:
    """The results of an equation on parts."""
    if e.inner:
        return _grouped([v.aval for v in e.outputs], _with_programs(e, xs))
    if not any(is_complex(a.aval) for a in (*e.inputs, *e.outputs)):
        out = e.primitive.bind(*[x for (x,) in xs], **e.params)
        return [(o,) for o in out] if e.primitive.multiple_results else [(out,)]
    form = FORMS.get(e.name)
    if form is not None:
        return [form(*xs, **e.params)]
    if e.name in ALIKE:
        return [tuple(e.primitive.bind(*[x[min(k, len(x) - 1)] for x in xs],
                                       **_of_part(e.params, k)) for k in (0, 1))]
    if e.name in FUNCTIONS and all(len(x) == 2 for x in xs):
        return [_function(e.name, *xs)]
    raise NoPairs(e.name)


def _of_part(params: Params, part: int) -> Params:
    """Parameters for the real or the imaginary part: of a gather's fill value its part."""
    fill = params.get("fill_value")
    if fill is None:
        return params
    return {**params, "fill_value": float((np.real, np.imag)[part](fill))}


def _with_programs(e: Equation, xs: list[Parts]) -> list[Any]:
    p: Params = e.params
    if e.name == "scan":
        consts, carry, rows = map(_flat, split_list(xs, p["num_consts"], p["num_carry"]))
        return scan(program_in_pairs(p["jaxpr"]), consts, carry, rows, length=p["length"],
                    reverse=p["reverse"], unroll=p["unroll"])
    if e.name == "while":
        before, inside, carry = map(_flat, split_list(xs, p["cond_nconsts"], p["body_nconsts"]))
        return while_loop(program_in_pairs(p["cond_jaxpr"]), before,
                          program_in_pairs(p["body_jaxpr"]), inside, carry)
    if e.name == "cond":
        return cond(xs[0][0], _flat(xs[1:]), [program_in_pairs(b) for b in p["branches"]])
    inner = p.get("jaxpr", p.get("call_jaxpr"))
    if inner is None or len(inner.inputs) != len(xs):
        raise NoPairs(e.name)
    return replay(program_in_pairs(inner), *_flat(xs))


# ---- equations whose results are more than the same of each part
def _alike(*xs: Any) -> Parts:
    """Operands of one shape; a number among them is spread."""
    shape = max(map(shape_of, xs), key=len)
    return tuple(x if shape_of(x) == shape else sh.broadcast_in_dim(x, shape, ()) for x in xs)


def _function(name: str, *xs: Parts) -> Parts:
    operands = _alike(*_flat(xs))
    return tuple(complex_part_p.bind(*operands, function=name, part=k) for k in (0, 1))


def _mul(x: Parts, y: Parts, **params: Any) -> Parts:
    (a, b), (c, d) = x, y
    return (ew.sub(ew.mul(a, c), ew.mul(b, d)), ew.add(ew.mul(a, d), ew.mul(b, c)))


def _square(x: Parts, **params: Any) -> Parts:
    """Exact where the parts cancel, which re re - im im is not, and where their sum overflows."""
    a, b = x
    both, less, more = ew.mul(a, b), ew.sub(a, b), ew.add(a, b)
    zero = _zeros(a)
    cancels = ew.or_(ew.eq(less, zero), ew.eq(more, zero))
    return ew.select_n(cancels, ew.mul(less, more), zero), ew.add(both, both)


def _integer_pow(x: Parts, *, y: int, **params: Any) -> Parts:
    """By squares, from the lowest bit, as lowering writes real powers."""
    if not 0 < abs(y) <= MOST_POWER:
        raise NoPairs("integer_pow")
    if y < 0:
        one = sh.broadcast_in_dim(np.dtype(x[0].dtype).type(1), shape_of(x[0]), ())
        return _function("div", (one, _zeros(one)), _integer_pow(x, y=-y))
    found: Parts | None = None
    while True:
        if y % 2:
            found = x if found is None else _mul(found, x)
        y //= 2
        if not y:
            assert found is not None
            return found
        x = _mul(x, x)


def _abs(x: Parts, **params: Any) -> Parts:
    return (complex_part_p.bind(*x, function="abs", part=0),)


def _convert(x: Parts, *, new_dtype: Any, **params: Any) -> Parts:
    if new_dtype.kind != "c":
        return (ew.convert(x[0], new_dtype),)
    real = ew.convert(x[0], real_dtype(new_dtype))
    return real, ew.convert(x[1], real_dtype(new_dtype)) if len(x) > 1 else _zeros(real)


def _zeros(x: Any) -> Any:
    return sh.broadcast_in_dim(np.dtype(x.dtype).type(0), shape_of(x), ())


def _dot(x: Parts, y: Parts, *, preferred_element_type: Any, **params: Any) -> Parts:
    if preferred_element_type is not None:
        preferred_element_type = real_dtype(preferred_element_type)

    def product(a: Any, b: Any) -> Any:
        return registry["dot_general"].bind(
            a, b, preferred_element_type=preferred_element_type, **params)

    (a, b), (c, d) = x, y
    return (ew.sub(product(a, c), product(b, d)), ew.add(product(a, d), product(b, c)))


def _prod(x: Parts, *, axes: Sequence[int], **params: Any) -> Parts:
    """By halves, as an adder tree would."""
    for axis in sorted(axes, reverse=True):
        n = shape_of(x[0])[axis]
        if not is_static((n,)) or not n:
            raise NoPairs("reduce_prod")
        while n > 1:
            half = n // 2
            first, second, left = ([sh.slice_in_dim(v, i, j, axis=axis) for v in x] for i, j in (
                (0, half), (half, 2 * half), (2 * half, n)))
            x = _mul(tuple(first), tuple(second))
            if n % 2:
                x = tuple(sh.concatenate([a, b], axis) for a, b in zip(x, left))
            n -= half
        x = tuple(sh.squeeze(v, (axis,)) for v in x)
    return x


def _fft(x: Parts, *, fft_type: Any, fft_lengths: Sequence[int]) -> Parts:
    """Axis by axis, the last one first; a transform to real numbers last."""
    if max(fft_lengths) > LONGEST or not min(fft_lengths):
        raise NoPairs("fft")
    kind, last = fft_type.name, len(shape_of(x[0])) - 1
    others = [last - i for i in range(1, len(fft_lengths))]
    each_axis = [(kind, last)] + [("IFFT" if kind[0] == "I" else "FFT", i) for i in others]
    if kind == "IRFFT":
        each_axis = each_axis[1:] + each_axis[:1]
    if kind != "RFFT" and len(x) == 1:
        x = (x[0], _zeros(x[0]))
    for name, axis in each_axis:
        n = fft_lengths[axis - last - 1]
        if n > 1 or name in ("RFFT", "IRFFT"):
            x = tuple(fft_axis_p.bind(*x, kind=name, axis=axis, n=n))
    return x


def _compared(x: Parts, y: Parts, *, equal: bool, **params: Any) -> Parts:
    join, each_part = (ew.and_, ew.eq) if equal else (ew.or_, ew.ne)
    return (join(each_part(x[0], y[0]), each_part(x[1], y[1])),)


FORMS: dict[str, Callable[..., Parts]] = {
    "mul": _mul, "square": _square, "integer_pow": _integer_pow, "abs": _abs,
    "real": lambda x: (x[0],), "imag": lambda x: (x[1],),
    "complex": lambda x, y: _alike(x[0], y[0]),
    "conj": lambda x, **params: (x[0], ew.neg(x[1])) if len(x) > 1 else (x[0], _zeros(x[0])),
    "convert_element_type": _convert, "dot_general": _dot, "fft": _fft,
    "reduce_prod": _prod,
    "is_finite": lambda x: (ew.and_(ew.is_finite(x[0]), ew.is_finite(x[1])),),
    "eq": lambda x, y: _compared(x, y, equal=True), "ne": lambda x, y: _compared(
        x, y, equal=False)}


def _program(p: Program) -> Program | None:
    try:
        return program_in_pairs(p)
    except NoPairs:
        return None


def _program_over(p: Program) -> Program | None:
    try:
        return program_over_pairs(p)
    except NoPairs:
        return None


forms.pairs, forms.over_pairs = _program, _program_over
registry["scan"].pairs = registry["while"].pairs = loop_in_pairs

__all__ = ["is_complex", "loop_in_pairs", "program_in_pairs", "program_over_pairs"]
