"""What lowering rules in MLIR see, under JAX's names.  Start at calque/interpreters/mlir."""
import importlib
from typing import Any

from calque.core.refused import refusing as _refusing
from calque.interpreters import mlir as _mlir
from calque.interpreters.mlir import LoweringRuleContext as LoweringRuleContext

__all__ = ["JaxIrContext", "LoweringRuleContext", "upstream_dialects"]  # noqa: F822
_missing = _refusing(__name__)


def __getattr__(name: str) -> Any:
    if name == "JaxIrContext":  # MLIR is loaded at its first use
        return _mlir.ir.Context
    if name == "upstream_dialects":  # for Context.append_dialect_registry: MLIR's, and IREE's
        return importlib.import_module(_mlir.ir.__package__ + "._mlir_libs").get_dialect_registry()
    return _missing(name)


def __dir__() -> list[str]:
    return __all__
