"""Rules of how one operation is split over devices: not here.

core/refused says what to use in their place.
"""
from calque.core.refused import refusing as _refusing

__all__: list[str] = []
__getattr__ = _refusing(__name__)
