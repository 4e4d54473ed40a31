"""A program that IREE rejects is written once more with a dispatch for each operation."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
import calque.scipy.linalg
from calque import lax
from calque.dispatch import eager
from calque.lowering.driver.module import LowerOptions

X = np.random.default_rng(3).standard_normal((6, 5)).astype(np.float32)


def test_what_iree_rejects(capfd: pytest.CaptureFixture[str],
                           monkeypatch: pytest.MonkeyPatch) -> None:
    """It fuses real and imaginary parts of one element with what made them, and rejects that."""
    def f(a: Any) -> Any:
        return calque.scipy.linalg.sqrtm(a), calque.scipy.linalg.funm(a, jnp.exp, disp=False)[0]

    monkeypatch.setenv("CALQUE_LOG", "compile")
    monkeypatch.setenv("CALQUE_CACHE", "0")
    root, power = calque.jit(f)(np.full((1, 1), 2.25, np.float32))
    np.testing.assert_allclose(root, [[1.5]], rtol=1e-6)
    np.testing.assert_allclose(power, [[np.exp(2.25)]], rtol=1e-6)
    assert "operations apart" in capfd.readouterr().err  # (if not, IREE no longer needs it)


def steps(x: Any) -> Any:
    """A loop that the host steps through."""
    return lax.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, jnp.sort(c[1], 0) * 0.5 + 1),
                          (0, x))[1]


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "elementwise": (lambda x: (x * 2 + 1) / (1 + x * x), lambda x: (x * 2 + 1) / (1 + x * x)),
    "sums": (lambda x: (x.sum(0), x.max(1), (x @ x.T)[0]),
             lambda x: (x.sum(0), x.max(1), (x @ x.T)[0])),
    "moves": (lambda x: (x.T[::-1], jnp.concatenate([x, x * 2]), x[1:3, ::2]),
              lambda x: (x.T[::-1], np.concatenate([x, x * 2]), x[1:3, ::2])),
    "complex": (lambda x: (x + 1j * x.sum()) * (x - 2j), lambda x: (x + 1j * x.sum()) * (x - 2j)),
    "an update": (lambda x: (x.at[2].set(7.0), x), lambda x: (np.where(
        np.arange(6)[:, None] == 2, np.float32(7), x), x)),
    "booleans and integers": (lambda x: ((x > 0) & (x < 1), (x * 10).astype(int) % 3),
                              lambda x: ((x > 0) & (x < 1), (x * 10).astype(np.int32) % 3)),
    "a cond": (lambda x: lax.cond(x[0, 0] > 0, lambda v: v + 1, lambda v: v - 1, x),
               lambda x: x + 1 if x[0, 0] > 0 else x - 1),
    "a loop": (steps, lambda x: functools.reduce(
        lambda v, _: np.sort(v, 0) * np.float32(0.5) + 1, range(4), x)),
    "nothing is an argument": (lambda x: (jnp.arange(5) * 2, x.shape[0] + jnp.zeros(3)),
                               lambda x: (np.arange(5) * 2, 6 + np.zeros(3)))}


@pytest.mark.parametrize("whole", [True, False], ids=["kernels", "ours off"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name: str, whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eager, "LowerOptions", functools.partial(LowerOptions, apart=True,
                                                                 whole=whole))
    monkeypatch.setenv("CALQUE_CACHE", "0")
    calque.clear_caches()
    ours, theirs = PROGRAMS[name]
    got = calque.jit(ours)(X)
    for g, w in zip(calque.tree.leaves(got), calque.tree.leaves(theirs(X)), strict=True):
        np.testing.assert_allclose(np.asarray(g), w, rtol=2e-6, atol=2e-6)  # a few roundings
    calque.clear_caches()
