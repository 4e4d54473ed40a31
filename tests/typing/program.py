"""A user's program, as strict type checkers are to read it: data, a network, its training, a
filter, rules of its own, linear algebra.  `run()` runs it (test_typing.py does)."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

import calque
import calque.numpy as jnp
from calque import Array, lax, nn, random
from calque.scipy import linalg as slinalg
from calque.scipy import special
from calque.typing import ArrayLike, DTypeLike

Shape = tuple[int, ...]


# ---- data
def normalized(x: ArrayLike, axis: int = 0, dtype: DTypeLike = "float32") -> Array:
    """Columns of mean 0 and deviation 1."""
    values = jnp.asarray(x, dtype=dtype)
    centred = values - values.mean(axis=axis, keepdims=True)
    return centred / (centred.std(axis=axis, keepdims=True) + 1e-6)


def batches(x: Array, y: Array, size: int, seed: int) -> Iterator[tuple[Array, Array]]:
    """Rows in random order, `size` at a time."""
    order = random.permutation(random.key(seed), x.shape[0])
    for start in range(0, x.shape[0] - size + 1, size):
        rows = order[start:start + size]
        yield x[rows], jnp.take(y, rows, axis=0)


def rings(count: int, seed: int) -> tuple[Array, Array]:
    """Points on two rings, and which ring each is on."""
    key, noise = random.split(random.key(seed))
    angle = random.uniform(key, (count,), maxval=2 * jnp.pi)
    ring = jnp.arange(count) % 2
    radius = jnp.where(ring == 0, 1.0, 2.0)
    points = radius[:, None] * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
    return points + 0.1 * random.normal(noise, points.shape), ring


# ---- a network
class Layer(NamedTuple):
    """Weights and offsets."""

    w: Array
    b: Array


Params = list[Layer]


def initial(key: Array, sizes: list[int]) -> Params:
    """Layers of these sizes."""
    keys = random.split(key, len(sizes) - 1)
    make = nn.initializers.glorot_normal()
    return [Layer(make(k, (m, n)), jnp.zeros(n)) for k, m, n in zip(keys, sizes, sizes[1:])]


def logits(params: Params, x: Array) -> Array:
    """The last layer's values."""
    for layer in params[:-1]:
        x = nn.relu(x @ layer.w + layer.b)
    last = params[-1]
    return x @ last.w + last.b


def loss(params: Params, x: Array, y: Array) -> Array:
    """Mean cross entropy."""
    scores = nn.log_softmax(logits(params, x), axis=-1)
    return -jnp.mean(jnp.sum(scores * nn.one_hot(y, scores.shape[-1]), axis=-1))


@calque.jit
def step(params: Params, x: Array, y: Array, rate: float) -> tuple[Params, Array]:
    """Parameters after a step down the gradient, and the loss before it."""
    value, grads = calque.value_and_grad(loss)(params, x, y)
    moved: Params = calque.tree.map(lambda p, g: p - rate * g, params, grads)
    return moved, value


@calque.jit(static_argnames="top")
def accuracy(params: Params, x: Array, y: Array, top: int = 1) -> Array:
    """How often the class is among the best."""
    _, best = lax.top_k(logits(params, x), top)
    return (best == y[:, None]).any(axis=1).mean()


def trained(sizes: list[int], epochs: int, seed: int = 0) -> tuple[Params, list[float]]:
    """A network and its losses."""
    x, y = rings(64, seed)
    x = normalized(x)
    params = initial(random.key(seed), sizes)
    losses: list[float] = []
    for epoch in range(epochs):
        for rows, classes in batches(x, y, 16, epoch):
            params, value = step(params, rows, classes, 0.1)
            losses.append(float(value))
    return params, losses


# ---- an optimizer as a class
@dataclass(frozen=True)
class Momentum:
    """Gradient descent with momentum."""

    rate: float = 0.1
    decay: float = 0.9

    def start(self, params: Params) -> Params:
        """Zero velocities."""
        zeros: Params = calque.tree.map(jnp.zeros_like, params)
        return zeros

    def update(self, grads: Params, state: Params) -> tuple[Params, Params]:
        """Moves, and the new velocities."""
        state = calque.tree.map(lambda v, g: self.decay * v + g, state, grads)
        moves: Params = calque.tree.map(lambda v: -self.rate * v, state)
        return moves, state


