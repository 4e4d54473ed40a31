"""Private modules of JAX's by what is public of the same meaning, and by small helpers of ours.

PUBLIC: a module of jax._src -> modules of calque whose names it shows, in order.  GIVEN: a module
-> a function that makes names of its own, which go before those.
"""
from __future__ import annotations

import contextlib
import functools
import itertools
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from stand_in.flags import FLAGS, config_module
from stand_in.private import Private, PrivateUse

PUBLIC: dict[str, list[str]] = {
    **{f"jax.experimental.sparse.{n}": ["experimental.sparse"]
       for n in ("bcoo", "bcsr", "coo", "csr", "util")},
    "api": ["", "tree_util", "core"], "core": ["core", "extend.core", "errors", ""],
    "array": ["", "sharding"], "dtypes": ["dtypes", "numpy", ""], "tree_util": ["tree_util"],
    "tree": ["tree"], "errors": ["errors"], "api_util": ["api_util"],
    "custom_derivatives": ["custom_derivatives", ""], "custom_batching": ["custom_batching"],
    "debugging": ["debug", ""], "debugger": ["debug"], "ad_checkpoint": ["ad_checkpoint", ""],
    "shard_map": ["", "experimental.shard_map"], "pjit": ["experimental.pjit", "", "sharding"],
    "pmap": [""], "mesh": ["sharding", ""], "sharding": ["sharding"],
    "sharding_impls": ["sharding", ""], "named_sharding": ["sharding"],
    "partition_spec": ["sharding"], "stages": ["stages"], "checkify": ["experimental.checkify"],
    "callback": ["", "experimental"], "random": ["random"],
    "random.prng": ["random", "extend.random"], "random.core": ["random"],
    "prng": ["random", "extend.random"], "lax": ["lax"], "lax.lax": ["lax"],
    "lax.control_flow": ["lax"], "lax.linalg": ["lax.linalg"], "lax.parallel": ["lax"],
    "lax.slicing": ["lax"], "lax.convolution": ["lax"], "lax.windowed_reductions": ["lax"],
    "lax.ann": ["lax"], "lax.utils": ["lax"], "lax.control_flow.for_loop": ["lax"],
    "lax.fft": ["lax"], "lax.other": ["lax"], "lax.special": ["lax"],
    "interpreters": ["interpreters"], "interpreters.ad": ["interpreters.ad"],
    "interpreters.batching": ["interpreters.batching", "custom_batching"],
    "interpreters.mlir": ["interpreters.mlir"], "interpreters.xla": ["interpreters.xla"],
    "interpreters.partial_eval": ["interpreters.partial_eval"],
    "interpreters.pxla": ["interpreters.pxla"], "linear_util": ["extend.linear_util"],
    "numpy": ["numpy"], "numpy.lax_numpy": ["numpy"], "numpy.linalg": ["numpy.linalg"],
    "numpy.util": [], "numpy.ufuncs": ["numpy"], "numpy.reductions": ["numpy"],
    "numpy.fft": ["numpy.fft"], "nn": ["nn"], "nn.functions": ["nn"],
    "nn.initializers": ["nn.initializers"], "scipy": ["scipy"],
    "scipy.special": ["scipy.special"], "scipy.linalg": ["scipy.linalg"], "image": ["image"],
    "scipy.stats": ["scipy.stats"], "flatten_util": ["flatten_util"], "export": ["export"],
    "export._export": ["export"], "export.shape_poly": ["export"],
    "typing": ["typing", ""], "state": [], "ref": ["ref", ""],
    "monitoring": ["monitoring"], "profiler": ["profiler"], "ad_util": [], "xla_bridge": [""],
    "dlpack": ["dlpack"], "source_info_util": ["extend.source_info_util"], "ops": ["ops"],
    **{f"pallas{n}": ["experimental.pallas"] for n in (
        "", ".core", ".pallas_call", ".primitives", ".cost_estimate")},
    "state.indexing": ["experimental.pallas"],
    "state.types": ["ref"], "state.primitives": ["ref"], "state.discharge": ["ref"],
}

Names = dict[str, Any]
GIVEN: dict[str, Callable[[], Names]] = {"config": config_module}


def given(name: str) -> Callable[[Callable[[], Names]], Callable[[], Names]]:
    def put(f: Callable[[], Names]) -> Callable[[], Names]:
        GIVEN[name] = f
        return f
    return put


def _map(f: Callable[..., Any], *lists: Iterable[Any]) -> list[Any]:
    return [f(*values) for values in zip(*lists, strict=True)]


