"""StableHLO's portable form (bytes that later versions read), as text and with its sizes filled in.

The reader and the writer are calque.export's.
"""
from __future__ import annotations

import re
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.errors import explain
from calque.core.refused import refusing as _refusing
from calque.export import bytecode, bytecode_write, client_rules, read, text, write
from calque.export import make as _make  # noqa: F401  (fills the tables of read and write)
from calque.export.hlo import DYNAMIC, Module
from calque.interpreters import mlir as _mlir

__all__ = ["deserialize_portable_artifact", "refine_polymorphic_shapes",
           "serialize_portable_artifact"]
__getattr__ = _refusing(__name__)


def deserialize_portable_artifact(mlir_module: bytes, context: Any = None) -> Any:
    """The module of a portable artifact of StableHLO.

    Args:
      mlir_module: its bytes, as in Exported.mlir_module_serialized.
      context: MLIR's, for example extend.lowering.JaxIrContext(); None: a new one.

    Returns:
      MLIR's Module, of the bindings in iree.compiler.

    Raises:
      DeserializationError: the bytes are damaged.

    Example:
      >>> import calque
      >>> from calque import export
      >>> from calque.extend import mlir
      >>> e = export.export(calque.jit(lambda x: -x))(1.0)
      >>> "negate" in str(mlir.deserialize_portable_artifact(e.mlir_module_serialized))
      True
    """
    ir = _mlir.ir
    with context or ir.Context() as made:
        made.allow_unregistered_dialects = True
        return ir.Module.parse(text.module_text(bytecode.read_module(bytes(mlir_module)), False))


def serialize_portable_artifact(mlir_module: Any, target: str,
                                use_mixed_serialization: bool = False) -> bytes:
    """The portable artifact of a module of StableHLO's operations.

    Args:
      mlir_module: MLIR's Module, or its text; main is what callers call, and what it calls is
        written out in it.
      target: the version of StableHLO that has to read it, "1.4.0" or a later one.
      use_mixed_serialization: accepted: operations of other dialects are errors.

    Returns:
      Bytes, as Exported.mlir_module_serialized is.

    Raises:
      ValueError: the target is an earlier version or none, or the module has no main.
      UnsupportedOperationError: the module has operations of other dialects.

    Example:
      >>> import calque
      >>> from calque import export
      >>> from calque.extend import mlir
      >>> e = export.export(calque.jit(lambda x: -x))(1.0)
      >>> len(mlir.serialize_portable_artifact(e.mlir_module(), "1.4.0")) > 100
      True
    """
    written = ".".join(map(str, bytecode_write.VERSION))
    found = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", str(target))
    if found is None or tuple(map(int, found.groups())) < bytecode_write.VERSION:
        raise ValueError(explain(
            f"serialize_portable_artifact: artifacts are of StableHLO {written}, which {target!r} "
            "does not read.", fix=f"ask for {written} or a later version."))
    module = client_rules.module_of(str(mlir_module), "serialize_portable_artifact")
    return bytecode_write.write_module(module)


def refine_polymorphic_shapes(mlir_module: bytes, enable_shape_assertions: bool = True,
                              validate_static_shapes: bool = True,
                              enable_shardy: bool = False) -> bytes:
    """A module whose main function takes fixed sizes, with every size inside computed from them.

    Args:
      mlir_module: a portable artifact's bytes.
      enable_shape_assertions, validate_static_shapes, enable_shardy: accepted: sizes that do not
        fit, and such that are not known, are errors.

    Returns:
      Bytes of a portable artifact.

    Raises:
      ValueError: main has sizes that are not fixed.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque import export
      >>> from calque.extend import mlir
      >>> e = export.export(calque.jit(jnp.cumsum))(jnp.ones(3))
      >>> isinstance(mlir.refine_polymorphic_shapes(e.mlir_module_serialized), bytes)
      True
    """
    module = bytecode.read_module(bytes(mlir_module))
    avals = [_aval(v.type) for v in _main(module).body.arguments]
    program = read.program_of(module, avals, "main", [])
    made = write.module_of(program, module.name.removeprefix("jit_"), range(len(avals)))
    return bytecode_write.write_module(made)


def _main(module: Module) -> Any:
    main = module.function("main")
    if main is None:
        raise ValueError(explain("refine_polymorphic_shapes: the module has no function main.",
                                 fix="pass what Exported.mlir_module_serialized is."))
    return main


def _aval(kind: Any) -> ShapedArray:
    if DYNAMIC in kind.shape:
        raise ValueError(explain(
            "refine_polymorphic_shapes: an argument of main has a size that is not fixed.",
            fix="let main take arrays of fixed sizes: export a function that calls it."))
    return ShapedArray(kind.shape, kind.dtype)


def __dir__() -> list[str]:
    return __all__
