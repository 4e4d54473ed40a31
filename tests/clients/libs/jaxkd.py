"""Trees of points: the nearest neighbours, counts within a radius, clusters."""
import jax
import jaxkd as jk

_P = jax.random.normal(jax.random.key(0), (300, 3))
_Q = jax.random.normal(jax.random.key(1), (40, 3))
_tree = jk.build_tree(_P)


def counts():
    return jk.count_neighbors(_tree, _Q, r=0.5)


def brute():
    return jk.extras.query_neighbors_pairwise(_P, _Q, k=4)


_query = jax.jit(lambda q: jk.query_neighbors(_tree, q, k=4))


def step():
    return _query(_Q)
