"""Layouts of arrays in memory, under JAX's names."""
from __future__ import annotations

from typing import Any

from calque.core.errors import explain
from calque.core.formats import Format, Layout
from calque.dispatch.sharded.constraints import laid_out
from calque.trees import util as tree_util


def with_layout_constraint(x: Any, layouts: Any) -> Any:
    """A tree of arrays, laid out in memory in some way.

    Outside of compiled functions the arrays lie so.  Inside of one it is how a result lies that is
    this value, where out_shardings says nothing else; in between the compiler chooses.

    Args:
      x: tree of arrays.
      layouts: a Layout, or a tree prefix of x of them.

    Returns:
      A tree like x, of equal values.

    Raises:
      ValueError: a leaf of layouts is no Layout, has another number of axes or names one twice.
      NotImplementedError: a layout has tiles.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental.layout import Layout, with_layout_constraint
      >>> x = with_layout_constraint(jnp.ones((1, 2)), Layout((1, 0)))
      >>> x.format.layout.major_to_minor
      (1, 0)
      >>> x
      Array([[1., 1.]], dtype=float32)
    """
    leaves, tree = tree_util.flatten(x)
    flat = tree_util.prefix_leaves(layouts, x, lambda v: isinstance(v, Layout), str)
    for layout in flat:
        if not isinstance(layout, Layout):
            raise ValueError(explain(
                "layouts passed to `with_layout_constraint` must be of type `Layout`. Got "
                f"[{type(layout)}]", fix="Layout((0, 1))."))
    return tree.unflatten([laid_out("with_layout_constraint", leaf, layout)
                           for leaf, layout in zip(leaves, flat)])


__all__ = ["Format", "Layout", "with_layout_constraint"]


def __dir__() -> list[str]:
    return __all__
