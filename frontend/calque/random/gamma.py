"""Gamma variates, and the distributions made from them.

Marsaglia and Tsang, "A simple method for generating gamma variables" (ACM TOMS 26, 2000): a
rejection loop for each element, with a key of its own.  Derivatives by the concentration are those
of the implicit function (lax.random_gamma_grad).  Start reading at `_one` and `draw_gamma`.
"""
from __future__ import annotations

import functools
from typing import Any

import numpy as np

from calque import lax
from calque import numpy as jnp
from calque.api.batching import vmap
from calque.api.custom_derivatives import custom_jvp
from calque.api.loops import while_loop
from calque.core.config import config
from calque.core.errors import explain
from calque.core.types import Dtype, Shape
from calque.dispatch.array import Array
from calque.dispatch.eager import lazy_eval
from calque.dispatch.replay import planned
from calque.dispatch.sharded.placing import resharding
from calque.primitives import elementwise as ew
from calque.primitives import random as prim
from calque.primitives import shape as sh
from calque.random.bits import draw_normal, draw_rademacher, draw_uniform, given, parameters
from calque.random.continuous import draw_exponential, limits
from calque.random.keys import as_shape, clone, float_dtype, key_of, subkeys


def _one(key: Any, alpha: Any) -> tuple[Any, Any]:
    """One variate of a typed key, and its logarithm; alpha: a scalar."""
    d = np.dtype(alpha.dtype)

    def number(value: Any) -> Any:
        return np.asarray(value).astype(d)[()]

    one, third, squeeze = number(1), number(1 / 3), number(0.0331)
    large = alpha >= one
    shifted = ew.sub(jnp.where(large, alpha, alpha + one), third)
    c = third * lax.rsqrt(shifted)  # as XLA computes third / sqrt(shifted): the bits of halves
    key, boost_key = subkeys(key)

    def rejected(state: Any) -> Any:
        _, x, v, u = state
        return (u >= one - squeeze * (x * x)) & (
            lax.log(u) >= x * number(0.5) + shifted * (one - v + lax.log(v)))

    def draw(state: Any) -> Any:
        key, normal_key, uniform_key = subkeys(state[0], 3)

        def again(inner: Any) -> Any:
            k, sub = subkeys(inner[0])
            z = draw_normal(sub, (), d)
            return k, z, one + z * c

        start = (normal_key, jnp.zeros((), d), jnp.full((), -1, d))
        _, x, v = while_loop(lambda s: s[2] <= number(0), again, start)
        return key, x * x, v * v * v, draw_uniform(uniform_key, (), d)

    start = (key, jnp.zeros((), d), jnp.ones((), d), jnp.full((), 2, d))
    _, _, v, _ = while_loop(rejected, draw, start)
    # alpha < 1: x * u^(1 / alpha), whose logarithm keeps what would underflow
    boost = -draw_exponential(boost_key, (), d)
    boost = jnp.where(large | (boost == number(0)), number(0), boost * (one / alpha))
    u = one - draw_uniform(clone(boost_key), (), d)  # (of one number, as in JAX)
    x = shifted * v * jnp.where(large, one, lax.pow(u, one / alpha))
    return x, lax.log(shifted) + lax.log(v) + boost


def draw_gammas(key: Any, alpha: Any) -> list[Any]:
    """Gamma variates of a typed key, one for each element of alpha, and their logarithms."""
    shape = tuple(alpha.shape)
    if 0 in shape:
        return [jnp.zeros(shape, alpha.dtype)] * 2
    flat = sh.reshape(alpha, (alpha.size,))
    keys = prim.split(key, (alpha.size,), config.jax_threefry_partitionable)
    draws = _draws(key.dtype, prim.random_unwrap_p.bind(keys), flat)
    return [sh.reshape(v, shape) for v in draws]


def draw_gamma(key: Any, alpha: Any, log_space: bool) -> Any:
    """One of the two."""
    return draw_gammas(key, alpha)[log_space]


