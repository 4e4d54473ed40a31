"""lax special functions: derivatives by an order, refusals, broadcasting."""
from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
from support.harness import both_ways

import calque
from calque import lax

pytestmark = pytest.mark.usefixtures("x64")


@both_ways
def test_the_derivative_of_igamma_by_a_is_right(jit: Any) -> None:
    a, x = np.array([0.5, 2.0, 30.0]), np.array([0.3, 4.0, 25.0])
    for f, sign in ((lax.igamma, 1), (lax.igammac, -1)):
        got = jit(calque.grad(lambda a, f=f: f(a, x).sum()))(a)
        want = [sign * float(mpmath.diff(lambda t, v=v: mpmath.gammainc(t, 0, v, regularized=True),
                                         u)) for u, v in zip(a, x)]
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-11)


@pytest.mark.parametrize(("f", "args", "error", "text"), [
    (lambda a: lax.betainc(a, 1.0, 0.5), (2.0,), ValueError, "Betainc gradient"),
    (lambda m: lax.polygamma(m, 1.0), (2.0,), ValueError, "polygamma gradient"),
    (lambda a: lax.igamma_grad_a(a, 1.0), (2.0,), NotImplementedError, "igamma_grad_a gradient")])
def test_derivatives_by_an_order_are_refused(f, args, error, text) -> None:  # type: ignore
    with pytest.raises(error, match=text):
        calque.eval_shape(calque.grad(f), *args)


def test_shapes_and_dtypes() -> None:
    shape = calque.eval_shape
    made = shape(lax.betainc, np.ones((2, 1)), np.ones((1, 3)), np.full((2, 3), 0.5))
    assert made.shape == (2, 3)
    assert shape(lax.igamma, np.ones(2), 2.0).shape == (2,)
    with pytest.raises(TypeError, match="lgamma does not accept dtype int"):
        lax.lgamma(np.arange(3))
    with pytest.raises(TypeError, match="mulhi does not accept dtype float"):
        lax.mulhi(1.0, 2.0)
