"""Convolutions as products of what the windows see (rules/conv._is_product), against NumPy."""
from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from harness import Case, drawn, run

import calque
from calque import lax
from calque.core.config import config
from calque.lowering.kernels import gemm
from calque.lowering.module import lower, module_text
from calque.lowering.targets import cpu_target, parse_target

LEVEL = "x86-64-v3"
GRID = list(itertools.product(
    [(9,), (8, 7), (5, 4, 6)],  # places
    [4, 8, 33], [3, 16, 64],  # features in, out
    [1, 2], [1, 2], ["SAME", "VALID", "wide"], ["float32", "float64"], ["first", "last"]))
DEFAULT, REST = drawn(GRID, 0.025)


@pytest.fixture(autouse=True)
def at_v3() -> Any:
    if not set(parse_target(f"cpu:{LEVEL}").features) <= set(parse_target("host").features):
        pytest.skip("this machine has no AVX2")
    with config.context("calque_cpu", LEVEL), calque.enable_x64(True):
        yield


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
         padding: str, dtype: str, features: str) -> Case:
    rng, rank = np.random.default_rng(0), len(space)
    x = rng.standard_normal((3, *space, inputs)).astype(dtype)
    taps = (3, 2, 2)[:rank]
    k = rng.standard_normal((*taps, inputs, outputs)).astype(dtype)
    reach = [(t - 1) * dilation + 1 for t in taps]
    pads = [(0, 0)] * rank
    if padding == "wide":
        pads = [(2, 1)] * rank
    elif padding == "SAME":
        pads = []
        for n, r in zip(space, reach):
            more = max((-(-n // strides) - 1) * strides + r - n, 0)
            pads.append((more // 2, more - more // 2))
    want = by_taps(x, k, strides, dilation, pads)
    letters = "XYZ"[:rank]
    names = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
    if features == "first":
        names = (f"NC{letters}", f"OI{letters}", f"NC{letters}")
        x, k, want = (np.moveaxis(v, s, d) for v, s, d in (
            (x, -1, 1), (k, (-1, -2), (0, 1)), (want, -1, 1)))

    def f(x: Any, k: Any) -> Any:
        return [lax.conv_general_dilated(x, k, (strides,) * rank, pads if padding == "wide"
                                         else padding, rhs_dilation=(dilation,) * rank,
                                         dimension_numbers=names)]

    def check(outs: list[Any]) -> str:
        # sums of up to 12 * 33 products of normal numbers
        bound = 40 * np.sqrt(12 * inputs) * np.finfo(dtype).eps
        if outs[0].shape != want.shape:
            return f"shape {outs[0].shape} instead of {want.shape}"
        error = np.abs(outs[0] - want).max(initial=0)
        return "" if error <= bound else f"off by {error}"

    return Case(f"{space} {inputs}->{outputs} strides {strides} dilation {dilation} {padding} "
                f"{dtype} features {features}", f, (x, k), check)


def test_drawn() -> None:
    run([case(*c) for c in DEFAULT], 20)


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


def test_large_windows_stay_with_iree() -> None:
    """What the windows see is gathered up to 64 MiB."""
    if not gemm.takes(cpu_target(), "float32"):
        pytest.skip("no C kernel was built")

    def text(n: int) -> str:
        x, k = np.zeros((n, 30, 30, 32), np.float32), np.zeros((3, 3, 32, 64), np.float32)
        made = lower(calque.make_jaxpr(lambda x, k: lax.conv_general_dilated(
            x, k, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")))(x, k), cpu_target())
        assert made.module is not None
        return module_text(made.module)

    assert "calque_gemm" in text(16) and "stablehlo.convolution" not in text(16)
    assert "stablehlo.convolution" in text(100)
