"""Memories in which arrays may be, by kind (jax.memory)."""
from calque.core.memories import Space as Space

__all__ = ["Space"]


def __dir__() -> list[str]:
    return __all__
