"""Gradients of real functions of complex arguments: df = Re(g dz), so g is the conjugate of the
direction of steepest ascent, as in JAX 0.10.2.  Central differences are the oracle.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import oracle

import calque
import calque.numpy as jnp
from calque import lax

pytestmark = pytest.mark.usefixtures("x64")
Z = np.array([[1 + 2j, -.5 + .3j], [.2 - 1j, 2 + .1j]])

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "abs": lambda z: jnp.abs(z).sum(), "angle": lambda z: jnp.angle(z).sum(),
    "real": lambda z: (z * z).real.sum(), "imag": lambda z: (z ** 3).imag.sum(),
    "conj": lambda z: (jnp.conj(z) * z * (1 + 1j)).imag.sum(),
    "exp": lambda z: jnp.abs(jnp.exp(z) + jnp.sin(z)).sum(),
    "log": lambda z: (jnp.log(z) * jnp.sqrt(z)).real.sum(),
    "pow": lambda z: jnp.abs(z ** (1.5 + .5j)).sum(),
    "tanh": lambda z: jnp.arctan(jnp.tanh(z)).imag.sum(),
    "norm": jnp.linalg.norm, "norm 1": lambda z: jnp.linalg.norm(z, 1),
    "product": lambda z: jnp.abs(z @ z).sum(), "prod": lambda z: jnp.prod(z).real,
    "var": lambda z: jnp.var(z), "where": lambda z: jnp.where(z.real > 0, z, 2 * z).imag.sum(),
    "scan": lambda z: jnp.abs(lax.fori_loop(0, 2, lambda i, v: v * z, z)).sum(),
    "fft": lambda z: (jnp.abs(jnp.fft.fft(z)) ** 3).sum(),
    "solve": lambda z: jnp.abs(jnp.linalg.solve(z, z.T)).sum(),
    "det": lambda z: jnp.linalg.det(z).imag, "inv": lambda z: jnp.linalg.inv(z).real.sum()}


def differences(f: Callable[[Any], Any], z: Any, step: float = 1e-6) -> Any:
    """Re(g dz) along 1 and i at every element."""
    def at(w: Any) -> float:
        return float(oracle.interpret(calque.make_jaxpr(f)(w), [w])[0])

    made = np.zeros(z.shape, complex)
    for i in np.ndindex(z.shape):
        d = np.zeros(z.shape, complex)
        d[i] = step
        slope = [(at(z + u * d) - at(z - u * d)) / (2 * step) for u in (1, 1j)]
        made[i] = slope[0] - 1j * slope[1]
    return made


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_conjugate_convention(name: str) -> None:
    f = FUNCTIONS[name]
    want = differences(f, Z)
    (got,) = oracle.interpret(calque.make_jaxpr(calque.grad(f))(Z), [Z])
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)


def test_what_jax_prints() -> None:
    z = 1 + 2j
    root = np.sqrt(5)
    value, grad = calque.value_and_grad(lambda x: jnp.abs(x) ** 2)(z)
    np.testing.assert_allclose([value, grad], [5, 2 - 4j], rtol=1e-12)
    np.testing.assert_allclose(calque.jacrev(jnp.abs)(z), (1 - 2j) / root, rtol=1e-12)
    np.testing.assert_allclose(calque.grad(jnp.angle)(z), -.4 - .2j, rtol=1e-12)
    np.testing.assert_allclose(calque.grad(jnp.abs)(0j), 0)
    np.testing.assert_allclose(calque.grad(jnp.linalg.norm)(np.array([0, 1j])), [0, -1j])
    by_both = calque.grad(lambda x, y: jnp.abs(x * y), (0, 1))(2.0, z)
    np.testing.assert_allclose(by_both[0], root, rtol=1e-12)
    np.testing.assert_allclose(by_both[1], 2 * (1 - 2j) / root, rtol=1e-12)
    assert by_both[0].dtype == np.float64
    np.testing.assert_allclose(calque.jacfwd(lambda x: x * 1j)(1.0), 1j)
    got = calque.jacfwd(lambda x: (2 * x).astype(int))(1.0)
    assert (got.dtype, got) == (np.dtype("int64"), 0)
