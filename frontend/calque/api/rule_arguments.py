"""How functions with rules of their own take arguments: by position, however they are called.

Used by custom_derivatives and custom_batching.  Start reading at `resolved`.
"""
from __future__ import annotations

import functools
import inspect
import weakref
from typing import Any

from calque.core.errors import explain
from calque.core.naming import name_of, signature_of
from calque.core.types import Function


class HandsOn:
    """What lets rules of the function that it holds be set through it."""

    fun: Function

    def __repr__(self) -> str:
        return f"<calque.{type(self).__name__} of {name_of(self.fun)}>"

    def __getattr__(self, name: str) -> Any:
        if name in ("def_vmap", "defjvp", "defjvps", "defvjp"):
            return getattr(self.fun, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


_signatures: weakref.WeakKeyDictionary[Any, inspect.Signature] = weakref.WeakKeyDictionary()


def _any_number(*args: Any) -> None:
    pass


def _signature(fun: Function) -> inspect.Signature | None:
    """The signature of a function, remembered: 50 us each time otherwise."""
    try:
        found = _signatures.get(fun)
        if found is None:
            found = _signatures[fun] = inspect.signature(fun)
        return found
    except Exception:  # noqa: BLE001  (it has no hash or no weak references, or answers oddly)
        pass
    return signature_of(fun)


def resolved(fun: Function, args: tuple[Any, ...], kwargs: dict[str, Any], kind: str
             ) -> tuple[Any, ...]:
    """All arguments by position, defaults filled in; kind: of the rule, as "custom_jvp"."""
    given = fun
    if isinstance(fun, functools.partial):  # its keywords are set, whatever its signature says
        fun = _any_number
    signature = _signature(fun)
    if signature is None:
        if not kwargs:
            return args
        raise _unresolved(kind, given, " Its signature is not known.")
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise _unresolved(kind, given, f" Binding failed with the error:\n{error}") from None
    bound.apply_defaults()
    if bound.kwargs:
        raise _unresolved(kind, given, "\nThe following keyword arguments could not be resolved to "
                          f"positions: {', '.join(bound.kwargs)}")
    return bound.args


def _unresolved(kind: str, fun: Function, why: str) -> TypeError:
    return TypeError(explain(
        f"The input arguments to the {kind}-decorated function {name_of(fun)} could not be "
        f"resolved to positional-only arguments.{why}",
        fix="functions with rules of their own take arguments by position."))


def positions(fun: Function, numbers: Any, names: Any) -> tuple[int, ...]:
    """Sorted positions of the arguments named by number or by name."""
    numbers = (numbers,) if isinstance(numbers, int) else tuple(numbers)
    names = (names,) if isinstance(names, str) else tuple(names)
    if names:
        parameters = list(inspect.signature(fun).parameters)
        numbers += tuple(parameters.index(n) for n in names)
    return tuple(sorted(set(numbers)))
