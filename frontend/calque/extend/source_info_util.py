"""Places in the user's program, and the names of scopes around what is traced."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from calque.core.source import NameStack, here, register_exclusion
from calque.core.source import Source as SourceInfo
from calque.core.trace import scope as extend_name_stack
from calque.core.trace import scopes


def current_name_stack() -> NameStack:
    """The names of the scopes here.

    Returns:
      A NameStack.

    Raises:
      Nothing.

    Example:
      >>> from calque.extend import source_info_util
      >>> source_info_util.current_name_stack().stack
      ()
    """
    return NameStack(scopes.get())


def new_name_stack(name: str = "") -> NameStack:
    """A stack of one name, or of none.

    Args:
      name: the name.

    Returns:
      A NameStack.

    Raises:
      Nothing.

    Example:
      >>> from calque.extend import source_info_util
      >>> source_info_util.new_name_stack("a").stack
      ('a',)
    """
    return NameStack((name,) if name else ())


@contextlib.contextmanager
def set_name_stack(name_stack: NameStack) -> Iterator[None]:
    """Trace the block under these names.

    Args:
      name_stack: a NameStack.

    Returns:
      A context manager.

    Raises:
      Nothing.

    Example:
      >>> from calque.extend import source_info_util as util
      >>> with util.set_name_stack(util.new_name_stack("a")):
      ...     print(util.current_name_stack())
      a
    """
    token = scopes.set(name_stack.stack)
    try:
        yield
    finally:
        scopes.reset(token)


def current() -> SourceInfo:
    """The place in the user's program.

    Returns:
      Its file, line and function.

    Raises:
      Nothing.

    Example:
      >>> from calque.extend import source_info_util
      >>> source_info_util.current().line
      1
    """
    return here()


def summarize(source_info: Any) -> str:
    """A place in a line.

    Args:
      source_info: of an equation.

    Returns:
      A string.

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> from calque.extend import source_info_util
      >>> eqn = calque.make_jaxpr(lambda x: x + 1)(2.0).eqns[0]
      >>> "lambda" in source_info_util.summarize(eqn.source_info)
      True
    """
    return str(source_info)


__all__ = ["NameStack", "SourceInfo", "current", "current_name_stack", "extend_name_stack",
           "new_name_stack", "register_exclusion", "set_name_stack", "summarize"]


def __dir__() -> list[str]:
    return __all__
