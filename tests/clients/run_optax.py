"""Training, a step of every optimizer, L-BFGS in a scan, losses."""

import jax
import jax.numpy as jnp
import numpy as np
import optax


def loss(p, x, y):
    h = jnp.tanh(x @ p["w1"] + p["b1"])
    o = h @ p["w2"] + p["b2"]
    return jnp.mean(optax.l2_loss(o[:, 0], y))


k = jax.random.split(jax.random.key(0), 3)
p = {
    "w1": jax.random.normal(k[0], (3, 8)) * 0.3,
    "b1": jnp.zeros(8),
    "w2": jax.random.normal(k[1], (8, 1)) * 0.3,
    "b2": jnp.zeros(1),
}
x = jax.random.normal(k[2], (32, 3))
y = jnp.sin(x).sum(1)
opt = optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.adamw(optax.warmup_cosine_decay_schedule(0.0, 1e-2, 5, 50)),
)
s = opt.init(p)


@jax.jit
def step(p, s):
    l, g = jax.value_and_grad(loss)(p, x, y)
    u, s = opt.update(g, s, p)
    return optax.apply_updates(p, u), s, l


for _i in range(30):
    p, s, l = step(p, s)
print("adamw", float(l))
for name in (
    "sgd",
    "adam",
    "lion",
    "adafactor",
    "rmsprop",
    "lamb",
    "adagrad",
    "novograd",
    "yogi",
    "adabelief",
    "radam",
    "sm3",
):
    o = getattr(optax, name)(1e-2)
    s = o.init(p)
    u, s = jax.jit(o.update)(jax.grad(loss)(p, x, y), s, p)
    print(name, float(optax.global_norm(u)))
opt = optax.lbfgs()


def f(q):
    return ((q - jnp.arange(5.0)) ** 4).sum() + (q**2).sum()


vg = optax.value_and_grad_from_state(f)


def body(c, _):
    q, s = c
    v, g = vg(q, state=s)
    u, s = opt.update(g, s, q, value=v, grad=g, value_fn=f)
    return (optax.apply_updates(q, u), s), v


(q, _), vs = jax.lax.scan(body, (jnp.zeros(5), opt.init(jnp.zeros(5))), length=12)
print("lbfgs", np.asarray(q), float(vs[-1]))
print(
    "losses",
    float(optax.softmax_cross_entropy_with_integer_labels(x, jnp.arange(32) % 3).mean()),
    float(optax.huber_loss(y).sum()),
    float(optax.sigmoid_binary_cross_entropy(y, y > 0).sum()),
)
