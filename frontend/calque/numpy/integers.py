"""Numbers taken apart: gcd, lcm, frexp, spacing, packbits, unpackbits."""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.api.custom_derivatives import custom_jvp
from calque.api.loops import while_loop
from calque.core import dtypes
from calque.core.avals import dtype_of, shape_of
from calque.core.errors import explain
from calque.numpy import reductions as rd
from calque.numpy import util
from calque.numpy.arithmetic import absolute
from calque.numpy.logic import where
from calque.numpy.shapes import moveaxis, with_axis
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh


# ---- common divisors
def _integers(name: str, x1: Any, x2: Any) -> tuple[Any, Any, bool]:
    x1, x2 = util.check_arrays(name, x1, x2)
    dtype, weak = util.joined((x1, x2))
    if not dtypes.is_integer(dtype):
        raise ValueError(explain(f"Arguments to jax.numpy.{name} must be integers.",
                                 fix="convert them with astype(int)."))
    x1, x2 = (util.array(util.cast(v, dtype)) for v in (x1, x2))
    return (*util.broadcast_all(name, x1, x2), weak)


def _gcd(x: Any, y: Any) -> Any:
    """Euclid's algorithm; elements that are done are left alone."""
    def step(pair: Any) -> Any:
        a, b = pair
        rest = where(b != 0, ew.rem(a, where(b != 0, b, 1)), 0)
        return where(b != 0, b, a), rest

    # (the least integer has no absolute value: its remainders are negative)
    return absolute(
        while_loop(lambda pair: rd.any(pair[1] != 0), step, (absolute(x), absolute(y)))[0])


@util.planned
def gcd(x1: Any, x2: Any) -> Any:
    """Greatest common divisor of integers; never negative.

    Args:
      x1: array or scalar.
      x2: array or scalar; dtypes are promoted, shapes broadcast.

    Returns:
      An array of the broadcast shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.gcd(12, 18)
      Array(6, dtype=int32, weak_type=True)
    """
    x1, x2, weak = _integers("gcd", x1, x2)
    return ew.convert(_gcd(x1, x2), dtype_of(x1), weak)


@util.planned
def lcm(x1: Any, x2: Any) -> Any:
    """Least common multiple of integers; never negative.

    Args:
      x1: array or scalar.
      x2: array or scalar; dtypes are promoted, shapes broadcast.

    Returns:
      An array of the broadcast shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.lcm(4, 6)
      Array(12, dtype=int32, weak_type=True)
    """
    x1, x2, weak = _integers("lcm", x1, x2)
    x1, x2 = absolute(x1), absolute(x2)
    divisor = _gcd(x1, x2)
    none = divisor == 0
    made = where(none, 0, x1 * ew.div(x2, where(none, 1, divisor)))
    return ew.convert(made, dtype_of(x1), weak)


# ---- floats as bits
def _parts(name: str, x: Any) -> tuple[Any, Any, Any, Any]:
    """(x, its bits, the dtype of the bits, finfo)."""
    (x,) = util.promote_inexact(name, x)
    dtype = dtype_of(x)
    if dtype.kind == "c":
        raise (ValueError if name == "spacing" else TypeError)(  # JAX's classes
            explain(f"jnp.{name} is not defined for complex inputs.",
                           fix="use the real and the imaginary part."))
    x = ew.convert(util.array(x), dtype)
    kind = np.dtype(f"uint{dtype.itemsize * 8}")
    return x, ew.bitcast_convert_type(x, new_dtype=kind), kind, dtypes.finfo(dtype)


def _exponent(bits: Any, kind: Any, info: Any) -> Any:
    """The biased exponent as int32."""
    shifted = ew.shift_right_logical(bits, kind.type(info.nmant))
    masked = ew.and_(shifted, kind.type((1 << info.nexp) - 1))
    return ew.convert(masked, dtypes.int32)


@util.planned
def frexp(x: Any, /) -> tuple[Any, Any]:
    """Mantissa in [0.5, 1) and exponent: x = mantissa * 2**exponent.

    Args:
      x: array or scalar.

    Returns:
      Two arrays: the mantissas and int32 exponents.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.frexp(8.0)
      (Array(0.5, dtype=float32), Array(4, dtype=int32))
    """
    x, bits, kind, info = _parts("frexp", x)
    bias = (1 << (info.nexp - 1)) - 1
    mantissa = ew.and_(bits, kind.type((1 << info.nmant) - 1))
    field = _exponent(bits, kind, info)
    small = (field == 0) & (mantissa != 0)
    # subnormal: the mantissa is brought to its place, the exponent counts the steps
    lead = ew.convert(ew.clz(mantissa), dtypes.int32) - (info.bits - info.nmant - 1)
    moved = ew.shift_left(mantissa, ew.convert(where(small, lead, 0), kind))
    mantissa = ew.and_(where(small, moved, mantissa), kind.type((1 << info.nmant) - 1))
    exponent = where(small, 1 - lead, field) - (bias - 1)
    sign = ew.and_(bits, kind.type(1 << (info.bits - 1)))
    half = ew.or_(ew.or_(sign, mantissa), kind.type((bias - 1) << info.nmant))
    plain = (field != (1 << info.nexp) - 1) & ((field != 0) | small)
    out = ew.bitcast_convert_type(half, new_dtype=dtype_of(x))
    power = where(plain, exponent, 0)
    return _mantissa(x, where(plain, out, x), power), power


@custom_jvp
def _mantissa(x: Any, mantissa: Any, power: Any) -> Any:
    """The mantissa, which is x * 2**-power: its bits do not say so to derivatives."""
    return mantissa


