"""The functions whose artifacts the C++ tests and examples load (fixture.py compiles them)."""
from __future__ import annotations

from typing import Any

import calque
import calque.numpy as jnp
from calque import lax, random


def add(x: Any, y: Any) -> Any:
    return x + y


def step(x: Any, w: Any) -> Any:
    """Large enough to be queued."""
    return jnp.tanh(x @ w)


def matmul(x: Any, y: Any) -> Any:
    return x @ y


def types(tree: dict[str, Any]) -> dict[str, Any]:
    """Every element type, there and back."""
    return {k: jnp.logical_not(v) if v.dtype == bool else v + v for k, v in tree.items()}


def bits(tree: dict[str, Any]) -> dict[str, Any]:
    """The 8-bit floats move only."""
    return {k: jnp.flip(v, 0) for k, v in tree.items()}


def mixed(x: Any, unused: Any, empty: Any, s: Any) -> Any:
    """An argument returned as it is, one that is not used, an empty one, one result twice."""
    y = x * s
    return y, x, empty, y


def update(state: Any, x: Any) -> Any:
    return state + x


def huge(x: Any) -> Any:
    return jnp.broadcast_to(x, (2**46,)) + 1


def predict(params: list[dict[str, Any]], x: Any) -> Any:
    """The logits of a small network: x (n, 64), params of `widths`."""
    *hidden, last = params
    for layer in hidden:
        x = calque.nn.relu(x @ layer["w"] + layer["b"])
    return x @ last["w"] + last["b"]


def loss(params: list[dict[str, Any]], x: Any, labels: Any) -> Any:
    logits = predict(params, x)
    picked = jnp.take_along_axis(calque.nn.log_softmax(logits), labels[:, None], axis=1)
    return -jnp.mean(picked)


def train_step(params: list[dict[str, Any]], x: Any, labels: Any, rate: Any) -> Any:
    """One step of gradient descent: (params, the loss before it)."""
    value, grads = calque.value_and_grad(loss)(params, x, labels)
    return calque.tree.map(lambda p, g: p - rate * g, params, grads), value


def price(seed: Any, spot: Any, strike: Any, rate: Any, volatility: Any, years: Any) -> Any:
    """A European call by Monte Carlo, 2^16 paths: (price, standard error)."""
    z = random.normal(random.PRNGKey(seed), (2**16,))
    drift = (rate - volatility**2 / 2) * years
    final = spot * jnp.exp(drift + volatility * jnp.sqrt(years) * z)
    pay = jnp.exp(-rate * years) * jnp.maximum(final - strike, 0)
    return jnp.mean(pay), jnp.std(pay) / 2**8


def slow(x: Any) -> Any:
    """Long enough that a caller sees it pending."""
    return lax.fori_loop(0, 40, lambda _, y: jnp.tanh(y @ x), x)
