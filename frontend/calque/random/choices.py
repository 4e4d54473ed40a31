"""Choosing among given things, and random vectors and matrices.

Start reading at `permutation`: choices without replacement are beginnings of permutations.
"""
from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from calque import lax
from calque import numpy as jnp
from calque.core import dtypes
from calque.core.dims import Dim, as_size, bounds, number
from calque.core.errors import explain
from calque.core.lists import replaced, without
from calque.core.types import Shape
from calque.dispatch.array import Array
from calque.dispatch.eager import lazy_eval
from calque.dispatch.replay import planned
from calque.dispatch.sharded.placing import resharding
from calque.numpy.util import needed
from calque.primitives import elementwise as ew
from calque.random.bits import (
    draw_normal,
    draw_randint,
    draw_uniform,
    given,
    parameters,
    raw_bits,
)
from calque.random.continuous import draw_gumbel
from calque.random.keys import as_shape, float_dtype, key_of, subkeys


def _axis(axis: Any, ndim: int) -> int:
    i = operator.index(axis)
    if not -ndim <= i < ndim:
        raise ValueError(explain(f"axis {i} is out of bounds for array of dimension {ndim}."))
    return i % ndim


# ---- permutations
def _rounds(size: float) -> int:
    """How often to sort by random words, so that equal words are harmless."""
    return math.ceil(3 * math.log(max(1, size)) / math.log(2**32 - 1))


def _shuffled(key: Any, x: Any, axis: int) -> Any:
    """x sorted by random words; where its size is known at the call only, the later rounds are
    left out there."""
    def sorted_by(sub: Any, x: Any) -> Any:
        return lax.sort_key_val(raw_bits(sub, 32, tuple(x.shape)), x, dimension=axis)[1]

    size = x.size
    most = min(bounds(size, 1)[1], 2**31 - 1) if isinstance(size, Dim) else size
    for done in range(_rounds(most)):
        key, sub = subkeys(key)
        if done and isinstance(size, Dim):
            enough = math.floor((2**32 - 1) ** (done / 3))  # sizes that so many rounds are for
            x = lax.cond(size.dimension_as_value() > enough, sorted_by, lambda _, x: x, sub, x)
        else:
            x = sorted_by(sub, x)
    return x


def _permuted(key: Any, n: int) -> Any:
    return _shuffled(key, jnp.arange(n), 0)


@resharding
@planned
def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False, *,
                out_sharding: Any = None) -> Array:
    """The elements of an array in random order, or the numbers 0 .. n-1.

    Args:
      key: a PRNG key.
      x: an array, or an integer n.
      axis: along which slices change places.
      independent: every line along the axis gets an order of its own.
      out_sharding: of the result, over Explicit axes (NamedSharding or PartitionSpec).

    Returns:
      An array like x, or of n integers.

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys.
      TypeError: x is no array and no integer.
      ValueError: axis is out of bounds.

    Example:
      >>> import calque.random as random
      >>> key = random.PRNGKey(0)
      >>> print(random.permutation(key, 5))
      [1 0 4 3 2]
    """
    with lazy_eval("permutation"):
        typed = key_of("permutation", key)
        array = given("permutation", x)
        if array.ndim == 0:
            _axis(axis, 1)
            if not dtypes.is_integer(array.dtype):
                raise TypeError(explain("x must be an integer or at least 1-dimensional."))
            n = x if isinstance(x, Dim) else max(0, int(needed(
                "permutation", x, "x is a number.", "mark the argument as static.")))
            return _permuted(typed, n)  # type: ignore[arg-type]
        axis = _axis(axis, array.ndim)
        if array.ndim == 1 or independent:
            return _shuffled(typed, array, axis)
        return jnp.take(array, _permuted(typed, array.shape[axis]), axis)


# ---- choices
def _population(a: Any, axis: Any) -> tuple[Any, int, int]:
    """(the array or None, how many there are, the axis)."""
    array = given("choice", a)
    if array.ndim == 0:
        return None, as_size(a), 0
    axis = _axis(axis, array.ndim)
    return array, array.shape[axis], axis


