"""Training, RNN, attention, normalization, error_if, filtered transformations."""

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
import optax

k = jax.random.key(0)
m = eqx.nn.MLP(3, 1, 8, 2, key=k)
x = jax.random.normal(jax.random.key(1), (16, 3))
y = jnp.sin(x).sum(1, keepdims=True)


@eqx.filter_jit
@eqx.filter_value_and_grad
def loss(m, x, y):
    return jnp.mean((jax.vmap(m)(x) - y) ** 2)


opt = optax.adam(1e-2)
s = opt.init(eqx.filter(m, eqx.is_array))
for _i in range(20):
    l, g = loss(m, x, y)
    u, s = opt.update(g, s)
    m = eqx.apply_updates(m, u)
print("mlp", float(l))


class RNN(eqx.Module):
    cell: eqx.nn.GRUCell
    lin: eqx.nn.Linear

    def __init__(self, key):
        a, b = jax.random.split(key)
        self.cell = eqx.nn.GRUCell(3, 8, key=a)
        self.lin = eqx.nn.Linear(8, 1, key=b)

    def __call__(self, xs):
        h = jax.lax.scan(lambda h, x: (self.cell(x, h), None), jnp.zeros(8), xs)[0]
        return self.lin(h)[0]


r = RNN(jax.random.key(2))
print(
    "gru",
    float(eqx.filter_jit(r)(x)),
    float(eqx.filter_grad(lambda r: r(x))(r).cell.weight_hh.sum()),
)
a = eqx.nn.MultiheadAttention(2, 8, key=k)
q = jax.random.normal(k, (5, 8))
print("attn", float(a(q, q, q).sum()))
c = eqx.nn.Conv2d(1, 2, 3, key=k)
print("conv", float(c(jnp.arange(36.0).reshape(1, 6, 6)).sum()))
bn, st = eqx.nn.make_with_state(eqx.nn.BatchNorm)(3, "b", mode="batch")
o, st = jax.vmap(bn, axis_name="b", in_axes=(0, None), out_axes=(0, None))(x, st)
print("bn", float(jnp.abs(o).sum()))
ln = eqx.nn.LayerNorm(3)
print("ln", float(jnp.abs(jax.vmap(ln)(x)).sum()))
d = eqx.nn.Dropout(0.5)
print("drop", float(d(x, key=k).sum()))
e = eqx.nn.Embedding(10, 4, key=k)
print("emb", float(e(3).sum()))


@eqx.filter_jit
def chk(x):
    return eqx.error_if(x, x < 0, "negative!")


print("err ok", float(chk(jnp.float32(1.0))))
try:
    chk(jnp.float32(-1.0)).block_until_ready()
    print("no error")
except Exception as ex:
    print("err raised", "negative!" in str(ex))
f = eqx.filter_vmap(lambda m, x: m(x), in_axes=(None, 0))
print("fv", float(f(m, x).sum()))
print(
    "jvp",
    float(
        eqx.filter_jvp(
            lambda m: m(x[0]).sum(),
            (m,),
            (jax.tree.map(lambda v: v if eqx.is_inexact_array(v) else None, m),),
        )[1]
    ),
)

print(
    "while",
    float(
        jax.grad(
            lambda x: eqxi.while_loop(
                lambda c: c[0] < 5,
                lambda c: (c[0] + 1, c[1] * x),
                (0, jnp.float32(1.0)),
                kind="checkpointed",
                max_steps=16,
            )[1]
        )(2.0)
    ),
)
print(eqx.tree_pformat(m).splitlines()[0], eqx.tree_equal(m, m))
