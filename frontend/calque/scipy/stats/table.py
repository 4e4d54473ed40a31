"""How a row of densities becomes a distribution: a module of functions with one signature each.

A row gives functions of the standard variable z = (x - loc) / scale and of the shape parameters;
location, scale, support, promotion, signatures and docstrings are added here.  A distribution is
a module, so that `from calque.scipy.stats import norm` and `import calque.scipy.stats.norm` both
work.  Start reading at `distribution`.
"""
from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import numpy as np

from calque.api.autodiff import jvp
from calque.api.custom_derivatives import custom_jvp
from calque.core.avals import dtype_of
from calque.core.errors import explain
from calque.core.tables import from_row
from calque.core.types import Function
from calque.numpy import util
from calque.numpy.logic import where
from calque.primitives import elementwise as ew
from calque.primitives.custom import SymbolicZero

_HOME = "calque.scipy.stats"
_SAYS = {
    "pdf": "Probability density", "logpdf": "Log of the probability density",
    "pmf": "Probability of a value", "logpmf": "Log of the probability of a value",
    "cdf": "Distribution function, the probability of values up to x",
    "logcdf": "Log of the distribution function",
    "sf": "Survival function 1 - cdf, exact for small values",
    "logsf": "Log of the survival function", "ppf": "Quantile, the inverse of cdf",
    "isf": "Inverse of the survival function", "entropy": "Entropy in nats",
}
_DOC = """{says}: {what}.

    Args:
{args}
    Returns:
      An array of the broadcast shape, of inexact dtype.

    Raises:
      TypeError: an argument is missing, or not an array or a number.
      ValueError: shapes do not broadcast.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy.stats import {distribution}
      >>> {distribution}.{name}(jnp.array([0.25, 0.5]){given}).shape
      (2,)
    """


def _signature(first: str, rest: Iterable[str], defaults: dict[str, int]) -> inspect.Signature:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(n, kind) for n in (first, *rest)]
    parameters += [inspect.Parameter(n, kind, default=v) for n, v in defaults.items()]
    return inspect.Signature(parameters)


def promoted(name: str, *values: Any) -> list[Any]:
    """The values as arrays of one float dtype."""
    made = util.inexact_arrays(name, *values)
    if util.is_complex(made[0]):
        raise ValueError(explain(f"{name} does not support complex-valued inputs.",
                                 fix="pass real arrays."))
    return made


def function(distribution: str, name: str, what: str, signature: inspect.Signature,
             example: tuple[float, ...], body: Function) -> Function:
    """A public function: `body` of promoted arguments, under a name, with a docstring."""
    full = f"{distribution}.{name}"

    def f(*args: Any, **kwargs: Any) -> Any:
        if kwargs or len(args) != len(signature.parameters):
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as e:
                raise TypeError(explain(f"{full}: {e}.",
                                        fix=f"call {full}{signature}.")) from None
            bound.apply_defaults()
            args = bound.args
        return body(*promoted(full, *args))

    out: Any = util.planned(from_row(
        f, f"{_HOME}.{distribution}", name, _DOC, says=_SAYS[name], what=what,
        distribution=distribution, given="".join(f", {v}" for v in example),
        args="".join(f"      {n}: {_meaning(n, i)}.\n"
                     for i, n in enumerate(signature.parameters))))
    out.__signature__ = signature
    return out


def _meaning(name: str, position: int) -> str:
    known = {"loc": "array or scalar; where the standard variable is 0",
             "scale": "array or scalar; the unit of x"}
    return known.get(name, "array or scalar" if not position else "array or scalar, a parameter")


def module(name: str, what: str, functions: dict[str, Function]) -> ModuleType:
    """A distribution: a module of its functions."""
    made = ModuleType(f"{_HOME}.{name}", f"The {what}.")
    vars(made).update(functions, __all__=sorted(functions))
    sys.modules[made.__name__] = made
    return made


# ---- scale families
def _inside(z: Any, support: Function | None, shapes: Any) -> Any:
    if support is None:
        return None
    low, high = support(*shapes)
    inside = z >= low if high is None else (z >= low) & (z <= high)
    return inside | ew.ne(z, z)  # NaN stays NaN


def _density(row: dict[str, Function], support: Function | None) -> Function:
    def logpdf(x: Any, *rest: Any) -> Any:
        *shapes, loc, scale = rest
        z = (x - loc) / scale
        inside = _inside(z, support, shapes)
        if inside is None:
            return row["logpdf"](z, *shapes) - ew.log(scale)
        low = support(*shapes)[0]  # type: ignore[misc]
        near = low + 0.5 if isinstance(low, float) else where(low > -np.inf, low + 0.5, 0)
        safe = where(inside, z, near)
        value = where(inside, row["logpdf"](safe, *shapes) - ew.log(scale), -np.inf)
        return where(scale > 0, value, np.nan)

    return logpdf


def _plain_density(row: dict[str, Function]) -> Function:
    return lambda x, *rest: row["pdf"]((x - rest[-2]) / rest[-1], *rest[:-2]) / rest[-1]


def _logarithm(row: dict[str, Function], base: str, other: str) -> Function:
    """log of a probability: by that of the contrary where it is near 1."""
    def log(*args: Any) -> Any:
        part, rest = row[base](*args), row[other](*args)
        least = part < 0.5
        return where(least, ew.log(where(least, part, 0.5)),
                     ew.log1p(-where(least, 0.5, rest)))

    return log


