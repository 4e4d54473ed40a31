"""Elementwise functions with a formula: hypot, logaddexp, sinc, heaviside, copysign, ldexp, ...

Formulas avoid NaN in their derivatives: a value that a `choose` discards is made harmless first.
"""
from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from calque.api.custom_derivatives import custom_jvp
from calque.core import dtypes
from calque.core.avals import dtype_of, shape_of
from calque.core.errors import explain
from calque.core.naming import alias
from calque.core.primitive import registry
from calque.core.zeros import factor
from calque.numpy import util
from calque.numpy.arithmetic import choose, constant, full_constant, pair
from calque.numpy.predicates import signbit
from calque.primitives import elementwise as ew


def _zero(x: Any) -> Any:
    return constant(x, 0)


@util.planned
def copysign(x1: Any, x2: Any, /) -> Any:
    """x1 with the sign of x2, as a float.

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
      >>> jnp.copysign(1.0, -2.0)
      Array(-1., dtype=float32, weak_type=True)
    """
    x, y = util.broadcast_all("copysign", *pair("copysign", x1, x2, "inexact"))
    if util.is_complex(x):
        raise TypeError(explain("copysign does not support complex-valued inputs"))
    size = ew.abs_(x)
    return choose(signbit(y), ew.neg(size), size)


@util.planned
def arctan2(x1: Any, x2: Any, /) -> Any:
    """Angle of the point (x2, x1) in radians, in [-pi, pi]; complex values are continued.

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
      >>> jnp.arctan2(0.0, 1.0)
      Array(0., dtype=float32, weak_type=True)
    """
    y, x = pair("arctan2", x1, x2, "inexact")
    if not util.is_complex(x):
        return ew.atan2(y, x)
    # -i log((x + iy) / sqrt(x**2 + y**2))
    turned = ew.add(x, ew.mul(constant(y, 1j), y))
    length = ew.sqrt(ew.add(ew.mul(x, x), ew.mul(y, y)))
    made = ew.log(ew.div(turned, length))
    return ew.mul(constant(made, -1j), made)


atan2 = alias(arctan2, "atan2")


@util.planned
def hypot(x1: Any, x2: Any, /) -> Any:
    """sqrt(x1**2 + x2**2) without overflow.

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
      >>> jnp.hypot(3, 4)
      Array(5., dtype=float32, weak_type=True)
    """
    x, y = util.broadcast_all("hypot", *pair("hypot", x1, x2, "inexact"))
    if util.is_complex(x):
        raise ValueError(explain(
            "jnp.hypot is not well defined for complex-valued inputs. Please convert to real "
            "values first, such as by using abs(x)"))
    x, y = ew.abs_(x), ew.abs_(y)
    inf = constant(x, np.inf)
    endless = ew.or_(ew.eq(x, inf), ew.eq(y, inf))
    large = ew.max_(x, y)
    empty = ew.eq(large, _zero(large))
    # the scale is a constant of derivatives: a tie of max has none of second order
    scale = ew.stop_gradient(choose(empty, constant(large, 1), large))
    total = ew.add(ew.square(ew.div(x, scale)), ew.square(ew.div(y, scale)))
    length = ew.mul(scale, ew.sqrt(choose(empty, constant(total, 1), total)))
    return choose(endless, full_constant(x, np.inf), choose(empty, large, length))


def _log_sum(name: str, x1: Any, x2: Any, power: Any, scale: float) -> Any:
    x, y = util.broadcast_all(name, *pair(name, x1, x2, "inexact"))
    if util.is_complex(x):
        return _complex_log_sum(x, y, power, scale)
    return _real_log_sum(x, y, power, scale)


@functools.partial(custom_jvp, nondiff_argnums=(2, 3))
def _real_log_sum(x: Any, y: Any, power: Any, scale: float) -> Any:
    apart = ew.sub(x, y)
    odd = ew.ne(apart, apart)  # NaN, or both infinite
    safe = choose(odd, full_constant(x, 0), apart)
    rest = ew.log1p(power(ew.neg(ew.abs_(safe))))
    if scale != 1.0:
        rest = ew.div(rest, factor(rest, scale))
    return choose(odd, ew.add(x, y), ew.add(ew.max_(x, y), rest))


@_real_log_sum.defjvp
def _log_sum_jvp(power: Any, scale: float, primals: Any, tangents: Any) -> Any:
    """Each term's share of the sum, smooth where they are equal (1 for infinities of one sign)."""
    x, y = primals
    endless = ew.and_(ew.eq(x, y), ew.eq(ew.abs_(x),
                                         constant(x, np.inf)))
    total = None
    for a, b, t in ((x, y, tangents[0]), (y, x, tangents[1])):
        apart = ew.sub(a, b)
        if scale != 1.0:
            apart = ew.mul(apart, factor(apart, scale))
        share = ew.mul(t, ew.logistic(
            choose(endless, full_constant(a, np.inf), apart)))
        total = share if total is None else ew.add(total, share)
    return _real_log_sum(x, y, power, scale), total


