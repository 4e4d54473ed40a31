"""Types for annotations: what functions take as arrays (ArrayLike) and as dtypes (DTypeLike)."""
from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np

from calque.core.types import Dtype
from calque.dispatch.array import Array


class SupportsDType(Protocol):
    """An object with a dtype.

    Example:
      >>> import numpy as np
      >>> from calque.typing import SupportsDType
      >>> def kind(x: SupportsDType) -> str:
      ...     return x.dtype.name
      >>> kind(np.zeros(2))
      'float64'
    """

    @property
    def dtype(self) -> Dtype:
        """The dtype."""


ArrayLike: TypeAlias = Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex
DTypeLike: TypeAlias = str | type[Any] | np.dtype | SupportsDType

__all__ = ["Array", "ArrayLike", "DTypeLike", "SupportsDType"]


def __dir__() -> list[str]:
    return __all__
