"""Tensor networks on arrays of jax: contractions, a truncation, a gradient through a network."""
import jax
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


_ARRAYS = [jnp.asarray(t.data) for t in _STATE]


_NETWORK = qtn.MatrixProductState(_ARRAYS)
_params, _skeleton = qtn.pack(_NETWORK)
_both = jax.jit(jax.value_and_grad(lambda p: qtn.unpack(p, _skeleton).norm(squared=True)))


def step():
    value, slopes = _both(_params)
    return value, jax.tree.leaves(slopes)[:3]
