"""The pair of Dormand and Prince, orders 5 and 4, with steps of the size that the error allows.

State is a list of vectors (ode.py packs a tree's leaves, one vector a dtype).  Sources: Dormand and
Prince, J. Comp. Appl. Math. 6 (1980), the pair; Hairer, Norsett, Wanner, Solving Ordinary
Differential Equations I, II.4 the first step and the steps' sizes, II.6 the values between steps.
Start reading at `solve`.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

import calque.numpy as jnp
from calque.api.control import scan
from calque.api.loops import while_loop
from calque.lax.elementwise import convert_element_type

Vectors = list[Any]
Slope = Callable[[Vectors, Any], Vectors]


def _numbers(text: str) -> list[float]:
    return [float(Fraction(word)) for word in text.split()]


NODES = _numbers("0 1/5 3/10 4/5 8/9 1 1")
STAGES = [_numbers(row) for row in (
    "", "1/5", "3/40 9/40", "44/45 -56/15 32/9",
    "19372/6561 -25360/2187 64448/6561 -212/729",
    "9017/3168 -355/33 46732/5247 49/176 -5103/18656",
    "35/384 0 500/1113 125/192 -2187/6784 11/84")]
# the result of order 5 is the last stage's; less that of order 4: an estimate of the error
ERROR = _numbers("71/57600 0 -71/16695 71/1920 -17253/339200 22/525 -1/40")
BETWEEN = _numbers("-12715105075/11282082432 0 87487479700/32700410799 -10690763975/1880347072 "
                   "701980252875/199316789632 -1453857185/822651844 69997945/29380423")
SAFETY, LEAST, MOST = 0.9, 0.2, 10.0


class _State(NamedTuple):
    """The end of the latest step, its slope and size; the polynomial over that step."""

    steps: Any
    y: Vectors
    slope: Vectors
    time: Any
    size: Any
    start: Any
    polynomial: list[Vectors]


class Limits(NamedTuple):
    """What a step may be: relative and absolute errors, steps up to a point, the largest size."""

    rtol: float
    atol: float
    mxstep: float
    hmax: float


def solve(slope: Slope, y0: Vectors, times: Any, limits: Limits) -> Vectors:
    """The solutions of y' = slope(y, t) at times, of which the first is y0's: (times, n) arrays.

    A row is NaN where no step was small enough."""
    first = slope(y0, times[0])
    size = jnp.minimum(_first_size(slope, y0, first, times[0], limits), limits.hmax)
    state = _State(jnp.int32(0), y0, first, times[0], size, times[0],
                   [y0, *[[jnp.zeros_like(y) for y in y0]] * 4])

    def reach(state: _State, target: Any) -> tuple[_State, Vectors]:
        def more(s: _State) -> Any:
            going = (s.time < target) & (s.size > 0)
            return going & (s.steps < int(limits.mxstep)) if math.isfinite(limits.mxstep) else going

        state = while_loop(more, lambda s: _step(slope, s, limits),
                           state._replace(steps=jnp.int32(0)))
        return state, _at(state, target)

    _, rows = scan(reach, state, times[1:])
    return [jnp.concatenate([y[None], r]) for y, r in zip(y0, rows)]


def _times(x: Any, y: Any) -> Any:
    """A time or size times a vector, in the vector's dtype."""
    return convert_element_type(x, y.dtype) * y


def _combined(weights: Sequence[float], slopes: Sequence[Vectors]) -> Vectors:
    """The sums of slopes with weights, vector by vector."""
    return [sum(w * k for w, k in zip(weights, ks) if w) for ks in zip(*slopes)]


def _stages(slope: Slope, s: _State) -> tuple[Vectors, list[Vectors]]:
    """The result of a step and its seven slopes: a loop, so that slope is compiled once."""
    def stage(carry: tuple[Vectors, Vectors], given: Any) -> tuple[Any, None]:
        _, slopes = carry
        i, node, row = given
        y = [a + _times(s.size, jnp.sum(convert_element_type(row, a.dtype)[:, None] * k, 0))
             for a, k in zip(s.y, slopes)]
        new = slope(y, s.time + s.size * node)
        return (y, [k.at[i].set(d) for k, d in zip(slopes, new)]), None

    table = np.array([[*row, *[0.0] * (7 - len(row))] for row in STAGES])[1:]
    empty = [jnp.zeros((7, *y.shape), y.dtype).at[0].set(k) for y, k in zip(s.y, s.slope)]
    dtype = s.time.dtype
    (y, slopes), _ = scan(stage, (s.y, empty), (
        jnp.arange(1, 7), jnp.asarray(NODES[1:], dtype), jnp.asarray(table, dtype)))
    return y, [[k[i] for k in slopes] for i in range(7)]


