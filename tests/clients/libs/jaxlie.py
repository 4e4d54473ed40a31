"""Poses of rigid bodies, and a descent on them."""
import jax
import jax.numpy as jnp
import jaxlie

_POSE = jaxlie.SE3.exp(jnp.array([0.1, 0.2, 0.3, 0.1, 0, 0.2]))
_POINTS = jax.random.normal(jax.random.key(0), (100, 3))


def pose():
    return _POSE.as_matrix(), _POSE.inverse().log(), (_POSE @ _POSE).rotation().wxyz


def gradient():
    return jaxlie.manifold.grad(lambda t: (t.apply(jnp.ones(3)) ** 2).sum())(_POSE)


@jax.jit
def _descend(pose):
    def loss(p):
        return ((jax.vmap(p.apply)(_POINTS) - _POINTS) ** 2).mean()

    def move(p, _):
        return jaxlie.manifold.rplus(p, -0.1 * jaxlie.manifold.grad(loss)(p)), loss(p)
    return jax.lax.scan(move, pose, length=20)[1]


def step():
    return _descend(_POSE)
