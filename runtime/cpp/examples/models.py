"""The functions behind the examples; calque compile makes one artifact of each (README.md)."""
from __future__ import annotations

from typing import Any

import calque
import calque.numpy as jnp
from calque import random


def predict(params: list[dict[str, Any]], images: Any) -> Any:
    """Scores of ten classes: images (n, 64) through layers {"w", "b"}."""
    *hidden, last = params
    x = images
    for layer in hidden:
        x = calque.nn.relu(x @ layer["w"] + layer["b"])
    return x @ last["w"] + last["b"]


def loss(params: list[dict[str, Any]], images: Any, labels: Any) -> Any:
    scores = calque.nn.log_softmax(predict(params, images))
    return -jnp.mean(jnp.take_along_axis(scores, labels[:, None], axis=1))


def train_step(params: list[dict[str, Any]], images: Any, labels: Any, rate: Any) -> Any:
    """One step of gradient descent: (params, the loss before it)."""
    value, grads = calque.value_and_grad(loss)(params, images, labels)
    return calque.tree.map(lambda p, g: p - rate * g, params, grads), value


def price(seed: Any, spot: Any, strike: Any, rate: Any, volatility: Any, years: Any) -> Any:
    """A European call by Monte Carlo, 2^16 paths: (price, standard error)."""
    z = random.normal(random.PRNGKey(seed), (2**16,))
    drift = (rate - volatility**2 / 2) * years
    final = spot * jnp.exp(drift + volatility * jnp.sqrt(years) * z)
    pay = jnp.exp(-rate * years) * jnp.maximum(final - strike, 0)
    return jnp.mean(pay), jnp.std(pay) / 2**8
