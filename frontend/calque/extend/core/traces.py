"""Which trace is current, and what a value is to it."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import is_arraylike
from calque.core.errors import ConcretizationTypeError, explain
from calque.core.trace import Trace, Tracer, as_current, axis_env, current, eval_trace
from calque.dispatch.eager import LazyTrace
from calque.transforms.stage import StageTrace
from calque.transforms.vmap import BatchTrace

array_types: set[type] = {np.ndarray, *(np.dtype(d).type for d in dtypes.ALL)}


class TraceTag:
    """A mark by which a trace of a library's own knows the tracers that are its.

    Example:
      >>> from calque.extend.core import TraceTag
      >>> TraceTag() == TraceTag()
      False
    """


def _trace() -> Trace:
    trace = current.get()
    while isinstance(trace, LazyTrace):  # an eager block that is recorded: nothing is traced
        trace = trace.parent or eval_trace
    return trace


class OpaqueTraceState:
    """Equal while the same function is being traced."""

    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of = _trace()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueTraceState) and self._of is other._of

    def __hash__(self) -> int:
        return id(self._of)


def get_opaque_trace_state(convention: Any = None) -> OpaqueTraceState:
    """Something that is equal to itself while the same function is being traced.

    Args:
      convention: accepted.

    Returns:
      A value that can be compared and hashed.

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> from calque.extend.core import get_opaque_trace_state as state
      >>> outside, inside = state(), []
      >>> _ = calque.jit(lambda x: inside.append(state()) or x)(1.0)
      >>> state() == outside, inside[0] == outside
      (True, False)
    """
    return OpaqueTraceState()


def find_top_trace(_: Any = None) -> Trace:
    """The current trace.

    Args:
      _: values, which do not matter.

    Returns:
      A Trace.

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> from calque.extend.core import find_top_trace
      >>> isinstance(find_top_trace([]), calque.core.Trace)
      True
    """
    return current.get()


@contextlib.contextmanager
def set_current_trace(trace: Trace, check_leaks: bool = False) -> Iterator[None]:
    """Make a trace the current one inside the block.

    Args:
      trace: a Trace.
      check_leaks: accepted; leaks are always found.

    Returns:
      A context manager.

    Raises:
      Nothing.

    Example:
      >>> from calque.extend.core import find_top_trace, set_current_trace
      >>> with set_current_trace(find_top_trace()):
      ...     pass
    """
    with as_current(trace):
        yield


@contextlib.contextmanager
def take_current_trace() -> Iterator[Trace]:
    """The current trace, for the block that runs without it.

    Returns:
      A context manager that gives the Trace; inside, operations are evaluated at once.

    Raises:
      Nothing.

    Example:
      >>> from calque.extend.core import set_current_trace, take_current_trace
      >>> with take_current_trace() as trace:
      ...     with set_current_trace(trace):
      ...         pass
    """
    trace = current.get()
    with as_current(eval_trace):
        yield trace


def _enclosing() -> Iterator[Trace]:
    """The traces under way, the innermost first."""
    trace: Trace | None = current.get()
    while trace is not None:
        yield trace
        trace = trace.parent


def unsafe_am_i_under_a_jit_DO_NOT_USE() -> bool:  # noqa: N802
    """Whether a function is being traced (by jit, scan, make_jaxpr, ...).

    Returns:
      A bool.

    Raises:
      Nothing.

    Example:
      >>> from calque.extend import core
      >>> core.unsafe_am_i_under_a_jit_DO_NOT_USE()
      False
    """
    return any(isinstance(t, StageTrace) for t in _enclosing())


def unsafe_am_i_under_a_vmap_DO_NOT_USE() -> bool:  # noqa: N802
    """Whether a function is being mapped by vmap.

    Returns:
      A bool.

    Raises:
      Nothing.

    Example:
      >>> from calque.extend import core
      >>> core.unsafe_am_i_under_a_vmap_DO_NOT_USE()
      False
    """
    return any(isinstance(t, BatchTrace) for t in _enclosing())


def unsafe_get_axis_names_DO_NOT_USE() -> list[Any]:  # noqa: N802
    """Names of the mapped axes, the outermost first.

    Returns:
      A list.

    Raises:
      Nothing.

    Example:
      >>> from calque.extend import core
      >>> core.unsafe_get_axis_names_DO_NOT_USE()
      []
    """
    return [name for name, _ in axis_env.get()]


def nonempty_axis_env_DO_NOT_USE() -> bool:  # noqa: N802
    """Whether an axis with a name is mapped.

    Returns:
      A bool.

    Raises:
      Nothing.

    Example:
      >>> from calque.extend import core
      >>> core.nonempty_axis_env_DO_NOT_USE()
      False
    """
    return bool(axis_env.get())


def call_impl(f: Any, *args: Any, **params: Any) -> Any:
    """What a linear_util.WrappedFun gives for these values: how a call is evaluated.

    Args:
      f: the function.
      *args: values.
      **params: of the call, which do not matter.

    Returns:
      Its results.

    Raises:
      Nothing.

    Example:
      >>> from calque.extend import core, linear_util
      >>> core.call_impl(linear_util.wrap_init(lambda x: [x + 1]), 2)
      [3]
    """
    return f.call_wrapped(*args)


def valid_jaxtype(x: Any) -> bool:
    """Whether a value is an array, a number or a tracer.

    Args:
      x: anything.

    Returns:
      A bool.

    Raises:
      Nothing.

    Example:
      >>> from calque.extend.core import valid_jaxtype
      >>> valid_jaxtype(1.0), valid_jaxtype("1.0")
      (True, False)
    """
    return is_arraylike(x)


def primal_dtype_to_tangent_dtype(primal_dtype: Any) -> Any:
    """The dtype of tangents of values of a dtype: float0 of integers.

    Args:
      primal_dtype: a dtype.

    Returns:
      A dtype.

    Raises:
      TypeError: it is no dtype.

    Example:
      >>> import numpy as np
      >>> from calque.extend.core import primal_dtype_to_tangent_dtype
      >>> primal_dtype_to_tangent_dtype(np.dtype("float32"))
      dtype('float32')
    """
    return dtypes.tangent_dtype(primal_dtype)


def concrete_or_error(force: Any, val: Any, context: str = "") -> Any:
    """force(val), where the value is known.

    Args:
      force: a function (int, operator.index, np.asarray), or None: the value as it is.
      val: an array, a number or a tracer.
      context: said in the error.

    Returns:
      What force gives.

    Raises:
      ConcretizationTypeError: the value is traced.

    Example:
      >>> from calque.extend.core import concrete_or_error
      >>> concrete_or_error(int, 3.0)
      3
    """
    known = val.concrete() if isinstance(val, Tracer) else val
    if known is None and val is not None:
        raise ConcretizationTypeError(explain(
            f"Abstract tracer value encountered where concrete value is expected: {val}. {context}",
            fix="make the value a static argument, or compute with it by lax operations."))
    return known if force is None else force(known)


__all__ = ["OpaqueTraceState", "concrete_or_error", "find_top_trace",
           "get_opaque_trace_state", "primal_dtype_to_tangent_dtype",
           "set_current_trace", "take_current_trace", "valid_jaxtype"]
