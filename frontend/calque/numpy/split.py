"""Cutting: split, array_split, vsplit, hsplit, dsplit."""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core.avals import ndim_of, shape_of
from calque.core.errors import explain
from calque.lax.operands import as_size, canonical_axis
from calque.numpy import util
from calque.primitives import shape as sh


def _borders(name: str, n: int, sections: Any, equal: bool) -> list[int]:
    """Where the parts end."""
    if isinstance(sections, (list, tuple, np.ndarray)) or (
            hasattr(sections, "ndim") and sections.ndim):
        inner = [as_size(name, i) for i in (
            sections._numpy() if hasattr(sections, "_numpy") else sections)]
        ends = [*[_clamped(i, n) for i in inner], n]
        if any(e < s for s, e in zip([0, *ends], ends)) or any(i > n for i in inner):
            sizes = np.diff([0, *inner, n]).tolist()
            raise ValueError(explain(f"Sizes passed to split must be nonnegative, got {sizes}",
                                     fix="give increasing positions within the axis."))
        return ends
    # (JAX takes a float for its whole part)
    count = int(sections) if isinstance(sections, (float, np.floating)) else as_size(name, sections)
    if count == 0:
        raise ZeroDivisionError(explain(f"{name}: cannot divide into 0 sections."))
    if count < 0:
        raise ValueError(explain(f"{name}: cannot divide into {count} sections.",
                                 fix="give a positive number, or positions in a list."))
    part, rest = divmod(n, count)
    if equal and rest:
        raise ValueError(explain(
            f"array split does not result in an equal division: rest is {rest}",
            fix="use jnp.array_split, which makes parts of unequal sizes."))
    sizes = [part + 1] * rest + [part] * (count - rest)
    return np.cumsum(sizes).tolist()


def _clamped(i: int, n: int) -> int:
    return i + n if i < 0 else i


def _split(name: str, ary: Any, sections: Any, axis: int, equal: bool) -> list[Any]:
    x = util.one_array(name, ary)
    own = shape_of(x)
    axis = canonical_axis(axis, len(own))
    ends = _borders(name, own[axis], sections, equal)
    with util.lazy_eval(name):
        return [sh.slice_in_dim(x, s, e, axis) for s, e in zip([0, *ends], ends)]


@util.planned
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Parts along an axis: a number of equal ones, or those between positions.

    Args:
      ary: array.
      indices_or_sections: the number of parts, or the positions between them (static).
      axis: the axis.

    Returns:
      A list of arrays.

    Raises:
      ValueError: the axis does not divide into equal parts.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.split(jnp.arange(3), [1])
      [Array([0], dtype=int32), Array([1, 2], dtype=int32)]
    """
    return _split("split", ary, indices_or_sections, axis, True)


@util.planned
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """As split, with parts of unequal sizes where the axis does not divide.

    Args:
      ary: array.
      indices_or_sections: the number of parts, or the positions between them (static).
      axis: the axis.

    Returns:
      A list of arrays.

    Raises:
      ValueError: positions do not increase.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.array_split(jnp.arange(3), 2)
      [Array([0, 1], dtype=int32), Array([2], dtype=int32)]
    """
    return _split("array_split", ary, indices_or_sections, axis, False)


@util.planned
def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """split along the first axis.

    Args:
      ary: array.
      indices_or_sections: as in split.

    Returns:
      A list of arrays.

    Raises:
      ValueError: the axis does not divide into equal parts.

    Example:
      >>> import calque.numpy as jnp
      >>> [x.shape for x in jnp.vsplit(jnp.zeros((2, 3)), 2)]
      [(1, 3), (1, 3)]
    """
    return _split("vsplit", ary, indices_or_sections, 0, True)


@util.planned
def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """split along the second axis (the first of a vector).

    Args:
      ary: array.
      indices_or_sections: as in split.

    Returns:
      A list of arrays.

    Raises:
      ValueError: the axis does not divide into equal parts.

    Example:
      >>> import calque.numpy as jnp
      >>> [x.shape for x in jnp.hsplit(jnp.zeros((2, 4)), 2)]
      [(2, 2), (2, 2)]
    """
    rank = ndim_of(util.one_array("hsplit", ary))
    return _split("hsplit", ary, indices_or_sections, 0 if rank == 1 else 1, True)


@util.planned
def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """split along the third axis.

    Args:
      ary: array.
      indices_or_sections: as in split.

    Returns:
      A list of arrays.

    Raises:
      ValueError: the axis does not divide into equal parts.

    Example:
      >>> import calque.numpy as jnp
      >>> [x.shape for x in jnp.dsplit(jnp.zeros((2, 3, 4)), 2)]
      [(2, 3, 2), (2, 3, 2)]
    """
    return _split("dsplit", ary, indices_or_sections, 2, True)


__all__ = ["array_split", "dsplit", "hsplit", "split", "vsplit"]
