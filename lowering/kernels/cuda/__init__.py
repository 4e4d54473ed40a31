"""Kernels of ours for CUDA: PTX that Triton wrote, put into programs as it is.

  triton_kernels.py  the source, which users do not need
  table.py           which kernels there are, and which a product is given
  make.py            compiles and packs them: a tool of the developers'
  store.py           takes code out of the archives
  variants.py        the executable of a kernel, with a variant for compute capability 9
  products.py        matrix products; convolutions.py; moves.py: matrices turned round

docs/cuda_kernels.md: how one is added and measured.
"""
