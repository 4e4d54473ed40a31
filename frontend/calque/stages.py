"""The stages of a jitted function: Wrapped, Traced, Lowered, Compiled."""
from calque.dispatch.stages import *  # noqa: F403
from calque.dispatch.stages import __all__ as __all__


def __dir__() -> list[str]:
    return __all__
