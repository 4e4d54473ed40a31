"""Semantics at the edges, as JAX 0.10.2 has them: gradients of factorizations, index arguments.

data/margins.txt has what the functions of edge_calls.py gave there.
"""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import edge_calls
import mpmath
import numpy as np
import pytest
from support import oracle
from support.harness import both_ways

import calque
import calque.numpy as jnp
from calque import lax
from calque.scipy import linalg, special

V = np.arange(5, dtype=np.float32)


def test_gradients() -> None:
    rows = (Path(__file__).parent / "data" / "margins.txt").read_text().splitlines()
    want = dict(row.split(": ") for row in rows)
    interpreted, run = edge_calls.calls(calque, jnp, lax, linalg, special)
    wrong = []
    for name, (f, args) in {**interpreted, **run}.items():
        outs = calque.tree_util.tree_leaves(f(*args)) if name in run else oracle.interpret(
            calque.make_jaxpr(f)(*args), args)
        got = edge_calls.shown(outs)
        a, b = (np.array([complex(v) for v in s.split()]) for s in (got, want.pop(name)))
        finite = np.abs(b[np.isfinite(b)]).max(initial=1)
        if not np.allclose(a, b, rtol=1e-4, atol=2e-5 * finite, equal_nan=True):
            wrong.append(f"{name}: {got}")
    assert not wrong, "\n".join(wrong)
    assert not want


@pytest.mark.parametrize("f", [
    lambda a: jnp.linalg.qr(a, "raw")[0], lambda a: lax.linalg.householder_product(a, a[0]),
    lambda a: lax.linalg.tridiagonal(a)[0], lambda a: lax.linalg.schur(a)[0],
    lambda a: lax.linalg.hessenberg(a)[0], lambda a: lax.linalg.cholesky_update(a, a[0])],
    ids=["geqrf", "householder_product", "tridiagonal", "schur", "hessenberg", "cholesky_update"])
def test_no_gradient_is_an_error(f: Callable[[Any], Any]) -> None:
    """And not 0."""
    with pytest.raises(NotImplementedError, match="Differentiation rule for '.*' not implemented"):
        calque.make_jaxpr(calque.grad(lambda a: f(a).sum()))(np.eye(3, dtype=np.float32))


def test_turn_of_columns_that_no_reflection_moves() -> None:
    """qr of the identity: JAX gives NaN for the further columns, here they stand still."""
    def f(a: Any) -> Any:
        return lax.linalg.qr(a, full_matrices=True)[0]
    a, t = np.eye(2, 1, dtype=np.float32), np.ones((2, 1), np.float32)
    got = np.asarray(calque.jvp(f, (a,), (t,))[1])
    assert np.isfinite(got).all() and got[1, 1] == 0


@pytest.mark.parametrize("large", [2**31, -2**31 - 1, 2**70])
def test_python_ints_that_are_too_large(large: int) -> None:
    x = jnp.asarray(V)
    for f in (lambda: x[large], lambda: jnp.take(x, large),
              lambda: jnp.clip(jnp.arange(3), 0, large),
              lambda: jnp.insert(x, large, 1.0), lambda: lax.dynamic_index_in_dim(x, large),
              lambda: lax.dynamic_update_index_in_dim(x, 1.0, large, 0)):
        with pytest.raises(OverflowError, match="too large to convert"):
            f()


def test_start_indices_wrap() -> None:
    np.testing.assert_array_equal(lax.dynamic_slice(V, (2**31,), (2,)), [0, 1])
    np.testing.assert_array_equal(lax.dynamic_slice(V, (2**32 + 1,), (2,)), [1, 2])
    with pytest.raises(OverflowError):
        lax.dynamic_slice(V, (2**70,), (2,))


def test_floats_where_integers_belong() -> None:
    np.testing.assert_array_equal(jnp.roll(V, 1.5), [4, 0, 1, 2, 3])
    x = np.ones((2, 2), np.float32)
    for f in (lambda: jnp.diag(V, 1.0), lambda: jnp.tril(x, 1.0), lambda: jnp.diff(V, 1.0),
              lambda: lax.top_k(V, 1.0), lambda: lax.transpose(x, (1.0, 0)),
              lambda: lax.reduce_sum(x, (1.0,)), lambda: lax.rev(x, (0.0,)),
              lambda: lax.concatenate([x, x], 0.0),
              lambda: lax.broadcast_in_dim(V, (5, 5), (0.0,))):
        with pytest.raises(TypeError):
            f()


