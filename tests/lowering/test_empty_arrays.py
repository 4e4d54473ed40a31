"""Arrays without elements are taken out of Programs: loops around them stay kernels."""
from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax

A = np.array([[0.9, 0.1], [-0.2, 0.8]], np.float32)
X = np.array([1, 2], np.float32)


def filtered(u: Any, x: Any) -> Any:
    """A state space without inputs: B is (2, 0), u is (n, 0)."""
    def step(carry: Any, u: Any) -> Any:
        x, none = carry
        x = A @ x + jnp.zeros((2, 0)) @ u
        return (x, none + u), (x.sum(), jnp.concatenate([u, x, none]))
    return lax.scan(step, (x, jnp.ones(0)), u)


def counted(x: Any, none: Any) -> Any:
    return lax.while_loop(lambda c: c[0].sum() + c[1].sum() > 1, lambda c: (
        c[0] * 0.5 + none.sum(), c[1] + none), (x, none))


def test_a_scan() -> None:
    f = calque.jit(filtered)
    u = np.zeros((5, 0), np.float32)
    (x, none), (sums, joined) = f(u, X)
    wanted = [np.linalg.matrix_power(A.astype(float), i + 1) @ X for i in range(5)]
    np.testing.assert_allclose(x, wanted[-1], rtol=1e-5)
    np.testing.assert_allclose(joined, wanted, rtol=1e-5)
    np.testing.assert_allclose(sums, np.sum(wanted, 1), rtol=1e-5)
    assert none.shape == (0,) and "from the host" not in str(f.lower(u, X).plan())


def test_a_while_loop() -> None:
    f = calque.jit(counted)
    none = np.zeros((0, 3), np.float32)
    x, left = f(X, none)
    np.testing.assert_allclose(x, X / 4)
    assert left.shape == (0, 3) and "from the host" not in str(f.lower(X, none).plan())


def test_outside_of_loops() -> None:
    def f(x: Any, none: Any) -> Any:
        only = jnp.concatenate([x[:0], x, none.sum(0)])
        none_on_none = none.T @ none
        return only, none_on_none, jnp.prod(none, 0), none.any(0), none.all(0), none + 1
    none = np.zeros((0, 2), np.float32)
    found = calque.jit(f)(X, none)
    wanted = (np.r_[X, 0, 0], np.zeros((2, 2)), np.ones(2), np.zeros(2, bool), np.ones(2, bool),
              none)
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape
        np.testing.assert_array_equal(a, b)


def test_branches_and_calls() -> None:
    def f(x: Any, none: Any) -> Any:
        inner = calque.jit(lambda x, n: x + n.sum())
        return lax.cond(x[0] > 0, inner, lambda x, n: x, x, none), lax.switch(
            1, [lambda n: n, lambda n: n + 1], none)
    x, none = calque.jit(f)(X, np.zeros(0, np.float32))
    np.testing.assert_array_equal(x, X)
    assert none.shape == (0,)


@pytest.mark.parametrize("made", [
    lambda: np.zeros((0,), calque.dtypes.float0), lambda: jnp.zeros((0, 2), "int4"),
    lambda: jnp.zeros((2, 0), "bfloat16"),
    lambda: calque.random.split(calque.random.key(0), 3)[:0]],
    ids=["float0", "int4", "bfloat16", "key"])
def test_every_dtype_through_loops(made: Any) -> None:
    """float0, keys and narrow numbers: captured, carried, stacked, and kept by a checkpoint."""
    none, steps = made(), jnp.arange(2.)
    for f in (lambda z: lax.scan(lambda c, x: (c, z), 0., steps),
              lambda z: lax.scan(lambda c, x: ((c[0] + x, c[1]), c[1]), (0., z), steps),
              lambda z: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1]), (0., z)),
              lambda z: calque.checkpoint(lambda z, x: (z, x))(z, steps)):
        found, wanted = (calque.tree.leaves(a) for a in (f(none), calque.eval_shape(f, none)))
        # (a carry that no step changes is handed back as it was given: a float)
        found = [jnp.asarray(a) if isinstance(a, float) else a for a in found]
        assert [(np.shape(a), a.dtype) for a in found] == [(a.shape, a.dtype) for a in wanted]
    carried = lax.scan(lambda c, x: ((c[0] + x, c[1]), c[1]), (0., none), steps)
    assert float(carried[0][0]) == 1 and carried[1].shape == (2, *none.shape)


SUMS = [(lax.reduce_sum_p, np.add), (lax.reduce_prod_p, np.multiply)]
BITS = [(lax.reduce_and_p, np.bitwise_and), (lax.reduce_or_p, np.bitwise_or),
        (lax.reduce_xor_p, np.bitwise_xor)]


@pytest.mark.parametrize("dtype, folds", [
    ("bool", BITS), ("int8", SUMS + BITS), ("uint8", SUMS + BITS), ("uint4", BITS),
    ("int32", SUMS + BITS), ("uint32", SUMS + BITS), ("float32", SUMS), ("bfloat16", SUMS)])
def test_folds_of_nothing_are_their_identities(dtype: str, folds: list[Any]) -> None:
    known = {"uint4": "uint8", "bfloat16": "float32"}.get(dtype, dtype)  # to NumPy
    for primitive, fold in folds:
        more = {"out_sharding": None} if primitive is lax.reduce_sum_p else {}
        found = calque.jit(partial(primitive.bind, axes=(1,), **more))(np.zeros((2, 0), dtype))
        assert found.dtype == dtype
        wanted = fold.reduce(np.zeros((2, 0), known), 1).astype(dtype)
        np.testing.assert_array_equal(np.asarray(found).astype(known), wanted.astype(known))
