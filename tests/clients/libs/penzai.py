"""A model of named axes, its selection and replacement of parts, its gradient."""
import jax
import jax.numpy as jnp
from penzai import pz


def named():
    x = pz.nx.wrap(jnp.arange(6.0).reshape(2, 3), "row", "column")
    y = pz.nx.nmap(jnp.sin)(x) + pz.nx.wrap(jnp.arange(3.0), "column")
    return y.unwrap("column", "row")


def products():
    x = pz.nx.wrap(jnp.arange(6.0).reshape(2, 3), "row", "column")
    return pz.nx.nmap(jnp.dot)(x.untag("column"), x.untag("column")).unwrap("row")


def selection():
    tree = {"a": jnp.arange(3.0), "b": [jnp.ones(2), 3]}
    return pz.select(tree).at_instances_of(jax.Array).apply(lambda x: x * 2)


@jax.jit
def _slope(w, x):
    def loss(w):
        x_, w_ = pz.nx.wrap(x, "batch", "in"), pz.nx.wrap(w, "in", "out")
        y = pz.nx.nmap(jnp.dot)(x_.untag("in"), w_.untag("in"))
        return pz.nx.nmap(jnp.sum)(y.untag("batch", "out") ** 2).unwrap()
    return jax.grad(loss)(w)


def step():
    return _slope(jnp.sin(jnp.arange(128.0)).reshape(8, 16), jnp.ones((4, 8)))
