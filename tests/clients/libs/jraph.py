"""Graph networks: batching, convolutions, attention, a gradient."""
import jax
import jax.numpy as jnp
import jraph

_ONE = jraph.GraphsTuple(
    nodes=jnp.sin(jnp.arange(12.0)).reshape(4, 3), edges=jnp.ones((5, 2)),
    senders=jnp.array([0, 1, 2, 3, 0]), receivers=jnp.array([1, 2, 3, 0, 2]),
    n_node=jnp.array([4]), n_edge=jnp.array([5]), globals=jnp.ones((1, 2)))
_MANY = jraph.pad_with_graphs(jraph.batch([_ONE] * 5), 24, 32, 6)


def batching():
    return [g.nodes.sum() for g in jraph.unbatch(jraph.unpad_with_graphs(_MANY))]


def convolution():
    layer = jraph.GraphConvolution(lambda x: x @ jnp.ones((3, 2)), add_self_edges=True)
    return layer(_ONE).nodes


def attention():
    layer = jraph.GAT(lambda x: x @ jnp.ones((3, 2)), lambda s, r, e: (s * r).sum(
        -1, keepdims=True), lambda x: x)
    return layer(_ONE._replace(edges=None)).nodes


@jax.jit
def _slope(w, graph):
    def loss(w):
        network = jraph.GraphNetwork(
            update_edge_fn=lambda e, s, r, g: jnp.tanh(jnp.concatenate([e, s, r, g], -1) @ w["e"]),
            update_node_fn=lambda n, s, r, g: jnp.tanh(jnp.concatenate([n, s, r, g], -1) @ w["n"]),
            update_global_fn=lambda n, e, g: (n + e) @ w["g"])
        return (network(graph).globals ** 2).sum()
    return jax.value_and_grad(loss)(w)


_W = {"e": jnp.ones((10, 4)) * 0.1, "n": jnp.ones((13, 4)) * 0.1, "g": jnp.ones((4, 2))}


def step():
    return _slope(_W, _MANY)
