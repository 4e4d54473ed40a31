"""lax contractions: dot, dot_general, batch_matmul, and their precision."""
from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from calque.core import dtypes
from calque.core.avals import aval_of, dtype_of, ndim_of
from calque.core.config import config
from calque.core.errors import explain
from calque.core.precision import Precision
from calque.core.types import Axes
from calque.dispatch.sharded.placing import resharded
from calque.lax.operands import as_operand, user_dtype
from calque.primitives import contract as ct
from calque.primitives import elementwise as ew

DotDimensionNumbers = tuple[
    tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]


PrecisionLike = Any


@dataclass(frozen=True)
class DotAlgorithm:
    """An algorithm for products: the dtypes of operands and sums.  The CPU takes presets alone.

    Args:
      lhs_precision_type: the dtype that lhs is rounded to.
      rhs_precision_type: the dtype that rhs is rounded to.
      accumulation_type: the dtype of sums.
      lhs_component_count: in how many parts of that dtype lhs is split.
      rhs_component_count: in how many rhs is.
      num_primitive_operations: products of parts.
      allow_imprecise_accumulation: whether sums may have fewer digits.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.DotAlgorithm(np.float16, np.float16, np.float32).num_primitive_operations
      1
    """

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


class DotAlgorithmPreset(enum.Enum):
    """Algorithms by name; those that the CPU takes are all computed with every digit.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> x = np.array([1.0, 2.0], np.float32)
      >>> lax.dot(x, x, precision=lax.DotAlgorithmPreset.F32_F32_F32)
      Array(5., dtype=float32)
    """

    DEFAULT = enum.auto()
    ANY_F8_ANY_F8_F32 = enum.auto()
    ANY_F8_ANY_F8_F32_FAST_ACCUM = enum.auto()
    ANY_F8_ANY_F8_ANY = enum.auto()
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = enum.auto()
    F16_F16_F16 = enum.auto()
    F16_F16_F32 = enum.auto()
    BF16_BF16_BF16 = enum.auto()
    BF16_BF16_F32 = enum.auto()
    BF16_BF16_F32_X3 = enum.auto()
    BF16_BF16_F32_X6 = enum.auto()
    BF16_BF16_F32_X9 = enum.auto()
    TF32_TF32_F32 = enum.auto()
    TF32_TF32_F32_X3 = enum.auto()
    F32_F32_F32 = enum.auto()
    F64_F64_F64 = enum.auto()

    def __repr__(self) -> str:
        return f"DotAlgorithmPreset.{self.name}"

    __str__ = __repr__


_TAKEN = ("DEFAULT", "F16_F16_F16", "BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6",
          "F32_F32_F32", "F64_F64_F64")


def _algorithm(precision: Any) -> Any:
    """The Precision that stands for an algorithm; anything else as it is."""
    name = getattr(precision, "name", precision)
    if isinstance(precision, DotAlgorithmPreset) and name in _TAKEN:
        return None if name == "DEFAULT" else Precision.HIGHEST
    if isinstance(precision, (DotAlgorithm, DotAlgorithmPreset)):
        raise ValueError(explain(
            f"The precision '{name}' is not supported by dot_general on CPU",
            fix=f"use one of the presets {', '.join(_TAKEN)}."))
    return precision


def canonical_precision(precision: Any) -> Any:
    """None, or a pair of Precisions; the default comes from jax_default_matmul_precision."""
    precision = _algorithm(precision)
    if precision is None:
        precision = config.jax_default_matmul_precision
        if precision is None:
            return None
    pair = precision if isinstance(precision, (tuple, list)) else (precision, precision)
    try:
        lhs, rhs = (p if isinstance(p, Precision) else Precision(p) for p in pair)
    except (ValueError, TypeError):
        raise ValueError(explain(
            f"Precision must be one of default, high, highest or a Precision, got {precision!r}.",
            fix="use lax.Precision.HIGHEST, a string, or a pair of them.")) from None
    return lhs, rhs


