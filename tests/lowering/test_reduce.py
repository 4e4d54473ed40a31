"""Sums of products with spread operands: every mixture of spread and summed axes compiles."""
from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from harness import Case, run

from calque.lowering.compile import CompileError, compile_module
from calque.lowering.targets import host_target

SHAPES = [(3, 2), (8, 16), (2, 500), (2, 3, 4), (4, 1, 3)]


def _case(shape: tuple[int, ...], axes: tuple[int, ...], kept: tuple[bool, ...]) -> Case:
    rng = np.random.default_rng(len(shape))
    x = rng.integers(-4, 4, shape).astype(np.float32)  # sums are exact
    v = x[tuple(slice(None) if k else slice(0, 1) for k in kept)]

    def check(outs: list[Any]) -> str:
        return "" if np.array_equal(outs[0], (v * x).sum(axes)) else f"got {outs[0]}"

    return Case(f"{shape} over {axes} of {kept}", lambda x, v: [(v * x).sum(axes)], [x, v], check)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_of_products_with_spread_operands(shape: tuple[int, ...]) -> None:
    every = range(len(shape))
    run([_case(shape, axes, kept) for n in every for axes in itertools.combinations(every, n + 1)
         for kept in itertools.product((False, True), repeat=len(shape))])


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
        compile_module(source, host_target())