def test_no_indices_may_be_of_any_type() -> None:
    for dtype in (float, bool, int):
        assert jnp.take(V, np.zeros((1, 0), dtype)).shape == (1, 0)


def test_no_points() -> None:
    none = jnp.zeros(0)
    with pytest.raises(TypeError, match="sample points is empty"):
        jnp.interp(V, none, none)
    with pytest.raises(IndexError, match="out of bounds"):
        jnp.interp(1.0, none, none)


def test_bool_start_indices() -> None:
    def f(i: Any) -> Any:
        return lax.dynamic_slice(V, (i,), (2,))
    with pytest.raises(TypeError, match="must be integers"):
        f(True)
    with pytest.raises(ValueError, match="indices must have an integer type"):
        calque.vmap(f)(np.array([True, False]))


def test_reciprocals_and_logarithms_of_infinities() -> None:
    x = np.array([complex(np.inf, 0), complex(0, np.inf), complex(-np.inf, 1)], np.complex64)
    inverse, two, ten, power = calque.jit(
        lambda x: (jnp.reciprocal(x), jnp.log2(x), jnp.log10(x), x ** -2))(x)
    assert not np.any(inverse) and not np.any(power)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(two, np.log2(x), rtol=1e-6)
        np.testing.assert_allclose(ten, np.log10(x), rtol=1e-6)


def test_table_of_complex_functions_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "coming_from_jax.md").read_text()
    rows = [row.replace("`", "").split(" | ") for row in page.splitlines() if "| `complex(" in row]
    assert len(rows) == 7
    numbers: dict[str, Any] = {"complex": complex, "inf": np.inf, "nan": np.nan}

    def number(text: str) -> np.ndarray:
        return np.asarray(eval(text, numbers), np.complex64)

    names = [name.strip("| ") for name, *_ in rows]
    got = calque.jit(lambda *xs: [getattr(jnp, n)(x) for n, x in zip(names, xs)])(
        *[number(of) for _, of, *_ in rows])
    for (_, _, here, _), value in zip(rows, got):
        want, value = number(here), np.asarray(value, np.complex64)
        np.testing.assert_array_equal([value.real, value.imag], [want.real, want.imag])


def test_keys_are_no_truths() -> None:
    with pytest.raises(TypeError, match="key array cannot be converted to boolean"):
        bool(calque.random.key(0))


@both_ways
def test_complex_gamma(jit: Any) -> None:
    """Against mpmath, in both halves of the plane."""
    rng = np.random.default_rng(0)
    z = rng.uniform(-6, 8, 60) + 1j * rng.uniform(-5, 5, 60)
    want = np.array([complex(mpmath.gamma(complex(v))) for v in z])
    with calque.enable_x64(True):
        got = np.asarray(jit(special.gamma)(z))
    # 15 digits of Lanczos' sum, times the condition number of the power: |z log z| < 30
    np.testing.assert_allclose(got, want, rtol=30 * 1e-15)


def test_complex_gamma_of_real_numbers() -> None:
    real = np.asarray(calque.jit(special.gamma)(np.array([-2, -1.5, 5, 1e3], np.complex64)))
    np.testing.assert_allclose(real.real, [np.nan, 2.3632718, 24, np.inf], rtol=1e-5)


def test_lists_and_numbers_where_arrays_belong() -> None:
    assert np.asarray(special.ndtr([0.0, 40.0])).tolist() == [0.5, 1.0]
    assert float(special.multigammaln(2.0, 3.0)) == float(special.multigammaln(2.0, 3))
    assert isinstance(lax.stop_gradient(2.0), calque.Array)
    chosen = jnp.select(jnp.array([[True, False]]), jnp.array([[1.0, 2.0]]), -1.0)
    assert np.asarray(chosen).tolist() == [1.0, -1.0]
