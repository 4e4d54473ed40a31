"""Workloads of suite.py: parts of networks on pictures, and training steps of small ones (see
workloads)."""
from __future__ import annotations

from typing import Any

import numpy as np
from workloads import Made, normal, workload

NHWC = ("NHWC", "HWIO", "NHWC")


def weights(*shape: int, seed: int = 0) -> Any:
    return normal(*shape, seed=seed) / np.float32(np.sqrt(np.prod(shape[:-1])))


def _conv(j: Any, x: Any, w: Any, stride: int = 1, padding: str = "SAME") -> Any:
    return j.lax.conv_general_dilated(x, w, (stride, stride), padding, dimension_numbers=NHWC)


def _pooled(j: Any, x: Any) -> Any:
    return j.lax.reduce_window(x, -np.inf, j.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def _chosen(j: Any, z: Any, y: Any) -> Any:
    return -j.np.take_along_axis(j.nn.log_softmax(z), y[:, None], 1).mean()


def _step(j: Any, loss: Any) -> Any:
    def step(p: Any, *args: Any) -> Any:
        value, g = j.top.value_and_grad(loss)(p, *args)
        return j.top.tree.map(lambda a, b: a - 0.01 * b, p, g), value
    return step


@workload
def group_norm(j: Any, more: int) -> Made:
    def f(x: Any) -> Any:
        y = x.reshape(*x.shape[:3], 8, 2)
        y = (y - y.mean((1, 2, 4), keepdims=True)) / j.np.sqrt(
            y.var((1, 2, 4), keepdims=True) + 1e-5)
        return y.reshape(x.shape)
    return f, (normal(4, 32 + more, 32, 16),)


@workload
def colours_normalised(j: Any, more: int) -> Made:
    return lambda x: (x - x.mean((0, 1, 2))) / j.np.sqrt(x.var((0, 1, 2)) + 1e-5), (
        normal(16, 64 + more, 64, 3),)


@workload
def max_pool_gradient(j: Any, more: int) -> Made:
    return lambda x: j.top.grad(lambda x: (_pooled(j, x) ** 2).sum())(x), (
        normal(8, 32 + more, 32, 16),)


@workload
def overlapping_pool_gradient(j: Any, more: int) -> Made:
    def f(x: Any) -> Any:
        return j.top.grad(lambda x: (j.lax.reduce_window(
            x, -np.inf, j.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME") ** 2).sum())(x)
    return f, (normal(4, 56 + more, 56, 64),)


@workload
def separable_step(j: Any, more: int) -> Made:
    def loss(p: Any, x: Any, y: Any) -> Any:
        x = j.nn.relu(_conv(j, x, p["stem"], 2))
        for own, across in p["layers"]:
            x = x + _conv(j, j.nn.relu(j.lax.conv_general_dilated(
                x, own, (1, 1), "SAME", dimension_numbers=NHWC, feature_group_count=64)), across)
        return _chosen(j, x.mean((1, 2)) @ p["head"], y)

    p = {"stem": weights(3, 3, 3, 64), "head": weights(64, 10), "layers": [
        (weights(3, 3, 1, 64, seed=k), weights(1, 1, 64, 64, seed=k)) for k in range(3)]}
    return _step(j, loss), (p, normal(8 + more, 32, 32, 3),
                            np.arange(8 + more, dtype=np.int32) % 10)


@workload
def upsampling_gradients(j: Any, more: int) -> Made:
    def f(x: Any, w: Any) -> Any:
        return j.top.grad(lambda x, w: (j.lax.conv_transpose(
            x, w, (2, 2), "SAME") ** 2).sum(), (0, 1))(x, w)
    return f, (normal(4, 16 + more, 16, 64), weights(2, 2, 64, 32))


@workload
def patches_gradient(j: Any, more: int) -> Made:
    def f(x: Any, w: Any) -> Any:
        return j.top.grad(lambda x: (_conv(j, x, w, 16, "VALID") ** 2).sum())(x)
    return f, (normal(4, 224 + 16 * more, 224, 3), weights(16, 16, 3, 192))


@workload
def residual_network_step(j: Any, more: int) -> Made:
    def loss(p: Any, x: Any, y: Any) -> Any:
        x = j.nn.relu(_conv(j, x, p["stem"]))
        for w, v, across in p["blocks"]:
            h = _conv(j, j.nn.relu(_conv(j, x, w, 2)), v)
            x = j.nn.relu(h + _conv(j, x, across, 2))
        return _chosen(j, x.mean((1, 2)) @ p["head"], y)

    p = {"stem": weights(3, 3, 3, 32), "head": weights(128, 10), "blocks": [
        (weights(3, 3, n, 2 * n), weights(3, 3, 2 * n, 2 * n, seed=1), weights(1, 1, n, 2 * n))
        for n in (32, 64)]}
    return _step(j, loss), (p, normal(8 + more, 32, 32, 3),
                            np.arange(8 + more, dtype=np.int32) % 10)


@workload
def pooled_network_step(j: Any, more: int) -> Made:
    def loss(p: Any, x: Any, y: Any) -> Any:
        for w in p["layers"]:
            x = _pooled(j, j.nn.relu(_conv(j, x, w)))
        return _chosen(j, x.reshape(x.shape[0], -1) @ p["head"], y)

    p = {"layers": [weights(5, 5, 1, 8), weights(5, 5, 8, 16)], "head": weights(784, 10)}
    return _step(j, loss), (p, normal(32 + more, 28, 28, 1),
                            np.arange(32 + more, dtype=np.int32) % 10)


@workload
def embedding_step(j: Any, more: int) -> Made:
    def loss(p: Any, t: Any) -> Any:
        h = j.np.tanh(p[0][t] @ p[1]) @ p[0].T
        return _chosen(j, h[:, :-1].reshape(-1, 1000), t[:, 1:].reshape(-1))

    ids = np.random.default_rng(0).integers(0, 1000, (4 + more, 64)).astype(np.int32)
    return _step(j, loss), ([normal(1000, 128) / 10, weights(128, 128)], ids)
