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
from calque.trees import util as tree_util

Schedule = Callable[[Any], Any]


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


# ---- step sizes
def constant(step_size: float) -> Schedule:
    """The same step size at every step.

    Args:
      step_size: a number.

    Returns:
      A function of the step's number.

    Raises:
      Nothing.

    Example:
      >>> from calque.example_libraries import optimizers
      >>> optimizers.constant(0.1)(5)
      0.1
    """
    return lambda step: step_size


def exponential_decay(step_size: float, decay_steps: int, decay_rate: float) -> Schedule:
    """step_size * decay_rate ** (step / decay_steps).

    Args:
      step_size: at step 0.
      decay_steps: after how many steps it is multiplied by decay_rate.
      decay_rate: a number.

    Returns:
      A function of the step's number.

    Raises:
      Nothing.

    Example:
      >>> from calque.example_libraries import optimizers
      >>> optimizers.exponential_decay(1.0, 2, 0.5)(4)
      0.25
    """
    return lambda step: step_size * decay_rate ** (step / decay_steps)


def inverse_time_decay(step_size: float, decay_steps: int, decay_rate: float,
                       staircase: bool = False) -> Schedule:
    """step_size / (1 + decay_rate * step / decay_steps).

    Args:
      step_size: at step 0.
      decay_steps, decay_rate: numbers.
      staircase: whole multiples of decay_steps only.

    Returns:
      A function of the step's number.

    Raises:
      Nothing.

    Example:
      >>> from calque.example_libraries import optimizers
      >>> optimizers.inverse_time_decay(1.0, 2, 1.0)(2)
      0.5
    """
    if staircase:
        return lambda step: step_size / (1 + decay_rate * jnp.floor(step / decay_steps))
    return lambda step: step_size / (1 + decay_rate * step / decay_steps)


def polynomial_decay(step_size: float, decay_steps: int, final_step_size: float,
                     power: float = 1.0) -> Schedule:
    """From step_size to final_step_size within decay_steps, along a power.

    Args:
      step_size, final_step_size: first and last size.
      decay_steps: steps in between.
      power: 1 is a straight line.

    Returns:
      A function of the step's number.

    Raises:
      Nothing.

    Example:
      >>> from calque.example_libraries import optimizers
      >>> print(optimizers.polynomial_decay(1.0, 4, 0.0)(1))
      0.75
    """
    def schedule(step: Any) -> Any:
        part = jnp.minimum(step, decay_steps) / decay_steps
        return (1 - part) ** power * (step_size - final_step_size) + final_step_size
    return schedule


def piecewise_constant(boundaries: Any, values: Any) -> Schedule:
    """values[i] while i of the boundaries are smaller than the step.

    Args:
      boundaries: n growing step numbers.
      values: n + 1 sizes.

    Returns:
      A function of the step's number.

    Raises:
      ValueError: they are no vectors of n and n + 1 elements.

    Example:
      >>> from calque.example_libraries import optimizers
      >>> print(optimizers.piecewise_constant([10, 20], [3.0, 2.0, 1.0])(15))
      2.0
    """
    boundaries, values = jnp.array(boundaries), jnp.array(values)
    if not boundaries.ndim == values.ndim == 1:
        raise ValueError(explain("piecewise_constant: boundaries and values must be sequences.",
                                 fix="pass lists of numbers."))
    if boundaries.shape[0] != values.shape[0] - 1:
        raise ValueError(explain(
            "piecewise_constant: boundaries length must be one shorter than values length, got "
            f"{boundaries.shape[0]} and {values.shape[0]}.", fix="add a value or drop a boundary."))
    return lambda step: values[jnp.sum(step > boundaries)]


def make_schedule(scalar_or_schedule: Any) -> Schedule:
    """A schedule from a number or a schedule.

    Args:
      scalar_or_schedule: either.

    Returns:
      A function of the step's number.

    Raises:
      TypeError: it is neither.

    Example:
      >>> from calque.example_libraries import optimizers
      >>> optimizers.make_schedule(0.1)(3)
      0.1
    """
    if callable(scalar_or_schedule):
        return scalar_or_schedule
    if jnp.ndim(scalar_or_schedule) == 0:
        return constant(scalar_or_schedule)
    raise TypeError(explain(f"make_schedule: {type(scalar_or_schedule)} is no step size.",
                            fix="pass a number or a function of the step."))


# ---- the optimizers: (init, update, params) of one array
def _documented(formula: str, arguments: str, example: str, source: str) -> Callable[[Any], Any]:
    def finish(f: Any) -> Any:
        f.__doc__ = f"""{formula}

    Args:
      {arguments}

    Returns:
      An Optimizer.

    Raises:
      TypeError: step_size is neither a number nor a function.

    Source: {source}

    Example:
      >>> from calque.example_libraries import optimizers
      >>> init, update, params = optimizers.{example}
      >>> state = init({{"w": 1.0}})
      >>> bool(params(update(0, {{"w": 0.5}}, state))["w"] < 1.0)
      True
    """
        return f
    return finish


