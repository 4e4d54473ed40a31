"""map_coordinates: values of an array between its elements.

Each axis gives one or two neighbours with weights; their products weight what is gathered.  Start
reading at `map_coordinates`.
"""
from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from calque.core import dtypes
from calque.core.avals import dtype_of, shape_of
from calque.core.errors import explain
from calque.numpy import util
from calque.numpy.creation import asarray
from calque.numpy.logic import where
from calque.primitives import elementwise as ew

__all__ = ["map_coordinates"]


def __dir__() -> list[str]:
    return __all__


def _mirrored(i: Any, n: int) -> Any:
    """d c b a b c d c b a: the ends once."""
    turn = max(n - 1, 1)
    return abs((i + turn) % (2 * turn) - turn)


_INSIDE: dict[str, Callable[[Any, int], Any]] = {
    "constant": lambda i, n: i, "nearest": lambda i, n: i.clip(0, n - 1),
    "wrap": lambda i, n: i % n, "mirror": lambda i, n: _mirrored(i, n) if n > 1 else i * 0,
    "reflect": lambda i, n: _mirrored(2 * i + 1, 2 * n + 1) // 2}  # d c b a a b c d d c


def _nearest(x: Any) -> list[tuple[Any, Any]]:
    index = ew.round_(x, rounding_method=0) if dtype_of(x).kind == "f" else x
    return [(ew.convert(index, dtypes.int32), None)]


def _linear(x: Any) -> list[tuple[Any, Any]]:
    lower = ew.floor(x)
    index = ew.convert(lower, dtypes.int32)
    return [(index, 1 - (x - lower)), (index + 1, x - lower)]


@util.planned
def map_coordinates(input: Any, coordinates: Sequence[Any], order: int, mode: str = "constant",
                    cval: Any = 0.0) -> Any:
    """The values of an array at any coordinates, by the nearest element or linearly between them.

    Args:
      input: array.
      coordinates: one array for each axis of input: positions along it, in elements; an array's
        first axis counts as well.
      order: 0, the nearest element, or 1, linear.
      mode: what lies outside: 'constant' (cval, and towards it), 'nearest' (the edge), 'mirror' and
        'reflect' (turned round at the outermost element, or at its outer edge), 'wrap'.
      cval: of mode 'constant'.

    Returns:
      An array of the coordinates' shape and input's dtype; integers are rounded.

    Raises:
      NotImplementedError: order or mode is another one.
      TypeError: an argument is no array, or coordinates are complex.
      ValueError: there are not as many coordinates as axes.

    Notes:
      As in JAX 'wrap' and 'constant' are SciPy's 'grid-wrap' and 'grid-constant'.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import ndimage
      >>> ndimage.map_coordinates(jnp.arange(12.0).reshape(3, 4), [jnp.array([0.5, 1.5])] * 2, 1)
      Array([2.5, 7.5], dtype=float32)
    """
    x = asarray(input)
    shape = shape_of(x)
    places = [asarray(c) for c in coordinates]
    if len(places) != len(shape):
        raise ValueError(explain(f"coordinates must be a sequence of length input.ndim, but "
                                 f"{len(places)} != {len(shape)}", fix="pass one for each axis."))
    if not places:
        raise TypeError(explain("map_coordinates: input must have an axis, got a scalar.",
                                fix="pass an array."))
    if mode not in _INSIDE:
        raise NotImplementedError(explain(
            f"jax.scipy.ndimage.map_coordinates does not yet support mode {mode}. Currently "
            f"supported modes are {set(_INSIDE)}.", fix="use one of these."))
    if order not in (0, 1):
        raise NotImplementedError(explain(
            "jax.scipy.ndimage.map_coordinates currently requires order<=1",
            fix="use order=1."))
    for c in places:
        if util.is_complex(c):
            raise TypeError(explain(f"map_coordinates: floor does not accept dtype "
                                    f"{dtype_of(c)}.", fix="pass real coordinates."))
    with util.lazy_eval("map_coordinates"):
        return _mapped(x, places, int(order), mode, cval)


def _mapped(x: Any, places: list[Any], order: int, mode: str, cval: Any) -> Any:
    shape, kind = shape_of(x), dtype_of(x)
    if order:
        places = [util.promote_inexact("map_coordinates", c)[0] for c in places]
    places = util.broadcast_all("map_coordinates", *places) if len(places) > 1 else places
    axes = [(_linear if order else _nearest)(c) for c in places]
    outside = asarray(cval, kind)
    total: Any = None
    for corner in itertools.product(*axes):
        valid, weight, index = None, None, []
        for (i, w), n in zip(corner, shape):
            fixed = _INSIDE[mode](i, n)
            if mode == "constant":
                good = (i >= 0) & (i < n)
                valid = good if valid is None else valid & good
                fixed = where(good, i, 0)
            index.append(fixed)
            weight = w if weight is None else weight * w if w is not None else weight
        part = x[tuple(index)]
        part = part if valid is None else where(valid, part, outside)
        part = part if weight is None else weight * part
        total = part if total is None else total + part
    if kind.kind in "iu" and dtype_of(total).kind == "f":
        # halves away from zero
        total = ew.round_(total, rounding_method=0)
    return util.cast(total, kind)
