"""set_xla_metadata: marks for XLA on values and on operations, which nobody reads here."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from calque.core.avals import aval_of
from calque.trees import util as tree_util

__all__ = ["set_xla_metadata"]
_NOTHING: Any = object()


@contextlib.contextmanager
def _marked() -> Iterator[None]:
    yield


def set_xla_metadata(x: Any = _NOTHING, /, **kwargs: Any) -> Any:
    """Mark a value, or the operations of a block or function; the marks mean nothing here.

    Args:
      x: a tree of arrays; without it a context manager is returned, which decorates functions, too.
      **kwargs: the marks.

    Returns:
      x, or the context manager.

    Raises:
      TypeError: a leaf of x is no array.

    Example:
      >>> from calque.experimental.xla_metadata import set_xla_metadata
      >>> with set_xla_metadata(key="value"):
      ...     set_xla_metadata(1.0, key="value")
      1.0
    """
    if x is _NOTHING:
        return _marked()
    for leaf in tree_util.tree_leaves(x):
        aval_of(leaf)
    return x
