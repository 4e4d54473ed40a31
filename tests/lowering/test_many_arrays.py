"""Loops that carry many arrays: a dispatch has at most 32 bindings, so small arrays share some.

The oracles are the same loops in NumPy, and for the gradient the power of a matrix.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.lowering.kernels.shell import bundles
from calque.lowering.passes import cost

STEPS = 300  # more than are written out
DTYPES = ("f4", "i4", "u4", "i1", "f2", "?", "u1", "i2")
F32, I8 = np.dtype("f4"), np.dtype("i1")


def mix(xs: Any) -> list[Any]:
    """A step: every array takes some of the first one, whose sum stays bounded."""
    return [x * 0.75 + xs[0] * 0.25 for x in xs]


def floats(n: int) -> list[Any]:
    return [np.full((3,), i % 50 + 1, np.float32) for i in range(n)]


def mixed(n: int) -> list[Any]:
    """Arrays and numbers of all dtypes, one of them empty."""
    found = [np.full((3, 2) if i % 3 else (), i % 50, DTYPES[i % 8]) for i in range(n)]
    return [*found[:-1], np.zeros((0, 4), np.float32)] if n > 2 else found


def doubled(x: Any) -> Any:
    return ~x if x.dtype == bool else x + x


def forms(n: int) -> tuple[Any, Any]:
    """(what is compiled, what NumPy says) of n arrays."""
    start, various = floats(n), mixed(n)

    def run(xs: Any, zs: Any) -> Any:
        counted = lax.fori_loop(0, STEPS, lambda i, c: mix(c), xs)
        scanned = lax.scan(lambda c, t: (mix(c), c[:1 + n // 2]), xs, None, length=STEPS)
        _, tested = lax.while_loop(lambda c: c[0] < 5,
                                   lambda c: (c[0] + 1, [doubled(z) for z in c[1]]), (0, zs))
        nested = lax.fori_loop(0, 3, lambda i, c: lax.scan(
            lambda c, t: (mix(c), None), c, None, length=100)[0], xs)
        constants = lax.fori_loop(0, STEPS, lambda i, c: mix(c), [jnp.full(3, i % 50 + 1, "f4")
                                                                  for i in range(n)])
        return counted, scanned, tested, nested, constants

    rows, final = [], start
    for _ in range(STEPS):
        rows.append(final[:1 + n // 2])
        final = mix(final)
    after = various
    with np.errstate(over="ignore"):
        for _ in range(5):
            after = [doubled(z).astype(z.dtype) for z in after]
    return (run, (start, various)), (final, (final, [np.stack(r) for r in zip(*rows)]), after,
                                     final, final)


@pytest.mark.parametrize("n", [1, 33, *[
    pytest.param(n, marks=pytest.mark.slow) for n in (2, 15, 16, 17, 31, 60, 200)]])
def test_loops_of_many_arrays(n: int) -> None:
    (f, args), wants = forms(n)
    outs = calque.jit(f)(*args)
    got, want = calque.tree.leaves(outs), calque.tree.leaves(wants)
    assert len(got) == len(want)
    for o, w in zip(got, want):
        assert o.shape == w.shape and o.dtype == w.dtype
        np.testing.assert_allclose(np.asarray(o), w, rtol=1e-5)  # 300 steps of two roundings
    for x, y in zip(args[0], floats(n)):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("n", [
    40, *[pytest.param(n, marks=pytest.mark.slow) for n in (13, 200)]])
def test_gradients_of_loops_of_many_arrays(n: int) -> None:
    step = np.eye(n) * 0.75
    step[:, 0] += 0.25
    want = np.linalg.matrix_power(step.T, STEPS) @ np.ones(n)
    grad = calque.jit(calque.grad(lambda xs: sum(
        x.sum() for x in lax.fori_loop(0, STEPS, lambda i, c: mix(c), xs))))
    for g, w in zip(grad(floats(n)), want, strict=True):
        np.testing.assert_allclose(g, np.full(3, w), rtol=1e-4,  # 300 steps of two roundings
                                   atol=1e-30)  # (no denormals)


def test_loops_that_iree_steps_through_from_the_host() -> None:
    """No kernel of ours: a sort in the body."""
    n = 40

    def run(np: Any, c: list[Any]) -> list[Any]:
        for _ in range(3):
            c = [np.sort(c[0]), *[x * 0.5 + c[0] for x in c[1:]]]
        return c

    xs = [np.linspace(i, -i, 5).astype(np.float32) for i in range(n)]
    out = calque.jit(lambda c: lax.fori_loop(0, 3, lambda i, c: [
        jnp.sort(c[0]), *[x * 0.5 + c[0] for x in c[1:]]], c))(xs)
    for o, w in zip(out, run(np, xs), strict=True):
        np.testing.assert_allclose(o, w, rtol=1e-6)


def test_small_arrays_of_one_dtype_share_a_binding() -> None:
    few = [((3,), F32)] * 4
    assert bundles(few, few, 8) == ([[0], [1], [2], [3]], [[0], [1], [2], [3]])
    large = ((100, 100), F32)
    taken, given = bundles([large, *few, ((), I8)], [large, *few], 8)
    assert [0] in taken and [0] in given  # what is large is not copied
    assert len(taken) + len(given) <= 8
    for groups, count in ((taken, 6), (given, 5)):
        assert sorted(i for g in groups for i in g) == list(range(count))
    many = [((i % 5,), np.dtype(DTYPES[i % 8])) for i in range(400)]
    taken, given = bundles(many, many, cost.MOST_BINDINGS - 1)
    assert len(taken) + len(given) <= cost.MOST_BINDINGS - 1
