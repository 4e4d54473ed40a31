"""Training: steps of networks with Adam, the loop around them, gradients of a recurrent network and
of attention, and what tracing a gradient costs.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from loops import both, rnn
from pairs import Row, compare

import calque
import calque.numpy as cnp

F = np.float32


def network(widths: list[int], seed: int = 0) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    return [{"w": (rng.standard_normal((n, m)) * np.sqrt(2 / n)).astype(F), "b": np.zeros(m, F)}
            for n, m in zip(widths[:-1], widths[1:])]


def forward(m: Any, params: Any, x: Any) -> Any:
    *hidden, last = params
    for layer in hidden:
        x = m.nn.relu(x @ layer["w"] + layer["b"])
    return x @ last["w"] + last["b"]


def classify(m: Any, n: Any, params: Any, x: Any, y: Any) -> Any:
    return -n.mean(n.sum(m.nn.log_softmax(forward(m, params, x)) * y, axis=1))


def squares(m: Any, n: Any, params: Any, x: Any, y: Any) -> Any:
    return n.mean((forward(m, params, x) - y) ** 2)


def adam_step(m: Any, n: Any, loss: Any) -> Callable[..., Any]:
    def step(params: Any, mean: Any, square: Any, count: Any, x: Any, y: Any) -> Any:
        value, grads = m.value_and_grad(lambda p: loss(m, n, p, x, y))(params)
        count = count + 1
        mean = m.tree.map(lambda a, g: 0.9 * a + 0.1 * g, mean, grads)
        square = m.tree.map(lambda a, g: 0.999 * a + 0.001 * g * g, square, grads)
        c1, c2 = 1 - 0.9 ** count, 1 - 0.999 ** count
        params = m.tree.map(lambda p, a, b: p - 1e-3 * (a / c1) / (n.sqrt(b / c2) + 1e-8), params,
                            mean, square)
        return params, mean, square, count, value
    return step


def trainer(m: Any, n: Any, loss: Any, widths: list[int], x: Any, y: Any) -> Callable[[], Any]:
    """A thunk that makes the next step and waits for it."""
    step = m.jit(adam_step(m, n, loss))
    params = m.tree.map(n.asarray, network(widths))
    zeros = m.tree.map(n.zeros_like, params)
    state = [(params, zeros, zeros, n.asarray(F(0)))]
    x, y = n.asarray(x), n.asarray(y)

    def run() -> Any:
        *new, value = step(*state[0], x, y)
        state[0] = tuple(new)
        return m.block_until_ready(value)
    return run


def pair(loss: Any, widths: list[int], x: Any, y: Any) -> tuple[Any, Any]:
    return (trainer(calque, cnp, loss, widths, x, y), trainer(jax, jnp, loss, widths, x, y))


def sgd_loop(m: Any, n: Any) -> Callable[[], Any]:
    """The tutorial's loop: params = step(params, x, y), not waited for, on a network so small that
    the call is what costs."""
    @m.jit
    def step(params: Any, x: Any, y: Any) -> Any:
        grads = m.grad(lambda p: squares(m, n, p, x, y))(params)
        return m.tree.map(lambda p, g: p - 0.01 * g, params, grads)

    params = m.tree.map(n.asarray, network([1, 4, 4, 1]))
    x, y = n.ones((4, 1)), n.ones((4, 1))
    state = [params]

    def run() -> Any:
        state[0] = step(state[0], x, y)
        return state[0]
    return run


def rnn_gradient(m: Any, n: Any, w: Any, h: Any, xs: Any) -> Any:
    return m.grad(lambda w: n.sum(rnn(m, n, w, h, xs)[1] ** 2))(w)


def attention(m: Any, n: Any, q: Any, k: Any, v: Any) -> Any:
    """(batch, heads, length, width), causal."""
    scores = n.einsum("bhid,bhjd->bhij", q, k) / q.shape[-1] ** 0.5
    mask = n.tri(q.shape[2], dtype=bool)
    return n.einsum("bhij,bhjd->bhid", m.nn.softmax(n.where(mask, scores, -1e9)), v)


def attention_gradient(m: Any, n: Any, q: Any, k: Any, v: Any) -> Any:
    return m.grad(lambda *a: n.sum(attention(m, n, *a) ** 2), (0, 1, 2))(q, k, v)


def long_function(n: Any) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        for _ in range(250):
            x = n.sin(x) * 1.5 + n.cos(x)  # four equations
        return x.sum()
    return f


def tracing(m: Any, n: Any) -> Callable[[], Any]:
    x = n.ones(4)

    def run() -> Any:
        return m.make_jaxpr(m.grad(long_function(n)))(x)  # a new function: nothing is cached
    return run


def rows() -> list[Row]:
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return (rng.standard_normal(shape) * 0.2).astype(F)

    labels = np.eye(10, dtype=F)[rng.integers(0, 10, 128)]
    line = rng.uniform(-1, 1, (128, 1)).astype(F)
    heads = [normal(4, 8, 256, 64) for _ in range(3)]
    return [
        compare("MLP step 784-512-512-10, batch 128, Adam",
                *pair(classify, [784, 512, 512, 10], normal(128, 784), labels), 1.0),
        compare("MLP step 1-128-128-1, batch 128, Adam",
                *pair(squares, [1, 128, 128, 1], line, line ** 2), 0.6, inner=5),
        compare("a step of a training loop, dispatch", sgd_loop(calque, cnp), sgd_loop(jax, jnp),
                1.2, inner=500),
        compare("gradient of a scan, RNN: 1000 steps, batch 8, hidden 32",
                *both(rnn_gradient, normal(32, 32), normal(8, 32), normal(1000, 8, 32)), 1.2),
        compare("gradient of attention, 4 x 8 heads, length 256, width 64",
                *both(attention_gradient, *heads), 1.0),
        compare("make_jaxpr(grad(f)) of 1000 equations", tracing(calque, cnp), tracing(jax, jnp),
                1.5, pairs=15),
    ]


if __name__ == "__main__":
    for row in rows():
        print(row.markdown())
