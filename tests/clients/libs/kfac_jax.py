"""A natural-gradient optimizer with Kronecker-factored curvature."""
import jax
import jax.numpy as jnp
import kfac_jax

_X = jnp.sin(jnp.arange(160.0)).reshape(16, 10)
_Y = jnp.arange(16) % 3
_PARAMS = {"a": jnp.cos(jnp.arange(80.0)).reshape(10, 8) * 0.3,
           "b": jnp.sin(jnp.arange(24.0)).reshape(8, 3) * 0.3}


def _loss(params, batch):
    x, y = batch
    logits = jnp.tanh(x @ params["a"]) @ params["b"]
    kfac_jax.register_softmax_cross_entropy_loss(logits, y)
    return -jax.nn.log_softmax(logits)[jnp.arange(16), y].mean()


def training():
    optimizer = kfac_jax.Optimizer(
        jax.value_and_grad(_loss), l2_reg=1e-3, use_adaptive_learning_rate=True,
        use_adaptive_momentum=True, use_adaptive_damping=True, initial_damping=1.0,
        num_burnin_steps=0, multi_device=False)
    params = jax.tree.map(jnp.copy, _PARAMS)
    state = optimizer.init(params, jax.random.key(0), (_X, _Y))
    losses = []
    for i in range(4):
        params, state, stats = optimizer.step(params, state, jax.random.key(i), batch=(_X, _Y),
                                              global_step_int=i)
        losses.append(stats["loss"])
    return losses


_slope = jax.jit(jax.grad(_loss))


def step():
    return _slope(_PARAMS, (_X, _Y))
