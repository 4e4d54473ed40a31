"""Checked signatures: what fits passes, what does not raises, under jit, too."""
import jax
import jax.numpy as jnp
from beartype import beartype
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, TypeCheckError, jaxtyped


@jaxtyped(typechecker=beartype)
def _product(a: Float[Array, "n k"], b: Float[Array, "k m"]) -> Float[Array, "n m"]:  # noqa: F722
    return a @ b


@jaxtyped(typechecker=beartype)
def _draw(key: PRNGKeyArray) -> Float[Array, " 3"]:  # noqa: F722
    return jax.random.normal(key, (3,))


def instances():
    x = jnp.ones((2, 3))
    return [isinstance(x, Float[Array, "a b"]), isinstance(x, Int[Array, "a b"]),
            isinstance(jax.random.key(0), Key[Array, ""]),
            isinstance(jnp.ones(2, jnp.bfloat16), Float[Array, "n"])]


def keys():
    return _draw(jax.random.key(0)), _draw(jax.random.PRNGKey(0))


def refused():
    try:
        jax.jit(_product)(jnp.ones((2, 3)), jnp.ones((2, 3)))
    except TypeCheckError:
        return 1
    return 0


_jitted = jax.jit(_product)


def step():
    return _jitted(jnp.ones((2, 3)), jnp.ones((3, 4)))
