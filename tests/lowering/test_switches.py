"""CALQUE_OFF: values stay, whatever part of lowering is left out."""
from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from calque.lowering.plan.switches import SWITCHES

PROGRAM = """
import calque, calque.numpy as jnp, numpy as np
from calque import lax, nn

def f(x, w):
    y = nn.softmax(x @ w)
    c, ys = lax.scan(lambda c, v: (jnp.tanh(c @ w + v), c.sum()), y, jnp.stack([y] * 50))
    d = ((x[:, None, :3] - x[None, :, :3]) ** 2).sum(-1)
    r = lax.fori_loop(0, 50, lambda i, r: 0.5 * (r + 2 / r), y[0] + 1)
    z = x
    for i in range(10):
        z = jnp.sin(z) + i
    return c, ys, d.sum(1), r, z, jnp.concatenate([x, x])[::-1], w @ y[0]

x = np.linspace(-1, 1, 40 * 40, dtype=np.float32).reshape(40, 40)
for v in calque.jit(f)(x, x.T / 40):
    print(*np.asarray(v).reshape(-1)[::7].tolist())
"""


def values(parts: str) -> list[np.ndarray]:
    done = subprocess.run([sys.executable, "-c", PROGRAM], text=True, check=True,
                          stdout=subprocess.PIPE, env={**os.environ, "CALQUE_OFF": parts})
    return [np.array(line.split(), np.float32) for line in done.stdout.splitlines()]


def test_all_at_once() -> None:
    """Sums of 40 float32 in another order differ in the last bits, 50 steps carry them on."""
    plain, without = values(""), values(",".join(SWITCHES))
    assert len(plain) == 7
    for a, b in zip(plain, without, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("part", SWITCHES)
def test_each(part: str) -> None:
    for a, b in zip(values(""), values(part), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def test_a_name_that_is_none() -> None:
    done = subprocess.run([sys.executable, "-c", "import calque"], text=True, check=False,
                          stderr=subprocess.PIPE, env={**os.environ, "CALQUE_OFF": "rows,rowz"})
    assert "CALQUE_OFF names rowz, which is no part" in done.stderr and "Fix: " in done.stderr
