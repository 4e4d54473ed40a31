"""Functions written once for calque and for NumPy: `f(ns, *args)`.

`CALQUE` and `NUMPY` are the namespaces; control flow in NUMPY is a Python loop or `if`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

import calque
from calque import lax


def _scan(f: Callable[..., Any], init: Any, xs: Any = None, length: int | None = None,
          reverse: bool = False, unroll: int = 1) -> Any:
    n = length if xs is None else len(xs)
    assert n is not None
    carry, ys = init, []
    for i in reversed(range(n)) if reverse else range(n):
        carry, y = f(carry, None if xs is None else xs[i])
        ys.append(y)
    return carry, np.array(ys[::-1] if reverse else ys)


def _sum(x: Any) -> Any:
    return lax.reduce_sum(x, tuple(range(x.ndim)))


CALQUE = SimpleNamespace(
    sin=lax.sin, cos=lax.cos, exp=lax.exp, tanh=lax.tanh, sum=_sum, mul=lax.mul, add=lax.add,
    scan=lax.scan, cond=lax.cond, switch=lax.switch, jit=calque.jit,
    dot=lambda x, y: lax.dot(x, y), gt=lambda x, y: lax.gt(x, np.float64(y)),
    at=lambda x, i: lax.index_in_dim(x, i, keepdims=False), is_calque=True,
    full=lambda x, shape: lax.broadcast_in_dim(x, shape, ()), vmap=calque.vmap)
NUMPY = SimpleNamespace(
    sin=np.sin, cos=np.cos, exp=np.exp, tanh=np.tanh, sum=np.sum, mul=np.multiply, add=np.add,
    scan=_scan, cond=lambda p, f, g, *xs: f(*xs) if p else g(*xs),
    switch=lambda i, fs, *xs: fs[min(max(int(i), 0), len(fs) - 1)](*xs), jit=lambda f: f,
    dot=np.dot, gt=np.greater, at=lambda x, i: x[i], is_calque=False,
    full=lambda x, shape: np.broadcast_to(x, shape),
    vmap=lambda f: lambda *xs: np.array([f(*row) for row in zip(*xs)]))


# ---- loops
def scan_all(ns: Any, w: Any, c0: Any, xs: Any, *, reverse: bool = False) -> Any:
    """Depends on a const (w), the initial carry and xs."""
    def body(c: Any, x: Any) -> Any:
        c = ns.add(ns.sin(ns.mul(c, w)), x)
        return c, ns.mul(c, x)
    c, ys = ns.scan(body, c0, xs, reverse=reverse)
    return ns.add(ns.sum(c), ns.sum(ns.mul(ys, ys)))


def scan_reversed(ns: Any, w: Any, c0: Any, xs: Any) -> Any:
    return scan_all(ns, w, c0, xs, reverse=True)


def scan_without_xs(ns: Any, w: Any, c0: Any) -> Any:
    c, _ = ns.scan(lambda c, _: (ns.sin(ns.mul(c, w)), c), c0, None, length=3)
    return ns.sum(c)


def scan_only_ys(ns: Any, w: Any, xs: Any) -> Any:
    """The carry is an unused counter; ys depend on a const and x."""
    _, ys = ns.scan(lambda i, x: (ns.add(i, 1), ns.mul(ns.sin(x), w)), 0, xs)
    return ns.sum(ys)


def scan_swaps(ns: Any, a: Any, b: Any) -> Any:
    """A carry that passes through unchanged into another."""
    (x, y), _ = ns.scan(lambda c, _: ((c[1], ns.sin(c[0])), c[0]), (a, b), None, length=3)
    return ns.sum(ns.mul(x, ns.add(y, a)))


def scan_of_scan(ns: Any, w: Any, xs: Any) -> Any:
    def outer(c: Any, row: Any) -> Any:
        def inner(d: Any, x: Any) -> Any:
            d = ns.tanh(ns.add(ns.mul(d, w), x))
            return d, ns.mul(d, c)
        d, ys = ns.scan(inner, c, row)
        return ns.add(d, ns.sum(ys)), ns.mul(d, w)
    c, ys = ns.scan(outer, ns.at(ns.at(xs, 0), 0), xs)
    return ns.add(c, ns.sum(ys))


def scan_of_vmap(ns: Any, w: Any, c0: Any, xs: Any) -> Any:
    def body(c: Any, x: Any) -> Any:
        c = ns.vmap(lambda ci, wi: ns.sin(ns.mul(ns.mul(ci, wi), x)))(c, w)
        return c, ns.sum(c)
    c, ys = ns.scan(body, c0, xs)
    return ns.add(ns.sum(c), ns.sum(ys))


# ---- conditions
def cond_small(ns: Any, p: Any, x: Any) -> Any:
    return ns.sum(ns.cond(ns.gt(p, 0.0), lambda v: ns.mul(ns.sin(v), p),
                          lambda v: ns.mul(v, v), x))


def cond_large(ns: Any, p: Any, x: Any) -> Any:
    """Branches above the limit under which both are computed: a real case."""
    big = ns.full(x, (40_000,))
    return ns.mul(ns.sum(ns.cond(ns.gt(p, 0.0), lambda v: ns.mul(ns.sin(v), p),
                                 lambda v: ns.mul(v, x), big)), 1e-4)


def switch_three(ns: Any, p: Any, x: Any) -> Any:
    fs = [lambda v: ns.sin(v), lambda v: ns.mul(v, p), lambda v: v]
    return ns.sum(ns.add(ns.switch(1, fs, x), ns.switch(5, fs, x)))


def cond_in_scan(ns: Any, w: Any, xs: Any) -> Any:
    def body(c: Any, x: Any) -> Any:
        c = ns.cond(ns.gt(x, 0.0), lambda v: ns.sin(ns.mul(v, w)), lambda v: ns.add(v, x), c)
        return c, c
    c, ys = ns.scan(body, w, xs)
    return ns.add(c, ns.sum(ys))


def scan_in_cond_in_scan(ns: Any, w: Any, xs: Any) -> Any:
    def body(c: Any, x: Any) -> Any:
        def loop(v: Any) -> Any:
            d, ys = ns.scan(lambda d, _: (ns.sin(ns.mul(d, x)), d), v, None, length=2)
            return ns.add(d, ns.sum(ys))
        c = ns.cond(ns.gt(x, 0.0), loop, lambda v: ns.mul(v, w), c)
        return c, ns.mul(c, x)
    c, ys = ns.scan(body, w, xs)
    return ns.add(c, ns.sum(ys))


# ---- calls
def jit_inside(ns: Any, x: Any, y: Any) -> Any:
    f = ns.jit(lambda a, b: (ns.mul(ns.sin(a), b), ns.mul(a, a)))
    u, v = f(x, y)
    p, q = f(v, x)  # the same inner program twice
    return ns.sum(ns.add(ns.mul(u, p), q))


def jit_of_jit(ns: Any, x: Any) -> Any:
    inner = ns.jit(lambda a: ns.exp(ns.sin(a)))
    return ns.sum(ns.jit(lambda a: ns.mul(inner(a), inner(ns.mul(a, x))))(x))


def network(ns: Any, w1: Any, w2: Any, x: Any) -> Any:
    h = ns.tanh(ns.dot(x, w1))
    h = ns.tanh(ns.dot(h, w2))
    return ns.sum(ns.mul(h, h))


def _r(*shape: int) -> Any:
    return np.random.default_rng(sum(shape) + 10 * len(shape)).uniform(0.2, 1.3, shape)


_LONG = np.sin(np.arange(150.0) + 0.5)  # no zeros: conditions must not flip under a step
FUNCTIONS: list[tuple[str, Callable[..., Any], Sequence[Any]]] = [
    *[(f"scan_all[{n}]", scan_all, (0.4 * _r(2), _r(2), _r(n, 2))) for n in (3, 0, 1, 150)],
    *[(f"scan_reversed[{n}]", scan_reversed, (0.4 * _r(2), _r(2), _r(n, 2))) for n in (3, 150)],
    ("scan_without_xs", scan_without_xs, (_r(3), _r(3))),
    ("scan_only_ys", scan_only_ys, (_r(2), _r(4, 2))),
    ("scan_only_ys[150]", scan_only_ys, (_r(2), _r(150, 2))),
    ("scan_swaps", scan_swaps, (_r(2), _r(2))),
    ("scan_of_scan", scan_of_scan, (_r()[()], _r(2, 2))),
    ("scan_of_scan[20, 70]", scan_of_scan, (0.4 * _r()[()], 0.1 * _r(20, 70))),
    ("scan_of_vmap", scan_of_vmap, (_r(3), _r(3), _r(2))),
    ("cond_small, true", cond_small, (0.7, _r(3))),
    ("cond_small, false", cond_small, (-0.7, _r(3))),
    ("cond_large, true", cond_large, (0.7, 0.4)),
    ("cond_large, false", cond_large, (-0.7, 0.4)),
    ("switch_three", switch_three, (0.7, _r(3))),
    ("cond_in_scan", cond_in_scan, (0.7, np.array([0.3, -0.4]))),
    ("cond_in_scan[150]", cond_in_scan, (0.7, _LONG)),
    ("scan_in_cond_in_scan", scan_in_cond_in_scan, (0.7, np.array([0.3, -0.4]))),
    ("scan_in_cond_in_scan[30]", scan_in_cond_in_scan, (0.7, _LONG[:30])),
    ("jit_inside", jit_inside, (_r(3), _r(3))),
    ("jit_of_jit", jit_of_jit, (_r(3),)),
    ("network", network, (_r(3, 4), _r(4, 2), _r(3))),
]
DEEP = ["scan_all[150]", "cond_small, true", "cond_large, false", "jit_of_jit"]
