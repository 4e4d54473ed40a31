"""What vjp, linearize and linear_transpose return is a tree whose leaves are its residuals."""
from __future__ import annotations

import gc
import pickle
import weakref
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax, tree

X = np.linspace(0.5, 2, 4).astype(np.float32)
CT = np.array([1, -2, 3, 0.5], np.float32)


def back(x: Any) -> Any:
    return calque.vjp(lambda x: jnp.sin(x) * 2, x)[1]


def test_leaves_are_residuals() -> None:
    f = back(X)
    (leaf,) = tree.leaves(f)
    np.testing.assert_allclose(f(leaf)[0], 2 * np.cos(X) * np.asarray(leaf), rtol=1e-6)
    doubled = tree.map(lambda v: v * 2, f)
    np.testing.assert_allclose(doubled(CT)[0], 4 * np.cos(X) * CT, rtol=1e-6)
    np.testing.assert_allclose(f(CT)[0], 2 * np.cos(X) * CT, rtol=1e-6)
    leaves, structure = tree.flatten(f)
    np.testing.assert_allclose(structure.unflatten(leaves)(CT)[0], f(CT)[0])


def test_through_jit_vmap_and_scan() -> None:
    want = 2 * np.cos(X) * CT
    np.testing.assert_allclose(calque.jit(lambda f, ct: f(ct))(back(X), CT)[0], want, rtol=1e-6)
    np.testing.assert_allclose(calque.jit(back)(X)(CT)[0], want, rtol=1e-6)
    np.testing.assert_allclose(
        calque.vmap(lambda f, ct: f(ct))(calque.vmap(back)(X), CT)[0], want, rtol=1e-6)
    _, maps = lax.scan(lambda c, x: (c, back(x)), 0, X)
    assert tree.leaves(maps)[0].shape == (4,)
    _, outs = lax.scan(lambda c, fx: (c, fx[0](fx[1])), 0, (maps, CT))
    np.testing.assert_allclose(outs[0], want, rtol=1e-6)
    np.testing.assert_allclose(
        lax.cond(True, lambda x: back(x), lambda x: back(x), X)(CT)[0], want, rtol=1e-6)


def test_maps_of_one_function_share_a_compiled_program() -> None:
    traced = []

    @calque.jit
    def apply(f: Any, ct: Any) -> Any:
        traced.append(1)
        return f(ct)

    for x in (X, X + 1, X * 2):
        np.testing.assert_allclose(apply(back(x), CT)[0], 2 * np.cos(x) * CT, rtol=1e-5)
    assert len(traced) == 1
    apply(calque.vjp(jnp.cos, X)[1], CT)  # another linear map
    assert len(traced) == 2


def test_arguments_among_the_residuals() -> None:
    x, y = jnp.asarray(X), jnp.asarray(CT)
    _, f = calque.vjp(lambda x, y: x * jnp.sin(y), x, y)
    assert f.args_res[0] is x and repr(f.args_res[1]) == "NotNeeded()"
    assert [r.shape for r in f.opaque_residuals] == [(4,)] * len(f.opaque_residuals)
    assert tree.leaves(f)[0] is x
    moved = tree.map(lambda v: v + 0, f)
    assert moved.args_res[0] is tree.leaves(moved)[0]
    for got, want in zip(moved(jnp.ones(4)), (np.sin(CT), X * np.cos(CT))):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_derivatives_of_and_with_respect_to_a_map() -> None:
    g = calque.grad(lambda f: f(CT)[0].sum(), allow_int=True)(back(X))
    # 2 cos(x) ct is linear in the residual, whose gradient has the map's structure
    assert tree.structure(g) == tree.structure(back(X))
    np.testing.assert_allclose(tree.leaves(g)[0] * tree.leaves(back(X))[0],
                               2 * np.cos(X) * CT, rtol=1e-6)
    second = calque.grad(lambda x: back(x)(CT)[0].sum())(X)
    np.testing.assert_allclose(second, -2 * np.sin(X) * CT, rtol=1e-6)


def test_linearize_and_linear_transpose() -> None:
    y, f = calque.linearize(lambda x, n: (jnp.exp(x) * n, n), X, 3)
    zero = np.zeros((), calque.dtypes.float0)
    apply = calque.jit(lambda f, t: f(t, zero))
    np.testing.assert_allclose(apply(f, CT)[0], np.exp(X) * 3 * CT, rtol=1e-6)
    np.testing.assert_allclose(tree.map(lambda v: v * 2, f)(CT, zero)[0],
                               f(CT, zero)[0] * 2 ** len(tree.leaves(f)), rtol=1e-6)
    scale = jnp.asarray(CT)
    t = calque.linear_transpose(lambda x: x * scale, X)
    assert tree.leaves(t)[0] is scale
    np.testing.assert_allclose(calque.jit(lambda t, ct: t(ct))(t, X)[0], X * CT)
    with pytest.raises(TypeError, match="linearized function called with tangents of structure"):
        f(CT)
    with pytest.raises(TypeError, match="cotangent tree does not match function output"):
        t((X, X))


