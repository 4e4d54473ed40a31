"""calque.image against sums written out in float64, NumPy's interpolation, and values that
jax 0.10.2 gave."""
from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.harness import by_each

import calque
import calque.numpy as jnp
from calque import image

Array = np.ndarray[Any, Any]
METHODS = ("linear", "cubic", "lanczos3", "lanczos5", "area", "cubic-pytorch")


def kernel(method: str, x: float) -> float:
    """The kernels as their authors give them, of a distance."""
    x = abs(x)
    if method == "linear":
        return max(0.0, 1 - x)
    if method.startswith("lanczos"):
        a = int(method[-1])
        if x == 0:
            return 1.0
        if x >= a:
            return 0.0
        return a * math.sin(math.pi * x) * math.sin(math.pi * x / a) / (math.pi * x) ** 2
    a = -0.5 if method == "cubic" else -0.75
    if x <= 1:
        return (a + 2) * x ** 3 - (a + 3) * x ** 2 + 1
    return a * x ** 3 - 5 * a * x ** 2 + 8 * a * x - 4 * a if x < 2 else 0.0


def sampled(row: Array, new: int, scale: float, move: float, method: str, antialias: bool) -> Array:
    """One axis, pixel by pixel."""
    out = np.zeros(new, row.dtype)
    old = len(row)
    edge = method == "cubic-pytorch" and not antialias
    if method == "cubic-pytorch" and antialias:
        method = "cubic"
    stretch = max(1.0, 1 / scale) if antialias else 1.0
    for i in range(new):
        low, high = (i - move) / scale, (i + 1 - move) / scale
        at = (low + high) / 2 - 0.5
        if not -0.5 <= at <= old - 0.5:
            continue
        taps = range(-2, old + 2) if edge else range(old)
        if method == "area":
            weights = [max(0.0, min(high, j + 1) - max(low, j)) for j in taps]
        else:
            weights = [kernel(method, (at - j) / stretch) for j in taps]
        total = sum(weights)
        if total:
            out[i] = sum(w * row[min(max(j, 0), old - 1)] for j, w in zip(taps, weights)) / total
    return out


def along(x: Array, d: int, *how: Any) -> Array:
    return np.apply_along_axis(lambda row: sampled(row, *how), d, x)


X = np.random.default_rng(0).normal(size=(3, 5, 6))
SHAPES = [(3, 8, 4), (1, 2, 6)]  # wider and narrower; to a single pixel and to less than half


@pytest.mark.parametrize("jit, cases", by_each(
    [(m, s, a) for m in METHODS for s in SHAPES for a in (True, False)], 0.1))
def test_resize_is_the_sum_of_weighted_pixels(
        jit: Any, cases: list[tuple[str, tuple[int, ...], bool]]) -> None:
    def run(x: Any) -> list[Any]:
        return [image.resize(x, shape, method, antialias=antialias)
                for method, shape, antialias in cases]

    with calque.enable_x64(True):
        got = jit(run)(X)
    for (method, shape, antialias), result in zip(cases, got, strict=True):
        want = X
        for d in range(3):
            if shape[d] != X.shape[d]:
                want = along(want, d, shape[d], shape[d] / X.shape[d], 0.0, method, antialias)
        # float64: sums of at most 30 products, one after the other for each of three axes
        np.testing.assert_allclose(result, want, rtol=1e-12, atol=1e-13, err_msg=method)


@pytest.mark.parametrize("jit, ways", [
    pytest.param(*p.values, marks=[] if p.id == "numpy" else [pytest.mark.slow], id=p.id)
    for p in by_each([(m, a) for m in METHODS for a in (True, False)], 0.25)])
def test_scale_and_translate_by_traced_numbers(
        jit: Any, ways: list[tuple[str, bool]]) -> None:
    scale, move = np.array([0.6, 1.5]), np.array([0.3, -1.2])

    def run(x: Any, scale: Any, move: Any) -> list[Any]:
        return [image.scale_and_translate(x, (3, 7, 9), (1, -1), scale, move, method, antialias=a)
                for method, a in ways]

    with calque.enable_x64(True):
        got = jit(run)(X, scale, move)
    for (method, a), result in zip(ways, got, strict=True):
        want = along(along(X, 1, 7, 0.6, 0.3, method, a), 2, 9, 1.5, -1.2, method, a)
        np.testing.assert_allclose(result, want, rtol=1e-12, atol=1e-13, err_msg=method)


def test_linear_is_interpolation_and_nearest_picks() -> None:
    row = np.float32([3, -1, 4, 1, 5])
    at = (np.arange(12) + 0.5) * 5 / 12 - 0.5
    np.testing.assert_allclose(image.resize(row, (12,), "linear"), np.interp(at, np.arange(5), row),
                               rtol=1e-6, atol=1e-6)  # f32: positions and weights are rounded
    for dtype in (np.int8, np.uint32, np.bool_, np.float16, ml_dtypes.bfloat16, np.complex64):
        x = np.arange(6).reshape(2, 3).astype(dtype)
        out = image.resize(x, (4, 2), image.ResizeMethod.NEAREST)
        assert out.dtype == dtype
        np.testing.assert_array_equal(out, x[[0, 0, 1, 1]][:, [0, 2]])


