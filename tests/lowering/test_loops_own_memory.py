"""Loops from the host, within each other too, write into what they carry: of random programs whose
carries change places, are given twice, are parts of each other, or come from outside, no update
shows anywhere else.  NumPy, equation by equation, is the oracle.
"""
from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from support.harness import check_loop, partly_slow

import calque.numpy as jnp
from calque import lax
from calque.lowering.emit.aliasing import AliasAnalysis

pytestmark = pytest.mark.usefixtures("host_loops")

SHAPES = ((6, 5), (6, 5), (5,), (5,), (1, 1))
Body = Callable[[Any, list[Any]], list[Any]]


def step_of(rng: np.random.Generator, outside: list[Any], depth: int) -> Body:
    """A few random statements over the carries c at step i; some are loops and branches."""
    kinds = rng.choice(("put", "add", "swap", "twice", "part", "outside", "compute", "put",
                        *(("loop", "while", "branch") if depth else ())), size=rng.integers(2, 6))
    inner = [step_of(rng, outside, depth - 1) if k in ("loop", "while", "branch") else None
             for k in kinds]
    numbers = rng.integers(0, 6, size=(len(kinds), 3))

    def step(i: Any, c: list[Any]) -> list[Any]:
        c = list(c)
        for kind, inside, (a, b, k) in zip(kinds, inner, numbers):
            a, b = a % 2, b % 2
            if kind == "put":
                c[a] = c[a].at[(i + k) % 6].set(c[b][k] * 0.5 + c[2])
            elif kind == "add":
                c[2 + a] = c[2 + a].at[(i + k) % 5].add(c[b][k, 1])
                c[4] = c[4].at[0, 0].set(c[2][k % 5])
            elif kind == "swap":
                c[0], c[1], c[2], c[3] = c[1], c[0], c[3], c[2]
            elif kind == "twice":
                c[a], c[2 + a] = c[1 - a], c[3 - a]
            elif kind == "part":
                c[2 + a] = c[b][k]
            elif kind == "outside":
                c[a], c[2 + b] = outside[a], outside[2 + b]
            elif kind == "compute":
                c[a] = jnp.sin(c[a]) + c[b][::-1] * 0.25
            elif kind == "loop":
                c = lax.fori_loop(0, int(k) % 3 + 1, inside, c)
            elif kind == "while":
                c = lax.while_loop(lambda s: s[0] < i % 3 + 1, lambda s, f=inside: (
                    s[0] + 1, f(s[0], s[1])), (0, c))[1]
            else:
                c = lax.cond(c[2].sum() > k, partial(inside, i), lambda c: c, c)
        return c
    return step


def program_of(seed: int) -> Callable[..., Any]:
    rng = np.random.default_rng(seed)
    depth, shown, scans = rng.integers(1, 3), rng.integers(0, 5, size=2), rng.random() < 0.6

    def f(*xs: Any) -> Any:
        step = step_of(np.random.default_rng(seed), [jnp.cos(xs[0]), *xs[1:]], int(depth))
        start = [xs[0], jnp.cos(xs[0]) if seed % 3 else xs[0], xs[2], xs[2], xs[4]]
        if scans:
            c, rows = lax.scan(lambda c, i: (lambda new: (new, [new[shown[0]], c[shown[1]]]))(
                step(i, c)), start, jnp.arange(4))
        else:
            c, rows = lax.while_loop(lambda s: s[0] < 4, lambda s: (s[0] + 1, step(s[0], s[1])),
                                     (0, start))[1], []
        return c, rows, xs[0].at[0].set(7.0), jnp.cos(xs[0]).at[1].set(8.0), xs[2] + c[3]
    return f


def arguments(seed: int) -> list[Any]:
    rng = np.random.default_rng(1000 + seed)
    return [rng.normal(size=s).astype(np.float32) for s in SHAPES]


@pytest.mark.parametrize("seed", partly_slow(list(range(60)), 0.12))
def test_updates_stay_where_they_are(seed: int) -> None:
    check_loop(program_of(seed), arguments(seed), f"seed {seed}")


@pytest.mark.parametrize("within", ["while", "scan", "carry"])
def test_what_loops_start_from_is_their_own(within: str) -> None:
    """Zeros of one shape: those that rows are put into, those that a loop within starts from."""
    def inner(c: Any) -> Any:
        if within == "while":
            return lax.while_loop(lambda s: s[2] < 3, lambda s: (s[0] + s[1], s[1] / 2, s[2] + 1),
                                  (jnp.zeros_like(c), c, 0))[0] / 2
        if within == "scan":
            return lax.scan(lambda s, i: (s[::-1] / 2, s[i]), c, jnp.arange(5))[1]
        return lax.fori_loop(0, 3, lambda i, s: s.at[i].set(c[i + 1] / 2), jnp.zeros(5, c.dtype))

    def f(c: Any) -> Any:
        return lax.scan(lambda c, _: (inner(c), c.sum()), c, None, length=5)

    check_loop(f, [np.arange(1, 6, dtype=np.float32)], within)


def test_iree_still_writes_into_the_initial_values_of_loops(monkeypatch: pytest.MonkeyPatch
                                                            ) -> None:
    """AliasAnalysis.private in lowering/emit/aliasing.py."""
    monkeypatch.setattr(AliasAnalysis, "private", lambda self, x: x)
    with pytest.raises(AssertionError, match="seed 43"):
        check_loop(program_of(43), arguments(43), "seed 43")
