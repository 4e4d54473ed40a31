"""Transformations composed over loops, conditions and calls, against finite differences in NumPy.

Each function of functions.py is differentiated forwards, backwards and twice, mapped, and mapped
after differentiation; evaluated by NumPy from what was
traced, and in a compiled program.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from functions import CALQUE, DEEP, FUNCTIONS, NUMPY
from support.harness import Case, run, run_traced

import calque
import calque.numpy as jnp

pytestmark = pytest.mark.usefixtures("x64")

Arrays = list[Any]


def direction(args: Sequence[Any], seed: int) -> Arrays:
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.uniform(-1, 1, np.shape(a))) for a in args]


def inner(a: Any, b: Any) -> Any:
    return sum(CALQUE.sum(CALQUE.mul(x, y)) if np.ndim(y) else x * y for x, y in zip(a, b))


def moved(args: Sequence[Any], *steps: tuple[float, Arrays]) -> Arrays:
    out = [np.asarray(a, float) for a in args]
    for h, u in steps:
        out = [a + h * d for a, d in zip(out, u)]
    return out


def slope(g: Callable[[Arrays], Any], args: Sequence[Any], u: Arrays) -> Any:
    h = 1e-6
    return (g(moved(args, (h, u))) - g(moved(args, (-h, u)))) / (2 * h)


def curvature(g: Callable[[Arrays], Any], args: Sequence[Any], u: Arrays, v: Arrays) -> Any:
    h = 1e-4
    pp, pm = g(moved(args, (h, u), (h, v))), g(moved(args, (h, u), (-h, v)))
    mp, mm = g(moved(args, (-h, u), (h, v))), g(moved(args, (-h, u), (-h, v)))
    return (pp - pm - mp + mm) / (4 * h * h)


def composed(name: str, f: Callable[..., Any], args: Sequence[Any], deep: bool) -> Case:
    """All compositions of one function; deep: those of three transformations too."""
    u, v = direction(args, 1), direction(args, 2)
    every = tuple(range(len(args)))
    steps = (0.0, 0.5, -1.0)  # rows of the batch: conditions may choose differently
    batch = [np.stack(rows) for rows in zip(*[moved(args, (s, u)) for s in steps])]
    rows = [[b[i] for b in batch] for i in range(len(steps))]

    def program(xs: Arrays, us: Arrays, vs: Arrays, bs: Arrays) -> Arrays:
        def g(*a: Any) -> Any:
            return f(CALQUE, *a)

        def along(*a: Any) -> Any:
            return inner(calque.grad(g, every)(*a), us)

        outs = [g(*xs), calque.jvp(g, tuple(xs), tuple(us))[1], along(*xs),
                calque.jvp(along, tuple(xs), tuple(vs))[1],
                calque.vmap(g)(*bs),
                calque.vmap(g, in_axes=(0, *[None] * (len(xs) - 1)))(bs[0], *xs[1:]),
                calque.vmap(along)(*bs)]
        if deep:
            outs += [
                inner(calque.grad(along, every)(*xs), vs),
                calque.grad(lambda t: calque.jvp(g, tuple(moved_by(xs, t, vs)), tuple(us))[1])(
                    np.float64(0)),
                calque.jvp(lambda *a: calque.vmap(along)(*a), tuple(bs), tuple(bs))[1],
                inner(calque.grad(lambda *a: CALQUE.sum(calque.vmap(g)(*a)), every)(*bs), bs)]
        return outs

    def g(a: Arrays) -> Any:
        return f(NUMPY, *a)

    second = curvature(g, args, u, v)
    want = {
        "value": g(moved(args)), "jvp": slope(g, args, u), "grad": slope(g, args, u),
        "jvp of grad": second, "vmap": [g(r) for r in rows],
        "vmap of the first": [g([r[0], *args[1:]]) for r in rows],
        "vmap of grad": [slope(g, r, u) for r in rows]}
    if deep:
        want |= {"grad of grad": second, "grad of jvp": second,
                 "jvp of vmap of grad": [curvature(g, r, r, u) for r in rows],
                 "grad of vmap": sum(slope(g, r, r) for r in rows)}

    def check(outs: Arrays) -> str:
        wrong = []
        for (label, w), o in zip(want.items(), outs, strict=True):
            close = 3e-5 if label in _TWICE else 1e-6
            if not np.all(np.abs(o - w) <= close * (1 + np.abs(w).max())):
                wrong.append(f"{label}: {o} instead of {w}")
        return "; ".join(wrong)

    return Case(name, program, (moved(args), u, v, batch), check)


_TWICE = ("jvp of grad", "grad of grad", "grad of jvp", "jvp of vmap of grad")


def moved_by(xs: Arrays, t: Any, vs: Arrays) -> Arrays:
    return [x + t * v if np.ndim(v) == 0 else CALQUE.add(
        x, CALQUE.mul(CALQUE.full(t, np.shape(v)), v)) for x, v in zip(xs, vs)]


ROWS = {row[0]: row for row in FUNCTIONS}
LONG = ("scan_of_scan[20, 70]",)  # 1,400 steps, each in NumPy
COMPILED = "cond_small, true"  # by default


def case(name: str) -> Case:
    return composed(*ROWS[name], name in DEEP)


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in ROWS])
def test_compositions(name: str) -> None:
    run_traced([case(name)])


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.slow] * (name != COMPILED)) for name in ROWS])
def test_compiled_compositions(name: str) -> None:
    run([case(name)])


def test_what_is_not_mapped_is_passed_as_it_is() -> None:
    """A Python number stays one, so that it may be static within; arrays of NumPy stay theirs."""
    seen: list[type] = []

    def f(x: Any, n: Any, a: Any) -> Any:
        seen.extend((type(n), type(a)))
        return calque.jit(lambda x, n: jnp.arange(n) + x, static_argnums=1)(x, n) + a

    out = calque.vmap(f, in_axes=(0, None, None))(jnp.arange(2.0), 3, np.float32([1, 2, 3]))
    np.testing.assert_array_equal(out, [[1, 3, 5], [2, 4, 6]])
    assert seen == [int, np.ndarray]
