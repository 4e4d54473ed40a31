"""Kernels of our own, inside the artifact: loops that IREE would run step by step from the host.

  values   scalars and vectors: a Builder whose values are vector registers
  memory   flat memory seen through strides: loads, stores, loops
  tensors  the equations of a Program over such memory
  loop     scan and while as one dispatch; passes/loops says which loops
  rows     sums and what follows of them row by row as one dispatch; passes/rows says which
"""
from calque.lowering.kernels.loop import emit_kernel as emit_kernel
from calque.lowering.kernels.loop import emit_whole as emit_whole
