"""BCOO and its operations: what they give, made dense, is what NumPy gives of dense arrays."""
from __future__ import annotations

import re
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import calque
import calque.numpy as jnp
from calque.experimental import sparse


def made(shape: Sequence[int], n_batch: int = 0, n_dense: int = 0, nse: int = 5, seed: int = 0
         ) -> tuple[Any, np.ndarray[Any, Any]]:
    """A BCOO array with duplicates and places out of range, and what it stands for."""
    rng = np.random.default_rng(seed)
    batch, sizes = shape[:n_batch], shape[n_batch:len(shape) - n_dense]
    dense = shape[len(shape) - n_dense:]
    data = rng.normal(size=(*batch, nse, *dense)).astype(np.float32)
    indices = np.stack([rng.integers(0, n + 1, size=(*batch, nse)) for n in sizes], -1)
    if nse > 2:
        indices[..., 1, :] = indices[..., 0, :] = 0
    full = np.zeros(shape, np.float32)
    for b in np.ndindex(*batch):
        for e in range(nse):
            at = tuple(indices[(*b, e)])
            if all(i < n for i, n in zip(at, sizes)):
                full[(*b, *at)] += data[(*b, e)]
    return sparse.BCOO((data, indices.astype(np.int32)), shape=shape), full


def same(found: Any, wanted: Any) -> None:
    found = sparse.todense(found)
    assert found.shape == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


LAYOUTS = [((3, 4), 0, 0), ((2, 3, 4), 1, 0), ((3, 4, 2), 0, 1), ((2, 3, 4, 2), 1, 1), ((5,), 0, 0)]


@pytest.mark.parametrize("shape, n_batch, n_dense", LAYOUTS)
def test_forms_of_one_array(shape: Any, n_batch: int, n_dense: int) -> None:
    M, full = made(shape, n_batch, n_dense)
    forms = [M, M.sort_indices(), M.sum_duplicates(), M.sum_duplicates(nse=7),
             M.sum_duplicates(remove_zeros=False), calque.jit(lambda m: m)(M),
             calque.jit(lambda m: m.sum_duplicates(nse=5))(M),
             M.update_layout(n_batch=0, n_dense=0),
             sparse.bcoo_update_layout(M, n_batch=n_batch + 1, on_inefficient=None),
             sparse.bcoo_fromdense(full, n_batch=n_batch, n_dense=n_dense),
             calque.jit(lambda x: sparse.BCOO.fromdense(x, nse=16, n_batch=n_batch))(full)]
    for form in forms:
        same(form, full)
    for form in forms[2:5]:
        assert form.unique_indices and form.indices_sorted
        for b in np.ndindex(*shape[:n_batch]):
            rows = [tuple(r) for r in np.asarray(form.indices[b])]
            inside = [r for r in rows if all(i < n for i, n in zip(r, shape[n_batch:]))]
            assert inside == sorted(set(inside))
    dense = sparse.bcoo_extract(M, np.asarray(full) + 1)
    assert dense.data.shape == M.data.shape
    ones = sparse.bcoo_extract(M.sum_duplicates(), full)
    same(ones, full)
    same(sparse.bcoo_extract(M, full), full)  # of what is there twice the second gives 0


def test_extract_without_sparse_dimensions() -> None:
    M = sparse.BCOO((jnp.arange(6.).reshape(3, 2), jnp.zeros((3, 2, 0), int)), shape=(3,))
    same(M, [1, 5, 9])
    for unique, wanted in ((True, [[1, 1], [5, 5], [9, 9]]), (False, [[1, 0], [5, 0], [9, 0]])):
        same(sparse.bcoo_extract(M, M.todense(), assume_unique=unique).data, wanted)
    same(sparse.BCOO.fromdense(jnp.array([2., 3.]), n_batch=1, nse=3), [2, 3])


UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": lambda x: -x, "abs": abs, "square": lambda x: x ** 2, "scaled": lambda x: 3 * x / 2,
    "twice": lambda x: x + x, "less": lambda x: x - 2 * x, "itself": lambda x: x * x,
    "row": lambda x: x[1], "column": lambda x: x[:, 1], "element": lambda x: x[1, 2],
    "last": lambda x: x[-1, 1:], "steps": lambda x: x[::2, 1::2], "turned": lambda x: x[:, ::-1],
    "new": lambda x: x[None, :, None], "list": lambda x: x[jnp.array([2, 0])],
    "columns": lambda x: x[:, jnp.array([3, 0, 0])], "sum": lambda x: x.sum(),
    "sum0": lambda x: x.sum(0), "sum1": lambda x: x.sum(axis=1), "flat": lambda x: x.reshape(-1),
    "other": lambda x: x.reshape(2, 1, 6), "T": lambda x: x.T, "ints": lambda x: x.astype(int),
    "times": lambda x: x * np.arange(4.), "tall": lambda x: x * np.arange(3.)[:, None],
    "over": lambda x: x / np.arange(1., 5.), "more": lambda x: x + np.ones((3, 4)),
    "vector": lambda x: x @ np.arange(4.), "matrix": lambda x: x @ np.ones((4, 2)),
    "left": lambda x: np.ones((2, 3)) @ x, "square of": lambda x: x @ x.T,
    "batch": lambda x: x @ np.ones((2, 4, 3)), "plus": lambda x: +x}


