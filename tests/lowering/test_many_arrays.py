"""Programs that compute from, or give, more arrays than a dispatch may take: 32 on CPUs in a module
of ours (64 in all), 16 on CUDA.  Packing and unpacking, written-out loops, residuals of branches.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.harness import partly_slow

import calque
import calque.numpy as jnp
from calque import flatten_util, lax

Form = tuple[Callable[[int, Any], Any], Callable[..., Any], Callable[..., Any]]


def numbers(n: int, dtype: Any) -> Any:
    return [np.dtype(dtype).type(i % 7 + 1) for i in range(n)],


def vectors(n: int, dtype: Any) -> Any:
    return [np.full(3, i % 5, dtype) for i in range(n)],


def one(n: int, dtype: Any) -> Any:
    return (np.arange(n) % 7 + 1).astype(dtype),


def every(a: Any) -> range:
    return range(len(a))


# name -> (arguments, function, by NumPy)
FORMS: dict[str, Form] = {
    "stack of numbers": (numbers, lambda a: jnp.stack([v * 2 for v in a]),
                         lambda a: np.stack([v * 2 for v in a])),
    "tuple of numbers": (numbers, lambda a: tuple(v * 2 + 1 for v in a),
                         lambda a: tuple(v * 2 + 1 for v in a)),
    "right-hand side": (one, lambda y: jnp.array([y[i] * y[i - 1] - y[i - 2] for i in every(y)]),
                        lambda y: np.array([y[i] * y[i - 1] - y[i - 2] for i in every(y)])),
    "elements first": (one, lambda y: (lambda e: [e[i] * e[i - 1] for i in every(e)])(
        [y[i] for i in range(len(y))]), lambda y: [y[i] * y[i - 1] for i in every(y)]),
    "prefix sums": (numbers, lambda a: functools.reduce(lambda p, q: [*p, p[-1] + q], a[1:], a[:1]),
                    lambda a: list(np.cumsum(a).astype(a[0].dtype))),
    "stack of choices": (numbers, lambda a: jnp.stack([jnp.where(v > 3, v, 0) for v in a]),
                         lambda a: np.stack([np.where(v > 3, v, 0) for v in a])),
    "concatenate": (vectors, lambda a: jnp.concatenate([v * 2 for v in a]),
                    lambda a: np.concatenate([v * 2 for v in a])),
    "sums": (vectors, lambda a: [v.sum() for v in a], lambda a: [v.sum() for v in a]),
    "stack of sums": (vectors, lambda a: jnp.stack([v.sum() * 2 for v in a]),
                      lambda a: np.stack([v.sum() * 2 for v in a])),
    "each with the next": (vectors, lambda a: [v + a[i - 1] for i, v in enumerate(a)],
                           lambda a: [v + a[i - 1] for i, v in enumerate(a)]),
    "written-out scan": (one, lambda y: lax.scan(lambda c, v: (c + v, c * v), y[0], y,
                                                 unroll=True)[1],
                         lambda y: (np.concatenate([[0], np.cumsum(y)[:-1]]) + y[0]) * y),
    "branch": (numbers, lambda a: lax.cond(a[0] > 0, lambda a: [v * 2 for v in a],
                                           lambda a: [v + 1 for v in a], a),
               lambda a: [v * 2 for v in a])}
FLOATS: dict[str, Form] = {
    "gradient of packing": (numbers, calque.grad(lambda a: (jnp.stack(
        [v * v for v in a]) ** 2).sum()), lambda a: [4 * v ** 3 for v in a]),
    "descent": (vectors, lambda p: [a - 0.5 * b for a, b in zip(p, [2 * v + 1 for v in p])],
                lambda p: [v - 0.5 * (2 * v + 1) for v in p]),
    "ravel_pytree": (lambda n, dtype: ([np.full((20, 20), i, dtype) for i in range(n)],),
                     lambda a: flatten_util.ravel_pytree(a)[0],
                     lambda a: np.concatenate([v.ravel() for v in a])),
    "loop over numbers": (numbers, lambda a: lax.scan(lambda c, x: (tuple(
        v * 0.5 + x for v in c), None), tuple(a), jnp.arange(3.0, dtype=a[0].dtype))[0],
        lambda a: [v / 8 + 2.5 for v in a]),
    "rows": (lambda n, dtype: (np.ones((3, n), dtype),), calque.vmap(
        lambda y: jnp.array([y[i] * 2 for i in range(y.shape[0])])), lambda y: y * 2)}


def check(name: str, n: int, dtype: str = "float32") -> None:
    make, f, want = {**FORMS, **FLOATS}[name]
    args = make(n, np.dtype(dtype))
    with calque.enable_x64(dtype == "float64"):
        got = calque.tree.leaves(calque.jit(f)(*args))
    exact = [np.asarray(v) for v in calque.tree.leaves(want(*args))]
    assert len(got) == len(exact)
    for a, b in zip(got, exact):
        np.testing.assert_allclose(a, b, rtol=1e-5, err_msg=f"{name} {n} {dtype}")


@pytest.mark.parametrize("name", partly_slow([*FORMS, *FLOATS], 0.4))
def test_more_arrays_than_a_dispatch_takes(name: str) -> None:
    check(name, 36)


@pytest.mark.slow
@pytest.mark.parametrize("n", [*range(28, 36), *range(60, 71, 2), 130, 300])
@pytest.mark.parametrize("name", [*FORMS, *FLOATS])
def test_any_number_of_arrays(name: str, n: int) -> None:
    check(name, n)
    if n in (33, 66):
        check(name, n, "float64")
        if name in FORMS:
            check(name, n, "int32")


def deep(z: Any) -> Any:
    return functools.reduce(lambda a, i: jnp.sin(a) * a, range(10), z)


BRANCHES: dict[str, Callable[[Any], Any]] = {
    "hessian of cond": calque.hessian(lambda z: lax.cond(z > 0, deep, deep, z)),
    "jvp of grad of cond": lambda z: calque.jvp(calque.grad(lambda z: lax.cond(
        z > 0, deep, deep, z)), (z,), (1.0,))[1],
    "hessian of switch": calque.hessian(lambda z: lax.switch(1, [deep, deep, jnp.sin], z)),
    "hessian of cond in scan": calque.hessian(lambda z: lax.scan(lambda c, _: (lax.cond(
        c > 0, deep, deep, c), None), z, None, length=4)[0])}


@pytest.mark.slow
@pytest.mark.parametrize("name", BRANCHES)
def test_residuals_of_branches(name: str) -> None:
    x = np.float32(0.75)
    got = float(calque.jit(BRANCHES[name])(x))
    assert np.isfinite(got)
    if name != "hessian of cond in scan":
        want = float(calque.hessian(deep)(x))
        np.testing.assert_allclose(got, want, rtol=1e-3)
