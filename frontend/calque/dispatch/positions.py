"""What jit was told: which arguments of a function, by position or by name, and where a call in
another traced function is written out (`Inline`).

`resolve` makes both of each, by the function's signature; start reading there.
"""
from __future__ import annotations

import enum
from typing import Any

import numpy as np

from calque.core.errors import explain
from calque.core.naming import signature_of
from calque.core.trace import Tracer, concretization_error
from calque.trees import util as tree_util

__all__ = ["Inline", "as_ints", "as_names", "check_hashable", "check_places", "resolve"]


class Inline(enum.Enum):
    """How `jit(inline=...)` treats a call in another traced function (JAX 0.11).

    JAX_EARLY writes the operations out while tracing, as True does.  With the others the call stays
    one equation, and lowering decides.

    Example:
      >>> import calque
      >>> f = calque.jit(lambda x: x + 1, inline=calque.Inline.JAX_EARLY)
      >>> str(calque.make_jaxpr(f)(1.0).eqns[0].primitive)
      'add'
    """

    JAX_EARLY = "jax_early"
    JAX_LATE = "jax_late"
    XLA_EARLY = "xla_early"
    XLA_LATE = "xla_late"
    AUTO = "auto"


def as_ints(value: Any) -> tuple[int, ...] | None:
    """One integer or several as a tuple."""
    if value is None:
        return None
    return (int(value),) if isinstance(value, (int, np.integer)) else tuple(map(int, value))


def as_names(value: Any) -> tuple[str, ...] | None:
    """One name or several as a tuple."""
    if value is None:
        return None
    return (value,) if isinstance(value, str) else tuple(value)


def resolve(what: str, fun: Any, nums: tuple[int, ...] | None,
            names: tuple[str, ...] | None) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Positions from names and names from positions, by the function's signature."""
    if nums is None and names is None:
        return (), ()
    signature = signature_of(fun)
    if signature is None:
        if what == "donate" and nums is None:
            raise ValueError(explain(
                f"Getting the signature of function {fun} failed. Pass donate_argnums instead of "
                "donate_argnames.", fix="name the arguments by their positions."))
        return nums or (), names or ()
    parameters = list(signature.parameters.values())
    positional = [p for p in parameters
                  if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    count = len(positional)
    for i in nums or ():
        if not variadic and not -count <= i < count:
            raise ValueError(explain(
                f"Jitted function has {what}_argnums={nums}, but only accepts {count} positional "
                "arguments."))
    known = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    without = {p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)}
    every = any(p.kind is p.VAR_KEYWORD for p in parameters)
    for n in names or ():
        if n in without or not every and n not in known:
            why = "These are positional-only" if n in without else (
                "Function does not take these args.")
            raise ValueError(explain(
                f"Jitted function has invalid argnames {{{n!r}}} in {what}_argnames. {why}",
                fix=f"use names among {sorted(known)}."))
    if names is None:
        names = tuple(positional[i].name for i in nums or ()
                      if -count <= i < count and positional[i].kind is not
                      positional[i].POSITIONAL_ONLY)
    elif nums is None:
        nums = tuple(i for i, p in enumerate(positional) if p.name in names)
    return nums or (), names


def check_places(device: Any, backend: Any, in_shardings: Any, out_shardings: Any) -> None:
    """ValueError where device or backend, and the shardings, say it twice."""
    if device is not None and backend is not None:
        raise ValueError(explain(
            f"can't specify both a device and a backend for jit, got device={device} and "
            f"backend={backend}", fix="leave one of them out."))
    if device is None and backend is None:
        return
    for name, given in (("in", in_shardings), ("out", out_shardings)):
        if tree_util.tree_leaves(given):
            raise ValueError(explain(
                f"If backend or device is specified on jit, then {name}_shardings should not be "
                "specified.", fix="leave device and backend out."))


def check_hashable(name: str, where: Any, value: Any) -> None:
    """ValueError for a static argument without a hash; a traced one is an error, too."""
    if isinstance(value, Tracer):
        raise concretization_error(
            value, f"{name}: static argument {where!r} is a traced value {value.aval}.",
            "pass a Python value, or do not mark it as static.")
    try:
        hash(value)
    except TypeError:
        raise ValueError(explain(
            f"Non-hashable static arguments are not supported, and are used in a jit function: "
            f"{name} got static argument {where!r} of type {type(value)}.",
            fix="pass a hashable value (a tuple instead of a list), or make it dynamic.")
        ) from None
