"""Programs to what IREE compiles, with the cures for what it does wrong.  Map:

  module.py            Program -> MLIR module: start here; flat.py: of any shape
  builder.py           StableHLO operations on Values
  dynamic.py           the same for sizes known at the call only, which sizes.py computes
  value.py             SSA values with operators; dtypes.py: names of their dtypes
  mlir.py              the one door to MLIR's Python bindings
  context.py           what rules see; aliasing.py: whose memory; fusion.py: how much a loop reads
  rules/               a lowering rule for each primitive
  math/                elementwise functions as bodies of one linalg.generic
  passes/              what is decided about a Program, and what is rewritten, before it is emitted
  plan/                which ways the parts of a program went, and why no faster one
  kernels/             loops, sorts, moves and products of our own
  native/              kernels in C
  forms.py             which form of a primitive a target takes
  targets.py           CPUs; cuda.py: CUDA, vulkan.py: Vulkan
  folding.py           keeps IREE from summing constants
  compile.py           MLIR in, .vmfb out; cache.py: the disk cache, in folders.py
  compiler_process.py  asks compiler_server.py, IREE's compiler in a process of its own
  gpu_configuration.py into what blocks IREE's kernels for CUDA are cut
  branch_moves.py      cures of the code that IREE makes for loops on the host
  short_way.py         dispatches are linked here, by elf_link.py
  stream_module.py     programs that are kernels of ours, at once; host_module.py: their host's part
  attempts.py          another way of writing a program that IREE rejects
  progress.py          says on a terminal that a compile takes long

May import calque.core and nothing else of calque.
"""
