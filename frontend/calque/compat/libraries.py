"""JAX's private modules, and its kernels for other chips, as libraries import them.

Rows of private.MODULES like those of private.py: what is of ours under another name is that, what
belongs to TPUs and GPUs alone is `absent` when it is used.  Each row says who needs it.
"""
from __future__ import annotations

import importlib
import inspect
import types
from typing import Any, Protocol, runtime_checkable

import numpy as np

import calque
from calque.compat.private import MODULES, _made, absent, nothing, of
from calque.core import dtypes, primitive

_ATTENTION = "use calque.nn.dot_product_attention, which runs everywhere."


# ---- kernels of one kind of chip
@_made("jax.experimental.pallas.ops", "jax.experimental.pallas.ops.tpu",
       "jax.experimental.pallas.ops.tpu.splash_attention", "jax.experimental.pallas.ops.gpu")
def _package() -> dict[str, Any]:
    return {}


@_made("jax.experimental.pallas.ops.tpu.splash_attention.splash_attention_kernel")  # keras
def _splash() -> dict[str, Any]:
    name = "jax.experimental.pallas.ops.tpu.splash_attention"
    return {n: absent(f"{name}.{n} (a kernel for TPUs)", _ATTENTION)
            for n in ("make_splash_mha", "make_splash_mqa", "make_splash_mha_single_device",
                      "make_splash_mqa_single_device", "SegmentIds", "BlockSizes")}


@_made("jax.experimental.pallas.ops.tpu.splash_attention.splash_attention_mask")  # keras
def _splash_mask() -> dict[str, Any]:
    name = "jax.experimental.pallas.ops.tpu.splash_attention"
    return {n: absent(f"{name}.{n} (a kernel for TPUs)", _ATTENTION)
            for n in ("NumpyMask", "CausalMask", "FullMask", "LocalMask", "MultiHeadMask",
                      "make_causal_mask", "make_local_attention_mask")}


@_made("jax.experimental.pallas.ops.tpu.flash_attention",
       "jax.experimental.pallas.ops.gpu.attention")
def _flash() -> dict[str, Any]:
    return {n: absent(f"jax.experimental.pallas.ops.{n} (a kernel for one kind of chip)",
                      _ATTENTION) for n in ("flash_attention", "mha", "mha_reference")}


@_made("jax.experimental.pallas.triton")  # jax-md
def _triton() -> dict[str, Any]:
    class CompilerParams:
        """Options of Triton's compiler; IREE compiles here, and asks for none."""

        def __init__(self, **options: Any) -> None:
            self.options = options
    return {"CompilerParams": CompilerParams, "TritonCompilerParams": CompilerParams}


# ---- jaxlib
@_made("jaxlib._jax", "jaxlib.xla_client", "jaxlib.xla_extension")  # gpjax, jaxlie
def _jaxlib() -> dict[str, Any]:
    from calque.dispatch.array import Array
    from calque.dispatch.jit import JitFunction
    from calque.extend.backend import Client
    from calque.runtime.device import Device
    return {"PjitFunction": JitFunction, "Device": Device, "Client": Client, "Array": Array,
            "ArrayImpl": Array,
            "XlaRuntimeError": calque.errors.JaxRuntimeError, "_xla": types.SimpleNamespace(
                PjitFunction=JitFunction, Device=Device),
            **{n: nothing(f"jaxlib.{n}") for n in ("Shape", "HloModule", "XlaComputation",
                                                   "DeviceList")}}


@_made("jax.lib.xla_bridge", "jax.lib.xla_client", "jax.lib.xla_extension")
def _lib() -> dict[str, Any]:
    return {**_jaxlib(), **of("calque.extend.backend", "get_backend", "backends")}


# ---- jax._src
@_made("jax._src.api_util")  # e3nn-jax
def _api_util() -> dict[str, Any]:
    return {**{n: getattr(calque.api_util, n) for n in calque.api_util.__all__},
            "infer_argnums_and_argnames": _argnums_and_argnames}


