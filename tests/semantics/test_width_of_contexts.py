"""64-bit values of a block under `enable_x64(True)`, differentiated where x64 is off.

What rules add to a derivative (a seed, a factor, zeros) was cut to 32 bits there.  The oracle is
the same derivative taken with x64 on all the way.
"""
import numpy as np
import pytest

import calque
import calque.numpy as jnp
import calque.scipy.special as sp
from calque import lax

X = np.random.default_rng(0).uniform(0.2, 0.8, (3, 3))
FUNCTIONS = {
    "pow": lambda x: x ** 3, "mean": jnp.mean, "erf": sp.erf, "prod": jnp.prod,
    "cumprod": jnp.cumprod, "slice": lambda x: x[1:] * 2, "complex": lambda x: abs(x * (1 + 2j)),
    "rfft": lambda x: jnp.abs(jnp.fft.rfft(x)), "jit": calque.jit(lambda x: jnp.sin(x) * 2),
    "scan": lambda x: lax.scan(lambda c, r: (c * r, c + r), x[0], x)[1],
    "cholesky": lambda x: jnp.linalg.cholesky(x @ x.T + 4 * jnp.eye(3)),
}
TRANSFORMED = {
    "grad": calque.grad, "jit": lambda g: calque.jit(calque.grad(g)),
    "jvp": lambda g: lambda x: calque.jvp(g, (x,), (x,))[1],
    "second": lambda g: calque.grad(wide(lambda x: calque.grad(g)(x) ** 2)),
}


def wide(f):
    def g(x):
        with calque.enable_x64(True):
            return jnp.sum(f(jnp.asarray(x, jnp.float64)))
    return g


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_outside_of_the_block(name):
    g = wide(FUNCTIONS[name])
    for kind, transformed in TRANSFORMED.items():
        with calque.enable_x64(True):
            x = jnp.asarray(X)
            want = transformed(g)(x)
        with calque.enable_x64(False):
            got = transformed(g)(x)
        assert got.dtype == want.dtype == np.float64, kind
        np.testing.assert_allclose(got, want, rtol=1e-12, err_msg=kind)


def test_rules_of_the_users_outside_of_the_block():
    @calque.custom_vjp
    def f(x):
        return x ** 2

    f.defvjp(lambda x: (f(x), jnp.sin(x)), lambda saved, ct: (saved * ct,))
    with calque.enable_x64(False):
        first = calque.grad(wide(f))(5.0)
        second = calque.grad(calque.grad(wide(f)))(5.0)
    assert first.dtype == second.dtype == np.float32  # as the argument
    np.testing.assert_allclose([first, second], [np.sin(5), np.cos(5)], rtol=1e-6)


def test_narrow_programs_are_what_they_were():
    program = calque.make_jaxpr(calque.grad(lambda x: jnp.sum(x ** 3)))(np.ones(3, np.float32))
    assert "64" not in str(program)
