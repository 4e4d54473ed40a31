"""Normalizing flows: densities, samples, a training step."""
import equinox as eqx
import jax
import jax.numpy as jnp
from flowjax import bijections, distributions, flows

_X = jax.random.normal(jax.random.key(1), (64, 3))
_BASE = distributions.StandardNormal((3,))
_flow = flows.masked_autoregressive_flow(jax.random.key(0), base_dist=_BASE, flow_layers=2,
                                         nn_width=16)


def coupling():
    flow = flows.coupling_flow(jax.random.key(0), base_dist=_BASE, flow_layers=2, nn_width=16,
                               transformer=bijections.RationalQuadraticSpline(knots=4, interval=3))
    return flow.log_prob(_X), flow.sample(jax.random.key(2), (4,))


def autoregressive():
    return _flow.log_prob(_X), _flow.sample(jax.random.key(2), (4,))


@eqx.filter_jit
def _slope(flow, x):
    return eqx.filter_value_and_grad(lambda f: -f.log_prob(x).mean())(flow)


def step():
    loss, slopes = _slope(_flow, _X)
    return loss, [jnp.abs(leaf).sum() for leaf in jax.tree.leaves(
        eqx.filter(slopes, eqx.is_array))]
