"""Programs to what IREE compiles, with the cures for what it does wrong.  Map, in the order in
which a folder may import those before it:

  compiler/  MLIR in, .vmfb out: IREE in a process of its own
  target/    what is compiled for: CPUs, CUDA, Vulkan
  plan/      which ways the parts of a program went, and why no faster one
  emit/      what writes MLIR: values, builders, contexts, memory
  math/      elementwise functions as bodies of one linalg.generic
  passes/    what is decided about a Program, and what is rewritten, before it is emitted
  native/    kernels in C
  kernels/   loops, sorts, moves and products of our own, and which form a target takes
  rules/     a lowering rule for each primitive
  driver/    Program -> MLIR module (driver/module.py: start here), and the disk cache

May import calque.core and nothing else of calque.
"""
