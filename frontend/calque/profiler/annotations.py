"""Slices of the user's: TraceAnnotation, StepTraceAnnotation, annotate_function."""
from __future__ import annotations

from typing import Any, Self

import numpy as np

from calque.core.errors import explain
from calque.core.naming import name_of, wraps
from calque.core.types import Function
from calque.runtime import watch


class TraceAnnotation:
    """Context whose block is a slice of the trace, if one is on.

    Args:
      name: of the slice.
      **kwargs: shown with it; what is no bool, number or text is turned into text.

    Raises:
      TypeError: name is no text.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> with calque.profiler.TraceAnnotation("my label", size=3):
      ...     x = jnp.ones(3)
    """

    def __init__(self, name: str, /, **kwargs: Any) -> None:
        if not isinstance(name, str):
            raise TypeError(explain(
                f"{type(self).__name__}: the name must be a str, got {type(name).__name__}."))
        self._name, self._kwargs = name, kwargs
        self._open: list[Any] = []

    def __enter__(self) -> Self:
        for watcher in tuple(watch.watchers):
            args = {n: _plain(v) for n, v in self._kwargs.items()}
            self._open.append((watcher, watcher.begin(self._name, "annotation", args)))
        return self

    def __exit__(self, *_: Any) -> None:
        if self._open:
            watcher, token = self._open.pop()
            watcher.end(token)


class StepTraceAnnotation(TraceAnnotation):
    """Context whose block is a step of a program, training for example.

    Args:
      name: of the slice, which shows the step's number as well.
      **kwargs: shown with it; step_num is the number.

    Raises:
      TypeError: name is no text.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> for step in range(3):
      ...     with calque.profiler.StepTraceAnnotation("train", step_num=step):
      ...         x = jnp.ones(3)
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        number = kwargs.get("step_num")
        super().__init__(f"{name} {number}" if isinstance(name, str) and number is not None
                         else name, **kwargs)


def annotate_function(func: Function, name: str | None = None,
                      **decorator_kwargs: Any) -> Function:
    """A function whose calls are slices of the trace, if one is on.

    Args:
      func: the function.
      name: of the slices; None: the function's.
      **decorator_kwargs: shown with them.

    Returns:
      A function with the same arguments and results.

    Raises:
      TypeError: func cannot be called.

    Example:
      >>> import functools, calque, calque.numpy as jnp
      >>> @functools.partial(calque.profiler.annotate_function, name="norm")
      ... def f(x):
      ...     return jnp.sqrt((x * x).sum())
      >>> f(jnp.asarray([3.0, 4.0]))
      Array(5., dtype=float32)
    """
    if not callable(func):
        raise TypeError(explain(
            f"annotate_function: Expected a callable value, got {func!r} of type "
            f"{type(func).__name__}.",
            fix="use functools.partial(annotate_function, name=...) as a decorator."))
    label = name or name_of(func)

    @wraps(func)
    def annotated(*args: Any, **kwargs: Any) -> Any:
        with TraceAnnotation(label, **decorator_kwargs):
            return func(*args, **kwargs)

    return annotated


def _plain(value: Any) -> Any:
    """A value that stays as it is until the trace is written."""
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, (bool, int, float)) else str(value)
