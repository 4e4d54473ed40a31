"""Training with state, an LSTM, attention, a convolution."""

import haiku as hk
import jax
import jax.numpy as jnp
import optax


def f(x, t):
    x = hk.nets.MLP([8, 8])(x)
    x = hk.BatchNorm(True, True, 0.9)(x, t)
    x = hk.dropout(hk.next_rng_key(), 0.1, x) if t else x
    return hk.Linear(1)(x)


m = hk.transform_with_state(f)
x = jax.random.normal(jax.random.key(1), (16, 3))
y = jnp.sin(x).sum(1, keepdims=True)
p, s = m.init(jax.random.PRNGKey(0), x, True)
opt = optax.adam(1e-2)
o = opt.init(p)


@jax.jit
def step(p, s, o, k):
    def loss(p):
        out, s2 = m.apply(p, s, k, x, True)
        return jnp.mean((out - y) ** 2), s2

    (l, s2), g = jax.value_and_grad(loss, has_aux=True)(p)
    u, o = opt.update(g, o)
    return optax.apply_updates(p, u), s2, o, l


for i in range(10):
    p, s, o, l = step(p, s, o, jax.random.PRNGKey(i))
print("mlp", float(l))
r = hk.without_apply_rng(
    hk.transform(
        lambda x: hk.dynamic_unroll(hk.LSTM(6), x, hk.LSTM(6).initial_state(x.shape[1]))[0]
    )
)
q = jax.random.normal(jax.random.key(2), (5, 2, 3))
pr = r.init(jax.random.PRNGKey(0), q)
print(
    "lstm",
    float(r.apply(pr, q).sum()),
    float(jax.grad(lambda p: r.apply(p, q).sum())(pr)["lstm/linear"]["w"].sum()),
)
a = hk.without_apply_rng(
    hk.transform(
        lambda x: hk.MultiHeadAttention(2, 4, w_init=hk.initializers.VarianceScaling(1.0))(x, x, x)
    )
)
pa = a.init(jax.random.PRNGKey(0), q)
print("attn", float(jnp.abs(a.apply(pa, q)).sum()))
c = hk.without_apply_rng(hk.transform(lambda x: hk.Conv2D(2, 3)(x)))
z = jnp.arange(36.0).reshape(1, 6, 6, 1)
print("conv", float(c.apply(c.init(jax.random.PRNGKey(0), z), z).sum()))
