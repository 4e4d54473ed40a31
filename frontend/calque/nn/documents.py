"""Docstrings of the activations: one template."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

_TEMPLATE = """{sentence}

    Args:
      x: array or scalar; integers become floats.
{more}
    Returns:
      An array of x's shape{returns}.

    Raises:
      TypeError: x is not an array or a number (lists are not accepted).{raises}

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> {example}
      {result}
    """
ROW = "jnp.array([-1.0, 0.0, 2.0])"


def described(sentence: str, result: str, more: str = "", example: str = "", returns: str = "",
              raises: str = "") -> Callable[[Any], Any]:
    """Decorator: write the docstring; without an example it is f(jnp.array([-1, 0, 2]))."""
    def decorate(f: Any) -> Any:
        f.__module__ = "calque.nn"
        f.__doc__ = _TEMPLATE.format(
            sentence=sentence, more=more, returns=returns, raises=raises,
            example=example or f"nn.{f.__name__}({ROW})", result=result)
        return f
    return decorate
