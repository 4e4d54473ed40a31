"""What a traced value answers when Python or NumPy asks for its value.

Where a derivative is taken outside jit the value is known: a choice may depend on it (bool, int,
item, an index: what these give has no derivative), but whatever would carry it on past the trace
(float, complex, NumPy's protocols) would be a constant, whose derivative is silently 0.
Imports core only; dispatch/array.py installs it.  Start reading at `install`.
"""
from __future__ import annotations

from typing import Any

from calque.core import dtypes
from calque.core.errors import (
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    explain,
)
from calque.core.trace import Tracer, concretization_error


def _as_bool(x: Tracer) -> bool:
    known = x.concrete()
    if known is not None:
        return bool(known)
    if x.aval.size == 0:
        raise ValueError(explain("The truth value of an empty array is ambiguous.",
                                 fix="ask for x.size, or use x.any() or x.all()."))
    if x.aval.size != 1:
        raise ValueError(explain(
            "The truth value of an array with more than one element is ambiguous.",
            fix="use x.any() or x.all()."))
    raise concretization_error(
        x, f"Attempted boolean conversion of traced array with shape {x.aval.short()}.",
        "use jnp.where(cond, a, b), lax.cond, or mark the argument as static.",
        TracerBoolConversionError)


def _scalar(kind: type) -> Any:
    def convert(x: Tracer) -> Any:
        if x.aval.shape:
            raise TypeError(explain(
                f"Only scalar arrays can be converted to Python scalars; got arr.ndim="
                f"{x.aval.ndim}", fix="index the element you mean."))
        known = x.concrete() if kind is int else None
        if known is not None:
            return kind(known)
        raise concretization_error(
            x, f"Abstract tracer value encountered where concrete value is expected: "
            f"traced array with shape {x.aval.short()}. The {kind.__name__}() function was applied "
            f"to it. If trying to convert the data type of a value, try using `x.astype("
            f"{kind.__name__})` or `jnp.array(x, {kind.__name__})` instead.",
            f"use x.astype({kind.__name__}) and calque.numpy's functions, or "
            "lax.stop_gradient(x) where a derivative of 0 is meant.")
    return convert


def _index(x: Tracer) -> int:
    if not dtypes.is_integer(x.dtype) or x.aval.shape:
        raise TypeError("Only integer scalar arrays can be converted to a scalar index.")
    known = x.concrete()
    if known is not None:
        return known.__index__()
    raise concretization_error(
        x, "The __index__() method was called on traced array with shape "
        f"{x.aval.short()}.", "mark the argument as static, or index with jnp operations.",
        TracerIntegerConversionError)


def _as_array(x: Tracer, dtype: Any = None, copy: bool | None = None) -> Any:
    raise concretization_error(
        x, "The numpy.ndarray conversion method __array__() was called on traced array with shape "
        f"{x.aval.short()}.", "use calque.numpy functions instead of NumPy's inside transformed "
        "functions, or lax.stop_gradient(x) where a derivative of 0 is meant.",
        TracerArrayConversionError)


def _needs_value(name: str, leaves: bool = True) -> Any:
    """A method of arrays with a value; leaves: what it gives carries the value out of the trace."""
    def method(x: Tracer, *args: Any, **kwargs: Any) -> Any:
        known = None if leaves else x.concrete()
        if known is not None:
            return getattr(known, name)(*args, **kwargs)
        raise concretization_error(
            x, "Abstract tracer value encountered where concrete value is expected. The "
            f"{name}() method was called on traced array with shape {x.aval.short()}.",
            "return the value from the transformed function and look at it outside.")
    return method


def _len(x: Tracer) -> int:
    if not x.shape:
        raise TypeError("len() of unsized object")
    return x.shape[0]


_LEAVING = ("tolist", "delete", "__reduce__", "__dlpack__")


def install(array: type) -> None:
    """Give tracers the methods that answer; documentation is that of arrays' methods."""
    methods = {"__bool__": _as_bool, "__int__": _scalar(int),
               "__float__": _scalar(float), "__complex__": _scalar(complex),
               "__index__": _index, "__array__": _as_array, "__len__": _len,
               "item": _needs_value("item", False),
               **{name: _needs_value(name) for name in _LEAVING},
               "__copy__": lambda x: x, "__deepcopy__": lambda x, memo: x,
               "block_until_ready": lambda x: x, "is_deleted": lambda x: False,
               "nbytes": property(lambda x: x.aval.nbytes),
               "itemsize": property(lambda x: x.aval.dtype.itemsize)}
    for name, f in methods.items():
        if not name.startswith("_"):
            f.__doc__ = getattr(array, name).__doc__
        setattr(Tracer, name, f)
