"""Tensor networks on arrays of jax: contractions, a truncation, a circuit."""
import jax.numpy as jnp
import quimb.tensor as qtn

_STATE = qtn.MPS_rand_state(8, 4, seed=0, dtype="float32")


def contraction():
    state = _STATE.copy()
    state.apply_to_arrays(jnp.asarray)
    return (state.H @ state), state[3].data


def compression():
    state = _STATE.copy()
    state.apply_to_arrays(jnp.asarray)
    state.compress(max_bond=2)
    return abs(state.H @ state)


def circuit():
    c = qtn.Circuit(3, to_backend=jnp.asarray)
    c.h(0)
    c.cnot(0, 1)
    c.rx(0.4, 2)
    return c.to_dense()


_NETWORK = _STATE.copy()
_NETWORK.apply_to_arrays(jnp.asarray)


def step():
    return jnp.asarray(_NETWORK.H @ _NETWORK)