def _split(values: Sequence[Any], sizes: Sequence[int]) -> list[list[Any]]:
    ends = [0, *itertools.accumulate(sizes), len(values)]
    return [list(values[a:b]) for a, b in itertools.pairwise(ends)]


def _unzip(n: int) -> Callable[[Iterable[Any]], tuple[Any, ...]]:
    return lambda rows: tuple(zip(*rows)) or ((),) * n


def _partition(flags: Sequence[bool], values: Sequence[Any]) -> list[list[Any]]:
    return [[v for f, v in zip(flags, values) if bool(f) == side] for side in (False, True)]


def _merge(flags: Sequence[bool], first: Iterable[Any], second: Iterable[Any]) -> list[Any]:
    sources = iter(first), iter(second)
    return [next(sources[bool(f)]) for f in flags]


class _Mutex:
    """No lock: one thread runs the tests."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args: None


@given("util")
def _util() -> Names:
    return {"safe_map": _map, "map": _map, "safe_zip": lambda *a: list(zip(*a, strict=True)),
            "zip": lambda *a: list(zip(*a, strict=True)), "split_list": _split,
            "unzip": _unzip, "unzip2": _unzip(2), "unzip3": _unzip(3),
            "partition_list": _partition, "merge_lists": _merge,
            "curry": lambda f: functools.partial(functools.partial, f),
            "tuple_update": lambda t, i, v: (*t[:i], v, *t[i + 1:]), "Mutex": _Mutex,
            "install_failure_signal_handler": lambda: None, "test_event_listener": None,
            "wraps": lambda f, **options: functools.wraps(f),
            "concatenate": lambda xs: list(itertools.chain.from_iterable(xs)),
            "cache": lambda max_size=None, **options: functools.lru_cache(max_size),
            "NumpyComplexWarning": np.exceptions.ComplexWarning}


@given("dlpack")
def _dlpack() -> Names:
    names = [f"{kind}{n}" for kind in ("int", "uint") for n in (8, 16, 32, 64)]
    names += ["bool", "float16", "float32", "float64", "complex64", "complex128"]
    return {"SUPPORTED_DTYPES_SET": frozenset(map(np.dtype, names))}


@given("jax.experimental.mosaic.gpu")
def _mosaic_gpu() -> Names:
    """A limit of GPUs' memory around tests that run on CPUs as well."""
    return {"core": types.SimpleNamespace(
        artificial_shared_memory_limit=lambda limit: contextlib.nullcontext())}


_KINDS = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}
_WITHOUT_X64 = {"float64": "float32", "int64": "int32", "uint64": "uint32",
                "complex128": "complex64"}
_ALL = [
    "bool", "int2", "int4", "int8", "int16", "int32", "int64", "uint2", "uint4", "uint8",
    "uint16", "uint32", "uint64", "bfloat16", "float16", "float32", "float64", "complex64",
    "complex128"]


def _canonical(dtype: Any, allow_extended_dtype: bool = False) -> Any:
    found = np.dtype(_KINDS[dtype] if isinstance(dtype, type) and dtype in _KINDS else dtype)
    return found if FLAGS["jax_enable_x64"].value else np.dtype(
        _WITHOUT_X64.get(found.name, found))


def _dtype_of(x: Any, **options: Any) -> Any:
    return _canonical(_KINDS[type(x)] if type(x) in _KINDS else getattr(
        x, "dtype", np.asarray(x).dtype))


def _to_kind(dtype: Any, kind: Any, least: str) -> Any:
    import jax.numpy as jnp
    found = np.dtype(dtype)
    if jnp.issubdtype(found, kind):
        return found
    if least == "c":
        return np.dtype("complex128" if found.name == "float64" else "complex64")
    return _canonical("float64")


def _bits(dtype: Any) -> int:
    name = np.dtype(dtype).name
    return int(name[-1]) if name in ("int2", "int4", "uint2", "uint4") else np.dtype(
        dtype).itemsize * 8


