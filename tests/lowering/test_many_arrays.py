"""Programs that compute from, or give, more arrays than a dispatch may take: 32 on CPUs in a module
of ours (64 in all), 16 on CUDA.  Packing and unpacking, written-out loops, residuals of branches.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.harness import partly_slow

import calque
import calque.numpy as jnp
from calque import aot, flatten_util, lax
from calque.aot import artifacts
from calque.lowering.driver import attempts
from calque.lowering.driver.attempts import most_bindings
from calque.lowering.passes import cost

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


def branch_of(n: int, order: int) -> Callable[[Any], Any]:
    """A derivative of a `cond` one of whose branches is a chain of n functions."""
    def chain(x: Any) -> Any:
        return functools.reduce(lambda a, i: (jnp.sin, jnp.cos, jnp.tanh)[i % 3](a), range(n), x)

    def f(x: Any) -> Any:
        return lax.cond(x > 0, chain, lambda x: x * x * x, x)

    return functools.reduce(lambda g, _: calque.grad(g), range(order), f)


def derivative_of_chain(x: float, n: int, order: int) -> float:
    """The same by Taylor coefficients of sin, cos and tanh (Griewank and Walther, Evaluating
    Derivatives, 2008, table 13.2)."""
    u = np.zeros(order + 1)
    u[:2] = x, 1
    for i in range(n):
        a, b = np.zeros(order + 1), np.zeros(order + 1)
        a[0], b[0] = (np.tanh(u[0]), 1 - np.tanh(u[0]) ** 2) if i % 3 == 2 else (
            np.sin(u[0]), np.cos(u[0]))
        for k in range(1, order + 1):
            j = np.arange(1, k + 1)
            a[k] = (j * u[j] * b[k - j]).sum() / k
            if i % 3 == 2:  # b = 1 - a^2
                b[k] = -(a[:k + 1] * a[k::-1]).sum()
            else:
                b[k] = -(j * u[j] * a[k - j]).sum() / k
        u = b if i % 3 == 1 else a
    return float(u[order] * math.factorial(order))


@pytest.mark.parametrize("n, order, by_iree", [
    (12, 3, False), *[pytest.param(*p, marks=pytest.mark.slow) for p in (
        (12, 2, True), (12, 3, True), (40, 2, True), (12, 4, True), (40, 3, True), (130, 2, True),
        (12, 4, False), (40, 3, False), (130, 2, False))]])
def test_high_derivatives_of_branches(n: int, order: int, by_iree: bool,
                                      monkeypatch: pytest.MonkeyPatch) -> None:
    if by_iree:  # no kernel of ours
        monkeypatch.setattr(cost, "WHOLE_EQUATIONS", 0)
        monkeypatch.setattr(cost, "FEW_EQUATIONS", 0)
    got = float(calque.jit(branch_of(n, order))(np.float32(0.7)))
    # n functions after each other, each conditioned by a few units: n x 20 of the last place
    np.testing.assert_allclose(got, derivative_of_chain(0.7, n, order), rtol=n * 20 * 2.0 ** -24)


@pytest.mark.parametrize("target, most, n, order", [
    ("cuda:sm_80", 16, 12, 2), *[pytest.param(*p, marks=pytest.mark.slow) for p in (
        ("cuda:sm_80", 16, 12, 3), ("cuda:sm_80", 16, 40, 3), ("cuda:sm_80", 16, 130, 2),
        ("cuda:sm_80", 16, 12, 4), ("vulkan:ampere", 32, 12, 3), ("vulkan:ampere", 32, 40, 3))]])
def test_dispatches_of_artifacts_fit(target: str, most: int, n: int, order: int) -> None:
    made = aot.compile(branch_of(n, order), jnp.float32(0.7), targets=[target])
    assert 0 < most_bindings(made.vmfb) <= most


def test_artifacts_are_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ways: list[dict[str, Any]] = []
    lower_for = artifacts.lower_for

    def noted(*args: Any, **how: Any) -> Any:
        ways.append(how)
        return lower_for(*args, **how)

    monkeypatch.setattr(artifacts, "lower_for", noted)
    monkeypatch.setattr(attempts, "most_bindings", lambda vmfb: 33)
    aot.compile(lambda x: [jnp.sin(x) + i for i in range(3)], jnp.float32(1))
    assert ways[1:] == [{}, {"beside": False}, {"bindings": 16}, {"bindings": 8}, {"bindings": 4}]


def test_a_loop_of_constants() -> None:
    """IREE makes one dispatch of all that it computes when a program is loaded, as the first 70
    numbers (fuzz.py, seed 61975)."""
    def f(start: Any, x: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            return (c[0] + 1, c[0]), lax.rem(c[0], c[0])
        return lax.scan(step, (0, start), None, length=70), jnp.sort(x), jnp.sin(x)

    x = np.linspace(2, 1, 5000, dtype=np.float32)
    ((last, before), rest), ordered, sines = calque.jit(f)(7, x)
    assert (int(last), int(before)) == (70, 69)
    np.testing.assert_array_equal(np.asarray(rest)[1:], np.zeros(69))  # (0 % 0 is anything)
    np.testing.assert_array_equal(ordered, x[::-1])
    np.testing.assert_allclose(sines, np.sin(x), rtol=1e-6)
