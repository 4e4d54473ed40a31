"""stax and optimizers: networks that learn, optimizers against their formulas, numbers of JAX's."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.harness import numpys

import calque
import calque.numpy as jnp
from calque import random
from calque.example_libraries import optimizers, stax

MAKERS: dict[str, tuple[Any, ...]] = {
    "sgd": (0.1,), "momentum": (0.1, 0.9), "nesterov": (0.1, 0.9), "adagrad": (0.1,),
    "rmsprop": (0.1,), "rmsprop_momentum": (0.1,), "adam": (0.1,), "adamax": (0.1,), "sm3": (0.1,)}


def test_optimizers_by_their_formulas() -> None:
    x0 = np.array([[1, -2], [0.5, 3]], np.float32)

    def every(x: Any) -> Any:
        ends = {}
        for name, args in MAKERS.items():
            init, update, params = getattr(optimizers, name)(*args)
            state = init({"w": x, "b": x[0]})
            for i in range(3):
                state = update(i, calque.tree.map(lambda v, i=i: v + 0.1 * i, params(state)), state)
            ends[name] = params(state)["w"]
        return ends

    got = calque.jit(every)(x0)
    want = {name: x0.astype(float) for name in MAKERS}
    v = m = s = a = np.zeros((2, 2))
    for i in range(3):
        want["sgd"] = want["sgd"] - 0.1 * (want["sgd"] + 0.1 * i)
        v = 0.9 * v + want["momentum"] + 0.1 * i
        want["momentum"] = want["momentum"] - 0.1 * v
        g = want["adam"] + 0.1 * i
        m, s = 0.1 * g + 0.9 * m, 0.001 * g * g + 0.999 * s
        want["adam"] = want["adam"] - 0.1 * (m / (1 - 0.9 ** (i + 1))) / (
            np.sqrt(s / (1 - 0.999 ** (i + 1))) + 1e-8)
        g = want["rmsprop"] + 0.1 * i
        a = 0.9 * a + 0.1 * g * g
        want["rmsprop"] = want["rmsprop"] - 0.1 * g / np.sqrt(a + 1e-8)
    for name in ("sgd", "momentum", "adam", "rmsprop"):
        np.testing.assert_allclose(got[name], want[name], rtol=1e-4, err_msg=name)
    for name, end in got.items():
        assert np.sum(np.abs(end)) < np.sum(np.abs(x0)), name


def test_states_and_schedules() -> None:
    init, update, params = optimizers.adam(optimizers.piecewise_constant([1], [0.1, 0.01]))
    state = init({"a": jnp.ones(2), "b": [jnp.zeros(())]})
    leaves, tree = calque.tree.flatten(state)
    assert len(leaves) == 6 and params(tree.unflatten(leaves))["b"] == [0.0]
    packed = optimizers.pack_optimizer_state(optimizers.unpack_optimizer_state(state))
    assert calque.tree.structure(packed) == tree
    with pytest.raises(TypeError, match="did not match the parameter tree"):
        update(0, {"a": jnp.ones(2)}, state)
    with pytest.raises(TypeError, match="not a JoinPoint"):
        optimizers.pack_optimizer_state({"a": 1})
    with pytest.raises(ValueError, match="one shorter"):
        optimizers.piecewise_constant([1, 2], [0.1, 0.2])
    with pytest.raises(TypeError, match="no step size"):
        optimizers.make_schedule([1.0, 2.0])
    assert float(optimizers.polynomial_decay(1.0, 4, 0.5)(9)) == 0.5
    assert float(optimizers.inverse_time_decay(1.0, 2, 1.0, staircase=True)(3)) == 0.5
    clipped = optimizers.clip_grads({"a": jnp.array([3.0, 4.0])}, 1.0)
    np.testing.assert_allclose(clipped["a"], [0.6, 0.8], rtol=1e-6)


def test_a_network_of_every_layer() -> None:
    """Shapes that init promises are those that apply gives."""
    branch = stax.serial(stax.FanOut(2), stax.parallel(stax.Conv(3, (1, 1)), stax.Identity),
                         stax.FanInConcat(-1))
    init, apply = stax.serial(
        stax.Conv(3, (3, 3), (2, 2), "SAME"), stax.BatchNorm(), stax.Relu, branch,
        stax.MaxPool((2, 2)), stax.ConvTranspose(2, (2, 2), (2, 2)), stax.AvgPool((2, 2), (2, 2),
                                                                                  "SAME"),
        stax.SumPool((2, 2)), stax.Flatten, stax.FanOut(2),
        stax.parallel(stax.Dense(5), stax.shape_dependent(lambda shape: stax.Dense(5))),
        stax.FanInSum, stax.Dropout(0.5), stax.Gelu, stax.Dense(4), stax.LogSoftmax)
    shapes = []

    def draw(key: Any) -> Any:
        shape, params = init(key, (-1, 8, 8, 2))
        shapes.append(shape)
        return params, random.normal(random.key(1), (3, 8, 8, 2))

    params, x = numpys(draw)(random.key(0))
    shape = shapes[0]

    def run(p: Any, x: Any) -> Any:
        return apply(p, x, rng=random.key(2))

    out = calque.jit(run)(params, x)
    assert shape == (-1, 4) and out.shape == (3, 4)
    np.testing.assert_allclose(np.exp(out).sum(1), 1, rtol=1e-5)
    with pytest.raises(ValueError, match="PRNG key"):
        calque.eval_shape(apply, params, x)
    kept = stax.Dropout(0.5, mode="test")[1]((), x, rng=random.key(0))
    assert kept is x


def test_a_network_learns() -> None:
    init, apply = stax.serial(stax.Dense(8), stax.Tanh, stax.Dense(1))
    params = numpys(lambda key: init(key, (-1, 2))[1])(random.key(0))
    x = np.random.default_rng(0).standard_normal((32, 2)).astype(np.float32)
    y = np.sin(x).sum(1, keepdims=True)
    start, update, get = optimizers.adam(0.02)

    def loss(p: Any) -> Any:
        return jnp.mean((apply(p, x) - y) ** 2)

    @calque.jit
    def train(state: Any) -> Any:
        return calque.lax.fori_loop(
            0, 200, lambda i, s: update(i, calque.grad(loss)(get(s)), s), state)

    assert float(loss(get(train(start(params))))) < 0.02 < float(loss(params))
