"""Arrays to and from other libraries' memory under JAX's name of the module: jax.dlpack."""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.numpy.exchange import from_dlpack as from_dlpack
from calque.runtime.dlpack import has_code


def is_supported_dtype(dtype: Any) -> bool:
    """Whether arrays of a dtype can be exported by `__dlpack__`.

    Args:
      dtype: a dtype, or what NumPy takes as one.

    Returns:
      True for bools, integers, floats of 8 to 64 bits and complex numbers.

    Raises:
      TypeError: it is no dtype.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.dlpack.is_supported_dtype(jnp.float32)
      True
    """
    found = np.dtype(getattr(dtype, "dtype", dtype))
    return has_code(found)


__all__ = ["from_dlpack", "is_supported_dtype"]


def __dir__() -> list[str]:
    return __all__
