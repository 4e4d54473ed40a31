"""A step along a direction that fulfils the strong Wolfe conditions, in one loop.

J. Nocedal, S. J. Wright, Numerical Optimization, 2nd edition, algorithms 3.5 (which makes the step
longer until an interval holds such steps) and 3.6 (which makes that smaller).
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import calque.numpy as jnp
from calque.api import loops
from calque.trees import util as tree_util

DECREASE, CURVATURE = 1e-4, 0.9  # c1 and c2 there, for quasi-Newton directions


class Found(NamedTuple):
    """The step, what is there, whether it is no decrease, and how many points were tried."""

    step: Any
    value: Any
    gradient: Any
    failed: Any
    evaluations: Any


class _Point(NamedTuple):
    step: Any
    value: Any
    slope: Any
    gradient: Any


class _State(NamedTuple):
    low: _Point  # the best one that fulfils the first condition
    high: _Point  # the interval's other end
    trial: Any
    zooming: Any
    done: Any
    count: Any


def _chosen(which: Any, a: Any, b: Any) -> Any:
    return tree_util.tree_map(lambda x, y: jnp.where(which, x, y), a, b)


def _between(a: _Point, b: _Point) -> Any:
    """The minimum of the cubic through two points with their slopes; not too near to an end."""
    width = b.step - a.step
    safe = jnp.where(width == 0, 1, width)
    first = a.slope + b.slope - 3 * (b.value - a.value) / safe
    inner = first * first - a.slope * b.slope
    root = jnp.sqrt(jnp.maximum(inner, 0)) * jnp.sign(width)
    below = b.slope - a.slope + 2 * root
    part = 1 - (b.slope + root - first) / jnp.where(below == 0, 1, below)
    good = (inner >= 0) & (below != 0) & jnp.isfinite(part)
    return a.step + width * jnp.where(good, jnp.clip(part, 0.1, 0.9), 0.5)


def line_search(both: Callable[[Any], Any], x: Any, direction: Any, value: Any, slope: Any,
                gradient: Any, first: Any, most: int) -> Found:
    """both: value and gradient of the function, which these are at x; slope: along direction."""
    start = _Point(jnp.zeros((), x.dtype), value, slope, gradient)

    def going(s: _State) -> Any:
        return ~s.done & (s.count < most)

    def step(s: _State) -> _State:
        at, gradient = both(x + s.trial * direction)
        new = _Point(s.trial, at, gradient @ direction, gradient)
        over = ~(new.value <= value + DECREASE * new.step * slope) | (
            (new.value >= s.low.value) & (s.zooming | (s.count > 0)))
        done = ~over & (jnp.abs(new.slope) <= -CURVATURE * slope)
        back = ~over & jnp.where(s.zooming, new.slope * (s.high.step - s.low.step) >= 0,
                                 new.slope >= 0)
        high = _chosen(over, new, _chosen(back, s.low, s.high))
        low = _chosen(over, s.low, new)
        zooming = s.zooming | over | back
        trial = jnp.where(zooming, _between(low, high), 2 * new.step)
        return _State(low, high, trial, zooming, done, s.count + 1)

    s = loops.while_loop(going, step, _State(
        start, start, jnp.asarray(first, x.dtype), jnp.asarray(False),
        ~(slope < 0), jnp.asarray(0)))
    return Found(s.low.step, s.low.value, s.low.gradient, ~(s.low.value < value), s.count)
