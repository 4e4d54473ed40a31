"""minimize: a function of a vector minimized by BFGS or L-BFGS, inside jit as well.

The inverse Hessian is updated by steps that a line search under the strong Wolfe conditions found
(J. Nocedal, S. J. Wright, Numerical Optimization, 2nd edition: algorithms 6.1, 3.5 and 3.6).
Start reading at `_bfgs`, then line_search.py; lbfgs.py has the other method.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import calque.numpy as jnp
from calque.api import loops
from calque.api.autodiff import value_and_grad
from calque.core.errors import explain
from calque.core.types import Function
from calque.scipy.lbfgs import Limits, lbfgs
from calque.scipy.line_search import line_search

__all__ = ["OptimizeResults", "minimize"]


def __dir__() -> list[str]:
    return __all__


class OptimizeResults(NamedTuple):
    """What minimize returns.

    Attributes:
      x: float[n], the last point; success: bool, whether the gradient is below gtol there.
      status: int: 0 success, 1 too many steps, 3 the line search found no lower point; of L-BFGS
        2 and 3 too many evaluations, 4 the decrease is below ftol, 5 no lower point.
      fun: the value at x; jac: float[n], the gradient; hess_inv: float[n, n], its inverse Hessian
        (L-BFGS: None).
      nfev, njev, nit: ints, how often the function and its gradient were evaluated, and steps.

    Example:
      >>> from calque.scipy.optimize import OptimizeResults
      >>> OptimizeResults._fields[:3]
      ('x', 'success', 'status')
    """

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    hess_inv: Any
    nfev: Any
    njev: Any
    nit: Any


class _State(NamedTuple):
    x: Any
    value: Any
    gradient: Any
    inverse: Any
    evaluations: Any
    steps: Any
    failed: Any


def _bfgs(fun: Callable[[Any], Any], x0: Any, *, gtol: float, norm: float, maxiter: int,
          line_search_maxiter: int) -> OptimizeResults:
    n = x0.shape[0]
    both = value_and_grad(fun)
    identity = jnp.eye(n, dtype=x0.dtype)

    def size(gradient: Any) -> Any:
        return jnp.linalg.norm(gradient, ord=norm)

    def going(s: _State) -> Any:
        return ~s.failed & (s.steps < maxiter) & ~(size(s.gradient) < gtol)

    def step(s: _State) -> _State:
        direction = -(s.inverse @ s.gradient)
        slope = direction @ s.gradient
        first = jnp.minimum(1.0, 1.0 / jnp.maximum(size(s.gradient), 1e-30)).astype(x0.dtype)
        found = line_search(both, s.x, direction, s.value, slope, s.gradient,
                            jnp.where(s.steps == 0, first, 1), line_search_maxiter)
        moved = found.step * direction
        change = found.gradient - s.gradient
        curved = change @ moved
        good = curved > 0
        rho = jnp.where(good, 1 / jnp.where(good, curved, 1), 0)
        left = identity - rho * jnp.outer(moved, change)
        scaled = jnp.where(s.steps == 0, curved / jnp.maximum(change @ change, 1e-30), 1)
        before = jnp.where(good & (s.steps == 0), scaled, 1).astype(x0.dtype) * s.inverse
        updated = left @ before @ left.T + rho * jnp.outer(moved, moved)
        return _State(s.x + moved, found.value, found.gradient,
                      jnp.where(good, updated, s.inverse), s.evaluations + found.evaluations,
                      s.steps + 1, found.failed)

    value, gradient = both(x0)
    start = _State(x0, value, gradient, identity, jnp.asarray(1), jnp.asarray(0),
                   ~jnp.isfinite(value))
    end = loops.while_loop(going, step, start)
    success = size(end.gradient) < gtol
    status = jnp.where(success, 0, jnp.where(end.failed, 3, 1))
    return OptimizeResults(end.x, success, status, end.value, end.gradient, end.inverse,
                           end.evaluations, end.evaluations, end.steps)


LBFGS = "l-bfgs-experimental-do-not-rely-on-this"
OPTIONS = {
    "bfgs": ("gtol", "norm", "maxiter", "line_search_maxiter"),
    LBFGS: ("gtol", "norm", "maxiter", "maxcor", "ftol", "maxfun", "maxgrad", "maxls")}


def minimize(fun: Function, x0: Any, args: tuple[Any, ...] = (), *, method: str,
             tol: float | None = None, options: Mapping[str, Any] | None = None
             ) -> OptimizeResults:
    """A local minimum of a differentiable function of a vector.

    Args:
      fun: fun(x, *args) -> real scalar; x is float[n], with L-BFGS also complex[n].
      x0: float[n] or complex[n], where to start.
      args: further arguments of fun.
      method: "BFGS" or "l-bfgs-experimental-do-not-rely-on-this", JAX's name (in any case).
      tol: the gradient's norm at the end (options' gtol; default 1e-5).
      options: gtol; norm, the order of the norm (default inf); maxiter (default 200 n);
        line_search_maxiter (default 10), evaluations of a step.  Of L-BFGS: maxcor (default 10),
        steps that are kept; ftol (default 2.2e-9), a decrease below which it ends; maxfun and
        maxgrad, evaluations; maxls (default 20), evaluations of a step.

    Returns:
      OptimizeResults.

    Raises:
      ValueError: another method or option, x0 is no vector.
      TypeError: args is no tuple, x0 is no array of floats.

    Notes:
      Results can be differentiated in forward mode only, as any while_loop. In float32 a gradient
      of 1e-5 may be out of reach; then status is 3 and x the best point.

    Source: J. Nocedal, S. J. Wright, Numerical Optimization, 2nd edition, algorithms 3.5, 3.6, 6.1.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy.optimize import minimize
      >>> found = minimize(lambda x: jnp.sum((x - 3.0) ** 2), jnp.zeros(2), method="BFGS")
      >>> print(found.x.round(3), found.success)
      [3. 3.] True
    """
    if not isinstance(args, tuple):
        raise TypeError(explain(
            f"minimize: args argument to jax.scipy.optimize.minimize must be a tuple, got {args!r}",
            fix="pass (value,)."))
    method = method.lower()
    if method not in OPTIONS:
        raise ValueError(explain(f"minimize: Method {method} not recognized.",
                                 fix='use method="BFGS".'))
    chosen = dict(options or {})
    wrong = [k for k in chosen if k not in OPTIONS[method]]
    if wrong:
        raise ValueError(explain(f"minimize: unknown option {wrong[0]!r}.",
                                 fix=f"{method} has {', '.join(OPTIONS[method])}."))
    x0 = jnp.asarray(x0)
    if x0.dtype.kind in "iub":
        x0 = x0.astype(float)
    if x0.ndim != 1 or x0.dtype.kind == "c" and method != LBFGS:
        raise ValueError(explain(
            f"minimize: x0 must be a vector of real numbers, got {x0.dtype}{list(x0.shape)}.",
            fix="flatten it, by flatten_util.ravel_pytree for trees."))
    if tol is not None:
        chosen.setdefault("gtol", tol)
    if method == LBFGS:
        return _lbfgs(lambda x: fun(x, *args), x0, chosen)
    return _bfgs(lambda x: fun(x, *args), x0, gtol=chosen.get("gtol", 1e-5),
                 norm=chosen.get("norm", jnp.inf),
                 maxiter=_or(chosen.get("maxiter"), 200 * x0.shape[0]),
                 line_search_maxiter=chosen.get("line_search_maxiter", 10))


def _lbfgs(fun: Callable[[Any], Any], x0: Any, options: Mapping[str, Any]) -> OptimizeResults:
    end = lbfgs(fun, x0, Limits(
        options.get("gtol", 1e-5), options.get("ftol", 2.220446049250313e-9),
        _or(options.get("maxiter"), 200 * x0.shape[0]), _or(options.get("maxfun"), _MANY),
        _or(options.get("maxgrad"), _MANY), options.get("maxls", 20), options.get("maxcor", 10),
        options.get("norm", jnp.inf)))
    return OptimizeResults(end.x, end.status == 0, end.status, end.value, end.gradient, None,
                           end.evaluations, end.evaluations, end.steps)


_MANY = 2 ** 31 - 1


def _or(value: Any, default: int) -> int:
    return default if value is None else value
