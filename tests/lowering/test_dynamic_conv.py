"""Convolutions and pooling that move along axes whose sizes are known at the call only: compiled
once, against NumPy at many sizes, between guard pages.
"""

from __future__ import annotations

import functools
import itertools
from math import prod
from typing import Any

import numpy as np
import pytest
from support.guard import Guarded

import calque
import calque.numpy as jnp
from calque import aot, lax
from calque.runtime.buffer import Buffer

F32 = np.float32
LAST = ("NHWC", "HWIO", "NHWC")
Pairs = tuple[tuple[int, int], ...]


def _same(n: int, k: int, s: int, d: int) -> tuple[int, int]:
    total = max(0, (-(-n // s) - 1) * s + (k - 1) * d + 1 - n)
    return total // 2, total - total // 2


def _pads(x: Any, windows: Any, strides: Any, padding: Any, dilation: Any) -> Pairs:
    if padding == "SAME":
        return tuple(_same(*v) for v in zip(x.shape[1:-1], windows, strides, dilation))
    return ((0, 0),) * len(windows) if padding == "VALID" else padding


def _seen(x: Any, windows: Any, strides: Any, padding: Any, dilation: Any, value: Any) -> Any:
    """(batch, places..., taps, features) of x (batch, spatial..., features)."""
    pads = _pads(x, windows, strides, padding, dilation)
    more = [(max(0, a), max(0, b)) for a, b in pads]
    x = np.pad(x, ((0, 0), *more, (0, 0)), constant_values=value)
    x = x[(slice(None), *[slice(max(0, -a), n - max(0, -b)) for n, (a, b) in zip(
        x.shape[1:], pads)])]
    places = [max(0, (n - (k - 1) * d - 1) // s + 1) for n, k, s, d in zip(
        x.shape[1:], windows, strides, dilation)]
    taps = []
    for tap in itertools.product(*map(range, windows)):
        at = [np.arange(m) * s + t * d for m, s, t, d in zip(places, strides, tap, dilation)]
        at = [np.minimum(i, n - 1) if len(i) else i for i, n in zip(at, x.shape[1:])]
        taps.append(x[(slice(None), *np.ix_(*at))])
    return np.stack(taps, -2)


def conv(x: Any, k: Any, strides: Any = (1, 1), padding: Any = "SAME", dilation: Any = (1, 1),
         groups: int = 1) -> Any:
    seen = _seen(x, k.shape[:-2], strides, padding, dilation, 0)
    lead, (inputs, outputs) = seen.shape[:-2], k.shape[-2:]
    seen = seen.reshape(*lead, seen.shape[-2], groups, inputs)
    kernel = k.reshape(seen.shape[-3], inputs, groups, outputs // groups)
    return np.einsum("...tgi,tigo->...go", seen, kernel).reshape(*lead, outputs).astype(x.dtype)


def ours(x: Any, k: Any, strides: Any = (1, 1), padding: Any = "SAME", dilation: Any = (1, 1),
         groups: int = 1) -> Any:
    return lax.conv_general_dilated(
        x, k, strides, padding, rhs_dilation=dilation, feature_group_count=groups,
        dimension_numbers=LAST)


def both(**options: Any) -> Any:
    return (lambda x, k, d, g: ours(x, k, **options), lambda x, k, d, g: conv(x, k, **options))


def pooled(name: str, value: float, windows: Any, strides: Any, padding: Any) -> Any:
    fold = {"max": (lax.max, np.max), "add": (lax.add, np.sum), "min": (lax.min, np.min)}[name]
    return (
        lambda x, k, d, g: lax.reduce_window(
            x, value, fold[0], (1, *windows, 1), (1, *strides, 1), padding),
        lambda x, k, d, g: fold[1](
            _seen(x, windows, strides, padding, (1, 1), F32(value)), -2, initial=value
        ).astype(F32),
    )


def squared(x: Any, k: Any, **options: Any) -> Any:
    return (ours(x, k, **options) ** 2).sum()


def pulled(x: Any, k: Any, of_kernel: bool, strides: Any = (1, 1), padding: Any = "SAME",
           dilation: Any = (1, 1)) -> Any:
    """The gradient of the sum of squares, by the places that each tap sees."""
    x, k = x.astype(np.float64), k.astype(np.float64)
    back = 2 * conv(x, k, strides, padding, dilation)
    index = np.arange(prod(x.shape[1:-1])).reshape(1, *x.shape[1:-1], 1)
    at = _seen(index, k.shape[:-2], strides, padding, dilation, -1)[0, ..., 0]
    flat = x.reshape(x.shape[0], prod(x.shape[1:-1]), x.shape[-1])
    flat = np.concatenate([flat, 0 * flat[:, :1]], 1)
    if of_kernel:
        made = np.einsum("bmtc,bmo->tco", flat[:, at.reshape(-1, at.shape[-1])],
                         back.reshape(x.shape[0], prod(back.shape[1:-1]), back.shape[-1]))
        return made.reshape(k.shape).astype(F32)
    spread = np.einsum("b...o,tco->b...tc", back, k.reshape(-1, *k.shape[-2:]))
    out = np.zeros_like(flat)
    for b in range(len(x)):
        np.add.at(out[b], at.reshape(-1), spread[b].reshape(-1, x.shape[-1]))
    return out[:, :-1].reshape(x.shape).astype(F32)


def gradient(of_kernel: bool, **options: Any) -> Any:
    return (
        lambda x, k, d, g: calque.grad(squared, int(of_kernel))(x, k, **options),
        lambda x, k, d, g: pulled(x, k, of_kernel, **options),
    )


def pool_gradient(name: str, windows: Any, strides: Any, padding: Any) -> Any:
    """Of the sum of squares of what windows hold."""
    options = (windows, strides, padding, (1, 1))
    value, fold = (-np.inf, lax.max) if name == "max" else (0.0, lax.add)

    def mine(x: Any, k: Any, d: Any, g: Any) -> Any:
        return calque.grad(lambda x: (lax.reduce_window(
            x, value, fold, (1, *windows, 1), (1, *strides, 1), padding) ** 2).sum())(x)

    def theirs(x: Any, k: Any, d: Any, g: Any) -> Any:
        index = np.arange(prod(x.shape[1:-1])).reshape(1, *x.shape[1:-1], 1)
        at = _seen(index, *options, -1)[0, ..., 0]
        seen = _seen(x.astype(np.float64), *options, value)
        if name == "max":
            chosen = np.arange(seen.shape[-2])[:, None] == seen.argmax(-2)[..., None, :]
            back = 2 * np.where(chosen, seen, 0)
        else:
            back = np.broadcast_to(2 * seen.sum(-2, keepdims=True), seen.shape)
        out = np.zeros((len(x), index.size + 1, x.shape[-1]))
        for b in range(len(x)):
            np.add.at(out[b], at.reshape(-1), back[b].reshape(-1, x.shape[-1]))
        return out[:, :-1].reshape(x.shape).astype(F32)

    return mine, theirs


# x (b, h, w, 4), k (3, 3, 4, 6), d (3, 2, 1, 8), g (2, 3, 2, 6)
STRIDED: dict[str, Any] = {"strides": (2, 3), "padding": "VALID"}
CONVOLUTIONS: dict[str, Any] = {
    "same": both(),
    "valid": both(padding="VALID"),
    "strided": both(**STRIDED),
    "strided_same": both(strides=(2, 2)),
    "explicit": both(padding=((2, 1), (0, 3))),
    "negative": both(padding=((3, -1), (2, 2))),
    "dilated": both(dilation=(2, 3)),
    "depthwise": (
        lambda x, k, d, g: ours(x, d, groups=4, strides=(1, 2)),
        lambda x, k, d, g: conv(x, d, groups=4, strides=(1, 2)),
    ),
    "groups": (
        lambda x, k, d, g: ours(x, g, groups=2),
        lambda x, k, d, g: conv(x, g, groups=2),
    ),
    "pointwise": (
        lambda x, k, d, g: ours(x, k[:1, :1]),
        lambda x, k, d, g: conv(x, k[:1, :1]),
    ),
    "line": (
        lambda x, k, d, g: lax.conv_general_dilated(
            x[:, 0], k[0], (2,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")),
        lambda x, k, d, g: conv(x[:, :1], k[:1], (1, 2))[:, 0],
    ),
    "channels_first": (
        lambda x, k, d, g: lax.conv(
            jnp.transpose(x, (0, 3, 1, 2)), jnp.transpose(k, (3, 2, 0, 1)), (1, 1), "SAME"),
        lambda x, k, d, g: np.moveaxis(conv(x, k), -1, 1),
    ),
    "gray": (
        lambda x, k, d, g: ours(x[..., :1], k[:, :, :1]),
        lambda x, k, d, g: conv(x[..., :1], k[:, :, :1]),
    ),
    "max": pooled("max", -np.inf, (2, 2), (2, 2), "VALID"),
    "max_same": pooled("max", -np.inf, (3, 2), (2, 1), "SAME"),
    "min": pooled("min", np.inf, (3, 3), (1, 1), "VALID"),
    "sum": pooled("add", 0.0, (2, 3), (2, 2), "SAME"),
    "sum_far": pooled("add", 0.0, (40, 2), (1, 1), "VALID"),
    "sum_long": pooled("add", 0.0, (40, 1), (3, 1), "SAME"),
}
GRADIENTS: dict[str, Any] = {
    "of_x": gradient(False),
    "of_kernel": gradient(True),
    "of_x_strided": gradient(False, **STRIDED),
    "of_kernel_strided": gradient(True, **STRIDED),
    "of_x_same": gradient(False, strides=(2, 2)),
    "of_kernel_same": gradient(True, strides=(2, 2), dilation=(1, 2)),
    "of_x_dilated": gradient(False, dilation=(2, 2), padding="VALID"),
    "of_max": pool_gradient("max", (2, 2), (2, 2), "VALID"),
    "of_max_same": pool_gradient("max", (3, 3), (2, 1), "SAME"),
    "of_sum": pool_gradient("add", (3, 2), (1, 2), "VALID"),
    "of_sum_same": pool_gradient("add", (2, 2), (2, 2), "SAME"),
    "vmap": (
        lambda x, k, d, g: calque.vmap(lambda v: ours(v, k))(jnp.stack([x, 2 * x])),
        lambda x, k, d, g: np.stack([conv(x, k), conv(2 * x, k)]),
    ),
}
SOME = ("same", "strided", "max")


@functools.cache
def _family(which: str) -> Any:
    rows = {"all": CONVOLUTIONS, "gradients": GRADIENTS,
            "some": {k: CONVOLUTIONS[k] for k in SOME}}[which]

    def every(*args: Any) -> list[Any]:
        return [f(*args) for f, _ in rows.values()]

    specs = ("f32[b,h,w,4]", "f32[3,3,4,6]", "f32[3,2,1,8]", "f32[2,3,2,6]")
    return rows, aot.load(aot.compile(every, *specs, name="family").vmfb).family


def _check(which: str, b: int, h: int, w: int) -> None:
    rows, call = _family(which)
    rng = np.random.default_rng([b, h, w])
    args = [rng.normal(size=s).astype(F32) for s in (
        (b, h, w, 4), (3, 3, 4, 6), (3, 2, 1, 8), (2, 3, 2, 6))]
    for at_end in (False, True):
        guards = [Guarded(a, at_end) for a in args]
        outs = call(*[Buffer.alias_numpy(g.array, call.device) for g in guards])
        assert not any(g.changed() for g in guards), (b, h, w)
    for (name, (_, theirs)), out in zip(rows.items(), outs, strict=True):
        got, want = out.numpy(), theirs(*args)
        assert got.shape == want.shape and got.dtype == want.dtype, (name, b, h, w, got.shape)
        # sums of up to 9 * 4 (of a kernel's gradient: b h w) products in another order
        size = max(1.0, float(np.max(np.abs(want), initial=0, where=np.isfinite(want))))
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=3e-6 * size,
                                   err_msg=f"{name} b={b}, h={h}, w={w}")


def test_windows_move_along_unknown_axes() -> None:
    for sizes in ((1, 1, 1), (2, 3, 5), (1, 7, 4), (3, 16, 17), (0, 4, 4), (1, 64, 33)):
        _check("some", *sizes)


SIZES = [(1, 1, 1), (1, 1, 9), (2, 2, 2), (1, 3, 3), (2, 4, 5), (1, 5, 4), (3, 7, 8), (1, 16, 16),
         (2, 17, 15), (1, 33, 64), (1, 100, 3), (4, 3, 130), (0, 5, 5)]


@pytest.mark.slow
@pytest.mark.parametrize("b, h, w", SIZES)
def test_every_convolution(b: int, h: int, w: int) -> None:
    _check("all", b, h, w)


@pytest.mark.slow
@pytest.mark.parametrize("b, h, w", SIZES)
def test_gradients(b: int, h: int, w: int) -> None:
    _check("gradients", b, h, w)


DTYPES = ("int8", "uint8", "int32", "int64", "float16", "bfloat16", "float64", "complex64")


@pytest.mark.slow
def test_every_dtype_layout_and_rank() -> None:
    def lowest(dtype: Any) -> Any:
        return np.asarray(np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf, dtype)

    def every(x: Any, k: Any) -> list[Any]:
        made = []
        for name in DTYPES:
            a, b = x.astype(name), k.astype(name)
            made += [ours(a, b, strides=(2, 1)).real.astype("float32")]
            if name != "complex64":
                made += [lax.reduce_window(a, lowest(a.dtype), lax.max, (1, 2, 2, 1),
                                           (1, 1, 2, 1), "VALID").astype("float32")]
        wide = jnp.stack([x, 2 * x], 3)  # (b, h, w, 2, c)
        kernel = jnp.stack([k, -k], 2)  # (3, 3, 2, c, o)
        made += [lax.conv_general_dilated(wide, kernel, (1, 2, 1), "VALID",
                                          dimension_numbers=("NHWDC", "HWDIO", "NHWDC"))]
        made += [lax.conv_transpose(x, k, (2, 2), "SAME", dimension_numbers=LAST)]
        return made

    with calque.enable_x64(True):
        call = aot.load(aot.compile(every, "f32[b,h,w,4]", "f32[3,3,4,6]", name="f").vmfb).f
    for b, h, w in ((1, 1, 1), (2, 3, 4), (1, 9, 8), (2, 16, 5)):
        rng = np.random.default_rng([b, h, w])
        x, k = (rng.integers(0, 3, s).astype(F32) for s in ((b, h, w, 4), (3, 3, 4, 6)))
        got = [r.numpy() for r in call(x, k)]
        plain = conv(x, k, (2, 1))  # at most 144: exact in every dtype, but for int8's range
        pool = _seen(x, (2, 2), (1, 2), "VALID", (1, 1), 0).max(-2, initial=0)
        for name in DTYPES:
            want = plain.astype(np.int64).astype("int8") if name == "int8" else plain
            np.testing.assert_array_equal(got.pop(0), want, err_msg=name)
            if name != "complex64":
                np.testing.assert_array_equal(got.pop(0), pool, err_msg=name)
        wide, kernel = np.stack([x, 2 * x], 3), np.stack([k, -k], 2)
        want = conv(wide, kernel, (1, 2, 1), "VALID", (1, 1, 1))
        np.testing.assert_array_equal(got.pop(0), want)
        spread = np.zeros((b, 2 * h - 1, 2 * w - 1, 4), F32)
        spread[:, ::2, ::2] = x
        np.testing.assert_array_equal(got.pop(0), conv(spread, k, (1, 1), ((2, 1), (2, 1))))
