"""Kernels of our own, inside the artifact: loops that IREE would run step by step from the host,
and what it would make many dispatches of.

  values     scalars and vectors: a Builder whose values are vector registers
  memory     flat memory seen through strides: loads, stores, loops
  joined     joined and padded arrays as their parts
  tensors    the equations of a Program over such memory; contract its products, folds its folds
  shell      an executable around a kernel, and its dispatch
  loop       scan and while as one dispatch; passes/loops says which loops
  registers  loops whose rows hold few numbers; passes/registers says which
  rows       sums and what follows of them row by row as one dispatch; passes/rows says which
"""
from calque.lowering.kernels.loop import emit_kernel as emit_kernel
from calque.lowering.kernels.loop import emit_whole as emit_whole
