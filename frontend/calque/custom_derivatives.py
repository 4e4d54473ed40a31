"""Functions with rules of their own: custom_jvp, custom_vjp, custom_gradient, closure_convert,
linear_call."""
from calque.api import custom_derivatives as _rules
from calque.api.custom_derivatives import *  # noqa: F403
from calque.lax.implicit import linear_call as linear_call

__all__ = [*_rules.__all__, "linear_call"]


def __dir__() -> list[str]:
    return __all__
