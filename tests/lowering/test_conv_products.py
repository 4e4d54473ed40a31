"""Convolutions as products of what the windows see (kernels/convolve), against NumPy."""
from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.harness import Case, drawn, run

import calque
from calque import lax
from calque.core.config import config
from calque.lowering.driver.module import lower, module_text
from calque.lowering.kernels import gemm
from calque.lowering.target.targets import cpu_target, parse_target

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
GRID = list(itertools.product(
    [(9,), (8, 7), (5, 4, 6)],  # places
    [4, 8, 33], [3, 16, 64],  # features in, out
    [1, 2], [1, 2], ["SAME", "VALID", "wide"],
    ["float32", "float64", BFLOAT16, "float16"], ["first", "last", "mixed"]))
DEFAULT, REST = drawn(GRID, 0.006)
REST = REST[::4]  # minutes


@pytest.fixture(autouse=True, params=[
    pytest.param("x86-64-v2", marks=pytest.mark.slow), "x86-64-v3"])
def level(request: pytest.FixtureRequest) -> Any:
    features = set(parse_target(f"cpu:{request.param}").features)
    if not features <= set(parse_target("host").features):
        pytest.skip("this machine lacks the level's instructions")
    with config.context("calque_cpu", request.param), calque.enable_x64(True):
        yield request.param


def by_taps(x: Any, k: Any, strides: int, dilation: int, pads: Any) -> Any:
    """The sum over taps of products; features last."""
    rank = x.ndim - 2
    x = np.pad(x.astype(np.float64), [(0, 0), *pads, (0, 0)])
    sizes = [(n - (t - 1) * dilation - 1) // strides + 1
             for n, t in zip(x.shape[1:-1], k.shape[:rank])]
    total = np.zeros((x.shape[0], *sizes, k.shape[-1]))
    for tap in itertools.product(*map(range, k.shape[:rank])):
        seen = x[(slice(None), *[slice(t * dilation, t * dilation + (m - 1) * strides + 1, strides)
                                 for t, m in zip(tap, sizes)])]
        total += seen @ k[tap].astype(np.float64)
    return total


