"""Vulkan, run on any Vulkan device (Debian: apt-get install mesa-vulkan-drivers libvulkan1 gives
lavapipe).  Not part of the default run: `pytest -m vulkan`.
"""
from __future__ import annotations

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import random

pytestmark = pytest.mark.vulkan


@pytest.fixture(scope="module")
def device():
    try:
        return calque.devices("vulkan")[0]
    except RuntimeError as error:
        pytest.skip(f"no Vulkan device here: {str(error).splitlines()[0]}")


ULPS = 3.0  # two forms are reordered by the driver, which costs up to one more than on the CPU


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "exp", "tanh", "arctan", "sinh", "expm1",
                                  "cbrt", "arcsin", "log", "sqrt"])
def test_functions_are_accurate(device, name: str) -> None:
    wide = np.concatenate([np.linspace(-20, 20, 2001), [1e3, 1e5, 1e6, 3e7, 1e20, 3e38]])
    points = {"exp": np.linspace(-20, 20, 2001), "sinh": np.linspace(-5, 5, 2001),
              "expm1": np.linspace(-2, 5, 2001), "arcsin": np.linspace(-0.999, 0.999, 2001),
              "log": np.linspace(1e-3, 50, 2001), "sqrt": np.linspace(0, 50, 2001)}
    x = points.get(name, wide).astype(np.float32)
    got = np.asarray(calque.jit(getattr(jnp, name))(calque.device_put(x, device)))
    want = getattr(np, name)(x.astype(np.float64))
    assert np.nanmax(np.abs(got - want) / np.spacing(np.abs(want).astype(np.float32))) <= ULPS


def test_a_program_of_everything(device) -> None:
    def f(x):
        return (jnp.sum(x), x @ x, x.reshape(2, -1).max(axis=1), random.bits(random.key(3), (4,)),
                x.at[3].set(2.0), jnp.where(x > 3, x, -x).astype(jnp.int32))

    x = np.arange(16, dtype=np.float32)
    there = [np.asarray(v) for v in calque.jit(f)(calque.device_put(x, device))]
    here = [np.asarray(v) for v in calque.jit(f)(x)]
    for a, b in zip(there, here):
        np.testing.assert_array_equal(a, b)


def test_gradients(device) -> None:
    x = calque.device_put(np.linspace(0.1, 1, 8).astype(np.float32), device)
    g = calque.jit(calque.grad(lambda x: (jnp.sin(x) * x).sum()))(x)
    v = np.linspace(0.1, 1, 8)
    np.testing.assert_allclose(g, np.sin(v) + v * np.cos(v), rtol=1e-5)
    assert g.devices() == {device}