def _argnums_and_argnames(signature: inspect.Signature, argnums: Any, argnames: Any
                          ) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Positions and names of the same parameters, from either."""
    places = [n for n, p in signature.parameters.items() if p.kind in (
        p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]

    def listed(x: Any, kind: type) -> tuple[Any, ...]:
        return (x,) if isinstance(x, kind) else tuple(x)
    if argnums is None and argnames is None:
        return (), ()
    if argnums is None:
        names = listed(argnames, str)
        return tuple(i for i, n in enumerate(places) if n in names), names
    numbers = listed(argnums, int)
    if argnames is None:
        count = len(places)
        return numbers, tuple(places[i] for i in numbers if -count <= i < count)
    return numbers, listed(argnames, str)


@_made("jax._src.numpy.ufuncs", "jax._src.numpy.lax_numpy", "jax._src.numpy.ufunc_api",
       "jax._src.numpy.reductions", "jax._src.numpy.linalg",
       "jax._src.numpy.array_creation", "jax._src.numpy.tensor_contractions")  # jumanji, unxt
def _numpy() -> dict[str, Any]:
    return {n: getattr(calque.numpy, n) for n in calque.numpy.__all__}


@_made("jax._src.numpy.vectorize")  # unxt (quaxed)
def _vectorize() -> dict[str, Any]:
    found = importlib.import_module("calque.numpy.apply")

    def excluded(f: Any, chosen: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """f without the arguments of these positions and names, and the arguments that are left."""
        left = [i for i in range(len(args)) if i not in chosen]
        named = {k: v for k, v in kwargs.items() if k not in chosen}

        def call(*values: Any, **more: Any) -> Any:
            full = list(args)
            for i, v in zip(left, values, strict=True):
                full[i] = v
            return f(*full, **{**kwargs, **more})
        return call, tuple(args[i] for i in left), named
    return {"_apply_excluded": excluded, "_check_output_dims": found.checked,
            "_parse_gufunc_signature": found.parse_signature,
            "_parse_input_dimensions": found.loop_sizes, "vectorize": found.vectorize}


@_made("jax._src.numpy.array_methods")  # unxt: classes of its own with x.at's methods
def _array_methods() -> dict[str, Any]:
    found = importlib.import_module("calque.numpy.at")
    return {"_IndexUpdateHelper": found.At, "_IndexUpdateRef": found.Ref}


@_made("jax._src.typing")  # cuthbert, jaxctx, haliax
def _typing() -> dict[str, Any]:
    found = {n: getattr(calque.typing, n) for n in calque.typing.__all__}
    return {**found, "Array": calque.Array, "Shape": tuple[int, ...], "DType": np.dtype,
            "SupportsShape": SupportsShape}


@runtime_checkable
class SupportsShape(Protocol):
    """What has a shape."""

    @property
    def shape(self) -> tuple[int, ...]: ...


@_made("jax._src.interpreters.batching")  # jaxoplanet, jaxdecomp; brainstate
def _batching() -> dict[str, Any]:
    found = importlib.import_module("calque.interpreters.batching")

    def to_elt(trace: Any, get_idx: Any, x: Any, spec: Any) -> Any:
        return x if spec is None else trace.wrap(x, spec % np.ndim(x))
    return {**{n: getattr(found, n) for n in found.__all__},
            **of("calque.transforms.vmap", "BatchTrace", "BatchTracer"), "to_elt": to_elt,
            "make_iota": lambda size: calque.lax.iota("int32", size),
            "is_vmappable": lambda x: type(x) in found.vmappables}


@_made("jax._src.interpreters.ad")  # diffrax
def _ad() -> dict[str, Any]:
    from calque.core.errors import CustomVJPException
    found = importlib.import_module("calque.interpreters.ad")
    return {**{n: getattr(found, n) for n in found.__all__},
            "CustomVJPException": CustomVJPException}


@_made("jax._src.lax.linalg")  # unxt
def _lax_linalg() -> dict[str, Any]:
    found = importlib.import_module("calque.lax.linalg")
    return {n: getattr(found, n) for n in dir(found) if not n.startswith("_")}


@_made("jax._src.lax.control_flow")  # oryx
def _control_flow() -> dict[str, Any]:
    return {n: getattr(calque.lax, n) for n in (
        "associative_scan", "cond", "cond_p", "cummax", "cumsum", "fori_loop", "map", "scan",
        "scan_p", "switch", "while_loop", "while_p")}


@_made("jax._src.scipy.special")  # jaxns, jaxctx
def _special() -> dict[str, Any]:
    return {n: getattr(calque.scipy.special, n) for n in dir(calque.scipy.special)
            if not n.startswith("_")}


@_made("jax._src.nn.functions")  # surjectors
def _nn_functions() -> dict[str, Any]:
    return {n: getattr(calque.nn, n) for n in calque.nn.__all__}


@_made("jax._src.lib.xla_client")  # dynamiqs
def _lib_client() -> dict[str, Any]:
    return _jaxlib()


@_made("jax._src.public_test_util")  # jaxoplanet, tinygp
def _test_util() -> dict[str, Any]:
    def check_close(a: Any, b: Any, atol: Any = None, rtol: Any = None, err_msg: str = "") -> None:
        """As JAX's tests compare: tolerances of the dtype, times the number of elements."""
        usual = {"float64": 1e-15, "complex128": 1e-15, "float16": 1e-3, "bfloat16": 1e-2}

        def most(tolerance: Any, dtype: Any) -> float:
            """A number, or what a dictionary says of a dtype."""
            known = {np.dtype(d).name: t for d, t in tolerance.items()} if isinstance(
                tolerance, dict) else usual
            return float(known.get(dtype.name, usual.get(dtype.name, 0 if dtype.kind in "biu" else (
                1e-6))) if isinstance(tolerance, dict) or tolerance is None else tolerance)

        for x, y in zip(*map(calque.tree_util.tree_leaves, (a, b)), strict=True):
            given, wanted = np.asarray(x), np.asarray(y)
            np.testing.assert_allclose(given, wanted, err_msg=err_msg,
                                       atol=most(atol, given.dtype) * given.size,
                                       rtol=most(rtol, given.dtype) * wanted.size)
    return {**of("calque.test_util", "check_grads", "check_jvp", "check_vjp"),
            "check_close": check_close}


