"""Public dtype functions: canonicalize_dtype, issubdtype, result_type, prng_key, float0, ..."""
from typing import Any

import ml_dtypes

from calque.core.dtypes import (
    FLOAT8,
    canonical,
    extended,
    finfo,
    float0,
    iinfo,
    is_key,
    issubdtype,
    itemsize_bits,
    prng_key,
    promote_types,
    result_type,
    scalar_type_of,
)
from calque.core.errors import TypePromotionError, explain

bfloat16 = ml_dtypes.bfloat16  # the type of its scalars, as NumPy's float32 is

__all__ = ["FLOAT8", "TypePromotionError", "bfloat16", "canonicalize_dtype", "extended",
           "finfo", "float0", "iinfo", "issubdtype", "itemsize_bits", "prng_key", "promote_types",
           "result_type", "scalar_type_of"]


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> Any:
    """The dtype that arrays really get: 64-bit ones are cut to 32 unless jax_enable_x64.

    Args:
      dtype: a dtype, its name, a scalar type or a Python type.
      allow_extended_dtype: whether dtypes of keys are taken, and returned as they are.

    Returns:
      The dtype.

    Raises:
      TypeError: arrays have no such dtype.
      ValueError: dtype is that of keys, or an array.

    Example:
      >>> import calque
      >>> calque.dtypes.canonicalize_dtype("float64"), calque.dtypes.canonicalize_dtype(int)
      (dtype('float32'), dtype('int32'))
    """
    if is_key(dtype) and not allow_extended_dtype:
        raise ValueError(explain(
            f"canonicalize_dtype called on extended dtype {dtype} with "
            "allow_extended_dtype=False.", fix="pass allow_extended_dtype=True for keys."))
    return canonical(dtype)


def __dir__() -> list[str]:
    return __all__
