"""Counts: Poisson, binomial, geometric and multinomial numbers.

Small means are counted step by step, large ones drawn by transformed rejection: Hormann, "The
transformed rejection method for generating Poisson random variables" (1993) and "The generation of
binomial random variates" (1993), with JAX's splitting of keys.  Start reading at `_poisson`.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque import lax
from calque import numpy as jnp
from calque.api.control import scan
from calque.api.loops import while_loop
from calque.core import dtypes
from calque.core.config import config
from calque.core.errors import explain
from calque.core.types import Dtype
from calque.dispatch.array import Array
from calque.dispatch.eager import lazy_eval
from calque.dispatch.replay import planned
from calque.dispatch.sharded.placing import resharding
from calque.lax.operands import user_dtype
from calque.numpy.excess import excess
from calque.primitives import elementwise as ew
from calque.primitives import random as prim
from calque.random.bits import draw_uniform, given, parameters
from calque.random.continuous import limits
from calque.random.keys import clone, float_dtype, int_dtype, key_of, subkeys

_MANY = 2.0 ** 20  # of a mean: below, draws are JAX's


# ---- Poisson
def _poisson_counted(key: Any, lam: Any, d: Dtype) -> Any:
    """How many uniform numbers can be multiplied before the product falls below exp(-lam)."""
    def body(state: Any) -> Any:
        i, count, key, logs = state
        key, sub = subkeys(key)
        count = jnp.where(logs > -lam, count + 1, count)
        u = draw_uniform(sub, tuple(lam.shape), np.dtype(lam.dtype))
        return i + 1, count, key, logs + lax.log(u)

    limit = np.iinfo(d).max
    start = (jnp.zeros((), np.int32), jnp.zeros(lam.shape, d), key, jnp.zeros_like(lam))
    last = min(limit, 2**31 - 1)
    _, count, _, _ = while_loop(lambda s: (s[3] > -lam).any() & (s[0] < last), body, start)
    return count - 1


def _log_poisson(k: Any, lam: Any) -> Any:
    """log(lam^k e^-lam / k!), of which at a large lam the terms are all that is left (in JAX draws
    of 1e8 have 1.2 times their deviation)."""
    safe = jnp.where(k > 0.5 * lam, k, lam)
    value = -safe * excess((lam - safe) / safe) - 0.5 * lax.log(2 * np.pi * safe)
    return jnp.where((safe == k) & (k < 2 * lam), value, -np.inf)


def _poisson_rejected(key: Any, lam: Any, d: Dtype) -> Any:
    """Hormann's PTRS."""
    log_lam = lax.log(lam)
    b = 0.931 + 2.53 * lax.sqrt(lam)
    a = -0.059 + 0.02483 * b
    inverse = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)

    def draw(u: Any, v: Any) -> tuple[Any, Any]:
        us = 0.5 - lax.abs(u)
        k = lax.floor((2 * a / us + b) * u + lam + 0.43)
        s = lax.log(v * inverse / (a / (us * us) + b))
        t = -lam + k * log_lam - lax.lgamma(k + 1)
        t = jnp.where(lam >= _MANY, _log_poisson(k, lam), t)
        return k, ((us >= 0.07) & (v <= v_r)) | (
            ~((k < 0) | ((us < 0.013) & (v > us))) & (s <= t))

    return ew.convert(_rejected(key, lam, draw, min(np.iinfo(d).max, 2**31 - 1)), d)