@pytest.mark.parametrize("name", UNARY)
def test_operators(name: str) -> None:
    M, full = made((3, 4), nse=7)
    f = UNARY[name]
    found = f(M)
    same(found, f(jnp.asarray(full)))
    if name != "ints":
        def size(form: Callable[[Any], Any]) -> Callable[[Any], Any]:
            return lambda x: (sparse.todense(f(form(x))) ** 2).sum()
        # a derivative at a stored element is the dense one at its place, 0 where it is padding
        got = calque.grad(size(M.with_data))(M.data)
        dense = np.asarray(calque.grad(size(lambda x: x))(jnp.asarray(full)))
        at = np.asarray(M.indices)
        wanted = [dense[tuple(i)] if (i < full.shape).all() else 0. for i in at]
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


NUMBERS = [  # shapes and layouts of both, and dot_general's dimension numbers
    ((3, 4), 0, 0, (4, 5), (((1,), (0,)), ((), ()))),
    ((3, 4), 0, 0, (5, 3), (((0,), (1,)), ((), ()))),
    ((2, 3, 4), 1, 0, (2, 4, 5), (((2,), (1,)), ((0,), (0,)))),
    ((2, 3, 4), 1, 0, (4, 5), (((2,), (0,)), ((), ()))),
    ((2, 3, 4), 1, 0, (2, 3), (((0, 1), (0, 1)), ((), ()))),
    ((3, 4, 2), 0, 1, (2, 5), (((2,), (0,)), ((), ()))),
    ((3, 4, 2), 0, 1, (4, 2, 3), (((1, 2), (0, 1)), ((0,), (2,)))),
    ((2, 3, 4, 2), 1, 1, (4, 6), (((2,), (0,)), ((), ()))),
    ((3, 4), 0, 0, (3, 4), (((0, 1), (0, 1)), ((), ()))),
    ((3, 4), 0, 0, (5,), (((), ()), ((), ())))]


@pytest.mark.parametrize("shape, n_batch, n_dense, other, numbers", NUMBERS)
def test_dot_general(shape: Any, n_batch: int, n_dense: int, other: Any, numbers: Any) -> None:
    M, full = made(shape, n_batch, n_dense, nse=6)
    x = np.random.default_rng(1).normal(size=other).astype(np.float32)
    wanted = calque.lax.dot_general(full, x, numbers)
    dot = calque.jit(lambda m, y: sparse.bcoo_dot_general(m, y, dimension_numbers=numbers))
    same(dot(M, x), wanted)
    (lc, rc), (lb, rb) = numbers
    same(sparse.bcoo_dot_general(x, M, dimension_numbers=((rc, lc), (rb, lb))),
         calque.lax.dot_general(x, full, ((rc, lc), (rb, lb))))
    X = sparse.BCOO.fromdense(x, n_batch=n_batch if lb else 0)
    same(sparse.bcoo_dot_general(M, X, dimension_numbers=numbers), wanted)


def test_sampled() -> None:
    a, b = (np.random.default_rng(i).normal(size=s).astype("f")
            for i, s in enumerate([(2, 3, 4), (2, 4, 5)]))
    numbers = (((2,), (1,)), ((0,), (0,)))
    full = np.einsum("bij,bjk->bik", a, b)
    for n_batch, n_dense in ((0, 0), (1, 0), (0, 1), (1, 1)):
        M = sparse.BCOO.fromdense(full, n_batch=n_batch, n_dense=n_dense)
        data = sparse.bcoo_dot_general_sampled(a, b, M.indices, dimension_numbers=numbers)
        same(data, M.data)
    out = jnp.array([[0, 0, 0], [2, 3, 5]])
    assert sparse.bcoo_dot_general_sampled(a, b, out, dimension_numbers=numbers)[1] == 0


