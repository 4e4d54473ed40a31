"""Nothing of JAX's pxla is public but options of XLA's compiler, which calque has not."""
from __future__ import annotations

__all__: list[str] = []


def __dir__() -> list[str]:
    return __all__
