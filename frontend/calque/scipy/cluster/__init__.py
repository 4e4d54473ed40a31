"""scipy.cluster.  vq.py: which code of a book is nearest."""
from calque.scipy.cluster import vq as vq

__all__ = ["vq"]


def __dir__() -> list[str]:
    return __all__
