"""odeint: solutions of ordinary differential equations, and their gradients.

The gradient is that of the adjoint equation, solved backward in time (Chen et al., Neural Ordinary
Differential Equations, 2018): its memory does not grow with the steps.  The steps are
experimental/dormand_prince's.  Start reading at `odeint`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import calque.numpy as jnp
from calque.api.autodiff import vjp
from calque.api.control import scan
from calque.api.custom_derivatives import closure_convert, custom_vjp
from calque.core.avals import aval_of, is_arraylike, varying_of
from calque.core.dtypes import float0
from calque.core.errors import explain
from calque.core.types import Function
from calque.dispatch.array import as_values
from calque.dispatch.eager import lazy_eval
from calque.dispatch.tracing import check_callable
from calque.experimental.dormand_prince import Limits, Vectors, solve
from calque.lax.elementwise import convert_element_type
from calque.primitives.collectives import vary_together
from calque.trees import util as tree_util

__all__ = ["odeint"]


def odeint(func: Function, y0: Any, t: Any, *args: Any, rtol: float = 1.4e-8,
           atol: float = 1.4e-8, mxstep: float = math.inf, hmax: float = math.inf) -> Any:
    """Solutions of y'(t) = func(y, t, *args) with y(t[0]) = y0, by Dormand and Prince's pair.

    Args:
      func: function of y, a time and args; it returns what has y's structure and shapes.
      y0: array or tree of arrays, floats or complex numbers.
      t: (n,) floats, growing; solutions are asked for there.
      *args: arrays and trees of them.
      rtol, atol: what a step's error may be, relative to y and absolute.
      mxstep: steps that are taken from one time to the next, at most.
      hmax: the largest step.

    Returns:
      y at each time: y0's structure, with a leading axis of length n.  A row is NaN where no step
      is small enough.

    Raises:
      TypeError: t is no array of floats; an argument is no array.
      ValueError: func returns another number of elements than y0 has.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental.ode import odeint
      >>> print(odeint(lambda y, t: -y, 1.0, jnp.array([0.0, 1.0])))
      [1.        0.3678794]
    """
    check_callable(func)
    for x in tree_util.tree_leaves(args):
        if not is_arraylike(x):
            raise TypeError(explain(
                f"The contents of odeint *args must be arrays or scalars, but got {x}.",
                fix="close over what is no array."))
    if not (is_arraylike(t) and np.ndim(t) == 1 and jnp.issubdtype(aval_of(t).dtype, np.floating)):
        raise TypeError(explain(f"t must be an array of floats, but got {t}.",
                                fix="pass jnp.asarray(t, float)."))
    with lazy_eval("odeint"):
        leaves, tree = tree_util.flatten(y0)
        y0 = tree.unflatten([_inexact(x) for x in leaves])
        t = jnp.asarray(t)
        args = tree_util.tree_map(jnp.asarray, args)
        # inside shard_map a cotangent is summed over devices once, outside of the equation
        leaves, tree = tree_util.flatten((y0, t, args))
        y0, t, args = tree.unflatten(vary_together(leaves))

        def slope(y: Any, time: Any, *given: Any) -> Any:
            return _fitted(func(y, time, *given), y)

        fun, consts = closure_convert(slope, y0, t[0], *args)
        return _solved(fun, Limits(rtol, atol, mxstep, hmax))(y0, t, *args, *consts)


def _check_closed(args: Sequence[Any], given: Sequence[Any]) -> None:
    """NotImplementedError where func closes over what the devices of a shard_map have alike (all
    else varies): each step would sum its cotangent over them, and the end once more."""
    axes = frozenset().union(*[varying_of(aval_of(x).vma) for x in given])
    if any(jnp.issubdtype(x.dtype, np.inexact) and axes - aval_of(x).vma for x in args):
        raise NotImplementedError(explain(
            "gradient of odeint inside shard_map: func closes over a value that does not vary over "
            f"the mesh axes {sorted(map(str, axes))}, over which y0, t or args do.",
            fix="pass the value in args."))


def _inexact(x: Any) -> Any:
    """A part of the state as an array of floats or complex numbers, of no weak type."""
    found = jnp.asarray(x)
    dtype = found.dtype if jnp.issubdtype(found.dtype, np.inexact) else jnp.float_
    return convert_element_type(found, np.dtype(dtype))


def _fitted(slopes: Any, y: Any) -> Any:
    """The slopes in y's structure, shapes and dtypes."""
    leaves, tree = tree_util.flatten(y)
    found = as_values(tree_util.tree_leaves(slopes))
    sizes = [x.size for x in leaves]
    if sum(sizes) != sum(x.size for x in found):
        raise ValueError(explain(
            f"odeint: func returned {sum(x.size for x in found)} elements, the state has "
            f"{sum(sizes)}.", fix="return one slope for each element of y."))
    if [x.shape for x in found] != [x.shape for x in leaves]:
        dtype = jnp.result_type(*found)
        whole = jnp.concatenate([convert_element_type(x, dtype).ravel() for x in found])
        found = jnp.split(whole, list(np.cumsum(sizes)[:-1]))
    return tree.unflatten([convert_element_type(k.reshape(x.shape), x.dtype)
                           for k, x in zip(found, leaves)])


