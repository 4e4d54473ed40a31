"""calque: JAX's programming model on StableHLO and IREE.

Functions of arrays that are differentiated, vectorized and compiled:

  >>> import calque, calque.numpy as jnp
  >>> def loss(w, x):
  ...     return jnp.sum((x @ w - 1.0) ** 2)
  >>> calque.jit(calque.grad(loss))(jnp.zeros(2), jnp.ones((3, 2)))
  Array([-6., -6.], dtype=float32)

What is here for users:

  calque.jit, grad, value_and_grad, vmap, checkpoint, custom_vjp, ...   transformations
  calque.numpy     NumPy's functions       calque.random   random numbers, drawn with a key
  calque.lax       loops, cond, and the operations below numpy
  calque.nn, calque.scipy                  activations; SciPy's functions
  calque.tree      nested containers       calque.config   options: dir(calque.config)
  calque.aot       programs as files       calque.compat   `import jax` gives calque
  calque.typing    types for annotations   calque.errors   errors, with their cures

help(calque.jit) and its like have examples; `calque --help` is the command.

For who works on calque: rooms, each seeing those above it (tests/test_structure.py has the arrows):

  core/         the Program and what types it, the record of a primitive, traces, errors, config
  trees/        nested containers of arrays            transforms/  jvp, linearize, transpose, vmap
  primitives/   every primitive with its rules
  lowering/     Program to StableHLO and .vmfb; runtime/  running them: links, see there
  dispatch/     Array; operations run now, or traced, compiled and called
  api/          grad, vmap, scan, custom_vjp, callbacks, ffi, ...: functions of trees
  lax/ numpy/ random/ nn/ scipy/                       the public functions; extras/ those in
                modules of their own (image, ops, ref, ravel_pytree)
  parallel/     shard_map, pmap, meshes                distributed/ programs of several processes
  experimental/ checkify, pallas, ...                  example_libraries/  stax and optimizers
  export/       portable functions, JAX's format       aot/         artifacts
  models/       language models, as artifacts
  extend/ interpreters/                                for libraries: primitives of their own
  profiler/     what runs, as traces                   compat/      programs written for JAX
  ../calque_cli the command

Modules beside them show what the rooms have under JAX's names of modules: ad.py, ad_checkpoint.py,
api_util.py, checkpoints.py, custom_batching.py, custom_derivatives.py, debug.py, dlpack.py,
dtypes.py, errors.py, ffi.py, flatten_util.py, image.py, memory.py, monitoring.py, ops.py, ref.py,
sharding.py, stages.py, test_util.py, tree.py, tree_util.py, typing.py.

Start reading at docs/architecture.md.
"""
from __future__ import annotations

import sys as _sys

from calque.core import printer as _printer  # noqa: F401  (Programs are printed by it)

# before what imports optree: without its exit handlers, whichever module is the first to need it
from calque.trees import nodes as _nodes  # noqa: F401

# isort: split
from calque.core import dtypes as _dtypes
from calque.core import refused as _refused
from calque.core import source as _source
from calque.core import trace as _trace
from calque.core.config import config as config
from calque.core.config import context_manager as _context
from calque.core.config import make_user_context as make_user_context
from calque.primitives import (  # noqa: F401  (importing registers the primitives)
    call as _call,
    callback as _callback,
    checkpoint as _checkpoint,
    collectives as _collectives,
    contract as _contract,
    control as _control,
    conv as _conv,
    cumulative as _cumulative,
    custom as _custom,
    elementwise as _elementwise,
    fft as _fft,
    gather as _gather,
    generator as _generator,
    implicit as _implicit,
    index as _index,
    linalg as _linalg,
    placement as _placement,
    random as _random,
    reduce as _reduce,
    scatter as _scatter,
    shape as _shape,
    shard_map as _shard_map,
    sort as _sort,
    special as _special,
    while_loop as _while_loop,
    window as _window,
)
from calque.dispatch import eager as _eager
from calque.runtime import errors as _runtime_errors

_trace.evaluator[0] = _eager.evaluate
_runtime_errors.asked_by[0] = _source.users_line

