"""Long elementwise stretches: each one kernel whose functions are written once and called
(passes/chains); those without a kernel are cut into loops of bounded length.  The same results.
"""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.harness import by_numpy
from support.oracle import interpret

import calque
import calque.numpy as jnp
from calque import lax
from calque.core.config import config
from calque.core.dtypes import bfloat16
from calque.core.primitive import registry
from calque.core.program import Program
from calque.lowering.compiler.server import FUNCTIONS
from calque.lowering.driver.module import LONGEST_CHAIN, lower, module_text
from calque.lowering.kernels import stretch
from calque.lowering.passes import chains, loops, whole
from calque.lowering.passes.groups import grouped
from calque.lowering.target.targets import TargetError, cpu_target, runnable_target

RNG = np.random.default_rng(0)
CUT = "iree_tensor_ext.compute_barrier.start"


def text(f: Any, *args: Any) -> str:
    made = lower(calque.make_jaxpr(f)(*args), cpu_target())
    assert made.module is not None
    return module_text(made.module)


def stretches(f: Callable[..., Any], *args: Any) -> list[Program]:
    found = grouped(calque.make_jaxpr(f)(*args).jaxpr)
    return [e.params["jaxpr"] for e in found.equations if "rows" in e.params]


def chain(n: int) -> Any:
    def f(x: Any) -> Any:
        for i in range(n):
            x = jnp.sin(x) + i
        return x
    return f


def mixed(x: Any) -> Any:
    """A stretch with bools, selections, integers and a function that is used once."""
    for i in range(8):
        y = jnp.where(x > 0.25, jnp.sin(x), jnp.cos(x)) * (0.9 - 0.001 * i)
        x = jnp.where(jnp.isnan(y), x, y + jnp.tanh(y * y).astype(x.dtype) * (i % 3))
    return x - jnp.floor(x), jnp.exp(x)


# ---- what is made of them
def test_functions_are_written_once() -> None:
    for n in (30, 60):
        module = text(chain(n), jnp.ones(1000))
        assert len(re.findall(r"func\.func private @calque_function", module)) == 1
        assert len(re.findall(r"call @calque_function_0", module)) == n
        assert CUT not in module
    assert "calque_function" not in text(
        lambda x: jnp.exp(-x * x) / (1 + jnp.tanh(x)) + jnp.log1p(x * x), jnp.ones(10))


@pytest.mark.slow
def test_more_functions_than_there_are_names() -> None:
    def f(x: Any) -> Any:
        for k in range(len(FUNCTIONS) + 6):
            for _ in range(4):
                x = lax.pow(x, 0.3 + 0.01 * k) * 0.5 + 0.1  # a function for each exponent
        return x
    x = np.linspace(0.1, 0.9, 5, dtype=np.float32)
    assert len(re.findall(r"func\.func private @calque_function", text(f, x))) == len(FUNCTIONS)
    np.testing.assert_allclose(np.asarray(calque.jit(f)(x)), interpret(
        calque.make_jaxpr(f)(x).jaxpr, [x])[0], rtol=2e-4)