def test_weights_are_as_precise_as_scale_and_translation() -> None:
    """Values of jax 0.10.2."""
    scale, move = np.float32([0.35, 0.4]), np.float32([0.2, 0.1])
    with calque.enable_x64(True):
        x = np.arange(42.0).reshape(6, 7) ** 1.5
        got = [image.scale_and_translate(x, (3, 3), (0, 1), scale.astype(d), move.astype(d),
                                         "linear")[0] for d in (np.float32, np.float64)]
    assert got[0].dtype == got[1].dtype == np.float64
    np.testing.assert_allclose(got[0], [23.09035749, 31.63594307, 41.56539083], rtol=1e-7)  # f32
    # as many digits as were written down
    np.testing.assert_allclose(got[1], [23.09035681, 31.63594371, 41.56539007], rtol=4e-10)


def test_dtypes_and_sizes() -> None:
    for dtype, want in [(np.int32, np.float32), (np.bool_, np.float32), (np.float16, np.float16),
                        (ml_dtypes.bfloat16, ml_dtypes.bfloat16), (np.complex64, np.complex64)]:
        out = image.resize(np.ones((2, 3), dtype), (4, 2), "cubic")
        assert out.dtype == want and out.shape == (4, 2)
        # weights of f32 add up to 1 but for their roundings
        np.testing.assert_allclose(np.asarray(out, np.complex64), 1, rtol=1e-6)
    assert image.resize(X, (3, 0, 6), "linear").shape == (3, 0, 6)
    assert image.resize(X, (3, 0, 6), "nearest").shape == (3, 0, 6)
    assert image.resize(X[:0], (0, 2, 6), "lanczos3").shape == (0, 2, 6)
    assert image.resize(np.float32(2), (), "linear") == 2
    np.testing.assert_array_equal(image.resize(X, X.shape, "area"), np.float32(X))
    assert np.isnan(image.resize(np.float32([1, np.nan, 2, 3]), (8,), "linear")).sum() == 8


def test_values_of_jax() -> None:
    x = np.float32([0, 1, 4, 9, 16, 25])
    for method, antialias, want in [
            ("tricubic", True, [0.15857434, 2.9770286, 10.886676, 22.278318]),
            ("tricubic", False, [0.12408759, 3.0625, 10.5625, 23.445255]),
            ("area", True, [0.33333334, 3.0, 11.333334, 22.0]),
            ("cubic-pytorch", False, [0.12109375, 2.828125, 10.796875, 23.207031])]:
        # weights of f32, whose kernel's terms cancel to a tenth
        np.testing.assert_allclose(image.resize(x, (4,), method, antialias=antialias), want,
                                   rtol=1e-5)


def test_gradients_and_vmap() -> None:
    """resize is linear: the gradient of its weighted sum does not depend on the image."""
    weights = np.random.default_rng(1).normal(size=(4, 3)).astype("f")
    f = lambda x: (image.resize(x, (4, 3), "cubic") * weights).sum()  # noqa: E731
    g = calque.grad(f)(jnp.zeros((5, 6)))
    for place in [(0, 0), (2, 3), (4, 5)]:
        unit = np.zeros((5, 6), np.float32)
        unit[place] = 1
        # f32: 12 products in two orders
        np.testing.assert_allclose(g[place], f(unit), rtol=1e-5, atol=1e-6)
    batch = np.float32(np.random.default_rng(2).normal(size=(3, 5, 6)))
    np.testing.assert_allclose(calque.vmap(lambda x: image.resize(x, (4, 3), "linear"))(batch),
                               image.resize(batch, (3, 4, 3), "linear"), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("call, text", [
    (lambda: image.resize(X, (3, 5), "linear"), "for an image of shape"),
    (lambda: image.resize(X, (3, -1, 2), "linear"), "cannot become"),
    (lambda: image.resize(X[:0], (3, 1, 2), "nearest"), "cannot become"),
    (lambda: image.resize(X, (3, 1, 2), "bilinaer"), "no method 'bilinaer'"),
    (lambda: image.scale_and_translate(X, (3, 5, 6), (0,), [1.0], [0.0], "nearest"), "no method"),
    (lambda: image.scale_and_translate(X, (3, 5, 6), (3,), [1.0], [0.0], "linear"), "spatial_dims"),
    (lambda: image.scale_and_translate(X, (3, 5, 6), (1, -2), [1.0, 1.0], [0.0, 0.0], "linear"),
     "name each axis once"),
    (lambda: image.scale_and_translate(X, (3, 5, 6), (0,), [1.0, 2.0], [0.0], "linear"), "scale"),
    (lambda: image.scale_and_translate(X, (3, 5, 7), (0,), [1.0], [0.0], "linear"), "differs")])
def test_bad_input(call: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call()
