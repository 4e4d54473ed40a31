"""First, second and third derivatives at 0, at ties and at branch points, in every order of forward
and reverse mode, against mpmath's derivatives of the function (its limits at removable points).
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from support.harness import numpys

import calque
import calque.numpy as jnp
from calque import lax, nn
from calque.scipy import special

MODES = ("r", "f", "rr", "fr", "rf", "ff", "rrr", "fff", "rfr", "frf")
# name -> (function, mpmath's, points)
SMOOTH: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], tuple[float, ...]]] = {
    "sinc": (jnp.sinc, lambda x: mpmath.sinc(mpmath.pi * x), (0, 1e-4, 0.2)),
    "sinc of a square": (lambda x: jnp.sinc(x * x), lambda x: mpmath.sinc(mpmath.pi * x * x), (0,)),
    "x ** 2.0": (lambda x: x ** 2.0, lambda x: x ** 2, (0, 1, -1)),
    "x ** 3.0": (lambda x: x ** 3.0, lambda x: x ** 3, (0, -2)),
    "x ** 1.0": (lambda x: x ** 1.0, lambda x: x, (0, -2)),
    "x ** 0.0": (lambda x: x ** 0.0, lambda x: mpmath.mpf(1), (0, -2)),
    "x ** an array": (lambda x: jnp.power(x, jnp.asarray(2.0)), lambda x: x ** 2, (0, -2)),
    "x ** an integer": (lambda x: jnp.power(x, jnp.asarray(3)), lambda x: x ** 3, (0, -2)),
    "2 ** x": (lambda x: 2.0 ** x, lambda x: mpmath.mpf(2) ** x, (0, 1)),
    "x ** x": (lambda x: x ** x, lambda x: x ** x, (1, 2)),
    "prod": (lambda x: jnp.prod(jnp.stack([x, x, x + 1])), lambda x: x * x * (x + 1), (0, -1)),
    "cumprod": (lambda x: jnp.cumprod(jnp.stack([x, x, x + 1]))[-1], lambda x: x * x * (x + 1),
                (0, -1)),
    "logaddexp": (lambda x: jnp.logaddexp(x, -x), lambda x: mpmath.log(mpmath.exp(x) + mpmath.exp(
        -x)), (0, 2)),
    "logsumexp": (lambda x: nn.logsumexp(jnp.stack([x, 2 * x])), lambda x: mpmath.log(
        mpmath.exp(x) + mpmath.exp(2 * x)), (0, 1)),
    "softplus": (nn.softplus, lambda x: mpmath.log1p(mpmath.exp(x)), (0, 1)),
    "gelu": (lambda x: nn.gelu(x, approximate=False), lambda x: x * mpmath.ncdf(x), (0, 1)),
    "tanh": (jnp.tanh, mpmath.tanh, (0, 1)), "erf": (lax.erf, mpmath.erf, (0, 1)),
    "i0e": (special.i0e, lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)), (0.5, 2)),
    "xlog1py": (lambda x: special.xlog1py(x, x), lambda x: x * mpmath.log1p(x), (0, 1)),
    "hypot": (lambda x: jnp.hypot(x, 1.0), lambda x: mpmath.sqrt(x * x + 1), (0, 1)),
    "arctan2": (lambda x: jnp.arctan2(x, 1.0), mpmath.atan, (0, 1)),
    "det": (lambda x: jnp.linalg.det(jnp.diag(jnp.stack([x, x, x + 1]))),
            lambda x: x * x * (x + 1), (0, 1))}


def derivatives(f: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    made = []
    for modes in MODES:
        g = f
        for m in modes:
            g = calque.grad(g) if m == "r" else calque.jacfwd(g)
        made.append(g)
    return lambda x: [g(x) for g in made]


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_functions_have_all_their_derivatives(name: str) -> None:
    f, exact, points = SMOOTH[name]
    with calque.enable_x64(True), mpmath.workdps(60):
        for x in points:
            got = numpys(derivatives(f))(np.float64(x))
            want = {k: float(mpmath.diff(exact, mpmath.mpf(x), k)) for k in (1, 2, 3)}
            for modes, g in zip(MODES, got):
                w = want[len(modes)]
                assert abs(float(g) - w) <= 1e-9 * max(1, abs(w)), (x, modes, float(g), w)


def test_mixed_derivatives_of_a_power() -> None:
    with calque.enable_x64(True):
        for f in (lax.pow, jnp.power, lambda a, b: a ** b):
            for x, y in ((4.0, 0.0), (4.0, 1.0), (4.0, 2.0), (0.5, 0.0), (2.0, -1.5)):
                log = np.log(x)
                want = x ** (y - 1) * (1 + y * log)
                for outer in (calque.grad, calque.jacfwd):
                    for inner in (calque.grad, calque.jacfwd):
                        got = numpys(lambda x, y, f=f, o=outer, i=inner: (
                            o(i(f, 1), 0)(x, y), o(i(f, 0), 1)(x, y), o(i(f, 1), 1)(x, y)))(x, y)
                        np.testing.assert_allclose(
                            [float(g) for g in got], [want, want, log ** 2 * x ** y], rtol=1e-12)


def test_branches_and_ties_agree_in_every_order() -> None:
    """Where a function has no derivative the convention is one, whatever the mode."""
    kinks: dict[str, tuple[Callable[[Any], Any], float]] = {
        "relu": (nn.relu, 0.0), "abs": (jnp.abs, 1.0), "max": (lambda x: jnp.maximum(x, 0), 0.5),
        "clip": (lambda x: jnp.clip(x, 0, 1), 1.0),
        "ties": (lambda x: jnp.max(jnp.stack([x, 2 * x])), 1.5),
        "median": (lambda x: jnp.median(jnp.stack([x, 2 * x, 3 * x])), 2.0)}
    for name, (f, first) in kinks.items():
        at = 0.0
        got = [float(g) for g in numpys(derivatives(f))(np.float32(at))]
        if name != "clip":  # (a convention of each: see docs/sharp_edges.md)
            assert got[:2] == [first, first], (name, got)
        assert got[0] == got[1] and not any(got[2:]), (name, got)