def dot_general(lhs: Any, rhs: Any, dimension_numbers: Any, precision: Any = None,
                preferred_element_type: Any = None, *, out_sharding: Any = None) -> Any:
    """General contraction: sums of products over axes, for each index of the batch axes.

    Args:
      lhs: any numeric array.
      rhs: array of the same dtype.
      dimension_numbers: ((lhs contracted, rhs contracted), (lhs batch, rhs batch)) axes.
      precision: None, a string, a Precision or a pair of them.
      preferred_element_type: the dtype of the result and its accumulation; lhs's by default.
      out_sharding: of the result, over Explicit axes: a NamedSharding, or a PartitionSpec over
        the context's mesh.

    Returns:
      An array of axes batch, lhs's rest, rhs's rest.

    Raises:
      TypeError: sizes, axes or dtypes do not fit.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.dot_general(np.array([1, 2]), np.array([3, 4]), (((0,), (0,)), ((), ())))
      Array(11, dtype=int32)
    """
    if out_sharding is not None:
        return resharded("dot_general", out_sharding, dot_general, lhs, rhs, dimension_numbers,
                         precision, preferred_element_type)
    x, y = as_operand("dot_general", lhs), as_operand("dot_general", rhs, 1)
    (xc, yc), (xb, yb) = dimension_numbers
    ranks = ndim_of(x), ndim_of(y)
    dims = ((_axes(xc, ranks[0]), _axes(yc, ranks[1])), (_axes(xb, ranks[0]), _axes(yb, ranks[1])))
    preferred = None if preferred_element_type is None else user_dtype(
        "dot", preferred_element_type)
    rounded = preferred is not None and dtypes.is_integer(preferred) and any(
        dtypes.is_inexact(dtype_of(v)) for v in (x, y))
    out = ct.dot_general_p.bind(
        x, y, dimension_numbers=dims, precision=canonical_precision(precision),
        preferred_element_type=None if rounded else preferred, out_sharding=None)
    # (sums of integers would be those of the operands' whole parts)
    return ew.convert(out, preferred) if rounded else out


def _axes(axes: Any, rank: int) -> Axes:
    return tuple(a + rank if -rank <= a < 0 else a for a in (int(a) for a in axes))


def dot(lhs: Any, rhs: Any, *, dimension_numbers: Any = None, precision: Any = None,
        preferred_element_type: Any = None, out_sharding: Any = None) -> Any:
    """Product of vectors and matrices, or dot_general where dimension_numbers are given.

    Args:
      lhs: a vector or matrix.
      rhs: a vector or matrix of the same dtype.
      dimension_numbers: as in dot_general, for arrays of any rank.
      precision: None, a string, a Precision or a pair of them.
      preferred_element_type: the dtype of the result; lhs's by default.
      out_sharding: of the result, over Explicit axes: a NamedSharding, or a PartitionSpec over
        the context's mesh.

    Returns:
      A scalar, vector or matrix.

    Raises:
      TypeError: the contracted sizes differ.
      ValueError: the ranks are not 1 or 2.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.dot(np.array([1, 2]), np.array([3, 4]))
      Array(11, dtype=int32)
    """
    x, y = as_operand("dot", lhs), as_operand("dot", rhs, 1)
    if dimension_numbers is None:
        a, b = aval_of(x), aval_of(y)
        if not (1 <= a.ndim <= 2 and 1 <= b.ndim <= 2):
            raise ValueError(explain(
                "lax.dot: dimension_numbers must be specified when not performing simple "
                "un-batched matrix-matrix, matrix-vector, or vector-vector products; got "
                f"lhs_shape={a.shape} rhs_shape={b.shape}",
                fix="pass dimension_numbers, or use jnp.matmul."))
        if a.shape[-1] != b.shape[0]:
            raise TypeError(explain(f"Incompatible shapes for dot: got {a.shape} and {b.shape}.",
                                    fix="transpose one of them."))
        dimension_numbers = (((a.ndim - 1,), (0,)), ((), ()))
    return dot_general(x, y, dimension_numbers, precision, preferred_element_type,
                       out_sharding=out_sharding)


def batch_matmul(lhs: Any, rhs: Any, precision: Any = None) -> Any:
    """Matrix products over common leading axes.

    Args:
      lhs: array of shape (..., m, k).
      rhs: array of shape (..., k, n) with the same leading axes and dtype.
      precision: None, a string, a Precision or a pair of them.

    Returns:
      An array of shape (..., m, n).

    Raises:
      ValueError: there are fewer than two axes, or the ranks differ.
      TypeError: sizes or dtypes do not fit.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.batch_matmul(np.ones((2, 3, 4)), np.ones((2, 4, 5))).shape
      (2, 3, 5)
    """
    x, y = as_operand("batch_matmul", lhs), as_operand("batch_matmul", rhs, 1)
    a, b = aval_of(x), aval_of(y)
    if min(a.ndim, b.ndim) < 2:
        raise ValueError(explain(f"Arguments to batch_matmul must be at least 2D, got {a.ndim}, "
                                 f"{b.ndim}"))
    if a.ndim != b.ndim:
        raise ValueError(explain(f"Arguments to batch_matmul must have same ndim, got {a.ndim}, "
                                 f"{b.ndim}"))
    batch = tuple(range(a.ndim - 2))
    return dot_general(x, y, (((a.ndim - 1,), (a.ndim - 2,)), (batch, batch)), precision)


__all__ = ["DotAlgorithm", "DotAlgorithmPreset", "DotDimensionNumbers", "Precision",
           "PrecisionLike", "batch_matmul", "dot", "dot_general"]