def test_shapes() -> None:
    M, full = made((2, 3, 4, 2), 1, 1)
    same(sparse.bcoo_transpose(M, permutation=(0, 2, 1, 3)), full.transpose(0, 2, 1, 3))
    for axes in ((0,), (1,), (2,), (3,), (0, 2), (1, 2, 3), (0, 1, 2, 3)):
        same(sparse.bcoo_reduce_sum(M, axes=axes), full.sum(axes))
    same(sparse.bcoo_reshape(M, new_sizes=(2, 12, 2)), full.reshape(2, 12, 2))
    same(sparse.bcoo_reshape(M, new_sizes=(2, 6, 2, 2)), full.reshape(2, 6, 2, 2))
    for shape, at in (((5, 2, 3, 4, 2), (1, 2, 3, 4)), ((2, 3, 6, 4, 2), (0, 1, 3, 4)),
                      ((2, 3, 4, 2, 3), (0, 1, 2, 3))):
        same(sparse.bcoo_broadcast_in_dim(M, shape=shape, broadcast_dimensions=at),
             calque.lax.broadcast_in_dim(full, shape, at))
    N, other = made((2, 3, 4, 2), 1, 1, nse=3, seed=1)
    for d in range(3):
        same(sparse.bcoo_concatenate([M, N], dimension=d), np.concatenate([full, other], d))
    same(sparse.bcoo_slice(M, start_indices=(1, 0, 1, 0), limit_indices=(2, 3, 4, 1),
                           strides=(1, 2, 1, 1)), full[1:2, 0:3:2, 1:4, 0:1])
    for start in ((0, 1, 2, 0), (1, 9, 1, -1)):
        cut = calque.jit(lambda m, s: sparse.bcoo_dynamic_slice(m, list(s), (1, 2, 2, 1)))
        same(cut(M, jnp.array(start)), calque.lax.dynamic_slice(full, start, (1, 2, 2, 1)))
    same(sparse.bcoo_rev(M, [0, 2, 3]), full[::-1, :, ::-1, ::-1])
    P, p = made((1, 3, 1, 2), 1, 0)
    same(sparse.bcoo_squeeze(P, dimensions=(0, 2)), p[0, :, 0])
    same(sparse.bcoo_multiply_dense(M, full[:1, :, :1]) * 0 + M.data, M.data)
    same(M * full[:1, :, :1], full * full[:1, :, :1])
    same(sparse.bcoo_multiply_sparse(M.update_layout(n_dense=0), N.update_layout(n_dense=0)),
         full * other)
    same(M * N, full * other)
    same(M + N, full + other)
    same(M[:, 0, jnp.array([3, 0])], full[:, 0, [3, 0]])
    same(M[:, None, 0:2], full[:, None, 0:2])


def test_vmap_over_batch_dimensions() -> None:
    M, full = made((2, 3, 4), 1)
    v = np.arange(4, dtype=np.float32)
    same(calque.vmap(lambda m: m @ v)(M), full @ v)
    same(calque.vmap(lambda m: m.T)(M), full.transpose(0, 2, 1))
    same(calque.vmap(lambda x: sparse.BCOO.fromdense(x, nse=12))(full), full)
    same(calque.jit(calque.vmap(lambda m, w: m * w, in_axes=(0, None)))(M, v), full * v)
    N, other = made((2, 3, 4), 2)
    for axis in (0, 1):
        moved = calque.vmap(lambda m: 2 * m.sort_indices(), in_axes=axis, out_axes=axis)(N)
        same(moved, 2 * other)
        same(calque.vmap(lambda m, x: sparse.bcoo_extract(m, x), in_axes=axis)(N, other),
             np.moveaxis(other, axis, 0))
    with pytest.raises(ValueError, match="no batch dimension"):
        calque.vmap(lambda m: m)(made((3, 4))[0])
    with pytest.raises(ValueError, match="no batch dimension"):
        calque.vmap(lambda m: m, in_axes=1)(M)


def test_scipy_and_broadcast_batches() -> None:
    matrix = scipy.sparse.random(6, 5, 0.3, random_state=0, dtype=np.float32)
    same(sparse.BCOO.from_scipy_sparse(matrix), matrix.toarray())
    same(sparse.BCSR.from_scipy_sparse(matrix) @ np.ones(5, "f"), matrix @ np.ones(5, "f"))
    M = sparse.BCOO((np.ones((1, 2), "f"), np.array([[[0], [1]], [[1], [2]]])), shape=(2, 3))
    same(M, [[1, 1, 0], [0, 1, 1]])
    same(M.sum(0), [1, 2, 1])
    shared = sparse.BCOO((np.arange(4.).reshape(2, 2), np.array([[[2], [0]]])), shape=(2, 3))
    same(shared.sort_indices(), [[1, 0, 0], [3, 0, 2]])
    assert shared.sort_indices().indices.shape == (1, 2, 1)
    same(M @ np.arange(3.), [1, 3])


