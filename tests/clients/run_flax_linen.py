"""Training with batch statistics and dropout, attention, RNN, lifted transformations."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training import train_state


class M(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        x = nn.Conv(4, (3, 3))(x)
        x = nn.BatchNorm(use_running_average=not train)(x)
        x = nn.relu(x)
        x = nn.avg_pool(x, (2, 2), (2, 2))
        x = x.reshape((x.shape[0], -1))
        x = nn.Dense(8)(x)
        x = nn.Dropout(0.2, deterministic=not train)(x)
        return nn.Dense(3)(nn.LayerNorm()(x))


m = M()
x = jax.random.normal(jax.random.key(0), (4, 8, 8, 1))
v = m.init(jax.random.key(1), x, False)


class TS(train_state.TrainState):
    bs: dict = None


s = TS.create(apply_fn=m.apply, params=v["params"], tx=optax.adam(1e-2), bs=v["batch_stats"])


@jax.jit
def step(s, k):
    def loss(p):
        o, u = s.apply_fn(
            {"params": p, "batch_stats": s.bs},
            x,
            True,
            rngs={"dropout": k},
            mutable=["batch_stats"],
        )
        return optax.softmax_cross_entropy_with_integer_labels(o, jnp.arange(4) % 3).mean(), u

    (l, u), g = jax.value_and_grad(loss, has_aux=True)(s.params)
    return s.apply_gradients(grads=g, bs=u["batch_stats"]), l


for i in range(8):
    s, l = step(s, jax.random.key(i))
print("cnn", float(l))
q = jax.random.normal(jax.random.key(2), (2, 5, 8))
a = nn.MultiHeadDotProductAttention(num_heads=2)
va = a.init(jax.random.key(3), q)
print("attn", float(jnp.abs(a.apply(va, q)).sum()))
r = nn.RNN(nn.LSTMCell(6))
vr = r.init(jax.random.key(4), q)
print(
    "lstm",
    float(r.apply(vr, q).sum()),
    float(jax.grad(lambda p: r.apply(p, q).sum())(vr)["params"]["cell"]["hi"]["kernel"].sum()),
)
S = nn.scan(
    nn.GRUCell, variable_broadcast="params", split_rngs={"params": False}, in_axes=1, out_axes=1
)
g = S(6)
c = jnp.zeros((2, 6))
vg = g.init(jax.random.key(5), c, q)
print("scan", float(g.apply(vg, c, q)[1].sum()))
V = nn.vmap(
    nn.Dense, in_axes=0, out_axes=0, variable_axes={"params": 0}, split_rngs={"params": True}
)
d = V(3)
vd = d.init(jax.random.key(6), q)
print("vmap", float(d.apply(vd, q).sum()))
R = nn.remat(nn.Dense)(3)
print(
    "remat",
    float(
        jax.grad(lambda p: (R.apply(p, q) ** 2).sum())(R.init(jax.random.key(7), q))["params"][
            "kernel"
        ].sum()
    ),
)
e = nn.Embed(5, 4)
ve = e.init(jax.random.key(8), jnp.arange(3))
print("emb", float(e.apply(ve, jnp.arange(3)).sum()))
print(nn.tabulate(nn.Dense(3), jax.random.key(0))(q)[:20].strip() is not None)
