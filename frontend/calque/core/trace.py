"""Dispatch on context: a context variable holds the current Trace; `bind` asks it to process.

Each Trace keeps its parent and runs rules under it.  A value belongs to a trace when
`isinstance(x, Tracer) and x._trace is self`; everything else passes down unchanged.  The bottom
trace evaluates with the evaluator that calque/__init__ installs.
Start reading at `Trace`, then transforms/jvp.py.  Imports core only.
"""
from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from calque.core.avals import HasAval, aval_of
from calque.core.errors import ConcretizationTypeError, UnexpectedTracerError, explain
from calque.core.source import UNKNOWN, Source, here
from calque.core.types import Function, Params

if TYPE_CHECKING:
    from calque.core.primitive import Primitive


class Trace:
    """How primitives are processed in one context.

    Example:
      >>> import calque
      >>> calque.jit(lambda x: 1.0 * isinstance(x._trace, calque.core.Trace))(0.0)
      Array(1., dtype=float32, weak_type=True)
    """

    __slots__ = ("parent", "open", "source")
    kind = "trace"
    frame: Any = None  # of a function that is recorded: the references that it uses (core/refs)

    def __init__(self, parent: Trace | None = None) -> None:
        self.parent = parent
        self.open = True
        self.source: Source | None = None

    def process(self, prim: Primitive, args: Sequence[Any], params: Params) -> Any:
        """The results of a primitive on these values; of a library's trace what its
        process_primitive(primitive, values, parameters) gives."""
        return self.process_primitive(prim, args, dict(params))

    def process_primitive(self, primitive: Primitive, tracers: Sequence[Any], params: Params
                          ) -> Any:
        """JAX's name of process: what traces of libraries define, and call of others."""
        if type(self).process is Trace.process:
            raise NotImplementedError
        return self.process(primitive, tracers, params)

    def full_raise(self, x: Any) -> Any:
        """x as a value of this trace: a tracer is one already."""
        return x

    def number(self, x: Any) -> Any:
        """The Python number that a value was made of, where a transformation took one as its
        argument and nothing has touched it since; else the value."""
        return x

    def how_static(self, x: Any) -> str:
        """How the argument that a value comes from is marked as static; "" where no one knows."""
        return ""

    def close(self) -> None:
        """Values of the trace that are used from now on have leaked."""
        self.open = False

    @property
    def main(self) -> Trace:
        """Itself: the name under which older JAX kept what traces of one transformation share."""
        return self


class EvalTrace(Trace):
    """The bottom: concrete arrays, evaluated at once by the installed evaluator."""

    __slots__ = ()
    kind = "eval"

    def process(self, prim: Primitive, args: Sequence[Any], params: Params) -> Any:
        for a in args:
            if isinstance(a, Tracer):
                raise escaped_tracer_error(a, prim)
        if prim.inline is not None:
            with as_current(self):
                return prim.inline(*args, **params)
        if prim.opened is not None and (run := prim.opened(params)) is not None:
            with as_current(self):
                return run(*args, **params)
        return evaluator[0](prim, args, params)


class EagerTrace(Trace):
    """Inside a transformation: what involves no traced value is evaluated at once."""

    __slots__ = ()
    kind = "eager"

    def process(self, prim: Primitive, args: Sequence[Any], params: Params) -> Any:
        assert self.parent is not None
        trace = self.parent if any(isinstance(a, Tracer) for a in args) else eval_trace
        with as_current(trace):
            return trace.process(prim, args, params)


def _no_evaluator(prim: Primitive, args: Sequence[Any], params: Params) -> Any:
    raise RuntimeError("calque.core has no evaluator installed; import calque.")


evaluator: list[Function] = [_no_evaluator]  # set once by calque/__init__
eval_trace = EvalTrace(None)
current: contextvars.ContextVar[Trace] = contextvars.ContextVar("calque_trace", default=eval_trace)


# Named axes of enclosing vmaps, with their sizes, the outermost first.
axis_env: contextvars.ContextVar[tuple[tuple[Any, int], ...]] = contextvars.ContextVar(
    "calque_axis_env", default=())


# Those of them that a shard_map with check_vma binds.
checked_axes: contextvars.ContextVar[frozenset[Any]] = contextvars.ContextVar(
    "calque_checked_axes", default=frozenset())


@contextlib.contextmanager
def axes_mapped(axes: Sequence[tuple[Any, int]], checked: bool) -> Iterator[None]:
    """Bind the axes of a shard_map inside the block."""
    names = {n for n, _ in axes}
    env = axis_env.set((*axis_env.get(), *axes))
    seen = checked_axes.get()
    which = checked_axes.set(seen | names if checked else seen - names)
    try:
        yield
    finally:
        checked_axes.reset(which)
        axis_env.reset(env)


# Positions along named axes that are values of a kernel's trace.
axis_places: contextvars.ContextVar[tuple[tuple[Any, Any], ...]] = contextvars.ContextVar(
    "calque_axis_places", default=())


@contextlib.contextmanager
def axes_placed(axes: Sequence[tuple[Any, int, Any]]) -> Iterator[None]:
    """Bind the axes of a kernel's grid inside the block: (name, size, position)."""
    env = axis_env.set((*axis_env.get(), *((n, size) for n, size, _ in axes)))
    places = axis_places.set((*axis_places.get(), *((n, at) for n, _, at in axes)))
    try:
        yield
    finally:
        axis_places.reset(places)
        axis_env.reset(env)


