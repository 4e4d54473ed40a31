"""Sums over the steps of a scan become one product or one sum behind it (passes/accumulate): which
do, that NumPy's interpreter finds the same with and without, and the compiled gradients.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.oracle import interpret

import calque
import calque.numpy as jnp
from calque import lax
from calque.core.checker import check
from calque.core.program import Program, eliminate_dead_code
from calque.lowering.passes import cost
from calque.lowering.passes.accumulate import accumulate
from calque.lowering.passes.hoist import hoist
from calque.lowering.passes.split import rows_of, split

pytestmark = pytest.mark.usefixtures("x64")
STEPS = 70


def draw(*shape: int, dtype: Any = np.float64) -> Any:
    rng = np.random.default_rng(sum(shape) + 7)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 200, shape).astype(dtype)
    return (rng.standard_normal(shape) * 0.5).astype(dtype)


def scans(p: Program) -> list[Any]:
    return [e for e in p.equations if e.primitive.name == "scan"]


def both(f: Callable[..., Any], *args: Any) -> tuple[Program, Program]:
    """The program of f without and with the pass, once they were found to agree on args."""
    p = hoist(eliminate_dead_code(calque.make_jaxpr(f)(*args).jaxpr.consts_as_inputs()))
    made = check(accumulate(p), "accumulate")
    consts = [np.asarray(c) for c in calque.make_jaxpr(f)(*args).jaxpr.consts]
    for want, got in zip(interpret(p, [*consts, *args]), interpret(made, [*consts, *args]),
                         strict=True):
        assert want.dtype == got.dtype and want.shape == got.shape
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)
    return p, made


def summing(term: Callable[..., Any], start: Any, more: bool = True, reverse: bool = False,
            length: int = STEPS) -> Callable[..., Any]:
    """A scan whose carry is a state and the sum of term(state, row)."""
    def f(h: Any, *xs: Any) -> Any:
        def step(c: Any, rows: Any) -> Any:
            h, total = c
            h = jnp.tanh(h * 0.9 + rows[0].sum()) if more else h
            return (h, total + term(h, *rows)), h
        return lax.scan(step, (h, start), list(xs), reverse=reverse, length=length)
    return f


STATE, X, Y = draw(5, 3), draw(STEPS, 5, 3), draw(STEPS, 5, 4)
TAKEN = {
    "product": (lambda h, x, y: h.T @ y, np.zeros((3, 4))),
    "product of scanned": (lambda h, x, y: x.T @ y, np.ones((3, 4))),
    "outer product": (lambda h, x, y: lax.dot_general(h[0], y[1], (((), ()), ((), ()))),
                      np.zeros((3, 4))),
    "inner product": (lambda h, x, y: jnp.vdot(h, x), 2.0),
    "in batches": (lambda h, x, y: lax.dot_general(h, y, (((), ()), ((0,), (0,)))),
                   draw(5, 3, 4)),
    "in batches, summed": (lambda h, x, y: jnp.einsum("bi,bi->b", h, x), draw(5)),
    "two axes summed": (lambda h, x, y: jnp.einsum("bi,bi->", h, x), 0.0),
    "transposed": (lambda h, x, y: (h.T @ y).T[::-1], np.zeros((4, 3))),
    "through views": (lambda h, x, y: lax.pad(
        (-(h.T @ y)).reshape(2, 6)[:, 1:], 0.0, ((1, 1, 0), (1, 1, 0))),
                      np.zeros((4, 7))),
    "scaled": (lambda h, x, y: 0.25 * (h.T @ y) * np.arange(12.0).reshape(3, 4),
               np.zeros((3, 4))),
    "spread": (lambda h, x, y: jnp.broadcast_to(h.sum(0), (2, 3)), np.zeros((2, 3))),
    "sum": (lambda h, x, y: h.sum(0), np.zeros(3)),
    "sum of all": (lambda h, x, y: (h * h).sum(), np.float64(-3)),
    "several terms": (lambda h, x, y: (h.sum(1) + x.sum(1)) + y.sum(1), np.zeros(5)),
    "in a call": (lambda h, x, y: calque.jit(lambda a, b: a.T @ b)(h, y), np.zeros((3, 4))),
    "views of scanned": (lambda h, x, y: x.reshape(3, 5) @ y[:, :2].astype(np.float32).astype(
        np.float64), np.zeros((3, 2))),
}


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("name", TAKEN)
def test_sums_leave_the_loop(name: str, reverse: bool) -> None:
    term, start = TAKEN[name]

    def f(h: Any, x: Any, y: Any) -> Any:
        def step(c: Any, rows: Any) -> Any:
            h, total = c
            h = jnp.tanh(h * 0.9 + rows[0])
            t = term(h, *rows)
            if name == "several terms":  # (added one by one, as gradients are)
                return (h, ((total + h.sum(1)) + rows[0].sum(1)) + rows[1].sum(1)), h
            return (h, total + t), h
        return lax.scan(step, (h, start), (x, y), reverse=reverse)

    p, made = both(f, STATE, X, Y)
    (before,), (after,) = scans(p), scans(made)
    assert (before.params["num_carry"], after.params["num_carry"]) == (2, 1)


LEFT = {
    "it is read": lambda h, s, x: (h + s.sum(), s + h.T @ x, h),
    "it is stacked": lambda h, s, x: (h, s + h.T @ x, s),
    "it is added twice": lambda h, s, x: (h, s + s + h.T @ x, h),
    "it is scaled": lambda h, s, x: (h, s * 0.5 + h.T @ x, h),
    "it is replaced": lambda h, s, x: (h, h.T @ x, h),
    "no product": lambda h, s, x: (h, s + jnp.exp(h[:3]), h),
    "no linear function": lambda h, s, x: (h, s + jnp.abs(h.T @ x), h),
    "selected": lambda h, s, x: (h, jnp.where(x[0, 0] > 0, s + h.T @ x, s), h),
    "of what stays the same": lambda h, s, x: (h, s + jnp.ones((3, 5)) @ jnp.ones((5, 3)), h),
}


@pytest.mark.parametrize("name", LEFT)
def test_other_carries_stay(name: str) -> None:
    def f(h: Any, s: Any, x: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            h, s, y = LEFT[name](*c, x)
            return (jnp.tanh(h + x), s), y
        return lax.scan(step, (h, s), x)
    p, made = both(f, STATE, np.ones((3, 3)), X)
    assert scans(made)[0].params["num_carry"] == 2


def test_what_is_stacked_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not more than the loop stacks by itself: here y, of four numbers a step, and 60 of them."""
    def f(h: Any, y: Any) -> Any:
        def step(c: Any, y: Any) -> Any:
            h, s = c
            h = jnp.tanh(h + y[0])
            return (h, s + jnp.sin(h).T @ h), None
        return lax.scan(step, (h, np.zeros((3, 3))), y)
    assert scans(both(f, STATE, draw(STEPS, 4))[1])[0].params["num_carry"] == 2
    assert scans(both(f, STATE, draw(STEPS, 60))[1])[0].params["num_carry"] == 1


