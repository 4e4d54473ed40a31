"""Training steps of flax and equinox models as their guides write them; clients.py times them.

STEPS: name -> a function without arguments that gives a function of a state, and the first state.
Everything is jax's to these files: calque runs them by calque.compat.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax import nnx
from flax.training import train_state

Step = tuple[Callable[[Any], Any], Any]


def images(rows: int, size: int, channels: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return (jnp.asarray(rng.standard_normal((rows, size, size, channels), np.float32)),
            jnp.asarray(rng.integers(0, 10, rows)))


def entropy(logits: Any, labels: Any) -> Any:
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


class Dense(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = x.reshape(x.shape[0], -1)
        for width in (512, 256):
            x = nn.relu(nn.Dense(width)(x))
        return nn.Dense(10)(x)


class Convolutions(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        for width in (16, 32):
            x = nn.GroupNorm(4)(nn.relu(nn.Conv(width, (3, 3))(x)))
            x = nn.max_pool(x, (2, 2), (2, 2))
        return nn.Dense(10)(x.reshape(x.shape[0], -1))


class Attention(nn.Module):
    """Two layers of a transformer over the rows of an image."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.Dense(64)(x.reshape(*x.shape[:2], -1))
        for _ in range(2):
            x = x + nn.MultiHeadDotProductAttention(4)(nn.LayerNorm()(x))
            x = x + nn.Dense(64)(nn.gelu(nn.Dense(256)(nn.LayerNorm()(x))))
        return nn.Dense(10)(x.mean(1))


def linen(model: nn.Module, x: Any, y: Any) -> Step:
    state = train_state.TrainState.create(
        apply_fn=model.apply, params=model.init(jax.random.key(0), x[:1])["params"],
        tx=optax.adam(1e-3))

    @jax.jit
    def step(state: Any) -> Any:
        grads = jax.grad(lambda p: entropy(state.apply_fn({"params": p}, x), y))(state.params)
        return state.apply_gradients(grads=grads)
    return step, state


def nnx_dense() -> Step:
    x, y = images(128, 28, 1)
    rngs = nnx.Rngs(0)
    model = nnx.Sequential(
        lambda x: x.reshape(x.shape[0], -1), nnx.Linear(784, 512, rngs=rngs), nnx.relu,
        nnx.Linear(512, 256, rngs=rngs), nnx.relu, nnx.Linear(256, 10, rngs=rngs))
    optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)

    @nnx.jit
    def step(model: Any, optimizer: Any) -> None:
        optimizer.update(model, nnx.grad(lambda m: entropy(m(x), y))(model))

    def call(state: Any) -> Any:
        step(*state)
        return state
    return call, (model, optimizer)


def equinox(model: Any, loss: Callable[[Any], Any]) -> Step:
    tx = optax.adam(1e-3)

    @eqx.filter_jit
    def step(state: Any) -> Any:
        model, inner = state
        updates, inner = tx.update(eqx.filter_grad(loss)(model), inner, model)
        return eqx.apply_updates(model, updates), inner
    return step, (model, tx.init(eqx.filter(model, eqx.is_inexact_array)))


def equinox_dense() -> Step:
    x, y = images(128, 28, 1)
    x = x.reshape(128, -1)
    model = eqx.nn.MLP(784, 10, 256, 2, key=jax.random.key(0))
    return equinox(model, lambda m: entropy(jax.vmap(m)(x), y))


def equinox_convolutions() -> Step:
    x, y = images(64, 28, 1)
    x = x.transpose(0, 3, 1, 2)
    keys = jax.random.split(jax.random.key(0), 3)
    model = eqx.nn.Sequential([
        eqx.nn.Conv2d(1, 16, 3, key=keys[0]), eqx.nn.Lambda(jax.nn.relu), eqx.nn.MaxPool2d(2, 2),
        eqx.nn.Conv2d(16, 32, 3, key=keys[1]), eqx.nn.Lambda(jax.nn.relu), eqx.nn.MaxPool2d(2, 2),
        eqx.nn.Lambda(jnp.ravel), eqx.nn.Linear(800, 10, key=keys[2])])
    return equinox(model, lambda m: entropy(jax.vmap(m)(x), y))


class Recurrent(eqx.Module):
    cell: eqx.nn.GRUCell
    last: eqx.nn.Linear

    def __call__(self, xs: Any) -> Any:
        state = jnp.zeros(self.cell.hidden_size)
        state, _ = jax.lax.scan(lambda h, x: (self.cell(x, h), None), state, xs)
        return self.last(state)


def equinox_recurrent() -> Step:
    x, y = images(64, 28, 1)
    one, two = jax.random.split(jax.random.key(0))
    model = Recurrent(eqx.nn.GRUCell(28, 64, key=one), eqx.nn.Linear(64, 10, key=two))
    return equinox(model, lambda m: entropy(jax.vmap(m)(x[..., 0]), y))


STEPS: dict[str, Callable[[], Step]] = {
    "flax linen, 784-512-256-10, batch 128": lambda: linen(Dense(), *images(128, 28, 1)),
    "flax linen, 2 convolutions with group norm, batch 64":
        lambda: linen(Convolutions(), *images(64, 28, 1)),
    "flax linen, 2 attention layers, batch 64": lambda: linen(Attention(), *images(64, 28, 1)),
    "flax nnx, 784-512-256-10, batch 128": nnx_dense,
    "equinox, 784-256-256-10, batch 128": equinox_dense,
    "equinox, 2 convolutions, batch 64": equinox_convolutions,
    "equinox, GRU of 64 over 28 rows, batch 64": equinox_recurrent,
}