def _rejected(key: Any, like: Any, draw: Callable[[Any, Any], tuple[Any, Any]],
              last: int | None = None) -> Any:
    """Numbers by transformed rejection: draw(u, v) of uniform ones in [-1/2, 1/2) and [0, 1) gives
    (numbers, which of them to take), again and again, `last` times at most."""
    shape, kind = tuple(like.shape), np.dtype(like.dtype)

    def body(state: Any) -> Any:
        i, out, accepted, key = state
        key, first, second = subkeys(key, 3)
        u = draw_uniform(first, shape, kind) - 0.5
        k, take = draw(u, draw_uniform(second, shape, kind))
        return i + 1, jnp.where(take, k, out), accepted | take, key

    def missing(state: Any) -> Any:
        some = (~state[2]).any()
        return some if last is None else some & (state[0] < last)

    start = (jnp.zeros((), np.int32), jnp.full_like(like, -1), jnp.zeros(shape, bool), key)
    return while_loop(missing, body, start)[1]


def _poisson(key: Any, lam: Any, d: Dtype) -> Any:
    small = (lam != lam) | (lam < 10)
    counted = _poisson_counted(key, jnp.where(small, lam, jnp.zeros_like(lam)), d)
    drawn = _poisson_rejected(clone(key), jnp.where(small, jnp.full_like(lam, 1e5), lam), d)
    out = jnp.where(small, counted, drawn)
    return jnp.where(lam == 0, jnp.zeros_like(out), out)


@resharding
@planned
def poisson(key: Any, lam: Any, shape: Any = None, dtype: Any = None, *,
            out_sharding: Any = None) -> Array:
    """Poisson numbers of mean lam.

    Args:
      key: a PRNG key.
      lam: a positive array.
      shape: of the result (default that of the parameters).
      dtype: integer dtype (default int32, int64 with x64).
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
      >>> print(random.poisson(key, 3.0, (3,)))
      [2 2 3]
    """
    d = int_dtype("poisson", dtype)
    with lazy_eval("poisson"):
        typed = key_of("poisson", key)
        if typed.dtype != dtypes.key_dtype:
            raise NotImplementedError(explain(
                "`poisson` is only implemented for the threefry2x32 RNG, not "
                f"{typed.dtype.impl}.", fix="make the key with impl='threefry2x32'."))
        size, (lam,) = parameters("poisson", shape, lam, dtype=np.dtype(np.float32))
        return _poisson(typed, jnp.broadcast_to(lam, size), d)


# ---- geometric
@resharding
@planned
def geometric(key: Any, p: Any, shape: Any = None, dtype: Any = None, *,
              out_sharding: Any = None) -> Array:
    """Geometric numbers: trials up to the first success, 1 or more.

    Args:
      key: a PRNG key.
      p: probability of success, a float array.
      shape: of the result (default that of the parameters).
      dtype: integer dtype (default int32, int64 with x64).
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
      >>> print(random.geometric(key, 0.25, (3,)))
      [1 5 2]
    """
    d = int_dtype("geometric", dtype)
    with lazy_eval("geometric"):
        typed = key_of("geometric", key)
        p = given("geometric", p)
        kind = float_dtype("uniform", _inexact(p).dtype)
        size, (p,) = parameters("geometric", shape, p, dtype=kind)
        u = draw_uniform(typed, size, kind)
        u = jnp.where(u == 0, jnp.ones_like(u), u)
        return ew.convert(lax.floor(lax.log(u) / lax.log1p(-p)) + 1, d)


# ---- binomial
_TAILS = (0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
          0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
          0.00925546218271273, 0.00833056343336287)


