"""checkpoint (remat): trade memory for computing again; policies say what is kept."""
from calque.api.checkpoint import *  # noqa: F403
from calque.api.checkpoint import __all__ as __all__


def __dir__() -> list[str]:
    return __all__
