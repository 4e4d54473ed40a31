"""Assertions, dataclasses as trees, variants of tests."""
import chex
import jax
import jax.numpy as jnp


@chex.dataclass
class _State:
    x: chex.Array
    y: chex.Array


_STATE = _State(x=jnp.arange(4.0), y=jnp.ones(()))


def trees():
    chex.assert_trees_all_close(_STATE, jax.tree.map(lambda x: x * 1, _STATE))
    chex.assert_tree_all_finite(_STATE)
    return jax.tree.map(jnp.sin, _STATE)


def refused():
    found = []
    for check in (lambda: chex.assert_shape(_STATE.x, (3,)), lambda: chex.assert_rank(_STATE.y, 1),
                  lambda: chex.assert_type(_STATE.x, int)):
        try:
            check()
        except AssertionError:
            found.append(1)
    return found


def traced_once():
    f = jax.jit(chex.assert_max_traces(lambda x: x + 1, n=1))
    return f(jnp.ones(2)), f(jnp.ones(2))


@jax.jit
def _move(state):
    return state.replace(x=state.x + state.y)


def step():
    return _move(_STATE)
