"""Optimizers as triples of functions: init(params), update(step, grads, state), params(state).

Each is written for one array; `optimizer` maps it over trees and packs the states of all arrays.
Start reading at `optimizer`, then `sgd`.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import calque.numpy as jnp
from calque.core.errors import explain
from calque.core.types import Function
from calque.example_libraries.schedules import (
    Schedule as Schedule,
)
from calque.example_libraries.schedules import (
    constant,
    exponential_decay,
    inverse_time_decay,
    make_schedule,
    piecewise_constant,
    polynomial_decay,
)
from calque.trees import util as tree_util


class Optimizer(NamedTuple):
    """(init_fn, update_fn, params_fn).

    Attributes:
      init_fn: params -> state; update_fn: (step, gradients, state) -> state.
      params_fn: state -> params.

    Example:
      >>> from calque.example_libraries import optimizers
      >>> init, update, params = optimizers.sgd(0.1)
      >>> params(update(0, 2.0, init(1.0)))
      0.8
    """

    init_fn: Function
    update_fn: Function
    params_fn: Function


class OptimizerState(NamedTuple):
    """The states of all arrays of a tree.

    Attributes:
      packed_state: a tuple for each array; tree_def: the structure of the tree of parameters.
      subtree_defs: the structure of each array's state.

    Example:
      >>> from calque.example_libraries import optimizers
      >>> len(optimizers.adam(0.1).init_fn([1.0, 2.0]).packed_state)
      2
    """

    packed_state: Any
    tree_def: Any
    subtree_defs: Any


tree_util.register_pytree_node(
    OptimizerState, lambda s: ((s.packed_state,), (s.tree_def, s.subtree_defs)),
    lambda data, xs: OptimizerState(xs[0], *data))


def _packed(subtrees: Iterable[Any], structure: Any) -> OptimizerState:
    """A state for each array, as leaves and structures."""
    pairs = [tree_util.tree_flatten(s) for s in subtrees]
    return OptimizerState(tuple(tuple(p) for p, _ in pairs), structure,
                          tuple(s for _, s in pairs))


def optimizer(opt_maker: Function) -> Callable[..., Optimizer]:
    """Makes an optimizer of trees from one of arrays.

    Args:
      opt_maker: function that returns (init, update, get_params) for one array: init(x0) -> state,
        update(step, g, state) -> state, get_params(state) -> x.

    Returns:
      A function of opt_maker's arguments that returns an Optimizer.

    Raises:
      TypeError: (by update_fn, init_fn) the structure of gradients or of a state changed.

    Example:
      >>> from calque.example_libraries import optimizers
      >>> @optimizers.optimizer
      ... def sign_descent(rate):
      ...     return lambda x: x, lambda i, g, x: x - rate * (1 if g > 0 else -1), lambda x: x
      >>> init, update, params = sign_descent(0.5)
      >>> params(update(0, [3.0], init([1.0])))
      [0.5]
    """
    @functools.wraps(opt_maker)
    def maker(*args: Any, **kwargs: Any) -> Optimizer:
        one_init, one_update, one_params = opt_maker(*args, **kwargs)

        def init(tree: Any) -> OptimizerState:
            leaves, structure = tree_util.tree_flatten(tree)
            return _packed(map(one_init, leaves), structure)

        def update(step: Any, grads: Any, state: OptimizerState) -> OptimizerState:
            packed, structure, subtrees = state
            leaves, got = tree_util.tree_flatten(grads)
            if got != structure:
                raise TypeError(explain(
                    "optimizer update function was passed a gradient tree that did not match the "
                    f"parameter tree structure with which it was initialized: {structure} and "
                    f"{got}.", fix="pass gradients of the parameters that init_fn got."))
            made = []
            for g, values, subtree in zip(leaves, packed, subtrees):
                new, kind = tree_util.tree_flatten(one_update(step, g, subtree.unflatten(values)))
                if kind != subtree:
                    raise TypeError(explain(
                        "optimizer update function produced an output structure that did not match "
                        f"its input structure: {subtree} and {kind}.",
                        fix="return a state as init makes it."))
                made.append(tuple(new))
            return OptimizerState(tuple(made), structure, subtrees)

        def params(state: OptimizerState) -> Any:
            packed, structure, subtrees = state
            return structure.unflatten([one_params(s.unflatten(v))
                                        for v, s in zip(packed, subtrees)])

        return Optimizer(init, update, params)

    return maker


# ---- the optimizers: (init, update, params) of one array


def _with_slots(count: int, update: Function) -> Any:
    """(init, update, params) of a state of the array and so many arrays of zeros like it."""
    def init(x: Any) -> Any:
        return x, *[jnp.zeros_like(x) for _ in range(count)]

    return init, update, lambda state: state[0]


def _inverse_root(squares: Any) -> Any:
    """1 / sqrt(squares), 0 where they are."""
    return jnp.where(squares > 0, 1 / jnp.sqrt(jnp.where(squares > 0, squares, 1)), 0.0)


@optimizer
def sgd(step_size: Any) -> Any:
    """Gradient descent: x - step_size g.

    Args:
      step_size: a number or a schedule.

    Returns:
      An Optimizer.

    Raises:
      TypeError: step_size is neither a number nor a function.

    Source: H. Robbins, S. Monro, 1951.

    Example:
      >>> from calque.example_libraries import optimizers
      >>> init, update, params = optimizers.sgd(0.1)
      >>> state = init({"w": 1.0})
      >>> bool(params(update(0, {"w": 0.5}, state))["w"] < 1.0)
      True
    """
    size = make_schedule(step_size)
    return lambda x: x, lambda i, g, x: x - size(i) * g, lambda x: x


@optimizer
def momentum(step_size: Any, mass: float) -> Any:
    """Gradient descent with momentum: v = mass v + g; x - step_size v.

    Args:
      step_size: a number or a schedule.
      mass: the momentum's factor.

    Returns:
      An Optimizer.

    Raises:
      TypeError: step_size is neither a number nor a function.

    Source: B. T. Polyak, 1964.

    Example:
      >>> from calque.example_libraries import optimizers
      >>> init, update, params = optimizers.momentum(0.1, 0.9)
      >>> state = init({"w": 1.0})
      >>> bool(params(update(0, {"w": 0.5}, state))["w"] < 1.0)
      True
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, v = state
        v = mass * v + g
        return x - size(i) * v, v

    return _with_slots(1, update)


