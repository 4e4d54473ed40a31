"""Symbolic zeros of tangents and cotangents, and their sums: shared by every transformation so that
unused paths cost nothing.  Primitives are looked up in the registry at call time, since core does
not import them.  Imports core only.
"""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import HasAval, ShapedArray, aval_of
from calque.core.primitive import registry


@dataclass(frozen=True, slots=True)
class Zero(HasAval):
    """A tangent or cotangent known to be zero.

    Args:
      aval: its shape and dtype.

    Example:
      >>> from calque.interpreters import ad
      >>> ad.Zero.from_primal_value(2.0)
      Zero(aval=ShapedArray(float32[], weak_type=True))
    """

    aval: ShapedArray

    @staticmethod
    def from_primal_value(value: Any) -> Zero:
        """The zero tangent of a value."""
        return zero_like(value)


def is_zero(x: Any) -> bool:
    return isinstance(x, Zero)


def nonzero_mask(xs: Iterable[Any]) -> list[bool]:
    return [not isinstance(x, Zero) for x in xs]


def nonzeros(xs: Iterable[Any]) -> list[Any]:
    return [x for x in xs if not isinstance(x, Zero)]


def zero_like(x: Any) -> Zero:
    """The Zero tangent of a value."""
    return Zero(aval_of(x).tangent())


def constant(value: Any, dtype: Any) -> Any:
    """A scalar of a dtype: also where it is a 64-bit one and x64 is off by now, which would cut a
    NumPy scalar to 32 bits (a derivative of what was computed under `enable_x64(True)`)."""
    number = np.asarray(value).astype(dtype)[()]
    if dtypes.canonical(dtype) == dtype:
        return number
    if number.dtype.kind == "c":
        half = np.dtype(np.float64)
        return registry["complex"].bind(constant(number.real, half), constant(number.imag, half))
    return registry["bitcast_convert_type"].bind(
        np.frombuffer(number.tobytes(), np.uint32), new_dtype=number.dtype)


def factor(like: Any, value: complex) -> Any:
    """A scalar of like's dtype for a derivative: weak beside a weak scalar, so that derivatives of
    numbers stay weak, and strong beside any array, as JAX's rules write it."""
    a = aval_of(like)
    number = constant(value if a.dtype.kind == "c" else value.real, a.dtype)
    weak = a.weak_type and not a.shape and isinstance(number, np.generic)
    return number.item() if weak else number


def zeros(aval: ShapedArray) -> Any:
    """A real array of zeros of an aval, weak where it is (float0 arrays are NumPy's)."""
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    scalar = constant(0, aval.dtype)
    if aval.weak_type and dtypes.canonical(aval.dtype) == aval.dtype:
        scalar = scalar.item()
    made = registry["broadcast_in_dim"].bind(
        scalar, shape=aval.shape, broadcast_dimensions=(), sharding=None)
    if aval.vma:
        kinds = aval.mat
        varying, summed, same = kinds.varying, kinds.unreduced, kinds.reduced
        for name, axes in (("pvary", varying), ("invary_unreduced_cast", summed),
                           ("preduced", same)):
            if axes:
                made = registry[name].bind(made, axes=tuple(sorted(axes, key=str)))
    if aval.has_sums and not aval.vma:
        made = registry["sharding_constraint"].bind(made, sharding=aval.placement)
    return made


def instantiate(x: Any) -> Any:
    """x, or an array of zeros for a Zero."""
    return zeros(x.aval) if isinstance(x, Zero) else x


def add_tangents(x: Any, y: Any) -> Any:
    """x + y where either may be Zero.

    Args:
      x, y: tangents.

    Returns:
      A tangent.

    Raises:
      Nothing.

    Example:
      >>> from calque.interpreters import ad
      >>> ad.add_tangents(ad.Zero.from_primal_value(1.0), 2.0)
      2.0
    """
    if isinstance(x, Zero):
        return y
    if isinstance(y, Zero):
        return x
    return registry["add_any"].bind(x, y)
