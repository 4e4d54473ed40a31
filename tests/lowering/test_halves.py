"""float16 on CPUs without instructions for it (x86-64-v2): its denormals, too, are not lost.

IREE's software conversion makes 0 of them (Builder.float16 has the form that does not).
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.core.config import config
from calque.lowering.target.targets import parse_target

F16 = np.dtype(np.float16)


@pytest.fixture(autouse=True)
def at_v2() -> Iterator[None]:
    if not set(parse_target("cpu:x86-64-v2").features) <= set(parse_target("host").features):
        pytest.skip("this machine is older, or no x86-64")
    with config.context("calque_cpu", "x86-64-v2"), np.errstate(all="ignore"):
        yield


def same(got: Any, want: np.ndarray[Any, Any]) -> None:
    got = np.asarray(got)
    assert got.dtype == want.dtype == F16
    bits, other = got.view(np.uint16), want.view(np.uint16)
    wrong = ~((bits == other) | np.isnan(got) & np.isnan(want))
    assert not wrong.any(), (np.flatnonzero(wrong)[:5], got[wrong][:5], want[wrong][:5])


def test_conversions() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([
        rng.integers(0, 1 << 32, 100_000, dtype=np.uint32), rng.integers(
            0x33000000, 0x48000000, 100_000, dtype=np.uint32)]).view(np.float32)
    edges = [np.inf, -np.inf, np.nan, 65519, 65520, 65536, 6.1e-5, 5.96e-8, 2.98e-8, 2.99e-8, -0.0]
    x = np.concatenate([x, np.array(edges, np.float32)])
    every = np.arange(1 << 16, dtype=np.uint16).view(F16)
    whole = np.array([-70000, -65504, -3, 0, 1, 2049, 65519, 65520, 1 << 30], np.int32)
    half, back, number = calque.jit(lambda x, h, i: (
        x.astype(F16), h.astype(np.float32) * 1, i.astype(F16)))(x, every, whole)
    same(half, x.astype(F16))
    np.testing.assert_array_equal(np.asarray(back), every.astype(np.float32))
    same(number, whole.astype(F16))


OPERATIONS: list[Callable[..., Any]] = [
    lambda m, x, y: x + y, lambda m, x, y: x - y, lambda m, x, y: x * y, lambda m, x, y: x / y,
    lambda m, x, y: m.maximum(x, y), lambda m, x, y: m.minimum(x, y),
    lambda m, x, y: m.abs(x) * F16.type(0.5), lambda m, x, y: -x,
    lambda m, x, y: m.where(x > y, x, y)]


def test_arithmetic() -> None:
    every_one = calque.jit(lambda x, y: [f(jnp, x, y) for f in OPERATIONS])
    rng = np.random.default_rng(1)
    every = rng.integers(0, 1 << 16, 4000).astype(np.uint16)
    small = rng.integers(0, 2000, 4000).astype(np.uint16)
    zeros = np.tile(np.array([0, 0x8000], np.uint16), 2000)
    for a, b in ((every, small), (small, small[::-1]), (every, every[::-1]), (zeros, zeros[::-1]),
                 (zeros, np.roll(zeros, 1))):
        x, y = a.view(F16), np.ascontiguousarray(b).view(F16)
        for f, got in zip(OPERATIONS, every_one(x, y), strict=True):
            want = f(np, x, y)
            if f.__code__.co_names in (("maximum",), ("minimum",)):  # +0 is above -0 here
                larger = "maximum" in f.__code__.co_names
                both = (x == 0) & (y == 0)
                signs = np.signbit(x) & np.signbit(y) if larger else np.signbit(x) | np.signbit(y)
                want = np.where(both, np.where(signs, F16.type(-0.0), F16.type(0)), want)
            same(got, want)


@pytest.mark.parametrize("stride", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_reductions_and_loops(stride: int) -> None:
    x = np.random.default_rng(2).integers(1, 900, (40, 50)).astype(np.uint16).view(F16)
    outs = calque.jit(lambda x: [
        x.max(1), x.min(0), jnp.sort(x, 1), lax.cummax(x, axis=1), x.T, x[::-1, 3],
        lax.scan(lambda c, v: (v, c + v), x[0] * 0, x)[1],
        jnp.zeros(50, F16).at[3].max(x[0, 0])][stride - 1::stride])(x)
    previous = np.concatenate([np.zeros((1, 50), F16), x[:-1]])
    placed = np.zeros(50, F16)
    placed[3] = x[0, 0]
    wants = [x.max(1), x.min(0), np.sort(x, 1), np.maximum.accumulate(x, 1), x.T, x[::-1, 3],
             previous + x, placed][stride - 1::stride]
    for got, want in zip(outs, wants, strict=True):
        same(got, np.ascontiguousarray(want))
