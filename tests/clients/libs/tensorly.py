"""Decompositions of tensors."""
import jax
import tensorly
from tensorly.decomposition import parafac, tucker

tensorly.set_backend("jax")
_T = jax.random.uniform(jax.random.key(0), (6, 7, 8))


def canonical():
    found = parafac(_T, 3, init="svd", n_iter_max=20)
    return tensorly.norm(found.to_tensor() - _T)


def core():
    found = tucker(_T, (2, 3, 4), n_iter_max=20)
    return tensorly.norm(tensorly.tucker_to_tensor(found) - _T)


_unfold = jax.jit(lambda t: tensorly.dot(tensorly.unfold(t, 1), tensorly.unfold(t, 1).T))


def step():
    return _unfold(_T)
