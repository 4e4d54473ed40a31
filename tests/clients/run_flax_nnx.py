"""Training, split and merge, lifted vmap and scan, attention, RNN."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx


class M(nnx.Module):
    def __init__(self, rngs):
        self.l1 = nnx.Linear(3, 8, rngs=rngs)
        self.bn = nnx.BatchNorm(8, rngs=rngs)
        self.do = nnx.Dropout(0.2, rngs=rngs)
        self.l2 = nnx.Linear(8, 1, rngs=rngs)

    def __call__(self, x):
        return self.l2(nnx.relu(self.do(self.bn(self.l1(x)))))


m = M(nnx.Rngs(0))
opt = nnx.Optimizer(m, optax.adam(1e-2), wrt=nnx.Param)
x = jax.random.normal(jax.random.key(1), (16, 3))
y = jnp.sin(x).sum(1, keepdims=True)


@nnx.jit
def step(m, opt):
    l, g = nnx.value_and_grad(lambda m: jnp.mean((m(x) - y) ** 2))(m)
    opt.update(m, g)
    return l


for _i in range(10):
    l = step(m, opt)
print("mlp", float(l))
m.eval()
print("eval", float(m(x).sum()))
gd, st = nnx.split(m)
print("merge", float(nnx.merge(gd, st)(x).sum()), len(jax.tree.leaves(st)))


@nnx.vmap(in_axes=(0, None), out_axes=0)
def make_apply(k, x):
    return nnx.Linear(3, 2, rngs=nnx.Rngs(k))(x)


print("vmap", float(make_apply(jax.random.split(jax.random.key(3), 4), x).sum()))
a = nnx.MultiHeadAttention(2, 8, decode=False, rngs=nnx.Rngs(1))
q = jax.random.normal(jax.random.key(2), (2, 5, 8))
print("attn", float(jnp.abs(a(q)).sum()))
r = nnx.RNN(nnx.GRUCell(8, 4, rngs=nnx.Rngs(2)))
print("rnn", float(r(q).sum()))


@nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
def sc(c, x):
    return c + x.sum()


print("scan", float(sc(jnp.float32(0), x)))
