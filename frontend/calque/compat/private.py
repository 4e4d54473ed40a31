"""JAX's private modules that libraries touch, and public ones that calque has not, in a few lines.

A row of MODULES is a module's name and a function that gives its names.  What is of ours under
another name is that; what libraries only import, or ask isinstance of, is a class without
instances, or a function that raises when it is called (`absent`).  Names that nobody touched are
not here.
"""
from __future__ import annotations

import functools
import importlib
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import optree

import calque
from calque.core import dtypes, mesh, primitive, source, trace, tracebacks, zeros
from calque.core.errors import explain
from calque.core.types import Function
from calque.trees.nodes import NAMESPACE

JAX_VERSION = "0.10.2"  # the release whose API is kept
STUB = "__calque_stub__"  # an attribute of what raises when it is used
MODULES: dict[str, Callable[[], dict[str, Any]]] = {}


def _made(*names: str) -> Callable[[Callable[[], dict[str, Any]]], Any]:
    def put(f: Callable[[], dict[str, Any]]) -> Any:
        MODULES.update(dict.fromkeys(names, f))
        return f
    return put


def absent(name: str, instead: str = "this part of JAX is not in calque.") -> Any:
    """A function that says that it is not here."""
    def call(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(explain(f"calque.compat has no {name}.", fix=instead))
    call.__name__ = call.__qualname__ = name.rpartition(".")[2]
    setattr(call, STUB, True)
    return call


def nothing(name: str) -> type:
    """A class that nothing is an instance of."""
    return type(name.rpartition(".")[2], (), {
        "__init__": lambda self, *args, **kwargs: absent(name)(),
        STUB: True, "__doc__": f"{name} of JAX: nothing here is an instance of it."})


def _nothing(*names: str) -> dict[str, Any]:
    return {n: nothing(n) for n in names}


def of(module: str, *names: str) -> dict[str, Any]:
    """Names of a module of ours."""
    found = importlib.import_module(module)
    return {n: getattr(found, n) for n in names}


# ---- packages that hold modules
@_made("jax._src", "jax._src.interpreters", "jax._src.state", "jax._src.lib", "jax._src.lib.mlir",
       "jax._src.lib.mlir.dialects", "jax._src.numpy", "jax._src.nn", "jax._src.lax",
       "jax._src.scipy", "jaxlib.mlir", "jaxlib.mlir.dialects", "jax.experimental")
def _package() -> dict[str, Any]:
    return {}


@_made("jax.version", "jaxlib.version", "jax.lib")
def _version() -> dict[str, Any]:
    return {"__version__": JAX_VERSION,
            "__version_info__": tuple(map(int, JAX_VERSION.split(".")))}


@_made("jax._src.monitoring")
def _monitoring() -> dict[str, Any]:
    return of("calque.monitoring", *calque.monitoring.__all__)


@_made("jax._src.profiler")
def _profiler() -> dict[str, Any]:
    return of("calque.profiler", *calque.profiler.__all__)


# ---- jax._src
@_made("jax._src.core")
def _core() -> dict[str, Any]:
    from calque.extend import core as extended
    return {**of("calque.core", *calque.core.__all__),
            **{n: getattr(extended, n) for n in extended.__all__},
            "Ref": calque.Ref,
            "trace_state_clean": trace.at_bottom, "is_constant_dim": lambda d: isinstance(d, int),
            "get_aval": calque.typeof, "typeof": calque.typeof}


@_made("jax._src.array")
def _array() -> dict[str, Any]:
    def _reconstruct_array(make: Function, args: Any, state: Any, aval: dict[str, Any]) -> Any:
        """An array of JAX's out of a pickle: NumPy's values, and whether its type is weak."""
        value = make(*args)
        value.__setstate__(state)
        x = calque.numpy.asarray(value)
        convert = primitive.registry["convert_element_type"]
        return convert.bind(x, new_dtype=x.dtype, weak_type=True, sharding=None) \
            if aval.get("weak_type") else x

    return {"_reconstruct_array": _reconstruct_array}


@_made("jax._src.dtypes")
def _dtypes() -> dict[str, Any]:
    class ExtendedDType:
        """The base of dtypes that are no NumPy dtypes (of libraries: fp8 of flax)."""

    def to_inexact_dtype(dtype: Any) -> Any:
        kind = np.dtype(dtype)
        return kind if kind.kind not in "biu" else np.dtype("f8" if kind.itemsize == 8 else "f4")

    extended = type("extended", (np.generic,), {"__doc__": "The scalar types of such dtypes."})
    return {"DType": np.dtype, "ExtendedDType": ExtendedDType, "extended": extended,
            "TypePromotionError": calque.errors.TypePromotionError, "float0": dtypes.float0,
            "canonicalize_dtype": calque.dtypes.canonicalize_dtype,
            "issubdtype": calque.numpy.issubdtype,
            "finfo": calque.numpy.finfo, "iinfo": calque.numpy.iinfo,  # flax's fp8_ops
            "supports_inf": lambda dtype: bool(np.isinf(np.array(np.inf).astype(dtype))),
            "bfloat16": calque.numpy.bfloat16, "to_inexact_dtype": to_inexact_dtype,
            "to_complex_dtype": lambda dtype: np.result_type(
                to_inexact_dtype(dtype), np.complex64)}  # tinygp's tests


@_made("jax._src.traceback_util")
def _traceback_util() -> dict[str, Any]:
    def boundary(fun: Any = None, **_: Any) -> Any:
        return boundary if fun is None else tracebacks.boundary(fun)
    return {"register_exclusion": source.register_exclusion, "api_boundary": boundary,
            "include_frame": lambda frame: not source.is_ours(frame.f_code.co_filename)}


@_made("jax._src.source_info_util")
def _source_info() -> dict[str, Any]:
    found = importlib.import_module("calque.extend.source_info_util")
    return {n: getattr(found, n) for n in found.__all__}


@_made("jax._src.ad_util")
def _ad_util() -> dict[str, Any]:
    return {"stop_gradient_p": primitive.registry["stop_gradient"], "Zero": zeros.Zero,
            "add_jaxvals_p": primitive.registry["add_any"],
            "instantiate": zeros.instantiate, "zeros_like_aval": zeros.zeros,
            "SymbolicZero": calque.custom_derivatives.SymbolicZero}


@_made("jax._src.dispatch")
def _dispatch() -> dict[str, Any]:
    from calque.interpreters.xla import apply_primitive

    class Tokens:
        """Effects run in order without tokens."""

        def clear(self) -> None:
            """There are none."""

        def block_until_ready(self) -> None:
            """Wait for what was started."""
            calque.effects_barrier()
    return {"wait_for_tokens": calque.effects_barrier, "apply_primitive": apply_primitive,
            "runtime_tokens": Tokens()}


@_made("jax._src.api")  # JAX's page on primitives
def _api() -> dict[str, Any]:
    return {**{n: getattr(calque, n) for n in calque.__all__
               if isinstance(getattr(calque, n), types.FunctionType)},
            "ShapeDtypeStruct": calque.ShapeDtypeStruct, "_dtype": calque.dtypes.result_type}


@_made("jax._src.lax.lax")
def _lax() -> dict[str, Any]:
    return {n: getattr(calque.lax, n) for n in calque.lax.__all__}


@_made("jax._src.literals")
def _literals() -> dict[str, Any]:
    return _nothing("TypedNdArray", "TypedInt", "TypedFloat", "TypedComplex")


@_made("jax._src.earray")
def _earray() -> dict[str, Any]:
    return _nothing("EArray")


@_made("jax._src.interpreters.pxla", "jax._src.interpreters.mlir", "jax._src.interpreters.xla")
def _nowhere() -> dict[str, Any]:
    return {}


@_made("jax._src.mesh")
def _mesh() -> dict[str, Any]:
    return {n: getattr(mesh, n) for n in ("Mesh", "AbstractMesh", "AxisType") if hasattr(mesh, n)}


@_made("jax._src.checkify")
def _checkify() -> dict[str, Any]:
    found = calque.experimental.checkify
    return {**{n: getattr(found, n) for n in found.__all__},
            **of("calque.experimental.checks", "JaxException", "FailedCheckError", "NaNError",
                 "OOBError", "DivisionByZeroError", "check_p")}


@_made("jax._src.state.types")
def _state() -> dict[str, Any]:
    return {"AbstractRef": calque.ref.AbstractRef}


@_made("jax._src.compiler")
def _compiler() -> dict[str, Any]:
    return {"backend_compile": absent("jax._src.compiler.backend_compile")}


@_made("jax._src.xla_bridge")
def _xla_bridge() -> dict[str, Any]:
    class Backends(Mapping[str, Any]):
        """The platforms in use, none before a device was asked for (chex.set_n_cpu_devices)."""

        def __iter__(self) -> Iterator[str]:
            return iter(calque.extend.backend.backends() if calque.runtime.device.is_used() else ())

        def __len__(self) -> int:
            return sum(1 for _ in self)

        def __getitem__(self, name: str) -> Any:
            if name not in tuple(self):
                raise KeyError(name)
            return calque.extend.backend.backends()[name]

    return {"_backends": Backends(), "get_backend": absent("jax._src.xla_bridge"),
            "default_backend": calque.default_backend, "backends": lambda: {"cpu": object()}}


@_made("jax._src.flatten_util")
def _flatten() -> dict[str, Any]:
    return of("calque.flatten_util", "ravel_pytree")


@_made("jax._src.util")
def _util() -> dict[str, Any]:
    def safe_zip(*args: Any) -> list[Any]:
        return list(zip(*args, strict=True))

    def split_list(args: Any, sizes: Any) -> list[Any]:
        rest, parts = list(args), []
        for n in sizes:
            parts.append(rest[:n])
            rest = rest[n:]
        return [*parts, rest]

    def unzip2(pairs: Any) -> Any:
        pairs = list(pairs)
        return tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
    return {"safe_map": calque.api_util.safe_map, "safe_zip": safe_zip, "split_list": split_list,
            "unzip2": unzip2, "wraps": lambda f, **_: functools.wraps(f)}


@_made("jax._src.tree_util")
def _tree_util() -> dict[str, Any]:
    found = calque.tree_util
    return {**{n: getattr(found, n) for n in found.__all__}, "_registry": _Registry()}


class _Registry:
    """`type in _registry`: whether instances are nodes; `_registry[type]`: how they are taken
    apart (jaxlie)."""

    def __contains__(self, kind: Any) -> bool:
        return calque.tree_util.is_tree_node(kind)

    def __getitem__(self, kind: Any) -> Any:
        if kind not in self:
            raise KeyError(kind)
        return types.SimpleNamespace(
            to_iter=calque.tree_util.flatten_one_level,
            from_iter=lambda metadata, children: _node(kind, metadata, children))


def _node(kind: Any, metadata: Any, children: Any) -> Any:
    """The node of a kind that flatten_one_level takes apart into these."""
    if kind is type(None):
        return None
    if kind is dict:
        return dict(zip(metadata, children, strict=True))
    if kind is list or kind is tuple:
        return kind(children)
    if issubclass(kind, tuple):
        return kind(*children)
    found = optree.register_pytree_node.get(kind, namespace=NAMESPACE)
    return found.unflatten_func(metadata, tuple(children))


@_made("jax._src.lib.mlir.dialects.hlo", "jaxlib.mlir.dialects.stablehlo")
def _hlo() -> dict[str, Any]:
    """Operations of StableHLO whose result has the type of their first operand: AddOp, ..."""
    from calque.lowering.emit.mlir import ir

    def operation(name: str) -> Function:
        def make(*operands: Any) -> Any:
            values = [getattr(v, "result", v) for v in operands]
            return ir().Operation.create(f"stablehlo.{name}", results=[values[0].type],
                                         operands=values)
        return make
    words = ("Add", "Sub:subtract", "Mul:multiply", "Div:divide", "Max:maximum", "Min:minimum",
             "Neg:negate", "Exp:exponential", "Log", "Sin:sine", "Cos:cosine", "Tanh", "Sqrt",
             "Abs", "And", "Or", "Xor", "Not", "Floor", "Ceil")
    made = {}
    for word in words:
        short, _, name = word.partition(":")
        made[f"{short}Op"] = operation(name or short.lower())
    return made


# ---- public modules that calque has not
@_made("jax.experimental.hijax", "jax._src.hijax")
def _hijax() -> dict[str, Any]:
    class HiPrimitive:
        """A primitive on types of a library's own: it can be made, and not be bound."""

        def __init__(self, name: str) -> None:
            self.name = name

        def bind(self, *args: Any, **params: Any) -> Any:
            """Not here."""
            return absent(f"jax.experimental.hijax ({self.name})",
                          "leave variables in their plain form: no hijax=True.")()

    class Types:
        """Kinds of effects; nothing asks for them."""

        def add_type(self, kind: type) -> None:
            """Noted by nobody."""
    return {"HiPrimitive": HiPrimitive, "control_flow_allowed_effects": Types(),
            "register_hitype": lambda kind, typeof: None, "Zero": zeros.Zero,
            "AbstractValue": calque.core.AbstractValue, "ShapedArray": calque.core.ShapedArray,
            "instantiate_zeros": zeros.instantiate,
            "is_undefined_primal": primitive.is_linear,
            "aval_method": staticmethod, "aval_property": property,
            **_nothing("HiType", "MutableHiType", "AvalQDD", "AvalMutableQDD", "Box")}


__all__ = ["MODULES", "absent", "nothing"]