@pytest.mark.parametrize("length", [0, 1, 2])
def test_few_steps(length: int) -> None:
    f = summing(lambda h, x: h.T @ x, np.ones((3, 3)), length=length)
    both(f, STATE, X[:length])


def test_integers_are_exact() -> None:
    """Of a byte, sums wrap around; a conversion to more bits is not taken through a sum."""
    x = draw(STEPS, 6, 3, dtype=np.uint8)

    def f(x: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            a, b, d = c
            return (a + x.T @ x, b + x.sum(0, dtype=np.uint8), d + (x.T @ x).astype(np.int32)), None
        zero = np.zeros((3, 3), np.uint8)
        return lax.scan(step, (zero, np.full(3, 9, np.uint8), zero.astype(np.int32)), x)[0]

    p = hoist(calque.make_jaxpr(f)(x).jaxpr.consts_as_inputs())
    made = accumulate(p)
    assert scans(made)[0].params["num_carry"] == 1
    products = x.swapaxes(1, 2) @ x
    wants = [products.sum(0, dtype=np.uint8), (9 + x.sum((0, 1))).astype(np.uint8),
             products.astype(np.int32).sum(0)]
    for got, want in zip(calque.jit(f)(x), wants, strict=True):
        np.testing.assert_array_equal(got, want)


def test_nan_and_infinity_go_through() -> None:
    x = X.copy()
    x[3, 1, 0], x[5, 2, 1] = np.nan, np.inf
    f = calque.jit(lambda x: lax.scan(
        lambda c, x: ((c[0] + x.T @ x, c[1] + x.sum(0)), None),
        (np.zeros((3, 3)), np.zeros(3)), x)[0])
    with np.errstate(all="ignore"):
        for got, want in zip(f(x), (np.einsum("tbi,tbj->ij", x, x), x.sum((0, 1)))):
            np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["f16", "bf16"])