from calque import ad as ad  # noqa: E402
from calque import api_util as api_util  # noqa: E402
from calque import core as core  # noqa: E402
from calque import dtypes as dtypes  # noqa: E402
from calque import debug as debug  # noqa: E402
from calque import checkpoints as checkpoints  # noqa: E402
from calque import distributed as distributed  # noqa: E402
from calque import dlpack as dlpack  # noqa: E402
from calque import errors as errors  # noqa: E402
from calque import memory as memory  # noqa: E402
from calque import example_libraries as example_libraries  # noqa: E402
from calque import experimental as experimental  # noqa: E402
from calque import export as export  # noqa: E402
from calque import extend as extend  # noqa: E402
from calque import ffi as ffi  # noqa: E402
from calque import flatten_util as flatten_util  # noqa: E402
from calque import image as image  # noqa: E402
from calque import interpreters as interpreters  # noqa: E402
from calque import lax as lax  # noqa: E402
from calque import monitoring as monitoring  # noqa: E402
from calque import nn as nn  # noqa: E402
from calque import numpy as numpy  # noqa: E402
from calque import ops as ops  # noqa: E402
from calque import profiler as profiler  # noqa: E402
from calque import ref as ref  # noqa: E402
from calque import random as random  # noqa: E402
from calque import runtime as runtime  # noqa: E402
from calque import scipy as scipy  # noqa: E402
from calque import sharding as sharding  # noqa: E402
from calque import stages as stages  # noqa: E402
from calque import test_util as test_util  # noqa: E402
from calque import tree as tree  # noqa: E402
from calque import tree_util as tree_util  # noqa: E402
from calque import typing as typing  # noqa: E402
from calque.nn.quantized import QuantizedArray as QuantizedArray  # noqa: E402
from calque.nn.quantized import quantize as quantize  # noqa: E402
from calque.api.autodiff import (  # noqa: E402
    fwd_and_bwd as fwd_and_bwd,
    grad as grad,
    jvp as jvp,
    linear_transpose as linear_transpose,
    linearize as linearize,
    value_and_grad as value_and_grad,
    vjp as vjp,
)
from calque.dispatch.array import Array as Array  # noqa: E402
from calque.dispatch.array import live_arrays as live_arrays  # noqa: E402
from calque.dispatch.environment import (  # noqa: E402
    print_environment_info as print_environment_info,
)
from calque.api.batching import vmap as vmap  # noqa: E402
from calque.api.checkpoint import (  # noqa: E402
    checkpoint as checkpoint,
    checkpoint_policies as checkpoint_policies,
    remat as remat,
)
checkpoint.save, checkpoint.load = checkpoints.save, checkpoints.load  # type: ignore[attr-defined]
from calque import ad_checkpoint as ad_checkpoint  # noqa: E402
from calque import custom_batching as custom_batching  # noqa: E402
from calque import custom_derivatives as custom_derivatives  # noqa: E402
from calque.api.callbacks import pure_callback as pure_callback  # noqa: E402
from calque.api.custom_derivatives import (  # noqa: E402
    closure_convert as closure_convert,
    custom_gradient as custom_gradient,
    custom_jvp as custom_jvp,
    custom_vjp as custom_vjp,
)
from calque.dispatch import garbage as _garbage  # noqa: E402, F401  (listens where asked to)
from calque.dispatch.devices import (  # noqa: E402
    block_until_ready as block_until_ready,
    copy_to_host_async as copy_to_host_async,
    default_backend as default_backend,
    device_count as device_count,
    device_get as device_get,
    devices as devices,
    effects_barrier as effects_barrier,
    host_count as host_count,
    host_id as host_id,
    host_ids as host_ids,
    local_device_count as local_device_count,
    local_devices as local_devices,
    process_count as process_count,
    process_index as process_index,
    process_indices as process_indices,
    thread_guard as thread_guard,
)
from calque.dispatch.sharded.parts import Shard as Shard  # noqa: E402
from calque.dispatch.sharded.shards import (  # noqa: E402
    device_put as device_put,
    make_array_from_callback as make_array_from_callback,
    make_array_from_process_local_data as make_array_from_process_local_data,
    make_array_from_single_device_arrays as make_array_from_single_device_arrays,
)
from calque.dispatch.sharded.stacked import (  # noqa: E402
    device_put_replicated as device_put_replicated,
    device_put_sharded as device_put_sharded,
)
from calque.api.jacobians import (  # noqa: E402
    hessian as hessian,
    jacfwd as jacfwd,
    jacrev as jacrev,
)
from calque.dispatch.jit import clear_caches as clear_caches  # noqa: E402
from calque.dispatch.jit import jit as jit  # noqa: E402
from calque.dispatch.positions import Inline as Inline  # noqa: E402
from calque.parallel.mapping import shard_map as shard_map  # noqa: E402
from calque.sharding import (  # noqa: E402
    get_abstract_mesh as get_abstract_mesh,
    get_mesh as get_mesh,
    use_abstract_mesh as use_abstract_mesh,
)
from calque.parallel.single_axis import smap as smap  # noqa: E402
from calque.dispatch.sharded import placed as _placed  # noqa: E402,F401  (jit with shardings)
from calque.parallel.pmap import pmap as pmap  # noqa: E402
from calque.parallel.mesh_tools import make_mesh as make_mesh  # noqa: E402
from calque.parallel.mesh_tools import reshard as reshard  # noqa: E402
from calque.core.mesh import set_mesh as set_mesh  # noqa: E402
from calque.core.sharding import NamedSharding as NamedSharding  # noqa: E402
from calque.core.sharding import PartitionSpec as P  # noqa: E402, F401
from calque.extras.ref import Ref as Ref  # noqa: E402
from calque.extras.ref import ds as ds  # noqa: E402
from calque.extras.ref import empty_ref as empty_ref  # noqa: E402
from calque.extras.ref import free_ref as free_ref  # noqa: E402
from calque.extras.ref import freeze as freeze  # noqa: E402
from calque.extras.ref import new_ref as new_ref  # noqa: E402
from calque.runtime import Device as Device  # noqa: E402
from calque.dispatch.staging import eval_shape as eval_shape  # noqa: E402
from calque.dispatch.staging import make_jaxpr as make_jaxpr  # noqa: E402
from calque.dispatch.staging import named_call as named_call  # noqa: E402
from calque.dispatch.staging import typeof as typeof  # noqa: E402
from calque.dispatch.tracing import ShapeDtypeStruct as ShapeDtypeStruct  # noqa: E402
from calque.primitives import factors as _factors  # noqa: E402, F401  (of all primitives)
from calque.primitives import mixed as _mixed  # noqa: E402, F401  (of products and gathers)
from calque.primitives import pairs as _pairs  # noqa: E402, F401  (loops in what kernels know)
from calque.primitives import words as _words  # noqa: E402, F401
from calque.trees.util import tree_map as tree_map  # noqa: E402 (the tutorials' name)

