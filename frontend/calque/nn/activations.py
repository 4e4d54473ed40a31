"""Activations: relu, gelu, silu, softplus, elu, ... with JAX's derivatives where they have kinks.

relu and relu6 have rules of their own (0 at the kinks); most others are differentiated as they
are written.
Start reading at `relu`.
"""
from __future__ import annotations

import math
from typing import Any

from calque.api.custom_derivatives import custom_jvp
from calque.core.avals import dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.lax.make import full_like
from calque.lax.operands import canonical_axis
from calque.numpy import arithmetic as ar
from calque.numpy import rounding, special, util
from calque.numpy.logic import where
from calque.numpy.split import split
from calque.numpy.ufuncs import maximum, minimum
from calque.numpy.ufuncs import tanh as _tanh
from calque.primitives import elementwise as ew


def _array(name: str, x: Any) -> Any:
    """x as an array of its dtype."""
    return util.array(util.one_array(name, x))


def _float(name: str, x: Any) -> Any:
    """x as an array of inexact dtype."""
    return util.inexact_arrays(name, x)[0]


@custom_jvp
def _relu(x: Any) -> Any:
    return maximum(x, 0)


_relu.defjvps(lambda t, out, x: where(x > 0, t, full_like(t, 0)))


@util.planned
def relu(x: Any) -> Any:
    """Rectified linear unit max(x, 0); its derivative at 0 is 0.

    Args:
      x: array or scalar; integers become floats.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is not an array or a number (lists are not accepted).

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> nn.relu(jnp.array([-1.0, 0.0, 2.0]))
      Array([0., 0., 2.], dtype=float32)
    """
    return _relu(_array("relu", x))


@util.planned
def relu6(x: Any) -> Any:
    """min(max(x, 0), 6); its derivative at 0 and at 6 is 0.

    Args:
      x: array or scalar; integers become floats.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is not an array or a number (lists are not accepted).

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> nn.relu6(jnp.array([-1.0, 0.0, 2.0]))
      Array([0., 0., 2.], dtype=float32)
    """
    return _relu6(_array("relu6", x))


@custom_jvp
def _relu6(x: Any) -> Any:
    return minimum(maximum(x, 0), 6.0)


_relu6.defjvps(lambda t, out, x: where((x > 0) & (x < 6), t, full_like(t, 0)))


@util.planned
def squareplus(x: Any, b: Any = 4) -> Any:
    """(x + sqrt(x**2 + b)) / 2, smooth and without exponentials.

    Args:
      x: array or scalar; integers become floats.
      b: smoothness; array or scalar.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is not an array or a number (lists are not accepted).

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> nn.squareplus(jnp.array([-1.0, 0.0, 2.0]))
      Array([0.618034 , 1.       , 2.4142137], dtype=float32)
    """
    x, b = util.inexact_arrays("squareplus", x, b)
    return (x + ew.sqrt(ew.square(x) + b)) / 2


@util.planned
def softplus(x: Any) -> Any:
    """log(1 + e**x), without overflow.

    Args:
      x: array or scalar; integers become floats.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is not an array or a number (lists are not accepted).

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> nn.softplus(jnp.array([-1.0, 0.0, 2.0]))
      Array([0.3132617, 0.6931472, 2.126928 ], dtype=float32)
    """
    x = util.one_array("softplus", x)
    return special.logaddexp(x, 0)


@util.planned
def sparse_plus(x: Any) -> Any:
    """0 below -1, x above 1, (x + 1)**2 / 4 between.

    Args:
      x: array or scalar; integers become floats.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is not an array or a number (lists are not accepted).

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> nn.sparse_plus(jnp.array([-1.0, 0.0, 2.0]))
      Array([0.  , 0.25, 2.  ], dtype=float32)
    """
    x = _array("sparse_plus", x)
    return where(x <= -1.0, 0.0, where(x >= 1.0, x, (x + 1.0) ** 2 / 4))


@util.planned
def soft_sign(x: Any) -> Any:
    """x / (|x| + 1).

    Args:
      x: array or scalar; integers become floats.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is not an array or a number (lists are not accepted).

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> nn.soft_sign(jnp.array([-1.0, 0.0, 2.0]))
      Array([-0.5      ,  0.       ,  0.6666667], dtype=float32)
    """
    x = _array("soft_sign", x)
    return x / (ar.absolute(x) + 1)


def sigmoid(x: Any) -> Any:
    """1 / (1 + e**-x).

    Args:
      x: array or scalar; integers become floats.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is not an array or a number (lists are not accepted).

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> nn.sigmoid(jnp.array([-1.0, 0.0, 2.0]))
      Array([0.26894143, 0.5       , 0.880797  ], dtype=float32)
    """
    x = util.one_array("sigmoid", x)
    return ew.logistic(x)


