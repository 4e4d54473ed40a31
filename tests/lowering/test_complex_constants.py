"""Updates of complex arrays that no argument reaches: each writes into memory of its own.

Two equal constants are one to IREE, and of complex ones it makes no copy where both are updated in
place: the gradient of a loop that reads two elements of a complex array was wrong.  The cure is
AliasAnalysis.owned (lowering/emit/aliasing.py).  The oracle is NumPy.
"""
from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.harness import partly_slow

import calque
import calque.numpy as jnp
from calque import lax
from calque.lowering.emit.aliasing import AliasAnalysis

BASES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "zeros": (lambda n, d, u: jnp.zeros(n, d), lambda n, d, u: np.zeros(n, d)),
    "iota": (lambda n, d, u: jnp.arange(n).astype(d), lambda n, d, u: np.arange(n).astype(d)),
    "full": (lambda n, d, u: jnp.full(n, 2 - 1j, d), lambda n, d, u: np.full(n, 2 - 1j, d)),
    "value": (lambda n, d, u: jnp.full(n, u), lambda n, d, u: np.full(n, u))}
UPDATES: list[Callable[..., Any]] = [
    lambda x, u, i: lax.dynamic_update_slice(x, u.reshape(1), (i,)),
    lambda x, u, i: x.at[i].add(u),
    lambda x, u, i: x.at[jnp.stack([i, i + 1])].set(jnp.stack([u, u])),
    lambda x, u, i: lax.fori_loop(0, 2, lambda j, x: x.at[i + j].set(u), x)]


def _put(x: Any, kind: int, u: Any, i: int) -> Any:
    x = x.copy()
    if kind == 1:
        x[i] += u
    else:
        x[i:i + 1 + (kind > 1)] = u
    return x


@pytest.mark.parametrize("case", partly_slow(
    list(itertools.product((np.complex64, np.complex128), BASES)), 0.3))
def test_equal_complex_constants_are_updated_apart(case: tuple[Any, str]) -> None:
    """Pairs of updates of the same constant, all in one program, as results and in a sum."""
    dtype, base = case
    ours, numpys = BASES[base]
    pairs = list(itertools.combinations_with_replacement(range(len(UPDATES)), 2))
    u, v, i, j, n = dtype(1.5 + 1j), dtype(0.5), 0, 2, 4

    def f(u: Any, v: Any, i: Any, j: Any) -> Any:
        return [(UPDATES[a](ours(n, dtype, u), u, i) * 2 + UPDATES[b](ours(n, dtype, u), v, j),
                 UPDATES[b](ours(n, dtype, u), v, i)) for a, b in pairs]

    with calque.enable_x64(dtype is np.complex128):
        found = calque.jit(f)(u, v, i, j)
        start = numpys(n, dtype, u)
        for (a, b), (both, alone) in zip(pairs, found):
            np.testing.assert_array_equal(both, _put(start, a, u, i) * 2 + _put(start, b, v, j))
            np.testing.assert_array_equal(alone, _put(start, b, v, i))


def test_gradient_of_a_loop_that_reads_two_complex_elements() -> None:
    """Each read transposes to an update of zeros; the loop carries a float beside."""
    x, w = np.array([0.3 + 0.1j, 0.7 - 0.2j], np.complex64), np.complex64(1.5 + 0.4j)

    def f(x: Any) -> Any:
        return lax.fori_loop(0, 1, lambda i, c: (c[0] + x[i], c[1] - x[i].real), (x[-1], 0.0))[0]

    np.testing.assert_allclose(calque.vjp(f, x)[1](w)[0], [w, w])


def test_iree_still_updates_equal_complex_constants_in_one_place(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """AliasAnalysis.owned in lowering/emit/aliasing.py."""
    monkeypatch.setattr(AliasAnalysis, "owned", lambda self, x: x)

    def f(u: Any, v: Any, i: Any, j: Any) -> Any:
        zeros = jnp.zeros(2, np.complex64)
        return UPDATES[0](zeros, u, i) + UPDATES[0](zeros, v, j)

    found = np.asarray(calque.jit(f)(np.complex64(1.5), np.complex64(0.25), 0, 1))
    assert not np.allclose(found, [1.5, 0.25]), (
        "right now: AliasAnalysis.owned needs nothing for complex constants")
