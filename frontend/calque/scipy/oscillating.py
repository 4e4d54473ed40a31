"""Kummer's function M(a, b, x) of negative a and x > 0 where it oscillates: its series cancels
there to e^-(2 sqrt(-a x)), but its differential equation does not.  w = e^(-x / 2) M solves

    x w'' + b w' + (b / 2 - a - x / 4) w = 0   (DLMF 13.2.1)

and is continued from a small x by Taylor's series, step by step; its derivatives by a and b solve
the same equation with w and w' on the other side.  Start reading at `oscillating`.
"""
from __future__ import annotations

import math
from typing import Any

from calque import lax
from calque import numpy as jnp
from calque.numpy import reductions as rd
from calque.numpy.arithmetic import absolute
from calque.numpy.logic import where
from calque.primitives import elementwise as ew

_TERMS = 20  # of a step, which is a sixth of x at most: 6^-20 is 3e-16
_START = 24  # of the series of a x = -1
_MOST = 20000  # steps


def where_needed(a: Any, b: Any, x: Any, most: float) -> Any:
    """Whether the series' terms are e^8 times the value and more, or x is more than they take.
    Polynomials only where they oscillate: beyond, the other solution would outgrow them."""
    whole = ew.floor(a) == a
    end = where(whole, 2 * b - 4 * a, where(x > most, math.inf, 16 - 6 * a))
    return (a < 0) & (b > 0) & (-a * x > 16) & (x < end)


def _start(a: Any, b: Any, x: Any) -> tuple[Any, Any]:
    """w and its derivatives by a and b, as rows, and their slopes by x: by the series."""
    one, zero = x * 0 + 1, x * 0
    term, by_a, by_b = one, zero, zero
    sums, slopes = [one, zero, zero], [zero, zero, zero]
    for k in range(_START):
        rest = x / ((b + k) * (k + 1))
        by_a, term_next = by_a * (a + k) * rest + term * rest, term * (a + k) * rest
        by_b = by_b * (a + k) * rest - term_next / (b + k)
        term = term_next
        now = (term, by_a, by_b)
        sums = [s + t for s, t in zip(sums, now)]
        slopes = [s + (k + 1) * t for s, t in zip(slopes, now)]
    factor = ew.exp(-0.5 * x)
    value, slope = jnp.stack(sums), jnp.stack(slopes)
    return value * factor, (slope / x - 0.5 * value) * factor


def _step(a: Any, b: Any, x: Any, h: Any, value: Any, slope: Any) -> tuple[Any, Any]:
    """w and its slope at x + h: d_n is h^n / n! times the n-th derivative."""
    part, still = h / x, b / 2 - a - x / 4
    column = [-1] + [1] * x.ndim
    by_a = jnp.array([0, 1, -0.5], x.dtype).reshape(column)  # what w adds on the other side
    by_b = jnp.array([0, 0, -1], x.dtype).reshape(column)  # and w'
    before, now, after = value * 0, value, slope * h
    total, slopes = now + after, after
    for n in range(_TERMS):
        new = (-(n + 1) * (n + b) * part * after - still * h * part * now
               + h * h * part / 4 * before + h * part * by_a * now[:1]
               + (n + 1) * part * by_b * after[:1]) / ((n + 2) * (n + 1))
        before, now, after = now, after, new
        total, slopes = total + new, slopes + (n + 2) * new
    return total, slopes / h


def oscillating(a: Any, b: Any, x: Any) -> list[Any]:
    """M(a, b, x) and its derivatives by a and b, of where_needed arguments, and the logarithm of
    what they are to be multiplied by."""
    at = -1 / a
    value, slope = _start(a, b, at)

    def go(state: Any) -> Any:
        return (state[0] < _MOST) & rd.any(state[1] < x)

    def step(state: Any) -> Any:
        count, at, value, slope, log = state
        speed = ew.sqrt(absolute((b / 2 - a) / at - 0.25)) + 0.5
        widest = at / (6 + b)  # the other solution is x^(1 - b) near 0
        h = where(widest < 1 / speed, widest, 1 / speed)
        last = at + h >= x
        h = where(last, x - at, h)
        done = at >= x
        moved = _step(a, b, at, where(done, widest, h), value, slope)
        value, slope = (where(done, old, new) for old, new in zip((value, slope), moved))
        size = rd.max(absolute(value), 0)
        size = where((size > 1e10) | (size < 1e-10), size, 1)
        at = where(done, at, where(last, x, at + h))
        return count + 1, at, value / size, slope / size, log + ew.log(size)

    start = (jnp.zeros((), "int32"), at, value, slope, at * 0)
    *_, value, _, log = lax.while_loop(go, step, start)
    return [*(value[i] for i in range(3)), log + 0.5 * x]


__all__ = ["oscillating", "where_needed"]
