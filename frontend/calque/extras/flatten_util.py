"""A tree of arrays as one vector, and back: ravel_pytree."""
from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any

from calque.core import dtypes
from calque.core.avals import dtype_of, shape_of
from calque.core.errors import explain
from calque.numpy import creation, join, shapes, util
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.trees import util as tree_util


def ravel_pytree(pytree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """All elements of a tree of arrays in one vector, and the function that restores the tree.

    Args:
      pytree: tree of arrays and numbers.

    Returns:
      (vector of the leaves' promoted dtype, function from such a vector to a tree of the same
      structure, shapes and dtypes).

    Raises:
      TypeError: a leaf is not an array; or, in the function, a vector of another dtype where leaves
        have several.
      ValueError: in the function, a vector of another shape.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.flatten_util import ravel_pytree
      >>> flat, unravel = ravel_pytree({"a": jnp.zeros(2), "b": jnp.ones(())})
      >>> flat
      Array([0., 0., 1.], dtype=float32)
      >>> unravel(flat)["b"]
      Array(1., dtype=float32)
    """
    leaves, tree = tree_util.flatten(pytree)
    if not leaves:
        return creation.array([]), lambda flat: tree.unflatten([])
    with util.lazy_eval("ravel_pytree"):
        arrays = [util.array(creation.asarray(x)) for x in leaves]
        sizes = [shape_of(x) for x in arrays]
        kinds = [dtype_of(x) for x in arrays]
        dtype, _ = dtypes.promote([(k, False) for k in kinds])  # (no leaf is weak beside others)
        flat = join.concatenate([shapes.ravel(ew.convert(x, dtype)) for x in arrays])
    return flat, _Unravel(tree, tuple(sizes), tuple(kinds), dtype)


class _Unravel:
    """The function from such a vector to a tree; those of equal trees are equal."""

    __slots__ = ("of",)

    def __init__(self, *of: Any) -> None:
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Unravel) and self.of == other.of

    def __hash__(self) -> int:
        return hash(self.of)

    def __call__(self, flat: Any) -> Any:
        tree, sizes, kinds, dtype = self.of
        ends = list(itertools.accumulate(math.prod(s) for s in sizes))
        flat = util.one_array("unravel", flat)
        if all(k == dtype for k in kinds):  # leaves are of whatever dtype the vector is
            kinds = [dtype_of(flat)] * len(kinds)
        elif dtype_of(flat) != dtype:
            raise TypeError(explain(
                f"unravel function given array of dtype {dtype_of(flat).name}, but expected "
                f"dtype {dtype.name}", fix=f"convert it with astype('{dtype.name}')."))
        if shape_of(flat) != (ends[-1],):
            raise ValueError(explain(
                f"unravel function given array of shape {shape_of(flat)}, but expected shape "
                f"{(ends[-1],)}", fix="pass a vector as ravel_pytree makes it."))
        with util.lazy_eval("unravel"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the imaginary part of a real leaf is dropped
            flat = util.array(flat)
            made = []
            for start, end, shape, kind in zip([0, *ends], ends, sizes, kinds):
                part = sh.slice_(flat, (start,), (end,))
                made.append(ew.convert(sh.reshape(part, shape), kind))
            return tree.unflatten(made)


__all__ = ["ravel_pytree"]


def __dir__() -> list[str]:
    return __all__
