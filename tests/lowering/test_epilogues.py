"""Bias, residual and relu as part of a convolution (passes/epilogues), against NumPy."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax

CASES = [  # batch, features in and out, height, width, taps, stride, dilation
    (1, 3, 8, 9, 7, 3, 1, 1), (2, 5, 33, 8, 8, 3, 1, 1), (3, 16, 20, 11, 5, 3, 2, 1),
    (2, 24, 17, 6, 10, 1, 1, 1), (4, 40, 24, 4, 4, 3, 1, 1), (1, 70, 40, 4, 4, 3, 1, 1),
    (2, 20, 24, 12, 13, 3, 1, 2), (1, 300, 16, 9, 16, 1, 2, 1), (2, 16, 32, 16, 16, 3, 3, 1)]


def made(rng: np.random.Generator, *shape: int) -> Any:
    return rng.standard_normal(shape).astype("f4")


def convolved(x: Any, w: Any, stride: int, dilation: int, pad: int) -> Any:
    """In double precision: (batch, features, height, width) by (out, in, taps, taps)."""
    x = np.pad(x.astype("f8"), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    taps = w.shape[2]
    put = [(n - (taps - 1) * dilation - 1) // stride + 1 for n in x.shape[2:]]
    total = 0
    for a in range(taps):
        for b in range(taps):
            rows, columns = (slice(t * dilation, t * dilation + (n - 1) * stride + 1, stride)
                             for t, n in zip((a, b), put))
            total = total + np.einsum("nchw,oc->nohw", x[:, :, rows, columns],
                                      w[:, :, a, b].astype("f8"))
    return total


def layer(last: bool, stride: int, dilation: int, pad: int, kind: str) -> Any:
    names = ("NHWC", "HWIO", "NHWC") if last else ("NCHW", "OIHW", "NCHW")

    def f(x: Any, w: Any, b: Any, r: Any) -> Any:
        y = lax.conv_general_dilated(x, w, (stride, stride), [(pad, pad)] * 2,
                                     rhs_dilation=(dilation, dilation), dimension_numbers=names)
        y = y + (b if last else b[:, None, None]) if "b" in kind else y
        y = r + y if "r" in kind else y
        return calque.nn.relu(y) if "m" in kind else y
    return f


def families(f: Any, *args: Any) -> list[str]:
    return [row.split()[1] for row in str(calque.jit(f).lower(*args).plan()).splitlines()
            if row[2:3].isdigit()]


@pytest.mark.parametrize("last", [False, True], ids=["NCHW", "NHWC"])
def test_layers(last: bool) -> None:
    """Each part of an epilogue alone, and all, at every edge of cells and vectors."""
    rng = np.random.default_rng(0)
    for k, (n, c, o, h, v, taps, stride, dilation) in enumerate(CASES):
        pad = taps // 2
        x, w, b = made(rng, n, c, h, v), made(rng, o, c, taps, taps), made(rng, o)
        plain = convolved(x, w, stride, dilation, pad)
        r = made(rng, *plain.shape)
        kind = ("brm", "b", "m", "rm", "bm")[k % 5]
        want = plain + ("b" in kind) * b[:, None, None] + ("r" in kind) * r
        want = np.maximum(want, 0) if "m" in kind else want
        if last:
            x, w, r, want = (a.transpose(p) for a, p in zip(
                (x, w, r, want), ((0, 2, 3, 1), (2, 3, 1, 0), (0, 2, 3, 1), (0, 2, 3, 1))))
        got = calque.jit(layer(last, stride, dilation, pad, kind))(x, w, b, r)
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-6 * np.abs(plain).max() * (
            c * taps * taps) ** 0.5, err_msg=str((CASES[k], kind)))


def test_what_is_one_kernel() -> None:
    rng = np.random.default_rng(1)
    x, w, b = made(rng, 2, 32, 16, 16), made(rng, 32, 32, 3, 3), made(rng, 32)
    r = made(rng, 2, 32, 16, 16)
    whole = families(layer(False, 1, 1, 1, "brm"), x, w, b, r)
    assert "elementwise" not in whole and whole.count("convolution") == 1

    def twice(x: Any, w: Any, b: Any, r: Any) -> Any:  # what is read before the maximum stays
        y = layer(False, 1, 1, 1, "b")(x, w, b, r)
        return jnp.maximum(y, 0), y * 2

    f = layer(False, 1, 1, 1, "b")
    big, double = calque.jit(twice)(x, w, b, r)
    np.testing.assert_array_equal(big, np.maximum(calque.jit(f)(x, w, b, r), 0))
    np.testing.assert_array_equal(double, 2 * np.asarray(calque.jit(f)(x, w, b, r)))


def test_what_is_no_number() -> None:
    """relu keeps NaN, and has no negative zero."""
    x, w = np.zeros((1, 8, 6, 6), "f4"), np.zeros((8, 8, 3, 3), "f4")
    x[0, 0, 2, 2], w[3, 0] = np.nan, 1
    b = np.full(8, -0.0, "f4")
    got = np.asarray(calque.jit(layer(False, 1, 1, 1, "bm"))(x, w, b, b))
    assert np.isnan(got[0, 3, 1:4, 1:4]).all()
    assert not np.signbit(got[~np.isnan(got)]).any()


def test_derivatives() -> None:
    """Of a layer with all three, by differences along a direction."""
    rng = np.random.default_rng(2)
    args = [made(rng, *s) for s in ((2, 8, 9, 9), (16, 8, 3, 3), (16,), (2, 16, 9, 9))]
    weights = made(rng, 2, 16, 9, 9)

    def loss(*args: Any) -> Any:
        return (layer(False, 1, 1, 1, "brm")(*args) * weights).sum()

    def exact(x: Any, w: Any, b: Any, r: Any) -> float:
        y = convolved(x, w, 1, 1, 1) + b[:, None, None] + r
        return float((np.maximum(y, 0) * weights).sum())

    gradients = calque.jit(calque.grad(loss, argnums=(0, 1, 2, 3)))(*args)
    for k, g in enumerate(gradients):
        way = rng.standard_normal(args[k].shape)
        moved = [[a + s * 1e-5 * way if i == k else a for i, a in enumerate(args)]
                 for s in (1, -1)]
        slope = (exact(*moved[0]) - exact(*moved[1])) / 2e-5
        np.testing.assert_allclose(np.sum(np.asarray(g, "f8") * way), slope, rtol=2e-3)
