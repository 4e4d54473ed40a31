"""What is asked of a function that is wrapped: its name, its signature, its attributes.

Functions come as partials, objects that are called, bound methods, builtins; their attributes may
be of any type, raise, or answer to every name.  None of that is an error of a transformation.
Start reading at `attribute`.
"""
from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_KINDS = {"__name__": str, "__qualname__": str, "__annotations__": dict}
_MOST = 100  # wrappers around wrappers: an object may answer __wrapped__ with itself for ever


def attribute(fun: Any, name: str, default: Any = None) -> Any:
    """getattr that never raises."""
    try:
        return getattr(fun, name, default)
    except Exception:  # noqa: BLE001  (whatever a __getattr__ does)
        return default


def name_of(fun: Any) -> str:
    """The function's name for programs and messages."""
    while isinstance(fun, functools.partial):
        fun = fun.func
    name = attribute(fun, "__name__")  # (of an object that answers to any name, whatever)
    return name if isinstance(name, str) else type(fun).__name__


def dress(new: Any, fun: Any, attributes: bool = False) -> Any:
    """functools.update_wrapper with what of fun is as Python has it; attributes: its own, too, but
    for those by which a class of ours works (`_internals`), or new does."""
    for name in functools.WRAPPER_ASSIGNMENTS:
        value = attribute(fun, name, inspect.Parameter.empty)
        if value is not inspect.Parameter.empty and isinstance(value, _KINDS.get(name, object)):
            setattr(new, name, value)
    own = attribute(fun, "__dict__")
    if attributes and isinstance(own, dict):
        hidden = attribute(type(fun), "_internals", frozenset())
        new.__dict__.update({k: v for k, v in own.items()
                             if k not in hidden and k not in new.__dict__
                             and not hasattr(type(new), k)})
    new.__wrapped__ = fun
    return new


def alias(fun: F, name: str) -> F:
    """The function under another name of its own."""
    new = types.FunctionType(fun.__code__, fun.__globals__, name, fun.__defaults__,
                             fun.__closure__)
    new.__dict__.update(fun.__dict__)
    new.__doc__, new.__module__ = fun.__doc__, fun.__module__
    new.__kwdefaults__, new.__annotations__ = fun.__kwdefaults__, fun.__annotations__
    new.__qualname__ = name
    return new  # type: ignore[return-value]


def wraps(fun: Any) -> Callable[[F], F]:
    """functools.wraps for functions of any kind."""
    def decorate(new: F) -> F:
        dress(new, fun, attributes=True)
        return new
    return decorate


def innermost(fun: Any) -> Any:
    """What wrappers are around."""
    for _ in range(_MOST):
        inner = attribute(fun, "__wrapped__")
        if inner is None or inner is fun:
            break
        fun = inner
    return fun


def signature_of(fun: Any) -> inspect.Signature | None:
    """Its signature, if Python can say one."""
    try:
        return inspect.signature(fun)
    except Exception:  # noqa: BLE001  (TypeError, ValueError, and whatever a __getattr__ does)
        return None


def makes_generators(fun: Any) -> bool:
    """Whether its body has a yield."""
    try:
        return inspect.isgeneratorfunction(fun)
    except Exception:  # noqa: BLE001  (as above: Python asks for attributes)
        return False


__all__ = ["attribute", "dress", "innermost", "makes_generators", "name_of", "signature_of",
           "wraps"]
