"""Equivariant networks: harmonics, tensor products, a message pass and its gradient."""
import e3x
import flax.linen as nn
import jax
import jax.numpy as jnp

_R = jax.random.normal(jax.random.key(0), (5, 3))


def harmonics():
    return e3x.so3.spherical_harmonics(_R, max_degree=3), e3x.so3.clebsch_gordan(1, 1, 2)


def rotation():
    return e3x.so3.wigner_d(e3x.so3.rotation(jnp.array([0, 0, 1.0]), 0.3), max_degree=2)


class _Model(nn.Module):
    @nn.compact
    def __call__(self, positions):
        dst, src = e3x.ops.sparse_pairwise_indices(5)
        basis = e3x.nn.basis(positions[src] - positions[dst], max_degree=2, num=4,
                             radial_fn=e3x.nn.reciprocal_bernstein)
        x = e3x.nn.Embed(2, 4)(jnp.array([0, 1, 0, 1, 1]))
        x = e3x.nn.MessagePass()(x, basis, dst_idx=dst, src_idx=src)
        x = e3x.nn.silu(e3x.nn.Dense(4)(x))
        return e3x.nn.TensorDense(1, max_degree=0)(x).sum()


_model = _Model()
_params = _model.init(jax.random.key(1), _R)
_forces = jax.jit(jax.value_and_grad(lambda r: _model.apply(_params, r)))


def step():
    return _forces(_R)