def _with_slots(count: int, update: Function) -> Any:
    """(init, update, params) of a state of the array and so many arrays of zeros like it."""
    def init(x: Any) -> Any:
        return x, *[jnp.zeros_like(x) for _ in range(count)]

    return init, update, lambda state: state[0]


def _inverse_root(squares: Any) -> Any:
    """1 / sqrt(squares), 0 where they are."""
    return jnp.where(squares > 0, 1 / jnp.sqrt(jnp.where(squares > 0, squares, 1)), 0.0)


_SIZE = "step_size: a number or a schedule."


@_documented("Gradient descent: x - step_size g.", _SIZE, "sgd(0.1)",
             "H. Robbins, S. Monro, 1951.")
@optimizer
def sgd(step_size: Any) -> Any:
    size = make_schedule(step_size)
    return lambda x: x, lambda i, g, x: x - size(i) * g, lambda x: x


@_documented("Gradient descent with momentum: v = mass v + g; x - step_size v.",
             f"{_SIZE}\n      mass: the momentum's factor.", "momentum(0.1, 0.9)",
             "B. T. Polyak, 1964.")
@optimizer
def momentum(step_size: Any, mass: float) -> Any:
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, v = state
        v = mass * v + g
        return x - size(i) * v, v

    return _with_slots(1, update)


@_documented("Nesterov's momentum: v = mass v + g; x - step_size (mass v + g).",
             f"{_SIZE}\n      mass: the momentum's factor.", "nesterov(0.1, 0.9)",
             "Y. Nesterov, 1983.")
@optimizer
def nesterov(step_size: Any, mass: float) -> Any:
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, v = state
        v = mass * v + g
        return x - size(i) * (mass * v + g), v

    return _with_slots(1, update)


@_documented("Adagrad with momentum: squares of gradients are added up.",
             f"{_SIZE}\n      momentum: its factor.", "adagrad(0.1)",
             "J. Duchi, E. Hazan, Y. Singer, JMLR 12, 2011.")
@optimizer
def adagrad(step_size: Any, momentum: float = 0.9) -> Any:
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares, m = state
        squares = squares + jnp.square(g)
        m = (1 - momentum) * (g * _inverse_root(squares)) + momentum * m
        return x - size(i) * m, squares, m

    return _with_slots(2, update)


@_documented("RMSProp: steps divided by the root of a running mean of squares.",
             f"{_SIZE}\n      gamma: of the mean.\n      eps: added to the mean.",
             "rmsprop(0.1)", "T. Tieleman, G. Hinton, lecture 6.5, 2012.")
@optimizer
def rmsprop(step_size: Any, gamma: float = 0.9, eps: float = 1e-8) -> Any:
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, mean = state
        mean = mean * gamma + jnp.square(g) * (1 - gamma)
        return x - size(i) * g / jnp.sqrt(mean + eps), mean

    return _with_slots(1, update)


@_documented("RMSProp with momentum.",
             f"{_SIZE}\n      gamma: of the mean.\n      eps: added to it.\n      "
             "momentum: its factor.", "rmsprop_momentum(0.1)",
             "T. Tieleman, G. Hinton, lecture 6.5, 2012.")
@optimizer
def rmsprop_momentum(step_size: Any, gamma: float = 0.9, eps: float = 1e-8,
                     momentum: float = 0.9) -> Any:
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, mean, m = state
        mean = mean * gamma + jnp.square(g) * (1 - gamma)
        m = momentum * m + size(i) * g / jnp.sqrt(mean + eps)
        return x - m, mean, m

    return _with_slots(2, update)


@_documented("Adam: running means of gradients and squares, freed of their start.",
             f"{_SIZE}\n      b1, b2: of the means.\n      eps: added to the root.",
             "adam(0.1)", "D. P. Kingma, J. Ba, ICLR 2015.")
@optimizer
def adam(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, m, v = state
        m = (1 - b1) * g + b1 * m
        v = (1 - b2) * jnp.square(g) + b2 * v
        mean = m / (1 - jnp.asarray(b1, m.dtype) ** (i + 1))
        spread = v / (1 - jnp.asarray(b2, m.dtype) ** (i + 1))
        return x - size(i) * mean / (jnp.sqrt(spread) + eps), m, v

    return _with_slots(2, update)


@_documented("Adamax: Adam with the largest gradient in place of the mean square.",
             f"{_SIZE}\n      b1, b2: of mean and maximum.\n      eps: added to the maximum.",
             "adamax(0.1)", "D. P. Kingma, J. Ba, ICLR 2015.")
@optimizer
def adamax(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, m, u = state
        m = (1 - b1) * g + b1 * m
        u = jnp.maximum(b2 * u, jnp.abs(g))
        return x - size(i) / (1 - b1 ** (i + 1)) * m / (u + eps), m, u

    return _with_slots(2, update)


@_documented("SM3: Adagrad in the memory of one vector for each axis.",
             f"{_SIZE}\n      momentum: its factor.", "sm3(0.1)",
             "R. Anil, V. Gupta, T. Koren, Y. Singer, NeurIPS 2019.")
@optimizer
def sm3(step_size: Any, momentum: float = 0.9) -> Any:
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
