"""A tree of arrays as one vector, and back: ravel_pytree."""
from calque.extras.flatten_util import *  # noqa: F403
from calque.extras.flatten_util import __all__ as __all__


def __dir__() -> list[str]:
    return __all__
