"""Stencils: functions of windows, mapped and scanned over arrays."""
import jax
import jax.numpy as jnp
import kernex as kex

_X = jnp.sin(jnp.arange(400.0)).reshape(20, 20)


@kex.kmap(kernel_size=(3, 3), padding=1)
def _mean(x):
    return jnp.mean(x)


@kex.kscan(kernel_size=(3,), padding=((1, 1),))
def _running(x):
    return x[0] + x[1]


def scan():
    return _running(jnp.arange(10.0))


_slope = jax.jit(jax.grad(lambda x: (_mean(x) ** 2).sum()))


def step():
    return _slope(_X)
