"""custom_derivatives.linear_call: a linear function whose transpose is said, not found."""
from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque.custom_derivatives import linear_call

A = np.random.default_rng(0).standard_normal((3, 4))


def _product(said: float, r: Any, x: Any) -> Any:
    """r @ x with a transpose that is `said` times the true one, so that it can be told apart."""
    return linear_call(lambda r, x: r @ x, lambda r, ct: said * (r.T @ ct), r, x)


@pytest.mark.parametrize("jit", [False, True])
def test_forwards_and_transposed_any_number_of_times(jit: bool) -> None:
    f = functools.partial(_product, 7.0, jnp.asarray(A, "float32"))
    around = calque.jit if jit else lambda g: g
    x, ct = np.arange(4, dtype=np.float32), np.arange(3, dtype=np.float32)

    def back(y: Any) -> Any:
        return calque.linear_transpose(f, x)(y)[0]

    def forth(z: Any) -> Any:
        return calque.linear_transpose(back, ct)(z)[0]

    # (one rounding of each of four terms, in whatever order)
    np.testing.assert_allclose(around(f)(x), A @ x, rtol=1e-5)
    np.testing.assert_allclose(around(back)(ct), 7 * A.T @ ct, rtol=1e-5)
    np.testing.assert_allclose(around(forth)(x), A @ x, rtol=1e-5)  # the transpose's is fun
    np.testing.assert_allclose(
        around(lambda x: calque.jvp(f, (x,), (2 * x,))[1])(x), 2 * A @ x, rtol=1e-5)
    np.testing.assert_allclose(
        around(calque.grad(lambda x: (f(x) * ct).sum()))(x), 7 * A.T @ ct, rtol=1e-5)


def test_vmapped() -> None:
    rs = np.random.default_rng(1).standard_normal((5, 3, 4)).astype(np.float32)
    cts = np.random.default_rng(2).standard_normal((5, 3)).astype(np.float32)
    found = calque.vmap(lambda r, ct: calque.linear_transpose(
        functools.partial(_product, 7.0, r), jnp.zeros(4))(ct)[0])(rs, cts)
    np.testing.assert_allclose(found, 7 * np.einsum("bij,bi->bj", rs, cts), rtol=2e-5, atol=1e-5)
    of_all = calque.grad(lambda xs: calque.vmap(
        lambda x: _product(7.0, rs[0], x))(xs).sum())(jnp.ones((5, 4)))
    np.testing.assert_allclose(of_all, np.tile(7 * rs[0].sum(0), (5, 1)), rtol=1e-5)


def test_trees_in_a_loop_and_a_rule() -> None:
    @calque.custom_jvp
    def cubed(x: Any) -> Any:
        return x ** 3

    cubed.defjvp(lambda primals, tangents: (cubed(*primals), linear_call(
        lambda r, t: 3 * r["x"] ** 2 * t[0], lambda r, ct: [-ct], {"x": primals[0]},
        [tangents[0]])))
    assert calque.grad(cubed)(2.0) == -1.0
    assert calque.jvp(cubed, (2.0,), (1.0,))[1] == 12.0
    looped = calque.grad(lambda x: calque.lax.fori_loop(0, 3, lambda i, v: cubed(v), x))
    assert calque.jit(looped)(0.5) == -1.0


def test_more_results_than_arguments_and_fewer() -> None:
    def two(x: Any) -> Any:
        return linear_call(lambda _, x: (x, 2 * x), lambda _, cts: cts[0] + 5 * cts[1], (), x)
    assert calque.linear_transpose(two, 1.0)((1.0, 10.0)) == (51.0,)

    def one(x: Any, y: Any) -> Any:
        return linear_call(lambda _, p: p[0] + p[1], lambda _, ct: (ct, 3 * ct), (), (x, y))
    assert calque.linear_transpose(one, 1.0, 1.0)(2.0) == (2.0, 6.0)
    assert calque.grad(one, (0, 1))(1.0, 1.0) == (1.0, 3.0)


def test_refusals() -> None:
    r = jnp.asarray(A)
    with pytest.raises(NotImplementedError, match=r"derivative by residual_args(.|\n)*custom_jvp"):
        calque.grad(lambda r: _product(1.0, r, jnp.ones(4)).sum())(r)
    with pytest.raises(NotImplementedError, match="closes over"):
        calque.grad(lambda s: linear_call(lambda _, x: x * s, lambda _, c: c * s, (), 1.0))(2.0)
    with pytest.raises(TypeError, match="transpose output pytree structure must match"):
        linear_call(lambda _, x: x, lambda _, c: (c, c), (), 1.0)
    with pytest.raises(ValueError, match=r"Expected cotangent type float32\[\]"):
        linear_call(lambda _, x: x, lambda _, c: jnp.ones(3), (), 1.0)
    with pytest.raises(TypeError, match="fun_transpose must be callable"):
        linear_call(abs, 3, (), 1.0)  # type: ignore[arg-type]
