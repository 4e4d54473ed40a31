"""Dataclasses, assertions, assert_max_traces, chexify."""

import chex
import jax
import jax.numpy as jnp


@chex.dataclass
class P:
    x: chex.Array
    y: chex.Array


p = P(x=jnp.ones(2), y=jnp.zeros(3))
p = jax.tree.map(lambda v: v + 1, p)
print("dataclass", p.x.sum(), p.replace(y=1).y)
chex.assert_shape(p.x, (2,))
chex.assert_rank([p.x, p.y], 1)
chex.assert_tree_all_finite(p)
chex.assert_type(p.x, float)
chex.assert_trees_all_close(p, p)
chex.assert_equal_shape([p.x, p.x])
chex.assert_trees_all_equal_shapes(p, p)
for f in (
    lambda: chex.assert_shape(p.x, (3,)),
    lambda: chex.assert_rank(p.x, 2),
    lambda: chex.assert_tree_all_finite(jnp.nan),
    lambda: chex.assert_trees_all_close(p.x, p.x * 2),
):
    try:
        f()
        print("assertion", False)
    except AssertionError:
        print("assertion", True)


@jax.jit
@chex.assert_max_traces(n=1)
def g(x):
    return x * 2


print("traces", float(g(1.0)), float(g(2.0)))
try:
    g(jnp.ones(2))
    print("more_traces", False)
except AssertionError:
    print("more_traces", True)


@chex.chexify
@jax.jit
def h(x):
    chex.assert_tree_all_finite(x)
    return x + 1


print("chexify", h(jnp.ones(2)))
try:
    h(jnp.array([jnp.nan]))
    h.wait_checks()
    print("chexify_error", False)
except AssertionError:
    print("chexify_error", True)
