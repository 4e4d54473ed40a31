"""Random generators with a state of their own: stateful_rng(seed), a key and a counter that each
draw moves on.  The n-th draw uses fold_in(key, n), so the numbers are jax.experimental.random's.

Start reading at `StatefulPRNG.key`.
"""
from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque import random
from calque.core import dtypes
from calque.core.errors import explain
from calque.core.trace import current, eval_trace
from calque.extras.ref import Ref, new_ref
from calque.numpy import broadcast_shapes, shape, zeros
from calque.trees import util as tree_util

__all__ = ["StatefulPRNG", "stateful_rng"]
Size = int | Sequence[int] | None


@dataclasses.dataclass(frozen=True)
class StatefulPRNG:
    """A random generator that remembers how often it was asked; made by `stateful_rng`.

    A tree of its key and its counter, a reference: it is an argument of transformed functions,
    or closed over, and no result.

    Example:
      >>> from calque.experimental import random
      >>> rng = random.stateful_rng(42)
      >>> rng.uniform() == rng.uniform()
      Array(False, dtype=bool)
    """

    _base_key: Any
    _counter: Any

    def __post_init__(self) -> None:
        key, counter = self._base_key, self._counter
        if not (hasattr(key, "dtype") and dtypes.is_key(key.dtype)):
            raise ValueError(explain(f"Expected base_key to be a typed PRNG key; got {key}",
                                     fix="use stateful_rng(seed), or random.key(seed)."))
        if not (isinstance(counter, Ref) and dtypes.is_integer(counter.dtype)):
            raise ValueError(explain(f"Expected counter to be a scalar integer ref; got {counter}",
                                     fix="use stateful_rng(seed), or new_ref(0)."))

    def _one(self) -> None:
        if shape(self._base_key):
            raise ValueError(explain("cannot operate on split stateful generator",
                                     fix="map over it with vmap."))

    def key(self, shape: int | Sequence[int] = ()) -> Any:
        """A new key, or an array of them; the state moves on.

        Args:
          shape: of the array.

        Returns:
          Keys.

        Raises:
          ValueError: the generator was split.

        Example:
          >>> from calque.experimental import random
          >>> rng = random.stateful_rng(0)
          >>> rng.key() == rng.key()
          Array(False, dtype=bool)
        """
        self._one()
        found = random.fold_in(self._base_key, self._counter[...])
        self._counter[...] += 1
        return random.split(found, shape) if shape != () else found

    def split(self, num: int | Sequence[int]) -> StatefulPRNG:
        """Independent generators in one, for vmap.

        Args:
          num: how many, or the shape of the array of them.

        Returns:
          A generator whose key and counter are arrays.

        Raises:
          ValueError: the generator was split.

        Example:
          >>> import calque
          >>> rng = calque.experimental.random.stateful_rng(123)
          >>> calque.vmap(lambda rng: rng.uniform())(rng.split(3)).shape
          (3,)
        """
        keys = self.key(num)
        return StatefulPRNG(keys, new_ref(zeros(shape(keys), np.int32)))

    def spawn(self, n_children: int) -> list[StatefulPRNG]:
        """Independent generators.

        Args:
          n_children: how many.

        Returns:
          A list of them.

        Raises:
          ValueError: the generator was split.

        Example:
          >>> from calque.experimental import random
          >>> len(random.stateful_rng(0).spawn(2))
          2
        """
        return [StatefulPRNG(key, new_ref(0)) for key in self.key(n_children)]

    def random(self, size: Size = None, dtype: Any = float) -> Any:
        """Floats from 0 to 1, without 1.

        Args:
          size: of the axes; None: one number.
          dtype: of the floats.

        Returns:
          An array.

        Raises:
          ValueError: the generator was split.

        Example:
          >>> from calque.experimental import random
          >>> random.stateful_rng(0).random(2).shape
          (2,)
        """
        return random.uniform(self.key(), _shape(size), dtype=dtype)

    def uniform(self, low: Any = 0, high: Any = 1, size: Size = None, *, dtype: Any = float) -> Any:
        """Floats from low to high.

        Args:
          low, high: arrays that broadcast with size.
          size: of the axes; None: as low and high have it.
          dtype: of the floats.

        Returns:
          An array.

        Raises:
          ValueError: the generator was split.

        Example:
          >>> from calque.experimental import random
          >>> random.stateful_rng(0).uniform(1, 3, 2).min() >= 1
          Array(True, dtype=bool)
        """
        return random.uniform(self.key(), _shape(size, low, high), dtype=dtype, minval=low,
                              maxval=high)

    def normal(self, loc: Any = 0, scale: Any = 1, size: Size = None, *, dtype: Any = float) -> Any:
        """Normally distributed floats.

        Args:
          loc, scale: mean and standard deviation, arrays that broadcast with size.
          size: of the axes; None: as loc and scale have it.
          dtype: of the floats.

        Returns:
          An array.

        Raises:
          ValueError: the generator was split.

        Example:
          >>> from calque.experimental import random
          >>> random.stateful_rng(0).normal(size=3).dtype
          dtype('float32')
        """
        return loc + scale * random.normal(self.key(), _shape(size, loc, scale), dtype=dtype)

    def integers(self, low: Any, high: Any = None, size: Size = None, *, dtype: Any = int) -> Any:
        """Integers from low to high, without high.

        Args:
          low, high: arrays that broadcast with size; without high they are from 0 to low.
          size: of the axes; None: as low and high have it.
          dtype: of the integers.

        Returns:
          An array.

        Raises:
          ValueError: the generator was split.

        Example:
          >>> from calque.experimental import random
          >>> random.stateful_rng(0).integers(10).dtype
          dtype('int32')
        """
        if high is None:
            low, high = 0, low
        return random.randint(self.key(), _shape(size, low, high), low, high, dtype=dtype)


def _of_leaves(_: None, leaves: Any) -> StatefulPRNG:
    """Of whatever a transformation puts into a tree."""
    made = object.__new__(StatefulPRNG)
    for field, leaf in zip(("_base_key", "_counter"), leaves):
        object.__setattr__(made, field, leaf)
    return made


tree_util.register_pytree_with_keys(StatefulPRNG, lambda g: (
    [(tree_util.GetAttrKey(n), getattr(g, n)) for n in ("_base_key", "_counter")], None),
    _of_leaves)


def _shape(size: Size, *parameters: Any) -> tuple[int, ...]:
    if size is None:
        return broadcast_shapes(*map(shape, parameters))
    return (size,) if isinstance(size, int) else tuple(size)


def stateful_rng(seed: Any = None, *, impl: Any = None) -> StatefulPRNG:
    """A random generator like numpy.random.default_rng's, whose state each draw moves on.

    Args:
      seed: a scalar integer; None, outside of transformed functions only: one that nobody knows.
      impl: of the keys, as random.key takes it.

    Returns:
      A StatefulPRNG.

    Raises:
      TypeError: the seed is no scalar integer, or is missing inside a transformed function.

    Example:
      >>> import calque
      >>> rng = calque.experimental.random.stateful_rng(42)
      >>> draw = calque.jit(rng.uniform)
      >>> draw() == draw()
      Array(False, dtype=bool)
    """
    if seed is None:
        if current.get() is not eval_trace:
            raise TypeError(explain(
                "When used within transformed code, jax.experimental.random.stateful_rng() "
                "requires an explicit seed to be set.", fix="pass a seed."))
        seed = secrets.randbits(32)
    return StatefulPRNG(random.key(seed, impl=impl), new_ref(0))