@optimizer
def nesterov(step_size: Any, mass: float) -> Any:
    """Nesterov's momentum: v = mass v + g; x - step_size (mass v + g).

    Args:
      step_size: a number or a schedule.
      mass: the momentum's factor.

    Returns:
      An Optimizer.

    Raises:
      TypeError: step_size is neither a number nor a function.

    Source: Y. Nesterov, 1983.

    Example:
      >>> from calque.example_libraries import optimizers
      >>> init, update, params = optimizers.nesterov(0.1, 0.9)
      >>> state = init({"w": 1.0})
      >>> bool(params(update(0, {"w": 0.5}, state))["w"] < 1.0)
      True
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, v = state
        v = mass * v + g
        return x - size(i) * (mass * v + g), v

    return _with_slots(1, update)


@optimizer
def adagrad(step_size: Any, momentum: float = 0.9) -> Any:
    """Adagrad with momentum: squares of gradients are added up.

    Args:
      step_size: a number or a schedule.
      momentum: its factor.

    Returns:
      An Optimizer.

    Raises:
      TypeError: step_size is neither a number nor a function.

    Source: J. Duchi, E. Hazan, Y. Singer, JMLR 12, 2011.

    Example:
      >>> from calque.example_libraries import optimizers
      >>> init, update, params = optimizers.adagrad(0.1)
      >>> state = init({"w": 1.0})
      >>> bool(params(update(0, {"w": 0.5}, state))["w"] < 1.0)
      True
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares, m = state
        squares = squares + jnp.square(g)
        m = (1 - momentum) * (g * _inverse_root(squares)) + momentum * m
        return x - size(i) * m, squares, m

    return _with_slots(2, update)