jacobian = jacrev
named_scope = _trace.scope
ensure_compile_time_eval = _trace.ensure_compile_time_eval

# options as contexts
array_garbage_collection_guard = _context("jax_array_garbage_collection_guard")
enable_x64 = _context("jax_enable_x64")
debug_nans = _context("jax_debug_nans")
debug_infs = _context("jax_debug_infs")
disable_jit = _context("jax_disable_jit")
log_compiles = _context("jax_log_compiles")
numpy_dtype_promotion = _context("jax_numpy_dtype_promotion")
numpy_rank_promotion = _context("jax_numpy_rank_promotion")
default_matmul_precision = _context("jax_default_matmul_precision")
default_device = _context("jax_default_device")
threefry_partitionable = _context("jax_threefry_partitionable")
checking_leaks = check_tracer_leaks = _context("jax_check_tracer_leaks")
enable_custom_prng = _context("jax_enable_custom_prng")
default_prng_impl = _context("jax_default_prng_impl")
legacy_prng_key = _context("jax_legacy_prng_key")
no_tracing = _context("jax_no_tracing")
auto_pcast = _context("jax_auto_pcast")
no_execution = _context("jax_no_execution")
enable_checks = _context("jax_enable_checks")
debug_key_reuse = _context("jax_debug_key_reuse")
explain_cache_misses = _context("jax_explain_cache_misses")
allow_f16_reductions = _context("jax_allow_f16_reductions")
softmax_custom_jvp = _context("jax_softmax_custom_jvp")
transfer_guard = _context("jax_transfer_guard")
transfer_guard_host_to_device = _context("jax_transfer_guard_host_to_device")
transfer_guard_device_to_host = _context("jax_transfer_guard_device_to_host")
transfer_guard_device_to_device = _context("jax_transfer_guard_device_to_device")
float0 = _dtypes.float0

__version__ = "0.1.0"

# public modules; the others are the implementation
_MODULES = ("ad", "ad_checkpoint", "api_util", "checkpoints", "core", "custom_batching",
            "custom_derivatives", "debug", "distributed", "dlpack", "dtypes", "errors",
            "example_libraries", "experimental", "export", "extend", "ffi", "flatten_util", "image",
            "interpreters", "lax", "memory", "monitoring", "nn", "numpy", "ops", "profiler",
            "random", "ref", "runtime", "scipy", "sharding", "stages", "test_util", "tree",
            "tree_util", "typing")
__all__ = sorted(n for n, v in globals().items() if not n.startswith("_") and n != "annotations"
                 and (n in _MODULES or not isinstance(v, type(_eager))))


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


_refused.install(_sys.modules[__name__])
