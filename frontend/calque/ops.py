"""Reductions by segment: rows of data with the same id become one row."""
from calque.extras.ops import *  # noqa: F403
from calque.extras.ops import __all__ as __all__


def __dir__() -> list[str]:
    return __all__
