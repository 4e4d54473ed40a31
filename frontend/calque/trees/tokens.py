"""Token: a tree without leaves that stands for the order of side effects (lax.create_token).

Imports nodes only.
"""
from __future__ import annotations

from typing import Any

from calque.trees import nodes


class AbstractToken:
    """The type of tokens: what typeof(token) is.  All are equal.

    Example:
      >>> import calque
      >>> from calque.extend.core import AbstractToken
      >>> calque.typeof(calque.lax.create_token()) == AbstractToken()
      True
    """

    def str_short(self, short_dtypes: bool = False, mesh_axis_types: bool = False) -> str:
        """The type in short."""
        return "Tok"

    def to_tangent_aval(self) -> AbstractToken:
        """The type of its tangents: itself."""
        return self

    to_ct_aval = to_tangent_aval

    def __eq__(self, other: object) -> bool:
        return type(other) is AbstractToken

    def __hash__(self) -> int:
        return hash(AbstractToken)

    def __repr__(self) -> str:
        return "AbstractToken()"


class Token:
    """What create_token returns: a tree without leaves, so that it enters and leaves all functions.

    Args:
      buf: accepted as JAX's.

    Example:
      >>> from calque.extend.core import Token
      >>> Token(None).block_until_ready() is None
      True
    """

    def __init__(self, buf: Any = None) -> None:
        self._buf = buf

    def block_until_ready(self) -> None:
        """Does nothing: no work is behind it."""

    def __repr__(self) -> str:
        return "Token()"


nodes.register_pytree_node(Token, lambda _: ((), None), lambda *_: Token())
