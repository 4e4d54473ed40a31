"""What a pullback does with the cotangent of an argument (`jax.ad`)."""
from calque.api.cotangents import *  # noqa: F403
from calque.api.cotangents import __all__ as __all__


def __dir__() -> list[str]:
    return __all__
