"""Public names at their private address: `from jax._src.basearray import Array`.

An editor that completes an import takes the module that defines a name, and programs that copy an
initializer or an optimizer of JAX's copy its imports.  PUBLIC says which module of ours has the
public names of a private one; what else is asked of such a module is in private.py, or is not here.
"""
from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

import calque
from calque.compat.libraries import MODULES
from calque.compat.private import of
from calque.core.trace import current

PUBLIC = {
    "jax._src.custom_derivatives": "calque.custom_derivatives",
    "jax._src.errors": "calque.errors",
    "jax._src.image.scale": "calque.image",
    "jax._src.interpreters.partial_eval": "calque.interpreters.partial_eval",
    "jax._src.lax.control_flow.conditionals": "calque.lax",
    "jax._src.lax.control_flow.loops": "calque.lax",
    "jax._src.lax.convolution": "calque.lax",
    "jax._src.lax.fft": "calque.lax",
    "jax._src.lax.parallel": "calque.lax",
    "jax._src.lax.slicing": "calque.lax",
    "jax._src.lax.special": "calque.lax",
    "jax._src.lax.windowed_reductions": "calque.lax",
    "jax._src.linear_util": "calque.extend.linear_util",
    "jax._src.nn.initializers": "calque.nn.initializers",
    "jax._src.numpy.einsum": "calque.numpy",
    "jax._src.numpy.fft": "calque.numpy.fft",
    "jax._src.numpy.indexing": "calque.numpy",
    "jax._src.numpy.polynomial": "calque.numpy",
    "jax._src.numpy.setops": "calque.numpy",
    "jax._src.numpy.sorting": "calque.numpy",
    "jax._src.ops.scatter": "calque.ops",
    "jax._src.random": "calque.random",
    "jax._src.scipy.cluster.vq": "calque.scipy.cluster.vq",
    "jax._src.scipy.fft": "calque.scipy.fft",
    "jax._src.scipy.integrate": "calque.scipy.integrate",
    "jax._src.scipy.linalg": "calque.scipy.linalg",
    "jax._src.scipy.ndimage": "calque.scipy.ndimage",
    "jax._src.scipy.optimize.minimize": "calque.scipy.optimize",
    "jax._src.scipy.signal": "calque.scipy.signal",
    "jax._src.scipy.spatial.transform": "calque.scipy.spatial.transform",
    "jax._src.stages": "calque.stages",
    "jax._src.third_party.scipy.interpolate": "calque.scipy.interpolate",
}
PACKAGES = ("jax._src.image", "jax._src.ops", "jax._src.scipy.cluster", "jax._src.scipy.optimize",
            "jax._src.scipy.spatial", "jax._src.third_party", "jax._src.third_party.scipy")


def _names(module: str) -> dict[str, Any]:
    found = importlib.import_module(module)
    return {n: getattr(found, n) for n in dir(found) if not n.startswith("_")}


def _of(module: str) -> Callable[[], dict[str, Any]]:
    return lambda: _names(module)


def _debugging() -> dict[str, Any]:
    found = calque.debug
    return {**_names("calque.debug"), "debug_callback": found.callback, "debug_print": found.print}


def _disk(key: Any, shape: Any, dtype: Any, upper: float | None) -> Any:
    """Complex draws in a disk, of variance 1."""
    draw = importlib.import_module("calque.nn.initializers")._disk
    return draw(key, shape, np.result_type(dtype, np.complex64), upper)


def unzip3(triples: Iterable[tuple[Any, Any, Any]]) -> tuple[tuple[Any, ...], ...]:
    """The first, the second and the third items of triples."""
    whole = list(triples)
    return tuple(tuple(t[i] for t in whole) for i in range(3))


def partition_list(second: Sequence[bool], values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The values whose mark is False, and those whose mark is True."""
    marked = list(zip(second, values, strict=True))
    return [v for s, v in marked if not s], [v for s, v in marked if s]


def merge_lists(second: Sequence[bool], first: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """What `partition_list` took apart."""
    a, b = iter(first), iter(others)
    return [next(b) if s else next(a) for s in second]


def set_module(name: str) -> Callable[[Any], Any]:
    """A decorator that says of a function or a class that it is of the module `name`."""
    def put(found: Any) -> Any:
        found.__module__ = name
        return found
    return put


def canonicalize_axis(axis: int, ndim: int) -> int:
    """An axis counted from the first; ValueError where there is none."""
    if not -ndim <= axis < ndim:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {ndim}")
    return axis % ndim


class TraceContext:
    """Where JAX keeps the current trace (brainstate)."""

    @property
    def trace(self) -> Any:
        return current.get()


class EquationContext:
    """What JAX keeps beside an equation of the options under which it was traced: nothing here."""

    def __init__(self, compute_type: Any = None, threefry_partitionable: bool = True) -> None:
        self.compute_type, self.threefry_partitionable = compute_type, threefry_partitionable


def _more(module: str, more: Callable[[], dict[str, Any]]) -> None:
    """Names beside those that a row has."""
    before = MODULES[module]
    MODULES[module] = lambda: {**before(), **more()}


MODULES.update({name: _of(module) for name, module in PUBLIC.items()})
MODULES.update(dict.fromkeys(PACKAGES, dict))
_more("jax._src.nn.initializers", lambda: {  # e3x
    "_complex_uniform": lambda key, shape, dtype: _disk(key, shape, np.dtype(dtype), None),
    "_complex_truncated_normal": lambda key, upper, shape, dtype: _disk(
        key, shape, np.dtype(dtype), upper)})
MODULES["jax._src.basearray"] = lambda: {"Array": calque.Array}
MODULES["jax._src.debugging"] = _debugging
_more("jax._src.core", lambda: {
    "Shape": Sequence[int], "AxisName": str, "AxisSize": int, "DimSize": int,
    **of("calque.errors", "ConcretizationTypeError", "UnexpectedTracerError"),
    "is_constant_shape": lambda shape: all(type(n) is int for n in shape),
    "trace_ctx": TraceContext(), "JaxprEqnContext": EquationContext})
_more("jax._src.dtypes", lambda: {
    **_names("calque.dtypes"), "dtype": lambda x: calque.typeof(x).dtype,
    "is_weakly_typed": lambda x: calque.typeof(x).weak_type})
_more("jax._src.numpy.linalg", _of("calque.numpy.linalg"))
_more("jax._src.mesh", lambda: of("calque.sharding", "Mesh", "get_abstract_mesh"))
_more("jax._src.util", lambda: {f.__name__: f for f in (
    unzip3, partition_list, merge_lists, set_module, canonicalize_axis)})
_more("jax._src.xla_bridge", lambda: of(
    "calque", "device_count", "devices", "local_device_count", "local_devices", "process_count",
    "process_index", "default_backend"))

__all__ = ["MODULES"]
