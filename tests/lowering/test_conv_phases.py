"""Convolutions of operands with holes as several without (primitives/conv_phases), and with what is
around them kernels of ours alone.  Oracle: the holes filled with zeros, and sums written out.
"""
from __future__ import annotations

import itertools

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax

RNG = np.random.default_rng(3)


def numbers(*shape):
    """Whole numbers: sums of their products are exact."""
    return RNG.integers(-4, 5, shape).astype("f4")


def expected(x, y, padding, holes):
    """Channels last, kernel (taps..., in, out)."""
    rank = len(holes)
    apart = np.zeros((x.shape[0], *[(n - 1) * h + 1 for n, h in zip(x.shape[1:-1], holes)],
                      x.shape[-1]), x.dtype)
    apart[(slice(None), *[slice(None, None, h) for h in holes])] = x
    apart = np.pad(apart, ((0, 0), *[(max(a, 0), max(b, 0)) for a, b in padding], (0, 0)))
    apart = apart[(slice(None), *[slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(
        padding, apart.shape[1:-1])])]
    places = [n - k + 1 for n, k in zip(apart.shape[1:-1], y.shape[:rank])]
    made = np.zeros((x.shape[0], *places, y.shape[-1]), x.dtype)
    for tap in itertools.product(*map(range, y.shape[:rank])):
        seen = apart[(slice(None), *[slice(t, t + n) for t, n in zip(tap, places)])]
        made += seen @ y[tap]
    return made


CASES = [  # sizes, taps, padding, holes
    ((16, 16), (3, 3), ((1, 2), (1, 2)), (2, 2)),
    ((16, 15), (4, 4), ((2, 2), (2, 2)), (2, 2)),
    ((13, 12), (2, 3), ((1, 1), (0, 2)), (3, 2)),  # fewer taps than holes: places that see nothing
    ((16, 16), (5, 5), ((-1, 2), (3, -2)), (2, 2)),
    ((17, 16), (3, 3), ((1, 1), (2, 2)), (1, 2)),
    ((60,), (5,), ((2, 3),), (4,)),
    ((9, 8, 7), (3, 3, 3), ((1, 1),) * 3, (2, 2, 2)),
    ((16, 16), (1, 1), ((0, 1), (0, 1)), (2, 2)),
]


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("sizes, taps, padding, holes", CASES)
def test_convolutions(sizes, taps, padding, holes, level, monkeypatch):
    monkeypatch.setenv("CALQUE_CPU", level)
    x, y = numbers(4, *sizes, 16), numbers(*taps, 16, 6)
    space = "HWD"[:len(sizes)]

    def f(x, y):
        made = lax.conv_general_dilated(
            x, y, (1,) * len(sizes), padding, lhs_dilation=holes,
            dimension_numbers=(f"N{space}C", f"{space}IO", f"N{space}C"))
        return jnp.maximum(made, 0)

    np.testing.assert_array_equal(calque.jit(f)(x, y), np.maximum(
        expected(x, y, padding, holes), 0))


def test_they_are_kernels_alone():
    """What a transposed convolution is compiled to leaves IREE nothing."""
    plan = calque.jit(lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME")).lower(
        numbers(4, 16, 16, 16), numbers(3, 3, 16, 4)).plan()
    assert "IREE" not in str(plan)


@pytest.mark.parametrize("channels", [3, 16])
def test_gradients_of_strided_convolutions(channels):
    """In the operand and in the kernel: linear in each, so differences are the derivatives."""
    x, w = numbers(2, 12, 12, channels), numbers(3, 3, channels, 8)
    weight = numbers(2, 6, 6, 8)

    def loss(x, w):
        made = lax.conv_general_dilated(x, w, (2, 2), "SAME",
                                        dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return (made * weight).sum()

    gx, gw = map(np.asarray, calque.jit(calque.grad(loss, (0, 1)))(x, w))
    for _ in range(20):
        dx, dw = (np.zeros_like(v) for v in (x, w))
        i, j = (tuple(RNG.integers(0, n) for n in v.shape) for v in (x, w))
        dx[i], dw[j] = 1, 1
        assert gx[i] == loss(x + dx, w) - loss(x, w)
        assert gw[j] == loss(x, w + dw) - loss(x, w)


@pytest.mark.parametrize("seed", range(12))
def test_windows_side_by_side_are_products(seed):
    """As many holes as taps (passes/blocks), against sums over taps in NumPy."""
    r = np.random.RandomState(seed)
    rank = r.randint(1, 4)
    taps, places, high = (r.randint(1, m, rank).tolist() for m in (5, 7, 4))
    taps[0] += 1
    inputs, outputs, batch = r.randint(1, 6, 3).tolist()
    space = "DHW"[:rank]
    first, last = f"NC{space}", f"N{space}C"
    spec = ((last, f"{space}IO", last), (first, f"OI{space}", first), (last, f"OI{space}", first))[
        seed % 3]
    x = r.randn(batch, inputs, *places).astype(np.float32)
    y = r.randn(outputs, inputs, *taps).astype(np.float32)
    low = r.randint(0, 6, rank).tolist() if seed % 2 else [k - 1 for k in taps]
    around = [(a, h + max(0, k - a)) for a, h, k in zip(low, high, taps)]
    holes = np.zeros((batch, inputs, *((n - 1) * k + 1 for n, k in zip(places, taps))))
    holes[(..., *(slice(None, None, k) for k in taps))] = x
    holes = np.pad(holes, [(0, 0), (0, 0), *around])
    size = [n - k + 1 for n, k in zip(holes.shape[2:], taps)]
    wanted = np.zeros((batch, outputs, *size))
    for at in itertools.product(*map(range, taps)):
        seen = holes[(..., *(slice(a, a + n) for a, n in zip(at, size)))]
        wanted += np.einsum("bi...,oi->bo...", seen, y[(..., *at)].astype(np.float64))

    def f(x, y):
        return lax.conv_general_dilated(x, y, (1,) * rank, around, lhs_dilation=taps,
                                        dimension_numbers=spec)

    given = np.moveaxis(x, 1, -1) if spec[0] == last else x
    kernel = np.moveaxis(y, (0, 1), (-1, -2)) if spec[1].endswith("IO") else y
    if spec[2] == last:
        wanted = np.moveaxis(wanted, 1, -1)
    # products of up to 5 features and one tap: roundings of 6e-8 of numbers of up to 10
    np.testing.assert_allclose(calque.jit(f)(given, kernel), wanted, atol=1e-5)
    half = calque.jit(f)(jnp.asarray(given, "bfloat16"), jnp.asarray(kernel, "bfloat16"))
    # three roundings to 8 bits of products of up to 5 features
    np.testing.assert_allclose(half.astype("float32"), wanted, atol=0.2, rtol=0.02)
    assert "conv_general_dilated" not in str(calque.jit(f).lower(given, kernel).plan())
