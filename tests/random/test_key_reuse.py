"""jax_debug_key_reuse: keys that are used twice raise, and no others."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import calque
import calque.numpy as jnp
from calque import lax, random
from calque.errors import KeyReuseError


@pytest.fixture(autouse=True)
def checked() -> Iterator[None]:
    with calque.debug_key_reuse(True):
        yield


def two(k: Any) -> Any:
    a, b = random.split(k)
    return random.normal(a) + random.normal(b)


def stepped(k: Any, _: Any) -> Any:
    k, sub = random.split(k)
    return k, random.normal(sub)


def choice(p: bool, *branches: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda k: lax.cond(jnp.asarray(p), *branches, k)


GOOD: dict[str, Callable[[Any], Any]] = {
    "one draw": random.normal, "a split": two,
    "fold_in": lambda k: [random.normal(random.fold_in(k, i)) for i in range(3)],
    "a clone": lambda k: random.normal(k) + two(random.clone(k)),
    "elements": lambda k: [random.normal(s) for s in random.split(k, 3)],
    "parts": lambda k: calque.vmap(random.normal)(random.split(k, 4)[1:]),
    "a batch": lambda k: calque.vmap(two)(random.split(k, 4)),
    "no keys": lambda k: calque.vmap(two)(random.split(k, 0)),
    "a carry": lambda k: lax.scan(stepped, k, None, 3),
    "rows": lambda k: lax.map(random.normal, random.split(k, 3)),
    "branches": choice(True, random.normal, random.uniform),
    "a gradient": lambda k: calque.grad(lambda w: random.normal(k) * w)(1.0),
    "a checkpoint": lambda k: calque.grad(calque.checkpoint(
        lambda w: jnp.sin(random.normal(k) * w)))(1.0)}
BAD: dict[str, tuple[Callable[[Any], Any], str]] = {
    "two draws": (lambda k: random.normal(k) + random.uniform(k), "random_bits, argument 0"),
    "a draw and a split": (lambda k: random.normal(k) + two(k), "random_split, argument 0"),
    "a view": (lambda k: random.normal(k) + random.normal(k[None][0]), "already consumed"),
    "an element": (lambda k: (lambda s: random.normal(s[1]) + random.normal(s[1]))(
        random.split(k)), "already consumed"),
    "after a branch": (lambda k: choice(True, random.normal, lambda k: 0.0)(k) + random.normal(k),
                       "already consumed"),
    "a constant of a scan": (lambda k: lax.scan(
        lambda c, _: (c + random.normal(k), 0.0), 0.0, None, 3), "key constants are repeatedly"),
    "a constant of a loop": (lambda k: lax.while_loop(
        lambda c: c < 3, lambda c: c + 1 + random.normal(k) ** 2, 0.0), "key constants are"),
    "a carry that is handed on": (lambda k: lax.scan(
        lambda c, _: (c, random.normal(c)), k, None, 3), "that it hands on is consumed"),
    "in a condition": (lambda k: lax.while_loop(
        lambda c: random.normal(c[0]) < 9, lambda c: (c[0], c[1]), (k, 0.0)), "cond function"),
    "in a checkpoint": (lambda k: calque.checkpoint(
        lambda k: random.normal(k) + random.uniform(k))(k), "already consumed")}


@pytest.mark.parametrize("name", GOOD)
def test_what_is_right(name: str) -> None:
    calque.jit(GOOD[name])(random.key(0))


@pytest.mark.parametrize("name", BAD)
def test_what_is_used_twice(name: str) -> None:
    f, text = BAD[name]
    with pytest.raises(KeyReuseError, match=text):
        calque.jit(f)(random.key(0))


def test_calls() -> None:
    f, k = calque.jit(random.normal), random.key(0)
    f(k)
    for again in (f, random.uniform, random.split):
        with pytest.raises(KeyReuseError, match="Previously-consumed key passed to .* at index 0"):
            again(k)
    random.normal(random.clone(k))
    a, b = random.split(random.key(1))
    random.normal(a)
    random.normal(b)
    own = random.key(2)
    g = calque.jit(lambda: random.uniform(own))
    g()
    with pytest.raises(KeyReuseError, match="Previously-consumed"):
        g()
    used, fresh = calque.jit(lambda k: (k, random.fold_in(k, 1), random.normal(k))[:2])(
        random.key(3))
    random.normal(fresh)
    with pytest.raises(KeyReuseError):
        random.normal(used)


def test_keys_of_the_old_kind_and_without_the_option() -> None:
    old = random.PRNGKey(0)
    assert random.normal(old) == random.normal(old)
    k = random.key(0)
    with calque.debug_key_reuse(False):
        assert random.normal(k) == random.normal(k)
    random.normal(k)  # what was not checked is not counted


DRAWS: dict[str, tuple[Any, ...]] = {
    "ball": (2,), "bernoulli": (), "beta": (1.0, 2.0), "binomial": (5, 0.4), "bits": (),
    "categorical": ([0.0, 0.0],), "choice": (5,), "chisquare": (2.0,), "dirichlet": ([1.0, 2.0],),
    "exponential": (), "gamma": (2.0,), "generalized_normal": (2.0,), "geometric": (0.3,),
    "multinomial": (5, [0.5, 0.5]), "multivariate_normal": ([0.0], [[1.0]]), "normal": (),
    "orthogonal": (3,), "pareto": (2.0,), "permutation": (5,), "poisson": (3.0,),
    "randint": ((3,), 0, 5), "t": (3.0,), "truncated_normal": (-1.0, 1.0), "uniform": (),
    "wald": (1.0,)}


@pytest.mark.parametrize("name", DRAWS)
def test_distributions_use_a_key_once(name: str) -> None:
    """However often they draw from it inside."""
    args = [jnp.asarray(a) if isinstance(a, list) else a for a in DRAWS[name]]
    k = random.key(0)
    getattr(random, name)(k, *args)
    with pytest.raises(KeyReuseError):
        getattr(random, name)(k, *args)
