"""Groups of equations over independent rows (passes/rows, kernels/rows): which they are, and what
they return beside NumPy in float64, for every dtype, size, axis and level.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax, nn
from calque.core.config import config
from calque.core.dtypes import bfloat16
from calque.core.program import Program, eliminate_dead_code
from calque.lowering.passes import rows
from calque.lowering.passes.groups import grouped
from calque.lowering.passes.hoist import hoist
from calque.lowering.target.targets import TargetError, runnable_target

RNG = np.random.default_rng(0)
F32 = np.dtype(np.float32)


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    return (RNG.normal(size=shape) * 2).astype(dtype)


def groups(f: Callable[..., Any], *args: Any) -> list[rows.Rows]:
    """The groups of a function."""
    p: Program = calque.make_jaxpr(f)(*args).jaxpr
    found = grouped(hoist(eliminate_dead_code(p)))
    return [e.params["rows"] for e in found.equations if "rows" in e.params]


# ---- functions and what they are in float64
def softmax(np: Any, x: Any, axis: int) -> Any:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def log_softmax(np: Any, x: Any, axis: int) -> Any:
    x = x - x.max(axis, keepdims=True)
    return x - np.log(np.exp(x).sum(axis, keepdims=True))


def norm(np: Any, x: Any, axis: int) -> Any:
    """A layer's: mean and variance, whose reciprocal is a power."""
    d = x - x.mean(axis, keepdims=True)
    return d / np.sqrt((d * d).mean(axis, keepdims=True) + 1e-3)


def rms(np: Any, x: Any, axis: int) -> Any:
    return x / np.sqrt((x * x).mean(axis, keepdims=True) + 1e-3) * 3 + x


def spread(np: Any, x: Any, axis: int) -> Any:
    """Folds of every kind."""
    y = (x - x.min(axis, keepdims=True)) / (x.max(axis, keepdims=True) + 7)
    return y + (1 + y / 4096).prod(axis, keepdims=True)


FUNCTIONS = (softmax, log_softmax, norm, rms, spread)
# (numbers that are divided by are rounded to the dtype, too)
CLOSE = {np.dtype(np.float16): 6e-3, bfloat16: 6e-2, F32: 1e-5, np.dtype(np.float64): 1e-14}


def check(found: list[tuple[Callable[..., Any], Any, int]], expected: int | None = None) -> None:
    """Functions of arrays along axes, in one module; how many groups there are."""
    def every(*xs: Any) -> list[Any]:
        return [f(jnp, x, axis) for (f, _, axis), x in zip(found, xs)]

    args = [x for _, x, _ in found]
    if expected is not None:
        assert len(groups(every, *args)) == expected
    for (f, x, axis), out in zip(found, calque.jit(every)(*args)):
        assert out.dtype == x.dtype and out.shape == x.shape
        want = f(np, x.astype(np.float64), axis)
        np.testing.assert_allclose(np.asarray(out).astype(np.float64), want, rtol=CLOSE[x.dtype],
                                   atol=CLOSE[x.dtype], err_msg=f"{f.__name__} {x.shape} {axis}")


def test_a_fold_that_is_spread_is_written_at_once() -> None:
    """As psum over devices is: no array of the sums lies between."""
    def every(x: Any) -> list[Any]:
        rows, columns = x.sum(1), x.max(0)
        return [jnp.broadcast_to(columns, x.shape), jnp.broadcast_to(columns, x.shape).reshape(-1),
                jnp.broadcast_to(rows[:, None, None], (*x.shape, 1)).reshape(x.shape), rows]

    x = np.random.default_rng(1).standard_normal((33, 70), np.float32)
    found = grouped(hoist(eliminate_dead_code(calque.make_jaxpr(every)(x).jaxpr))).equations
    made = {v.aval.size for e in found if "rows" in e.params for v in e.outputs}
    assert made == {x.size, len(x)}
    low, wide = np.broadcast_to(x.max(0), x.shape), np.broadcast_to(x.sum(1)[:, None], x.shape)
    for got, want in zip(calque.jit(every)(x), [low, low.reshape(-1), wide, x.sum(1)]):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def some(stride: int) -> list[Any]:
    """Of a list: a part by default, and all."""
    return [stride, pytest.param(1, marks=pytest.mark.slow)]


