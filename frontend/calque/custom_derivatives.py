"""Functions with rules of their own: custom_jvp, custom_vjp, custom_gradient, closure_convert."""
from calque.api.custom_derivatives import *  # noqa: F403
from calque.api.custom_derivatives import __all__ as __all__


def __dir__() -> list[str]:
    return __all__
