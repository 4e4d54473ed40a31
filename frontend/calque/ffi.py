"""Kernels of the user's own inside programs, under the names of jax.ffi."""
from calque.api.ffi import *  # noqa: F403
from calque.api.ffi import __all__ as __all__
from calque.core.refused import refusing as _refusing

__getattr__ = _refusing(__name__)


def __dir__() -> list[str]:
    return __all__