@functools.partial(custom_jvp, nondiff_argnums=(0,))
def _draws(kind: Any, words: Any, alpha: Any) -> Any:
    """One variate for each element of a vector, each from the words of its own key."""
    given = prim.impl_of(kind)
    return vmap(lambda w, a: _one(prim.random_wrap_p.bind(w, **given), a))(words, alpha)


@_draws.defjvp
def _draws_jvp(kind: str, primals: Any, tangents: Any) -> Any:
    out = plain, log = _draws(kind, *primals)
    alpha, x = primals[1], lax.exp(log)
    hidden = _hidden(x)
    x = jnp.where(hidden, jnp.ones_like(x), x)
    slope, log_slope = (lax.random_gamma_grad(alpha, v) for v in (plain, x))
    # of x next to 0 the chance below is x^alpha / Gamma(alpha + 1)
    low = (lax.digamma(alpha + 1) - log) / alpha
    return out, (tangents[1] * slope, tangents[1] * jnp.where(hidden, low, log_slope / x))


def _hidden(x: Any) -> Any:
    """Where variates underflow, so that what is made of them takes their logarithms (JAX: 0, inf,
    NaN); halves have few digits in both."""
    least = limits(x.dtype).tiny if x.dtype.itemsize > 2 else limits(x.dtype).smallest_subnormal
    return x < jnp.asarray(least, x.dtype)


def _gamma(name: str, key: Any, a: Any, shape: Any, dtype: Any, log_space: bool) -> Any:
    d = float_dtype("gamma", dtype)
    with lazy_eval(name):
        typed = key_of(name, key)
        size, (a,) = parameters(name, shape, a, dtype=d)
        return draw_gamma(typed, jnp.broadcast_to(a, size), log_space)


@resharding
@planned
def gamma(key: Any, a: Any, shape: Any = None, dtype: Any = None, *,
          out_sharding: Any = None) -> Array:
    """Gamma variates: density x^(a-1) exp(-x) / Gamma(a).  Differentiable by a.

    Args:
      key: a PRNG key.
      a: concentration, a positive array.
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
      >>> print(random.gamma(key, 2.0, (2,)).round(4))
      [2.5436 2.4192]
    """
    return _gamma("gamma", key, a, shape, dtype, False)


@resharding
@planned
def loggamma(key: Any, a: Any, shape: Any = None, dtype: Any = None, *,
             out_sharding: Any = None) -> Array:
    """Logarithms of gamma variates, exact where those underflow.  Differentiable by a.

    Args:
      key: a PRNG key.
      a: concentration, a positive array.
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
      >>> print(random.loggamma(key, 0.01, (2,)).round(3))
      [ -32.424 -229.235]
    """
    return _gamma("loggamma", key, a, shape, dtype, True)


@resharding
@planned
def beta(key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = None, *,
         out_sharding: Any = None) -> Array:
    """Beta variates on [0, 1]: x / (x + y) of gamma variates.

    Args:
      key: a PRNG key.
      a, b: positive arrays.
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
      >>> print(random.beta(key, 2.0, 3.0, (2,)).round(4))
      [0.1623 0.7917]
    """
    d = float_dtype("beta", dtype)
    with lazy_eval("beta"):
        first, second = subkeys(key_of("beta", key))
        size, (a, b) = parameters("beta", shape, a, b, dtype=d, safe=True)
        x = draw_gamma(first, jnp.broadcast_to(a, size), True)
        y = draw_gamma(second, jnp.broadcast_to(b, size), True)
        most = jnp.maximum(x, y)
        x, y = lax.exp(x - most), lax.exp(y - most)
        return x / (x + y)