def _step(slope: Slope, s: _State, limits: Limits) -> _State:
    """A step, taken where its error is small enough; the next one's size in any case."""
    y, slopes = _stages(slope, s)
    error = _ratio([_times(s.size, d) for d in _combined(ERROR, slopes)], s.y, y, limits, s.size)
    # steps of a few roundings of the time are taken, else it would stand still
    tiny = s.size <= 16 * float(jnp.finfo(s.time.dtype).eps) * jnp.abs(s.time)
    taken = (error <= 1) | (tiny & (error < math.inf))
    factor = jnp.clip(SAFETY * jnp.where(error == 0, 1e-10, error) ** -0.2, LEAST, MOST)
    size = jnp.minimum(s.size * jnp.where(taken, jnp.maximum(factor, LEAST),
                                          jnp.minimum(factor, 1.0)), limits.hmax)
    new = _State(s.steps, y, slopes[-1], s.time + s.size, s.size, s.time,
                 _polynomial(s.y, y, slopes, s.size))
    kept = s._replace(polynomial=s.polynomial)
    return _chosen(taken, new, kept)._replace(steps=s.steps + 1, size=size)


def _chosen(taken: Any, new: _State, old: _State) -> _State:
    def pick(a: Any, b: Any) -> Any:
        if isinstance(a, list):
            return [pick(x, y) for x, y in zip(a, b)]
        return jnp.where(taken, a, b)
    return _State(*[pick(a, b) for a, b in zip(new, old)])


def _ratio(error: Vectors, before: Vectors, after: Vectors, limits: Limits, like: Any) -> Any:
    """The root mean square of an error over what is allowed."""
    allowed = [limits.atol + limits.rtol * jnp.maximum(jnp.abs(a), jnp.abs(b))
               for a, b in zip(before, after)]
    return _norm([jnp.abs(e) / a for e, a in zip(error, allowed)], like)


def _norm(parts: Vectors, like: Any) -> Any:
    """The root mean square of the elements of real vectors, as a time."""
    count = sum(p.size for p in parts)
    squares = sum(convert_element_type(jnp.sum(p * p), like.dtype) for p in parts)
    return jnp.sqrt(squares / max(count, 1))


def _first_size(slope: Slope, y0: Vectors, first: Vectors, time: Any, limits: Limits) -> Any:
    """A size to begin with, from the slope and how fast it changes (Hairer II.4)."""
    scale = [limits.atol + limits.rtol * jnp.abs(y) for y in y0]

    def measured(values: Vectors) -> Any:
        return _norm([jnp.abs(v) / s for v, s in zip(values, scale)], time)

    d0, d1 = measured(y0), measured(first)
    small = (d0 < 1e-5) | (d1 < 1e-5)
    h0 = jnp.where(small, 1e-6, 0.01 * d0 / jnp.where(small, 1.0, d1))
    second = slope([y + _times(h0, k) for y, k in zip(y0, first)], time + h0)
    d2 = measured([b - a for a, b in zip(first, second)]) / h0
    most = jnp.maximum(d1, d2)
    flat = most <= 1e-15
    h1 = jnp.where(flat, jnp.maximum(1e-6, h0 * 1e-3), (0.01 / jnp.where(flat, 1.0, most)) ** 0.2)
    return convert_element_type(jnp.minimum(100 * h0, h1), time.dtype)


def _polynomial(before: Vectors, after: Vectors, slopes: Sequence[Vectors], size: Any
                ) -> list[Vectors]:
    """The coefficients of the solution over a step (Hairer II.6, the continuous extension)."""
    rise = [b - a for a, b in zip(before, after)]
    start = [_times(size, k) - r for k, r in zip(slopes[0], rise)]
    end = [r - _times(size, k) - c for k, r, c in zip(slopes[-1], rise, start)]
    return [before, rise, start, end, [_times(size, d) for d in _combined(BETWEEN, slopes)]]


def _at(s: _State, target: Any) -> Vectors:
    """The solution at a time within the latest step."""
    width = s.time - s.start
    x = (target - s.start) / jnp.where(width == 0, 1.0, width)
    found = []
    for a, b, c, d, e in zip(*s.polynomial):
        value = a + _times(x, b + _times(1 - x, c + _times(x, d + _times(1 - x, e))))
        found.append(jnp.where((s.time < target) & ~(s.size > 0), math.nan, value))
    return found