def fitted(target: Array, rounds: int) -> Array:
    """A vector that comes near another, by a loop that is compiled."""
    def distance(p: Array) -> Array:
        return jnp.sum((p - target) ** 2)

    gradient = calque.grad(distance)

    def body(i: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        p, velocity = carry
        velocity = 0.5 * velocity - 0.1 * gradient(p)
        return p + velocity, velocity

    start = jnp.zeros_like(target)
    final, _ = lax.fori_loop(0, rounds, body, (start, start))
    return final


# ---- loops
class Filter(NamedTuple):
    """Mean and variance of what is estimated."""

    mean: Array
    variance: Array


def kalman(observed: Array, noise: float) -> tuple[Filter, Array]:
    """A random walk seen with noise: the last estimate, and all means."""
    def advance(state: Filter, seen: Array) -> tuple[Filter, Array]:
        variance = state.variance + 1.0
        gain = variance / (variance + noise)
        mean = state.mean + gain * (seen - state.mean)
        return Filter(mean, (1 - gain) * variance), mean

    return lax.scan(advance, Filter(jnp.zeros(()), jnp.ones(())), observed)


def root(f: Callable[[Array], Array], x: ArrayLike, tolerance: float = 1e-6) -> Array:
    """A root by Newton's method."""
    slope = calque.grad(f)

    def unfinished(x: Array) -> Array:
        return jnp.abs(f(x)) > tolerance

    def newton(x: Array) -> Array:
        moved: Array = x - f(x) / slope(x)
        return moved

    return lax.while_loop(unfinished, newton, jnp.asarray(x, dtype=jnp.float32))


def bounded(x: Array, limit: float) -> Array:
    """x, or its direction times the limit."""
    norm = jnp.linalg.norm(x)
    return lax.cond(norm > limit, lambda v: v * (limit / norm), lambda v: v, x)


# ---- rules of our own
@calque.custom_jvp
def softplus(x: Array) -> Array:
    """log(1 + exp x)."""
    return jnp.logaddexp(x, 0.0)


@softplus.defjvp
def softplus_rule(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    """Its derivative is the logistic function."""
    (x,), (t,) = primals, tangents
    return softplus(x), special.expit(x) * t


@calque.custom_vjp
def clipped(x: Array) -> Array:
    """x, whose gradient is clipped."""
    return x


def clipped_forward(x: Array) -> tuple[Array, None]:
    """Nothing is kept."""
    return x, None


def clipped_backward(_: None, g: Array) -> tuple[Array]:
    """The clipped cotangent."""
    return (jnp.clip(g, -1.0, 1.0),)


clipped.defvjp(clipped_forward, clipped_backward)


def steep(x: Array) -> Array:
    """5 times what is clipped."""
    return 5.0 * clipped(x)


@calque.checkpoint
def block(x: Array, w: Array) -> Array:
    """Computed again in the backward pass."""
    return jnp.tanh(x @ w)


# ---- linear algebra and statistics
def posterior(x: Array, y: Array, ridge: float = 1e-2) -> tuple[Array, Array]:
    """Mean and Cholesky factor of the precision of a linear regression."""
    precision = x.T @ x + ridge * jnp.eye(x.shape[1])
    factor, lower = slinalg.cho_factor(precision, lower=True)
    return slinalg.cho_solve((factor, lower), x.T @ y), factor


def components(x: Array, count: int) -> Array:
    """Projections on the first principal components."""
    u, s, _ = jnp.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    return u[:, :count] * s[:count]


def quantiles(x: Array, levels: tuple[float, ...] = (0.1, 0.5, 0.9)) -> dict[float, Array]:
    """Quantiles of the elements."""
    return {q: jnp.quantile(x, q) for q in levels}


def pairwise(x: Array) -> Array:
    """Distances between rows."""
    def distance(a: Array, b: Array) -> Array:
        return jnp.sqrt(jnp.sum((a - b) ** 2))

    def to_all(a: Array) -> Array:
        return calque.vmap(distance, in_axes=(None, 0))(a, x)

    return calque.vmap(to_all)(x)


def curvature(f: Callable[[Array], Array], x: Array) -> Array:
    """The largest eigenvalue of the Hessian."""
    values, _ = jnp.linalg.eigh(calque.hessian(f)(x))
    return values.max()


def counted(words: np.ndarray[tuple[int], np.dtype[np.int64]], size: int) -> Array:
    """How often each word is there, by updates of an array."""
    counts = jnp.zeros(size, dtype=jnp.int32)
    return counts.at[jnp.asarray(words)].add(1)


def sizes_of(x: Array) -> tuple[Shape, int, int, str]:
    """What an array says of itself."""
    return x.shape, x.ndim, x.size, x.dtype.name


def run() -> dict[str, float]:
    """A number of each part."""
    params, losses = trained([2, 16, 2], 12)
    x, y = rings(32, 7)
    last, means = kalman(jnp.linspace(0.0, 1.0, 20), 0.5)
    mean, _ = posterior(x, y.astype(jnp.float32))
    value, back = calque.vjp(softplus, jnp.asarray(1.0))
    lowered = step.lower(params, x, y, 0.1)
    made: tuple[Array, Array] = calque.jvp(softplus, (jnp.asarray(1.0),), (jnp.asarray(1.0),))
    return {
        "fell": losses[0] - losses[-1],
        "accuracy": float(accuracy(params, normalized(x), y, top=1)),
        "filter": float(last.mean + means[0]),
        "root": float(root(lambda v: v * v - 2.0, 1.0)),
        "bounded": float(jnp.linalg.norm(bounded(jnp.ones(4), 1.0))),
        "fitted": float(fitted(jnp.ones(3), 40).sum()),
        "clipped": float(calque.grad(steep)(jnp.asarray(1.0))),
        "block": float(block(jnp.ones((2, 2)), jnp.eye(2)).sum()),
        "softplus": float(value + back(jnp.asarray(0.0))[0] + 0 * made[1]),
        "posterior": float(mean.sum()),
        "components": float(components(x, 1).shape[1]),
        "median": float(quantiles(jnp.arange(5.0))[0.5]),
        "pairwise": float(pairwise(x).max()),
        "curvature": float(curvature(lambda v: jnp.sum(v ** 2), jnp.ones(2))),
        "counted": float(counted(np.array([1, 1, 2]), 4)[1]),
        "sizes": float(sizes_of(x)[1]),
        "lowered": float(len(lowered.as_text()) > 0),
    }
