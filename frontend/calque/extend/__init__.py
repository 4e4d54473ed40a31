"""For those who extend calque: primitives of their own, interpreters of jaxprs.  Map:

  backend.py           the platforms and their devices as objects
  core/                Primitive, Jaxpr, ClosedJaxpr, Var, Literal, ...; core/primitives.py: ours
  linear_util.py       functions with layers of transformations around them
  lowering.py          what rules in MLIR see; mlir.py: StableHLO's portable form;
                       xla.py: not here
  random.py            streams of random numbers by their records
  source_info_util.py  names and places of what is traced
  api_util.py          functions of trees as functions of flat values (calque.api_util)

JAX's names, in the form in which libraries use them.  Start reading at core/__init__.py, then
calque/interpreters.
"""
from calque.extend import backend as backend
from calque.extend import core as core
from calque.extend import linear_util as linear_util
from calque.extend import lowering as lowering
from calque.extend import mlir as mlir
from calque.extend import random as random
from calque.extend import source_info_util as source_info_util

__all__ = ["backend", "core", "linear_util", "lowering", "mlir", "random", "source_info_util"]


def __dir__() -> list[str]:
    return __all__
