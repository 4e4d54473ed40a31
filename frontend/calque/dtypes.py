"""Public dtype functions: canonicalize_dtype, issubdtype, result_type, prng_key, float0, ..."""
import ml_dtypes

from calque.core.dtypes import (
    FLOAT8,
    extended,
    finfo,
    float0,
    iinfo,
    issubdtype,
    itemsize_bits,
    prng_key,
    promote_types,
    result_type,
    scalar_type_of,
)
from calque.core.dtypes import canonical as canonicalize_dtype
from calque.core.errors import TypePromotionError

bfloat16 = ml_dtypes.bfloat16  # the type of its scalars, as NumPy's float32 is

__all__ = ["FLOAT8", "TypePromotionError", "bfloat16", "canonicalize_dtype", "extended",
           "finfo", "float0", "iinfo", "issubdtype", "itemsize_bits", "prng_key", "promote_types",
           "result_type", "scalar_type_of"]


def __dir__() -> list[str]:
    return __all__
