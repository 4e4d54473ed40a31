"""Continuous distributions made from uniform and normal numbers by a formula.

Formulas and the splitting of keys are JAX's, so that draws agree within rounding.
Start reading at `exponential`; those made from gamma variates are in gamma.py.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque import lax
from calque import numpy as jnp
from calque.core import dtypes
from calque.core.config import config
from calque.core.errors import explain
from calque.core.types import Dtype, Shape
from calque.dispatch.array import Array
from calque.dispatch.eager import lazy_eval
from calque.dispatch.replay import planned
from calque.dispatch.sharded.placing import resharding
from calque.primitives import elementwise as ew
from calque.random import normal_tails
from calque.random.bits import draw_normal, draw_rademacher, draw_uniform, parameters, raw_bits
from calque.random.keys import as_shape, float_dtype, key_of, subkeys


def limits(d: Dtype) -> Any:
    """finfo of a float dtype."""
    return dtypes.finfo(d)


def _number(d: Dtype, value: Any) -> Any:
    return np.asarray(value).astype(d)[()]


# ---- without parameters
def draw_exponential(key: Any, shape: Shape, d: Dtype) -> Any:
    """-log(1 - u) of a typed key."""
    return -lax.log1p(-draw_uniform(key, shape, d))


@resharding
@planned
def exponential(key: Any, shape: Any = (), dtype: Any = None, *,
                out_sharding: Any = None) -> Array:
    """Exponential numbers with mean 1: -log(1 - u).

    Args:
      key: a PRNG key.
      shape: of the result.
      dtype: float dtype (default float32, float64 with x64).
      out_sharding: of the result, over Explicit axes (NamedSharding or PartitionSpec).

    Returns:
      An array of that shape and dtype.

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys, or dtype is no such dtype.

    Example:
      >>> import calque.random as random
      >>> key = random.PRNGKey(0)
      >>> print(random.exponential(key, (2,)).round(4))
      [0.2437 1.6303]
    """
    d = float_dtype("exponential", dtype)
    with lazy_eval("exponential"):
        return draw_exponential(key_of("exponential", key), as_shape("exponential", shape), d)


def draw_gumbel(key: Any, shape: Shape, d: Dtype, mode: str | None) -> Any:
    """-log(-log(u)) of a typed key; two uniform numbers in mode 'high', 64 bits in 'highest'."""
    if mode is None:
        mode = "high" if config.jax_high_dynamic_range_gumbel else "low"
    if mode not in ("low", "high", "highest"):
        raise ValueError(explain(f"Must provide valid mode for gumbel got: {mode}.",
                                 fix="use 'low', 'high' or 'highest'."))
    if mode == "highest" and d == dtypes.float32:
        return _gumbel_of_64_bits(raw_bits(key, 32, (2, *shape)))
    tiny = limits(d).tiny
    if mode == "low":
        return -lax.log(-lax.log(draw_uniform(key, shape, d, tiny, 1)))
    u = draw_uniform(key, (2, *shape), d)
    first, second = u[0], u[1]
    fine = first + _number(d, 2.0 ** -limits(d).nmant) * second + _number(d, tiny)
    x = jnp.where(first >= _number(d, 0.5), first, fine)
    return -lax.log(-lax.log1p(-x))


def _gumbel_of_64_bits(words: Any) -> Any:
    """-log(-log(u)) of u = (high 2^32 + low) / 2^64; of the larger half from 1 - u, exactly."""
    high, low = words[0], words[1]
    small = high < _number(high.dtype, 1 << 31)
    rest = ~low + _number(low.dtype, 1)  # of 2^64 - u, with what it carries into the high word
    carried = ~high + (low == 0).astype(high.dtype)
    x = _fraction(jnp.where(small, high, carried), jnp.where(small, low, rest))
    return -lax.log(-jnp.where(small, lax.log1p(-x), lax.log(x)))


def _fraction(high: Any, low: Any) -> Any:
    """(high 2^32 + low) / 2^64 cut to 24 bits; 2^-65 of 0."""
    zeros, more = lax.clz(high), lax.clz(low)
    empty, n = zeros == 32, _number(high.dtype, 32)
    # (a shift by 32 gives 0)
    first = lax.shift_left(high, zeros) | jnp.where(
        empty, lax.shift_left(low, more), lax.shift_right_logical(low, n - zeros))
    exponent = _number(high.dtype, 126) - jnp.where(empty, n + more, zeros)
    return lax.bitcast_convert_type(
        exponent << 23 | first >> 8 & _number(high.dtype, (1 << 23) - 1), np.float32)


@resharding
@planned
def gumbel(key: Any, shape: Any = (), dtype: Any = None, mode: str | None = None, *,
           out_sharding: Any = None) -> Array:
    """Gumbel numbers: -log(-log(u)).

    Args:
      key: a PRNG key.
      mode: 'low' (one uniform number, the default), 'high' (two, for exact far tails) or
        'highest' (64 bits, rounded once; float32); jax_high_dynamic_range_gumbel makes 'high' the
        default.
      shape: of the result.
      dtype: float dtype (default float32, float64 with x64).
      out_sharding: of the result, over Explicit axes (NamedSharding or PartitionSpec).

    Returns:
      An array of that shape and dtype.

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys, or dtype is no such dtype.
      ValueError: mode is unknown.

    Example:
      >>> import calque.random as random
      >>> key = random.PRNGKey(0)
      >>> print(random.gumbel(key, (2,)).round(4))
      [-0.426   1.5233]
    """
    d = float_dtype("gumbel", dtype)
    with lazy_eval("gumbel"):
        return draw_gumbel(key_of("gumbel", key), as_shape("gumbel", shape), d, mode)


@resharding
@planned
def laplace(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Laplace numbers: density exp(-|x|) / 2.

    Args:
      key: a PRNG key.
      shape: of the result.
      dtype: float dtype (default float32, float64 with x64).
      out_sharding: of the result, over Explicit axes (NamedSharding or PartitionSpec).

    Returns:
      An array of that shape and dtype.

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys, or dtype is no such dtype.

    Example:
      >>> import calque.random as random
      >>> key = random.PRNGKey(0)
      >>> print(random.laplace(key, (2,)).round(4))
      [ 0.838  -0.9371]
    """
    d = float_dtype("laplace", dtype)
    with lazy_eval("laplace"):
        low = np.nextafter(_number(d, -1), _number(d, 0), dtype=d)
        u = draw_uniform(key_of("laplace", key), as_shape("laplace", shape), d, low, 1)
        return lax.sign(u) * lax.log1p(-lax.abs(u))


