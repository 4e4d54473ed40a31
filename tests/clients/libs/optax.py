"""Optimizers: many rules on one problem, losses, schedules."""
import jax
import jax.numpy as jnp
import optax

_PARAMS = {"w": jnp.sin(jnp.arange(12.0)).reshape(4, 3), "b": jnp.zeros(3)}
_X = jnp.cos(jnp.arange(80.0)).reshape(20, 4)


def _loss(p):
    return optax.softmax_cross_entropy_with_integer_labels(
        _X @ p["w"] + p["b"], jnp.arange(20) % 3).mean()


def rules():
    found = []
    for rule in (optax.adamw(1e-2), optax.lion(1e-2), optax.rmsprop(1e-2), optax.adafactor(1e-2),
                 optax.chain(optax.clip_by_global_norm(0.1), optax.sgd(0.1, momentum=0.9))):
        p, state = _PARAMS, rule.init(_PARAMS)
        for _ in range(3):
            updates, state = rule.update(jax.grad(_loss)(p), state, p)
            p = optax.apply_updates(p, updates)
        found.append(_loss(p))
    return found


def schedules():
    schedule = optax.warmup_cosine_decay_schedule(0.0, 1.0, 10, 100)
    return [schedule(i) for i in (0, 5, 50)]


_rule = optax.adam(1e-2)
_STATE = _rule.init(_PARAMS)


@jax.jit
def _update(p, state):
    updates, state = _rule.update(jax.grad(_loss)(p), state, p)
    return optax.apply_updates(p, updates), state


def step():
    return _update(_PARAMS, _STATE)
