"""Learning to rank: losses and metrics of lists."""
import jax
import jax.numpy as jnp
import rax

_S = jnp.sin(jnp.arange(40.0)).reshape(8, 5)
_L = (jnp.arange(40) * 7 % 3).astype(float).reshape(8, 5)


def losses():
    return [f(_S, _L) for f in (rax.softmax_loss, rax.pairwise_hinge_loss, rax.listmle_loss)]


def metrics():
    return [f(_S, _L) for f in (rax.ndcg_metric, rax.mrr_metric)]


_slope = jax.jit(jax.grad(lambda s: rax.softmax_loss(s, _L)))


def step():
    return _slope(_S)
