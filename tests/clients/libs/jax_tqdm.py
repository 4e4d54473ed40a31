"""Progress bars of loops, which call back to Python."""
import jax
import jax.numpy as jnp
from jax_tqdm import loop_tqdm, scan_tqdm


@scan_tqdm(20)
def _body(carry, i):
    return carry * 0.9 + i, carry


@jax.jit
def _scan(x):
    return jax.lax.scan(_body, x, jnp.arange(20))


def loop():
    @loop_tqdm(10)
    def body(i, x):
        return x + i
    return jax.jit(lambda x: jax.lax.fori_loop(0, 10, body, x))(0.0)


def step():
    return _scan(1.0)
