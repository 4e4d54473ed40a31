"""What windowed and cumulative primitives mean: loops over positions in NumPy (see oracle.py)."""
from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from support.oracle import ORACLES, oracle, wide

Array = np.ndarray[Any, Any]


# ---- cumulative: element by element along the axis
def _running(step: Callable[[Array, Array], Array]) -> Callable[..., Any]:
    def run(params: Any, x: Array) -> Any:
        x, axis = np.array(wide(x)), params["axis"]
        y = np.moveaxis(np.flip(x, axis) if params["reverse"] else x, axis, 0).copy()
        for i in range(1, y.shape[0]):
            y[i] = step(y[i - 1], y[i])
        y = np.moveaxis(y, 0, axis)
        return np.flip(y, axis) if params["reverse"] else y
    return run


def _logaddexp(x: Array, y: Array) -> Array:
    if x.dtype.kind != "c":
        return np.logaddexp(x, y)
    return np.log(np.exp(x) + np.exp(y))


def _later(order: np.ufunc) -> Callable[[Array, Array], Array]:
    def pick(x: Array, y: Array) -> Array:
        if x.dtype.kind != "c":
            return (np.maximum if order is np.greater else np.minimum)(x, y)
        first = order(x.real, y.real) | ((x.real == y.real) & order(x.imag, y.imag))
        return np.where(first, x, y)
    return pick


ORACLES["cumsum"], ORACLES["cumprod"] = _running(np.add), _running(np.multiply)
ORACLES["cummax"], ORACLES["cummin"] = _running(_later(np.greater)), _running(_later(np.less))
ORACLES["cumlogsumexp"] = _running(_logaddexp)


# ---- windows: every window, every tap
def places(shape: Any, p: dict[str, Any]) -> Iterator[tuple[Any, list[Any]]]:
    """(index of the window, indices of its elements; None for padding and holes)."""
    ones = (1,) * len(shape)
    base, dilation = p.get("base_dilation", ones), p.get("window_dilation", ones)
    counts = []
    for n, k, s, (low, high), b, d in zip(shape, p["window_dimensions"], p["window_strides"],
                                          p["padding"], base, dilation):
        size = (0 if n == 0 else (n - 1) * b + 1) + low + high
        reach = (k - 1) * d + 1
        counts.append(0 if size < reach else (size - reach) // s + 1)
    for out in itertools.product(*map(range, counts)):
        taps = []
        for tap in itertools.product(*map(range, p["window_dimensions"])):
            at = [o * s + t * d - low for o, s, t, d, (low, _) in zip(
                out, p["window_strides"], tap, dilation, p["padding"])]
            inside = all(a % b == 0 and 0 <= a // b < n for a, b, n in zip(at, base, shape))
            taps.append(tuple(a // b for a, b in zip(at, base)) if inside else None)
        yield out, taps


def _counts(shape: Any, p: dict[str, Any]) -> tuple[int, ...]:
    from calque.core.avals import ShapedArray
    from calque.core.primitive import registry
    made = registry["reduce_window_sum"].rule("abstract")(
        ShapedArray(shape, np.dtype("f4")), **{k: v for k, v in p.items() if k != "select_prim"})
    return tuple(made.shape)


@oracle("reduce_window_sum")
def _window_sum(p: Any, x: Array) -> Any:
    x = wide(x)
    out = np.zeros(_counts(x.shape, p), x.dtype)
    for o, taps in places(x.shape, p):
        for at in taps:
            if at is not None:
                out[o] += x[at]
    return out


def _window_extremum(fold: np.ufunc, largest: bool) -> Callable[..., Any]:
    def run(p: Any, x: Array) -> Any:
        kind = x.dtype
        start = (largest if kind.kind == "b" else (np.iinfo(kind).max if largest else
                                               np.iinfo(kind).min) if kind.kind in "iu" else
                 np.inf if largest else -np.inf)
        x = wide(x)
        out = np.full(_counts(x.shape, p), start, x.dtype)
        for o, taps in places(x.shape, p):
            for at in taps:
                if at is not None:
                    out[o] = fold(out[o], x[at])
        return out
    return run


ORACLES["reduce_window_max"] = _window_extremum(np.maximum, False)
ORACLES["reduce_window_min"] = _window_extremum(np.minimum, True)


def _best(taps: list[Any], x: Array, ge: bool) -> Any:
    best = None
    for at in taps:
        if at is not None and (best is None or not (x[best] >= x[at] if ge else x[best] <= x[at])):
            best = at
    return best


@oracle("select_and_gather_add")
def _gather(p: Any, t: Array, x: Array) -> Any:
    t = wide(t)
    out = np.zeros(_counts(x.shape, p), t.dtype)
    for o, taps in places(x.shape, p):
        best = _best(taps, x, p["select_prim"].name == "ge")
        if best is not None:
            out[o] = t[best]
    return out


@oracle("select_and_scatter_add")
def _scatter(p: Any, source: Array, x: Array) -> Any:
    source = wide(source)
    out = np.zeros(x.shape, source.dtype)
    for o, taps in places(x.shape, p):
        best = _best(taps, x, p["select_prim"].name == "ge")
        if best is not None:
            out[best] += source[o]
    return out


# ---- reduce_precision: in exact arithmetic on doubles
@oracle("reduce_precision")
def _precision(p: Any, x: Array) -> Any:
    e, m = p["exponent_bits"], p["mantissa_bits"]
    x = wide(x)
    if e >= 11 and m >= 52:
        return x
    top = 2 ** (e - 1) - 1
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(np.where(np.isfinite(x), x, 0))
        unit = np.ldexp(1.0, exponent - 1 - m)
        y = np.where(np.isfinite(x) & (x != 0), np.rint(x / unit) * unit, x)
        _, exponent = np.frexp(np.where(np.isfinite(y), y, 0))
        y = np.where(np.isfinite(y) & (exponent - 1 > top), np.copysign(np.inf, y), y)
        return np.where(np.isfinite(y) & (exponent - 1 < 1 - top), np.copysign(0.0, y), y)
