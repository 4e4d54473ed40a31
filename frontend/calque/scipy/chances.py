"""softmax and its logarithm with the digits of what is far below 1: of log(1 - 1e-9), and of slopes
where one chance is nearly 1.  calque.nn's take half the time for derivatives that are right beside
1, as training needs them.

Start reading at `_less_mean`.
"""
from __future__ import annotations

from typing import Any

from calque.api.custom_derivatives import custom_jvp
from calque.core.avals import ndim_of
from calque.nn import normalize
from calque.numpy import reductions as rd
from calque.numpy import util
from calque.numpy.logic import where
from calque.primitives import elementwise as ew


def _less_mean(chances: Any, t: Any, axis: Any) -> Any:
    """t less its mean.  Where one of the chances is nearly 1, its t and the mean are nearly the
    same: both are taken relative to that t."""
    likely = chances > 0.5
    t = where(likely, 0, t - rd.sum(where(likely, t, 0), axis, keepdims=True))
    return t - rd.sum(chances * t, axis, keepdims=True)


def softmax(x: Any, axis: Any) -> Any:
    """e^x / sum e^x along axes."""
    x = normalize.inexact("softmax", x)
    if util.is_complex(x):
        return normalize.softmax(x, axis)
    axis = util.axis_tuple(axis, ndim_of(x))
    f = custom_jvp(lambda x: normalize.softmax(x, axis))
    f.defjvps(lambda t, out, x: out * _less_mean(out, t, axis))
    return f(x)


def log_softmax(x: Any, axis: Any) -> Any:
    """Its logarithm."""
    x = normalize.inexact("log_softmax", x)
    if util.is_complex(x):
        return normalize.log_softmax(x, axis)
    axis = util.axis_tuple(axis, ndim_of(x))

    @custom_jvp
    def f(x: Any) -> Any:
        below = normalize.shifted(x, axis, None)
        return below - ew.log1p(normalize.rest(below, axis, True, None))

    f.defjvps(lambda t, out, x: _less_mean(ew.exp(out), t, axis))
    return f(x)


__all__ = ["log_softmax", "softmax"]
