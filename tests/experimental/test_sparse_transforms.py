"""sparsify, derivatives, the other formats and spsolve, against the same of dense arrays."""
from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import calque
import calque.numpy as jnp
from calque import lax
from calque.experimental import sparse
from calque.experimental.sparse.linalg import spsolve

FULL = np.array([[0, 2, 0, 1], [3, 0, 0, 0], [0, 0, 4, 5]], np.float32)


def same(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(sparse.todense(found), wanted, rtol=1e-5, atol=1e-5)


@calque.custom_jvp
def thrice(x: Any) -> Any:
    return 3 * x


thrice.defjvp(lambda p, t: (3 * p[0], 3 * t[0]))

FUNCTIONS = {
    "sin": jnp.sin, "chain": lambda x: jnp.tanh(x) ** 3 * 2 + x, "sums": lambda x: x.sum(0) * 2,
    "product": lambda x: (x.T @ x)[1:] @ jnp.ones(4), "jit": calque.jit(lambda x: x * 2),
    "stack": lambda x: jnp.concatenate([x, 2 * x], 1), "rule": thrice,
    "remat": calque.checkpoint(lambda x: jnp.sin(x) * 2),
    "cond": lambda x: lax.cond(x.sum() > 0, lambda y: 2 * y, lambda y: y * 3, x),
    "loop": lambda x: lax.fori_loop(0, 3, lambda _, y: y * 2, x),
    "scan": lambda x: lax.scan(lambda c, v: (c + v @ (x @ jnp.ones(4)), v), 0., jnp.ones((2, 3))),
    "einsum": lambda x: jnp.einsum("ij,j->i", x, jnp.arange(4.)),
    "dense": lambda x: jnp.cos(sparse.todense(x)), "expand": lambda x: jnp.expand_dims(x, 1) * 2,
    "tree": lambda x: {"a": x, "b": [x @ jnp.ones(4)]}}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_sparsify(name: str) -> None:
    f = FUNCTIONS[name]
    M = sparse.BCOO.fromdense(FULL, nse=8)
    wanted = calque.tree.leaves(f(jnp.asarray(FULL)))
    for g in (sparse.sparsify(f), calque.jit(sparse.sparsify(f))):
        found = calque.tree.leaves(g(M), is_leaf=lambda x: isinstance(x, sparse.BCOO))
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted):
            same(a, b)


def test_sparsify_sums_duplicates_before_what_is_not_linear() -> None:
    M = sparse.BCOO((jnp.array([1., 2., 5.]), jnp.array([[1], [1], [9]])), shape=(3,))
    same(sparse.sparsify(jnp.sin)(M), np.sin([0, 3, 0]))
    same(sparse.sparsify(jnp.sqrt)(M), np.sqrt([0, 3, 0]))


@pytest.mark.parametrize("f, name", [(jnp.cos, "cos"), (jnp.sort, "sort"), (jnp.exp, "exp"),
                                     (lambda x: x < 1, "lt"), (lambda x: x + 1, "Addition")])
def test_what_has_no_rule_is_named(f: Any, name: str) -> None:
    with pytest.raises(NotImplementedError, match=name) as caught:
        sparse.sparsify(f)(sparse.eye(3))
    assert "Fix: " in str(caught.value)


def test_derivatives() -> None:
    M = sparse.BCOO.fromdense(FULL, nse=7)
    v = jnp.arange(4.)

    def f(x: Any, w: Any) -> Any:
        return jnp.sin(x @ w).sum()
    value, (by_matrix, by_vector) = sparse.value_and_grad(f, (0, 1))(M, v)
    dense = calque.grad(f, (0, 1))(jnp.asarray(FULL), v)
    same(value, f(FULL, v))
    same(by_vector, dense[1])
    assert by_matrix.nse == 7
    same(by_matrix, np.where(FULL != 0, dense[0], 0))
    same(calque.jit(sparse.grad(f))(M, v), by_matrix.todense())
    got, aux = sparse.grad(lambda x: (x.sum(), 3), has_aux=True)(M)
    same(got, FULL != 0)
    assert aux == 3
    rows = calque.jacfwd(lambda x: x @ v)(jnp.asarray(FULL))
    for jac in (sparse.jacfwd, sparse.jacrev, sparse.jacobian):
        J = jac(lambda x: x @ v)(M)
        assert J.n_batch == 1
        same(J, np.where(FULL != 0, rows, 0))
    trees = sparse.jacrev(lambda x, w: {"a": x @ w}, (0, 1))(M, v)
    same(trees["a"][1], FULL)
    by_row = sparse.grad(f)(sparse.CSR.fromdense(FULL), v)
    same(by_row, by_matrix.todense())


@pytest.mark.parametrize("kind", [sparse.BCSR, sparse.COO, sparse.CSR, sparse.CSC])
def test_other_formats(kind: Any) -> None:
    v, w = np.arange(4, dtype="f"), np.arange(8, dtype="f").reshape(4, 2)
    for nse in (None, 8):
        M = kind.fromdense(FULL, nse=nse)
        same(M, FULL)
        same(calque.jit(lambda m: m @ v)(M), FULL @ v)
        same(M @ w, FULL @ w)
        same(np.ones(3, "f") @ M, FULL.sum(0))
        same(2 * M, 2 * FULL)
        same(M.sum(), FULL.sum())
        assert type(-M) is kind and M.dtype == np.float32 and M.shape == (3, 4)
        if kind is not sparse.BCSR:
            same(M.T, FULL.T)
            same(M.T @ np.ones(3, "f"), FULL.sum(0))
    same(sparse.eye(3, 4, 1, sparse_format=kind.__name__.lower()), np.eye(3, 4, 1))
    same(sparse.empty((3, 4), sparse_format=kind.__name__.lower()), np.zeros((3, 4)))
    if kind in (sparse.CSR, sparse.CSC):
        theirs = (scipy.sparse.csr_array if kind is sparse.CSR else scipy.sparse.csc_array)(FULL)
        M = kind.fromdense(FULL)
        assert M.indptr.tolist() == theirs.indptr.tolist()
        assert M.indices.tolist() == theirs.indices.tolist()


