"""Metrics that add up, overviews of parameters."""
import flax
import jax
import jax.numpy as jnp
from clu import metrics, parameter_overview


@flax.struct.dataclass
class _Collection(metrics.Collection):
    accuracy: metrics.Accuracy
    loss: metrics.Average.from_output("loss")


_LOGITS, _LABELS = jnp.sin(jnp.arange(40.0)).reshape(10, 4), jnp.arange(10) % 4


def collected():
    one = _Collection.single_from_model_output(logits=_LOGITS, labels=_LABELS, loss=_LOGITS[:, 0])
    return one.merge(one).compute()


def overview():
    return parameter_overview.count_parameters({"a": jnp.ones((3, 4)), "b": {"c": jnp.ones(5)}})


_single = jax.jit(lambda x: _Collection.single_from_model_output(
    logits=x, labels=_LABELS, loss=x[:, 0]))


def step():
    return _single(_LOGITS).compute()
