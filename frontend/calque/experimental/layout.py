"""Layouts of arrays in memory, under JAX's names: every array is row-major here."""
from __future__ import annotations

from typing import Any

from calque.core.avals import shape_of
from calque.core.errors import explain
from calque.core.formats import Format, Layout, check_layout
from calque.trees import util as tree_util


def with_layout_constraint(x: Any, layouts: Any) -> Any:
    """A tree of arrays, said to be laid out in some way.

    Args:
      x: tree of arrays.
      layouts: a Layout, or a tree prefix of x of them.

    Returns:
      x.

    Raises:
      ValueError: a leaf of layouts is no Layout, or has another number of axes.
      NotImplementedError: a layout is not row-major.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental.layout import Layout, with_layout_constraint
      >>> with_layout_constraint(jnp.ones((1, 2)), Layout((0, 1)))
      Array([[1., 1.]], dtype=float32)
    """
    flat = tree_util.prefix_leaves(layouts, x, lambda v: isinstance(v, Layout), str)
    for leaf, layout in zip(tree_util.tree_leaves(x), flat):
        if not isinstance(layout, Layout):
            raise ValueError(explain(
                "layouts passed to `with_layout_constraint` must be of type `Layout`. Got "
                f"[{type(layout)}]", fix="Layout((0, 1))."))
        check_layout("with_layout_constraint", layout, shape_of(leaf))
    return x


__all__ = ["Format", "Layout", "with_layout_constraint"]


def __dir__() -> list[str]:
    return __all__