def test_names_of_primitives_of_plain_formats() -> None:
    """What is a primitive in JAX: its arrays and params, and a derivative (saiunit, brainevent)."""
    dense = np.array([[0, 1, 2], [3, 0, 0]], "f")
    data, row, col = sparse.coo_fromdense_p.bind(dense, nse=3, index_dtype=np.int32)
    info = types.SimpleNamespace(shape=(2, 3))
    same(sparse.coo_todense_p.bind(data, row, col, spinfo=info), dense)
    same(sparse.coo_matvec_p.bind(data, row, col, np.ones(2, "f"), spinfo=info, transpose=True),
         dense.sum(0))
    data, col, start = sparse.csr_fromdense_p.bind(dense, nse=3, index_dtype=np.int32)
    same(sparse.csr_matmat_p.bind(data, col, start, np.eye(3, dtype="f"), shape=(2, 3)), dense)
    same(calque.grad(lambda d: sparse.csr_matvec_p.bind(
        d, col, start, np.arange(3, dtype="f"), shape=(2, 3)).sum())(data), [1, 2, 0])


def test_names_of_primitives_of_batched_formats() -> None:
    """The same of BCOO and BCSR, whose layout is given as `spinfo`."""
    dense = np.array([[0, 1, 2], [3, 0, 0]], "f")
    info = types.SimpleNamespace(shape=(2, 3), indices_sorted=True, unique_indices=True)
    turned = types.SimpleNamespace(shape=(3, 2), indices_sorted=False, unique_indices=True)
    layout = {"nse": 3, "n_batch": 0, "n_dense": 0, "index_dtype": np.int32}
    by = {"dimension_numbers": (((1,), (0,)), ((), ())), "preferred_element_type": np.float32}
    stored = sparse.bcoo_fromdense_p.bind(dense, **layout)
    same(sparse.bcoo_todense_p.bind(*stored, spinfo=info), dense)
    same(sparse.bcoo_extract_p.bind(stored[1], 2 * dense, assume_unique=True), [2, 4, 6])
    v = np.arange(3, dtype="f")
    same(sparse.bcoo_dot_general_p.bind(*stored, v, lhs_spinfo=info, **by), dense @ v)
    other = sparse.bcoo_transpose_p.bind(*stored, permutation=(1, 0), spinfo=info)
    same(sparse.bcoo_todense_p.bind(*other, spinfo=turned), dense.T)
    same(sparse.bcoo_sort_indices_p.bind(*other, spinfo=turned)[1], [[0, 1], [1, 0], [2, 0]])
    twice = [np.concatenate([x, x]) for x in stored]
    same(sparse.bcoo_sum_duplicates_p.bind(*twice, spinfo=info.__class__(
        shape=(2, 3), indices_sorted=False, unique_indices=False), nse=3)[0], [2, 4, 6])
    product = sparse.bcoo_spdot_general_p.bind(*stored, *other, lhs_spinfo=info,
                                               rhs_spinfo=turned, **by)
    same(sparse.BCOO(tuple(product), shape=(2, 2)), dense @ dense.T)
    same(sparse.bcoo_dot_general_sampled_p.bind(
        dense, dense.T, np.array([[1, 1]]), dimension_numbers=by["dimension_numbers"]), [9])
    rows = sparse.bcsr_fromdense_p.bind(dense, **layout)
    same(sparse.bcsr_todense_p.bind(*rows, spinfo=info), dense)
    same(sparse.bcsr_extract_p.bind(*rows[1:], 2 * dense), [2, 4, 6])
    same(calque.grad(lambda d: sparse.bcsr_dot_general_p.bind(
        d, *rows[1:], v, lhs_spinfo=info, **by).sum())(rows[0]), [1, 2, 0])
    leaves, tree = calque.tree.flatten(sparse.BCOO(tuple(stored), shape=(2, 3)))
    same(sparse.todense_p.bind(*leaves, tree=tree), dense)


