"""L-BFGS: BFGS that keeps the last steps instead of an inverse Hessian.

J. Nocedal, S. J. Wright, Numerical Optimization, 2nd edition, algorithms 7.4 (the direction, by two
loops over the kept steps) and 7.5.  A real function of complex numbers is one of their parts.
Called by optimize.py; start reading at `lbfgs`.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import calque.numpy as jnp
from calque.api import loops
from calque.api.autodiff import value_and_grad
from calque.api.control import scan
from calque.scipy.line_search import line_search


class Limits(NamedTuple):
    """When to end: gradients and decreases below, steps and evaluations beyond; kept steps."""

    gtol: Any
    ftol: Any
    maxiter: Any
    maxfun: Any
    maxgrad: Any
    maxls: int
    maxcor: int
    norm: Any


class End(NamedTuple):
    """Where it ended; status: 0 the gradient is small, 1 steps, 2 and 3 evaluations of function and
    gradient, 4 the decrease is small, 5 the line search found no lower point."""

    x: Any
    value: Any
    gradient: Any
    evaluations: Any
    steps: Any
    status: Any


class _State(NamedTuple):
    x: Any
    value: Any
    gradient: Any
    moves: Any  # (maxcor, n), the newest last; so are changes of the gradient and 1 / (y s)
    changes: Any
    inverses: Any
    scale: Any
    evaluations: Any
    steps: Any
    status: Any


GOING = -1


def lbfgs(fun: Callable[[Any], Any], x0: Any, limits: Limits) -> End:
    """A minimum of fun from x0, float[n] or complex[n]."""
    if x0.dtype.kind != "c":
        return _real(fun, x0, limits)
    n = x0.shape[0]

    def whole(parts: Any) -> Any:
        return (parts[:n] + 1j * parts[n:]).astype(x0.dtype)

    end = _real(lambda parts: fun(whole(parts)), jnp.concatenate([x0.real, x0.imag]), limits)
    return end._replace(x=whole(end.x), gradient=whole(end.gradient).conj())  # as grad has it


def _real(fun: Callable[[Any], Any], x0: Any, limits: Limits) -> End:
    both = value_and_grad(fun)

    def size(gradient: Any) -> Any:
        return jnp.linalg.norm(gradient, ord=limits.norm)

    def step(s: _State) -> _State:
        direction = _direction(s)
        slope = direction @ s.gradient
        first = jnp.minimum(1.0, 1.0 / jnp.maximum(size(s.gradient), 1e-30)).astype(x0.dtype)
        found = line_search(both, s.x, direction, s.value, slope, s.gradient,
                            jnp.where(s.steps == 0, first, 1), limits.maxls)
        move, change = found.step * direction, found.gradient - s.gradient
        curved = change @ move
        good = curved > 0
        safe = jnp.where(good, curved, 1)
        moves, changes, inverses = [
            jnp.where(good, jnp.concatenate([rows[1:], row[None]]), rows) for rows, row in (
                (s.moves, move), (s.changes, change), (s.inverses, 1 / safe))]
        evaluations, steps = s.evaluations + found.evaluations, s.steps + 1
        status: Any = GOING
        for code, holds in (
                (1, steps >= limits.maxiter), (4, s.value - found.value < limits.ftol),
                (3, evaluations >= limits.maxgrad), (2, evaluations >= limits.maxfun),
                (5, found.failed), (0, size(found.gradient) < limits.gtol)):  # the last that holds
            status = jnp.where(holds, code, status)
        return _State(s.x + move, found.value, found.gradient, moves, changes, inverses,
                      jnp.where(good, curved / jnp.where(good, change @ change, 1), s.scale),
                      evaluations, steps, status)

    value, gradient = both(x0)
    rows = jnp.zeros((limits.maxcor, x0.shape[0]), x0.dtype)
    status = jnp.where(size(gradient) < limits.gtol, 0, jnp.where(
        jnp.isfinite(value), jnp.where(limits.maxiter < 1, 1, GOING), 5))
    s = loops.while_loop(lambda s: s.status == GOING, step, _State(
        x0, value, gradient, rows, rows, rows[:, 0], jnp.ones((), x0.dtype), jnp.asarray(1),
        jnp.asarray(0), status))
    return End(s.x, s.value, s.gradient, s.evaluations, s.steps, s.status)


def _direction(s: _State) -> Any:
    """-H g, H the inverse Hessian that the kept steps give (what is not yet there counts for 0)."""
    def newest_first(q: Any, row: Any) -> Any:
        move, change, inverse = row
        part = inverse * (move @ q)
        return q - part * change, part

    def oldest_first(r: Any, row: Any) -> Any:
        move, change, inverse, part = row
        return r + move * (part - inverse * (change @ r)), None

    kept = (s.moves, s.changes, s.inverses)
    q, parts = scan(newest_first, s.gradient, kept, reverse=True)
    r, _ = scan(oldest_first, s.scale * q, (*kept, parts))
    return -r
