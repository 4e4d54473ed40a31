"""The portable forms of primitives: elementwise, shapes, reductions, random numbers.

Most are one operation of StableHLO.  Functions that it lacks are lowering's decompositions.
forms_structured.py has the others.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.dims import Dim
from calque.core.lists import replaced, without
from calque.core.primitive import registry
from calque.core.types import Function
from calque.export.build import ints
from calque.export.hlo import Number
from calque.export.write import Use, Writer, rule, rules
from calque.lowering import math
from calque.lowering.emit.builder import Builder, Value
from calque.lowering.rules import Op
from calque.lowering.rules import rules as lowering_rules
from calque.lowering.rules.special import mulhi

BOOL, I32 = np.dtype(bool), np.dtype("i4")

# ---- elementwise: primitive -> StableHLO
PLAIN = {
    "sub": "subtract", "mul": "multiply", "neg": "negate", "div": "divide", "rem": "remainder",
    "exp": "exponential", "expm1": "exponential_minus_one", "log": "log", "log1p": "log_plus_one",
    "sqrt": "sqrt", "rsqrt": "rsqrt", "cbrt": "cbrt", "sin": "sine", "cos": "cosine", "tan": "tan",
    "tanh": "tanh", "logistic": "logistic", "atan2": "atan2", "floor": "floor", "ceil": "ceil",
    "and": "and", "or": "or", "xor": "xor", "not": "not", "shift_left": "shift_left",
    "shift_right_arithmetic": "shift_right_arithmetic",
    "shift_right_logical": "shift_right_logical", "population_count": "popcnt",
    "clz": "count_leading_zeros", "is_finite": "is_finite", "real": "real", "imag": "imag",
    "complex": "complex", "clamp": "clamp"}


def broadcast_scalars(use: Use) -> list[Value]:
    shape = use.out.shape
    return [x if x.shape == shape else use.b.broadcast(x, shape, ()) for x in use.operands]


def _plain(name: str, op: str) -> None:
    @rule(name)
    def emit(use: Use) -> Value:
        values = use.operands if name == "clamp" else broadcast_scalars(use)
        return use.b.one(op, values, use.out.shape, use.out.dtype)


def _decomposed(name: str, form: Callable[..., Value]) -> None:
    @rule(name)
    def emit(use: Use) -> Value:
        return form(use.b, *broadcast_scalars(use), **use.params)


def extremum(b: Builder, name: str, x: Value, y: Value) -> Value:
    """max or min; of complex numbers by real part, then imaginary; of booleans or and and."""
    if x.dtype.kind == "c":
        return math.TABLE[name](b, x, y)
    if x.dtype == BOOL:
        return x | y if name == "max" else x & y
    return b.binary(f"{name}imum", x, y)


def _comparison(b: Builder, x: Value, y: Value, *, direction: str) -> Value:
    """Complex numbers by real part, then imaginary."""
    if x.dtype.kind != "c" or direction in ("EQ", "NE"):
        return b.compare(direction, x, y)
    same = b.compare("EQ", b.real(x), b.real(y))
    return b.compare(direction[0] + "T", b.real(x), b.real(y)) | (
        same & b.compare(direction, b.imag(x), b.imag(y)))


for _name, _op in PLAIN.items():
    _plain(_name, _op)
_decomposed("square", lambda b, x: x * x)
_decomposed("integer_pow", lambda b, x, *, y: math.integer_pow(b, x, y))
_decomposed("mulhi", mulhi)
_decomposed("conj", lambda b, x: b.complex(b.real(x), -b.imag(x)) if x.dtype.kind == "c"
            else b.complex(x, b.like(x, 0)))
_decomposed("abs", lambda b, x: math.TABLE["abs"](b, x) if x.dtype.kind == "c" else abs(x))
_decomposed("max", lambda b, x, y: extremum(b, "max", x, y))
_decomposed("min", lambda b, x, y: extremum(b, "min", x, y))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _decomposed(_name, functools.partial(_comparison, direction=_name.upper()))
_decomposed("copy", lambda b, x: x)
_decomposed("stop_gradient", lambda b, x: x)
_decomposed("name", lambda b, x, *, name: x)


@rule("add", "add_any")
def _add(use: Use) -> Value:
    x, y = broadcast_scalars(use)
    return x | y if x.dtype == BOOL else x + y


@rule("sign")
def _sign(use: Use) -> Value:
    x = use.x
    if dtypes.is_unsigned(x.dtype):
        return use.b.select(x.eq(0), use.b.like(x, 0), use.b.like(x, 1))
    return use.b.unary("sign", x)


@rule("pow")
def _pow(use: Use) -> Value:
    x, y = broadcast_scalars(use)
    if dtypes.is_whole(x.dtype):
        return math.TABLE["pow"](use.b, x, y)
    return use.b.binary("power", x, y if y.dtype == x.dtype else y.astype(x.dtype))


@rule("round")
def _round(use: Use) -> Value:
    away = int(use["rounding_method"]) == 0
    return use.b.unary("round_nearest_afz" if away else "round_nearest_even", use.x)


@rule("convert_element_type")
def _convert(use: Use) -> Value:
    x, to = use.x, use.out.dtype
    if x.dtype.kind == "c" and to.kind != "c":
        x = use.b.real(x)
    if to == BOOL and x.dtype != BOOL:
        return x.ne(0)
    return x.astype(to)


@rule("bitcast_convert_type")
def _bitcast(use: Use) -> Value:
    same = use.x.dtype == use.out.dtype
    return use.x if same else use.b.one("bitcast_convert", use.operands, use.out.shape,
                                        use.out.dtype)


@rule("select_n")
def _select_n(use: Use) -> Value:
    b, (which, *cases) = use.b, use.operands
    if len(cases) == 1:
        return cases[0]
    shape = cases[0].shape
    if which.shape and len(which.shape) < len(shape):  # the mask of an array of keys
        which = b.broadcast(which, shape, range(len(which.shape)))
    if which.dtype == BOOL:
        return b.select(which, cases[1], cases[0])
    result = cases[-1]
    for i in range(len(cases) - 2, -1, -1):
        result = b.select(which < 1 if i == 0 else which.eq(i), cases[i], result)
    return result


@rule("reduce_precision")
def _reduce_precision(use: Use) -> Value:
    sizes = {k: Number(use[k], I32) for k in ("exponent_bits", "mantissa_bits")}
    return use.b.one("reduce_precision", use.operands, use.out.shape, use.out.dtype, **sizes)


# ---- shapes
@rule("reshape", "squeeze")
def _reshape(use: Use) -> Value:
    return use.b.reshape(use.x, use.out.shape)


@rule("transpose")
def _transpose(use: Use) -> Value:
    return use.b.transpose(use.x, use["permutation"])


@rule("broadcast_in_dim")
def _broadcast(use: Use) -> Value:
    return use.b.broadcast(use.x, use.out.shape, use["broadcast_dimensions"])


@rule("concatenate")
def _concatenate(use: Use) -> Value:
    return use.b.concatenate(use.operands, use["dimension"])


@rule("slice")
def _slice(use: Use) -> Value:
    return use.b.slice(use.x, use["start_indices"], use["limit_indices"], use["strides"])


@rule("pad")
def _pad(use: Use) -> Value:
    return use.b.pad(use.x, use.operands[1], use["padding_config"])


@rule("rev")
def _rev(use: Use) -> Value:
    return use.b.reverse(use.x, use["dimensions"])


@rule("iota")
def _iota(use: Use) -> Value:
    dtype = use.out.dtype
    if dtype == BOOL:
        return use.b.iota(use.out.shape, I32, use["dimension"]).ne(0)
    return use.b.iota(use.out.shape, dtype, use["dimension"])


# ---- reductions
_FOLD = {"reduce_sum": ("add", 0), "reduce_prod": ("multiply", 1), "reduce_and": ("and", -1),
         "reduce_or": ("or", 0), "reduce_xor": ("xor", 0)}


def reduced(w: Writer, xs: list[Value], starts: list[Any], axes: Any,
            body: Function) -> list[Value]:
    """stablehlo.reduce of operands of one shape; body(*accumulated, *elements)."""
    b = w.b
    gone = set(axes)
    shape = without(xs[0].shape, gone)
    scalars = [((), x.dtype) for x in xs]
    first = [b.splat(s, (), x.dtype) for s, x in zip(starts, xs)]
    return b.make("reduce", [*xs, *first], [(shape, x.dtype) for x in xs],
                  [b.region([*scalars, *scalars], body)], dimensions=ints(sorted(gone)))


@rule(*_FOLD)
def _fold(use: Use) -> Value:
    op, start = _FOLD[use.w.equation.name]
    x, axes = use.x, use["axes"]
    start = True if x.dtype == BOOL and start == -1 else start
    if not axes:
        return x
    return reduced(use.w, [x], [start], axes, lambda p, q: use.b.binary(op, p, q))[0]


def _extreme(name: str) -> None:
    @rule(f"reduce_{name}")
    def emit(use: Use) -> Value:
        start = dtypes.extreme(use.x.dtype, largest=name == "min")
        return reduced(use.w, use.operands, [start], use["axes"],
                       lambda p, q: extremum(use.b, name, p, q))[0]


_extreme("max")
_extreme("min")


@rule("argmax", "argmin")
def _arg(use: Use) -> Value:
    b, x = use.b, use.x
    direction = "GT" if use.w.equation.name == "argmax" else "LT"
    (axis,), dtype = use["axes"], use.out.dtype
    positions = b.iota(x.shape, I32, axis)

    def body(p: Value, i: Value, q: Value, j: Value) -> list[Value]:
        """As JAX writes it, so that readers know it: NaN wins, then the first position."""
        better = b.compare(direction, p, q) | b.compare("NE", p, p)
        first = better | (b.compare("EQ", p, q) & (i < j))
        return [b.select(better, p, q), b.select(first, i, j)]

    worst = dtypes.extreme(x.dtype, largest=direction == "LT")
    found = reduced(use.w, [x, positions], [worst, 0], [axis], body)[1]
    return found.astype(dtype)


# ---- cumulative: log n steps of shifted operands
@rule("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
def _cumulative(use: Use) -> Value:
    name, dtype = use.w.equation.name, use.x.dtype
    # halves are added up, and multiplied, in single precision, as everywhere
    wide = dtype.itemsize == 2 and dtypes.is_float(dtype) and name not in ("cummax", "cummin")
    x = use.x.astype(np.dtype("f4")) if wide else use.x
    return _accumulated(use.w, name, x, use["axis"], use["reverse"]).astype(dtype)


def _accumulated(w: Writer, name: str, x: Value, axis: int, reverse: bool) -> Value:
    b, n, step = w.b, x.shape[axis], 1
    if isinstance(n, Dim):
        return _cumulative_loop(w, name, x, axis, reverse)
    start: Any
    if name in ("cummax", "cummin"):
        start = dtypes.extreme(x.dtype, largest=name == "cummin")
    else:  # -0 keeps the sign of zeros
        start = {"cumsum": -0.0 if dtypes.is_float(x.dtype) else 0, "cumprod": 1}.get(name, -np.inf)
    while step < n:
        low, high = [0] * len(x.shape), list(x.shape)
        config = [(0, 0, 0)] * len(x.shape)
        if reverse:
            low[axis], config[axis] = step, (0, step, 0)
        else:
            high[axis], config[axis] = n - step, (step, 0, 0)
        moved = b.pad(b.slice(x, low, high), start, config)
        x = _joined(w, name, x, moved)
        step *= 2
    return x


def _cumulative_loop(w: Writer, name: str, x: Value, axis: int, reverse: bool) -> Value:
    """Slice by slice, along an axis of a size that is known at the call."""
    b, n = w.b, x.shape[axis]
    one = replaced(x.shape, axis, 1)
    zero = b.splat(0, (), I32)
    last = b.number(n, I32) - 1
    specs = [((), I32), (x.shape, x.dtype)]

    def row(y: Value, i: Value) -> Value:
        at = [i if a == axis else zero for a in range(len(x.shape))]
        return w.rows(y, at, one)

    def step(i: Value, made: Value) -> list[Value]:
        at = last - i if reverse else i
        before = at + 1 if reverse else at - 1
        new = _joined(w, name, row(x, at), row(made, before))
        starts = [at if a == axis else zero for a in range(len(x.shape))]
        return [i + 1, b.one("dynamic_update_slice", [made, new, *starts], x.shape, x.dtype)]

    regions = [b.region(specs, lambda i, made: i <= last), b.region(specs, step)]
    return b.make("while", [b.splat(1, (), I32), x], specs, regions)[1]


@rule("dim_as_value")
def _dim_as_value(use: Use) -> Value:
    return use.b.number(use["dim"], use.out.dtype)


def _joined(w: Writer, name: str, x: Value, y: Value) -> Value:
    if name in ("cummax", "cummin"):
        return extremum(w.b, name[3:], x, y)
    if name != "cumlogsumexp":
        return w.b.binary("add" if name == "cumsum" else "multiply", x, y)
    b = w.b
    if x.dtype.kind == "c":
        larger = b.compare("GE", b.real(x), b.real(y))
        high, low = b.select(larger, x, y), b.select(larger, y, x)
        grown = high + b.unary("log_plus_one", b.unary("exponential", low - high))
        return b.select(b.real(high).eq(-np.inf), high, grown)
    high, low = b.maximum(x, y), b.minimum(x, y)
    grown = high + b.unary("log_plus_one", b.unary("exponential", low - high))
    return b.select(b.isinf(high), high, grown)


# ---- random keys and bits: lowering's threefry, in StableHLO
class _Context:
    """What the rules of lowering/rules/random.py ask of their context."""

    def __init__(self, w: Writer) -> None:
        self.b, self.equation = w.b, w.equation
        self.fusion, self.closing = self, False  # of which XLA decides

    def note(self, value: Value, operands: Sequence[Value]) -> Value:
        """The value: nothing is cut here."""
        return value


def _from_lowering(name: str) -> None:
    @rule(name)
    def emit(use: Use) -> Any:
        context: Any = _Context(use.w)
        return lowering_rules[name](Op(use.operands, use.params, use.outs, context))


for _name in ("random_seed", "random_wrap", "random_unwrap", "random_split", "random_fold_in",
              "random_bits", "rng_bit_generator", "threefry2x32", "complex_part", "as_pairs"):
    _from_lowering(_name)


# ---- functions that StableHLO lacks: lowering's decompositions
for _name, _form in math.TABLE.items():
    if _name in registry and _name not in rules:
        _decomposed(_name, _form)