def test_a_map_holds_its_residuals_alone() -> None:
    x = jnp.asarray(X) + 1
    held, f = weakref.ref(x), back(x)
    structure = tree.structure(f)
    del x
    gc.collect()
    assert held() is None  # cos(x) is the residual, x is not
    kept = weakref.ref(tree.leaves(f)[0])
    del f
    gc.collect()
    assert kept() is None and "VJP" in str(structure)


def test_aux_and_integers() -> None:
    y, f, aux = calque.vjp(lambda x, n: (x * n, jnp.sum(x)), X, 3, has_aux=True)
    leaves, structure = tree.flatten(f)
    x, n = structure.unflatten(leaves)(CT)
    np.testing.assert_allclose(x, 3 * CT)
    assert n.dtype == calque.dtypes.float0
    assert pickle.loads(pickle.dumps([np.asarray(v) for v in leaves]))[0].shape in ((), (4,))


@pytest.mark.parametrize("f, shape", [
    (lambda g: calque.jit(g)(1.0, 2), ()),
    (lambda g: calque.jit(lambda x, n: g(x, n))(1.0, 2), ()),
    (lambda g: calque.vmap(g)(jnp.ones(3), jnp.arange(3)), (3,)),
    (lambda g: calque.jit(calque.vmap(g))(jnp.ones(3), jnp.arange(3)), (3,)),
    (lambda g: lax.scan(lambda c, n: (c, g(c, n)), 1.0, jnp.arange(3))[1], (3,)),
    (lambda g: lax.cond(True, g, g, 1.0, 2), ()),
    (lambda g: calque.checkpoint(g)(1.0, 2), ()),
    (lambda g: calque.jit(lambda out: out)(calque.jit(g)(1.0, 2)), ())])
def test_derivatives_by_integers_leave_programs(f: Any, shape: tuple[int, ...]) -> None:
    """float0, of which there is one value, is a result like others; jit(grad) raised TypeError."""
    by_x, by_n = f(calque.grad(lambda x, n: x * n, argnums=(0, 1), allow_int=True))
    assert by_n.dtype == np.asarray(by_n).dtype == calque.dtypes.float0
    assert by_n.shape == np.asarray(by_n).shape == shape
    np.testing.assert_array_equal(by_x, np.arange(3) if shape else 2)


@pytest.mark.parametrize("f", [
    lambda z: z + jnp.ones(2), lambda z: jnp.ones(2) + z, lambda z: lax.add(z, z), jnp.sin, jnp.sum,
    jnp.negative, lambda z: jnp.where(True, z, 1.), lambda z: z * 2, jnp.exp, jnp.mean,
    lambda z: jnp.array([z[0], 1.]), lambda z: jnp.equal(z, z), lambda z: calque.jit(jnp.exp)(z)])
def test_nothing_is_computed_with_float0(f: Any) -> None:
    """It was a KeyError, an error of NumPy's or of the compiler, or exp(0)."""
    made = calque.grad(lambda n: jnp.sum(n * 2.), allow_int=True)(jnp.arange(2))
    for zero in (calque.jit(lambda z: z)(made), jnp.stack([made, made])[0]):
        with pytest.raises(TypeError, match="float0|void"):
            f(zero)


@pytest.mark.parametrize("ct", [1., np.zeros(3, calque.dtypes.float0)])
def test_cotangents_of_integers_are_of_their_shape(ct: Any) -> None:
    """Of any dtype: nothing is read of them."""
    back = calque.vjp(lambda n: n * 2, jnp.arange(2))[1]
    for fits in (np.zeros(2, calque.dtypes.float0), np.ones(2, np.int32), np.ones(2, bool)):
        assert back(fits)[0].dtype == calque.dtypes.float0
    with pytest.raises(ValueError, match=r"unexpected JAX type[\s\S]*expected.*\[2\]"):
        back(ct)


def test_booleans_stay_what_they_are() -> None:
    """A static argument within is hashed, and traced once."""
    traced = []

    def f(x: Any, on: bool) -> Any:
        traced.append(on)
        return jnp.sin(x) if on else x

    g = calque.checkpoint(f, static_argnums=(1,))
    for on, want in ((True, np.cos(0.5)), (True, np.cos(0.5)), (False, 1.0)):
        _, back = calque.vjp(g, 0.5, on)
        np.testing.assert_allclose(back(1.0)[0], want, rtol=1e-6)
        np.testing.assert_allclose(calque.linearize(g, 0.5, on)[1](1.0, np.zeros(
            (), calque.dtypes.float0)), want, rtol=1e-6)
    assert traced == [True, False]
