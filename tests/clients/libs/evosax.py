"""Strategies of evolution on a sphere; CMA-ES by what it reaches."""
import jax
import jax.numpy as jnp
from evosax.algorithms import CMA_ES, PSO, DifferentialEvolution, Open_ES


def _run(search, key):
    params = search.default_params

    def generation(state, key):
        ask, tell = jax.random.split(key)
        found, state = search.ask(ask, state, params)
        state, _ = search.tell(tell, found, (found ** 2).sum(-1), state, params)
        return state, state.best_fitness
    keys = jax.random.split(key, 40)
    if isinstance(search, (PSO, DifferentialEvolution)):
        start = jax.random.normal(key, (16, 4))
        state = search.init(key, start, (start ** 2).sum(-1), params)
    else:
        state = search.init(key, jnp.ones(4), params)
    return jax.lax.scan(generation, state, keys)[1]


def open_es():
    return _run(Open_ES(population_size=16, solution=jnp.zeros(4)), jax.random.key(0))


def swarm():
    return _run(PSO(population_size=16, solution=jnp.zeros(4)), jax.random.key(0))


def differential():
    return _run(DifferentialEvolution(population_size=16, solution=jnp.zeros(4)),
                jax.random.key(0))[:10]


_cma = jax.jit(lambda key: _run(CMA_ES(population_size=16, solution=jnp.zeros(4)), key))


def step():
    return _cma(jax.random.key(0))[-1] < 0.05