@_made("jax._src.sharding_impls")  # jaxns, oryx
def _sharding_impls() -> dict[str, Any]:
    def canonicalize_sharding(sharding: Any, name: str, check_mesh_consistency: bool = True) -> Any:
        spec = isinstance(sharding, calque.P)
        return calque.NamedSharding(calque.sharding.get_abstract_mesh(), sharding) if spec \
            else sharding
    return {**{n: getattr(calque.sharding, n) for n in calque.sharding.__all__},
            "canonicalize_sharding": canonicalize_sharding, "UNSPECIFIED": None}


@_made("jax._src.numpy.index_tricks")  # unxt (quaxed)
def _index_tricks() -> dict[str, Any]:
    def class_of(name: str, table: Any) -> type:
        return type(name, (), {"__getitem__": lambda self, key: table[key]})
    c, r = calque.numpy.c_, calque.numpy.r_
    return {"c_": c, "r_": r, "CClass": class_of("CClass", c), "RClass": class_of("RClass", r)}


@_made("jax._src.numpy.util")  # s2fft
def _numpy_util() -> dict[str, Any]:
    def promote(*args: Any) -> list[Any]:
        wanted = calque.numpy.result_type(*args)
        return [calque.numpy.asarray(x).astype(wanted) for x in args]

    def promote_inexact(*args: Any) -> list[Any]:
        wanted = dtypes.to_inexact(calque.numpy.result_type(*args))
        return [calque.numpy.asarray(x).astype(wanted) for x in args]

    def promote_complex(*args: Any) -> list[Any]:
        wanted = calque.numpy.promote_types(
            dtypes.to_inexact(calque.numpy.result_type(*args)), calque.numpy.complex64)
        return [calque.numpy.asarray(x).astype(wanted) for x in args]

    def check(name: str, *args: Any, **_: Any) -> None:
        for x in args:
            calque.typeof(x)
    return {"promote_dtypes": promote, "promote_dtypes_inexact": promote_inexact,
            "promote_dtypes_complex": promote_complex, "check_arraylike": check,
            "promote_shapes": lambda name, *xs: list(calque.numpy.broadcast_arrays(*xs))}