def test_reprs_and_errors() -> None:
    M = sparse.BCOO.fromdense(jnp.arange(24.).reshape(2, 3, 4), n_batch=1, n_dense=1)
    assert repr(M) == "BCOO(float32[2, 3, 4], nse=3, n_batch=1, n_dense=1)"
    assert repr(sparse.eye(3, sparse_format="csr")) == "CSR(float32[3, 3], nse=3)"
    A = sparse.eye(3)
    for f, error, text in (
            (lambda: A + 1, NotImplementedError, "Addition between a sparse array"),
            (lambda: A - jnp.ones((3, 3)), NotImplementedError, "Subtraction between sparse"),
            (lambda: A == A, NotImplementedError, "sparse rule for eq"),
            (lambda: A @ jnp.ones(2), TypeError, "contracting dimensions"),
            (lambda: A.update_layout(n_batch=1), sparse.SparseEfficiencyError, "inefficient"),
            (lambda: sparse.BCOO((jnp.ones(3), jnp.ones((2, 2), int)), shape=(3, 3)), ValueError,
             "Invalid data.shape"),
            (lambda: M.transpose((1, 0, 2)), NotImplementedError, "different kinds"),
            (lambda: sparse.eye(3, sparse_format="x"), ValueError, "not recognized")):
        with pytest.raises(error, match=re.escape(text)) as caught:
            f()
        assert "Fix: " in str(caught.value)
    with pytest.warns(sparse.SparseEfficiencyWarning):
        same(A.update_layout(n_dense=1, on_inefficient="warn"), np.eye(3))


@pytest.mark.parametrize("n, k", [(1, 1), (5, 3), (8, 2), (3, 8)])
@pytest.mark.parametrize("padding", ["SAME", "VALID", [(1, 2)], [(-1, 0)]])
def test_convolution_of_signals(n: int, k: int, padding: Any) -> None:
    """Small integers: exact.  Against NumPy's dense sum over the kernel."""
    rng = np.random.default_rng(n * 10 + k)
    x, y = rng.integers(-2, 3, n).astype("f4"), rng.integers(-2, 3, k).astype("f4")
    for stride, apart, across in ((1, 1, 1), (2, 1, 1), (1, 2, 1), (3, 2, 2)):
        if isinstance(padding, str):
            apart = 1  # (lax refuses a word with spread elements)
        spread = np.zeros((n - 1) * apart + 1, "f4")
        spread[::apart] = x
        length = (k - 1) * across + 1
        if isinstance(padding, str):
            total = max((-(-len(spread) // stride) - 1) * stride + length - len(spread), 0)
            low, high = (total // 2, total - total // 2) if padding == "SAME" else (0, 0)
        else:
            ((low, high),) = padding
        filled = np.pad(spread, (max(low, 0), max(high, 0)))[max(-low, 0):]
        expected = [sum(filled[i + j * across] * y[j] for j in range(k))
                    for i in range(0, len(filled) - length + 1, stride)]
        made = sparse.bcoo_conv_general_dilated(
            *[sparse.BCOO.fromdense(v[None, None]) for v in (x, y)], window_strides=(stride,),
            padding=padding, lhs_dilation=(apart,), rhs_dilation=(across,))
        assert made.shape == (1, 1, len(expected)) and made.n_batch == 2
        np.testing.assert_array_equal(made.todense()[0, 0], expected)


def test_convolution_refuses_more_axes() -> None:
    x = sparse.BCOO.fromdense(jnp.ones((1, 1, 4, 4)))
    with pytest.raises(NotImplementedError, match="one signal"):
        sparse.bcoo_conv_general_dilated(x, x, window_strides=(1, 1), padding="SAME")


def test_rows_put_together() -> None:
    dense = np.array([[1.0, 0, 2], [0, 0, 3]], "f4")
    m = sparse.BCSR.fromdense(dense)
    for axis in (0, 1):
        both = sparse.bcsr_concatenate([m, m], dimension=axis)
        assert isinstance(both, sparse.BCSR)
        np.testing.assert_array_equal(both.todense(), np.concatenate([dense, dense], axis))
    wide = sparse.bcsr_broadcast_in_dim(m, shape=(4, 2, 3), broadcast_dimensions=(1, 2))
    assert (wide.n_batch, wide.shape) == (1, (4, 2, 3))
    np.testing.assert_array_equal(wide.todense(), np.broadcast_to(dense, (4, 2, 3)))
    twice = sparse.BCSR((jnp.array([1.0, 2, 4]), jnp.array([2, 2, 0]), jnp.array([0, 2, 3])),
                        shape=(2, 3))
    once = sparse.bcsr_sum_duplicates(twice)
    np.testing.assert_array_equal(once.data, [3.0, 4.0])
    np.testing.assert_array_equal(once.indptr, [0, 1, 2])
    jitted = calque.jit(lambda m: sparse.bcsr_sum_duplicates(m, nse=3))(twice)
    np.testing.assert_array_equal(jitted.todense(), twice.todense())
