"""The Program, what types it, and what carries values to it.  Map:

  program.py     Program, Equation, Var, Literal: flat, typed, immutable
  avals.py       ShapedArray: shape and dtype of a value
  dtypes.py      dtypes, their promotion, keys
  primitive.py   the record of a primitive: rules and facts; weights.py: what an element costs
  trace.py       dispatch: traces, tracers, the current one
  zeros.py       symbolic zeros of tangents
  checker.py     the type checker of Programs
  printer.py     Programs as jaxprs
  dimension.py   sizes that are known at the call only: polynomials, bounds
  dims.py        the same for whole shapes
  config.py      options, under JAX's names
  errors.py      the error classes, and messages in three parts
  source.py      where in the user's program an operation was asked for
  tracebacks.py  without our own frames
  mesh.py        meshes of devices; sharding.py: which device has which part of an array
  memo.py        what is remembered between calls, and clear_caches

Imports nothing else of calque.
"""