@pytest.mark.parametrize("stride", some(7))
def test_dtypes(stride: int, x64: None) -> None:
    found = [(f, normal(19, 70, dtype=d), axis) for d in CLOSE for f in FUNCTIONS
             for axis in (1, 0)][::stride]
    check(found, len(found))


@pytest.mark.parametrize("level, stride", [("x86-64-v2", 3), *[
    pytest.param(level, 1, marks=pytest.mark.slow) for level in ("x86-64-v2", "x86-64-v3")]])
def test_levels(level: str, stride: int) -> None:
    with config.context("calque_cpu", level):
        try:
            runnable_target()
        except TargetError as error:
            pytest.skip(str(error).splitlines()[0])
        check([(f, normal(9, 70, dtype=d), axis) for d in (np.float16, bfloat16, np.float32)
               for f, axis in ((softmax, 1), (norm, 0))][::stride])


@pytest.mark.parametrize("stride", some(3))
def test_sizes(stride: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rows and of columns: not a multiple of anything, fewer than a vector, long."""
    monkeypatch.setattr(rows, "SHORTEST", 1)
    sizes = [(33, n) for n in (2, 3, 7, 16, 31, 33, 63, 65, 129, 1025)] + [
        (1, 300), (2, 5000), (300, 17), (1025, 3), (65, 1)]
    found = [(f, normal(*s), axis) for s in sizes for f, axis in ((softmax, 1), (norm, 0))
             if s[axis] > 1][::stride]
    check(found, len(found))


def test_many_axes() -> None:
    """Rows are whatever is not folded."""
    found = [(f, normal(*s), axis) for f in (softmax, norm) for s in ((5, 6, 21), (3, 4, 5, 34))
             for axis in range(len(s))]
    check(found, len(found))

    def several(np: Any, x: Any, axes: Any) -> Any:
        d = x - x.mean(axes, keepdims=True)
        return d / np.sqrt((d * d).mean(axes, keepdims=True) + 1e-3)
    check([(several, normal(4, 5, 6, 7), axes) for axes in (  # type: ignore[misc]
        (2, 3), (1, 2), (1, 3), (0, 2), (0, 1))])


def test_error_of_long_sums() -> None:
    """As good as in stages."""
    x = RNG.random((9, 60_000), np.float32)

    def f(x: Any) -> Any:
        total = x.sum(1, keepdims=True)
        return total, (x / total * x).sum(1)
    assert len(groups(f, x)) == 1
    one, other = calque.jit(f)(x)
    exact = x.astype(np.float64)
    total = exact.sum(1, keepdims=True)
    np.testing.assert_allclose(np.asarray(one), total, rtol=2e-7)
    np.testing.assert_allclose(np.asarray(other), (exact / total * exact).sum(1), rtol=3e-7)


def test_what_is_not_finite() -> None:
    inf, nan = np.inf, np.nan
    x = np.zeros((7, 20), np.float32)
    x[0], x[1, 3], x[2, 3], x[3, 3], x[4, 3:], x[5, 3:5] = -inf, inf, nan, -inf, -inf, inf
    x[6] = -0.0
    with np.errstate(all="ignore"):
        want = softmax(np, x, 1)
    for axis, y in ((1, x), (0, x.T.copy())):
        s, t, u = calque.jit(lambda y, axis=axis: (
            nn.softmax(y, axis), nn.logsumexp(y, axis), y * y.max(axis, keepdims=True)))(y)
        np.testing.assert_allclose(np.asarray(s), want.T if axis == 0 else want, rtol=1e-6)
        np.testing.assert_allclose(np.asarray(t), [
            -inf, inf, nan, np.log(19), np.log(3), inf, np.log(20)], rtol=1e-6)
        assert np.isnan(np.asarray(u)[(2, 5) if axis else (5, 2)])  # max of NaN
        assert not np.signbit(np.asarray(u)[(6, 0) if axis else (0, 6)])  # -0 * -0


def test_integers() -> None:
    n = RNG.integers(-2**31, 2**31, (13, 37)).astype(np.int32)

    def f(np: Any, n: Any) -> Any:
        y = (n - n.min(1, keepdims=True)) * n.sum(1, keepdims=True, dtype=np.int32)
        return y, y.max(1), (n % 7 == n.max(1, keepdims=True) % 7)
    assert len(groups(lambda n: f(jnp, n), n)) == 1  # (all folds read the same rows)
    for out, want in zip(calque.jit(lambda n: f(jnp, n))(n), f(np, n)):
        np.testing.assert_array_equal(np.asarray(out), want)


@pytest.mark.parametrize("stride", some(6))
def test_places_of_extrema(stride: int, x64: None) -> None:
    """The first NaN, else the first of equals; also along columns, and of what is computed."""
    found: list[tuple[Any, int]] = []
    for dtype in (*CLOSE, np.int8, np.uint32, np.int64)[::stride]:
        x = RNG.integers(0, 100, (23, 301)).astype(dtype)
        found += [(x, 0), (x, 1)]
    x = normal(9, 10, 300)
    x[0], x[1, 2, 200], x[1, 2, 250], x[3:5] = -np.inf, np.nan, np.nan, np.inf
    found += [(x, 0), (x, 1), (x, 2), (normal(2, 70_000), 1)]
    least = np.full((3, 40), -128, np.int8)
    found += [(least, 1), (least, 0)]

    def f(np: Any, xs: list[Any]) -> list[Any]:
        every = [h(x, axis) for x, (_, axis) in zip(xs, found) for h in (np.argmax, np.argmin)]
        y = np.exp(xs[-3] - xs[-3].max(1, keepdims=True))
        every.append(y.max(1, keepdims=True).argmax(1) + y.argmin(1))  # of one: 0
        return [*every, (y / y.sum(1, keepdims=True)).argmax(1)]

    args = [x for x, _ in found]
    assert len(groups(lambda *xs: f(jnp, list(xs)), *args)) == len(found)
    for out, want in zip(calque.jit(lambda *xs: f(jnp, list(xs)))(*args), f(np, args)):
        np.testing.assert_array_equal(np.asarray(out), want)


def test_gradients() -> None:
    """Against central differences in float64."""
    x, y = normal(6, 35), normal(6, 35)
    cases = [(f, axis) for f in (softmax, norm) for axis in (1, 0)]

    def loss(np: Any, x: Any, f: Any, axis: int) -> Any:
        return (f(np, x, axis) * y).sum()

    gradients = [calque.grad(lambda x, case=case: loss(jnp, x, *case)) for case in cases]
    found = calque.jit(lambda x: [g(x) for g in gradients])(x)
    for case, gradient, got in zip(cases, gradients, found, strict=True):
        assert groups(gradient, x)
        v = normal(6, 35).astype(np.float64)
        x_ = x.astype(np.float64)
        want = (loss(np, x_ + 1e-5 * v, *case) - loss(np, x_ - 1e-5 * v, *case)) / 2e-5
        np.testing.assert_allclose((np.asarray(got) * v).sum(), want, rtol=1e-4, err_msg=str(case))


def test_several_groups_between_products() -> None:
    """What a group gives is read by others, and returned; whole arrays stay whole."""
    x, w, g = normal(4, 9, 40), normal(40, 40) / 9, normal(40)

    def f(np: Any, x: Any, w: Any, g: Any) -> Any:
        h = norm(np, x, 2) * g
        s = softmax(np, h @ w, 2)
        mean = s.mean(2)
        y = norm(np, x + s, 2) * g + mean[..., None]
        return y, s, mean, y @ w
    assert len(groups(lambda *a: f(jnp, *a), x, w, g)) == 2
    wants = f(np, *[a.astype(np.float64) for a in (x, w, g)])
    for out, want in zip(calque.jit(lambda *a: f(jnp, *a))(x, w, g), wants):
        np.testing.assert_allclose(np.asarray(out), want, rtol=1e-4, atol=1e-4)


def test_masks_and_labels() -> None:
    x, mask, labels = normal(11, 3, 40), RNG.random((3, 40)) < 0.5, RNG.integers(0, 40, (11, 3))
    mask[:, 0] = True

    def f(x: Any, mask: Any, labels: Any) -> Any:
        p = nn.softmax(jnp.where(mask, x, -jnp.inf))
        hot = labels[..., None] == lax.broadcasted_iota(labels.dtype, (11, 3, 40), 2)
        return p, jnp.where(hot, nn.log_softmax(x), 0).sum(-1)
    assert len(groups(f, x, mask, labels)) == 2
    p, loss = calque.jit(f)(x, mask, labels)
    with np.errstate(all="ignore"):
        want = softmax(np, np.where(mask, x, -np.inf).astype(np.float64), 2)
    np.testing.assert_allclose(np.asarray(p), want, rtol=1e-5)
    picked = np.take_along_axis(log_softmax(np, x.astype(np.float64), 2), labels[..., None], 2)
    np.testing.assert_allclose(np.asarray(loss), picked[..., 0], rtol=1e-5)


def test_arguments_stay_as_they_are() -> None:
    """Also donated ones, unless they are the result's."""
    x = normal(300, 400)
    a, kept = jnp.asarray(x), jnp.asarray(x)
    f = calque.jit(lambda x, y: (softmax(jnp, x, 1), x.at[0].set(0), y), donate_argnums=0)
    s, zeroed, same = f(a, kept)
    assert a.is_deleted()
    np.testing.assert_allclose(np.asarray(s), softmax(np, x, 1), rtol=1e-5)
    np.testing.assert_array_equal(np.asarray(kept), x)
    np.testing.assert_array_equal(np.asarray(same), x)
    np.testing.assert_array_equal(np.asarray(zeroed)[1:], x[1:])
    assert not np.asarray(zeroed)[0].any()


def test_no_path_comes_back() -> None:
    """What lies between two parts of a group would have to run in its middle."""
    x, w = normal(50, 50), normal(50, 50)

    def f(np: Any, x: Any, w: Any) -> Any:
        s = softmax(np, x, 1)
        return softmax(np, s @ w + s, 1) * s
    assert len(groups(lambda *a: f(jnp, *a), x, w)) == 2
    out = calque.jit(lambda *a: f(jnp, *a))(x, w)
    np.testing.assert_allclose(np.asarray(out), f(np, *[a.astype(np.float64) for a in (x, w)]),
                               rtol=1e-4)


@pytest.mark.parametrize("stride", some(6))
def test_sums_alone(stride: int, x64: None) -> None:
    """Sums and the like of what is in memory, of every dtype and axis; NaN goes through maxima."""
    found: list[tuple[Any, Any]] = []
    for dtype in (*CLOSE, np.int8, np.uint16, np.int64)[::stride]:
        x = RNG.integers(0, 9, (23, 301)).astype(dtype)
        found += [(x, 0), (x, 1), (x, (0, 1))]
    x = RNG.integers(-9, 9, (5, 7, 300)).astype(np.float32)
    x[0, 0, 200], x[2, 2] = np.nan, -0.0
    found += [(x, a) for a in (0, 1, 2, (0, 2))] + [(normal(3000, 40).round(), 0)]

    def total(np: Any, x: Any, a: Any) -> Any:
        if np is jnp or x.dtype.kind in "iu":
            return x.sum(a, dtype=x.dtype)
        return x.astype(np.float64).sum(a).astype(x.dtype)  # (NumPy's sums of halves are not)

    def f(np: Any, xs: Any) -> list[Any]:
        return [y for x, (_, a) in zip(xs, found) for y in (
            total(np, x, a), x.max(a), x.min(a), abs(x - 2).max(a))]
    args = [x for x, _ in found]
    halves = sum(x.dtype in (np.float16, bfloat16) for x in args)  # (sums are of what is widened)
    assert len(groups(lambda *xs: f(jnp, xs), *args)) == 2 * len(found) + halves
    for out, want in zip(calque.jit(lambda *xs: f(jnp, xs))(*args), f(np, args)):
        assert out.dtype == want.dtype
        np.testing.assert_array_equal(np.asarray(out).astype(np.float64),
                                      want.astype(np.float64))


def test_numbers_of_constants() -> None:
    """What follows from constants alone is returned, and used in a group of columns."""
    x = normal(40, 33)

    def f(x: Any) -> Any:
        n = lax.sub(np.float32(40), np.float32(1))
        d = x - x.mean(0)
        return d / jnp.sqrt((d * d).sum(0) / n), n, x / n
    s, n, y = calque.jit(f)(x)
    np.testing.assert_allclose(np.asarray(s), (x - x.mean(0)) / x.std(0, ddof=1), rtol=1e-4)
    assert n == 39
    np.testing.assert_allclose(np.asarray(y), x / 39, rtol=1e-6)


def test_long_chains() -> None:
    """Of values that are used twice each; and no group of very many."""
    def f(np: Any, x: Any) -> Any:
        y = x - x.max(1, keepdims=True)
        for _ in range(40):
            y = (y + y) * 0.5 - y * 1e-3
        return y / y.sum(1, keepdims=True)
    x = normal(9, 50)
    np.testing.assert_allclose(np.asarray(calque.jit(lambda x: f(jnp, x))(x)),
                               f(np, x.astype(np.float64)), rtol=1e-4)

    def g(x: Any) -> Any:
        for i in range(60):
            x = jnp.sin(x) + i
        return x.sum(1)
    assert all(len(r.made) < 40 for r in groups(g, x) if r.folded)


def test_constants_stay_iree_s() -> None:
    """Of two results of a dispatch without operands IREE takes one for the other."""
    def f(x: Any) -> Any:
        big = jnp.ones((40, 40)) / 3
        s = (big > 0).sum().astype(np.float32)
        return lax.fori_loop(0, 2, lambda i, c: c @ big + s, jnp.zeros((40, 40)))[0, 0], s
    assert not groups(f, 0.0)
    np.testing.assert_allclose(calque.jit(f)(0.0), (1600 * 40 / 3 + 1600, 1600), rtol=1e-6)


def not_groups() -> Iterator[tuple[Callable[..., Any], Any]]:
    x = np.zeros((64, 64), np.float32)
    yield lambda x: x.T.sum(1), x  # IREE reads in that order
    yield lambda x: (x @ x)[:, ::2].max(1), x
    yield lambda x: x - x.sum(), x  # rows know each other: they are one
    yield lambda x: x - x.sum(1, keepdims=True).T, x  # (the sum alone)
    yield lambda x: jnp.cumsum(x, 1) - jnp.sort(x, 1), x


def test_what_is_no_group() -> None:
    found = [len(groups(f, x)) for f, x in not_groups()]
    assert found == [0, 0, 1, 1, 0]
    for shape, axis in (((1, 1 << 19), 1), ((8, 1 << 23), 1), ((64, 5), 1), ((64, 5), 0)):
        assert not groups(lambda x, axis=axis: softmax(jnp, x, axis), np.zeros(shape, np.float32))


def test_folds_of_one_array_are_one_group() -> None:
    """What they read comes from memory once; of other axes there are others."""
    x = RNG.normal(size=(60, 90)).astype(np.float32)

    def f(np: Any, x: Any) -> Any:
        return x.max(1), x.min(1), np.argmax(x, 1), x.sum(1), x.max(0), x.min(0)
    assert len(groups(lambda x: f(jnp, x), x)) == 2
    for out, want in zip(calque.jit(lambda x: f(jnp, x))(x), f(np, x)):
        np.testing.assert_allclose(np.asarray(out), want, rtol=1e-5, atol=1e-5)