def test_halves_are_rounded_once(dtype: Any) -> None:
    """As products are; the sum step by step was off by many of their last places.  A sum that is
    made smaller may be too large before: f16 stays in the loop then."""
    h, x = draw(5, 3).astype(dtype), np.abs(draw(400, 5, 3)).astype(dtype)

    def f(x: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            a, b, d = c
            y = x.T @ x
            return (a + y, b + (x.T @ (x + x)).astype(np.float32), d + y * dtype(1 / 128)), x + x
        zero = np.zeros((3, 3), dtype)
        return lax.scan(step, (zero, zero.astype(np.float32), zero), x)[0]

    p = hoist(calque.make_jaxpr(f)(x).jaxpr.consts_as_inputs())
    assert scans(accumulate(p))[0].params["num_carry"] == (dtype is np.float16)
    a, b, d = map(np.asarray, calque.jit(f)(x))
    want = np.einsum("tbi,tbj->ij", *[x.astype(np.float64)] * 2)
    eps = float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(a.astype(np.float64), want, rtol=0.51 * eps)
    np.testing.assert_allclose(b, 2 * want, rtol=1e-5)
    assert h.dtype == a.dtype == d.dtype and b.dtype == np.float32


def test_sums_of_halves_that_are_widened_in_each_step_stay() -> None:
    """In halves the sum over steps would be too large."""
    x = np.full((400, 4, 3), 100, np.float16)

    def f(x: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            return (c[0] + (x * 2).sum().astype(np.float32),
                    c[1] + (x * 2).astype(np.float32).sum()), x * 2
        return lax.scan(step, (np.float32(0), np.float32(0)), x)[0]

    (loop,) = scans(accumulate(hoist(calque.make_jaxpr(f)(x).jaxpr.consts_as_inputs())))
    assert loop.params["num_carry"] == 1
    np.testing.assert_allclose(calque.jit(f)(x), [400 * 2400] * 2)


def test_loops_of_sums_alone_are_gone() -> None:
    f = lambda x: lax.scan(lambda c, x: (c + x.sum(), None), 1.0, x)[0]  # noqa: E731
    assert not scans(both(f, draw(300, 2))[1])


# ---- gradients
def lstm(xs: Any, wx: Any, wh: Any, b: Any) -> Any:
    def step(carry: Any, x: Any) -> Any:
        h, c = carry
        i, f, g, o = jnp.split(x @ wx + h @ wh + b, 4, -1)
        c = calque.nn.sigmoid(f) * c + calque.nn.sigmoid(i) * jnp.tanh(g)
        h = calque.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h
    zero = jnp.zeros((xs.shape[1], wh.shape[0]), xs.dtype)
    return lax.scan(step, (zero, zero), xs)[1]


def nested(xs: Any, w: Any) -> Any:
    """A scan in a scan: both loops' sums leave them."""
    def outer(h: Any, rows: Any) -> Any:
        h, ys = lax.scan(lambda h, x: (jnp.tanh(h @ w + x), h), h, rows)
        return h, ys.sum(0)
    rows = xs.reshape(2, -1, *xs.shape[1:])
    many = jnp.concatenate([rows] * (xs.shape[0] // 4))
    return lax.scan(outer, jnp.zeros(xs.shape[1:], xs.dtype), many)[1]


def loss(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: (jnp.sin(f(*args)) ** 2).mean()


NETWORK = [draw(61, 4, 3), draw(3, 20) * 0.6, draw(5, 20) * 0.5, draw(20)]
GRADIENTS = {
    "lstm": (lstm, NETWORK),
    "vmapped lstm": (lambda xs, *w: calque.vmap(
        lambda x: lstm(x[:, None], *w)[:, 0], 1, 1)(xs), NETWORK),
    "nested": (nested, [draw(140, 4, 3), draw(3, 3)]),
    "nested, shorter": (nested, [draw(72, 4, 3), draw(3, 3)]),
}


@pytest.mark.parametrize("name", [
    "lstm", *[pytest.param(n, marks=pytest.mark.slow)
              for n in ("vmapped lstm", "nested", "nested, shorter")]])
def test_gradients(name: str) -> None:
    """Only what depends on itself is carried; central differences are the oracle."""
    f, args = GRADIENTS[name]
    every = tuple(range(len(args)))
    g = calque.grad(loss(f), every)
    _, made = both(g, *args)
    for e in scans(made):
        carry = e.params["jaxpr"].out_avals[:e.params["num_carry"]]
        assert all(a.shape[-1] in (3, 5) for a in carry), carry  # states: no weights
    u = [np.cos(np.arange(a.size)).reshape(a.shape) for a in args]
    slope = float(sum(np.sum(np.asarray(d) * v) for d, v in zip(calque.jit(g)(*args), u)))
    p = calque.make_jaxpr(loss(f))(*args).jaxpr.consts_as_inputs()
    h = 1e-5
    up, down = [float(interpret(p, [a + s * h * v for a, v in zip(args, u)])[0]) for s in (1, -1)]
    assert slope == pytest.approx((up - down) / (2 * h), rel=1e-6)


def test_the_gradient_of_a_gradient() -> None:
    args = [draw(61, 2, 3), draw(3, 8), draw(2, 8), draw(8)]

    def size(*args: Any) -> Any:
        return sum((d * d).sum() for d in calque.grad(loss(lstm), (1, 2, 3))(*args))
    both(calque.grad(size, (1, 2, 3)), *args)


def test_rows_of_the_backward_loop_are_independent() -> None:
    args = [draw(61, 16, 3), draw(3, 20), draw(5, 20), draw(20)]
    _, made = both(calque.grad(loss(lstm), (1, 2, 3)), *args)
    for e in scans(made):
        assert cost.is_kernel(e) and rows_of(e) == 16 and split(e, 4) is not None