@given("dtypes")
def _dtypes() -> Names:
    import jax
    import jax.numpy as jnp
    import ml_dtypes
    small = {n: t for n in dir(ml_dtypes) if n.startswith(("float", "int", "uint", "bfloat"))
             and isinstance(t := getattr(ml_dtypes, n), type)}
    defaults = {k: functools.partial(_canonical, n) for k, n in zip(
        "biufc", ("bool", "int64", "uint64", "float64", "complex128"))}
    return {
        **small, "canonicalize_dtype": _canonical,
        "float0": jax.dtypes.float0, "finfo": jnp.finfo, "iinfo": jnp.iinfo,
        "issubdtype": jnp.issubdtype, "result_type": jax.dtypes.result_type,
        "promote_types": jnp.promote_types, "_weak_types": [int, float, complex],
        "_intn_dtypes": [np.dtype(small[n]) for n in ("int2", "int4", "uint2", "uint4")],
        **{f"_float{bits}_dtypes": [np.dtype(t) for n, t in small.items()
                                    if n.startswith(f"float{bits}_")] for bits in (4, 6, 8)},
        "_jax_types": [np.dtype(small.get(n, n)) for n in _ALL],
        "is_weakly_typed": lambda x: bool(getattr(x, "weak_type", type(x) in _KINDS)),
        "bool_": np.bool_, "prng_key": jax.dtypes.prng_key, "extended": jax.dtypes.extended,
        "default_float_dtype": defaults["f"], "default_int_dtype": defaults["i"],
        "default_uint_dtype": defaults["u"], "default_complex_dtype": defaults["c"],
        "to_inexact_dtype": lambda d: _to_kind(d, np.inexact, "f"),
        "to_complex_dtype": lambda d: _to_kind(d, np.complexfloating, "c"),
        "register_canonicalize_value_handler": lambda *args: None,
        "default_types": defaults, "python_scalar_types": set(_KINDS),
        "python_scalar_types_to_dtypes": {k: np.dtype(n) for k, n in _KINDS.items()},
        "dtype": _dtype_of, "is_opaque_dtype": lambda dtype: False,
        "is_python_scalar": lambda x: type(x) in _KINDS, "itemsize_bits": jax.dtypes.itemsize_bits,
        "supports_inf": lambda dtype: bool(np.isinf(np.asarray(np.inf).astype(dtype))),
        "int_dtypes": [np.dtype(n) for n in ("int8", "int16", "int32", "int64")]}


class _Backend:
    platform_version = runtime_type = "calque"

    def __init__(self) -> None:
        import jax
        self.platform = jax.default_backend()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Private(f"xla_bridge.backend.{name}")


@given("xla_bridge")
def _xla_bridge() -> Names:
    import jax
    backend = _Backend()

    def get_backend(*args: Any, **options: Any) -> _Backend:
        return backend
    get_backend.cache_clear = lambda: None  # type: ignore[attr-defined]
    return {"get_backend": get_backend, "backends": lambda: {"cpu": backend},
            "_backends": {"cpu": backend}, "num_cpu_devices": FLAGS["jax_num_cpu_devices"],
            "devices": jax.devices, "local_devices": jax.local_devices,
            "device_count": jax.device_count, "local_device_count": jax.local_device_count,
            "process_count": jax.process_count, "default_backend": jax.default_backend,
            "process_index": jax.process_index, "host_ids": lambda: [0],
            "using_pjrt_c_api": lambda *args: False}


@given("core")
def _core() -> Names:
    import jax

    from calque.core.sharding import ShardingTypeError  # (which is not public in JAX either)
    return {"reset_trace_state": lambda: True, "get_aval": jax.typeof, "typeof": jax.typeof,
            "trace_state_clean": lambda: True, "Tracer": jax.core.Tracer,
            "MemorySpace": jax.memory.Space, "ShardingTypeError": ShardingTypeError,
            "is_constant_dim": lambda d: isinstance(d, int), "is_constant_shape": lambda s: True,
            "NamedShape": Private("core.NamedShape"),
            "concrete_or_error": Private("core.concrete_or_error")}


@given("array")
def _array() -> Names:
    import jax.numpy as jnp
    return {"ArrayImpl": type(jnp.ones(()))}


class _Library:
    is_optimized_build = staticmethod(lambda: True)
    is_asan = is_msan = is_tsan = is_sanitized = staticmethod(lambda: False)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Private(f"jaxlib._jax.{name}")


@given("lib")
def _lib() -> Names:
    return {"version": (0, 10, 2), "version_str": "0.10.2", "_jax": _Library(),
            "jaxlib_extension_version": 10 ** 6}


@given("numpy.util")
def _numpy_util() -> Names:
    import jax
    import jax.numpy as jnp

    def promote_dtypes(*args: Any) -> list[Any]:
        dtype = jnp.result_type(*args) if len(args) > 1 else None
        return [jnp.asarray(a, dtype) for a in args]

    def to(kind: Any, least: Any) -> Callable[..., list[Any]]:
        def promote(*args: Any) -> list[Any]:
            dtype = jnp.result_type(*args)
            if not jnp.issubdtype(dtype, kind):
                with jax.numpy_dtype_promotion("standard"):  # (a test may be strict)
                    dtype = jnp.zeros((), jnp.promote_types(dtype, least)).dtype
            return [jnp.asarray(a, dtype) for a in args]
        return promote

    def to_inexact(dtype: Any) -> Any:
        return np.dtype(dtype) if jnp.issubdtype(dtype, jnp.inexact) else jnp.zeros(
            (), jnp.float_).dtype
    return {"promote_dtypes": promote_dtypes, "_to_inexact": to_inexact,
            "promote_dtypes_inexact": to(jnp.inexact, jnp.float_),
            "promote_dtypes_complex": to(jnp.complexfloating, jnp.complex64)}


