"""scipy.spatial.  transform.py: rotations in three dimensions and their interpolation."""
from calque.scipy.spatial import transform as transform

__all__ = ["transform"]


def __dir__() -> list[str]:
    return __all__