@_made("jax._src.pjit")  # quax
def _pjit() -> dict[str, Any]:
    return {"jit_p": primitive.registry["jit"], "pjit_p": primitive.registry["jit"],
            "pjit": calque.experimental.pjit.pjit, **of(
                "calque.sharding", "reshard", "auto_axes", "explicit_axes")}


@_made("jax.extend.ifrt_programs")  # orbax, for Pathways
def _ifrt() -> dict[str, Any]:
    return {"ifrt_programs": types.SimpleNamespace()}


@_made("jax._src.config")  # unxt
def _config() -> dict[str, Any]:
    class State:
        """An option as an object with a value."""

        def __init__(self, name: str) -> None:
            self._name = name

        @property
        def value(self) -> Any:
            return getattr(calque.config, self._name)
    return {"config": calque.config, "numpy_rank_promotion": State("jax_numpy_rank_promotion"),
            "numpy_dtype_promotion": State("jax_numpy_dtype_promotion"),
            "enable_x64": State("jax_enable_x64"), "debug_nans": State("jax_debug_nans")}


@_made("jax.checkpoint_policies")  # a module since JAX 0.11.0
def _policies() -> dict[str, Any]:
    policies = calque.checkpoint_policies
    return {n: getattr(policies, n) for n in dir(policies) if not n.startswith("_")}


@_made("jax._src.distributed")  # orbax
def _distributed() -> dict[str, Any]:
    class State:
        """Which process of how many this is."""

        client = service = None

        @property
        def process_id(self) -> int:
            return calque.process_index()

        @property
        def num_processes(self) -> int:
            return calque.process_count()
    return {"global_state": State(), **of("calque.distributed", "initialize", "shutdown")}


@_made("jax.experimental.array_serialization", "jax.experimental.colocated_python.func",
       "jax.experimental.colocated_python.obj",
       "jax.experimental.array_serialization.tensorstore_impl")
def _nothing_in() -> dict[str, Any]:
    return {}


@_made("jax.experimental.array_serialization.serialization")  # orbax: isinstance only
def _array_serialization() -> dict[str, Any]:
    name = "jax.experimental.array_serialization.serialization"
    return {**{n: nothing(f"{name}.{n}") for n in (
        "GlobalAsyncCheckpointManagerBase", "GlobalAsyncCheckpointManager", "AsyncManager")},
        **{n: absent(f"{name}.{n}", "use calque.checkpoints, or orbax.") for n in (
            "run_serialization", "run_deserialization", "async_serialize", "async_deserialize",
            "get_tensorstore_spec")}}


@_made("jax.experimental.colocated_python.serialization")  # orbax
def _colocated() -> dict[str, Any]:
    return {"DeviceList": tuple, "xb": importlib.import_module("calque.extend.backend")}


@_made("jax.experimental.compilation_cache.compilation_cache")
def _compilation_cache() -> dict[str, Any]:
    found = importlib.import_module("calque.experimental.compilation_cache.compilation_cache")
    return {"initialize_cache": found.set_cache_dir}


__all__ = ["MODULES"]
