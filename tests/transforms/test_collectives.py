"""Collectives over axes that vmap names, against NumPy on the whole array."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax

X = np.arange(6, dtype=np.float32).reshape(3, 2)
Y = np.arange(9, dtype=np.float32).reshape(3, 3)
Z = np.arange(18, dtype=np.float32).reshape(3, 3, 2)


def named(f: Any, **how: Any) -> Any:
    return calque.vmap(f, axis_name="i", **how)


def same(got: Any, want: Any) -> None:
    np.testing.assert_array_equal(np.asarray(got), want)


CASES: dict[str, tuple[Any, Any, Any]] = {
    "psum": (lambda a: lax.psum(a, "i"), X, np.broadcast_to(X.sum(0), X.shape)),
    "psum of what is not mapped": (lambda a: a + lax.psum(jnp.ones(2), "i"), X, X + 3),
    "psum of a number": (lambda a: a * lax.psum(1, "i"), X, X * 3),
    "psum of bools": (lambda a: lax.psum(a > 1, "i"), X, np.broadcast_to((X > 1).sum(0), X.shape)),
    "pmean": (lambda a: lax.pmean(a, "i"), X, np.broadcast_to(X.mean(0), X.shape)),
    "pmax": (lambda a: lax.pmax(a, "i"), X, np.broadcast_to(X.max(0), X.shape)),
    "pmin": (lambda a: lax.pmin(a, "i"), X, np.broadcast_to(X.min(0), X.shape)),
    "axis_index": (lambda a: a * 0 + lax.axis_index("i"), X, np.arange(3)[:, None] + X * 0),
    "axis_size": (lambda a: a * lax.axis_size("i"), X, X * 3),
    "ppermute": (lambda a: lax.ppermute(a, "i", [(0, 1), (1, 2)]), X,
                 np.stack([X[0] * 0, X[0], X[1]])),
    "pshuffle": (lambda a: lax.pshuffle(a, "i", [2, 0, 1]), X, X[[2, 0, 1]]),
    "pswapaxes": (lambda a: lax.pswapaxes(a, "i", 0), Y, Y.T),
    "all_gather": (lambda a: lax.all_gather(a, "i"), X, np.broadcast_to(X, (3, 3, 2))),
    "all_gather, last": (lambda a: lax.all_gather(a, "i", axis=-1), X,
                         np.broadcast_to(X.T, (3, 2, 3))),
    "all_gather, tiled": (lambda a: lax.all_gather(a, "i", tiled=True), X,
                          np.broadcast_to(X.reshape(-1), (3, 6))),
    "all_to_all": (lambda a: lax.all_to_all(a, "i", 0, 1), Z, Z.transpose(1, 2, 0)),
    "all_to_all, tiled": (lambda a: lax.all_to_all(a, "i", 0, 1, tiled=True), Z,
                          Z.transpose(1, 0, 2).reshape(3, 1, 6)),
    "psum_scatter": (lambda a: lax.psum_scatter(a, "i"), Y, Y.sum(0)),
    "psum_scatter, tiled": (lambda a: lax.psum_scatter(a, "i", tiled=True), Y, Y.sum(0)[:, None]),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    f, x, want = CASES[name]
    same(named(f)(x), want)


def test_in_calls_loops_and_records() -> None:
    """Inside jit the name is a name; vmap gives it its meaning later."""
    total = np.broadcast_to(X.sum(0), X.shape)
    same(named(calque.jit(lambda a: lax.psum(a, "i")))(X), total)
    same(calque.jit(named(lambda a: lax.psum(a, "i")))(X), total)
    same(named(lambda a: calque.jit(lambda: lax.axis_index("i"))() + a[0] * 0)(X), [0, 1, 2])
    same(named(lambda a: lax.scan(lambda c, _: (c + lax.psum(a, "i"), None), a, None,
                                  length=2)[0])(X), X + 2 * X.sum(0))
    same(named(lambda a: lax.cond(a[0] > 1, lambda v: v + lax.psum(v, "i"), lambda v: v, a))(X),
         np.where(X[:, :1] > 1, X + X.sum(0), X))
    same(named(lambda a: lax.psum(a, "i"), out_axes=None)(X), X.sum(0))


def test_nested_names() -> None:
    f = calque.vmap(calque.vmap(lambda a: lax.psum(a, ("i", "j")), axis_name="j"), axis_name="i")
    same(f(X), np.full((3, 2), X.sum()))
    f = calque.vmap(calque.vmap(lambda a: lax.axis_index(("i", "j")), axis_name="j"),
                    axis_name="i")
    same(f(X), np.arange(6).reshape(3, 2))
    f = calque.vmap(calque.vmap(lambda a: lax.all_gather(a, "i"), axis_name="j"), axis_name="i")
    same(f(X), np.broadcast_to(X.T, (3, 2, 3)))


def test_derivatives() -> None:
    """Outside the vmap: of the whole function; inside: each position's, by psum's transpose psum
    (jax 0.10.2)."""
    def loss(x: Any) -> Any:
        return named(lambda a: lax.psum(a, "i") * a)(x).sum()

    same(calque.grad(loss)(X), np.broadcast_to(2 * X.sum(0), X.shape))
    same(named(calque.grad(lambda a: lax.psum(a, "i").sum()))(X), np.full((3, 2), 3.0))
    same(named(calque.grad(lambda a: lax.pmean(a, "i").sum()))(X), np.ones((3, 2)))
    turn = [(0, 1), (1, 2), (2, 0)]
    same(named(calque.grad(
        lambda a: (lax.ppermute(a, "i", turn) * lax.axis_index("i")).sum()))(X),
        [[1, 1], [2, 2], [0, 0]])
    weights = np.arange(3, dtype=np.float32)[:, None]
    same(named(calque.grad(lambda a: (lax.all_gather(a, "i") * weights).sum()))(X),
         np.broadcast_to(3 * weights, (3, 2)))
    with pytest.raises(NotImplementedError, match="pmax"):
        named(calque.grad(lambda a: lax.pmax(a, "i").sum()))(X)


def test_errors() -> None:
    with pytest.raises(NameError, match="unbound axis name"):
        lax.psum(1.0, "i")
    with pytest.raises(NameError, match="unbound axis name"):
        named(lambda a: lax.axis_index("k"))(X)
    with pytest.raises(ValueError, match="axis_index_groups must cover"):
        named(lambda a: lax.psum(a, "i", axis_index_groups=[[0], [1, 9]]))(X)
    with pytest.raises(ValueError, match="unique"):
        named(lambda a: lax.ppermute(a, "i", [(0, 1), (1, 1)]))(X)
    with pytest.raises(ValueError, match="size of the split axis"):
        named(lambda a: lax.all_to_all(a, "i", 0, 0))(X)
