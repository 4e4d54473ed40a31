"""Loops on the host whose branches IREE writes wrongly (compiler/branch_moves.py): first values in
one piece of memory, registers read after they were written.  The oracle is the loop in NumPy."""
from __future__ import annotations

import numpy as np
import pytest

from calque.lowering.compiler import branch_moves
from calque.lowering.compiler.compile import all_flags, compile_module, run_compiler
from calque.lowering.target.targets import cpu_target
from calque.runtime import Buffer, CallSpec, DeviceError, Executable, default_device

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


# The next step's matrices are carried: IREE packs them and the row into one array, with places as
# numbers, and begins the counter with half of one of these.
PIPELINE = """func.func @main(%x: tensor<128x128xf32>, %a: tensor<40x128x256xf32>,
    %b: tensor<40x256x128xf32>) -> tensor<128x128xf32> {
  %a0 = stablehlo.slice %a [0:1, 0:128, 0:256] : (tensor<40x128x256xf32>) -> tensor<1x128x256xf32>
  %a1 = stablehlo.reshape %a0 : (tensor<1x128x256xf32>) -> tensor<128x256xf32>
  %b0 = stablehlo.slice %b [0:1, 0:256, 0:128] : (tensor<40x256x128xf32>) -> tensor<1x256x128xf32>
  %b1 = stablehlo.reshape %b0 : (tensor<1x256x128xf32>) -> tensor<256x128xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<39> : tensor<i32>
  %r:4 = stablehlo.while(%i = %zero, %y = %x, %c = %a1, %d = %b1)
      : tensor<i32>, tensor<128x128xf32>, tensor<128x256xf32>, tensor<256x128xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %a2 = stablehlo.dynamic_slice %a, %j, %zero, %zero, sizes = [1, 128, 256]
        : (tensor<40x128x256xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x128x256xf32>
    %a3 = stablehlo.reshape %a2 : (tensor<1x128x256xf32>) -> tensor<128x256xf32>
    %b2 = stablehlo.dynamic_slice %b, %j, %zero, %zero, sizes = [1, 256, 128]
        : (tensor<40x256x128xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x256x128xf32>
    %b3 = stablehlo.reshape %b2 : (tensor<1x256x128xf32>) -> tensor<256x128xf32>
    %h = stablehlo.dot_general %y, %c, contracting_dims = [1] x [0]
        : (tensor<128x128xf32>, tensor<128x256xf32>) -> tensor<128x256xf32>
    %z = stablehlo.dot_general %h, %d, contracting_dims = [1] x [0]
        : (tensor<128x256xf32>, tensor<256x128xf32>) -> tensor<128x128xf32>
    stablehlo.return %j, %z, %a3, %b3
        : tensor<i32>, tensor<128x128xf32>, tensor<128x256xf32>, tensor<256x128xf32>
  }
  %h = stablehlo.dot_general %r#1, %r#2, contracting_dims = [1] x [0]
      : (tensor<128x128xf32>, tensor<128x256xf32>) -> tensor<128x256xf32>
  %z = stablehlo.dot_general %h, %r#3, contracting_dims = [1] x [0]
      : (tensor<128x256xf32>, tensor<256x128xf32>) -> tensor<128x128xf32>
  return %z : tensor<128x128xf32>
}"""


def _pipeline(vmfb: bytes) -> tuple[np.ndarray, np.ndarray]:
    """What it gives, and NumPy's: products of 40 pairs of matrices."""
    rng = np.random.default_rng(0)
    x, a, b = (rng.normal(size=s).astype(np.float32) / 11 for s in (
        (128, 128), (40, 128, 256), (40, 256, 128)))
    spec = CallSpec([((128, 128), np.dtype(np.float32))], run_inline=True)
    (out,) = Executable(vmfb, default_device(), spec, "main")(
        [Buffer.from_numpy(v, default_device()) for v in (x, a, b)])
    want = x.astype(np.float64)
    for p, q in zip(a, b, strict=True):
        want = want @ p.astype(np.float64) @ q.astype(np.float64)
    return out.numpy(), want


def test_a_loop_that_carries_the_next_steps_matrices() -> None:
    got, want = _pipeline(compile_module(PIPELINE, cpu_target()))
    # 80 products in single precision, each of sums of 128 or 256 terms
    np.testing.assert_allclose(got, want, atol=2e-4 * np.abs(want).max())


def test_iree_still_reads_a_register_after_it_was_written() -> None:
    """`mend` in lowering/compiler/branch_moves.py: a counter that begins with a part of a size."""
    raw = run_compiler(PIPELINE.encode(), all_flags(cpu_target()))
    with pytest.raises((DeviceError, IndexError), match="OUT_OF_RANGE"):
        _pipeline(raw)


@pytest.mark.parametrize("pairs, want", [
    ([(8, 1), (18, 8), (19, 9)], [(8, 1), (18, 8), (19, 9)]),  # right already
    ([(18, 8), (19, 9), (8, 1)], [(8, 1), (18, 8), (19, 9)]),
    ([(1, 2), (2, 3), (3, 4)], [(3, 4), (2, 3), (1, 2)]),
    ([(5, 30), (6, 5), (30, 6)], [(5, 30), (6, 5), (30, 6)]),  # an exchange, by register 30
])
def test_pairs_are_read_before_they_are_written(pairs: list[tuple[int, int]],
                                                want: list[tuple[int, int]]) -> None:
    data = bytearray(b"".join(s.to_bytes(2, "little") + r.to_bytes(2, "little") for s, r in pairs))
    some = branch_moves._List(list(range(0, len(data), 4)), list(pairs))
    branch_moves._order(memoryview(data), some, {1, 2, 3, 5, 6, 8, 9, 18, 19})
    got = [(int.from_bytes(data[i:i + 2], "little"), int.from_bytes(data[i + 2:i + 4], "little"))
           for i in range(0, len(data), 4)]
    assert got == want


def test_an_exchange_that_no_order_makes_right_is_refused() -> None:
    """IREE's code for it would be wrong in silence; the program is written another way."""
    some = branch_moves._List([0, 4], [(18, 8), (8, 18)])
    with pytest.raises(branch_moves.Tangled):
        branch_moves._order(memoryview(bytearray(8)), some, {8, 18})


def test_iree_still_moves_what_a_block_keeps() -> None:
    """`mend` in compiler/branch_moves.py: a loop over carries that begin in one allocation."""
    raw = run_compiler(LOOP.encode(), all_flags(cpu_target()))
    with pytest.raises(DeviceError, match="requires a buffer but none"):
        _run(raw)
    changed = [(a, b) for a, b in zip(raw, branch_moves.mend(raw), strict=True) if a != b]
    assert changed and all(a ^ b == 0x40 for a, b in changed)  # (the bit that says: move)
