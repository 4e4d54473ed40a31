"""What `checking_leaks` looks for: values of a transformation that are still held when it is over.

`check(trace)` is called where a trace has closed and nothing of ours holds its values any more.
Imports core only.
"""
from __future__ import annotations

import gc
import sys
import types
from typing import Any

from calque.core.errors import UnexpectedTracerError, explain
from calque.core.trace import Trace, Tracer

_NAMES = {"stage": "DynamicJaxprTrace", "vmap": "BatchTrace", "jvp": "JVPTrace",
          "linearize": "LinearizeTrace"}


def check(trace: Trace) -> None:
    """UnexpectedTracerError where a value of this trace lives on; who holds it is named."""
    if sys.getrefcount(trace) <= 3:  # the caller's, ours, that of the question: no value holds it,
        return  # and what a collection walks over, in a process with many objects, is all of them
    gc.collect()
    leaked = [x for x in gc.get_referrers(trace) if isinstance(x, Tracer) and x._trace is trace]
    if not leaked:
        return
    name = _NAMES.get(trace.kind, type(trace).__name__)
    lines = [f"Leaked trace {name}. Leaked tracer(s): {', '.join(map(repr, leaked))}."]
    for x in leaked:
        lines += ["", f"This {name}r with object id {id(x)} was created on line:",
                  f"  {trace.source}", *_holders(x, f"{name}r", [leaked])]
    raise UnexpectedTracerError(explain(
        "\n".join(lines),
        fix="return the value from the function instead of keeping it in a list, an attribute or "
            "a global name."))


def _holders(x: Any, name: str, hidden: list[Any]) -> list[str]:
    """A chain of objects, each of which refers to the one before."""
    said: list[str] = []
    hidden.append(hidden)
    for _ in range(6):
        hidden.append(x)
        found, variable = _holder(x, hidden), ""
        if type(found) is types.CellType:
            cell, found = found, _function_of(found)
            if found is not None:
                names = dict(zip(map(id, found.__closure__), found.__code__.co_freevars))
                variable = f" ({found.__name__}) closed-over variable {names[id(cell)]}"
        if found is None:
            break
        kind = "function" if isinstance(found, types.FunctionType) else type(found).__name__
        said.append(f"<{name} {id(x)}> is referred to by <{kind} {id(found)}>"
                    f"{variable or _place(found, x)}")
        if isinstance(found, types.ModuleType):
            break
        x, name = found, kind
    return said


def _function_of(cell: Any) -> Any:
    """The function that closes over what is in a cell."""
    return next((f for closure in gc.get_referrers(cell) for f in gc.get_referrers(closure)
                 if isinstance(f, types.FunctionType) and f.__closure__ is closure), None)


def _holder(x: Any, hidden: list[Any]) -> Any:
    """An object that refers to this one and is not ours."""
    return next((r for r in gc.get_referrers(x) if not isinstance(r, types.FrameType)
                 and not any(r is h for h in hidden)), None)


def _place(holder: Any, x: Any) -> str:
    """Where in its holder an object is: [0], ['key'], .attribute, a closed-over variable."""
    if isinstance(holder, dict):
        return next((f"[{k!r}]" for k, v in holder.items() if v is x), "")
    if isinstance(holder, (list, tuple)):
        return next((f"[{i}]" for i, v in enumerate(holder) if v is x), "")
    if isinstance(holder, types.FunctionType):
        return f" ({holder.__name__})"
    return next((f".{k}" for k, v in getattr(holder, "__dict__", {}).items() if v is x), "")
