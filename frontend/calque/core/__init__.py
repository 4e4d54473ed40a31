"""The Program, what types it, and what carries values to it; and JAX's names of these.  Map:

  program.py     Program, Equation, Var, Literal: flat, typed, immutable
  avals.py       ShapedArray: shape and dtype of a value
  dtypes.py      dtypes, their promotion, keys
  types.py       names for the types of annotations: Shape, Params, Function
  primitive.py   the record of a primitive: rules and facts; weights.py: what an element costs
  precision.py   how exactly float32 is multiplied
  words.py       parameters of shape primitives on the words of PRNG keys
  client.py      primitives of libraries and users; kernel.py: their kernels
  trace.py       dispatch: traces, tracers, the current one; concrete.py: what a tracer answers when
                 Python or NumPy asks for its value
  evaluate.py    a Program run equation by equation
  refs.py        references: what is written into while a function is traced
  zeros.py       symbolic zeros of tangents
  checker.py     the type checker of Programs
  printer.py     Programs as jaxprs
  dimension.py   sizes that are known at the call only: polynomials, bounds
  dims.py        the same for whole shapes
  lists.py       words about shapes and lists of values
  tables.py      functions that a row of a table makes
  config.py      options, under JAX's names; config_of_jax.py  those that say little here
  errors.py      the error classes, and messages in three parts
  source.py      where in the user's program an operation was asked for
  tracebacks.py  without our own frames
  mesh.py        meshes of devices; sharding.py: which device has which part of an array;
                 processes.py: which process has which block of a mesh; formats.py: layouts in
                 memory beside shardings; memories.py: kinds of memory
  memo.py        what is remembered between calls, and clear_caches
  monitoring.py  events: who hears of traces, lowerings and compiles
  main_interpreter.py  refuses subinterpreters of Python

Imports nothing else of calque.
"""
# before NumPy, which could not be loaded in the main interpreter once another has tried
from calque.core import main_interpreter as _main_interpreter  # noqa: F401

# isort: split
from calque.core.avals import AbstractValue, ShapedArray
from calque.core.dims import max_dim, min_dim
from calque.core.evaluate import eval_jaxpr
from calque.core.program import Atom
from calque.core.trace import Trace, Tracer, ensure_compile_time_eval, eval_context

__all__ = ["AbstractValue", "Atom", "ShapedArray", "Trace", "Tracer", "ensure_compile_time_eval",
           "eval_context", "eval_jaxpr", "max_dim", "min_dim"]


def __dir__() -> list[str]:
    return __all__