def _complex_log_sum(x: Any, y: Any, power: Any, scale: float) -> Any:
    swap = ew.lt(ew.real(x), ew.real(y))
    large, small = choose(swap, y, x), choose(swap, x, y)
    apart = ew.sub(small, large)
    odd = ew.ne(apart, apart)
    safe = choose(odd, full_constant(x, 0), apart)
    rest = ew.log1p(power(safe))
    if scale != 1.0:
        rest = ew.div(rest, constant(rest, scale))
    made = choose(odd, full_constant(x, complex(np.nan, np.nan)), ew.add(large, rest))
    # the imaginary part is an angle: bring it into (-pi, pi]
    re, im = ew.real(made), ew.imag(made)
    turn, half = constant(im, 2 * math.pi / scale), constant(im, math.pi / scale)
    shifted = ew.sub(half, im)
    wrapped = ew.sub(shifted, ew.mul(turn, ew.floor(
        ew.div(shifted, turn))))
    return ew.complex_(re, ew.sub(half, wrapped))


def logaddexp(x1: Any, x2: Any, /, *, out: None = None, where: None = None) -> Any:
    """log(exp(x1) + exp(x2)) without overflow.

    Args:
      x1: array or scalar.
      x2: array or scalar; dtypes are promoted, shapes broadcast.

    Returns:
      An array of the broadcast shape.

    Raises:
      TypeError: an argument is not an array.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.logaddexp(0.0, -jnp.inf)
      Array(0., dtype=float32, weak_type=True)
    """
    _no_keywords("logaddexp", out, where)
    return _logaddexp(x1, x2)


@util.planned
def _logaddexp(x1: Any, x2: Any) -> Any:
    return _log_sum("logaddexp", x1, x2, ew.exp_p.bind, 1.0)


def logaddexp2(x1: Any, x2: Any, /, *, out: None = None, where: None = None) -> Any:
    """log2(2**x1 + 2**x2) without overflow.

    Args:
      x1: array or scalar.
      x2: array or scalar; dtypes are promoted, shapes broadcast.

    Returns:
      An array of the broadcast shape.

    Raises:
      TypeError: an argument is not an array.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.logaddexp2(1.0, 1.0)
      Array(2., dtype=float32, weak_type=True)
    """
    _no_keywords("logaddexp2", out, where)
    return _logaddexp2(x1, x2)


@util.planned
def _logaddexp2(x1: Any, x2: Any) -> Any:
    def power(x: Any) -> Any:
        if util.is_complex(x):
            return ew.exp(ew.mul(x, constant(x, math.log(2.0))))
        return ew.exp2(x)

    return _log_sum("logaddexp2", x1, x2, power, math.log(2.0))


def _no_keywords(name: str, out: Any, where: Any) -> None:
    if out is not None or where is not None:
        raise NotImplementedError(explain(
            f"{'out' if out is not None else 'where'} argument of <jnp.ufunc {name!r}> is not "
            "supported.", fix="use the returned array, and jnp.where to choose."))


@util.planned
def sinc(x: Any, /) -> Any:
    """sin(pi x) / (pi x), 1 at 0.

    Args:
      x: array or scalar.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.sinc(0)
      Array(1., dtype=float32, weak_type=True)
    """
    (x,) = util.inexact_arrays("sinc", x)
    turned = ew.mul(factor(x, math.pi), x)
    # near 0 its series: the quotient's derivatives cancel there, and have no value at 0
    near = ew.lt(ew.abs_(turned), np.asarray(0.5, dtypes.real_dtype(dtype_of(x)))[()])
    square = ew.square(choose(near, turned, full_constant(x, 0)))
    terms = 10 if dtype_of(x).itemsize > 4 and dtype_of(x).name != "complex64" else 7
    series = full_constant(x, 0)
    for k in reversed(range(terms)):
        series = ew.add(constant(x, (-1) ** k / math.factorial(2 * k + 1)),
                        ew.mul(series, square))
    safe = choose(near, full_constant(x, 1), turned)
    return choose(near, series, ew.div(ew.sin(safe), safe))


@util.planned
def heaviside(x1: Any, x2: Any, /) -> Any:
    """0 below 0, x2 at 0, 1 above.

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
      >>> jnp.heaviside(0.0, 0.5)
      Array(0.5, dtype=float32, weak_type=True)
    """
    x, y = util.broadcast_all("heaviside", *pair("heaviside", x1, x2, "inexact"))
    if util.is_complex(x):
        raise TypeError(explain("heaviside does not support complex-valued inputs"))
    x, y = (util.cast(v, dtype_of(x)) for v in (x, y))
    middle = choose(ew.ne(x, x), x, y)
    upper = choose(ew.gt(x, _zero(x)), full_constant(x, 1), middle)
    made = choose(ew.lt(x, _zero(x)), full_constant(x, 0), upper)
    return util.of_scalars(made, x1, x2)


