"""Long chains of elementwise operations: cut into loops of bounded length; the same results."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque.core.primitive import registry
from calque.lowering.module import LONGEST_CHAIN, lower, module_text
from calque.lowering.targets import cpu_target

CUT = "iree_tensor_ext.compute_barrier.start"


def cuts(f: Any, *args: Any) -> int:
    made = lower(calque.make_jaxpr(f)(*args), cpu_target())
    assert made.module is not None
    return module_text(made.module).count(CUT)


def chain(n: int) -> Any:
    def f(x: Any) -> Any:
        for i in range(n):
            x = jnp.sin(x) + i
        return x
    return f


def test_loops_are_bounded() -> None:
    x = jnp.ones(10)
    each = LONGEST_CHAIN // (registry["sin"].weight + registry["add"].weight)
    assert cuts(chain(each - 1), x) == 0
    assert 8 <= cuts(chain(10 * each), x) <= 12  # as many more as the chain is longer
    assert 17 <= cuts(chain(20 * each), x) <= 24
    assert cuts(lambda x: jnp.exp(-x * x) / (1 + jnp.tanh(x)) + jnp.log1p(x * x), x) == 0


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_values(dtype: Any) -> None:
    x = np.linspace(-1, 1, 10).astype(dtype)
    want = x.astype(np.result_type(dtype, np.float64))
    for _ in range(40):
        want = np.sin(want) * 0.5 + 0.1

    def f(x: Any) -> Any:
        for _ in range(40):
            x = jnp.sin(x) * 0.5 + 0.1
        return x
    assert cuts(f, x) >= 2
    # the map contracts by half at least: what is left are the errors of the last steps
    np.testing.assert_allclose(np.asarray(calque.jit(f)(x)), want, rtol=4e-7)


def test_gradients_masks_and_batches() -> None:
    def f(x: Any) -> Any:
        for i in range(24):
            x = jnp.where(x > 0.25, jnp.sin(x), jnp.cos(x)) * (0.9 - 0.001 * i)
        return x
    x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
    want = np.asarray(calque.vmap(f)(x))  # operation by operation
    np.testing.assert_allclose(np.asarray(calque.jit(calque.vmap(f))(x)), want, rtol=1e-5)
    got = np.asarray(calque.jit(calque.grad(lambda x: f(x).sum()))(x))
    with calque.enable_x64(True):
        up, down = (np.asarray(calque.jit(f)(x.astype(np.float64) + d)) for d in (1e-6, -1e-6))
    np.testing.assert_allclose(got, (up - down) / 2e-6, rtol=2e-4, atol=1e-7)
