"""Kernels of our own, inside the artifact: loops that IREE would run step by step from the host,
and what it would make many dispatches of.

  values.py     scalars and vectors: a Builder whose values are vector registers
  memory.py     flat memory seen through strides: loads, stores, loops
  joined.py     joined and padded arrays as their parts; joins.py: many arrays into one
  tensors.py    the equations of a Program over such memory: contract.py its products,
                reductions.py its folds, indexing.py gather and scatter, homes.py where loops and
                branches put their results
  shell.py      an executable around a kernel, and its dispatch
  loop.py       scan and while as one dispatch; passes/loops says which loops
  registers.py  loops whose rows hold few numbers; passes/registers says which
  rows.py       sums and what follows of them row by row as one dispatch (folds.py: their sums);
                passes/rows says which; stretch.py: without sums, many operations on a few vectors
  assembly.py   groups that compute parts of a joined array as one dispatch; passes/assembled
                says which
  points.py     rows of few numbers as one dispatch; passes/points says which
  attention.py  products around a group of rows; passes/attention says which
  lists.py      elementwise work on each array of a list; passes/lists says which
  small.py      small moves around kernels
  sort.py       the order of keys         move.py   large arrays moved
  scatter.py    rows written at positions, updates.py: windows
  native.py     calls of lowering/native: gemm.py, quantized.py and convolve.py (products),
                cached.py (attention to a cache), spmm.py (sparse products), transpose.py,
                fft.py (fft_tables.py; fft_in_loops.py from inside of a kernel)
  user.py       kernels of the user's own: user_c.py for CPUs, between
                guard pages by user_guard.py; user_gpu.py with user_cuda.py (ptx.py, nvrtc.py) and
                user_vulkan.py (spirv.py)
  cuda/         kernels in Triton, for CUDA: products, convolutions
  forms.py      which form of a primitive a target takes
  dispatch.py   a dispatch of an executable that is written as text
"""
from calque.lowering.kernels.loop import emit_kernel as emit_kernel
from calque.lowering.kernels.loop import emit_whole as emit_whole
