"""Points of lines and grids that are exact in NumPy are exact here: whole numbers, edges of bins,
positions of quantiles; of scalars and of traced ends, in jit and without.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.harness import numpys

import calque
import calque.numpy as jnp

ENDS = [(0, 25), (0, 1), (-1, 1), (1, 100), (-5, 5), (0, 0.5), (3, 7), (0.25, 8.25), (10, 0),
        (-3, -9), (0, 1000), (1e3, 5e4), (0, 0)]
FLOATS = ["float32", "float16", "bfloat16"]


def exact(want: Any, dtype: Any) -> Any:
    """Where NumPy's float64 points are numbers of the dtype."""
    want = np.asarray(want, np.float64)
    return want.astype(dtype).astype(np.float64) == want


def agree(got: Any, want: Any, what: Any) -> None:
    got, want = np.asarray(got), np.asarray(want)
    kind = got.dtype
    assert got.shape == want.shape, what
    same = got.astype(np.float64) == want
    assert same[exact(want, kind)].all(), (what, got, want)
    largest = np.abs(want).max(initial=0)
    assert (np.abs(got.astype(np.float64) - want) <= 1.5 * float(jnp.finfo(kind).eps) * largest
            ).all(), what


@pytest.mark.parametrize("dtype", FLOATS)
def test_linspace_of_scalars_and_of_traced_ends(dtype: str) -> None:
    kind = jnp.dtype(dtype)
    for end in (True, False):
        lines = [(a, b, n) for a, b in ENDS for n in (1, 2, 3, 6, 11, 26, 31)]
        want = [np.linspace(a, b, n, end) for a, b, n in lines]
        traced = numpys(lambda ab, end=end, lines=lines: [
            jnp.linspace(a, b, n, end) for (a, b), (*_, n) in zip(ab, lines)])(
            [(kind.type(a), kind.type(b)) for a, b, _ in lines])
        for (a, b, n), w, t in zip(lines, want, traced):
            agree(jnp.linspace(a, b, n, end, dtype=dtype), w, (a, b, n, end))
            if (exact([a, b], kind)).all():
                agree(t, w, ("traced", a, b, n, end))


def test_what_jit_makes_of_scalars_is_what_is_made_without() -> None:
    makes = [lambda: jnp.linspace(0, 25, 6), lambda: jnp.linspace(-0.7, 1.3, 9),
             lambda: jnp.arange(0, 3, 0.3), lambda: jnp.logspace(0, 3, 7),
             lambda: jnp.geomspace(1, 1000, 7), lambda: jnp.mgrid[0:1:6j, 0:2:0.5],
             lambda: jnp.linspace(0, 1 + 1j, 4), lambda: jnp.linspace(3, 9, 4, dtype=int)]
    compiled = calque.jit(lambda: [f() for f in makes])()
    for got, f in zip(compiled, makes):
        assert np.array_equal(got, f()) and got.dtype == f().dtype


def test_ends_that_are_rows_and_large_numbers() -> None:
    a, b = np.float32([0, -1, 3e38]), np.float32([25, 1, -3e38])
    agree(numpys(jnp.linspace)(a, b)[..., :2], np.linspace(a[:2].astype(float), b[:2], 50), "rows")
    assert np.isfinite(numpys(lambda a, b: jnp.linspace(a, b, 7))(a, b)).all()
    assert np.asarray(numpys(lambda a: jnp.linspace(a, 25, 6, axis=1))(a[:2])).shape == (2, 6)
    d = numpys(calque.grad(lambda a, b: jnp.linspace(a, b, 6)[2], (0, 1)))(0.0, 25.0)
    np.testing.assert_allclose(d, [0.6, 0.4], rtol=1e-6)


def test_arange_logspace_and_geomspace() -> None:
    for a, b, s in [(0, 30, 0.3), (0, 10, 0.1), (-1, 1, 0.2), (0.5, 6, 0.5), (5, 0, -0.25)]:
        want = np.arange(len(np.arange(a, b, s))) * s + a
        agree(jnp.arange(a, b, s), want, (a, b, s))
    agree(jnp.logspace(-2, 3, 6), np.logspace(-2, 3, 6), "logspace")
    agree(jnp.logspace(0, 10, 11, base=2), np.logspace(0, 10, 11, base=2), "base 2")
    agree(jnp.geomspace(1, 1000, 4), np.geomspace(1, 1000, 4), "geomspace")
    agree(jnp.geomspace(-256, -1, 9), np.geomspace(-256, -1, 9), "negative")


def test_edges_of_histograms_and_positions_of_quantiles() -> None:
    a = np.array([1, 2, 3, 10, 11, 15, 19, 25])
    for run in (calque.jit, lambda f: f):
        counts, edges = run(lambda a: jnp.histogram(a, range=(0, 25), bins=5))(a)
        assert counts.tolist() == [3, 0, 2, 2, 1] and edges.tolist() == [0, 5, 10, 15, 20, 25]
    rng = np.random.default_rng(0)
    whole = rng.integers(0, 61, (40, 30)).astype(np.float32)
    for bins in (5, 6, 10, 12, 15, 20, 30, 60):  # data on the edges; ends that are the data's
        rows = [np.append(r, [0, 60]).astype(np.float32) for r in whole[:6]]
        for r in rows:
            assert np.array_equal(jnp.histogram(r, bins)[0], np.histogram(r, bins)[0]), bins
        got = numpys(lambda r, n=bins: jnp.histogram2d(r, r, n)[0])(rows[0])
        assert np.array_equal(got, np.histogram2d(rows[0], rows[0], bins)[0])
    for n in (5, 11, 21, 41):
        x = np.sort(rng.permutation(n)).astype(np.float32)
        q = np.arange(0, 101, 5) / 100
        for method in ("linear", "lower", "higher", "nearest", "midpoint"):
            want = np.quantile(x.astype(np.float64), q, method=method)
            got = np.asarray(jnp.quantile(x, q.astype(np.float32), method=method))
            whole_at = (q * (n - 1)) % 1 == 0
            assert np.array_equal(got[whole_at], want[whole_at]), (n, method)