def test_functions_of_formats() -> None:
    for name in ("coo", "csr"):
        M = getattr(sparse, f"{name}_fromdense")(FULL)
        same(getattr(sparse, f"{name}_todense")(M), FULL)
        same(getattr(sparse, f"{name}_matvec")(M, jnp.arange(4.)), FULL @ np.arange(4))
        same(getattr(sparse, f"{name}_matmat")(M, jnp.ones((3, 2)), transpose=True),
             FULL.T @ np.ones((3, 2)))
    B = sparse.bcsr_fromdense(np.stack([FULL, 2 * FULL]), n_batch=1)
    same(sparse.bcsr_todense(B), np.stack([FULL, 2 * FULL]))
    same(sparse.bcsr_extract(B.indices, B.indptr, np.stack([FULL, FULL])),
         np.array([[1], [.5]]) * B.data)
    same(calque.vmap(lambda m: m @ jnp.arange(4.))(B), np.stack([FULL, 2 * FULL]) @ np.arange(4))
    numbers = (((2,), (1,)), ((0,), (0,)))
    same(sparse.bcsr_dot_general(B, jnp.ones((2, 4, 3)), dimension_numbers=numbers),
         np.stack([FULL, 2 * FULL]) @ np.ones((4, 3)))


def test_rows_stay_rows() -> None:
    """sparsify gives BCSR for BCSR arguments, and the same places where they stay."""
    R = sparse.BCSR.fromdense(FULL)
    kept = sparse.sparsify(lambda m: -m)(R)
    assert isinstance(kept, sparse.BCSR) and kept.indices is R.indices
    same(kept, -FULL)
    made = sparse.sparsify(lambda m: jnp.sin(m.T) * 2)(R)
    assert isinstance(made, sparse.BCSR)
    same(made, 2 * np.sin(FULL.T))
    mixed = sparse.sparsify(lambda a, b: a + b)(R, sparse.BCOO.fromdense(FULL))
    assert isinstance(mixed, sparse.BCOO)
    same(mixed, 2 * FULL)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_a_sparse_signal_is_convolved(mode: str) -> None:
    x, k = np.array([0, 2, 0, 0, 1, 3], np.float32), np.array([1, -2, 3], np.float32)
    f = sparse.sparsify(lambda a, b: jnp.convolve(a, b, mode=mode))
    same(f(sparse.BCOO.fromdense(x), k), np.convolve(x, k, mode))


def test_branches_of_two_formats_are_refused() -> None:
    f = sparse.sparsify(lambda x, y: lax.cond(True, lambda v: v[0], lambda v: v[1], (x, y)))
    with pytest.raises(TypeError, match="sparsified true_fun output must have same type structure"):
        f(sparse.BCOO.fromdense(FULL), FULL)


def test_eye_and_random() -> None:
    for n, m, k in ((3, 3, 0), (3, 5, 1), (5, 3, -2), (2, 2, 4)):
        for kwds in ({}, {"n_batch": 1}, {"n_dense": 1}):
            same(sparse.eye(n, m, k, **kwds), np.eye(n, m, k))
    for n_batch, n_dense in ((0, 0), (1, 0), (0, 1), (1, 1)):
        M = sparse.random_bcoo(calque.random.key(1), (3, 4, 5), dtype="float32", nse=3,
                               n_batch=n_batch, n_dense=n_dense, sorted_indices=True)
        assert (M.nse, M.n_batch, M.n_dense) == (3, n_batch, n_dense)
        assert M.sum_duplicates().nse == 3  # places are different
        same(M.sort_indices(), M.todense())
    assert sparse.random_bcoo(calque.random.key(0), (4, 5), dtype="float32").nse == 4


@pytest.mark.parametrize("with_scipy", [True, False])
def test_spsolve(with_scipy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not with_scipy:
        monkeypatch.setitem(sys.modules, "scipy", None)
    A = np.random.default_rng(0).normal(size=(5, 5)).astype("f") + 5 * np.eye(5, dtype="f")
    A[A < 0] = 0
    M, b = sparse.CSR.fromdense(A, nse=25), np.arange(5, dtype="f")

    def solved(data: Any, b: Any) -> Any:
        return spsolve(data, M.indices, M.indptr, b)
    same(calque.jit(solved)(M.data, b), np.linalg.solve(A, b))

    def size(form: Any) -> Any:
        return lambda x, b: (form(x, b) ** 2).sum()
    by_data, by_b = calque.grad(size(solved), (0, 1))(M.data, b)
    dense = calque.grad(size(jnp.linalg.solve), (0, 1))(jnp.asarray(A), b)
    row, col = np.nonzero(A)
    np.testing.assert_allclose(by_data[:len(row)], dense[0][row, col], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(by_b, dense[1], rtol=1e-4, atol=1e-4)