@util.planned
def ldexp(x1: Any, x2: Any, /) -> Any:
    """x1 * 2**x2.

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
      >>> jnp.ldexp(3.0, 2)
      Array(12., dtype=float32)
    """
    x, n = util.check_arrays("ldexp", x1, x2)
    a, b = dtype_of(x), dtype_of(n)
    if not dtypes.is_integer(b) and b != dtypes.bool_ or a.kind == "c":
        raise ValueError(explain(f"ldexp not supported for input types ({a!r}, {b!r})",
                                 fix="the second argument must be an integer array."))
    dtype = util.to_inexact(a)
    shape = util.common_shape("ldexp", [shape_of(x), shape_of(n)])
    x = util.broadcast_to(util.cast(x, dtype), shape)
    # what moves the least number beyond the largest; more would make infinity or 0 of 2**n, and
    # NaN of their products
    limits = dtypes.finfo(dtype)
    most = int(limits.maxexp - limits.minexp + limits.nmant + 1)
    wide = np.dtype(b) if b.itemsize >= 4 else np.dtype(np.int32)
    least = 0 if wide.kind == "u" else -most
    n = ew.clamp(util.cast(least, wide), util.array(util.cast(n, wide)), util.cast(most, wide))
    n = util.broadcast_to(util.cast(n, dtypes.int32), shape)  # (clamped before it is cut to that)
    # three factors, so that neither 2**n nor a product on the way leaves the dtype early
    third = ew.div(n, np.int32(3))
    rest = ew.sub(n, ew.mul(third, np.int32(2)))
    for part in (third, third, rest):
        x = ew.mul(x, ew.exp2(util.cast(part, dtype)))
    return x


@util.planned
def bitwise_count(x: Any, /) -> Any:
    """Number of bits that are 1 in |x|.

    Args:
      x: array or scalar.

    Returns:
      A uint8 array of x's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.bitwise_count(7)
      Array(3, dtype=uint8)
    """
    (x,) = util.promote_numeric("bitwise_count", x)
    if dtypes.is_signed(dtype_of(x)):
        x = ew.abs_(x)
    return util.cast(ew.population_count(x), np.dtype("uint8"))


def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None,
               neginf: Any = None) -> Any:
    """NaN and infinities replaced by numbers.

    Args:
      x: array or scalar.
      copy: must be True.
      nan: what NaN becomes.
      posinf: what +inf becomes; the dtype's largest number by default.
      neginf: what -inf becomes; the dtype's smallest number by default.

    Returns:
      An array of x's shape and dtype.

    Raises:
      TypeError: x is not an array.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.nan_to_num(jnp.nan)
      Array(0., dtype=float32)
    """
    return _nan_to_num(x, nan, posinf, neginf)


@util.planned
def _nan_to_num(x: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    x = util.one_array("nan_to_num", x)
    dtype = dtype_of(x)
    if not dtypes.is_inexact(dtype):
        return util.array(x)
    if dtype.kind == "c":
        return ew.complex_(_nan_to_num(ew.real(x), nan, posinf, neginf),
                           _nan_to_num(ew.imag(x), nan, posinf, neginf))
    info = dtypes.finfo(dtype)
    posinf = dtype.type(info.max) if posinf is None else posinf
    neginf = dtype.type(info.min) if neginf is None else neginf
    nan, posinf, neginf = (util.cast(v, dtype)
                           for v in util.check_arrays("nan_to_num", nan, posinf, neginf))
    x = util.cast(util.array(x), dtype)
    out = choose(ew.ne(x, x), nan, x)
    # one after the other, as in JAX: a `nan` that is infinite is replaced in its turn
    out = choose(ew.eq(out, constant(x, np.inf)), posinf, out)
    return choose(ew.eq(out, constant(x, -np.inf)), neginf, out)


@util.planned
def i0(x: Any, /) -> Any:
    """Modified Bessel function of the first kind of order 0.

    Args:
      x: array or scalar.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.i0(0.0)
      Array(1., dtype=float32, weak_type=True)
    """
    (x,) = util.promote_inexact("i0", x)
    if not dtypes.is_float(dtype_of(x)):
        raise ValueError(explain(f"Unsupported input type to jax.numpy.i0: {dtype_of(x)}",
                                 fix="pass real numbers."))
    return _i0(util.array(x))


@custom_jvp
def _i0(x: Any) -> Any:
    return ew.mul(ew.exp(ew.abs_(x)), registry["bessel_i0e"].bind(x))


@_i0.defjvp
def _i0_jvp(primals: Any, tangents: Any) -> Any:
    """I1: exp(|x|) has a kink at 0, I0 has none."""
    (x,), (t,) = primals, tangents
    return _i0(x), ew.mul(t, ew.mul(ew.exp(ew.abs_(x)), registry["bessel_i1e"].bind(x)))


__all__ = [
    "arctan2", "atan2", "bitwise_count", "copysign", "heaviside", "hypot", "i0", "ldexp",
    "logaddexp", "logaddexp2", "nan_to_num", "sinc"]
