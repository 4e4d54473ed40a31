"""Objects that are indexed to make arrays or indices: mgrid, ogrid, r_, c_, s_, index_exp."""
from __future__ import annotations

from typing import Any

from calque.core import dtypes
from calque.core.errors import explain
from calque.numpy.creation import asarray
from calque.numpy.join import concatenate, stack
from calque.numpy.ranges import arange, linspace, meshgrid
from calque.numpy.shapes import reshape, swapaxes, transpose
from calque.numpy.util import cast


def _line(s: slice) -> Any:
    """The values of a slice: a range, or with an imaginary step so many points, ends included."""
    start = 0 if s.start is None else s.start
    step = 1 if s.step is None else s.step
    if isinstance(step, complex):
        return linspace(start, s.stop, int(abs(step)))
    return arange(start, s.stop, step)


class _Grid:
    """Coordinates of a grid that slices describe; an imaginary step counts points.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.mgrid[0:2, 0:2].tolist()
      [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]
    """

    def __init__(self, name: str, sparse: bool) -> None:
        self._name, self._sparse = name, sparse

    def __repr__(self) -> str:
        return f"<calque.numpy.{self._name}>"

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return _line(key)
        if not key:  # of no axes
            return [] if self._sparse else asarray([], int)
        lines = [_line(k) for k in key]
        # (as standard promotion has it: the slices are one argument)
        dtype, weak = dtypes.promote([dtypes.dtype_and_weak(v) for v in lines], strict=False)
        lines = [cast(v, dtype, weak) for v in lines]
        made = meshgrid(*lines, indexing="ij", sparse=self._sparse)
        return list(made) if self._sparse else stack(made, 0)


class _Join:
    """Values, arrays and slices joined along an axis ('axis,ndmin,trans1d' first, as in NumPy).

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.r_[jnp.array([1, 2]), 5, 7:9]
      Array([1, 2, 5, 7, 8], dtype=int32)
    """

    def __init__(self, name: str, axis: int, ndmin: int, trans1d: int) -> None:
        self._name, self._defaults = name, (axis, ndmin, trans1d)

    def __repr__(self) -> str:
        return f"<calque.numpy.{self._name}>"

    def __getitem__(self, key: Any) -> Any:
        items = list(key) if isinstance(key, tuple) else [key]
        axis, ndmin, trans1d = self._defaults
        if items and isinstance(items[0], str) and items[0] in ("r", "c"):  # a row or a column
            made = concatenate([self._piece(i, ndmin, trans1d) for i in items[1:]], axis)
            if made.ndim != 1:
                return made
            return made[None, :] if items[0] == "r" else made[:, None]
        if items and isinstance(items[0], str):
            axis, ndmin, trans1d = self._directive(items.pop(0))
        return concatenate([self._piece(i, ndmin, trans1d) for i in items], axis)

    def _directive(self, text: str) -> tuple[int, ...]:
        try:
            given = [int(v) for v in text.split(",")]
        except ValueError:
            raise ValueError(explain(f"could not understand directive {text!r}",
                                     fix="use 'axis', 'axis,ndmin' or 'axis,ndmin,trans1d'.")
                             ) from None
        return (*given, *self._defaults[len(given):])

    @staticmethod
    def _piece(item: Any, ndmin: int, trans1d: int) -> Any:
        if isinstance(item, slice):
            x = _line(item)
            x = reshape(x, (1,) * (ndmin - 1) + x.shape) if ndmin > 1 else x
            return swapaxes(x, -1, trans1d) if ndmin > 1 and trans1d != -1 else x
        x = asarray(item)
        missing = ndmin - x.ndim
        if missing <= 0:
            return x
        first = trans1d + missing + 1 if trans1d < 0 else trans1d
        own = x.ndim
        x = reshape(x, (1,) * missing + x.shape)
        if trans1d == -1 or not own:
            return x
        axes = list(range(ndmin))
        return transpose(x, (*axes[:first], *axes[missing:], *axes[first:missing]))


class _Index:
    """The index that was written, for use in x[...].

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.s_[1:3, ...]
      (slice(1, 3, None), Ellipsis)
    """

    def __init__(self, always_tuple: bool) -> None:
        self._always_tuple = always_tuple

    def __getitem__(self, key: Any) -> Any:
        return (key,) if self._always_tuple and not isinstance(key, tuple) else key


mgrid, ogrid = _Grid("mgrid", False), _Grid("ogrid", True)
r_, c_ = _Join("r_", 0, 1, -1), _Join("c_", -1, 2, 0)
s_, index_exp = _Index(False), _Index(True)

__all__ = ["c_", "index_exp", "mgrid", "ogrid", "r_", "s_"]