@resharding
@planned
def dirichlet(key: Any, alpha: Any, shape: Any = None, dtype: Any = None, *,
              out_sharding: Any = None) -> Array:
    """Dirichlet vectors: gamma variates divided by their sum.

    Args:
      key: a PRNG key.
      alpha: concentrations, positive, along the last axis.
      shape: of the result without the last axis (default that of alpha).
      dtype: float dtype (default float32, float64 with x64).
      out_sharding: of the result, over Explicit axes (NamedSharding or PartitionSpec).

    Returns:
      An array of shape (*shape, n) and that dtype.

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys, or dtype is no such dtype.
      ValueError: alpha is a scalar, or shapes do not broadcast.

    Example:
      >>> import calque.random as random
      >>> import numpy as np
      >>> key = random.PRNGKey(0)
      >>> print(random.dirichlet(key, np.ones(3, np.float32)).sum().round(5))
      1.0
    """
    d = float_dtype("dirichlet", dtype)
    with lazy_eval("dirichlet"):
        typed = key_of("dirichlet", key)
        alpha = ew.convert(given("dirichlet", alpha), d)
        if alpha.ndim < 1:
            raise ValueError(explain(
                f"dirichlet requires alpha.ndim >= 1, got alpha.ndim == {alpha.ndim}.",
                fix="give a vector of concentrations."))
        row = np.empty(alpha.shape[:-1], bool)  # of which only the shape counts
        size, _ = parameters("dirichlet", shape, row)
        logs = draw_gamma(typed, jnp.broadcast_to(alpha, (*size, alpha.shape[-1])), True)
        x = lax.exp(logs - lax.stop_gradient(logs.max(-1, keepdims=True, initial=-np.inf)))
        return x / x.sum(-1, keepdims=True)


# ---- made from gamma variates
@custom_jvp
def _chosen(hidden: Any, plain: Any, log: Any) -> Any:
    """A number by its logarithm where that is needed; the slope by it everywhere, whose quotients
    by small variates overflow otherwise."""
    return jnp.where(hidden, lax.exp(log), plain)


_chosen.defjvps(None, None, lambda t, out, hidden, plain, log: t * out)


def _draw_chisquare(key: Any, df: Any, size: Shape) -> tuple[Any, Any]:
    """Variates, and the logarithms of their halves."""
    two = np.asarray(2).astype(df.dtype)[()]
    log = draw_gamma(key, jnp.broadcast_to(df / two, size), True)
    return lax.exp(log) * two, log


@resharding
@planned
def chisquare(key: Any, df: Any, shape: Any = None, dtype: Any = None, *,
              out_sharding: Any = None) -> Array:
    """Chi-square variates: twice a gamma variate of df / 2.

    Args:
      key: a PRNG key.
      df: degrees of freedom, a positive array.
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
      >>> print(random.chisquare(key, 3.0, (2,)).round(4))
      [3.8422 3.6238]
    """
    d = float_dtype("chisquare", dtype)
    with lazy_eval("chisquare"):
        typed = key_of("chisquare", key)
        size, (df,) = parameters("chisquare", shape, df, dtype=d, safe=True)
        return _draw_chisquare(typed, df, size)[0]


@resharding
@planned
def t(key: Any, df: Any, shape: Any = None, dtype: Any = None, *,
      out_sharding: Any = None) -> Array:
    """Variates of Student's t: normal / sqrt(chi-square / df).

    Args:
      key: a PRNG key.
      df: degrees of freedom, a positive array.
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
      >>> print(random.t(key, 3.0, (2,)).round(4))
      [-0.0306 -2.3326]
    """
    d = float_dtype("t", dtype)
    with lazy_eval("t"):
        first, second = subkeys(key_of("t", key))
        size, (df,) = parameters("t", shape, df, dtype=d, safe=True)
        half = jnp.broadcast_to(df / np.asarray(2).astype(d)[()], size)
        z = draw_normal(first, size, d)
        x, log = draw_gammas(second, half)
        hidden = _hidden(x)
        plain = lax.sqrt(half / jnp.where(hidden, half, x))
        return z * _chosen(hidden, plain, (lax.log(half) - log) / 2)


