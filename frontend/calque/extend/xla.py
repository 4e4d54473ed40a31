"""Passes over XLA's programs: not here.

core/refused says what to use in their place.
"""
from calque.core.refused import refusing as _refusing

__all__: list[str] = []
__getattr__ = _refusing(__name__)
