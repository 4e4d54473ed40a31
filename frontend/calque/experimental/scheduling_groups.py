"""scheduling_group and xla_metadata_call: marks for XLA's scheduler on functions, which mean
nothing here."""
from __future__ import annotations

from typing import Any

from calque.core.errors import explain
from calque.core.types import Function

__all__ = ["scheduling_group", "xla_metadata_call"]


def xla_metadata_call(f: Any = None, **meta: Any) -> Any:
    """Mark the operations of a function for XLA; the marks mean nothing here.

    Args:
      f: the function; without it a decorator is returned.
      **meta: the marks.

    Returns:
      f, or the decorator.

    Raises:
      TypeError: f is no function.

    Example:
      >>> from calque.experimental.scheduling_groups import xla_metadata_call
      >>> xla_metadata_call(abs, key="value")(-1.0)
      1.0
    """
    if f is None:
        return lambda f: xla_metadata_call(f, **meta)
    if not callable(f):
        raise TypeError(explain(f"xla_metadata_call: Expected a callable value, got {f!r}.",
                                fix="give the function first, and marks by name."))
    return f


def scheduling_group(name: str) -> Function:
    """A decorator that asks XLA to schedule a function's operations as one; it means nothing here.

    Args:
      name: of the group.

    Returns:
      A decorator, which gives the function.

    Raises:
      Nothing.

    Example:
      >>> from calque.experimental.scheduling_groups import scheduling_group
      >>> scheduling_group("first")(abs)(-1.0)
      1.0
    """
    return lambda f: xla_metadata_call(f, scheduling_group=name)