def _positions(key: Any, n: int, size: Shape, replace: bool, p: Any,
               mode: str | None) -> Any:
    count = math.prod(size)
    if p is None:
        if not replace:
            return jnp.reshape(_permuted(key, n)[:count], size)
        d = dtypes.canonical(int)
        return draw_randint(key, size, jnp.asarray(0, d), jnp.asarray(number(n, d)), d)
    p = given("choice", p)
    p = p if dtypes.is_inexact(p.dtype) else ew.convert(p, dtypes.canonical(float))
    if tuple(p.shape) != (n,):
        raise ValueError(explain(
            f"p must be None or a 1D vector with the same size as a.shape[axis]. p has shape "
            f"{tuple(p.shape)} and a.shape[axis] is {n}."))
    d = np.dtype(p.dtype)
    if not replace:
        chances = draw_gumbel(key, (n,), d, mode) + lax.log(p)
        at = jnp.reshape(lax.top_k(chances, count)[1], size)
        return ew.convert(at, dtypes.canonical(int))
    sums = jnp.cumsum(p)
    u = sums[-1] * (1 - draw_uniform(key, size, d))
    return ew.convert(jnp.searchsorted(sums, u), dtypes.canonical(int))


@planned
def choice(key: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None, axis: int = 0,
           mode: str | None = None) -> Array:
    """Random elements of an array, or of the numbers 0 .. n-1.

    Args:
      key: a PRNG key.
      a: an array, or an integer n.
      replace: whether an element may come twice.
      p: the elements' probabilities, a vector (default all alike).
      axis: along which elements lie.
      mode: of the Gumbel numbers used with p and without replacement.
      shape: of the result.

    Returns:
      An array of a's dtype, with `shape` in the place of the axis.

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys.
      TypeError: a is no array and no integer.
      ValueError: a is empty, p has another size, or more are asked for than there are.

    Example:
      >>> import calque.random as random
      >>> key = random.PRNGKey(0)
      >>> print(random.choice(key, 5, (3,)))
      [3 1 2]
    """
    with lazy_eval("choice"):
        typed = key_of("choice", key)
        if not np.iterable(shape):
            raise TypeError(explain(
                f"shape argument of random.choice must be a sequence, got {shape}.",
                fix=f"write ({shape},)."))
        size = as_shape("choice", shape)
        array, n, axis = _population(a, axis)
        if n < 1 and math.prod(size):  # type: ignore[arg-type]
            raise ValueError(explain("a must be greater than 0 unless no samples are taken."))
        if not replace and math.prod(size) > n:
            raise ValueError(explain(
                f"Cannot take a larger sample (size {math.prod(size)}) than population (size {n}) "
                f"when 'replace=False'."))
        if not math.prod(size):
            at = jnp.zeros(size, dtypes.canonical(int))
            n_shape = () if array is None else array.shape
            return at if array is None else jnp.zeros(
                replaced(n_shape, axis, *size), array.dtype)
        at = _positions(typed, n, size, bool(replace), p, mode)
        return at if array is None else jnp.take(array, at, axis)


@resharding
@planned
def categorical(key: Any, logits: Any, axis: int = -1, shape: Any = None, replace: bool = True,
                mode: str | None = None, *, out_sharding: Any = None) -> Array:
    """Random categories from unnormalized log probabilities.

    Args:
      key: a PRNG key.
      logits: log probabilities, a float array.
      axis: along which categories lie.
      replace: whether a category may come twice along the leading axes of shape.
      mode: of the Gumbel numbers: 'low', 'high' or 'highest'.
      shape: of the result; it ends with that of logits without the axis (the default).
      out_sharding: of the result, over Explicit axes (NamedSharding or PartitionSpec).

    Returns:
      Integers of that shape.

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys.
      IndexError: axis is out of bounds.
      ValueError: logits are no floats, shapes do not fit, or more are asked for than
        there are categories.

    Example:
      >>> import calque.random as random
      >>> import numpy as np
      >>> key = random.PRNGKey(0)
      >>> print(random.categorical(key, np.zeros(4, np.float32), shape=(3,)))
      [0 1 3]
    """
    with lazy_eval("categorical"):
        typed = key_of("categorical", key)
        logits = given("categorical", logits)
        d, ndim = float_dtype("gumbel", logits.dtype), logits.ndim
        if not -ndim <= axis < ndim:
            raise IndexError(explain(
                f"categorical: index {axis} is out of bounds for axis 0 with size {ndim}."))
        axis %= ndim
        batch = without(logits.shape, [axis])
        size, _ = parameters("categorical", batch if shape is None else shape,
                             jnp.zeros(batch, bool))
        prefix = size[:len(size) - len(batch)]
        if not replace:
            count, n = math.prod(prefix), logits.shape[axis]
            if count > n:
                raise ValueError(explain(
                    f"Number of samples without replacement ({count}) cannot exceed number of "
                    f"categories ({n})."))
            noisy = draw_gumbel(typed, tuple(logits.shape), d, mode) + logits
            found = lax.top_k(jnp.moveaxis(noisy, axis, -1), count)[1]
            return jnp.reshape(jnp.moveaxis(found, -1, 0), size)
        own = list(size[len(prefix):])
        own.insert(axis, logits.shape[axis])
        noise = draw_gumbel(typed, (*prefix, *own), d, mode)
        return jnp.argmax(noise + logits, axis=len(prefix) + axis)


