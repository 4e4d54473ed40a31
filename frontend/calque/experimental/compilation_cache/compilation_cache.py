"""Where compiled programs are kept on disk (lowering/driver/cache keeps them)."""
from __future__ import annotations

import os

from calque.core.config import config
from calque.dispatch.jit import clear_caches

__all__ = ["reset_cache", "set_cache_dir"]


def set_cache_dir(path: str | os.PathLike[str]) -> None:
    """Keep what is compiled from here on in a folder: the option jax_compilation_cache_dir.

    Args:
      path: of a folder that nobody else can write to; it is made.

    Returns:
      Nothing.

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> from calque.experimental.compilation_cache import compilation_cache
      >>> before = calque.config.jax_compilation_cache_dir
      >>> compilation_cache.set_cache_dir("/tmp/programs")
      >>> calque.config.jax_compilation_cache_dir
      '/tmp/programs'
      >>> calque.config.update("jax_compilation_cache_dir", before)
    """
    config.update("jax_compilation_cache_dir", os.fspath(path))


def reset_cache() -> None:
    """Forget what was compiled in this process; the next call looks on disk.

    Returns:
      Nothing.

    Raises:
      Nothing.

    Example:
      >>> from calque.experimental.compilation_cache import compilation_cache
      >>> compilation_cache.reset_cache()
    """
    clear_caches()


def __dir__() -> list[str]:
    return __all__
