"""Integrals of samples under SciPy's name: trapezoid."""
from __future__ import annotations

from calque.numpy import trapezoid as trapezoid

__all__ = ["trapezoid"]


def __dir__() -> list[str]:
    return __all__