@resharding
@planned
def logistic(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Logistic numbers: log(u / (1 - u)).

    Args:
      key: a PRNG key.
      shape: of the result.
      dtype: float dtype (default float32, float64 with x64).
      out_sharding: of the result, over Explicit axes (NamedSharding or PartitionSpec).

    Returns:
      An array of that shape and dtype.

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys, or dtype is no such dtype.

    Example:
      >>> import calque.random as random
      >>> key = random.PRNGKey(0)
      >>> print(random.logistic(key, (2,)).round(4))
      [-1.2874  1.4123]
    """
    d = float_dtype("logistic", dtype)
    with lazy_eval("logistic"):
        u = draw_uniform(key_of("logistic", key), as_shape("logistic", shape), d,
                         limits(d).tiny, 1)
        return lax.log(u) - lax.log1p(-u)


@resharding
@planned
def cauchy(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Cauchy numbers: tan(pi (u - 1/2)).

    Args:
      key: a PRNG key.
      shape: of the result.
      dtype: float dtype (default float32, float64 with x64).
      out_sharding: of the result, over Explicit axes (NamedSharding or PartitionSpec).

    Returns:
      An array of that shape and dtype.

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys, or dtype is no such dtype.

    Example:
      >>> import calque.random as random
      >>> key = random.PRNGKey(0)
      >>> print(random.cauchy(key, (2,)).round(4))
      [-1.2378  1.4146]
    """
    d = float_dtype("cauchy", dtype)
    with lazy_eval("cauchy"):
        u = draw_uniform(key_of("cauchy", key), as_shape("cauchy", shape), d, limits(d).eps, 1)
        return lax.tan(_number(d, math.pi) * (u - _number(d, 0.5)))


def _draw_maxwell(key: Any, shape: Shape, d: Dtype) -> Any:
    x = draw_normal(key, (*shape, 3), d)
    return lax.sqrt((x * x).sum(-1))


@resharding
@planned
def maxwell(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Maxwell numbers: lengths of vectors of 3 normal numbers.

    Args:
      key: a PRNG key.
      shape: of the result.
      dtype: float dtype (default float32, float64 with x64).
      out_sharding: of the result, over Explicit axes (NamedSharding or PartitionSpec).

    Returns:
      An array of that shape and dtype.

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys, or dtype is no such dtype.

    Example:
      >>> import calque.random as random
      >>> key = random.PRNGKey(0)
      >>> print(random.maxwell(key, (2,)).round(4))
      [1.4505 1.2782]
    """
    d = float_dtype("maxwell", dtype)
    with lazy_eval("maxwell"):
        return _draw_maxwell(key_of("maxwell", key), as_shape("maxwell", shape), d)


# ---- with parameters
@planned
def double_sided_maxwell(key: Any, loc: Any, scale: Any, shape: Any = (), dtype: Any = None
                         ) -> Array:
    """Maxwell numbers of either sign, times scale, plus loc.

    Args:
      key: a PRNG key.
      loc, scale: float arrays; their shape follows `shape` in the result.
      shape: before the axes of the parameters (default theirs).
      dtype: float dtype (default float32, float64 with x64).

    Returns:
      An array of that shape and dtype.

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys, or dtype is no such dtype.

    Example:
      >>> import calque.random as random
      >>> key = random.PRNGKey(0)
      >>> print(random.double_sided_maxwell(key, 0.0, 1.0, (2,)).round(4))
      [-0.9178  1.7049]
    """
    d = float_dtype("double_sided_maxwell", dtype)
    with lazy_eval("double_sided_maxwell"):
        typed = key_of("double_sided_maxwell", key)
        own, (loc, scale) = parameters("double_sided_maxwell", None, loc, scale, dtype=d)
        size = (*(as_shape("double_sided_maxwell", shape) or own), *own)
        first, second = subkeys(typed)
        signs = draw_rademacher(second, size, d)
        return signs * _draw_maxwell(first, size, d) * scale + loc


@resharding
@planned
def truncated_normal(key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = None, *,
                     out_sharding: Any = None) -> Array:
    """Normal numbers between two bounds, exclusively.

    Where both bounds lie so far on one side that erf has next to no numbers left there (beyond
    4.9 in float32), they are drawn by the logarithm of the tail: JAX gives the bound.

    Args:
      key: a PRNG key.
      lower, upper: bounds, broadcast to shape.
      shape: of the result (default that of the bounds).
      dtype: float dtype (default float32, float64 with x64).
      out_sharding: of the result, over Explicit axes (NamedSharding or PartitionSpec).

    Returns:
      An array of that shape and dtype.

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys, or dtype is no such dtype.
      ValueError: shapes do not broadcast to shape.

    Example:
      >>> import calque.random as random
      >>> key = random.PRNGKey(0)
      >>> print(random.truncated_normal(key, -1, 1, (2,)).round(4))
      [-0.5063  0.5465]
    """
    d = float_dtype("truncated_normal", dtype)
    with lazy_eval("truncated_normal"):
        typed = key_of("truncated_normal", key)
        plain = normal_tails.surely_not(lower, upper, d)
        size, (lower, upper) = parameters("truncated_normal", shape, lower, upper, dtype=d)
        root = _number(d, math.sqrt(2))
        u = draw_uniform(typed, size, d, lax.erf(lower / root), lax.erf(upper / root))
        if plain:
            x = root * lax.erf_inv(u)
        else:
            inside = normal_tails.far(lower, upper, d)
            x = root * lax.erf_inv(jnp.where(inside, 0, u))  # (whose slope is inf at 1)
            tail = normal_tails.between(draw_uniform(typed, size, d), lower, upper, inside)
            x = jnp.where(inside, tail, x)
        inf = jnp.asarray(np.inf, d)
        least = jnp.nextafter(lax.stop_gradient(lower), inf)
        most = jnp.nextafter(lax.stop_gradient(upper), -inf)
        return jnp.minimum(jnp.maximum(x, least), most)


@resharding
@planned
def pareto(key: Any, b: Any, shape: Any = None, dtype: Any = None, *,
           out_sharding: Any = None) -> Array:
    """Pareto numbers: exp(x / b) of exponential x.

    Args:
      key: a PRNG key.
      b: tail index, a positive array.
      shape: of the result (default that of the parameters).
      dtype: float dtype (default float32, float64 with x64).
      out_sharding: of the result, over Explicit axes (NamedSharding or PartitionSpec).

    Returns:
      An array of that shape and dtype.

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys, or dtype is no such dtype.
      ValueError: shapes do not broadcast to shape.

    Example:
      >>> import calque.random as random
      >>> key = random.PRNGKey(0)
      >>> print(random.pareto(key, 2.0, (2,)).round(4))
      [1.1296 2.2595]
    """
    d = float_dtype("pareto", dtype)
    with lazy_eval("pareto"):
        typed = key_of("pareto", key)
        size, (b,) = parameters("pareto", shape, b, dtype=d, safe=True)
        return lax.exp(draw_exponential(typed, size, d) / b)


@resharding
@planned
def rayleigh(key: Any, scale: Any, shape: Any = None, dtype: Any = None, *,
             out_sharding: Any = None) -> Array:
    """Rayleigh numbers: scale * sqrt(-2 log(u)).

    Args:
      key: a PRNG key.
      scale: a positive array.
      shape: of the result (default that of the parameters).
      dtype: float dtype (default float32, float64 with x64).
      out_sharding: of the result, over Explicit axes (NamedSharding or PartitionSpec).

    Returns:
      An array of that shape and dtype.

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys, or dtype is no such dtype.
      ValueError: shapes do not broadcast to shape.

    Example:
      >>> import calque.random as random
      >>> key = random.PRNGKey(0)
      >>> print(random.rayleigh(key, 2.0, (2,)).round(4))
      [3.4998 1.3206]
    """
    d = float_dtype("rayleigh", dtype)
    with lazy_eval("rayleigh"):
        typed = key_of("rayleigh", key)
        size, (scale,) = parameters("rayleigh", shape, scale, dtype=d, safe=True)
        return scale * lax.sqrt(lax.log(draw_uniform(typed, size, d)) * _number(d, -2))


@planned
def weibull_min(key: Any, scale: Any, concentration: Any, shape: Any = (), dtype: Any = None
                ) -> Array:
    """Weibull numbers (of minima): scale * (-log(1 - u)) ** (1 / concentration).

    Args:
      key: a PRNG key.
      scale, concentration: positive arrays.
      shape: of the result.
      dtype: float dtype (default float32, float64 with x64).

    Returns:
      An array of that shape and dtype.

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys, or dtype is no such dtype.
      ValueError: shapes do not broadcast together.

    Example:
      >>> import calque.random as random
      >>> key = random.PRNGKey(0)
      >>> print(random.weibull_min(key, 1.0, 2.0, (2,)).round(4))
      [0.4937 1.2768]
    """
    d = float_dtype("weibull_min", dtype)
    with lazy_eval("weibull_min"):
        typed = key_of("weibull_min", key)
        _, given = parameters("weibull_min", None, scale, concentration)
        scale, concentration = (v if dtypes.is_inexact(v.dtype) else ew.convert(v, d)
                                for v in given)
        x = -lax.log1p(-draw_uniform(typed, as_shape("weibull_min", shape), d))
        power = jnp.power(x, _number(d, 1) / concentration)
        tiny = jnp.asarray(limits(power.dtype).tiny, power.dtype)
        lost = (x > 0) & ((power < tiny) | (power == np.inf))  # what the scale may bring back
        far = lax.exp(lax.log(x) / concentration + lax.log(lax.abs(scale)))
        return jnp.where(lost, far * lax.sign(scale), power * scale)


@resharding
@planned
def wald(key: Any, mean: Any, shape: Any = None, dtype: Any = None, *,
         out_sharding: Any = None) -> Array:
    """Wald (inverse Gaussian) numbers of a mean and scale 1.

    Args:
      key: a PRNG key.
      mean: a positive array.
      shape: of the result (default that of the parameters).
      dtype: float dtype (default float32, float64 with x64).
      out_sharding: of the result, over Explicit axes (NamedSharding or PartitionSpec).

    Returns:
      An array of that shape and dtype.

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys, or dtype is no such dtype.
      ValueError: shapes do not broadcast to shape.

    Example:
      >>> import calque.random as random
      >>> key = random.PRNGKey(0)
      >>> print(random.wald(key, 1.0, (2,)).round(4))
      [1.0507 0.4979]
    """
    d = float_dtype("wald", dtype)
    with lazy_eval("wald"):
        first, second = subkeys(key_of("wald", key))
        size, (mean,) = parameters("wald", shape, mean, dtype=d, safe=True)
        mean = jnp.broadcast_to(mean, size)
        square = lax.integer_pow(draw_normal(first, size, d), 2)
        u = draw_uniform(second, size, d)
        mean2, two = lax.integer_pow(mean, 2), _number(d, 2)
        root = lax.sqrt(_number(d, 4) * mean * square + mean2 * lax.integer_pow(square, 2))
        x = mean + mean2 * square / two - mean / two * root
        # where that cancels, over- or underflows (as in JAX): the two roots' product is mean^2
        half = mean * square / two
        far = (half > _number(d, 16)) | (mean2 < limits(d).tiny)
        ratio = _number(d, 1) + half + lax.sqrt(half) * lax.sqrt(two + half)
        most = jnp.where(far, mean * ratio, mean2 / jnp.where(far, mean, x))
        x = jnp.where(far, mean / ratio, x)
        return jnp.where(u <= mean / (mean + x), x, most)


@resharding
@planned
def lognormal(key: Any, sigma: Any = np.float32(1), shape: Any = None, dtype: Any = None, *,
              out_sharding: Any = None) -> Array:
    """Log-normal numbers: exp(sigma * z) of normal z.

    Args:
      key: a PRNG key.
      sigma: standard deviation of the logarithm.
      shape: of the result (default that of the parameters).
      dtype: float dtype (default float32, float64 with x64).
      out_sharding: of the result, over Explicit axes (NamedSharding or PartitionSpec).

    Returns:
      An array of that shape and dtype.

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys, or dtype is no such dtype.
      ValueError: shapes do not broadcast to shape.

    Example:
      >>> import calque.random as random
      >>> key = random.PRNGKey(0)
      >>> print(random.lognormal(key, 0.5, (2,)).round(4))
      [0.6754 1.5345]
    """
    d = float_dtype("lognormal", dtype, " or complex")
    with lazy_eval("lognormal"):
        typed = key_of("lognormal", key)
        size, (sigma,) = parameters("lognormal", shape, sigma, dtype=d, safe=True)
        return lax.exp(draw_normal(typed, size, d) * sigma)


def _root_of_product(u: Any, x: Any, y: Any) -> Any:
    """sqrt(u x y), by roots where the product over- or underflows."""
    product = u * x * y
    tiny = jnp.asarray(limits(product.dtype).tiny, product.dtype)
    held = (product >= tiny) & (product < np.inf) | (u == 0) | (x == 0) | (y == 0)
    roots = lax.sqrt(u) * lax.sqrt(x) * lax.sqrt(y)
    return jnp.where(held, lax.sqrt(jnp.where(held, product, jnp.ones_like(product))), roots)


@resharding
@planned
def triangular(key: Any, left: Any, mode: Any, right: Any, shape: Any = None, dtype: Any = None,
               *, out_sharding: Any = None) -> Array:
    """Numbers of the triangular distribution on [left, right].

    Args:
      key: a PRNG key.
      left, mode, right: ends and peak of the density.
      shape: of the result (default that of the parameters).
      dtype: float dtype (default float32, float64 with x64).
      out_sharding: of the result, over Explicit axes (NamedSharding or PartitionSpec).

    Returns:
      An array of that shape and dtype.

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys, or dtype is no such dtype.
      ValueError: shapes do not broadcast to shape.

    Example:
      >>> import calque.random as random
      >>> key = random.PRNGKey(0)
      >>> print(random.triangular(key, 0.0, 1.0, 2.0, (2,)).round(4))
      [0.6577 1.3741]
    """
    d = float_dtype("triangular", dtype)
    with lazy_eval("triangular"):
        typed = key_of("triangular", key)
        size, (left, mode, right) = parameters("triangular", shape, left, mode, right, dtype=d,
                                               safe=True)
        u = draw_uniform(typed, size, d)
        below = left + _root_of_product(u, right - left, mode - left)
        above = right - _root_of_product(_number(d, 1) - u, right - left, right - mode)
        return jnp.where(u < (mode - left) / (right - left), below, above)