@contextlib.contextmanager
def axis_bound(name: Any, size: int) -> Iterator[None]:
    """Bind the name of a mapped axis inside the block (None binds nothing)."""
    if name is None:
        yield
        return
    with axes_mapped([(name, size)], False):
        yield


@contextlib.contextmanager
def as_current(trace: Trace) -> Iterator[None]:
    """Make `trace` current inside the block."""
    token = current.set(trace)
    try:
        yield
    finally:
        current.reset(token)


def at_bottom() -> bool:
    """Whether operations now run eagerly (no transformation is being traced)."""
    return isinstance(current.get(), EvalTrace)


@contextlib.contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """Evaluate operations on known values at once, also while a function is being traced.

    What the block computes from traced values is traced as ever.

    Returns:
      A context manager.

    Raises:
      Nothing.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> @calque.jit
      ... def f(x):
      ...     with calque.ensure_compile_time_eval():
      ...         positive = jnp.sin(3.0) > 0
      ...     return jnp.exp(x) if positive else x    # a bool is needed: it is known
      >>> f(0.0)
      Array(1., dtype=float32, weak_type=True)
    """
    with as_current(current.get() if at_bottom() else EagerTrace(current.get())):
        yield


@contextlib.contextmanager
def eval_context() -> Iterator[None]:
    """Evaluate the block's operations at once, whatever is being traced.

    Returns:
      A context manager.

    Raises:
      UnexpectedTracerError: (by operations) an operand is traced.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> def f(x):
      ...     with calque.core.eval_context():
      ...         known = float(jnp.sin(0.0))
      ...     return x + known
      >>> calque.jit(f)(1.0)
      Array(1., dtype=float32, weak_type=True)
    """
    with as_current(eval_trace):
        yield


class Tracer(HasAval):
    """A value that a trace stands for; operators are installed by calque.array.

    Example:
      >>> import calque
      >>> calque.jit(lambda x: 1.0 * isinstance(x, calque.core.Tracer))(0.0)
      Array(1., dtype=float32, weak_type=True)
    """

    __slots__ = ("_trace", "__weakref__")
    __array_priority__ = 1000
    shown = "Traced"  # its class in texts of it
    _trace: Trace

    def __init__(self, trace: Trace, aval: Any = None) -> None:
        """As classes of libraries call it (ours have their own)."""
        self._trace = trace
        if aval is not None:
            self.aval = aval

    def concrete(self) -> Any:
        """The concrete array behind, if this trace knows it, else None."""
        return None

    def __repr__(self) -> str:
        return f"{self.shown}({self.said()})"

    def __str__(self) -> str:
        return repr(self)

    def said(self) -> str:
        """What a text of it says of its value: as JAX's does, whose users know it."""
        return str(self.aval)

    __hash__ = None  # type: ignore[assignment]  # (libraries ask isinstance(x, Hashable))


def _where(trace: Trace) -> str:
    return f"the function traced at {trace.source}" if trace.source else str(here())


def escaped_tracer_error(tracer: Tracer, prim: Any) -> UnexpectedTracerError:
    """The error for a tracer that outlived its transformation."""
    return UnexpectedTracerError(explain(
        f"Encountered an unexpected tracer: {prim}: a traced value {tracer.aval} was used after "
        "the transformation that made it had ended (a side effect let it leak, through global "
        f"state or a closure). It was created on line {tracer._trace.source}.",
        where=_where(tracer._trace),
        fix="return the value from the traced function instead of storing it outside."))


def concretization_error(x: Tracer, what: str, fix: str,
                         kind: type[Exception] = ConcretizationTypeError) -> Exception:
    """A three-part error for a traced value that was needed concretely; what of the cure marks an
    argument as static says how, where it is known which."""
    marking = "mark the argument" + (" that it comes from" if "that it comes" in fix else "")
    if marking in fix:
        how = x._trace.how_static(x) or f"{marking} as static, jit(f, static_argnames=...)"
        fix = fix.replace(f"{marking} as static", how)
    where, line = _where(x._trace), here()
    if x._trace.source and line is not UNKNOWN and line != x._trace.source:
        where = f"{line}, in {where}"
    return kind(explain(what, where=where, fix=fix))


@contextlib.contextmanager
def scope(name: str) -> Iterator[None]:
    """Prefix the locations of what is traced inside with a name (a context manager or decorator).

    Args:
      name: of the scope; shown in lowered text with debug_info=True.

    Returns:
      A context manager.

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> def f(x):
      ...     with calque.named_scope("double"):
      ...         return 2 * x
      >>> "double" in calque.jit(f).lower(1.0).as_text(debug_info=True)
      True
    """
    token = scopes.set((*scopes.get(), str(name)))
    try:
        yield
    finally:
        scopes.reset(token)


scopes: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar(
    "calque_scopes", default=())

__all__ = ["EagerTrace", "EvalTrace", "Trace", "Tracer", "as_current", "at_bottom", "aval_of",
           "axes_placed", "axis_bound", "axis_env", "axis_places", "concretization_error",
           "current", "ensure_compile_time_eval",
           "escaped_tracer_error", "eval_context", "eval_trace", "evaluator", "scope", "scopes"]
