"""How operations of StableHLO are read: elementwise, shapes, constants, calls, dynamic shapes.

ops_structured.py has the others.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from calque import lax
from calque.core import dtypes
from calque.core.avals import aval_of, dtype_of, is_complex, ndim_of, shape_of
from calque.core.dims import Dim, is_static
from calque.core.errors import explain
from calque.core.types import Axes, Function, Shape
from calque.export.errors import UnsupportedOperationError
from calque.export.hlo import Op
from calque.export.read import (
    LARGE,
    Reader,
    bind,
    case,
    concrete_value,
    handles,
    integer,
    ints,
    static_shape,
    used,
)
from calque.export.sizes import Sizes, computed, elements, settled
from calque.export.stream import damaged

BOOL = np.dtype(bool)

# ---- elementwise: StableHLO -> primitive
UNARY = {
    "negate": "neg", "sine": "sin", "cosine": "cos", "tan": "tan", "tanh": "tanh",
    "exponential": "exp", "exponential_minus_one": "expm1", "log": "log", "log_plus_one": "log1p",
    "logistic": "logistic", "sqrt": "sqrt", "rsqrt": "rsqrt", "cbrt": "cbrt", "ceil": "ceil",
    "floor": "floor", "abs": "abs", "is_finite": "is_finite", "not": "not",
    "popcnt": "population_count", "count_leading_zeros": "clz"}
BINARY = {
    "subtract": "sub", "divide": "div", "remainder": "rem", "maximum": "max", "minimum": "min",
    "and": "and", "or": "or", "xor": "xor", "atan2": "atan2", "complex": "complex",
    "shift_left": "shift_left", "shift_right_arithmetic": "shift_right_arithmetic",
    "shift_right_logical": "shift_right_logical"}
_ON_BOOLEANS = {"maximum": "or", "minimum": "and", "add": "or", "multiply": "and"}


def _truncated(x: Any, y: Any) -> Any:
    quotient = np.abs(x) // np.abs(y)
    return np.where((x < 0) != (y < 0), -quotient, quotient).astype(x.dtype)


_FOLDED: dict[str, Function] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum,
    "minimum": np.minimum, "negate": np.negative, "sign": np.sign, "abs": np.abs,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "not": np.invert, "select": np.where,
    "divide": _truncated, "remainder": lambda x, y: (x - _truncated(x, y) * y).astype(x.dtype)}


def folded(op: Op, xs: list[Any], f: Function | None = None) -> Any:
    """The result where all operands are known small integers; None otherwise."""
    if any(isinstance(x, Sizes) for x in xs):
        what = op.name if f is None or op.name == "clamp" else case(op, "comparison_direction")
        return computed(what, xs, op.results[0].dtype)
    f = f or _FOLDED.get(op.name)
    if f is None or not xs or any(concrete_value(x) is None or x.dtype.kind not in "biu"
                                  or x.size > LARGE for x in xs):
        return None
    if op.name in ("divide", "remainder") and (not np.all(xs[1]) or xs[0].dtype.kind == "b"):
        return None
    if any(x.shape != xs[-1].shape and x.shape for x in xs):
        raise damaged(f"{op.name} has operands of different shapes")
    with np.errstate(all="ignore"):
        return np.asarray(f(*xs))


def _same_shapes(op: Op, xs: list[Any]) -> None:
    if len({shape_of(x) for x in xs}) > 1 or len({dtype_of(x) for x in xs}) > 1:
        raise damaged(f"{op.name} has operands of different types")


def _decided(name: str, xs: list[Any]) -> Any:
    """`and`, `or` of a condition on sizes that is known and one that is not."""
    if name not in ("and", "or") or dtype_of(xs[0]) != BOOL or shape_of(xs[0]):
        return None
    for known, other in (xs, xs[::-1]):
        value = concrete_value(known)
        if value is not None:
            return known if bool(value) == (name == "or") else other
    return None


def _elementwise(name: str, primitive: str, arity: int) -> None:
    @handles(name)
    def read(r: Reader, op: Op, xs: list[Any]) -> Any:
        if len(xs) != arity:
            raise damaged(f"{name} takes {arity} operands")
        made = folded(op, xs)
        if made is not None:
            return made
        _same_shapes(op, xs)
        if (decided := _decided(name, xs)) is not None:
            return decided
        if name in _ON_BOOLEANS and dtype_of(xs[0]) == BOOL:
            return bind(_ON_BOOLEANS[name], *xs)
        if name == "abs" and dtypes.is_unsigned(dtype_of(xs[0])):
            return xs[0]
        return bind(primitive, *xs)


for _op, _primitive in UNARY.items():
    _elementwise(_op, _primitive, 1)
for _op, _primitive in {**BINARY, "add": "add", "multiply": "mul"}.items():
    _elementwise(_op, _primitive, 2)


@handles("real", "imag")
def _part(r: Reader, op: Op, xs: list[Any]) -> Any:
    if is_complex(xs[0]):
        return bind(op.name, xs[0])
    return xs[0] if op.name == "real" else lax.full_like(xs[0], 0)


@handles("sign")
def _sign(r: Reader, op: Op, xs: list[Any]) -> Any:
    made = folded(op, xs)
    return bind("sign", *xs) if made is None else made


@handles("power")
def _power(r: Reader, op: Op, xs: list[Any]) -> Any:
    _same_shapes(op, xs)
    return bind("pow", *xs)


@handles("round_nearest_even", "round_nearest_afz")
def _round(r: Reader, op: Op, xs: list[Any]) -> Any:
    method = lax.RoundingMethod.AWAY_FROM_ZERO if op.name.endswith("afz") \
        else lax.RoundingMethod.TO_NEAREST_EVEN
    return bind("round", *xs, rounding_method=method)


_COMPARE: dict[str, Function] = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater,
    "GE": np.greater_equal}


@handles("compare")
def _compare(r: Reader, op: Op, xs: list[Any]) -> Any:
    direction = case(op, "comparison_direction")
    made = folded(op, xs, _COMPARE[direction])
    if made is not None:
        return made
    _same_shapes(op, xs)
    if case(op, "compare_type") == "TOTALORDER" and dtypes.is_float(dtype_of(xs[0])):
        xs = [_total_order(x) for x in xs]
    return bind(direction.lower(), *xs)


def _total_order(x: Any) -> Any:
    """Integers in the order -NaN < -inf < ... < -0 < 0 < ... < NaN."""
    if dtype_of(x) in dtypes.FLOAT4:
        x = lax.convert_element_type(x, dtypes.float32)
    bits = np.dtype(f"i{dtype_of(x).itemsize}")
    i = bind("bitcast_convert_type", x, new_dtype=bits)
    flipped = bind("xor", i, np.asarray(np.iinfo(bits).max, bits))
    return bind("select_n", bind("lt", i, np.asarray(0, bits)), i, flipped)


@handles("select")
def _select(r: Reader, op: Op, xs: list[Any]) -> Any:
    made = folded(op, xs)
    if made is not None:
        return made
    which, on_true, on_false = xs
    return bind("select_n", which, on_false, on_true)


@handles("clamp")
def _clamp(r: Reader, op: Op, xs: list[Any]) -> Any:
    made = folded(op, xs, lambda low, x, high: np.minimum(np.maximum(x, low), high))
    return bind("clamp", *xs) if made is None else made


@handles("builtin.unrealized_conversion_cast")
def _as_it_is(r: Reader, op: Op, xs: list[Any]) -> Any:
    """Between the words of keys and keys, as JAX marks them."""
    return xs


@handles("convert", "uniform_quantize", "uniform_dequantize")
def _convert(r: Reader, op: Op, xs: list[Any]) -> Any:
    if op.name.startswith("uniform"):
        raise UnsupportedOperationError(f"{op.name}: quantized types are not supported.")
    (x,), to = xs, op.results[0].dtype
    if isinstance(x, Sizes) and to.kind in "iu":
        return Sizes(x.values, to)
    if (concrete_value(x) is not None and x.dtype.kind in "biu" and to.kind in "iu"
            and x.size <= LARGE):
        return x.astype(to)
    return lax.convert_element_type(used(x), to) if dtype_of(x) != to else x


@handles("bitcast_convert")
def _bitcast(r: Reader, op: Op, xs: list[Any]) -> Any:
    return bind("bitcast_convert_type", xs[0], new_dtype=op.results[0].dtype)


@handles("reduce_precision")
def _reduce_precision(r: Reader, op: Op, xs: list[Any]) -> Any:
    return bind("reduce_precision", xs[0], exponent_bits=integer(op, "exponent_bits"),
                mantissa_bits=integer(op, "mantissa_bits"))


# ---- constants and shapes
@handles("constant")
def _constant(r: Reader, op: Op, xs: list[Any]) -> Any:
    value = op.attributes["value"]
    if not isinstance(value, np.ndarray):
        raise damaged("a constant without value")
    return value


@handles("iota")
def _iota(r: Reader, op: Op, xs: list[Any]) -> Any:
    return bind("iota", dtype=op.results[0].dtype, shape=static_shape(op),
                dimension=integer(op, "iota_dimension"), sharding=None)


@handles("reshape")
def _reshape(r: Reader, op: Op, xs: list[Any]) -> Any:
    return _reshaped(xs[0], static_shape(op))


def _reshaped(x: Any, shape: Shape) -> Any:
    if isinstance(x, Sizes):
        return Sizes(x.values.reshape(shape), x.dtype)
    if concrete_value(x) is not None and x.size <= LARGE and x.size == int(np.prod(shape)):
        return x.reshape(shape)
    return bind("reshape", x, new_sizes=shape, dimensions=None, sharding=None)


@handles("transpose")
def _transpose(r: Reader, op: Op, xs: list[Any]) -> Any:
    return bind("transpose", xs[0], permutation=ints(op, "permutation"))


@handles("broadcast_in_dim")
def _broadcast(r: Reader, op: Op, xs: list[Any]) -> Any:
    return broadcast_in_dim(xs[0], static_shape(op), ints(op, "broadcast_dimensions"))


def broadcast_in_dim(x: Any, shape: Shape, dims: Axes) -> Any:
    """x with its axes at dims of the shape; axes of one element are repeated."""
    a = aval_of(x)
    if len(dims) != a.ndim or any(not 0 <= d < len(shape) for d in dims) or any(
            n not in (1, shape[d]) for n, d in zip(a.shape, dims)):
        raise damaged("a broadcast whose axes do not fit")
    known = isinstance(x, Sizes) or concrete_value(x) is not None
    if known and list(dims) == sorted(set(dims)) and is_static(shape):
        wide = [1] * len(shape)
        for n, d in zip(a.shape, dims):
            wide[d] = n
        if isinstance(x, Sizes):
            return Sizes(np.broadcast_to(x.values.reshape(wide), shape), x.dtype)
        return np.broadcast_to(x.reshape(wide), shape)
    return lax.broadcast_in_dim(used(x), shape, dims)


@handles("broadcast")
def _prefix(r: Reader, op: Op, xs: list[Any]) -> Any:
    n = len(ints(op, "broadcast_sizes"))
    return broadcast_in_dim(xs[0], static_shape(op), tuple(range(n, n + ndim_of(xs[0]))))


@handles("concatenate")
def _concatenate(r: Reader, op: Op, xs: list[Any]) -> Any:
    axis = integer(op, "dimension")
    if any(isinstance(x, Sizes) for x in xs) and all(
            isinstance(x, Sizes) or concrete_value(x) is not None for x in xs):
        return settled(np.concatenate([elements(x) for x in xs], axis), op.results[0].dtype)
    if all(concrete_value(x) is not None and x.dtype.kind in "iu" and x.size <= LARGE for x in xs):
        return np.concatenate(xs, axis)
    return bind("concatenate", *xs, dimension=axis)


@handles("slice")
def _slice(r: Reader, op: Op, xs: list[Any]) -> Any:
    start, limit, strides = (ints(op, n) for n in ("start_indices", "limit_indices", "strides"))
    (x,) = xs
    if isinstance(x, Sizes):
        return settled(x.values[tuple(slice(*b) for b in zip(start, limit, strides))], x.dtype)
    if (concrete_value(x) is not None and x.dtype.kind in "iu" and x.size <= LARGE
            and len(start) == x.ndim):
        return x[tuple(slice(*bounds) for bounds in zip(start, limit, strides))]
    return bind("slice", x, start_indices=start, limit_indices=limit,
                strides=None if set(strides) <= {1} else strides)


@handles("pad")
def _pad(r: Reader, op: Op, xs: list[Any]) -> Any:
    config = zip(*(ints(op, n) for n in ("edge_padding_low", "edge_padding_high",
                                         "interior_padding")), strict=True)
    return bind("pad", *xs, padding_config=tuple(config))


@handles("reverse")
def _reverse(r: Reader, op: Op, xs: list[Any]) -> Any:
    return bind("rev", xs[0], dimensions=ints(op, "dimensions"))


@handles("optimization_barrier")
def _barrier(r: Reader, op: Op, xs: list[Any]) -> Any:
    return list(bind("optimization_barrier", *xs)) if xs else []


@handles("create_token", "after_all")
def _token(r: Reader, op: Op, xs: list[Any]) -> Any:
    return [None]


# ---- shapes that are known when the module is called
@handles("get_dimension_size")
def _size(r: Reader, op: Op, xs: list[Any]) -> Any:
    size = shape_of(xs[0])[integer(op, "dimension")]
    return Sizes(size, np.int32) if isinstance(size, Dim) else np.asarray(size, np.int32)


def _sizes(op: Op, x: Any) -> Shape:
    if isinstance(x, Sizes):
        return x.tuple()
    value = concrete_value(x)
    if value is None or value.ndim != 1 or value.dtype.kind not in "iu":
        raise UnsupportedOperationError(explain(
            f"{op.name}: a shape that depends on the values of arrays cannot be read.",
            where="deserialize", fix="export the function with shapes of its arguments only."))
    return tuple(map(int, value))


@handles("dynamic_reshape")
def _dynamic_reshape(r: Reader, op: Op, xs: list[Any]) -> Any:
    return _reshaped(xs[0], _sizes(op, xs[1]))


@handles("dynamic_broadcast_in_dim")
def _dynamic_broadcast(r: Reader, op: Op, xs: list[Any]) -> Any:
    return broadcast_in_dim(xs[0], _sizes(op, xs[1]), ints(op, "broadcast_dimensions"))


@handles("dynamic_iota")
def _dynamic_iota(r: Reader, op: Op, xs: list[Any]) -> Any:
    return bind("iota", dtype=op.results[0].dtype, shape=_sizes(op, xs[0]),
                dimension=integer(op, "iota_dimension"), sharding=None)


@handles("dynamic_pad")
def _dynamic_pad(r: Reader, op: Op, xs: list[Any]) -> Any:
    x, value, *config = xs
    return bind("pad", x, value, padding_config=tuple(zip(*(_sizes(op, c) for c in config),
                                                          strict=True)))


@handles("real_dynamic_slice")
def _real_dynamic_slice(r: Reader, op: Op, xs: list[Any]) -> Any:
    if concrete_value(xs[1]) is None and not isinstance(xs[1], Sizes):
        return _moving_slice(r, op, xs)
    start, limit, strides = (_sizes(op, x) for x in xs[1:])
    return bind("slice", xs[0], start_indices=start, limit_indices=limit,
                strides=None if set(strides) <= {1} else strides)


def _moving_slice(r: Reader, op: Op, xs: list[Any]) -> Any:
    """From a computed start to start + sizes, as dynamic_slice with sizes is written."""
    x, start = xs[:2]
    maker = r.makers.get(op.operands[2])
    if maker is None or maker.name != "add" or maker.operands[0] is not op.operands[1]:
        _sizes(op, start)  # an error
    assert maker is not None
    sizes, strides = _sizes(op, r.env[maker.operands[1]]), _sizes(op, xs[3])
    if set(strides) - {1}:
        _sizes(op, start)
    at = [lax.index_in_dim(start, i, keepdims=False) for i in range(len(sizes))]
    return bind("dynamic_slice", x, *at, slice_sizes=sizes)


@handles("set_dimension_size")
def _set_size(r: Reader, op: Op, xs: list[Any]) -> Any:
    size, axis = concrete_value(xs[1]), integer(op, "dimension")
    if isinstance(xs[1], Sizes):
        size = xs[1].values[()]
    if size is None or size != shape_of(xs[0])[axis]:
        raise UnsupportedOperationError("set_dimension_size: arrays of bounded size are not "
                                        "supported.\n  Fix: export with other shapes.")
    return xs[0]
