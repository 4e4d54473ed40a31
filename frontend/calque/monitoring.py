"""Listeners to what calque does, and events of one's own, under the names of jax.monitoring."""
from calque.profiler.monitoring import *  # noqa: F403
from calque.profiler.monitoring import __all__ as __all__


def __dir__() -> list[str]:
    return __all__
