"""Loops on the host whose first values lie in one piece of memory (runtime/branch_moves.py): IREE's
code for them takes a buffer from where it stays.  The oracle is the loop in NumPy."""
from __future__ import annotations

import numpy as np
import pytest

from calque.lowering.compile import all_flags, compile_module, run_compiler
from calque.lowering.targets import cpu_target
from calque.runtime import Buffer, CallSpec, DeviceError, Executable, branch_moves, default_device

# Carries of which two begin in one allocation and stay apart: a row that is copied, and a stack
# that the loop writes.  (What an alias could join is held apart as our programs do it.)
LOOP = """func.func @main(%x: tensor<16xf32>) -> (tensor<70xi32>, tensor<16xf32>) {
  %zeros = stablehlo.constant dense<0> : tensor<977xi32>
  %kept = stablehlo.optimization_barrier %zeros : tensor<977xi32>
  %first = stablehlo.slice %kept [0:1] : (tensor<977xi32>) -> tensor<1xi32>
  %zero = stablehlo.reshape %first : (tensor<1xi32>) -> tensor<i32>
  %pad = stablehlo.constant dense<0.0> : tensor<1xf32>
  %longer = stablehlo.concatenate %x, %pad, dim = 0
      : (tensor<16xf32>, tensor<1xf32>) -> tensor<17xf32>
  %own = stablehlo.optimization_barrier %longer : tensor<17xf32>
  %row = stablehlo.slice %own [0:16] : (tensor<17xf32>) -> tensor<16xf32>
  %rows = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<i32>) -> tensor<70xi32>
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %r:4 = stablehlo.while(%i = %c0, %m = %zero, %l = %row, %s = %rows)
      : tensor<i32>, tensor<i32>, tensor<16xf32>, tensor<70xi32>
  cond {
    %n = stablehlo.constant dense<70> : tensor<i32>
    %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %m1 = stablehlo.add %m, %one : tensor<i32>
    %m2 = stablehlo.reshape %m : (tensor<i32>) -> tensor<1xi32>
    %s1 = stablehlo.dynamic_update_slice %s, %m2, %i
        : (tensor<70xi32>, tensor<1xi32>, tensor<i32>) -> tensor<70xi32>
    %pad2 = stablehlo.constant dense<0.0> : tensor<2xf32>
    %w = stablehlo.concatenate %x, %pad2, dim = 0
        : (tensor<16xf32>, tensor<2xf32>) -> tensor<18xf32>
    %w2 = stablehlo.optimization_barrier %w : tensor<18xf32>
    %w3 = stablehlo.slice %w2 [0:16] : (tensor<18xf32>) -> tensor<16xf32>
    %ne = stablehlo.compare NE, %zero, %c0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %nes = stablehlo.broadcast_in_dim %ne, dims = [] : (tensor<i1>) -> tensor<16xi1>
    %l1 = stablehlo.select %nes, %l, %w3 : tensor<16xi1>, tensor<16xf32>
    stablehlo.return %j, %m1, %l1, %s1
        : tensor<i32>, tensor<i32>, tensor<16xf32>, tensor<70xi32>
  }
  return %r#3, %r#2 : tensor<70xi32>, tensor<16xf32>
}"""
SPEC = CallSpec([((70,), np.dtype(np.int32)), ((16,), np.dtype(np.float32))], run_inline=True)
X = np.arange(16, dtype=np.float32)


def _run(vmfb: bytes) -> list[np.ndarray]:
    outs = Executable(vmfb, default_device(), SPEC, "main")(
        [Buffer.from_numpy(X, default_device())])
    return [o.numpy() for o in outs]


def test_a_loop_whose_first_values_lie_in_one_piece_of_memory() -> None:
    stack, row = _run(compile_module(LOOP, cpu_target()))
    np.testing.assert_array_equal(stack, np.arange(70))
    np.testing.assert_array_equal(row, X)


def test_what_is_right_stays_as_it_is() -> None:
    """Mended code is left alone, and so is that of a loop with nothing to mend."""
    vmfb = compile_module(LOOP, cpu_target())
    assert branch_moves.mend(vmfb) == vmfb
    plain = """func.func @main(%x: tensor<300xf32>) -> tensor<300xf32> {
      %c0 = stablehlo.constant dense<0> : tensor<i32>
      %r:2 = stablehlo.while(%i = %c0, %l = %x) : tensor<i32>, tensor<300xf32>
      cond {
        %n = stablehlo.constant dense<70> : tensor<i32>
        %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      } do {
        %one = stablehlo.constant dense<1> : tensor<i32>
        %j = stablehlo.add %i, %one : tensor<i32>
        %k = stablehlo.sine %l : tensor<300xf32>
        stablehlo.return %j, %k : tensor<i32>, tensor<300xf32>
      }
      return %r#1 : tensor<300xf32>
    }"""
    raw = run_compiler(plain.encode(), all_flags(cpu_target()))
    assert branch_moves.mend(raw) is raw


def test_iree_still_moves_what_a_block_keeps() -> None:
    """`mend` in runtime/branch_moves.py: a loop over carries that begin in one allocation."""
    raw = run_compiler(LOOP.encode(), all_flags(cpu_target()))
    with pytest.raises(DeviceError, match="requires a buffer but none"):
        _run(raw)
    changed = [(a, b) for a, b in zip(raw, branch_moves.mend(raw), strict=True) if a != b]
    assert changed and all(a ^ b == 0x40 for a, b in changed)  # (the bit that says: move)