# ---- vectors and matrices
def _factor(cov: Any, method: str) -> Any:
    """A with A A^T = cov."""
    if method == "cholesky":
        return jnp.linalg.cholesky(cov)
    if method == "eigh":
        w, v = jnp.linalg.eigh(cov)
        return v * lax.sqrt(w[..., None, :])
    u, s, _ = jnp.linalg.svd(cov)
    return u * lax.sqrt(s[..., None, :])


@resharding
@planned
def multivariate_normal(key: Any, mean: Any, cov: Any, shape: Any = None, dtype: Any = None,
                        method: str = "cholesky", *, out_sharding: Any = None) -> Array:
    """Normal vectors of a mean and a covariance.

    Args:
      key: a PRNG key.
      mean: along the last axis.
      cov: covariances, positive semidefinite matrices on the last two axes.
      method: 'cholesky' (fast; positive definite only), 'eigh' or 'svd'.
      shape: of the result without the last axis (default that of the parameters).
      dtype: float dtype (default float32, float64 with x64).
      out_sharding: of the result, over Explicit axes (NamedSharding or PartitionSpec).

    Returns:
      An array of shape (*shape, n) and that dtype.

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys, or dtype is no such dtype.
      ValueError: method is unknown, mean is a scalar, or cov does not fit it.

    Example:
      >>> import calque.random as random
      >>> import numpy as np
      >>> key = random.PRNGKey(0)
      >>> print(random.multivariate_normal(key, np.zeros(2, np.float32), np.eye(2)).shape)
      (2,)
    """
    name = "multivariate_normal"
    with lazy_eval(name):
        typed = key_of(name, key)
        mean, cov = given(name, mean), given(name, cov)
        if dtype is None:
            dtype = jnp.promote_types(jnp.result_type(mean, cov), np.float32)
        d = float_dtype(name, dtype)
        if method not in ("svd", "eigh", "cholesky"):
            raise ValueError(explain("method must be one of {'svd', 'eigh', 'cholesky'}, got "
                                     f"{method!r}."))
        if mean.ndim < 1:
            raise ValueError(explain(
                f"{name} requires mean.ndim >= 1, got mean.ndim == {mean.ndim}."))
        if cov.ndim < 2:
            raise ValueError(explain(
                f"{name} requires cov.ndim >= 2, got cov.ndim == {cov.ndim}."))
        n = mean.shape[-1]
        if tuple(cov.shape[-2:]) != (n, n):
            raise ValueError(explain(
                f"{name} requires cov.shape == (..., n, n) for n={n}, but got cov.shape == "
                f"{tuple(cov.shape)}."))
        size, _ = parameters(name, shape, np.empty(mean.shape[:-1], bool),
                             np.empty(cov.shape[:-2], bool))
        wide = jnp.promote_types(jnp.result_type(mean, cov), np.float32)
        z = ew.convert(draw_normal(typed, (*size, n), d), wide)
        mean, cov = ew.convert(mean, wide), ew.convert(cov, wide)
        return mean + jnp.einsum("...ij,...j->...i", _factor(cov, method), z, precision="highest")


@resharding
@planned
def orthogonal(key: Any, n: int, shape: Any = (), dtype: Any = None, m: int | None = None, *,
               out_sharding: Any = None) -> Array:
    """Orthogonal (unitary) matrices, uniformly (Haar measure); of n x m a part of one.

    Args:
      key: a PRNG key.
      n: rows.
      m: columns (default n).
      shape: before the axes of the matrices.
      dtype: float or complex dtype (default float32, float64 with x64).
      out_sharding: of the result, over Explicit axes (NamedSharding or PartitionSpec).

    Returns:
      An array of shape (*shape, n, m) and that dtype.

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys, or dtype is no such dtype.
      TypeError: n or m is no integer.

    Example:
      >>> import calque.random as random
      >>> key = random.PRNGKey(0)
      >>> print(random.orthogonal(key, 2).shape)
      (2, 2)
    """
    d = float_dtype("normal", dtype, " or complex")
    with lazy_eval("orthogonal"):
        typed = key_of("orthogonal", key)
        rows = operator.index(n)
        columns = rows if m is None else operator.index(m)
        size = as_shape("orthogonal", shape)
        z = draw_normal(typed, (*size, max(rows, columns), min(rows, columns)), d)
        q, r = jnp.linalg.qr(z)
        q = q * lax.sign(jnp.diagonal(r, axis1=-2, axis2=-1))[..., None, :]
        return q if rows >= columns else jnp.swapaxes(q, -1, -2)