@optimizer
def rmsprop(step_size: Any, gamma: float = 0.9, eps: float = 1e-8) -> Any:
    """RMSProp: steps divided by the root of a running mean of squares.

    Args:
      step_size: a number or a schedule.
      gamma: of the mean.
      eps: added to the mean.

    Returns:
      An Optimizer.

    Raises:
      TypeError: step_size is neither a number nor a function.

    Source: T. Tieleman, G. Hinton, lecture 6.5, 2012.

    Example:
      >>> from calque.example_libraries import optimizers
      >>> init, update, params = optimizers.rmsprop(0.1)
      >>> state = init({"w": 1.0})
      >>> bool(params(update(0, {"w": 0.5}, state))["w"] < 1.0)
      True
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, mean = state
        mean = mean * gamma + jnp.square(g) * (1 - gamma)
        return x - size(i) * g / jnp.sqrt(mean + eps), mean

    return _with_slots(1, update)


@optimizer
def rmsprop_momentum(step_size: Any, gamma: float = 0.9, eps: float = 1e-8,
                     momentum: float = 0.9) -> Any:
    """RMSProp with momentum.

    Args:
      step_size: a number or a schedule.
      gamma: of the mean.
      eps: added to it.
      momentum: its factor.

    Returns:
      An Optimizer.

    Raises:
      TypeError: step_size is neither a number nor a function.

    Source: T. Tieleman, G. Hinton, lecture 6.5, 2012.

    Example:
      >>> from calque.example_libraries import optimizers
      >>> init, update, params = optimizers.rmsprop_momentum(0.1)
      >>> state = init({"w": 1.0})
      >>> bool(params(update(0, {"w": 0.5}, state))["w"] < 1.0)
      True
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, mean, m = state
        mean = mean * gamma + jnp.square(g) * (1 - gamma)
        m = momentum * m + size(i) * g / jnp.sqrt(mean + eps)
        return x - m, mean, m

    return _with_slots(2, update)


