"""lobpcg_standard against NumPy's eigenvalues."""
import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque.experimental.sparse.linalg import lobpcg_standard


def matrix(eigenvalues, seed=0):
    n = len(eigenvalues)
    q = np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))[0]
    return (q * eigenvalues) @ q.T


@pytest.mark.parametrize("kind", ["spread", "cluster", "negative", "low rank"])
def test_against_numpy(kind):
    n, k = 40, 3
    values = {"spread": np.geomspace(1, 100, n), "cluster": np.r_[np.linspace(1, 2, n - 2), 9, 9],
              "negative": np.linspace(-50, 20, n), "low rank": np.r_[np.zeros(n - 2), 1, 2]}[kind]
    with calque.enable_x64(True):
        a = matrix(values)
        start = np.random.default_rng(1).normal(size=(n, k))
        theta, u, i = lobpcg_standard(jnp.asarray(a), jnp.asarray(start), 200)
        assert int(i) < 200 or kind in ("negative", "low rank")
        np.testing.assert_allclose(theta, np.sort(values)[::-1][:k], atol=1e-9)
        np.testing.assert_allclose(u.T @ u, np.eye(k), atol=1e-10)
        np.testing.assert_allclose(a @ u, u * theta, atol=1e-6)


def test_a_function_under_jit_and_all_steps():
    """Eigenvalues of the second difference are known; tol=0 takes all steps."""
    n = 30

    def second_difference(v):
        return 2 * v - jnp.pad(v[1:], ((0, 1), (0, 0))) - jnp.pad(v[:-1], ((1, 0), (0, 0)))

    start = np.random.default_rng(0).normal(size=(n, 2)).astype(np.float32)
    theta, _, i = calque.jit(lambda x: lobpcg_standard(second_difference, x, 60, tol=0.0))(start)
    want = 2 - 2 * np.cos(np.pi * np.arange(n, n - 2, -1) / (n + 1))
    np.testing.assert_allclose(theta, want, rtol=1e-4)
    assert int(i) == 60


def test_what_does_not_go_together():
    a, x = np.eye(20, dtype=np.float32), np.ones((20, 2), np.float32)
    for given, start, words in ((a, x[:, :0], "search dim > 0"),
                                (a[:9], x, r"A must be \(20, 20\)"),
                                (a, np.ones((20, 4), np.float32), r"search dim \* 5 < matrix dim"),
                                (lambda v: v.astype(jnp.float16), x, "must have same dtypes")):
        with pytest.raises(ValueError, match=words):
            lobpcg_standard(given, start)