@_mantissa.defjvp
def _mantissa_jvp(primals: Any, tangents: Any) -> Any:
    x, mantissa, power = primals
    scale = ew.exp2(ew.neg(ew.convert(power, dtype_of(x))))
    return mantissa, ew.mul(tangents[0], scale)


@util.planned
def spacing(x: Any, /) -> Any:
    """Distance from x to the next number of its dtype, with x's sign from float32 on; NaN for
    infinities.

    Args:
      x: array or scalar.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.spacing(1.0)
      Array(1.1920929e-07, dtype=float32)
    """
    x, bits, kind, info = _parts("spacing", x)
    field = _exponent(bits, kind, info)
    normal = field > info.nmant
    whole = ew.shift_left(
        ew.convert(where(normal, field - info.nmant, 0), kind), kind.type(info.nmant))
    low = ew.shift_left(
        util.broadcast_to(kind.type(1), shape_of(x)),
        ew.convert(where(normal | (field == 0), 0, field - 1), kind))
    sign = ew.and_(bits, kind.type(1 << (info.bits - 1)))
    made = where(normal, whole, low)
    if dtype_of(x) != np.float16:  # (NumPy: distances of halves have no sign)
        made = ew.or_(sign, made)
    out = ew.bitcast_convert_type(made, new_dtype=dtype_of(x))
    return where(field == (1 << info.nexp) - 1, dtype_of(x).type(np.nan), out)


# ---- bits as bytes
def _order(bitorder: str) -> Any:
    if bitorder not in ("little", "big"):
        raise ValueError(explain("'order' must be either 'little' or 'big'",
                                 fix=f"not {bitorder!r}."))
    places = np.arange(8, dtype=np.uint8)
    return places[::-1].copy() if bitorder == "big" else places


def _last(x: Any, axis: Any) -> tuple[Any, int]:
    """x with the axis last (flattened for None), and the axis."""
    x, axis = with_axis(util.array(x), axis)
    return moveaxis(x, axis, -1), axis


@util.planned
def packbits(a: Any, axis: int | None = None, bitorder: str = "big") -> Any:
    """Bits (values other than 0 count as 1) packed into uint8, eight by eight.

    Args:
      a: array of bool or integer dtype.
      axis: the axis to pack; None for the flattened array.
      bitorder: 'big' (the first bit is worth 128) or 'little' (it is worth 1).

    Returns:
      A uint8 array; the last byte is filled up with 0.

    Raises:
      TypeError: a is of another dtype.
      ValueError: the axis is out of bounds, or bitorder is unknown.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.packbits(jnp.array([1, 0, 0, 0, 0, 0, 1, 1, 1]))
      Array([131, 128], dtype=uint8)
    """
    a = util.one_array("packbits", a)
    if not dtypes.is_whole(dtype_of(a)):
        raise TypeError(explain("Expected an input array of integer or boolean data type",
                                fix="compare it, for example a != 0."))
    places = _order(bitorder)
    with util.lazy_eval("packbits"):
        x, axis = _last(a, axis)
        shape = shape_of(x)
        if not shape:
            x, shape = sh.reshape(x, (1,)), (1,)
        bits = ew.convert(x, np.dtype("bool"))
        missing = -shape[-1] % 8
        if missing:
            config = ((0, 0, 0),) * (len(shape) - 1) + ((0, missing, 0),)
            bits = sh.pad(bits, np.bool_(False), config)
        bits = sh.reshape(bits, (*shape[:-1], (shape[-1] + missing) // 8, 8))
        values = ew.shift_left(ew.convert(bits, np.dtype("uint8")),
                               util.broadcast_to(places, shape_of(bits)))
        packed = rd.sum(values, axis=-1, dtype=np.uint8)
        return moveaxis(packed, -1, axis) if len(shape) > 1 else packed


@util.planned
def unpackbits(a: Any, axis: int | None = None, count: int | None = None,
               bitorder: str = "big") -> Any:
    """The bits of uint8 values, eight for each.

    Args:
      a: uint8 array.
      axis: the axis to unpack; None for the flattened array.
      count: how many bits to return (more are filled with 0); less than 0: how many to leave out.
      bitorder: 'big' (the first bit is worth 128) or 'little' (it is worth 1).

    Returns:
      A uint8 array of 0 and 1.

    Raises:
      TypeError: a is of another dtype.
      ValueError: the axis is out of bounds, or bitorder is unknown.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.unpackbits(jnp.array([131], dtype="uint8"))
      Array([1, 0, 0, 0, 0, 0, 1, 1], dtype=uint8)
    """
    a = util.one_array("unpackbits", a)
    if dtype_of(a) != np.dtype("uint8"):
        raise TypeError(explain("Expected an input array of unsigned byte data type",
                                fix="convert it with astype('uint8')."))
    places = _order(bitorder)
    with util.lazy_eval("unpackbits"):
        x, axis = _last(a, axis)
        shape = shape_of(x)
        full = (*shape, 8)
        spread = sh.broadcast_in_dim(x, full, tuple(range(len(shape))))
        bits = ew.and_(
            ew.shift_right_logical(spread, util.broadcast_to(places, full)), np.uint8(1))
        total = shape[-1] * 8 if shape else 8
        bits = sh.reshape(bits, (*shape[:-1], total))
        if count is not None:
            wanted = count if count >= 0 else max(total + count, 0)
            if wanted != total:
                config = ((0, 0, 0),) * max(len(shape) - 1, 0) + ((0, wanted - total, 0),)
                bits = sh.pad(bits, np.uint8(0), config)
        return moveaxis(bits, -1, axis) if len(shape) > 1 else bits


__all__ = ["frexp", "gcd", "lcm", "packbits", "spacing", "unpackbits"]