def _stirling_tail(k: Any) -> Any:
    """log(k!) less Stirling's formula of it."""
    n = lax.clamp(jnp.asarray(0, k.dtype), k, jnp.asarray(9, k.dtype))
    table = jnp.asarray(np.array(_TAILS, k.dtype))
    known = jnp.take(table, ew.convert(lax.floor(n), np.int32), mode="clip")
    k1 = n + 1
    square = k1 * k1
    return jnp.where(k <= 9, known, (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / k1)


def _binomial_counted(key: Any, count: Any, p: Any) -> Any:
    """Geometric gaps between successes, added up."""
    log1_p = lax.log1p(-p)

    def body(state: Any) -> Any:
        i, successes, total, key = state
        first, key = subkeys(key)  # (the first to draw with)
        successes = jnp.where(total <= count, successes + 1, successes)
        u = draw_uniform(first, tuple(p.shape), np.dtype(p.dtype))
        return i + 1, successes, total + lax.ceil(lax.log(u) / log1_p), key

    start = (jnp.zeros((), np.int32), jnp.zeros_like(p), jnp.zeros_like(p), key)
    _, successes, _, _ = while_loop(lambda s: (s[2] <= count).any(), body, start)
    return successes - 1


def _log_quotient(k: Any, m: Any, n: Any, p: Any) -> Any:
    """log of the chance of k over that of m ~ n p.  Written with k - m: of many trials the
    quotients of the usual form are 1 (in JAX draws of n = 1e9, float32, have 1.2 times their
    deviation)."""
    apart, above, rest = k - m, m + 1, n - m + 1
    up = lax.log1p(jnp.where(k < 0, jnp.zeros_like(k), apart / above))
    down = lax.log1p(jnp.where(k > n, jnp.zeros_like(k), -apart / rest))
    mode = lax.log1p((p * (n + 2) - above) / ((1 - p) * above))
    return (apart * (mode + down - up) - (m + 0.5) * up - (n - m + 0.5) * down
            + _stirling_tail(m) + _stirling_tail(n - m) - _stirling_tail(k) - _stirling_tail(n - k))


def _binomial_rejected(key: Any, count: Any, p: Any) -> Any:
    """Hormann's BTRS."""
    deviation = lax.sqrt(count * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = count * p + 0.5
    v_r = 0.92 - 4.2 / b
    r = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    m = lax.floor((count + 1) * p)
    many = count * limits(p.dtype).eps >= 0.125

    def draw(u: Any, v: Any) -> tuple[Any, Any]:
        us = 0.5 - lax.abs(u)
        k = lax.floor((2 * a / us + b) * u + c)
        outside = (k < 0) | (k > count)
        left = lax.log(v * alpha / (a / (us * us) + b))
        right = ((m + 0.5) * lax.log((m + 1) / (r * (count - m + 1)))
                 + (count + 1) * lax.log((count - m + 1) / (count - k + 1))
                 + (k + 0.5) * lax.log(r * (count - k + 1) / (k + 1))
                 + _stirling_tail(m) + _stirling_tail(count - m)
                 - _stirling_tail(k) - _stirling_tail(count - k))
        right = jnp.where(many, _log_quotient(k, m, count, p), right)
        return k, ((us >= 0.07) & (v <= v_r)) | (~outside & (left <= right))

    return _rejected(key, p, draw)


def _inexact(x: Any) -> Any:
    """x, integers as the default float dtype: what numbers are drawn in, whatever they become."""
    return x if dtypes.is_inexact(x.dtype) else ew.convert(x, dtypes.canonical(float))


def draw_binomial(key: Any, n: Any, p: Any, d: Dtype) -> Any:
    """Binomial numbers of a typed key in dtype d; n and p: float arrays of one shape and dtype."""
    less = p < 0.5
    q = jnp.where(less, p, 1 - p)
    bad_n = (n != n) | (n < 0)
    infinite = lax.abs(n) == np.inf
    bad_q = (q != q) | (q < 0)
    # (of -0.0, log1p(-p) is +0, and steps of log(u) / 0 lead away from n without end)
    safe = lax.abs(jnp.where(bad_q, jnp.full_like(q, 0.01), q))
    # (infinite n are counted as 0: neither loop ends for them where p is 0 or 1)
    counted = bad_n | infinite | (n * safe <= 10)
    whole = lax.floor(n)
    count = jnp.where(infinite, jnp.zeros_like(n), whole)
    few = _binomial_counted(key, jnp.where(counted, count, jnp.zeros_like(n)), safe)
    many = _binomial_rejected(clone(key), jnp.where(counted, jnp.full_like(n, 1e4), whole),
                              jnp.where(counted, jnp.full_like(q, 0.5), safe))
    out = ew.convert(jnp.where(counted, few, many), d)
    wrong = bad_q | bad_n
    out = jnp.where(wrong, jnp.full_like(out, np.nan), out)
    out = jnp.where(infinite & ~wrong, jnp.full_like(out, np.inf), out)
    return jnp.where(less | bad_n | bad_q | infinite, out, ew.convert(whole, d) - out)


@planned
def binomial(key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Binomial numbers: successes in n trials, as floats.

    Args:
      key: a PRNG key.
      n: number of trials, an array.
      p: probability of success, an array.
      shape: of the result (default that of the parameters).
      dtype: float dtype (default float32, float64 with x64).

    Returns:
      An array of that shape and dtype.

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys, or dtype is no such dtype.
      ValueError: shapes do not broadcast to shape.

    Example:
      >>> import calque.random as random
      >>> key = random.PRNGKey(0)
      >>> print(random.binomial(key, 10.0, 0.5, (3,)))
      [2. 5. 6.]
    """
    d = float_dtype("binomial", dtype)
    with lazy_eval("binomial"):
        typed = key_of("binomial", key)
        size, (n, p) = parameters("binomial", shape, n, p)
        p = _inexact(p)
        n = ew.convert(n, p.dtype)
        return draw_binomial(typed, jnp.broadcast_to(n, size), jnp.broadcast_to(p, size), d)


# ---- multinomial
@planned
def multinomial(key: Any, n: Any, p: Any, *, shape: Any = None, dtype: Any = None,
                unroll: Any = 1) -> Array:
    """Multinomial counts: n trials over the outcomes along the last axis of p, as floats.

    Args:
      key: a PRNG key.
      n: number of trials, an array.
      p: probabilities, summing to 1 along the last axis.
      unroll: how many outcomes a step of the loop handles.
      shape: of the result (default that of n and p together).
      dtype: any dtype (default float32, float64 with x64).

    Returns:
      An array of that shape and dtype.

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys, or dtype is no such dtype.
      ValueError: p is a scalar, or shapes do not broadcast to shape.

    Example:
      >>> import calque.random as random
      >>> import numpy as np
      >>> key = random.PRNGKey(0)
      >>> print(random.multinomial(key, 5.0, np.ones(3, np.float32) / 3))
      [2. 1. 2.]
    """
    d = user_dtype("", float if dtype is None else dtype)
    with lazy_eval("multinomial"):
        typed = key_of("multinomial", key)
        n, p = given("multinomial", n), given("multinomial", p)
        kind = np.dtype(_inexact(jnp.zeros((), jnp.result_type(n, p))).dtype)
        n, p = ew.convert(n, kind), ew.convert(p, kind)
        if p.ndim < 1:
            raise ValueError(explain(
                "multinomial: axis -1 is out of bounds for array of dimension 0.",
                fix="give p a last axis of outcomes."))
        size, _ = parameters("multinomial", shape, np.empty((*n.shape, 1), bool),
                             np.empty(p.shape, bool))
        n = jnp.broadcast_to(n, size[:-1])
        p = jnp.broadcast_to(p, size)
        rest = lax.cumsum(p, p.ndim - 1, reverse=True)
        shares = p / jnp.where(rest == 0, jnp.ones_like(rest), rest)
        keys = prim.split(typed, (size[-1],), config.jax_threefry_partitionable)

        def body(left: Any, given: Any) -> Any:
            share, key = given
            share = lax.clamp(jnp.zeros((), kind), share, jnp.ones((), kind))
            drawn = draw_binomial(key, left, share, kind)
            return left - drawn, drawn

        _, counts = scan(body, n, (jnp.moveaxis(shares, -1, 0), keys), unroll=unroll)
        return ew.convert(jnp.moveaxis(counts, 0, -1), d)
