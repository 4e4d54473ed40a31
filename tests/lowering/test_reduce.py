"""Sums of products with spread operands: every mixture of spread and summed axes compiles.  Large
reductions, which are taken in stages: each way of staging, beside NumPy in double precision.
"""
from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.harness import Case, at_level, drawn, run

import calque
import calque.numpy as jnp
from calque.lowering.compiler.compile import CompileError, compile_module
from calque.lowering.target.targets import cpu_target

SHAPES = [(3, 2), (8, 16), (2, 500), (2, 3, 4), (4, 1, 3)]


def _case(shape: tuple[int, ...], axes: tuple[int, ...], kept: tuple[bool, ...]) -> Case:
    rng = np.random.default_rng(len(shape))
    x = rng.integers(-4, 4, shape).astype(np.float32)  # sums are exact
    v = x[tuple(slice(None) if k else slice(0, 1) for k in kept)]

    def check(outs: list[Any]) -> str:
        return "" if np.array_equal(outs[0], (v * x).sum(axes)) else f"got {outs[0]}"

    return Case(f"{shape} over {axes} of {kept}", lambda x, v: [(v * x).sum(axes)], [x, v], check)


@pytest.mark.parametrize("share", [0.15, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("shape", [pytest.param(
    s, marks=[pytest.mark.slow] if s == (8, 16) else []) for s in SHAPES], ids=str)
def test_sums_of_products_with_spread_operands(shape: tuple[int, ...], share: float) -> None:
    every = range(len(shape))
    cases = [_case(shape, axes, kept)
             for n in every for axes in itertools.combinations(every, n + 1)
             for kept in itertools.product((False, True), repeat=len(shape))]
    run(drawn(cases, share if len(shape) > 2 else 1)[0])


def test_iree_still_rejects_them() -> None:
    """When this fails, lowering/rules/reduce._is_product can go."""
    source = """
    func.func @main(%x: tensor<3x2xf32>, %v: tensor<2xf32>) -> tensor<f32> {
      %w = stablehlo.broadcast_in_dim %v, dims = [1] : (tensor<2xf32>) -> tensor<3x2xf32>
      %p = stablehlo.multiply %w, %x : tensor<3x2xf32>
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %s = stablehlo.reduce(%p init: %z) applies stablehlo.add across dimensions = [0, 1]
        : (tensor<3x2xf32>, tensor<f32>) -> tensor<f32>
      return %s : tensor<f32>
    }"""
    with pytest.raises(CompileError, match="vector.contract"):
        compile_module(source, cpu_target(), careful=True)


# ---- stages: shape, axes
STAGED = {
    "streams": ((512, 700), (0,)), "streams of two axes": ((32, 20, 500), (0, 1)),
    "streams behind an axis of 1": ((1, 600, 450), (1,)), "no divisor: rows": ((521, 510), (0,)),
    "parts of 8": ((90, 1000), (1,)), "parts of 4": ((70, 1004), (1,)),
    "cuts": ((80, 999), (1,)), "even cuts": ((80, 1002), (1,)),
    "cuts of long rows": ((30, 3001), (1,)),
    "blocks": ((100_000,), (0,)), "a prime": ((99_991,), (0,)),
    "all of two axes": ((300, 333), (0, 1)),
    "a middle axis": ((20, 130, 40), (1,)), "blocks whose rows are parts": ((30, 3000), (1,))}


@pytest.mark.parametrize("dtype, stride", [
    ("f4", 3), ("i4", 7), (ml_dtypes.bfloat16, 5), *[
        pytest.param(d, 1, marks=pytest.mark.slow)
        for d in ("f4", "f8", "i4", "f2", ml_dtypes.bfloat16)]])
def test_stages(dtype: Any, stride: int) -> None:
    rng = np.random.default_rng(0)
    dtype = np.dtype(dtype)
    staged = dict(list(STAGED.items())[::stride])
    arrays = {}
    for name, (shape, _) in staged.items():
        x = rng.integers(-50, 50, shape) if dtype.kind == "i" else rng.uniform(-1, 1, shape)
        arrays[name] = x.astype(dtype)
        if dtype.kind != "i":
            arrays[name].reshape(-1)[[3, -2]] = np.inf, -np.inf
    quiet = {n: np.where(np.isfinite(x.astype("f8")), x, 0).astype(dtype)
             for n, x in arrays.items()}
    spoiled = {n: x.copy() for n, x in arrays.items()} if dtype.kind != "i" else {}
    for x in spoiled.values():
        x.reshape(-1)[x.size // 2] = np.nan

    def f(arrays: Any, quiet: Any, spoiled: Any) -> Any:
        return {n: [jnp.sum(quiet[n], axes), jnp.max(arrays[n], axes), jnp.min(arrays[n], axes),
                    jnp.max(spoiled[n], axes) if spoiled else 0]
                for n, (_, axes) in staged.items()}

    with calque.enable_x64(True):
        outs = calque.jit(f)(arrays, quiet, spoiled)
    for n, (shape, axes) in staged.items():
        wide = quiet[n].astype("f8")
        total, largest, least, nan = (np.asarray(o).astype("f8") for o in outs[n])
        count = np.prod([shape[a] for a in axes])
        if dtype.kind == "i":
            np.testing.assert_array_equal(total, wide.sum(axes), err_msg=n)
        else:  # stages of at most 1024: that many roundings of partial sums, and one of the result
            eps = float(ml_dtypes.finfo(dtype).eps)
            stage = np.finfo("f4" if dtype.itemsize < 4 else dtype).eps
            bound = 1024 * stage * np.abs(wide).sum(axes) / max(1, count ** 0.5) + eps * np.abs(
                wide.sum(axes))
            assert (np.abs(total - wide.sum(axes)) <= bound).all(), n
            np.testing.assert_array_equal(nan, spoiled[n].astype("f8").max(axes), err_msg=n)
        np.testing.assert_array_equal(largest, arrays[n].astype("f8").max(axes), err_msg=n)
        np.testing.assert_array_equal(least, arrays[n].astype("f8").min(axes), err_msg=n)


def test_sums_of_products():
    """Not taken as contractions: all sets of axes, operands spread, f16, what is not finite."""
    rng = np.random.default_rng(3)
    a, b = (rng.normal(size=(300, 260)).astype(np.float32) for _ in range(2))
    a[3, 5], a[7, 9], b[11, 2], a[0, 0], b[0, 0] = np.nan, np.inf, -np.inf, -0.0, 0.0
    h = a[20:].astype(np.float16)

    @calque.jit
    def f(a, b, h):
        return ([jnp.sum(a * b, axis) for axis in (0, 1, (0, 1))]
                + [jnp.sum(a * a, 1), jnp.sum(a * b[:1], 0), jnp.sum(h * h, 1),
                   jnp.linalg.norm(b[20:]), jnp.mean((a[20:] - b[20:]) ** 2),
                   jnp.sum(a[:, :, None] * b[:, None, :5], 0)])

    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore"):
        want = [np.sum(wide_a * wide_b, axis) for axis in (0, 1, (0, 1))]
        want += [np.sum(wide_a * wide_a, 1), np.sum(wide_a * wide_b[:1], 0),
                 np.sum((h * h).astype(np.float64), 1), np.linalg.norm(wide_b[20:]),
                 np.mean((wide_a[20:] - wide_b[20:]) ** 2),
                 np.einsum("ij,ik->jk", wide_a, wide_b[:, :5])]
    for i, (g, w) in enumerate(zip(f(a, b, h), want)):
        # 300 products of size 1: partial sums of at most 100, rounded at 6e-8 (the sum of all is
        # NaN, the norm and the mean do not cancel); float16 rounds the result to 11 bits
        close = 1e-3 if g.dtype == np.float16 else 2e-5
        np.testing.assert_allclose(np.asarray(g, np.float64), w, rtol=close, atol=1e-4,
                                   err_msg=str(i))


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_extrema_of_all_halves(level: str) -> None:
    """Of large arrays, by a fold in float32: exact, NaN and infinities as NumPy's."""
    rng = np.random.default_rng(6)
    x = (rng.standard_normal((700, 900)) * 50).astype("float16")
    cases = [x, -abs(x), (x * 1e-7).astype("float16"), np.full_like(x, -np.inf),
             np.where(rng.random(x.shape) < 1e-3, np.nan, x).astype("float16")]
    with at_level(level):
        f = calque.jit(lambda xs: [(x.max(), x.min()) for x in xs])
        for made, x in zip(f(cases), cases, strict=True):
            for got, want in zip(made, (x.max(), x.min()), strict=True):
                assert got.dtype == np.float16
                np.testing.assert_array_equal(np.asarray(got), want)
