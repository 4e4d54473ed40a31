"""What transformations do to Python: confused perturbations, leaks, exceptions, side effects,
values that Python needs while differentiating eagerly."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
from calque import lax
from calque.core.trace import current, eval_trace
from calque.errors import (
    TracerArrayConversionError,
    TracerBoolConversionError,
    UnexpectedTracerError,
)


def d_forward(f: Callable[[Any], Any], x: float) -> Any:
    return calque.jvp(f, (x,), (1.0,))[1]


def d_reverse(f: Callable[[Any], Any], x: float) -> Any:
    return calque.grad(f)(x)


def d_linear(f: Callable[[Any], Any], x: float) -> Any:
    return calque.linearize(f, x)[1](1.0)


def d_jit(f: Callable[[Any], Any], x: float) -> Any:
    return calque.jit(calque.grad(f))(x)


KINDS = (d_forward, d_reverse, d_linear, d_jit)


# ---- perturbations are not confused (Siskind and Pearlmutter 2005)
@pytest.mark.parametrize("outer", KINDS)
@pytest.mark.parametrize("inner", KINDS)
def test_nested_derivatives(outer: Any, inner: Any) -> None:
    # d/dx x * (d/dy (x + y) at y = 1) = 1, not 2
    assert float(outer(lambda x: x * inner(lambda y: x + y, 1.0), 1.0)) == 1.0
    # d/dx x * (d/dy x * y) = 2 x
    assert float(outer(lambda x: x * inner(lambda y: x * y, 2.0), 3.0)) == 6.0
    # d/dx (d/dy x * x * y) at y = x
    assert float(outer(lambda x: inner(lambda y: x * x * y, 7.0), 3.0)) == 6.0
    # a derivative that does not use the outer variable
    assert float(outer(lambda x: inner(lambda y: y * y, 3.0) + 0.0 * x, 3.0)) == 0.0


@pytest.mark.parametrize("d", (d_forward, d_reverse))
def test_fourth_derivative(d: Any) -> None:
    f: Any = lax.sin
    for _ in range(4):
        f = (lambda g: lambda x: d(g, x))(f)
    assert float(f(0.7)) == pytest.approx(math.sin(0.7), rel=1e-5)


# ---- hessian, linearize, linear_transpose
def test_hessian_of_a_quadratic_form() -> None:
    a = np.array([[2.0, 1.0, 0.5], [0.0, 3.0, 1.0], [1.0, 0.0, 4.0]], np.float32)

    def f(x: Any) -> Any:
        return lax.reduce_sum(lax.mul(x, lax.dot(a, lax.sin(x))), (0,))

    x = np.array([0.3, -0.2, 0.9], np.float32)
    with calque.enable_x64(True):
        got = np.asarray(calque.hessian(lambda x: lax.reduce_sum(
            lax.mul(x, lax.dot(a.astype(float), lax.sin(x))), (0,)))(x.astype(float)))
    want = np.zeros((3, 3))
    h, wide = 1e-4, x.astype(float)

    def g(v: Any) -> float:
        return float(v @ (a.astype(float) @ np.sin(v)))

    e = np.eye(3) * h
    for i in range(3):
        for j in range(3):
            want[i, j] = (g(wide + e[i] + e[j]) - g(wide + e[i] - e[j])
                          - g(wide - e[i] + e[j]) + g(wide - e[i] - e[j])) / (4 * h * h)
    np.testing.assert_allclose(got, want, atol=1e-6)
    forward, backward = calque.jacfwd(calque.grad(f))(x), calque.jacrev(calque.grad(f))(x)
    np.testing.assert_allclose(forward, backward, rtol=1e-5)


def test_linearize_runs_the_function_once() -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(1)
        return lax.sin(x) * x

    y, linear = calque.linearize(f, 2.0)
    slopes = [float(linear(t)) for t in (1.0, 2.0, -1.0)]
    want = math.sin(2.0) + 2.0 * math.cos(2.0)
    assert len(calls) == 1
    np.testing.assert_allclose(slopes, [want, 2 * want, -want], rtol=1e-6)
    assert float(y) == pytest.approx(2 * math.sin(2.0))


def test_linear_transpose_of_a_loop() -> None:
    def cumulative(x: Any) -> Any:
        return lax.scan(lambda c, v: (c + v, c + v), 0.0, x)[1]

    x = np.zeros(5, np.float32)
    (back,) = calque.linear_transpose(cumulative, x)(np.arange(5, dtype=np.float32))
    np.testing.assert_array_equal(back, np.cumsum(np.arange(5)[::-1])[::-1])


def test_transpose_of_what_is_not_linear_says_so() -> None:
    with pytest.raises(Exception, match="sin"):
        calque.linear_transpose(lax.sin, 1.0)(1.0)


# ---- closures over tracers
def test_bodies_may_capture_tracers_of_all_levels() -> None:
    def f(w: Any, xs: Any) -> Any:
        def row(x: Any) -> Any:
            def body(c: Any, _: Any) -> Any:
                return lax.cond(x > 0, lambda v: v * w, lambda v: v + w * x, c), c
            c, ys = lax.scan(body, w * x, None, length=2)
            return c + lax.reduce_sum(ys, (0,))
        return lax.reduce_sum(calque.vmap(row)(xs), (0,))

    def reference(w: float, xs: Any) -> float:
        total = 0.0
        for x in xs.tolist():
            c = w * x
            for _ in range(2):
                total += c
                c = c * w if x > 0 else c + w * x
            total += c
        return total

    xs = np.array([0.5, -1.0, 2.0], np.float32)
    w, h = 0.8, 1e-5
    want = (reference(w + h, xs) - reference(w - h, xs)) / (2 * h)
    assert float(f(w, xs)) == pytest.approx(reference(w, xs), rel=1e-5)
    assert float(calque.grad(f)(w, xs)) == pytest.approx(want, rel=1e-4)
    assert float(calque.jit(calque.grad(f))(w, xs)) == pytest.approx(want, rel=1e-4)


# ---- leaks
@pytest.mark.parametrize("leak", [
    lambda f: calque.jit(f)(1.0), lambda f: calque.grad(f)(1.0),
    lambda f: calque.jvp(f, (1.0,), (1.0,)), lambda f: calque.vmap(f)(np.ones(3, np.float32)),
    lambda f: lax.scan(lambda c, _: (f(c), None), 1.0, None, length=2),
    lambda f: lax.cond(True, f, f, 1.0), lambda f: calque.linearize(f, 1.0),
    lambda f: calque.make_jaxpr(f)(1.0)])
def test_a_leaked_tracer_is_refused(leak: Any) -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept.append(lax.sin(x))
        return x * 2.0

    leak(f)
    assert current.get() is eval_trace
    for use in (lambda: lax.sin(kept[0]), lambda: kept[0] + 1.0,
                lambda: calque.jit(lambda y: y + kept[0])(1.0)):
        with pytest.raises(UnexpectedTracerError, match="unexpected tracer"):
            use()
    assert float(lax.sin(0.0)) == 0.0


# ---- exceptions
@pytest.mark.parametrize("transform", [
    calque.jit, calque.grad, calque.vmap, calque.linearize, calque.make_jaxpr,
    lambda f: lambda x: calque.jvp(f, (x,), (x,)), lambda f: lambda x: calque.vjp(f, x),
    lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=3),
    lambda f: lambda x: lax.cond(True, f, f, x),
    lambda f: calque.jit(calque.grad(lambda x: calque.vmap(f)(x).sum()))])
def test_an_exception_leaves_no_trace_behind(transform: Any) -> None:
    class Mine(Exception):
        pass

    def f(x: Any) -> Any:
        lax.sin(x)
        raise Mine

    x = np.ones(3, np.float32)
    with pytest.raises((Mine, TypeError)):
        transform(f)(x)
    assert current.get() is eval_trace
    assert float(calque.grad(lambda v: v * v)(3.0)) == 6.0


# ---- side effects
def test_python_bodies_run_once() -> None:
    count = dict.fromkeys(("jit", "scan", "true", "false", "vmap", "grad"), 0)

    def note(name: str, f: Any = lambda x: x) -> Any:
        def run(*args: Any) -> Any:
            count[name] += 1
            return f(*args)
        return run

    def f(x: Any) -> Any:
        y = calque.jit(note("jit"))(x)
        y, _ = lax.scan(note("scan", lambda c, _: (c * 1.5, c)), y, None, length=4)
        y = lax.cond(y > 0, note("true"), note("false"), y)
        z = calque.vmap(note("vmap"))(lax.broadcast_in_dim(y, (3,), ()))
        return lax.reduce_sum(z, (0,)) + calque.grad(note("grad", lambda v: v * v))(y)

    g = calque.jit(calque.grad(f))
    for x in (1.0, 2.0, -3.0):
        g(x)
    assert count == dict.fromkeys(count, 1)


# ---- values while differentiating eagerly
def test_python_control_flow_inside_grad() -> None:
    seen = []

    def f(x: Any) -> Any:
        y = x * x
        if y > 4.0:
            y = lax.sin(y)
        while y < 1.0 and len(seen) < 3:
            seen.append(y.item())
            y = y + x
        return y * int(lax.floor(x))

    assert float(calque.grad(f)(3.0)) == pytest.approx(
        3 * (6 * math.cos(9.0) + (2 if len(seen) == 2 else len(seen))), rel=1e-4)
    assert seen and seen[0] == pytest.approx(math.sin(9.0), rel=1e-5)


def test_values_are_known_inside_grad_and_vjp(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        print(x.shape, "value", x)
        assert isinstance(x, calque.Array)
        return lax.reduce_sum(x * x, (0,))

    x = np.array([1.0, 2.0], np.float32)
    np.testing.assert_array_equal(calque.grad(f)(x), 2 * x)
    y, back = calque.vjp(f, x)
    np.testing.assert_array_equal(back(2.0)[0], 4 * x)
    assert float(y) == 5.0
    assert "(2,)" in capsys.readouterr().out


def test_values_are_not_known_inside_jit() -> None:
    with pytest.raises(TracerBoolConversionError):
        calque.jit(lambda x: 1.0 if x > 0 else 2.0)(1.0)
    with pytest.raises(TracerArrayConversionError):
        calque.jit(lambda x: np.asarray(x))(1.0)
    with pytest.raises(TracerBoolConversionError):
        calque.grad(calque.jit(lambda x: x if x > 0 else -x))(1.0)
    assert current.get() is eval_trace