_PARTS = {"logcdf": ("cdf", "sf"), "logsf": ("sf", "cdf")}
_BEYOND = {"cdf": (0.0, 1.0), "sf": (1.0, 0.0), "logcdf": (-np.inf, 0.0), "logsf": (0.0, -np.inf)}


def _cumulative(name: str, row: dict[str, Function], support: Function | None) -> Function:
    function = row[name] if name in row else _logarithm(row, *_PARTS[name])

    def cumulative(x: Any, *rest: Any) -> Any:
        *shapes, loc, scale = rest
        z = (x - loc) / scale
        low, high = support(*shapes) if support else (None, None)
        safe = z
        if low is not None:
            safe = where(z < low, low, safe)
        if high is not None:
            safe = where(z > high, high, safe)
        value = function(safe, *shapes)
        below, above = _BEYOND[name]
        if low is not None:
            value = where(z < low, below, value)
        return value if high is None else where(z > high, above, value)

    return cumulative


def _quantile(name: str, row: dict[str, Function]) -> Function:
    def quantile(q: Any, *rest: Any) -> Any:
        *shapes, loc, scale = rest
        possible = (q >= 0) & (q <= 1)
        return where(possible, row[name](where(possible, q, 0.5), *shapes), np.nan) * scale + loc

    return quantile


def _exp(log: Function) -> Function:
    """exp(log(*args)), whose slope is e^(log / 2) dlog e^(log / 2): e^log may underflow where its
    product with dlog does not."""
    whole = custom_jvp(lambda *args: ew.exp(log(*args)))

    def rule(primals: Any, tangents: Any) -> Any:
        moved = [i for i, t in enumerate(tangents) if not isinstance(t, SymbolicZero)]

        def of(*some: Any) -> Any:
            args = list(primals)
            for i, x in zip(moved, some):
                args[i] = x
            return log(*args)

        half = ew.exp(0.5 * log(*primals))
        out, slope = jvp(of, [primals[i] for i in moved], [tangents[i] * half for i in moved])
        return ew.exp(out), half * slope

    whole.defjvp(rule, symbolic_zeros=True)
    return lambda *args: whole(*util.broadcast_all("exp", *args))


def distribution(name: str, what: str, shapes: str, public: str, row: dict[str, Function],
                 support: Function | None = None, example: tuple[float, ...] = (),
                 scaled: bool = True, q: str = "q", valid: Function | None = None) -> ModuleType:
    """A continuous distribution.

    Args:
      name: its name.
      what: a phrase for docstrings.
      shapes: names of its shape parameters.
      public: names of its functions.
      row: functions of (z, *shapes); logpdf, and of the others what does not follow; pdf where
        its slope is no number where it underflows.
      support: shapes -> (low, high) of z; high None for no bound; None: all numbers.
      example: shape parameters for the examples.
      scaled: whether there are loc and scale.
      q: what the argument of ppf and isf is called.
      valid: shapes -> whether they are possible; NaN elsewhere.
    """
    made: dict[str, Function] = {}
    for each in public.split():
        if each in ("logpdf", "pdf"):
            body = _density(row, support)
            if each == "pdf":
                body = _plain_density(row) if "pdf" in row else _exp(body)
        elif each in ("ppf", "isf"):
            body = _quantile(each, row)
        else:
            body = _cumulative(each, row, support)
        body = body if valid is None else _checked(body, valid)
        body = body if scaled else _unscaled(body)
        signature = _signature(q if each in ("ppf", "isf") else "x", shapes.split(),
                               {"loc": 0, "scale": 1} if scaled else {})
        made[each] = function(name, each, what, signature, example, body)
    return module(name, what, made)


def _checked(body: Function, valid: Function) -> Function:
    def f(x: Any, *rest: Any) -> Any:
        return where(valid(*rest[:-2]), body(x, *rest), np.nan)

    return f


def _unscaled(body: Function) -> Function:
    def f(x: Any, *shapes: Any) -> Any:
        kind = dtype_of(x).type
        return util.of_scalars(body(x, *shapes, kind(0), kind(1)), x, *shapes)

    return f


# ---- integers
def counts(name: str, what: str, shapes: str, logpmf: Function, support: Function,
           example: tuple[float, ...], **more: tuple[tuple[str, ...], dict[str, int], Function]
           ) -> ModuleType:
    """A distribution on integers.

    Args:
      name: its name.
      what: a phrase for docstrings.
      shapes: names of its parameters.
      logpmf: function of (k, *shapes) where k has a probability.
      support: (k, *shapes) -> where k has one.
      example: parameters for the examples.
      more: other functions: (names of arguments, defaults, function).
    """
    def log(k: Any, *rest: Any) -> Any:
        *given, loc = rest
        k = k - loc
        inside = support(k, *given) | ew.ne(k, k)
        return where(inside, logpmf(where(inside, k, 1), *given), -np.inf)

    signature = _signature("k", shapes.split(), {"loc": 0})
    made = {n: function(name, n, what, signature, example, body)
            for n, body in (("logpmf", log), ("pmf", _exp(log)))}
    for n, ((first, *rest), defaults, body) in more.items():
        made[n] = function(name, n, what, _signature(first, rest, defaults),
                           example if rest else (), body)
    return module(name, what, made)