class _Packing:
    """A tree of arrays as a list of vectors, one for each dtype."""

    def __init__(self, tree: Any) -> None:
        leaves, self.tree = tree_util.flatten(tree)
        self.shapes = [x.shape for x in leaves]
        self.dtypes = sorted({x.dtype for x in leaves}, key=str)
        self.places = [[i for i, x in enumerate(leaves) if x.dtype == d] for d in self.dtypes]

    def pack(self, tree: Any) -> Vectors:
        leaves = tree_util.tree_leaves(tree)
        return [jnp.concatenate([leaves[i].ravel() for i in row]) for row in self.places]

    def unpack(self, vectors: Sequence[Any], lead: tuple[int, ...] = ()) -> Any:
        """The tree; lead: axes that all vectors have before their own."""
        leaves: list[Any] = [None] * len(self.shapes)
        for vector, row in zip(vectors, self.places):
            ends = np.cumsum([math.prod(self.shapes[i]) for i in row])[:-1]
            for i, part in zip(row, jnp.split(vector, list(ends), axis=-1)):
                leaves[i] = part.reshape(lead + self.shapes[i])
        return self.tree.unflatten(leaves)


def _integrated(fun: Function, y0: Any, t: Any, args: Sequence[Any], limits: Limits) -> Any:
    packing = _Packing(y0)

    def slope(vectors: Vectors, time: Any) -> Vectors:
        return packing.pack(fun(packing.unpack(vectors), time, *args))

    return packing.unpack(solve(slope, packing.pack(y0), t, limits), t.shape)


def _solved(fun: Function, limits: Limits) -> Function:
    """(y0, t, *args) -> the solutions, differentiated by the adjoint equation."""
    @custom_vjp
    def solution(y0: Any, t: Any, *args: Any) -> Any:
        return _integrated(fun, y0, t, args, limits)

    def forward(y0: Any, t: Any, *args: Any) -> Any:
        found = solution(y0, t, *args)
        return found, (found, t, args)

    def backward(kept: Any, cotangents: Any) -> Any:
        found, t, args = kept
        _check_closed(tree_util.tree_leaves(args), [t, *tree_util.tree_leaves(found)])
        return _adjoint(fun, limits, found, t, args, cotangents)

    solution.defvjp(forward, backward)
    return solution


def _adjoint(fun: Function, limits: Limits, found: Any, t: Any, args: Any, cotangents: Any) -> Any:
    """The cotangents of (y0, t, *args), from those of the solutions.

    Between two times y, its cotangent, that of the time and those of args are one state, which is
    solved for in -t; at each time what flows in there is added."""
    leaves, tree = tree_util.flatten(args)
    real = [jnp.issubdtype(x.dtype, np.inexact) for x in leaves]
    moving = [x for x, r in zip(leaves, real) if r]

    def at(y: Any, time: Any, values: Sequence[Any]) -> Any:
        given = iter(values)
        return fun(y, time, *tree.unflatten([next(given) if r else x
                                             for x, r in zip(leaves, real)]))

    def slope(state: Any, minus: Any, *values: Any) -> Any:
        y, y_bar, *_ = state
        out, pull = vjp(at, y, -minus, list(values))
        return tree_util.tree_map(lambda x: -x, out), *pull(y_bar)

    run = _solved(slope, limits)

    def interval(carry: Any, i: Any) -> Any:
        y_bar, t_bar, bars = carry
        y = tree_util.tree_map(lambda x: x[i], found)
        into = tree_util.tree_map(lambda x: x[i], cotangents)
        at_time = _inner(at(y, t[i], moving), into, t.dtype)
        state = (y, y_bar, t_bar - at_time, bars)
        ends = run(state, jnp.stack([-t[i], -t[i - 1]]), *moving)
        _, y_bar, t_bar, bars = tree_util.tree_map(lambda x: x[1], ends)
        y_bar = tree_util.tree_map(lambda a, g: a + g[i - 1], y_bar, cotangents)
        return (y_bar, t_bar, bars), at_time

    start = (tree_util.tree_map(lambda g: g[-1], cotangents), jnp.zeros((), t.dtype),
             [jnp.zeros_like(x) for x in moving])
    (y_bar, t_bar, bars), rest = scan(interval, start, jnp.arange(t.shape[0] - 1, 0, -1))
    times = jnp.concatenate([t_bar[None], rest[::-1]])
    given = iter(bars)
    return (y_bar, times, *tree.unflatten([
        next(given) if r else np.zeros(x.shape, float0) for x, r in zip(leaves, real)]))


def _inner(slopes: Any, cotangent: Any, dtype: Any) -> Any:
    """How the loss changes with a time of output: the slope's product with what flows in."""
    parts = [convert_element_type(jnp.sum(a * b).real, dtype) for a, b in zip(
        tree_util.tree_leaves(slopes), tree_util.tree_leaves(cotangent))]
    return sum(parts)
