"""Elementwise primitives: the accurate forms live in lowering/math; here primitives are matched to
them, rank-0 operands are spread, and fusions that would read too many arrays are cut.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray
from calque.core.primitive import registry
from calque.core.program import Literal
from calque.lowering import math
from calque.lowering.builder import Builder, Value
from calque.lowering.context import Context
from calque.lowering.rules.registry import rule, rules

Emit = Callable[..., Value]


def _spread(b: Builder, x: Value, shape: tuple[int, ...]) -> Value:
    return x if x.shape == shape else b.broadcast(x, shape, ())


def pointwise(*names: str) -> Callable[[Emit], Emit]:
    """Register f(b, *values, **params) for primitives whose operands share the result's shape."""
    def register(f: Emit) -> Emit:
        @rule(*names)
        def emit(ctx: Context, xs: list[Value], params: dict[str, Any],
                 outs: list[ShapedArray]) -> Value:
            values = [_spread(ctx.b, x, outs[0].shape) for x in xs]
            return ctx.fusion.note(f(ctx.b, *values, **params), xs)
        return f
    return register


# ---- arithmetic
@pointwise("add", "add_any")
def _add(b: Builder, x: Value, y: Value) -> Value:
    return x | y if x.dtype == np.dtype(bool) else x + y


pointwise("sub")(lambda b, x, y: x - y)
pointwise("mul")(lambda b, x, y: x * y)
pointwise("neg")(lambda b, x: -x)
pointwise("square")(lambda b, x: x * x)
pointwise("integer_pow")(lambda b, x, *, y: math.TABLE["div"](  # of infinite complex numbers, too
    b, b.like(x, 1), math.integer_pow(b, x, -y)) if x.dtype.kind == "c" and y < 0
    else math.integer_pow(b, x, y))
pointwise("population_count")(lambda b, x: b.unary("popcnt", x))


@pointwise("round")
def _round(b: Builder, x: Value, *, rounding_method: Any) -> Value:
    half = "away" if int(rounding_method) == 0 else "even"
    return math.TABLE[f"round_half_{half}"](b, x)


@rule("pow")
def _pow(ctx: Context, xs: list[Value], params: dict[str, Any], outs: list[ShapedArray]) -> Value:
    x, y = xs
    known = ctx.literals.get(y)
    x = _spread(ctx.b, x, outs[0].shape)
    if isinstance(known, Literal) and x.dtype.kind == "f" and np.isreal(known.value):
        return ctx.fusion.note(math.pow_const(ctx.b, x, float(known.value)), xs)
    y = _spread(ctx.b, y, outs[0].shape)
    return ctx.fusion.note(math.TABLE["pow"](ctx.b, x, y), xs)


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
def _convert(ctx: Context, xs: list[Value], params: dict[str, Any],
             outs: list[ShapedArray]) -> Value:
    return ctx.fusion.note(math.convert(ctx.b, xs[0], outs[0].dtype), xs)


@rule("bitcast_convert_type")
def _bitcast(ctx: Context, xs: list[Value], params: dict[str, Any],
             outs: list[ShapedArray]) -> Value:
    return ctx.b.emit("bitcast_convert", xs, outs[0].shape, outs[0].dtype) \
        if xs[0].dtype != outs[0].dtype else xs[0]


# ---- choice
@rule("select_n")
def _select_n(ctx: Context, xs: list[Value], params: dict[str, Any],
              outs: list[ShapedArray]) -> Value:
    b, (which, *cases) = ctx.b, xs
    if len(cases) == 1:
        return cases[0]
    shape = cases[0].shape
    if len(which.shape) < len(shape):  # a scalar, or the mask of an array of keys
        which = b.broadcast(which, shape, range(len(which.shape)))
    if which.dtype == np.dtype(bool):
        return ctx.fusion.note(b.select(which, cases[1], cases[0]), xs)
    result = cases[-1]
    for i in range(len(cases) - 2, -1, -1):
        result = b.select(which <= i if i == 0 else which.eq(i), cases[i], result)
    return ctx.fusion.note(result, xs)


@rule("copy", "stop_gradient")
def _copy(ctx: Context, xs: list[Value], params: dict[str, Any],
          outs: list[ShapedArray]) -> Value:
    return xs[0]


# ---- the others: lowering/math keeps their forms under their names
for _name, _form in math.TABLE.items():
    if _name in registry and _name not in rules:
        pointwise(_name)(_form)