@util.planned
def sparse_sigmoid(x: Any) -> Any:
    """0 below -1, 1 above 1, (x + 1) / 2 between.

    Args:
      x: array or scalar; integers become floats.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is not an array or a number (lists are not accepted).

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> nn.sparse_sigmoid(jnp.array([-1.0, 0.0, 2.0]))
      Array([0. , 0.5, 1. ], dtype=float32)
    """
    return 0.5 * rounding.clip(_array("sparse_sigmoid", x) + 1.0, 0.0, 2.0)


@util.planned
def silu(x: Any) -> Any:
    """x * sigmoid(x).

    Args:
      x: array or scalar; integers become floats.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is not an array or a number (lists are not accepted).

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> nn.silu(jnp.array([-1.0, 0.0, 2.0]))
      Array([-0.26894143,  0.        ,  1.761594  ], dtype=float32)
    """
    x = _array("silu", x)
    return x * ew.logistic(x)


swish = silu


@util.planned
def mish(x: Any) -> Any:
    """x * tanh(softplus(x)).

    Args:
      x: array or scalar; integers become floats.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is not an array or a number (lists are not accepted).

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> nn.mish(jnp.array([-1.0, 0.0, 2.0]))
      Array([-0.30340144,  0.        ,  1.943959  ], dtype=float32)
    """
    x = _array("mish", x)
    return x * _tanh(softplus(x))


@util.planned
def log_sigmoid(x: Any) -> Any:
    """log(sigmoid(x)), without overflow.

    Args:
      x: array or scalar; integers become floats.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is not an array or a number (lists are not accepted).

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> nn.log_sigmoid(jnp.array([-1.0, 0.0, 2.0]))
      Array([-1.3132617, -0.6931472, -0.126928 ], dtype=float32)
    """
    x = _array("log_sigmoid", x)
    return -softplus(ew.neg(x))


@util.planned
def elu(x: Any, alpha: Any = 1.0) -> Any:
    """x where x > 0, alpha * (e**x - 1) elsewhere.

    Args:
      x: array or scalar; integers become floats.
      alpha: array or scalar.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is not an array or a number (lists are not accepted).

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> nn.elu(jnp.array([-1.0, 0.0, 2.0]))
      Array([-0.63212055,  0.        ,  2.        ], dtype=float32)
    """
    x, alpha = util.check_arrays("elu", x, alpha)
    x = util.array(x)
    positive = x > 0
    return where(positive, x, alpha * ew.expm1(_float("elu", where(positive, 0.0, x))))


@util.planned
def celu(x: Any, alpha: Any = 1.0) -> Any:
    """max(x, 0) + alpha * (e**(min(x, 0) / alpha) - 1).

    Args:
      x: array or scalar; integers become floats.
      alpha: array or scalar.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is not an array or a number (lists are not accepted).

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> nn.celu(jnp.array([-1.0, 0.0, 2.0]))
      Array([-0.63212055,  0.        ,  2.        ], dtype=float32)
    """
    x, alpha = util.check_arrays("celu", x, alpha)
    x = util.array(x)
    low = minimum(x, 0.0)
    if isinstance(alpha, (int, float)) and alpha == 1:  # complex infinities by 1 would be nan
        return maximum(x, 0.0) + ew.expm1(low)
    return maximum(x, 0.0) + alpha * ew.expm1(low / alpha)


@util.planned
def selu(x: Any) -> Any:
    """Scaled elu (the self-normalizing constants).

    Args:
      x: array or scalar; integers become floats.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is not an array or a number (lists are not accepted).

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> nn.selu(jnp.array([-1.0, 0.0, 2.0]))
      Array([-1.1113307,  0.       ,  2.101402 ], dtype=float32)
    """
    # Klambauer et al. 2017, equation 14
    alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
    return scale * elu(x, alpha)


@util.planned
def leaky_relu(x: Any, negative_slope: Any = 0.01) -> Any:
    """x where x >= 0, negative_slope * x elsewhere.

    Args:
      x: array or scalar; integers become floats.
      negative_slope: array or scalar.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is not an array or a number (lists are not accepted).

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> nn.leaky_relu(jnp.array([-1.0, 0.0, 2.0]))
      Array([-0.01,  0.  ,  2.  ], dtype=float32)
    """
    x, negative_slope = util.check_arrays("leaky_relu", x, negative_slope)
    x = util.array(x)
    return where(x >= 0, x, negative_slope * x)


@util.planned
def hard_tanh(x: Any) -> Any:
    """x limited to [-1, 1].

    Args:
      x: array or scalar; integers become floats.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is not an array or a number (lists are not accepted).

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> nn.hard_tanh(jnp.array([-1.0, 0.0, 2.0]))
      Array([-1.,  0.,  1.], dtype=float32)
    """
    x = _array("hard_tanh", x)
    return where(x > 1, 1, where(x < -1, -1, x))


