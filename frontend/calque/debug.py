"""Looking into programs while they run: print and callback."""
from calque.callbacks import callback as callback
from calque.callbacks import print as print

__all__ = ["callback", "print"]


def __dir__() -> list[str]:
    return __all__