@optimizer
def adam(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Adam: running means of gradients and squares, freed of their start.

    Args:
      step_size: a number or a schedule.
      b1, b2: of the means.
      eps: added to the root.

    Returns:
      An Optimizer.

    Raises:
      TypeError: step_size is neither a number nor a function.

    Source: D. P. Kingma, J. Ba, ICLR 2015.

    Example:
      >>> from calque.example_libraries import optimizers
      >>> init, update, params = optimizers.adam(0.1)
      >>> state = init({"w": 1.0})
      >>> bool(params(update(0, {"w": 0.5}, state))["w"] < 1.0)
      True
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, m, v = state
        m = (1 - b1) * g + b1 * m
        v = (1 - b2) * jnp.square(g) + b2 * v
        mean = m / (1 - jnp.asarray(b1, m.dtype) ** (i + 1))
        spread = v / (1 - jnp.asarray(b2, m.dtype) ** (i + 1))
        return x - size(i) * mean / (jnp.sqrt(spread) + eps), m, v

    return _with_slots(2, update)


@optimizer
def adamax(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Adamax: Adam with the largest gradient in place of the mean square.

    Args:
      step_size: a number or a schedule.
      b1, b2: of mean and maximum.
      eps: added to the maximum.

    Returns:
      An Optimizer.

    Raises:
      TypeError: step_size is neither a number nor a function.

    Source: D. P. Kingma, J. Ba, ICLR 2015.

    Example:
      >>> from calque.example_libraries import optimizers
      >>> init, update, params = optimizers.adamax(0.1)
      >>> state = init({"w": 1.0})
      >>> bool(params(update(0, {"w": 0.5}, state))["w"] < 1.0)
      True
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, m, u = state
        m = (1 - b1) * g + b1 * m
        u = jnp.maximum(b2 * u, jnp.abs(g))
        return x - size(i) / (1 - b1 ** (i + 1)) * m / (u + eps), m, u

    return _with_slots(2, update)


@optimizer
def sm3(step_size: Any, momentum: float = 0.9) -> Any:
    """SM3: Adagrad in the memory of one vector for each axis.

    Args:
      step_size: a number or a schedule.
      momentum: its factor.

    Returns:
      An Optimizer.

    Raises:
      TypeError: step_size is neither a number nor a function.

    Source: R. Anil, V. Gupta, T. Koren, Y. Singer, NeurIPS 2019.

    Example:
      >>> from calque.example_libraries import optimizers
      >>> init, update, params = optimizers.sm3(0.1)
      >>> state = init({"w": 1.0})
      >>> bool(params(update(0, {"w": 0.5}, state))["w"] < 1.0)
      True
    """
    size = make_schedule(step_size)

    def init(x: Any) -> Any:
        shape = jnp.shape(x)
        return x, jnp.zeros_like(x), [jnp.zeros(n, jnp.result_type(x)) for n in shape]

    def update(i: Any, g: Any, state: Any) -> Any:
        x, m, vectors = state
        g = jnp.asarray(g)
        rank = g.ndim
        spread = [v.reshape([-1 if d == k else 1 for d in range(rank)])
                  for k, v in enumerate(vectors)]
        squares = functools.reduce(jnp.minimum, spread) if spread else jnp.zeros_like(g)
        squares = squares + jnp.square(g)
        m = (1 - momentum) * (g * _inverse_root(squares)) + momentum * m
        vectors = [squares.max([d for d in range(rank) if d != k]) for k in range(rank)]
        return x - size(i) * m, m, vectors

    return init, update, lambda state: state[0]


# ---- gradients
def l2_norm(tree: Any) -> Any:
    """The Euclidean norm of all elements of a tree.

    Args:
      tree: of arrays.

    Returns:
      A real scalar.

    Raises:
      TypeError: a leaf is no array.

    Example:
      >>> from calque.example_libraries import optimizers
      >>> print(optimizers.l2_norm([3.0, 4.0]))
      5.0
    """
    return jnp.sqrt(sum(jnp.vdot(x, x) for x in tree_util.tree_leaves(tree)))


def clip_grads(grad_tree: Any, max_norm: Any) -> Any:
    """A tree made smaller as a whole, so that its norm is at most max_norm.

    Args:
      grad_tree: of arrays.
      max_norm: a number.

    Returns:
      A tree like it.

    Raises:
      TypeError: a leaf is no array.

    Example:
      >>> from calque.example_libraries import optimizers
      >>> print(optimizers.clip_grads([3.0, 4.0], 2.5)[0])
      1.5
    """
    norm = l2_norm(grad_tree)
    return tree_util.tree_map(lambda g: jnp.where(norm < max_norm, g, g * (max_norm / norm)),
                              grad_tree)


# ---- states as trees
class JoinPoint:
    """A mark between the tree of parameters and the trees of their states.

    Args:
      subtree: the state of one array.

    Example:
      >>> from calque.example_libraries import optimizers
      >>> optimizers.JoinPoint((1, 2)).subtree
      (1, 2)
    """

    def __init__(self, subtree: Any) -> None:
        self.subtree = subtree

    def __iter__(self) -> Any:
        yield self.subtree


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    """A state as a tree of the parameters' structure with JoinPoints as leaves, to be saved.

    Args:
      opt_state: of an Optimizer.

    Returns:
      The tree.

    Raises:
      TypeError: it is no OptimizerState.

    Example:
      >>> from calque.example_libraries import optimizers
      >>> state = optimizers.momentum(0.1, 0.9).init_fn({"w": 1.0})
      >>> len(optimizers.unpack_optimizer_state(state)["w"].subtree)
      2
    """
    packed, structure, subtrees = opt_state
    return structure.unflatten([JoinPoint(s.unflatten(v)) for s, v in zip(subtrees, packed)])


def pack_optimizer_state(marked_pytree: Any) -> OptimizerState:
    """The inverse of unpack_optimizer_state.

    Args:
      marked_pytree: a tree with JoinPoints as leaves.

    Returns:
      An OptimizerState.

    Raises:
      TypeError: a leaf is no JoinPoint.

    Example:
      >>> from calque.example_libraries import optimizers as o
      >>> adam = o.adam(0.1)
      >>> state = adam.init_fn({"w": 1.0})
      >>> adam.params_fn(o.pack_optimizer_state(o.unpack_optimizer_state(state)))
      {'w': 1.0}
    """
    points, structure = tree_util.tree_flatten(marked_pytree)
    for p in points:
        if not isinstance(p, JoinPoint):
            raise TypeError(explain(f"pack_optimizer_state: a leaf is {type(p).__name__}, not a "
                                    "JoinPoint.", fix="pass what unpack_optimizer_state gave."))
    return _packed([p.subtree for p in points], structure)


__all__ = [
    "JoinPoint", "Optimizer", "OptimizerState", "adagrad", "adam", "adamax", "clip_grads",
    "constant", "exponential_decay", "inverse_time_decay", "l2_norm", "make_schedule", "momentum",
    "nesterov", "optimizer", "pack_optimizer_state", "piecewise_constant", "polynomial_decay",
    "rmsprop", "rmsprop_momentum", "sgd", "sm3", "unpack_optimizer_state"]


def __dir__() -> list[str]:
    return __all__
