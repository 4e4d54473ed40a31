"""Public dtype functions: canonicalize_dtype, issubdtype, result_type, prng_key, float0, ..."""
from calque.core.dtypes import (
    FLOAT8,
    bfloat16,
    extended,
    finfo,
    float0,
    iinfo,
    issubdtype,
    prng_key,
    promote_types,
    result_type,
)
from calque.core.dtypes import canonical as canonicalize_dtype
from calque.core.errors import TypePromotionError

__all__ = ["FLOAT8", "TypePromotionError", "bfloat16", "canonicalize_dtype", "extended",
           "finfo", "float0", "iinfo", "issubdtype", "prng_key", "promote_types", "result_type"]


def __dir__() -> list[str]:
    return __all__
