"""Reductions, products and windows of what is constant when it is compiled (lowering/emit/folding).

The oracle is NumPy in float64.  The default suite draws some of the grid, the slow one runs it all,
at every CPU level that this machine has; `-m vulkan` runs the draw on a Vulkan device.
"""
from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.core.config import config
from calque.dispatch.array import current_device
from calque.lowering.compiler.compile import compile_module
from calque.lowering.passes import cost
from calque.lowering.target.targets import TargetError, cpu_target, runnable_target
from calque.runtime import CallSpec, Executable

LEVELS = ("host", "x86-64-v2", "x86-64-v3", "x86-64-v4")
SIZES = (*range(1, 18), 31, 100, 150)
FEW = (1, 2, 7, 8, 100)  # for folds and dtypes beside those that were wrong
DTYPES = ("float32", "int32", "float64", "int64", "float16", "bfloat16", "uint8", "int8", "uint32",
          "bool", "complex64")
# name -> (calque, NumPy on float64 or complex128, the dtypes' kinds that take it)
STEPS: dict[str, tuple[Callable[..., Any], Callable[..., Any], str]] = {
    "div": (lambda x: x / 2, lambda v: v / 2, "iufc"),
    "neg": (lambda x: -x, lambda v: -v, "ifc"),
    "abs": (lambda x: abs(-x), abs, "ifc"),
    "sqrt": (jnp.sqrt, np.sqrt, "f"),
    "maximum": (lambda x: jnp.maximum(x, 2), lambda v: np.maximum(v, 2), "iuf"),
    "greater": (lambda x: x > 1, lambda v: v > 1, "iufb"),
    "equal": (lambda x: x == x, lambda v: v == v, "iufbc"),
    "to_int": (lambda x: x.astype(np.int32), lambda v: v, "iufb"),
    "to_float": (lambda x: x.astype(np.float32), lambda v: v, "iufb"),
    "where": (lambda x: jnp.where(x > 1, 2, 2), lambda v: np.full(v.shape, 2.0), "iuf"),
    "real": (lambda x: x.real / 2, lambda v: v.real / 2, "c"),
    "not": (lambda x: ~x | True, lambda v: np.full(v.shape, 1.0), "b")}
FOLDS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (jnp.sum, np.sum), "mean": (jnp.mean, np.mean),
    "prod": (lambda x: jnp.prod(x[:5]), lambda v: np.prod(v[:5])),
    "max": (jnp.max, np.max), "min": (jnp.min, np.min),
    "any": (jnp.any, np.any), "all": (jnp.all, np.all),
    "argmax": (jnp.argmax, lambda v: 0),
    "norm": (lambda x: jnp.linalg.norm(x * 1.0), np.linalg.norm),
    "rows": (lambda x: jnp.stack([x, x]).sum(axis=1), lambda v: np.stack([v, v]).sum(axis=1)),
    "columns": (lambda x: jnp.stack([x, x]).sum(axis=0), lambda v: np.stack([v, v]).sum(axis=0)),
    "cumsum": (jnp.cumsum, np.cumsum),
    "dot": (lambda x: x @ x, lambda v: v @ v),
    "outer": (lambda x: jnp.outer(x, x) @ x, lambda v: np.outer(v, v) @ v),
    "convolve": (lambda x: jnp.convolve(x * 1.0, x * 1.0), lambda v: np.convolve(v, v)),
    "window": (lambda x: lax.reduce_window(x * 1.0, 0.0, lax.add, (min(3, x.shape[0]),), (1,),
                                           "VALID"),
               lambda v: np.convolve(v, np.ones(min(3, len(v))), "valid")),
    "sort": (lambda x: jnp.sort(x)[-1], np.max)}
OF_NUMBERS = ("argmax", "norm", "convolve", "window", "cumsum", "sort", "dot", "outer", "prod")
# Of sums of at most 150 equal numbers, a few operations: some units in the last place of the dtype
# that is rounded to, and for float16 of what is summed on the way (mean, norm).
RTOL = {2: 4e-2, 4: 1e-5, 8: 1e-13}


def grid() -> list[tuple[str, str, str, int]]:
    """(dtype, step, fold, size) that exist."""
    found = []
    for dtype, step, fold, n in itertools.product(DTYPES, STEPS, FOLDS, SIZES):
        kind = jnp.dtype(dtype).kind if dtype != "bfloat16" else "f"
        bools = step in ("greater", "equal", "not") or kind == "b" and step == "where"
        if kind not in STEPS[step][2] or bools and fold in OF_NUMBERS:
            continue
        if kind == "c" and (fold in ("max", "min", "argmax", "sort", "window", "norm")):
            continue
        if kind in "iub" and step in ("div",) and fold in ("outer",):
            continue  # (rounded at other places)
        if n in FEW or fold in ("sum", "prod", "max") and dtype in DTYPES[:2]:
            found.append((dtype, step, fold, n))
    return found


def drawn(count: int, seed: int = 0) -> list[tuple[str, str, str, int]]:
    cases = grid()
    return [cases[i] for i in np.random.default_rng(seed).permutation(len(cases))[:count]]


