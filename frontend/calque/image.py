"""Images of another size (`jax.image`): each axis is resampled by a small matrix of weights."""
from calque.extras.image import *  # noqa: F403
from calque.extras.image import __all__ as __all__


def __dir__() -> list[str]:
    return __all__
