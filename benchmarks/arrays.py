"""Sorting, running sums, gather and scatter, reductions along axes, convolutions, normal draws."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from loops import F, both
from pairs import Row, compare


def convolution(layout: tuple[str, str, str]) -> Callable[..., Any]:
    def forward(m: Any, n: Any, x: Any, w: Any) -> Any:
        return m.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=layout)
    return forward


def gradient(forward: Callable[..., Any], argnum: int) -> Callable[..., Any]:
    def back(m: Any, n: Any, x: Any, w: Any) -> Any:
        return m.grad(lambda x, w: n.sum(forward(m, n, x, w) ** 2), argnum)(x, w)
    return back


def rows() -> list[Row]:
    rng = np.random.default_rng(0)
    flat = rng.normal(size=1_000_000).astype(F)
    square = rng.normal(size=(4096, 4096)).astype(F)
    table = rng.normal(size=(100_000, 64)).astype(F)
    picks = rng.integers(0, 100_000, 500_000).astype(np.int32)
    made = []
    for size in (1_000, 10_000, 100_000, 1_000_000):
        for name in ("sort", "argsort"):
            made.append(compare(f"{name} {size}", *both(
                lambda m, n, x, name=name: getattr(n, name)(x), flat[:size]), 0.3,
                inner=max(1, 50_000 // size)))  # one short call measures how the CPU wakes
    made.append(compare("sort 512 x 512", *both(
        lambda m, n, x: n.sort(x), square[:512, :512].copy()), 0.3))
    made.append(compare("top_k 8 of 1e5", *both(
        lambda m, n, x: m.lax.top_k(x, 8), flat[:100_000]), 1))
    made.append(compare("top_k 8 of 256 x 1e4", *both(
        lambda m, n, x: m.lax.top_k(x, 8), rng.normal(size=(256, 10_000)).astype(F)), 1))
    made.append(compare("cumsum 1e6", *both(lambda m, n, x: n.cumsum(x), flat), 1))
    made.append(compare("gather 5e5 rows of 64", *both(
        lambda m, n, x, i: x[i], table, picks), 1.2))
    made.append(compare("scatter-add of 5e5", *both(
        lambda m, n, x, i, v: x.at[i].add(v), flat[:100_000], picks, flat[:500_000]), 1.2))
    for name in ("sum", "max"):
        for axis in (0, 1):
            made.append(compare(f"{name} of 4096 x 4096 along axis {axis}", *both(
                lambda m, n, x, name=name, axis=axis: getattr(n, name)(x, axis), square), 1.3))
    x, w = rng.normal(size=(8, 64, 32, 32)).astype(F), rng.normal(size=(64, 64, 3, 3)).astype(F)
    for layout, a, b in ((("NCHW", "OIHW", "NCHW"), x, w),
                         (("NHWC", "HWIO", "NHWC"), x.transpose(0, 2, 3, 1).copy(),
                          w.transpose(2, 3, 1, 0).copy())):
        forward = convolution(layout)
        for name, f in (("convolution", forward), ("its gradient by x", gradient(forward, 0)),
                        ("its gradient by w", gradient(forward, 1))):
            made.append(compare(f"{name}, 8 x 64 x 32 x 32, 3 x 3, {layout[0]}", *both(f, a, b),
                                1.3))
    made.append(compare("normal 2 x 10M", *both(
        lambda m, n, key: [m.random.normal(k, (10_000_000,)) for k in m.random.split(key)],
        np.array([0, 7], np.uint32)), 0.5))
    return made
