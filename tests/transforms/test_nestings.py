"""Random nestings of transformations to depth 3 (support/nestings.py), against dual numbers."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import duals, nestings
from support.harness import numpys

import calque


def eagerly(f: Callable[..., Any]) -> Callable[..., Any]:
    return f


@pytest.mark.parametrize(("run", "seeds"), [
    (numpys, range(120)), (calque.jit, range(120, 124)), (eagerly, range(124, 134)),
    *[pytest.param(run, range(first, first + count), marks=pytest.mark.slow)
      for run, first, count in ((numpys, 1000, 2000), (numpys, 3000, 2000),
                                (calque.jit, 5000, 60), (eagerly, 6000, 200))]],
    ids=lambda x: x.__name__ if callable(x) else str(x))
def test_nestings_mean_what_they_say(run: Any, seeds: range) -> None:
    found = [text for seed in seeds if (text := nestings.wrong(seed, run))]
    assert not found, "\n".join(found)


def test_the_oracle_against_differences() -> None:
    """Three derivatives of one function, and a rule that is not the true one."""
    def f(x: Any) -> Any:
        return duals.sin(x * x) * duals.tanh(x) + x

    def slope(g: Callable[[float], Any], x: float) -> float:
        h = 1e-5
        return (duals.plain(g(x + h)) - duals.plain(g(x - h))) / (2 * h)
    g = f
    for _ in range(3):
        want = slope(g, 0.7)
        g = (lambda h: lambda x: duals.derivative(h, x))(g)
        assert math.isclose(duals.plain(g(0.7)), want, rel_tol=1e-6)
    ruled = duals.derivative(lambda x: duals.by_rule(
        [x], lambda v: duals.sin(v[0]), lambda v: [v[0] * 3.0]), 0.5)
    assert ruled == 1.5
    np.testing.assert_allclose(duals.plain(duals.derivative(lambda x: duals.derivative(
        lambda y: x * y * y, x), 3.0)), 4 * 3.0)  # perturbations are not confused
