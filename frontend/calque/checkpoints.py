"""Checkpoints: trees of arrays in a folder, written and read by all processes together."""
from calque.distributed.checkpoints import *  # noqa: F403
from calque.distributed.checkpoints import __all__ as __all__


def __dir__() -> list[str]:
    return __all__
