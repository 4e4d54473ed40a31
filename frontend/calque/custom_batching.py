"""custom_vmap: a function with a batching rule of its own."""
from calque.api.custom_batching import *  # noqa: F403
from calque.api.custom_batching import __all__ as __all__


def __dir__() -> list[str]:
    return __all__
