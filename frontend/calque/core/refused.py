"""Names of JAX's that are left out on purpose: an AttributeError says what to use in their place.

hasattr says False of them, as of every name that is not there.  docs/jax_docs.md lists them.
Start reading at `REFUSED`.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calque.core.errors import explain

_PASSES = ("passes over XLA's programs do not run in IREE",
           "transform the function: calque.make_jaxpr and extend.core.jaxpr_as_fun")
_SERVER = ("a process cannot be asked for a profile from outside",
           "put profiler.trace(folder) around what is to be seen")
_MESSAGES = ("halves of a message between GPUs are not taken apart",
             "lax.ppermute(x, axis_name, perm) sends and receives")
REFUSED: dict[str, tuple[str, str]] = {  # name -> why, and what to use
    "experimental.custom_partitioning.custom_partitioning": (
        "a sharding is a label here, and the program one", "shard_map says what each device does"),
    "extend.backend.get_compile_options": (
        "IREE compiles, not XLA", "config and the variables CALQUE_*: docs/debugging.md"),
    "extend.backend.ifrt_proxy": (
        "devices are not reached through XLA's proxy", "distributed.initialize() joins processes"),
    "extend.core.AbstractToken": (
        "a token is a tree without leaves and has no type", "extend.core.Token"),
    "extend.core.CallPrimitive": (
        "functions are not bound to primitives",
        "give a Primitive a jaxpr as parameter, or bind extend.core.primitives.call_p"),
    "extend.lowering.upstream_dialects": (
        "StableHLO's operations are written by their names", "interpreters.mlir.ir"),
    "extend.mlir.hlo_to_stablehlo": (
        "XLA's own form of programs is not read",
        "export.export(jit(f))(...).mlir_module_serialized is StableHLO"),
    "extend.mlir.serialize_portable_artifact": (
        "MLIR's objects are not read", "export.export(jit(f))(...).mlir_module_serialized"),
    "extend.xla.PipelineStage": _PASSES,
    "extend.xla.clear_hlo_module_transformation": _PASSES,
    "extend.xla.register_hlo_module_transformation": _PASSES,
    "ffi.pycapsule": ("XLA's handlers in shared libraries are not called",
                      "ffi.Kernel takes C source or an object file"),
    "ffi.register_ffi_type": ("kernels have no state of XLA's types",
                              "pass the state to the kernel as an array"),
    "lax.precv": _MESSAGES, "lax.psend": _MESSAGES,
    "profiler.register_subprocess": _SERVER, "profiler.start_server": _SERVER}


def refusing(module: str) -> Callable[[str], Any]:
    """The __getattr__ of a module of calque's that lacks some of JAX's names."""
    start = module.removeprefix("calque.")

    def missing(name: str) -> Any:
        said = f"module {module!r} has no attribute {name!r}"
        if f"{start}.{name}" in REFUSED:
            why, instead = REFUSED[f"{start}.{name}"]
            raise AttributeError(explain(f"{said}: {why}.", fix=f"{instead}."))
        raise AttributeError(f"{said}.")

    return missing