SOURCES: dict[str, Callable[[int, str, Any], Any]] = {
    "constant": lambda n, dtype, a: jnp.full((n,), 3, dtype),
    "folded": lambda n, dtype, a: (a[:n] * 0 + 3).astype(dtype),
    "unsigned": lambda n, dtype, a: (
        (a[:n].astype("uint8") >= 0).astype("int32") + 2).astype(dtype)}


def value(case: tuple[str, str, str, int], source: str, a: Any) -> Any:
    dtype, step, fold, n = case
    return FOLDS[fold][0](STEPS[step][0](SOURCES[source](n, dtype, a)))


def want(case: tuple[str, str, str, int]) -> Any:
    dtype, step, fold, n = case
    v = np.full((n,), 1 if dtype == "bool" else 3, np.complex128 if "complex" in dtype else float)
    return FOLDS[fold][1](STEPS[step][1](v))


def wrong(cases: list[Any], outs: Any) -> list[str]:
    found = []
    for case, out in zip(cases, outs, strict=True):
        got, expected = np.asarray(out), np.asarray(want(case))
        if got.dtype == ml_dtypes.bfloat16:
            got = got.astype(np.float32)
            tolerance = RTOL[2]
        else:
            tolerance = RTOL[2] if case[0] in ("float16", "bfloat16") else RTOL.get(
                got.dtype.itemsize // (2 if got.dtype.kind == "c" else 1), 0)
        if got.dtype.kind in "iu":  # (uint8 and int8 wrap around in products)
            expected = np.asarray(expected).real.astype(np.int64).astype(got.dtype)
        wide = np.complex128 if got.dtype.kind == "c" else np.float64
        if got.shape != expected.shape or not np.allclose(
                got.astype(wide), expected.astype(wide), rtol=tolerance, atol=0):
            found.append(f"{case}: {got.ravel()[:3]} for {expected.ravel()[:3]}")
    return found


def check(cases: list[Any], level: str) -> None:
    a = np.arange(150, dtype=np.int32)
    with config.context("calque_cpu", level), calque.enable_x64(True):
        try:
            runnable_target()
        except TargetError as error:
            pytest.skip(str(error).splitlines()[0])
        for source in SOURCES:
            f = calque.jit(lambda a, source=source: [value(c, source, a) for c in cases])
            assert wrong(cases, f(a)) == [], (source, level)


@pytest.mark.parametrize("level, count", [
    ("x86-64-v3", 3), *[pytest.param(level, 14, marks=pytest.mark.slow)
                        for level in ("host", "x86-64-v3")]])
def test_reductions_of_constants(level: str, count: int) -> None:
    check(drawn(count, seed=len(level)), level)


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("part", range(0, len(grid()), 100))
def test_reductions_of_constants_whole(part: int, level: str) -> None:
    check(drawn(len(grid()))[part:part + 100], level)


def test_operations_with_two_results_of_constants() -> None:
    """The parts of a quotient or a root of constants were one number: `3 / 2` was 1.5+1.5j."""
    def three(n: int = 7) -> Any:
        return jnp.full((n,), 3, "complex64")

    def values() -> list[Any]:
        half, root, one = three() / 2, jnp.sqrt(three()), three(1) / 2
        fraction, exponent = jnp.frexp(jnp.full((7,), 3.0))
        return [half * three(), half.real + 2 * half.imag, jnp.outer(half, half)[0], half + one,
                jnp.outer(root, root)[0], one / (1 + 1j) + one, fraction + 2 * exponent,
                (jnp.arange(7) / (2 + 1j)).real + 2 * (jnp.arange(7) / (2 + 1j)).imag]

    want = [4.5, 1.5, 2.25, 3, 3, 2.25 - 0.75j, 4.75, 0]
    for got, expected in zip(calque.jit(values)(), want, strict=True):
        np.testing.assert_allclose(got, np.full(got.shape, expected), rtol=1e-6, atol=1e-6)


def test_reversed_sums_rounded_to_float16() -> None:
    """Without F16C (x86-64-v2) the bits are what may be folded, and IREE reverses no unsigned
    integers: it was rejected."""
    def f(x: Any) -> Any:
        return lax.reduce_max(lax.cumsum(x, 0, reverse=True), (1,))

    x = np.array([[1], [2], [0.5]], np.float16)
    with config.context("calque_cpu", "x86-64-v2"):
        np.testing.assert_array_equal(calque.jit(f)(x), np.array([3.5, 2.5, 0.5], np.float16))


def test_long_chains_of_constants() -> None:
    """Each step reads what came before it twice: to look at every path took for ever at 16 steps,
    and to go down one of 500 was a RecursionError."""
    def values() -> list[Any]:
        x = jnp.full((7,), 3, "complex64")
        for _ in range(600):
            x = (x + x) - x
        return [jnp.sqrt(x) * 2, x.real.sum()]

    root, total = calque.jit(values)()
    np.testing.assert_allclose(root, np.full(7, 2 * np.sqrt(3)), rtol=1e-6)
    assert total == 21


def in_loops_and_branches(a: Any) -> list[Any]:
    """What `EXPECTED` says, whatever a is."""
    def sums(k: Any) -> Any:
        return ((jnp.ones(7) / 2).sum() + (-jnp.ones(100)).sum() + (jnp.ones(150) > 0).sum()
                + ((a.astype("uint8") >= 0).sum() + (a == a).sum()) / 150 + 0.0 * k)

    def carried(c: Any, k: Any) -> Any:
        return c, (c / 2).sum() + (a * 0 + 3).sum()

    big = jnp.ones((40, 40)) / 3
    return [
        lax.fori_loop(0, 3, lambda i, c: c + sums(i), 0.0),
        lax.scan(carried, jnp.ones(7), None, length=2)[1],
        lax.cond(a[0] < 5, lambda: sums(1), lambda: -sums(2)),
        lax.while_loop(lambda c: c < 100.0, lambda c: c + sums(c), 0.0),
        lax.map(lambda x: (x * 0 + 2).sum() + sums(0), a[:6].reshape(3, 2)),
        lax.fori_loop(0, 2, lambda i, c: c @ big + (big > 0).sum(), jnp.zeros((40, 40)))[0, 0],
        calque.vmap(lambda x: (jnp.ones(7) / 2).sum() + x)(a[:3])]


ONE = 3.5 - 100 + 150 + 2
EXPECTED = [3 * ONE, [453.5] * 2, ONE, 2 * ONE, [4 + ONE] * 3, 1600 * 40 / 3 + 1600,
            [3.5, 4.5, 5.5]]


@pytest.mark.parametrize("level", [
    pytest.param("host", marks=pytest.mark.slow), "x86-64-v3"])
@pytest.mark.parametrize("form", ["kernels", "host loops", "whole"])
def test_in_loops_branches_and_kernels(form: str, level: str, monkeypatch: pytest.MonkeyPatch,
                                       request: pytest.FixtureRequest) -> None:
    if form == "host loops":
        request.getfixturevalue("host_loops")
    if form == "whole":
        monkeypatch.setattr(cost, "WHOLE_WORK", 10**9)
        calque.clear_caches()
    with config.context("calque_cpu", level):
        outs = calque.jit(in_loops_and_branches)(np.arange(150, dtype=np.int32))
    for out, expected in zip(outs, EXPECTED, strict=True):
        np.testing.assert_allclose(out, expected, rtol=1e-5)  # f32 sums of up to 1600 terms


def test_gradients_whose_cotangent_is_constant() -> None:
    rng = np.random.default_rng(0)
    x, w, y = (rng.normal(size=s).astype(np.float32) for s in ((150, 3), (3,), (150,)))
    f = calque.jit(lambda b: [
        calque.grad(lambda b: jnp.sum((y + b) / 2))(b),
        calque.grad(lambda b: jnp.sum(y - (x @ w + b)))(b),
        calque.grad(lambda b: jnp.mean(-(y - b)))(b),
        calque.grad(lambda s: (jnp.real(y[:7].astype("complex64") + s) / 2).sum())(b),
        calque.grad(lambda b: lax.scan(lambda c, v: (c - (v + b).sum() / 2, None), 0.0,
                                       jnp.ones((3, 7)))[0])(b),
        *calque.jvp(lambda b: (jnp.ones(100) * b / 4).sum(), (b,), (1.0,))])
    for got, expected in zip(f(0.5), [75, -150, 1, 3.5, -10.5, 12.5, 25], strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_what_an_argument_reaches_stays_in_one_loop() -> None:
    """It gets a hidden zero, which LLVM removes, and is not written to memory."""
    f = calque.jit(lambda x: ((x > 0).sum(), (x < 9).all()))
    text = f.lower(jnp.zeros(100_000)).as_text()
    assert "stablehlo.shift_left" in text and "compute_barrier" not in text


@pytest.mark.vulkan
@pytest.mark.parametrize("source", SOURCES)
def test_on_a_gpu(source: str, gpu: Any) -> None:
    cases = [c for c in drawn(60) if c[0] not in ("float64", "int64")]
    a = calque.device_put(np.arange(150, dtype=np.int32), gpu)
    for at in range(0, len(cases), 10):  # (IREE gives up on larger modules)
        some = cases[at:at + 10]
        f = calque.jit(lambda a, some=some: [value(c, source, a) for c in some] + [a[0]])
        assert wrong(some, f(a)[:-1]) == []


def test_iree_still_adds_a_constant_once() -> None:
    """lowering/emit/folding.py."""
    text = """func.func @main() -> tensor<f32> {
      %c = stablehlo.constant dense<1.0> : tensor<7xf32>
      %two = stablehlo.constant dense<2.0> : tensor<7xf32>
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %d = stablehlo.divide %c, %two : tensor<7xf32>
      %r = stablehlo.reduce(%d init: %z) applies stablehlo.add across dimensions = [0]
        : (tensor<7xf32>, tensor<f32>) -> tensor<f32>
      return %r : tensor<f32> }"""
    program = Executable(compile_module(text, cpu_target()), current_device(),
                         CallSpec(run_inline=True))
    (out,) = program([])
    assert out.numpy() != 3.5, "lowering/emit/folding can go"
