"""The Program, what types it, and what carries values to it; and JAX's names of these.  Map:

  program.py     Program, Equation, Var, Literal: flat, typed, immutable
  blocks.py      layouts of blocks of numbers of a few bits
  avals.py       ShapedArray: shape and dtype of a value
  dtypes.py      dtypes, their promotion, keys; numbers.py: Python's numbers with a dtype
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
  leaks.py       values that are held after their transformation, for checking_leaks
  checker.py     the type checker of Programs
  printer.py     Programs as jaxprs
  dimension.py   sizes that are known at the call only: polynomials, bounds
  dims.py        the same for whole shapes
  lists.py       words about shapes and lists of values
  naming.py      names and signatures of functions that are wrapped, whatever they are
  tables.py      functions that a row of a table makes
  config.py      options, under JAX's names; config_of_jax.py  those that say little here
  errors.py      the error classes, and messages in three parts
  refused.py     names of JAX's that are left out, and what to use
  source.py      where in the user's program an operation was asked for
  tracebacks.py  without our own frames
  mesh.py        meshes of devices; sharding.py: which device has which part of an array;
                 processes.py: which process has which block of a mesh; formats.py: layouts in
                 memory beside shardings; memories.py: kinds of memory
  memo.py        what is remembered between calls, and clear_caches
  collecting.py  Python's garbage collector while programs are traced and lowered
  monitoring.py  events: who hears of traces, lowerings and compiles
  main_interpreter.py  refuses subinterpreters of Python

Imports nothing else of calque.
"""
# before NumPy, which could not be loaded in the main interpreter once another has tried
from calque.core import main_interpreter as _main_interpreter  # noqa: F401

# isort: split
import importlib
import warnings
from typing import Any

import numpy as np

from calque.core.avals import AbstractValue, ShapedArray, aval_of
from calque.core.dims import max_dim, min_dim
from calque.core.evaluate import eval_jaxpr
from calque.core.program import Atom
from calque.core.trace import Trace, Tracer, ensure_compile_time_eval, eval_context

_EXTENDED = frozenset((
    "DebugInfo", "DropVar", "Effect", "Effects", "InconclusiveDimensionOperation",
    "JaxprTypeError", "TraceTag", "check_jaxpr", "concrete_or_error", "find_top_trace", "gensym",
    "get_opaque_trace_state", "jaxprs_in_params", "mapped_aval", "new_jaxpr_eqn", "no_effects",
    "primal_dtype_to_tangent_dtype", "set_current_trace", "subjaxprs", "take_current_trace",
    "unmapped_aval", "valid_jaxtype"))
# which types are arrays: libraries that subclass numpy.ndarray add their own
pytype_aval_mappings = dict.fromkeys((np.ndarray, bool, int, float, complex), aval_of)

__all__ = ["AbstractValue", "Atom", "ShapedArray", "Trace", "Tracer", "ensure_compile_time_eval",
           "eval_context", "eval_jaxpr", "max_dim", "min_dim",
           "pytype_aval_mappings"]


def __getattr__(name: str) -> Any:
    """What JAX keeps under jax.extend.core, and its libraries ask for here."""
    if name in _EXTENDED:
        warnings.warn(f"jax.core.{name} is deprecated. Use jax.extend.core.{name}.",
                      DeprecationWarning, stacklevel=2)
        return getattr(importlib.import_module("calque.extend.core"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