def case(space: tuple[int, ...], inputs: int, outputs: int, strides: int, dilation: int,
         padding: str, dtype: Any, features: str, groups: int = 1) -> Case:
    rng, rank = np.random.default_rng(0), len(space)
    x = rng.standard_normal((3, *space, inputs)).astype(dtype)
    taps = (3, 2, 2)[:rank]
    k = rng.standard_normal((*taps, inputs // groups, outputs)).astype(dtype)
    sums = "float64" if dtype == "float64" else "float32"
    reach = [(t - 1) * dilation + 1 for t in taps]
    pads = [(0, 0)] * rank
    if padding == "wide":
        pads = [(2, 1)] * rank
    elif padding == "SAME":
        pads = []
        for n, r in zip(space, reach):
            more = max((-(-n // strides) - 1) * strides + r - n, 0)
            pads.append((more // 2, more - more // 2))
    want = np.concatenate([by_taps(u, v, strides, dilation, pads) for u, v in zip(
        np.split(x, groups, -1), np.split(k, groups, -1))], -1)
    letters = "XYZ"[:rank]
    names = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
    if features == "mixed":  # of the result in front of everything
        names, want = (*names[:2], f"CN{letters}"), np.moveaxis(want, -1, 0)
    if features == "first":
        names = (f"NC{letters}", f"OI{letters}", f"NC{letters}")
        x, k, want = (np.moveaxis(v, s, d) for v, s, d in (
            (x, -1, 1), (k, (-1, -2), (0, 1)), (want, -1, 1)))

    def f(x: Any, k: Any) -> Any:
        return [lax.conv_general_dilated(x, k, (strides,) * rank, pads if padding == "wide"
                                         else padding, rhs_dilation=(dilation,) * rank,
                                         dimension_numbers=names,
                                         feature_group_count=groups)]

    def check(outs: list[Any]) -> str:
        # sums of up to 12 * 33 products of normal numbers, rounded once more
        eps = [float(ml_dtypes.finfo(d).eps) for d in (dtype, sums)]
        bound = 40 * np.sqrt(12 * inputs) * eps[1] + eps[0] * np.abs(want)
        if outs[0].shape != want.shape:
            return f"shape {outs[0].shape} instead of {want.shape}"
        error = np.abs(outs[0].astype("f8") - want)
        return "" if np.all(error <= bound) else f"off by {error.max()}"

    return Case(f"{space} {inputs}->{outputs} strides {strides} dilation {dilation} {padding} "
                f"{dtype} features {features} groups {groups}", f, (x, k), check)


@pytest.mark.parametrize("part", [
    0, *[pytest.param(i, marks=pytest.mark.slow) for i in (1, 2)]])
def test_drawn(part: int) -> None:
    run([case(*c) for c in DEFAULT[part::3]], 20)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, len(REST), 100))
def test_rest(start: int) -> None:
    run([case(*c) for c in REST[start:start + 100]], 25)


def test_gradients() -> None:
    """<v, J u> = <J' v, u> for both operands, and J u by linearity."""
    rng = np.random.default_rng(1)
    x, u = rng.standard_normal((2, 2, 12, 11, 16))
    k, w = rng.standard_normal((2, 3, 3, 16, 24))
    names = ("NHWC", "HWIO", "NHWC")

    def f(x: Any, k: Any) -> Any:
        return lax.conv_general_dilated(x, k, (2, 1), "SAME", dimension_numbers=names)

    def both(x: Any, k: Any, u: Any, w: Any, v: Any) -> Any:
        _, back = calque.vjp(f, x, k)
        return calque.jvp(f, (x, k), (u, w))[1], *back(v)

    v = rng.standard_normal((2, 6, 11, 24))
    tangent, dx, dk = calque.jit(both)(x, k, u, w, v)
    pads = [(0, 1), (1, 1)]

    def wide(x: Any, k: Any) -> Any:
        return by_taps_2(x, k, (2, 1), pads)

    np.testing.assert_allclose(tangent, wide(u, k) + wide(x, w), rtol=1e-11, atol=1e-11)
    left, right = np.vdot(v, tangent), np.vdot(dx, u) + np.vdot(dk, w)
    np.testing.assert_allclose(left, right, rtol=1e-11)


def by_taps_2(x: Any, k: Any, strides: tuple[int, int], pads: Any) -> Any:
    x = np.pad(x, [(0, 0), *pads, (0, 0)])
    sizes = [(n - t) // s + 1 for n, t, s in zip(x.shape[1:3], k.shape[:2], strides)]
    return sum(x[:, i:i + (sizes[0] - 1) * strides[0] + 1:strides[0],
                 j:j + (sizes[1] - 1) * strides[1] + 1:strides[1]] @ k[i, j]
               for i in range(k.shape[0]) for j in range(k.shape[1]))


@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_groups_and_single_sizes(part: int) -> None:
    cases = [((6, 5), 8, 32, 1, 1, "SAME", "float32", "first", 2),
             ((6, 5), 8, 32, 1, 1, "SAME", "float32", "last", 2),
             ((9,), 4, 64, 2, 1, "wide", "float32", "last", 4),
             ((1, 1), 33, 1, 1, 1, "SAME", "float32", "last"),
             ((1,), 16, 1, 1, 1, "SAME", "float64", "first"),
             ((40, 1), 16, 3, 1, 1, "SAME", "float32", "last"),
             ((20, 20), 1, 17, 1, 2, "SAME", "float32", "first"),
             ((20, 21), 1, 40, 3, 1, "VALID", BFLOAT16, "last")]
    run([case(*c) for c in cases[part::2]], 20)


def test_kernel_gradients() -> None:
    """Places of the result are few, what a window sees is large; in both layouts."""
    rng = np.random.default_rng(2)
    x, v = rng.standard_normal((3, 13, 12, 8)), rng.standard_normal((3, 13, 12, 16))
    k = np.zeros((3, 3, 8, 16))

    def gradient(x: Any, k: Any, v: Any, *names: str) -> Any:
        return calque.vjp(lambda k: lax.conv_general_dilated(
            x, k, (1, 1), "SAME", dimension_numbers=names), k)[1](v)[0]

    def both(x: Any, k: Any, v: Any) -> Any:
        return gradient(x, k, v, "NHWC", "HWIO", "NHWC"), gradient(
            x.transpose(0, 3, 1, 2), k.transpose(3, 2, 0, 1), v.transpose(0, 3, 1, 2),
            "NCHW", "OIHW", "NCHW")

    padded = np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])
    want = np.array([[np.einsum("nyxi,nyxo->io", padded[:, i:i + 13, j:j + 12], v)
                      for j in range(3)] for i in range(3)])
    last, first = calque.jit(both)(x, k, v)
    np.testing.assert_allclose(last, want, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(first, want.transpose(3, 2, 0, 1), rtol=1e-11, atol=1e-11)


def test_forms(level: str) -> None:
    """Few rows are gathered, kernels of one element are products of what lies there."""
    if not gemm.takes(cpu_target(), "float32"):
        pytest.skip("no C kernel was built")

    def text(size: int, taps: int, dtype: Any = "float32", features: int = 32) -> str:
        x = np.zeros((2, size, size, features), dtype)
        k = np.zeros((taps, taps, features, 64), dtype)
        made = lower(calque.make_jaxpr(lambda x, k: lax.conv_general_dilated(
            x, k, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")))(x, k), cpu_target())
        assert made.module is not None
        return module_text(made.module)

    for size, taps, entry in ((30, 3, "convolve_f32"), (7, 3, ""), (64, 1, "direct_f32")):
        found = text(size, taps)
        assert f"calque_{entry}" in found or not entry, (size, taps)
        assert "stablehlo.convolution" not in found, (size, taps)
        assert ("calque_convolve" in found) == ("convolve" in entry), (size, taps)
    assert "calque_convolve_bf16" in text(30, 3, BFLOAT16)
    with config.context("calque_cpu", "x86-64-v4"):  # along two axes: mask registers
        assert "stablehlo.convolution" in text(30, 3, features=8)
        assert "calque_convolve_f32" in text(30, 3)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
def test_integers_wrap(dtype: str) -> None:
    """Convolutions of integers of all bits are exact, as NumPy's sums are."""
    rng, limits = np.random.default_rng(2), np.iinfo(dtype)
    cases = [((2, 14, 15, 8), (3, 3, 8, 16)), ((3, 9, 40, 16), (1, 7, 16, 32))]
    args = [tuple(rng.integers(limits.min, limits.max, s).astype(dtype) for s in c) for c in cases]
    f = calque.jit(lambda pairs: [lax.conv_general_dilated(
        x, k, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")) for x, k in pairs])
    for got, (x, k) in zip(f(args), args, strict=True):
        high, wide = got.shape[1:3]
        want = sum(x[:, a:a + high, b:b + wide].astype("i8") @ k[a, b].astype("i8")
                   for a in range(k.shape[0]) for b in range(k.shape[1]))
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, np.asarray(want).astype(dtype))
