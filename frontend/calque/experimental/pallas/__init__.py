"""Kernels over a grid of blocks, under the names of jax.experimental.pallas; compiled on the CPU.

  call.py      pallas_call: from a kernel of references to an operation (primitives/pallas.py)
  specs.py     BlockSpec, GridSpec, the kinds of block axes, memory spaces
  helpers.py   what kernels call: program_id, when, loop, run_scoped, cdiv, ...

Start reading at `pallas_call`.
"""
from typing import Any

from calque.core.errors import explain
from calque.experimental.pallas.call import pallas_call as pallas_call
from calque.experimental.pallas.helpers import align_to as align_to
from calque.experimental.pallas.helpers import broadcast_to as broadcast_to
from calque.experimental.pallas.helpers import cdiv as cdiv
from calque.experimental.pallas.helpers import debug_print as debug_print
from calque.experimental.pallas.helpers import ds as ds
from calque.experimental.pallas.helpers import dslice as dslice
from calque.experimental.pallas.helpers import empty as empty
from calque.experimental.pallas.helpers import empty_like as empty_like
from calque.experimental.pallas.helpers import empty_ref_like as empty_ref_like
from calque.experimental.pallas.helpers import estimate_cost as estimate_cost
from calque.experimental.pallas.helpers import loop as loop
from calque.experimental.pallas.helpers import multiple_of as multiple_of
from calque.experimental.pallas.helpers import next_power_of_2 as next_power_of_2
from calque.experimental.pallas.helpers import num_programs as num_programs
from calque.experimental.pallas.helpers import program_id as program_id
from calque.experimental.pallas.helpers import reciprocal as reciprocal
from calque.experimental.pallas.helpers import run_scoped as run_scoped
from calque.experimental.pallas.helpers import run_state as run_state
from calque.experimental.pallas.helpers import strides_from_shape as strides_from_shape
from calque.experimental.pallas.helpers import when as when
from calque.experimental.pallas.helpers import with_scoped as with_scoped
from calque.experimental.pallas.specs import ANY as ANY
from calque.experimental.pallas.specs import HOST as HOST
from calque.experimental.pallas.specs import Blocked as Blocked
from calque.experimental.pallas.specs import BlockSpec as BlockSpec
from calque.experimental.pallas.specs import Buffered as Buffered
from calque.experimental.pallas.specs import CostEstimate as CostEstimate
from calque.experimental.pallas.specs import Element as Element
from calque.experimental.pallas.specs import GridSpec as GridSpec
from calque.experimental.pallas.specs import MemoryRef as MemoryRef
from calque.experimental.pallas.specs import MemorySpace as MemorySpace
from calque.experimental.pallas.specs import RevisitMode as RevisitMode
from calque.experimental.pallas.specs import Squeezed as Squeezed
from calque.experimental.pallas.specs import no_block_spec as no_block_spec
from calque.experimental.pallas.specs import squeezed as squeezed
from calque.extras.ref import Slice as Slice

__all__ = ["ANY", "BlockSpec", "Blocked", "Buffered", "CostEstimate", "Element", "GridSpec", "HOST",
           "MemoryRef", "MemorySpace", "RevisitMode", "Slice", "Squeezed", "align_to",
           "broadcast_to", "cdiv", "debug_print", "ds", "dslice", "empty", "empty_like",
           "empty_ref_like", "estimate_cost", "loop", "multiple_of", "next_power_of_2",
           "no_block_spec", "num_programs", "pallas_call", "program_id", "reciprocal", "run_scoped",
           "run_state", "squeezed", "strides_from_shape", "when", "with_scoped"]

_BACKENDS = ("fuser", "mosaic_gpu", "ops", "tpu", "tpu_sc", "triton")
_ABSENT = ("BoundedSlice", "BlockDim", "CompilerParams", "DeviceIdType", "Indirect", "core_map",
           "debug_check", "delay", "enable_debug_checks", "enable_poison_buffers",
           "get_global", "kernel", "lower_as_mlir", "pallas_call_p",
           "pallas_export_experimental", "select_ref", "semaphore", "semaphore_read",
           "semaphore_signal", "semaphore_wait")


def __getattr__(name: str) -> Any:
    if name in _BACKENDS:
        raise AttributeError(explain(
            f"pallas.{name} is absent: it is one backend's part of JAX's Pallas.",
            fix="write the kernel with what calque.experimental.pallas has; it is compiled for "
                "every target."))
    if name in _ABSENT:
        raise AttributeError(explain(
            f"pallas.{name} is absent: calque has not this name of jax.experimental.pallas.",
            fix="docs/pallas.md lists what there is."))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
