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

__all__ = ["FLOAT8", "bfloat16", "canonicalize_dtype", "extended", "finfo", "float0", "iinfo",
           "issubdtype", "prng_key", "promote_types", "result_type"]
