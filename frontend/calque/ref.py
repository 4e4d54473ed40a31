"""References: arrays that are written into (`jax.ref`)."""
from calque.extras.ref import *  # noqa: F403
from calque.extras.ref import __all__ as __all__


def __dir__() -> list[str]:
    return __all__
