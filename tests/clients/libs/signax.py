"""Signatures of paths and their logarithms."""
import jax
import jax.numpy as jnp
import signax

_PATH = jnp.sin(jnp.arange(60.0) ** 1.5).reshape(20, 3)


def logarithm():
    return signax.logsignature(_PATH, 3)


def combined():
    x = signax.signature(_PATH, 2)
    return signax.signature_combine(x, x)


_slope = jax.jit(jax.grad(lambda p: sum(jnp.sum(s ** 2) for s in jax.tree.leaves(
    signax.signature(p, 3)))))


def step():
    return _slope(_PATH)
