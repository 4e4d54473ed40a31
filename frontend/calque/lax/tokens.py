"""Tokens: values without contents that say in which order side effects happen (create_token,
after_all).  Effects run in the order of the program here, so a token orders nothing.
"""
from __future__ import annotations

from typing import Any

from calque.core.errors import explain
from calque.trees.tokens import Token

__all__ = ["after_all", "create_token"]


def create_token(_: Any = None) -> Token:
    """A token.

    Args:
      _: ignored.

    Returns:
      A Token.

    Raises:
      Nothing.

    Example:
      >>> import calque.lax as lax
      >>> lax.create_token()
      Token()
    """
    return Token()


def after_all(*operands: Token) -> Token:
    """A token that comes after others.

    Args:
      *operands: tokens.

    Returns:
      A Token.

    Raises:
      TypeError: an operand is no token.

    Example:
      >>> import calque.lax as lax
      >>> lax.after_all(lax.create_token(), lax.create_token())
      Token()
    """
    for x in operands:
        if not isinstance(x, Token):
            raise TypeError(explain(
                f"Arguments to after_all must be tokens, got {type(x).__name__}.",
                fix="pass what create_token returned."))
    return Token()
