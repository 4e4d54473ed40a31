"""Complex parts: real, imag, conj, angle; degrees; logarithms to other bases, part by part."""
from __future__ import annotations

import math
from typing import Any

from calque.core import dtypes
from calque.core.avals import dtype_of, shape_of
from calque.core.naming import alias
from calque.numpy import util
from calque.numpy.arithmetic import constant, full_constant, typed
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh


# ---- logarithms to other bases, angles in degrees
@util.planned
def log2(x: Any, /) -> Any:
    """Logarithm to base 2.

    Args:
      x: array or scalar.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.log2(8)
      Array(3., dtype=float32)
    """
    (x,) = util.promote_inexact("log2", x)
    return _each_part(ew.div_p, ew.log(x), math.log(2.0), typed)


@util.planned
def log10(x: Any, /) -> Any:
    """Logarithm to base 10.

    Args:
      x: array or scalar.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.log10(100)
      Array(2., dtype=float32)
    """
    (x,) = util.promote_inexact("log10", x)
    return _each_part(ew.mul_p, ew.log(x), 1.0 / math.log(10.0), typed)


def _each_part(op: Any, x: Any, by: float, number: Any = constant) -> Any:
    """x by a real number; complex x part by part, since infinity times 0i would be NaN."""
    if not util.is_complex(x):
        return op.bind(x, number(x, by))
    re, im = ew.real(x), ew.imag(x)
    return ew.complex_(op.bind(re, number(re, by)), op.bind(im, number(im, by)))


@util.planned
def degrees(x: Any, /) -> Any:
    """Radians as degrees.

    Args:
      x: array or scalar.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.degrees(0)
      Array(0., dtype=float32, weak_type=True)
    """
    (x,) = util.promote_inexact("degrees", x)
    return util.weak_if_scalars(ew.mul(x, constant(x, 180.0 / math.pi)), x)


@util.planned
def radians(x: Any, /) -> Any:
    """Degrees as radians.

    Args:
      x: array or scalar.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.radians(0)
      Array(0., dtype=float32, weak_type=True)
    """
    (x,) = util.promote_inexact("radians", x)
    return util.weak_if_scalars(ew.mul(x, constant(x, math.pi / 180.0)), x)


rad2deg, deg2rad = alias(degrees, "rad2deg"), alias(radians, "deg2rad")


# ---- complex numbers
def real(x: Any, /) -> Any:
    """Real part; real arrays unchanged.

    Args:
      x: array or scalar.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.real(1 + 2j)
      Array(1., dtype=float32, weak_type=True)
    """
    x = util.one_array("real", x)
    return ew.real(x) if util.is_complex(x) else util.array(x)


def imag(x: Any, /) -> Any:
    """Imaginary part; 0 for real arrays.

    Args:
      x: array or scalar.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.imag(1 + 2j)
      Array(2., dtype=float32, weak_type=True)
    """
    x = util.one_array("imag", x)
    if util.is_complex(x):
        return ew.imag(x)
    return sh.broadcast_in_dim(constant(x, 0), shape_of(x), ())


def conj(x: Any, /) -> Any:
    """Complex conjugate; real arrays unchanged.

    Args:
      x: array or scalar.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.conj(1 + 2j)
      Array(1.-2.j, dtype=complex64, weak_type=True)
    """
    x = util.one_array("conjugate", x)
    return ew.conj(x) if util.is_complex(x) else util.array(x)


conjugate = alias(conj, "conjugate")


@util.planned
def angle(z: Any, deg: bool = False) -> Any:
    """Angle of complex numbers in radians, or degrees with deg=True.

    Args:
      z: array or scalar.

    Returns:
      A float array of z's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.angle(1j)
      Array(1.5707964, dtype=float32, weak_type=True)
    """
    z = util.one_array("angle", z)
    dtype, weak, scalar = dtype_of(z), util.weak_of(z), not shape_of(z)
    if dtype.kind == "c":
        z = util.cast(util.array(z), dtype, weak)
        re, im = ew.real(z), ew.imag(z)
    else:
        if scalar or not dtypes.is_inexact(dtype):  # (JAX: those of any dtype)
            dtype, weak = dtypes.default_dtype(float), False
        re = util.cast(z, dtype, weak)
        im = full_constant(re, 0)
    made = ew.atan2(im, re)
    return degrees(made) if deg else made


__all__ = [
    "angle", "conj", "conjugate", "deg2rad", "degrees", "imag", "log10", "log2", "rad2deg",
    "radians", "real"]
