"""What lowering rules in MLIR see, under JAX's names.  Start at calque/interpreters/mlir."""
from typing import Any

from calque.core.refused import refusing as _refusing
from calque.interpreters import mlir as _mlir
from calque.interpreters.mlir import LoweringRuleContext as LoweringRuleContext

__all__ = ["JaxIrContext", "LoweringRuleContext"]  # noqa: F822
_missing = _refusing(__name__)


def __getattr__(name: str) -> Any:
    if name == "JaxIrContext":  # MLIR is loaded at its first use
        return _mlir.ir.Context
    return _missing(name)


def __dir__() -> list[str]:
    return __all__
