"""lax reductions with a function, windows, scans by pairs, and the functions around convolution."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.harness import both_ways, numpys, partly_slow

import calque
from calque import lax

pytestmark = pytest.mark.usefixtures("x64")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 7))


def close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-12, atol=1e-12)


def test_reduce_with_any_function() -> None:
    close(lax.reduce(X, 0.0, lax.add, (0,)), X.sum(0))
    close(lax.reduce(X, 2.0, lax.mul, (1,)), 2 * X.prod(1))
    close(lax.reduce(X, -np.inf, lambda a, b: lax.max(a, b), (0, 1)), X.max())
    both = lax.reduce((X, X), (0.0, 1.0), lambda a, b: (a[0] + b[0], a[1] * b[1]), (1,))
    close(both[0], X.sum(1))
    close(both[1], X.prod(1))
    # not elementwise: a choice, with a captured value
    bound = np.float64(0.3)
    least = lax.reduce(X, np.inf, lambda a, b: lax.select(
        lax.abs(a - bound) <= lax.abs(b - bound), a, b), (0, 1))
    close(least, X.ravel()[np.argmin(np.abs(X - bound))])
    close(lax.reduce(np.zeros((2, 0)), 3.0, lax.max, (1,)), [3.0, 3.0])


def test_reduce_differentiates_and_maps() -> None:
    def f(x: Any) -> Any:
        return lax.reduce(x, 1.0, lambda a, b: a * b, (0,))

    close(calque.vmap(f)(X), X.prod(1))
    close(calque.grad(lambda x: f(x))(X[0]), X[0].prod() / X[0])


def test_reduce_window_with_any_function() -> None:
    view = np.lib.stride_tricks.sliding_window_view
    got = lax.reduce_window(X, 1.0, lax.mul, (2, 3), (1, 2), "VALID")
    close(got, view(X, (2, 3)).prod((-1, -2))[:, ::2])
    padded = np.pad(X, ((0, 0), (2, 2)), constant_values=5.0)
    close(lax.reduce_window(X, 5.0, lax.add, (1, 5), (1, 1), "SAME"),
          5 + view(padded, (1, 5)).sum((-1, -2)))
    spread = lax.reduce_window((X, X), (-np.inf, np.inf), lambda a, b: (
        lax.max(a[0], b[0]), lax.min(a[1], b[1])), (4, 1), (1, 1), "VALID")
    close(spread[0] - spread[1], np.ptp(X, 0)[None])


def test_associative_scan() -> None:
    close(lax.associative_scan(lax.add, X, axis=1), X.cumsum(1))
    close(lax.associative_scan(lax.add, X, axis=1, reverse=True), X[:, ::-1].cumsum(1)[:, ::-1])
    # y[i] = a[i] y[i-1] + b[i]
    a, b = X[0], X[1]
    _, y = lax.associative_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (a, b))
    want = [b[0]]
    for u, v in zip(a[1:], b[1:]):
        want.append(u * want[-1] + v)
    close(y, want)
    # another structure with as many leaves will do
    pairs = lax.associative_scan(lambda p, q: [p["a"] * q["a"], q["a"] * p["b"] + q["b"]],
                                 {"a": a, "b": b})
    close(pairs["b"], want)
    with pytest.raises(TypeError, match="returned the structure"):
        lax.associative_scan(lambda p, q: p[0], (a, b))


@both_ways
def test_conv_transpose_is_the_gradient(jit: Any) -> None:
    x, k = RNG.normal(size=(1, 9, 2)), RNG.normal(size=(3, 2, 4))
    numbers = ("NHC", "HIO", "NHC")

    def f(x: Any) -> Any:
        return lax.conv_general_dilated(x, k, (2,), "VALID", dimension_numbers=numbers)

    ct = RNG.normal(size=calque.eval_shape(f, x).shape)
    got, want = jit(lambda x, ct: (
        lax.conv_transpose(ct, k, (2,), "VALID", transpose_kernel=True),
        calque.vjp(f, x)[1](ct)[0]))(x, ct)
    close(got, want)


@both_ways
def test_patches_and_local_convolution(jit: Any) -> None:
    x = RNG.normal(size=(2, 3, 5, 6))
    kernels = RNG.normal(size=(4, 18, 4, 2))
    patches, local = map(np.asarray, jit(lambda x, kernels: (
        lax.conv_general_dilated_patches(x, (2, 3), (1, 2), "VALID"),
        lax.conv_general_dilated_local(x, kernels, (1, 2), "VALID", (2, 3))))(x, kernels))
    view = np.lib.stride_tricks.sliding_window_view(x, (2, 3), (2, 3))[:, :, :, ::2]
    close(patches, view.transpose(0, 1, 4, 5, 2, 3).reshape(2, 18, 4, 2))
    close(local, np.einsum("nchw,ochw->nohw", patches, kernels))


@pytest.mark.parametrize(("f", "error", "text"), [
    (lambda: lax.reduce(X, 0.0, lax.add, (2,)), ValueError, "out-of-bounds"),
    (lambda: lax.reduce(X, (0.0,), lax.add, (0,)), ValueError, "same tree structure"),
    (lambda: lax.reduce(X, np.zeros(2), lax.add, (0,)), ValueError, "non-scalar"),
    (lambda: lax.reduce(X, 0.0, lambda a, b: (a, b), (0,)), ValueError, "must return scalars"),
    (lambda: lax.reduce_window(X, 0.0, lax.add, (2,), (1,), "SAME"), TypeError, "wrong number"),
    (lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), (0, 1), "SAME"), TypeError, "positive"),
    (lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), (1, 1), "ALL"), RuntimeError, "padding"),
    (lambda: lax.reduce_precision(X, 0, 3), ValueError, "exponent_bits must be positive"),
    (lambda: lax.cumsum(X, axis=-1), ValueError, "negative axes"),
    (lambda: lax.cummax(X > 0), TypeError, "does not accept dtype bool"),
    (lambda: lax.associative_scan(3, X), TypeError, "should be callable"),
    (lambda: lax.associative_scan(lax.add, (X, X[:2])), ValueError, "same first dimension"),
    (lambda: lax.conv(X, X, (), "FOO"), RuntimeError, "padding"),
    (lambda: lax.conv(np.ones((1, 2, 3)), np.ones((1, 1, 2)), (1,), "SAME"), ValueError,
     "feature_group_count"),
    (lambda: lax.conv_dimension_numbers((1, 2, 3), (1, 2, 3), ("NCH", "OIH")), TypeError,
     "length 3")])
def test_refusals(f: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        f()


DTYPES = ["int8", "int16", "int32", "int64", "uint8", "bool", "float16"]


@pytest.mark.parametrize("dtype, jit", [
    *[(d, numpys) for d in DTYPES],
    *[pytest.param(*p.values, calque.jit, marks=p.marks) for p in partly_slow(DTYPES, 0.3)]])
def test_an_infinity_is_the_identity_of_every_dtype(dtype: str, jit: Any) -> None:
    x = np.array([5, 0, 9, 1, 1]).astype(dtype)
    low = x.astype("int8") - 7 if dtype.startswith("int") else x
    low = low.astype(dtype)
    view = np.lib.stride_tricks.sliding_window_view
    greatest, least, most, smallest = jit(lambda low, x: (
        lax.reduce_window(low, -np.inf, lax.max, (2,), (1,), "VALID"),
        lax.reduce_window(x, np.inf, lax.min, (2,), (1,), "SAME"),
        lax.reduce(low, -np.inf, lax.max, (0,)), lax.reduce(x, np.inf, lax.min, (0,))))(low, x)
    close(greatest, view(low, 2).max(-1))
    close(least, [*view(x, 2).min(-1), x[-1]])
    close(most, low.max())
    close(smallest, x.min())


def test_initial_values_of_other_dtypes_and_reductions_over_no_axes() -> None:
    x = np.array([-300, 5], np.int32)
    # JAX 0.10.2: an identity may have another dtype, what changes something may not
    close(lax.reduce_window(x, 0.0, lax.add, (2,), (1,), "VALID"), [-295])
    for init, fun in ((5.0, lax.max), (np.inf, lax.max), (1e20, lax.add), (np.int16(3), lax.add)):
        with pytest.raises(TypeError, match="same dtypes"):
            lax.reduce_window(x, init, fun, (2,), (1,), "VALID")
        with pytest.raises(TypeError, match="same dtypes"):
            lax.reduce(x, init, fun, (0,))
    # over no axes the operand, whatever the initial value
    close(lax.reduce(x, np.int32(0), lax.max, ()), x)
    close(lax.reduce(x, np.int32(7), lax.mul, ()), x)