class _NoCache:
    misses = 0

    def cache_info(self) -> _NoCache:
        return self

    def cache_clear(self) -> None:
        pass


@given("dispatch")
def _dispatch() -> Names:
    from jax.interpreters.xla import apply_primitive
    return {"xla_primitive_callable": _NoCache(), "simple_impl": lambda primitive:
            primitive.def_impl(functools.partial(apply_primitive, primitive))}


@given("sharding_impls")
def _sharding() -> Names:
    import jax
    return {"make_mesh": lambda shape, names, types=None, **k: jax.make_mesh(
                shape, names, axis_types=types, **k)}


@given("mesh")
def _mesh() -> Names:
    import jax

    from calque.core.mesh import NO_MESH  # (which is not public in JAX either)
    return {"empty_concrete_mesh": NO_MESH, "empty_abstract_mesh": NO_MESH.abstract_mesh,
            "get_abstract_mesh": jax.sharding.get_abstract_mesh}


@given("typing")
def _typing() -> Names:
    import jax
    return {"ArrayLike": Any, "DTypeLike": Any, "Shape": Any, "Array": jax.Array, "DType": Any}


@given("random.prng")
def _prng() -> Names:
    return {"prngs": {n: Private(f"prngs[{n}]") for n in ("threefry2x32", "rbg", "unsafe_rbg")},
            "PRNGImpl": lambda **k: Private("random.prng.PRNGImpl(...)")}


@given("debugging")
def _debugging() -> Names:
    import jax
    names = {n: getattr(jax.debug, n, Private(f"debugging.{n}")) for n in (
        "visualize_sharding", "visualize_array_sharding", "inspect_array_sharding")}
    return {"debug_print": jax.debug.print, "debug_callback": jax.debug.callback, **names}


@given("effects")
def _effects() -> Names:
    return {"Effect": type("Effect", (), {}), "effects": Private("effects.effects")}


@given("traceback_util")
def _tracebacks() -> Names:
    return {"api_boundary": lambda f=None, **k: f if f is not None else (lambda g: g)}


@given("lax.windowed_reductions")
def _windowed_reductions() -> Names:
    import jax
    from jax import lax

    def shaped(tangents: Any, operand: Any, select: Any, dimensions: Any, strides: Any,
               padding: Any, *dilations: Any) -> Any:
        """An array of the right shape: a table of cases is made with it."""
        if not isinstance(operand, jax.core.Tracer):
            raise PrivateUse("lax.windowed_reductions._select_and_gather_add")
        largest = lax.reduce_window(operand.astype("float32"), 0., lax.max, dimensions, strides,
                                    padding, *dilations)
        return largest.astype(operand.dtype)
    return {"_select_and_gather_add": shaped}


@given("hypothesis_test_util")
def _hypothesis() -> Names:
    import hypothesis
    profile = dict(deadline=None, max_examples=5, derandomize=True, database=None, print_blob=False,
                   suppress_health_check=list(hypothesis.HealthCheck))

    def set_up(max_examples: int | None = None) -> None:
        hypothesis.settings.register_profile("suite", **profile)
        hypothesis.settings.load_profile("suite")
    return {"setup_hypothesis": set_up, "hypothesis_is_thread_safe": lambda: False}


@given("layout")
def _layout() -> Names:
    from jax.experimental import layout
    return {n: getattr(layout, n) for n in layout.__all__}


GIVEN |= {  # modules of a few constants
    "lax.lax": lambda: {"remaining": lambda of, *gone: [
        i for i in of if i not in itertools.chain(*gone)]},
    "lib.cuda_versions": dict, "numpy.indexing": dict, "random.threefry2x32": dict,
    "deprecations": lambda: {"is_accelerated": lambda name: False},
    "compilation_cache": lambda: {"_cache": None, "is_persistent_cache_enabled": lambda: False,
                                  "reset_cache": lambda: None},
    "cloud_tpu_init": lambda: {"running_in_cloud_tpu_vm": False},
    "interpreters.mlir": lambda: {"_platforms_with_donation": ["cpu", "cuda", "rocm", "tpu"]}}
