"""Where libraries set the rules of their primitives: JAX's tables over our records.  Map:

  tables.py        a table of rules by primitive
  ad.py            jvp and transpose rules; tangents that are zero
  batching.py      batching rules
  mlir.py          lowering: lower_fun, register_lowering
  partial_eval.py  what of a function is known; dead code
  known_parts.py   of an equation of a Program
  xla.py, pxla.py  apply_primitive
"""
from calque.interpreters import ad as ad
from calque.interpreters import batching as batching
from calque.interpreters import mlir as mlir
from calque.interpreters import partial_eval as partial_eval
from calque.interpreters import pxla as pxla
from calque.interpreters import xla as xla

__all__ = ["ad", "batching", "mlir", "partial_eval", "pxla", "xla"]


def __dir__() -> list[str]:
    return __all__