@util.planned
def hard_sigmoid(x: Any) -> Any:
    """relu6(x + 3) / 6.

    Args:
      x: array or scalar; integers become floats.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is not an array or a number (lists are not accepted).

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> nn.hard_sigmoid(jnp.array([-1.0, 0.0, 2.0]))
      Array([0.33333334, 0.5       , 0.8333333 ], dtype=float32)
    """
    return _relu6(_array("hard_sigmoid", x) + 3.0) / 6.0


@util.planned
def hard_silu(x: Any) -> Any:
    """x * relu6(x + 3) / 6.

    Args:
      x: array or scalar; integers become floats.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is not an array or a number (lists are not accepted).

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> nn.hard_silu(jnp.array([-1.0, 0.0, 2.0]))
      Array([-0.33333334,  0.        ,  1.6666666 ], dtype=float32)
    """
    x = _array("hard_silu", x)
    return x * hard_sigmoid(x)


hard_swish = hard_silu


def tanh(x: Any, /) -> Any:
    """Hyperbolic tangent.

    Args:
      x: array or scalar; integers become floats.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is not an array or a number (lists are not accepted).

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> nn.tanh(jnp.array([-1.0, 0.0, 2.0]))
      Array([-0.7615942,  0.       ,  0.9640276], dtype=float32)
    """
    return _tanh(x)


def identity(x: Any) -> Any:
    """x itself, as an array.

    Args:
      x: array or scalar; integers become floats.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is not an array or a number (lists are not accepted).

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> nn.identity(jnp.array([-1.0, 0.0, 2.0]))
      Array([-1.,  0.,  2.], dtype=float32)
    """
    return _array("identity", x)


@util.planned
def gelu(x: Any, approximate: bool = True) -> Any:
    """x * Phi(x), Phi the normal distribution function: Gaussian error linear unit.

    Args:
      x: array or scalar; integers become floats.
      approximate: by tanh (True) or exactly by erfc.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is not an array or a number (lists are not accepted).

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> nn.gelu(jnp.array([-1.0, 0.0, 2.0]))
      Array([-0.158808 ,  0.       ,  1.9545977], dtype=float32)
    """
    x = _float("gelu", x)
    if not approximate:
        root = dtype_of(x).type(math.sqrt(0.5))
        return 0.5 * x * ew.erfc(-x * root)
    root = dtype_of(x).type(math.sqrt(2 / math.pi))
    return x * (0.5 * (1.0 + ew.tanh(root * (x + 0.044715 * ew.integer_pow(x, 3)))))


@util.planned
def glu(x: Any, axis: int = -1) -> Any:
    """The first half of x times the sigmoid of the second: gated linear unit.

    Args:
      x: array or scalar; integers become floats.
      axis: the axis to halve; of even size.

    Returns:
      An array of x's shape with half the size along the axis.

    Raises:
      TypeError: x is not an array or a number (lists are not accepted).
      ValueError: the axis does not exist, or its size is odd.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> nn.glu(jnp.array([1.0, 2.0]))
      Array([0.880797], dtype=float32)
    """
    x = _array("glu", x)
    axis = canonical_axis(axis, ndim_of(x))
    size = shape_of(x)[axis]
    if size % 2:
        raise ValueError(explain(
            f"axis size must be divisible by 2: glu got size {size} along axis {axis}.",
            fix="pad the axis, or split it yourself."))
    first, second = split(x, 2, axis)
    return first * ew.logistic(second)


@custom_jvp
def _log1mexp(x: Any) -> Any:
    """Accurate on both sides of log 2 (Maechler 2012)."""
    return where(x < math.log(2), ew.log(-ew.expm1(-x)),
                 ew.log1p(-ew.exp(-x)))


_log1mexp.defjvps(lambda t, out, x: t / ew.expm1(x))


@util.planned
def log1mexp(x: Any) -> Any:
    """log(1 - e**-x) of positive x.

    Args:
      x: array or scalar; integers become floats.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is not an array or a number (lists are not accepted).

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> nn.log1mexp(jnp.array([1.0]))
      Array([-0.45867515], dtype=float32)
    """
    return _log1mexp(_float("log1mexp", x))


__all__ = ["celu", "elu", "gelu", "glu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh",
           "identity", "leaky_relu", "log1mexp", "log_sigmoid", "mish", "relu", "relu6", "selu",
           "sigmoid", "silu", "soft_sign", "softplus", "sparse_plus", "sparse_sigmoid",
           "squareplus", "swish", "tanh"]
