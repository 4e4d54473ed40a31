"""Checks of derivatives against finite differences, for users' tests."""
from calque.api.derivative_checks import *  # noqa: F403
from calque.api.derivative_checks import __all__ as __all__


def __dir__() -> list[str]:
    return __all__
