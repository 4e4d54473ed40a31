"""Replay buffers: flat and prioritised."""
import flashbax
import jax
import jax.numpy as jnp

_flat = flashbax.make_flat_buffer(max_length=64, min_length=2, sample_batch_size=8)


def flat():
    state = _flat.init({"o": jnp.zeros(3)})
    for i in range(5):
        state = _flat.add(state, {"o": jnp.ones(3) * i})
    return _flat.sample(state, jax.random.key(0)).experience.first["o"]


def prioritised():
    buffer = flashbax.make_prioritised_flat_buffer(64, 2, 4)
    state = buffer.init({"o": jnp.zeros(3)})
    for i in range(5):
        state = buffer.add(state, {"o": jnp.ones(3) * i})
    drawn = buffer.sample(state, jax.random.key(0))
    state = buffer.set_priorities(state, drawn.indices, jnp.arange(4.0) + 1)
    return buffer.sample(state, jax.random.key(1)).experience.first["o"]


@jax.jit
def _fill(key):
    state = _flat.init({"o": jnp.zeros(3)})
    state = jax.lax.fori_loop(0, 40, lambda i, s: _flat.add(s, {"o": jnp.ones(3) * i}), state)
    return _flat.sample(state, key).experience.first["o"]


def step():
    return _fill(jax.random.key(2))
