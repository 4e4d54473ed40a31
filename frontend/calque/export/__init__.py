"""Portable functions under jax.export's names: written for JAX, read from what it wrote.

Names are loaded when they are first asked for, so that `import calque` does not pay for them.

Module map:
  exported.py, make.py  Exported, deserialize; export: start here
  shapes.py, trees.py   types and structures of arguments and results
  container.py          JAX's flatbuffer
  bytecode.py, bytecode_write.py, stream.py, vhlo.py, vhlo_table.py    MLIR bytecode of VHLO
  hlo.py, text.py       StableHLO as data and as text
  placements.py         shardings of arguments and results, numbers of devices
  solve.py, sizes.py    symbolic sizes from the arguments; those of a tracing caller
  write.py, build.py, forms.py, forms_structured.py, forms_lapack.py            Program -> StableHLO
  client_rules.py                                                 primitives of clients -> StableHLO
  read.py, ops.py, ops_structured.py, regions.py, custom_calls.py, errors.py    and back
"""
from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "calque.core.dims": ("SymbolicScope", "is_symbolic_dim", "symbolic_shape"),
    "calque.aot.specs": ("symbolic_args_specs",),
    "calque.export.errors": (
        "DeserializationError", "ExportError", "UnsupportedOperationError"),
    "calque.export.trees": (
        "register_namedtuple_serialization", "register_pytree_node_serialization"),
    "calque.export.make": ("default_export_platform", "export"),
    "calque.export.exported": (
        "DisabledSafetyCheck", "Exported", "deserialize",
        "maximum_supported_calling_convention_version",
        "minimum_supported_calling_convention_version"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'calque.export' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(home), name)
    return value


def __dir__() -> list[str]:
    return __all__
