"""numpy.linalg: linear systems and inverses; public through linalg.py.

They rest on lax.linalg's factorizations; leading axes are a batch.
"""
from __future__ import annotations

from typing import Any

from calque.core.avals import ShapedArray, dtype_of, shape_of
from calque.core.errors import explain
from calque.core.types import Shape
from calque.core.zeros import zeros
from calque.numpy import util
from calque.primitives import linalg as la
from calque.primitives import shape as sh
from calque.primitives.sort import take_along


def square(name: str, a: Any) -> Shape:
    shape = shape_of(a)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError(explain(f"Argument to {name} must have shape [..., n, n], got {shape}.",
                                 fix="pass square matrices."))
    return shape


@util.planned
def factored(a: Any, lead: Shape) -> tuple[Any, Any]:
    """(lu, permutation) of a, its leading axes broadcast to lead."""
    factors, _, order = la.lu(a)
    n = shape_of(a)[-1]
    return util.broadcast_to(factors, (*lead, n, n)), util.broadcast_to(order, (*lead, n))


def solved(a: Any, b: Any) -> Any:
    """a^-1 b for matrices b; leading axes broadcast."""
    n, m = shape_of(b)[-2:]
    lead = util.common_shape("solve", [shape_of(a)[:-2], shape_of(b)[:-2]])
    factors, order = factored(a, lead)
    b = util.broadcast_to(b, (*lead, n, m))
    rows = sh.broadcast_in_dim(order, (*lead, n, m), tuple(range(len(lead) + 1)))
    b = take_along(b, rows, len(lead))
    b = la.triangular_solve(factors, b, left_side=True, lower=True, unit_diagonal=True)
    return la.triangular_solve(factors, b, left_side=True, lower=False)


@util.planned
def solve(a: Any, b: Any) -> Any:
    """The x with a x = b.

    Args:
      a: array of shape (..., n, n).
      b: array of shape (n,) or (..., n, m).

    Returns:
      An array of shape (..., n) or (..., n, m); infinite or NaN where a is singular.

    Raises:
      ValueError: shapes do not fit.
      NotImplementedError: the promoted dtype is float16 or bfloat16.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.linalg.solve(jnp.array([[2.0, 0.0], [0.0, 4.0]]), jnp.array([2.0, 2.0]))
      Array([1. , 0.5], dtype=float32)
    """
    with util.lazy_eval("solve"):
        a, b = util.inexact_arrays("jnp.linalg.solve", a, b)
        left, right = shape_of(a), shape_of(b)
        if len(left) < 2:
            raise ValueError(explain(
                f"left hand array must be at least two dimensional; got a.shape={left}"))
        if not right:
            raise ValueError(explain(
                f"solve: input with shape {right} does not have enough dimensions for all core "
                "dimensions ('m', 'n')"))
        size = right[0] if len(right) == 1 else right[-2]
        if left[-1] != left[-2] or size != left[-1]:
            raise ValueError(explain(
                f"solve: inconsistent size for core dimension 'm': a is {left}, b is {right}.",
                fix="pass a of shape (..., n, n), and b of shape (n,) or (..., n, m)."))
        if len(right) > 1:
            return solved(a, b)
        out = solved(a, sh.reshape(b, (*right, 1)))
        return sh.reshape(out, shape_of(out)[:-1])


@util.planned
def inv(a: Any) -> Any:
    """The inverse.

    Args:
      a: array of shape (..., n, n).

    Returns:
      An array of a's shape; infinite or NaN where a is singular.

    Raises:
      ValueError: a is not square.
      NotImplementedError: a is float16 or bfloat16.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.linalg.inv(jnp.array([[2.0, 0.0], [0.0, 4.0]]))
      Array([[0.5 , 0.  ],
             [0.  , 0.25]], dtype=float32)
    """
    with util.lazy_eval("inv"):
        (a,) = util.inexact_arrays("jnp.linalg.inv", a)
        shape = square("inv", a)
        one = la.identity_like(zeros(ShapedArray(shape[-2:], dtype_of(a))))
        return solved(a, one)
