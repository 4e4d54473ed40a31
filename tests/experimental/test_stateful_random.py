"""Generators with a state: the numbers are those of the n-th key, as jax 0.10.2 draws them."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import random
from calque.experimental.random import StatefulPRNG, stateful_rng


def nth(n: int) -> Any:
    return random.fold_in(random.key(0), n)


def same(x: Any, y: Any) -> None:
    np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


def test_each_draw_is_of_the_next_key() -> None:
    rng = stateful_rng(0)
    same(rng.uniform(), random.uniform(nth(0)))
    same(rng.uniform(1, 3, (2,)), random.uniform(nth(1), (2,), minval=1, maxval=3))
    same(rng.normal(2, 3, 4), 2 + 3 * random.normal(nth(2), (4,)))
    same(rng.integers(2, 10, 3), random.randint(nth(3), (3,), 2, 10))
    same(rng.integers(7), random.randint(nth(4), (), 0, 7))
    same(rng.random(3, "float16"), random.uniform(nth(5), (3,), "float16"))
    same(random.key_data(rng.key(3)), random.key_data(random.split(nth(6), 3)))
    same(rng.uniform(np.zeros(2), np.ones((3, 1))), random.uniform(nth(7), (3, 2)))
    with calque.threefry_partitionable(True):  # as jax prints it
        assert [float(calque.jit(r.uniform)()) for r in [stateful_rng(42)] * 2] == [
            pytest.approx(0.5302608), pytest.approx(0.72766423)]


def test_transformations_move_the_state_on() -> None:
    rng = stateful_rng(0)
    draw = calque.jit(lambda rng: rng.uniform() + rng.uniform() * 0)
    same(draw(rng), random.uniform(nth(0)))
    same(draw(rng), random.uniform(nth(2)))
    total = calque.lax.fori_loop(0, 3, lambda i, c: c + rng.uniform(), 0.0)
    np.testing.assert_allclose(total, sum(random.uniform(nth(4 + i)) for i in range(3)), rtol=1e-6)
    keys = random.split(nth(7), 3)
    same(calque.vmap(lambda r, x: x + r.uniform())(rng.split(3), jnp.zeros(3)),
         calque.vmap(lambda k: random.uniform(random.fold_in(k, 0)))(keys))
    children = rng.spawn(2)
    same(random.key_data(children[1].key()),
         random.key_data(random.fold_in(random.split(nth(8), 2)[1], 0)))
    np.testing.assert_allclose(
        calque.grad(lambda x: rng.uniform() * x)(1.0), random.uniform(nth(9)))


def test_what_is_refused() -> None:
    split = stateful_rng(0).split(2)
    for act in (split.uniform, split.key, lambda: split.split(2), lambda: split.spawn(2)):
        with pytest.raises(ValueError, match="cannot operate on split stateful generator"):
            act()
    with pytest.raises(TypeError, match="requires an explicit seed"):
        calque.jit(lambda: stateful_rng().uniform())()
    with pytest.raises(ValueError, match="typed PRNG key; got 1"):
        StatefulPRNG(1, 2)
    with pytest.raises(ValueError, match="scalar integer ref; got 3"):
        StatefulPRNG(random.key(0), 3)
    with pytest.raises(ValueError, match="returned a mutable array reference"):
        calque.jit(lambda rng: rng)(stateful_rng(0))
    assert stateful_rng().uniform() != stateful_rng().uniform()
