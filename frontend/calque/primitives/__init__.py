"""Primitives, one section each: abstract rule, jvp, transpose, batching.  Map:

  elementwise.py  arithmetic, comparison, logic, shifts, transcendental, select, convert, bitcast
  special.py      lgamma, digamma, zeta, igamma, betainc, Bessel functions, mulhi
  reduce.py       sums, products, extrema, logical reductions, argmax and argmin
  shape.py        reshape, transpose, broadcast_in_dim, concatenate, slice, pad, rev, squeeze, iota
  window.py       reductions over windows, reduction with any function, reduce_precision
  cumulative.py   cumsum, cumprod, cummax, cummin, cumlogsumexp
  fft.py          fft
  shard_map.py    a Program of each device's part; device_sums.py: its sums of products;
                  partitioned.py: calls for which the user says what a device does
  placement.py    sharding_constraint, layout_constraint, inspect_sharding
  factors.py      which dimension of an operand is which of a result, for every primitive
  index.py        dynamic_slice, dynamic_update_slice
  linalg.py       cholesky, triangular_solve, lu, lu_pivots_to_permutation
  gather.py       gather
  scatter.py      scatter, scatter-add, -sub, -mul, -min, -max
  contract.py     dot_general
  quantized.py    dequantize, quantized_dot: matrices of blocks of a few bits
  attention.py    prefix_attention: of few queries to the first keys of a cache
  conv.py         conv_general_dilated; conv_phases.py: of operands with holes, as several
  random.py       threefry keys and bits
  words.py        loops on the words of keys, in operations that kernels have; expansions.py: what
                  draws, sorts, positions of extrema and running sums are in these; outside.py: the
                  same outside of loops, where kernels sort
  pairs.py        loops, and whole programs, on the parts of complex numbers; pair_moves.py: moves
                  of what lies in memory
  generator.py    rng_bit_generator, optimization_barrier
  call.py         jit (calls of inner Programs); masked.py: calls of which some rows are used;
                  guarded.py: steps of loops of which some rows go on, changes that are made or not
  control.py      cond, scan; while_loop.py: while
  custom.py       functions with rules of the user's; checkpoint.py, implicit.py (linear solves)
  callback.py     functions called on the host
  ffi.py          kernels of the user's own
  pallas.py       kernels over a grid of blocks: grid.py (on whole arrays), layout.py (where blocks
                  lie), steps.py (the scan), known.py (integers that are known before it runs),
                  simplify.py (what follows from them)
  collectives.py  psum and others, over named axes; casts.py: those of values that are summands
  mixed.py        transposes of products whose operand is reduced over an axis that splits others
  two_level.py    the same between processes: messages.py; local_forms.py: which operations work on
                  pieces; inner.py: operations bound with other Programs inside
  sort.py         sort, top_k
  orthogonal.py   qr, eigh, svd, pinv           tridiagonal.py  hessenberg, cholesky_update, ...
  spectral.py     eig, schur
  linalg_programs.py, orthogonal_programs.py, tridiagonal_programs.py   what they are in others

lowering/rules/__init__.py says where the lowering of each is; samples are in
tests/support/samples*.py.
"""