@resharding
@planned
def f(key: Any, dfnum: Any, dfden: Any, shape: Any = None, dtype: Any = None, *,
      out_sharding: Any = None) -> Array:
    """Variates of F: ratio of two chi-squares, each divided by its degrees of freedom.

    Args:
      key: a PRNG key.
      dfnum, dfden: degrees of freedom, positive arrays.
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
      >>> print(random.f(key, 3.0, 4.0, (2,)).round(4))
      [4.3125 0.0626]
    """
    d = float_dtype("f", dtype)
    with lazy_eval("f"):
        lower, upper = subkeys(key_of("f", key))
        size, (dfnum, dfden) = parameters("f", shape, dfnum, dfden, dtype=d, safe=True)
        (x, log_x), (y, log_y) = (_draw_chisquare(k, df, size)
                                  for k, df in ((upper, dfnum), (lower, dfden)))
        hidden = _hidden(x) | _hidden(y)
        plain = (x / dfnum) / (jnp.where(hidden, dfden, y) / dfden)
        return _chosen(hidden, plain, log_x - log_y + (lax.log(dfden) - lax.log(dfnum)))


def _draw_generalized(key: Any, p: Any, size: Shape, d: Dtype) -> Any:
    first, second = subkeys(key)
    inverse = ew.convert(jnp.asarray(1.0) / p, d)
    # (beyond 1 / eps^2 the draws are uniform; 1 / p would be flushed to 0, and 0 * log(0) is NaN)
    least = np.asarray(float(limits(d).eps) ** 2, d)
    inverse = jnp.where((p > 0) & (inverse < least), least, inverse)
    x, log = draw_gammas(first, jnp.broadcast_to(inverse, size))
    hidden = _hidden(x)
    plain = jnp.power(jnp.where(hidden, jnp.ones_like(x), x), inverse)
    return draw_rademacher(second, size, d) * _chosen(hidden, plain, log * inverse)


@resharding
@planned
def generalized_normal(key: Any, p: Any, shape: Any = (), dtype: Any = None, *,
                       out_sharding: Any = None) -> Array:
    """Generalized normal numbers: density proportional to exp(-|x|^p).

    Args:
      key: a PRNG key.
      p: shape parameter, a positive number.
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
      >>> print(random.generalized_normal(key, 2.0, (2,)).round(4))
      [-0.2797  0.8599]
    """
    d = float_dtype("gamma", dtype)
    with lazy_eval("generalized_normal"):
        typed = key_of("generalized_normal", key)
        return _draw_generalized(typed, p, as_shape("generalized_normal", shape), d)


@resharding
@planned
def ball(key: Any, d: Any, p: Any = 2, shape: Any = (), dtype: Any = None, *,
         out_sharding: Any = None) -> Array:
    """Points drawn uniformly from the unit ball of the p-norm in d dimensions.

    Args:
      key: a PRNG key.
      d: dimensions.
      p: of the norm, a positive number.
      shape: of the result without the last axis.
      dtype: float dtype (default float32, float64 with x64).
      out_sharding: of the result, over Explicit axes (NamedSharding or PartitionSpec).

    Returns:
      An array of shape (*shape, d) and that dtype.

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys, or dtype is no such dtype.
      ValueError: d is negative.

    Example:
      >>> import calque.random as random
      >>> key = random.PRNGKey(0)
      >>> print(random.ball(key, 3).shape)
      (3,)
    """
    kind = float_dtype("gamma", dtype)
    with lazy_eval("ball"):
        first, second = subkeys(key_of("ball", key))
        (n,), size = as_shape("ball", d), as_shape("ball", shape)
        p = jnp.asarray(p)
        x = _draw_generalized(first, p, (*size, n), kind)
        e = draw_exponential(second, size, kind)
        total = jnp.power(lax.abs(x), ew.convert(p, kind)).sum(-1) + e
        return x / jnp.power(total, ew.convert(jnp.asarray(1.0) / p, kind))[..., None]
