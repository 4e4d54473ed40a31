"""Portable functions: jax.export's names over StableHLO that JAX reads, and read from what it wrote.

Module map:
  exported.py           export, Exported, deserialize: start here
  shapes.py, trees.py   types and structures of arguments and results
  container.py          JAX's flatbuffer
  bytecode.py, bytecode_write.py, stream.py, vhlo.py, vhlo_table.py    MLIR bytecode of VHLO
  hlo.py, text.py       StableHLO as data and as text
  write.py, build.py, forms*.py                      Program -> StableHLO
  read.py, ops*.py, regions.py, custom_calls.py      StableHLO -> Program
"""
from calque.core.dims import SymbolicScope, is_symbolic_dim, symbolic_shape
from calque.export import (  # noqa: F401  (they fill the tables)
    custom_calls,
    forms,
    forms_structured,
    ops,
    ops_structured,
)
from calque.export.errors import DeserializationError, ExportError, UnsupportedOperationError
from calque.export.exported import (
    DisabledSafetyCheck,
    Exported,
    default_export_platform,
    deserialize,
    export,
    maximum_supported_calling_convention_version,
    minimum_supported_calling_convention_version,
)
from calque.export.trees import (
    register_namedtuple_serialization,
    register_pytree_node_serialization,
)
from calque.specs import symbolic_args_specs

__all__ = [
    "DeserializationError", "DisabledSafetyCheck", "ExportError", "Exported", "SymbolicScope",
    "UnsupportedOperationError", "default_export_platform", "deserialize", "export",
    "is_symbolic_dim", "maximum_supported_calling_convention_version",
    "minimum_supported_calling_convention_version", "register_namedtuple_serialization",
    "register_pytree_node_serialization", "symbolic_args_specs", "symbolic_shape"]


def __dir__() -> list[str]:
    return __all__
