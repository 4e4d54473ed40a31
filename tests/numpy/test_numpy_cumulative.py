"""jnp functions along an axis and without NaN, against NumPy."""
from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from support.harness import by_each

import calque.numpy as jnp

pytestmark = pytest.mark.usefixtures("x64")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 5))
N = np.where(RNG.random((4, 5)) < 0.3, np.nan, X)
N[1] = np.nan
B = X > 0
Y = RNG.normal(size=(4, 5))

CASES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    *[(f, (X,), {"axis": a}) for f in ("cumsum", "cumprod") for a in (None, 0, -1)],
    *[(f, (N,), {"axis": a}) for f in ("nancumsum", "nancumprod") for a in (None, 1)],
    ("cumsum", (B,), {}), ("cumsum", (X,), {"dtype": np.float32, "axis": 1}),
    ("ediff1d", (X,), {"to_begin": np.array([1.0, 2.0]), "to_end": 3.0}),
    ("ediff1d", (np.zeros(0),), {}), ("ediff1d", (np.float64(3),), {}),
    ("gradient", (X[0],), {}), ("gradient", (X[0], 0.5), {}), ("gradient", (X,), {"axis": 1}),
    ("gradient", (X[0], np.array([0.0, 1.0, 3.0, 3.5, 7.0])), {}),
    ("gradient", (X[:2, :2],), {"axis": 0}),
    ("trapezoid", (X,), {}), ("trapezoid", (X, Y), {"axis": 0}),
    ("trapezoid", (X, np.arange(4.0)), {"axis": 0}), ("trapezoid", (X,), {"dx": 0.1}),
    *[(f, (X[0], Y[0, :k]), {"mode": m}) for f in ("convolve", "correlate") for k in (1, 2, 3, 5)
      for m in ("full", "same", "valid")],
    *[(f, (Y[0, :2], X[0]), {"mode": m}) for f in ("convolve", "correlate")
      for m in ("full", "same", "valid")],
    *[(f, (N,), {"axis": a, "keepdims": k}) for f in (
        "nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd")
      for a, k in ((None, False), (1, True), ((0, 1), False))],
    *[(f, (N,), {"axis": 1, "where": B, "initial": 0.5}) for f in ("nanmax", "nanmin", "nansum")],
    ("nanmean", (N,), {"where": B}), ("nanvar", (N,), {"ddof": 1, "axis": 0}),
    ("nanargmax", (N[[0, 2]],), {"axis": 1}), ("nanargmin", (N[[0, 2]],), {"axis": 1}),
    ("i0", (X,), {})]


@pytest.mark.parametrize("jit, chosen", by_each(CASES, 0.15))
def test_against_numpy(jit: Any, chosen: list[tuple[str, tuple[Any, ...], dict[str, Any]]]) -> None:
    outs = jit(lambda operands: [
        getattr(jnp, f)(*args, **kwargs) for args, (f, _, kwargs) in zip(operands, chosen)])(
            [args for _, args, _ in chosen])
    for (f, args, kwargs), out in zip(chosen, outs, strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy warns of slices without numbers
            name = "trapz" if f == "trapezoid" and not hasattr(np, f) else f
            want = getattr(np, name)(*args, **kwargs)
        got = np.asarray(out)
        assert got.dtype == np.asarray(want).dtype, (f, kwargs)
        close = 1e-6 if got.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(got, want, rtol=close, atol=close, err_msg=f"{f} {kwargs}")


def test_array_api_forms() -> None:
    x = np.array([[1, 2], [3, 4]], np.int8)
    out = jnp.cumulative_sum(x, axis=1, include_initial=True)
    assert out.dtype == np.int64 and np.asarray(out).tolist() == [[0, 1, 3], [0, 3, 7]]
    assert np.asarray(jnp.cumulative_prod(x, axis=0)).tolist() == [[1, 2], [3, 8]]


@pytest.mark.parametrize(("f", "args", "kwargs", "error", "text"), [
    ("cumsum", (X,), {"axis": 2}, ValueError, "out of bounds"),
    ("cumsum", ([1, 2],), {}, TypeError, "cumsum requires ndarray"),
    ("cumulative_sum", (X,), {}, ValueError, "axis was not set"),
    ("cumulative_prod", (1.0,), {}, ValueError, "must be non-scalar"),
    ("gradient", (X[:1],), {}, ValueError, "too small"),
    ("gradient", (X, 1.0, 2.0, 3.0), {}, TypeError, "Invalid number of spacing"),
    ("convolve", (X, X), {}, ValueError, "only support 1-dimensional"),
    ("convolve", (X[0], X[0]), {"mode": "all"}, ValueError, "mode must be one of"),
    ("correlate", (X[0], np.zeros(0)), {}, ValueError, "cannot be empty"),
    ("nanmax", (np.zeros((0, 2)),), {"axis": 0}, ValueError, "no identity"),
    ("nansum", (X,), {"where": np.ones(5, int)}, ValueError, "where must be None or a boolean"),
    ("i0", (1j,), {}, ValueError, "Unsupported input type")])
def test_refusals(f: str, args: Any, kwargs: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        getattr(jnp, f)(*args, **kwargs)
