"""Compiled programs on disk, under JAX's names: compilation_cache.py."""
from calque.experimental.compilation_cache import compilation_cache as compilation_cache

__all__ = ["compilation_cache"]


def __dir__() -> list[str]:
    return __all__
