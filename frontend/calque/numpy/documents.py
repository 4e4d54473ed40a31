"""Docstrings of the ufuncs: one template, filled from the rows of the tables."""
from __future__ import annotations

from collections.abc import Sequence

from calque.core.tables import from_row
from calque.core.types import Function

_TEMPLATE = """{sentence}

    Args:
{args}
    Returns:
      {returns}

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> {example}
      {result}
    """

WEAK = "Array({}, dtype={}, weak_type=True)"


def f32(value: str) -> str:
    """The repr of a weakly typed float32 scalar."""
    return WEAK.format(value, "float32")


def i32(value: str) -> str:
    """The repr of a weakly typed int32 scalar."""
    return WEAK.format(value, "int32")


def weak_truth(value: str) -> str:
    """The repr of the bool that comes of Python's numbers."""
    return WEAK.format(value, "bool")


def document(f: Function, name: str, sentence: str, arguments: Sequence[str],
             returns: str, example: str, result: str) -> Function:
    """f as the function of a row."""
    lines = [f"      {a}: array or scalar.\n" for a in arguments]
    if len(arguments) > 1:
        lines[1:] = [f"      {a}: array or scalar; dtypes are promoted, shapes broadcast.\n"
                     for a in arguments[1:]]
    return from_row(f, "calque.numpy", name, _TEMPLATE, sentence=sentence, args="".join(lines),
                    returns=returns, example=example, result=result.replace("\n", "\n      "))
