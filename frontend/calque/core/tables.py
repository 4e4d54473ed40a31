"""Functions that a row of a table makes: their names, and docstrings from the table's template.

Functions with a body of their own have their docstrings in the source.  Imports types only.
"""
from __future__ import annotations

from calque.core.types import Function


def from_row(f: Function, module: str, name: str, template: str, **parts: str) -> Function:
    """f with the name under which users find it; its docstring is the template, filled in."""
    f.__module__, f.__name__, f.__qualname__ = module, name, name
    f.__doc__ = template.format(name=name, **parts)
    return f
