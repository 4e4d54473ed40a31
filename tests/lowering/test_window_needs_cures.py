"""Fails when IREE's own form of a windowed reduction has become right, and the cure can go."""
from __future__ import annotations

from typing import Any

import iree.runtime
import numpy as np
from math_harness import FLAGS, _device

from calque.lowering.compiler.compile import run_compiler

# operand (of padding included), window, strides, dilation, how it is made from its argument
CASES = (("6x8", "2, 3", "1, 1", "1, 1", "pad %x0", "4x4"),
         ("6x8", "2, 3", "1, 1", "1, 1", "pad %re", "4x4"),
         ("6x8", "2, 3", "1, 1", "1, 1", "pad %im", "4x4"),
         ("7x7", "3, 2", "1, 1", "1, 1", "pad %x2", "3x6"),
         ("10x8", "2, 2", "2, 1", "1, 2", "pad %x3", "11x2"))
PADS = ("low = [1, 2], high = [1, 2], interior = [0, 0]",
        "low = [1, 1], high = [1, 0], interior = [1, 0]",
        "low = [0, 3], high = [-1, 2], interior = [0, 1]")
WINDOW = """
  %p{i} = stablehlo.{make}, %z, {pad} : (tensor<{small}xf64>, tensor<f64>) -> tensor<{shape}xf64>
  %q{i} = stablehlo.reshape %p{i} : (tensor<{shape}xf64>) -> tensor<1x1x{shape}xf64>
  %w{i} = "stablehlo.reduce_window"(%q{i}, %z) ({{
    ^bb0(%a: tensor<f64>, %b: tensor<f64>):
      %s = stablehlo.add %a, %b : tensor<f64>
      stablehlo.return %s : tensor<f64>
  }}) {{window_dimensions = array<i64: 1, 1, {k}>, window_strides = array<i64: 1, 1, {s}>,
       window_dilations = array<i64: 1, 1, {d}>}}
    : (tensor<1x1x{shape}xf64>, tensor<f64>) -> tensor<1x1x5x6xf64>
  %r{i} = stablehlo.reshape %w{i} : (tensor<1x1x5x6xf64>) -> tensor<5x6xf64>"""
HEAD = """module @m {
func.func @main(%x0: tensor<4x4xf64>, %x1: tensor<4x4xcomplex<f64>>, %x2: tensor<3x6xf64>,
                %x3: tensor<11x2xf64>, %x4: tensor<1x6x6x8xf64>)
    -> (tensor<5x6xf64>, tensor<5x6xcomplex<f64>>, tensor<5x6xf64>, tensor<5x6xf64>,
        tensor<1x6x5x6xf64>) {
  %z = stablehlo.constant dense<0.0> : tensor<f64>
  %re = stablehlo.real %x1 : (tensor<4x4xcomplex<f64>>) -> tensor<4x4xf64>
  %im = stablehlo.imag %x1 : (tensor<4x4xcomplex<f64>>) -> tensor<4x4xf64>"""
TAIL = """
  %c = stablehlo.complex %r1, %r2 : tensor<5x6xcomplex<f64>>
  %more = "stablehlo.reduce_window"(%x4, %z) ({
    ^bb0(%a: tensor<f64>, %b: tensor<f64>):
      %s = stablehlo.add %a, %b : tensor<f64>
      stablehlo.return %s : tensor<f64>
  }) {window_dimensions = array<i64: 1, 1, 2, 3>} :
    (tensor<1x6x6x8xf64>, tensor<f64>) -> tensor<1x6x5x6xf64>
  return %r0, %c, %r3, %r4, %more : tensor<5x6xf64>, tensor<5x6xcomplex<f64>>, tensor<5x6xf64>,
    tensor<5x6xf64>, tensor<1x6x5x6xf64>
}}"""


def test_iree_still_lets_reductions_share_their_start() -> None:
    """Equal start values become one buffer, into which several reductions add up: rules/window
    starts them from linalg.fill, which is made anew for each."""
    body = "".join(WINDOW.format(i=i, shape=shape, k=k, s=s, d=d, make=make, small=small,
                                 pad=PADS[max(0, i - 2)])
                   for i, (shape, k, s, d, make, small) in enumerate(CASES))
    device = _device("local-sync")
    context = iree.runtime.SystemContext(config=iree.runtime.Config(device=device))
    context.add_vm_module(iree.runtime.VmModule.copy_buffer(
        context.instance, run_compiler((HEAD + body + TAIL).encode() + b"\0", FLAGS)))
    rng = np.random.default_rng(0)
    xs = [rng.normal(size=s) for s in ((4, 4), (4, 4), (3, 6), (11, 2), (1, 6, 6, 8))]
    xs[1] = xs[1] + 1j * rng.normal(size=(4, 4))
    outs = [np.asarray(o.to_host()) for o in context.modules.m.main(*xs)]

    def summed(x: np.ndarray) -> np.ndarray:
        padded = np.pad(x, ((1, 1), (2, 2)))
        return np.lib.stride_tricks.sliding_window_view(padded, (2, 3)).sum((-1, -2))

    assert not (np.allclose(outs[0], summed(xs[0])) and np.allclose(outs[1], summed(xs[1])))


def test_elements_that_no_window_reads() -> None:
    """Cut off in _pool (lowering/rules/window.py): fused with another window's result, IREE infers
    sizes that the operand does not have."""
    import calque
    from calque import lax

    def f(x: Any) -> Any:
        sums = lax.reduce_window(lax.tanh(x), np.float32(0), lax.add, (2,), (1,), "valid")
        return lax.reduce_window(sums, np.float32(np.inf), lax.min, (2,), (2,), [(-1, 1)])

    x = np.array([0.5, -1, 2, 0.1], np.float32)
    sums = np.tanh(x)[:-1] + np.tanh(x)[1:]
    np.testing.assert_allclose(np.asarray(calque.jit(f)(x)), [sums[1:3].min()], 1e-6)
