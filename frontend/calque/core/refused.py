"""What an AttributeError says of a name that a module of calque's has not: what to use for it.

Names of JAX's that are left out on purpose have a reason and a cure (docs/jax_docs.md lists them);
of others the nearest name of the module, or the same name of another, is said.  hasattr says False
of all of them.  Start reading at `REFUSED`.
"""
from __future__ import annotations

import difflib
import functools
import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from calque.core.errors import explain

_PASSES = ("passes over XLA's programs do not run in IREE",
           "transform the function: calque.make_jaxpr and extend.core.jaxpr_as_fun")
_MESSAGES = ("halves of a message between GPUs are not taken apart",
             "lax.ppermute(x, axis_name, perm) sends and receives")
REFUSED: dict[str, tuple[str, str]] = {  # name -> why, and what to use
    "experimental.control_deps": (
        "the order of effects is that of the program", "lax.optimization_barrier"),
    "experimental.fused": ("kernels are made by the compiler", "jit"),
    "experimental.hijax": (
        "types of arrays of one's own are not traced",
        "pytrees, custom_vjp, or primitives of one's own: docs/your_jax_code_here.md"),
    "experimental.jax2tf": ("there is no bridge to TensorFlow", "calque.export, or calque compile"),
    "experimental.mosaic": (
        "kernels for TPUs are not here", "experimental.pallas without a backend"),
    "experimental.multihost_utils.live_devices": (
        "a process that is lost ends what the others do together",
        "write calque.checkpoints, and start all of them again: docs/processes.md"),
    "experimental.roofline": (
        "nothing is known of other machines",
        "jit(f).lower(x).cost_analysis() counts operations and bytes"),
    "experimental.transfer": (
        "arrays are not fetched from other programs",
        "distributed.initialize() joins processes: docs/processes.md"),
    "extend.backend.get_compile_options": (
        "IREE compiles, not XLA", "config and the variables CALQUE_*: docs/debugging.md"),
    "extend.backend.ifrt_proxy": (
        "devices are not reached through XLA's proxy", "distributed.initialize() joins processes"),
    "extend.mlir.hlo_to_stablehlo": (
        "XLA's own form of programs is not read",
        "export.export(jit(f))(...).mlir_module_serialized is StableHLO"),
    "extend.xla.PipelineStage": _PASSES,
    "extend.xla.clear_hlo_module_transformation": _PASSES,
    "extend.xla.register_hlo_module_transformation": _PASSES,
    "ffi.include_dir": ("XLA's headers are not in calque's wheel",
                        "they lie in that of jaxlib: jaxlib/include"),
    "lax.precv": _MESSAGES, "lax.psend": _MESSAGES}


# names that NumPy's users write -> what to write
_MEANT = {
    "numpy.random": "calque.random.normal(calque.random.key(0), (3,)): random numbers are drawn "
                    "with a key (docs/random.md)",
    "random.rand": "calque.random.uniform(calque.random.key(0), (3,))",
    "random.randn": "calque.random.normal(calque.random.key(0), (3,))",
    "random.seed": "key = calque.random.key(0), which every draw takes: there is no hidden state",
    "numpy.matrix": "calque.numpy.array of two axes",
}
_LATER = ("calque.aot",)  # modules that are imported when they are asked for
# where a name that a module has not is looked for, in this order
_SHELVES = ("numpy", "", "lax", "random", "nn", "numpy.linalg", "numpy.fft", "scipy.special",
            "scipy.linalg", "tree", "scipy.stats", "nn.initializers")
_LIST = "docs/jax_names.md lists JAX's names, those that are here and those that are not"


def refusing(module: str) -> Callable[[str], Any]:
    """The __getattr__ of a module of calque's: the AttributeError of a name that it has not."""
    def missing(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if f"{module}.{name}" in _LATER:
            return importlib.import_module(f"{module}.{name}")
        found = sys.modules[module]
        called = found.__name__  # jax.numpy under compat
        said = f"module {called!r} has no attribute {name!r}"
        why, instead = REFUSED.get(f"{module}.{name}".removeprefix("calque."), ("", ""))
        if why:
            said = f"{said}: {why}"
        else:
            instead = suggestion(called, name, tuple(dir(found)))
        # without a name the exception gets none of Python's suggestions behind ours
        raise AttributeError(explain(f"{said}.", fix=f"{instead}."), name=None, obj=found)

    return missing


@functools.lru_cache(1024)  # libraries ask again and again
def suggestion(module: str, name: str, names: tuple[str, ...]) -> str:
    """What may be meant by a name that a module has not.

    Args:
      module: name of the module, as the user writes it.
      name: what it has not.
      names: what it has.

    Returns:
      A sentence without its full stop.
    """
    start = module.partition(".")[2]
    if instead := _MEANT.get(f"{start}.{name}"):
        return instead
    for shelf in _SHELVES:
        other = sys.modules.get(f"calque.{shelf}".rstrip("."))
        if (shelf != start and other is not None and not name.startswith("_")
                and name in vars(other) and not isinstance(vars(other)[name], ModuleType)):
            return f"{other.__name__}.{name} has this name"
    near = difflib.get_close_matches(name, [n for n in names if not n.startswith("_")], 1)
    return (f"did you mean {module}.{near[0]}? " if near else "") + _LIST


def install(top: ModuleType) -> None:
    """Give the public modules within `top` that have no __getattr__ of their own one that says
    what may be meant.  (A __getattr__ in their text would tell type checkers that they have every
    name.)"""
    seen = {top}
    waiting = [top]
    while waiting:
        module = waiting.pop()
        if "__getattr__" not in vars(module):
            setattr(module, "__getattr__", refusing(module.__name__))  # noqa: B010
        for name, inner in vars(module).items():
            full = f"{module.__name__}.{name}"
            if (isinstance(inner, ModuleType) and inner not in seen and inner.__name__ == full
                    and (name in vars(module).get("__all__", ())
                         or full.removeprefix("calque.") in _SHELVES)):
                seen.add(inner)
                waiting.append(inner)