@pytest.mark.parametrize("steps", [6, pytest.param(40, marks=pytest.mark.slow)])
def test_what_has_no_kernel_is_cut(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def gammas(n: int) -> Any:
        def f(x: Any) -> Any:
            for i in range(n):
                x = lax.lgamma(x) + i
            return x
        return f
    each = LONGEST_CHAIN // (registry["lgamma"].weight + registry["add"].weight)
    with monkeypatch.context() as patch:  # as on other targets
        patch.setattr(loops, "enabled", False)
        assert text(gammas(each - 1), jnp.ones(10)).count(CUT) == 0
        assert 5 <= text(gammas(10 * each), jnp.ones(10)).count(CUT) <= 12  # more, as it is longer
    want = np.linspace(-1, 1, 10).astype(np.complex128)
    given = want.astype(np.complex64)
    for _ in range(steps):
        want = np.sin(want) * 0.5 + 0.1

    def f(x: Any) -> Any:
        for _ in range(steps):
            x = jnp.sin(x) * 0.5 + 0.1
        return x
    with monkeypatch.context() as patch:  # (it would be one kernel)
        patch.setattr(whole, "in_pairs", lambda p: None)
        patch.setattr(whole, "over_pairs", lambda p, target: None)
        assert text(f, given).count(CUT) > steps
    # the map contracts by half at least: what is left are the errors of the last steps
    np.testing.assert_allclose(np.asarray(calque.jit(f)(given)), want, rtol=4e-7)


def test_stretches() -> None:
    x = jnp.linspace(0.0, 1.0, 12).reshape(3, 4)
    assert len(stretches(chain(30), x)) == 1
    assert stretches(chain(2), x) == []  # IREE compiles it in good time

    def apart(x: Any) -> Any:
        """Each half follows from the other by way of a sort."""
        y = chain(10)(x)
        return chain(10)(y + jnp.sort(y, axis=1)) + y
    assert len(stretches(apart, x)) == 2

    def crossed(x: Any, y: Any) -> Any:
        """Two shapes, each of which waits for the other somewhere: together they are a cycle."""
        a = chain(10)(x)
        b = chain(10)(jnp.sort(a, axis=1)[0])
        c = chain(10)(y)
        return chain(10)(jnp.sort(c)[None] + x) * 2 + a, b, c
    args = x, jnp.linspace(1.0, 2.0, 4)
    for g, w in zip(calque.jit(crossed)(*args),
                    interpret(calque.make_jaxpr(crossed)(*args).jaxpr, args), strict=True):
        np.testing.assert_allclose(np.asarray(g), w, rtol=1e-5)

    def many(x: Any) -> Any:
        """As many results as equations: these are no single kernel."""
        out = []
        for i in range(60):
            x = jnp.sin(x) + i
            out.append(x)
        return out
    assert all(len(p.inputs) + len(p.outputs) <= 40 for p in stretches(many, x))
    for g, w in zip(calque.jit(many)(x), interpret(calque.make_jaxpr(many)(x).jaxpr, [x]),
                    strict=True):
        np.testing.assert_allclose(np.asarray(g), w, rtol=1e-5)


@pytest.mark.parametrize("shape, small", [
    ((5, 3, 40), (5, 1, 1)), ((5, 3, 40), (3, 1)), ((5, 3, 40), (40,)), ((5, 3, 40), (1, 1)),
    ((1, 40), (1, 1)), ((40, 1), (1, 1)), ((3, 16, 1), (16, 1)), ((3, 16, 1), (3, 1, 1)),
    ((50, 3), (50, 1)), ((50, 3), (3,)), ((2, 0, 16), (16,))])
def test_what_repeats_smaller_arrays_is_not_read(shape: Any, small: Any) -> None:
    """Nor what repeats a number; two stretches, a sum and a result share one that repeats."""
    x, s = (RNG.uniform(0.5, 1.5, n).astype(np.float32) for n in (shape, small))

    def one(x: Any, s: Any) -> Any:
        for i in range(6):
            x = jnp.sin(x * s) + jnp.where(x > 1, s[..., :1] + i, -1.5)
        return x

    def f(x: Any, s: Any) -> Any:
        wide = jnp.broadcast_to(s, x.shape)
        y = one(x, wide)
        return one(y + y.sum(0, keepdims=True), wide), wide, wide.sum(-1)

    for g in (one, f):
        made = calque.jit(g)(x, s)
        want = interpret(calque.make_jaxpr(g)(x, s).jaxpr, [x, s])
        for a, w in zip(calque.tree.leaves(made), want, strict=True):
            np.testing.assert_allclose(np.asarray(a), w, rtol=1e-4, atol=1e-5)
    if shape == (5, 3, 40):
        (made_one,) = stretches(one, x, s)
        assert [v.aval.size == x.size for v in made_one.inputs].count(True) == 1


def test_callbacks_stand_where_they_stood() -> None:
    seen: list[float] = []

    def f(x: Any) -> Any:
        y = chain(10)(x)
        calque.debug.callback(lambda v: seen.append(float(v[0])), y)
        return chain(10)(y)
    x = np.linspace(0.1, 0.9, 6, dtype=np.float32)
    got = np.asarray(calque.jit(f)(x))
    want = interpret(calque.make_jaxpr(chain(10))(x).jaxpr, [x])[0]
    np.testing.assert_allclose(seen, want[:1], rtol=1e-6)
    np.testing.assert_allclose(got, interpret(calque.make_jaxpr(chain(10))(want).jaxpr, [want])[0],
                               rtol=1e-5)


# ---- values
ARRAYS = [((), np.float32), ((7,), np.float32), ((1, 1), np.float32), ((3, 5, 67), np.float32),
          ((2, 0, 3), np.float32), ((1, 33), np.float64), ((70,), np.float16), ((5, 13), bfloat16)]


@pytest.mark.parametrize("level, alive, stride", [
    ("x86-64-v3", 64, 2), *[pytest.param(level, alive, 1, marks=pytest.mark.slow) for level, alive
                            in (("x86-64-v2", stretch.ALIVE), ("x86-64-v3", stretch.ALIVE),
                                ("x86-64-v3", 64))]])
def test_values(level: str, alive: int, stride: int, x64: None, monkeypatch: pytest.MonkeyPatch
                ) -> None:
    monkeypatch.setattr(stretch, "ALIVE", alive)  # 64: parts of four operations
    calque.clear_caches()
    with config.context("calque_cpu", level):
        try:
            runnable_target()
        except TargetError as error:
            pytest.skip(str(error).splitlines()[0])
        args = [(RNG.normal(size=s) * 2).astype(d) for s, d in ARRAYS]
        args[1][:] = [np.nan, np.inf, -np.inf, -0.0, 0.0, 3e38, 1e-40]
        counts = [(RNG.integers(-2**31, 2**31, s)).astype(d) for d, s in
                  ((np.int32, (67,)), (np.uint8, (5, 9)), (np.int64, (130,)))]
        args, counts = args[stride - 1::stride], counts[::stride]

        def integers(x: Any) -> Any:
            for i in range(50):
                x = (x ^ (x << 3)) * 5 + i // 2 - (x >> 1)
            return x

        got = calque.jit(lambda xs, ns: ([mixed(x) for x in xs], [integers(n) for n in ns]))(
            args, counts)
        for x, (g, h) in zip(args, got[0], strict=True):
            with np.errstate(all="ignore"):
                wants = interpret(calque.make_jaxpr(mixed)(x).jaxpr, [x])
            # each of 8 steps adds an error of some ulps, and multiplies it by 2.1 at most where the
            # product is counted twice; jumps of floor are at whole numbers, which are left out
            near = {"float32": 4e-4, "float64": 1e-12, "float16": 0.3, "bfloat16": 2.0}[
                x.dtype.name]
            for a, w in ((g, wants[0]), (h, wants[1])):
                a, w = np.asarray(a).astype(np.float64), np.asarray(w).astype(np.float64)
                assert (np.isnan(a) == np.isnan(w)).all(), (x.dtype, x.shape)
                keep = np.isfinite(w)
                np.testing.assert_array_equal(a[~keep], w[~keep])
                apart = np.abs(a[keep] - w[keep])
                assert (np.minimum(apart, np.abs(1 - apart)) <= near).all(), (x.dtype, x.shape)
        for n, v in zip(counts, got[1], strict=True):
            np.testing.assert_array_equal(np.asarray(v), interpret(
                calque.make_jaxpr(integers)(n).jaxpr, [n])[0])


def test_gradients_and_batches() -> None:
    def f(x: Any) -> Any:
        for i in range(24):
            x = jnp.where(x > 0.25, jnp.sin(x), jnp.cos(x)) * (0.9 - 0.001 * i)
        return x
    x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
    want = np.asarray(calque.vmap(f)(x))  # operation by operation
    np.testing.assert_allclose(np.asarray(calque.jit(calque.vmap(f))(x)), want, rtol=1e-5)
    got = np.asarray(calque.jit(calque.grad(lambda x: f(x).sum()))(x))
    with calque.enable_x64(True):
        up, down = (by_numpy(f, [x.astype(np.float64) + d])[0] for d in (1e-6, -1e-6))
    np.testing.assert_allclose(got, (up - down) / 2e-6, rtol=2e-4, atol=1e-7)


@pytest.mark.slow
def test_hundreds_of_steps_and_their_gradient() -> None:
    def f(x: Any) -> Any:
        for i in range(400):
            x = x + jnp.sin(x * 1.5) / (100 + i)
        return x
    x = np.linspace(0.1, 0.9, 10, dtype=np.float32)
    value, gradient = calque.jit(calque.value_and_grad(lambda x: f(x).sum()))(x)
    y, slope = x.astype(np.float64), np.ones(10)
    for i in range(400):
        slope, y = slope * (1 + 1.5 * np.cos(1.5 * y) / (100 + i)), y + np.sin(1.5 * y) / (100 + i)
    np.testing.assert_allclose(float(value), y.sum(), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(gradient), slope, rtol=1e-3)  # hundreds of roundings
    assert chains.MOST >= 6000  # in one kernel


@pytest.mark.parametrize("steps", [400, pytest.param(800, marks=pytest.mark.slow)])
def test_a_long_gradient_fits_the_stack(steps: int) -> None:
    """Each of many values is read by the gradient; workers have 128 KiB of stack."""
    def f(x: Any) -> Any:
        for i in range(steps):
            x = x * (1.4 + 0.0001 * i - x)
        return x
    x = np.linspace(0.05, 0.95, 100_000, dtype=np.float32)
    with config.context("calque_cpu", "x86-64-v3"):
        try:
            runnable_target()
        except TargetError as error:
            pytest.skip(str(error).splitlines()[0])
        gradient = calque.grad(lambda x: f(x).sum())
        assert len(stretches(gradient, x)) == 1
        got = np.asarray(calque.jit(gradient)(x))
    y, slope = x.astype(np.float64), np.ones(x.size)
    for i in range(steps):
        slope, y = slope * (1.4 + 0.0001 * i - 2 * y), y * (1.4 + 0.0001 * i - y)
    # many factors, each rounded; they contract: what is small is small by all of them
    np.testing.assert_allclose(got, slope, rtol=2e-3, atol=1e-30)


def test_numbers_that_a_stretch_reads() -> None:
    numbers = [np.float32(0.5 + 0.001 * i) for i in range(150)]

    def f(x: Any, numbers: Any) -> Any:
        for c in numbers:
            x = jnp.sin(x * c) + c
        return x
    x = np.linspace(-1, 1, 33, dtype=np.float32)
    want = interpret(calque.make_jaxpr(f)(x, numbers).jaxpr, [x, *numbers])[0]
    np.testing.assert_allclose(np.asarray(calque.jit(f)(x, numbers)), want, rtol=1e-5, atol=1e-6)
    assert len(stretches(f, x, numbers)) == 2
    captured = [jnp.asarray(c) for c in numbers]
    module = calque.jit(lambda x: f(x, captured))
    np.testing.assert_allclose(np.asarray(module(x)), want, rtol=1e-5, atol=1e-6)
