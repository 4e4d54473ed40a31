"""Elementwise primitives: the accurate forms live in lowering/math; here primitives are matched to
them, rank-0 operands are spread, and fusions that would read too many arrays are cut.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from calque.core.primitive import registry
from calque.core.program import Literal
from calque.core.types import Shape
from calque.lowering import math
from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.dtypes import BOOL
from calque.lowering.emit.registry import Op, Rule, rule, rules

Emit = Callable[..., Value]


def _broadcast(b: Builder, x: Value, shape: Shape) -> Value:
    return x if x.shape == shape else b.broadcast(x, shape, ())


def _noted(f: Rule) -> Rule:
    """A rule whose result is a part of the loop that reads its operands."""
    @functools.wraps(f)
    def emit(op: Op) -> Value:
        return op.ctx.fusion.note(f(op), op.operands)
    return emit


def pointwise(*names: str) -> Callable[[Emit], Emit]:
    """Register f(b, *values, **params) for primitives whose operands share the result's shape."""
    def register(f: Emit) -> Emit:
        def emit(op: Op) -> Value:
            return f(op.b, *[_broadcast(op.b, x, op.out.shape) for x in op.operands], **op.params)
        rule(*names)(_noted(emit))
        return f
    return register


# ---- arithmetic
@pointwise("add", "add_any")
def _add(b: Builder, x: Value, y: Value) -> Value:
    return x | y if x.dtype == BOOL else math.arithmetic(b, "add", x, y)


pointwise("sub")(lambda b, x, y: math.arithmetic(b, "subtract", x, y))
pointwise("mul")(lambda b, x, y: math.arithmetic(b, "multiply", x, y))
pointwise("neg")(lambda b, x: -x)
pointwise("integer_pow")(lambda b, x, *, y: math.TABLE["div"](  # of infinite complex numbers, too
    b, b.like(x, 1), math.integer_pow(b, x, -y)) if x.dtype.kind == "c" and y < 0
    else math.integer_pow(b, x, y))
pointwise("population_count")(lambda b, x: b.unary("popcnt", x))


@pointwise("square")
def _square(b: Builder, x: Value) -> Value:
    if x.dtype.kind != "c":
        return math.arithmetic(b, "multiply", x, x)
    # exact where the parts cancel, which re re - im im is not, and where their sum overflows
    re, im = b.real(x), b.imag(x)
    product, less, more = re * im, re - im, re + im
    return b.complex(b.select(less.eq(0.0) | more.eq(0.0), 0.0, less * more), product + product)


@pointwise("round")
def _round(b: Builder, x: Value, *, rounding_method: Any) -> Value:
    half = "away" if int(rounding_method) == 0 else "even"
    return math.TABLE[f"round_half_{half}"](b, x)


@rule("pow")
@_noted
def _pow(op: Op) -> Value:
    x, y = op.operands
    known = op.ctx.literals.get(y)
    x = _broadcast(op.b, x, op.out.shape)
    if isinstance(known, Literal) and x.dtype.kind == "f" and np.isreal(known.value):
        return math.pow_const(op.b, x, float(known.value))
    y = _broadcast(op.b, y, op.out.shape)
    return math.TABLE["pow"](op.b, x, y)


# ---- comparison: complex numbers by real part, then imaginary
def _compare(name: str) -> None:
    direction = name.upper()

    @pointwise(name)
    def emit(b: Builder, x: Value, y: Value) -> Value:
        if x.dtype.kind != "c" or direction in ("EQ", "NE"):
            return b.compare(direction, x, y)
        re = b.compare("EQ", b.real(x), b.real(y))
        strict = direction[0] + "T"
        return b.compare(strict, b.real(x), b.real(y)) | (
            re & b.compare(direction, b.imag(x), b.imag(y)))


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _compare(_name)

# ---- logic and shifts
pointwise("and")(lambda b, x, y: x & y)
pointwise("or")(lambda b, x, y: x | y)
pointwise("xor")(lambda b, x, y: x ^ y)
pointwise("not")(lambda b, x: ~x)


# ---- complex numbers
pointwise("real")(lambda b, x: b.real(x))
pointwise("imag")(lambda b, x: b.imag(x))
pointwise("complex")(lambda b, re, im: b.complex(re, im))


@pointwise("conj")
def _conj(b: Builder, x: Value) -> Value:
    if x.dtype.kind != "c":
        return b.complex(x, b.like(x, 0))
    return b.complex(b.real(x), -b.imag(x))


# ---- conversion
@rule("convert_element_type")
def _convert(op: Op) -> Value:
    return op.ctx.fusion.note(math.convert(op.b, op.x, op.out.dtype), op.operands)


@rule("bitcast_convert_type")
def _bitcast(op: Op) -> Value:
    return op.b.emit("bitcast_convert", op.operands, op.out.shape, op.out.dtype) \
        if op.x.dtype != op.out.dtype else op.x


# ---- choice
@rule("select_n")
def _select_n(op: Op) -> Value:
    b, (which, *cases) = op.b, op.operands
    if len(cases) == 1:
        return cases[0]
    shape = cases[0].shape
    if which.ndim < len(shape):  # a scalar, or the mask of an array of keys
        which = b.broadcast(which, shape, range(which.ndim))
    if which.dtype == BOOL:
        return op.ctx.fusion.note(b.select(which, cases[1], cases[0]), op.operands)
    result = cases[-1]
    for i in range(len(cases) - 2, -1, -1):
        result = b.select(which <= i if i == 0 else which.eq(i), cases[i], result)
    return op.ctx.fusion.note(result, op.operands)


@rule("copy", "stop_gradient")
def _copy(op: Op) -> Value:
    return op.x


# ---- the others: lowering/math keeps their forms under their names
for _name, _form in math.TABLE.items():
    if _name in registry and _name not in rules:
        pointwise(_name)(_form)
