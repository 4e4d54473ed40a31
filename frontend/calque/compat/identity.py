"""What things say they are under `import jax`: JAX's, as libraries choose by that.

Modules have JAX's names, public functions and classes its modules (where a name is found in the
module that it says, so that pickles find it), and sys.modules holds what `import jax` brings.
Nothing is renamed before calque.compat is installed.  Left alone: private functions, which nobody
asks, and classes that JAX has in private modules alone.  Start reading at `rename`.
"""
from __future__ import annotations

import importlib
import sys
import types
import typing
from typing import Any

import calque
from calque.api import callbacks
from calque.core.trace import Tracer
from calque.dispatch.array import Array
from calque.dispatch.jit import JitFunction
from calque.extend.backend import Client
from calque.runtime.device import Device

# what `import jax` imports, of its public modules
BROUGHT = tuple(f"jax.{n}" for n in (
    "api_util", "core", "custom_batching", "custom_derivatives", "debug", "distributed", "dlpack",
    "dtypes", "errors", "experimental", "export", "ffi", "image", "interpreters", "interpreters.ad",
    "interpreters.batching", "interpreters.mlir", "interpreters.partial_eval", "interpreters.pxla",
    "interpreters.xla", "lax", "lax.linalg", "lib", "monitoring", "nn", "nn.initializers", "numpy",
    "numpy.fft", "numpy.linalg", "ops", "profiler", "random", "ref", "scipy", "sharding", "stages",
    "tree", "tree_util", "typing", "version")) + ("jaxlib", "jaxlib.xla_client", "jaxlib._jax",
                                                  "jaxlib.version")
# classes that JAX has in its compiled module, under these names
_COMPILED = {Array: "Array", JitFunction: "PjitFunction", Device: "Device", Client: "Client"}
# where JAX has its classes of the same name, which programs find in texts of types
_TRACERS = {"JVPTracer": "jax._src.interpreters.ad",
            "LinearizeTracer": "jax._src.interpreters.ad",
            "BatchTracer": "jax._src.interpreters.batching"}


def rename_types() -> None:
    """Arrays, tracers, devices, jitted functions say that they are JAX's (autoray, PennyLane), and
    so do the loggers of debug.log and of callbacks."""
    callbacks.logger, callbacks.failures = "jax._src.debugging", "jax._src.callback"
    for compiled, name in _COMPILED.items():
        compiled.__module__, compiled.__name__, compiled.__qualname__ = "jaxlib._jax", name, name
    kinds: list[type] = [Tracer]
    while kinds:
        kind = kinds.pop()
        kind.__module__ = _TRACERS.get(kind.__name__, "jax.core")
        kinds += kind.__subclasses__()


def rename(module: types.ModuleType, name: str) -> None:
    """A module of ours and what it offers say JAX's name of it."""
    if module is not calque:
        module.__name__ = name
    for public in getattr(module, "__all__", ()):
        found = vars(module).get(public)
        said = getattr(found, "__module__", None)
        if isinstance(said, str) and said.partition(".")[0] == "calque" and _is_named(
                found, public):
            try:
                if isinstance(found, type) and "__annotations__" in vars(found):
                    # types in quotes mean something in the module where they stand
                    hints = typing.get_type_hints(found, include_extras=True)
                    found.__annotations__ = {n: hints[n] for n in found.__annotations__}
            except (NameError, TypeError):  # of a type checker alone
                pass
            try:
                found.__module__ = name
            except (AttributeError, TypeError):  # it cannot be told
                pass


def _is_named(found: Any, public: str) -> bool:
    named = isinstance(found, types.FunctionType | type) or type(found).__name__ == "ufunc"
    return named and getattr(found, "__qualname__", getattr(found, "__name__", "")) == public


def rename_loaded(names: set[str]) -> None:
    """Those of JAX's modules whose module of ours is loaded, and calque itself as jax: whatever
    is said is in sys.modules (treescope)."""
    rename(calque, "jax")
    for name in sorted(names, key=lambda n: (n.count("."), n)):
        if "calque" + name[len("jax"):] in sys.modules:
            importlib.import_module(name)  # (which renames it)
    for name in BROUGHT:
        importlib.import_module(name)


__all__ = ["BROUGHT", "rename", "rename_loaded", "rename_types"]
