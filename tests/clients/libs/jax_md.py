"""Soft spheres in a periodic box: descent, dynamics, neighbours."""
import jax
import jax.numpy as jnp
from jax_md import energy, minimize, simulate, space

_move, _shift = space.periodic(5.0)
_potential = energy.soft_sphere_pair(_move)
_R = jax.random.uniform(jax.random.key(0), (32, 2)) * 5


def forces():
    return -jax.grad(_potential)(_R)


def lennard_jones_neighbours():
    lists, potential = energy.lennard_jones_neighbor_list(_move, 5.0)
    grid = jnp.stack(jnp.meshgrid(jnp.arange(4.0), jnp.arange(4.0)), -1).reshape(-1, 2) * 1.2
    return potential(grid, lists.allocate(grid))


def dynamics():
    start, move = simulate.nve(_potential, _shift, 1e-3)
    state = jax.lax.fori_loop(0, 50, lambda _, s: move(s), start(jax.random.key(1), _R, 0.1))
    return state.position


_start, _step = minimize.fire_descent(_potential, _shift)


@jax.jit
def _descend(r):
    r = jax.lax.fori_loop(0, 20, lambda _, s: _step(s), _start(r)).position
    return _potential(r)


def step():
    return _descend(_R)
