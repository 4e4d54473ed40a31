"""Optimal transport on arrays of jax, which it takes for a backend: exact, Sinkhorn, sliced."""
import jax
import jax.numpy as jnp
import ot

_X, _Y = (jax.random.normal(k, (30, 2)) for k in jax.random.split(jax.random.key(0)))
_W = jnp.full(30, 1 / 30)


def exact():
    return ot.emd2(_W, _W, ot.dist(_X, _Y))


def regular():
    return ot.sinkhorn(_W, _W, ot.dist(_X, _Y), 1.0), ot.sinkhorn2(_W, _W, ot.dist(_X, _Y), 1.0)


def sliced():
    return ot.sliced_wasserstein_distance(_X, _Y, n_projections=20, seed=0) > 0


_bures = jax.jit(jax.grad(lambda x: ot.gaussian.bures_wasserstein_distance(
    x.mean(0), _Y.mean(0), jnp.cov(x.T), jnp.cov(_Y.T))))


def step():
    return _bures(_X)
