"""Python's numbers through eager derivatives: what touches none of them hands them on as they are.

Oracle: JAX's public behaviour (custom_api_test of release 0.10.2 asks for float where a rule got
and returned one), and derivatives known in closed form.
"""
import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque.core.numbers import TypedComplex, TypedFloat, TypedInt, typed

seen: list[object] = []


@calque.custom_jvp
def product(x, y):
    seen.append((type(x), type(y)))
    return x * y


@product.defjvp
def _(primals, tangents):
    (x, y), (tx, ty) = primals, tangents
    seen.append((x.dtype, y.dtype))
    return product(x, y), tx * y + x * ty


@calque.custom_vjp
def scaled(x, y):
    return x * y


def _forward(x, y):
    seen.append((x.dtype, y.dtype))
    return scaled(x, y), (x, y, 2 * x)


scaled.defvjp(_forward, lambda r, c: (r[1] * c, r[2] * c / 2))


def test_what_nothing_touches_stays_a_python_number():
    assert calque.jvp(lambda x: x, (1.5,), (2.5,)) == (1.5, 2.5)
    out, moved = calque.jvp(lambda x: (x, 3), (1.5,), (2.5,))
    assert [type(v) for v in (*out, moved[0])] == [float, int, float]
    assert type(calque.vjp(lambda x: x, 1.5)[0]) is float
    assert type(calque.linearize(lambda x: (x, x * 2), 1.5)[1](2.0)[0]) is float


@pytest.mark.parametrize("inside", [calque.jit, lambda f: calque.vmap(f, axis_size=2,
                                                                      in_axes=None)])
def test_inside_other_transformations_they_are_arrays(inside):
    out, moved = inside(lambda x: calque.jvp(lambda v: v, (x,), (1.0,)))(2.5)
    assert isinstance(out, calque.Array)
    np.testing.assert_array_equal(out, np.full(out.shape, 2.5, np.float32))
    np.testing.assert_array_equal(moved, np.ones(moved.shape, np.float32))


def test_rules_get_numbers_with_a_dtype():
    seen.clear()
    out, moved = calque.jvp(lambda x: product(x, 2.0), (3.0,), (1.0,))
    assert (out, float(moved), type(out)) == (6.0, 2.0, float)
    assert seen == [(np.dtype(np.float32),) * 2, (TypedFloat, TypedFloat)]
    seen.clear()
    out, back = calque.vjp(lambda x: scaled(x, 2), 3.0)
    assert (out, float(back(1.0)[0])) == (6.0, 2.0)
    assert seen == [(np.dtype(np.float32), np.dtype(np.int32))]


def test_first_and_second_derivatives_by_numbers():
    assert float(calque.grad(product)(3.0, 2.0)) == 2.0
    assert float(calque.grad(scaled, argnums=1)(3.0, 2.0)) == 3.0
    assert float(calque.hessian(lambda x: product(x, 2.0) ** 2)(3.0)) == 8.0
    assert float(calque.grad(lambda x: calque.lax.cond(
        True, lambda v: product(v, 2.0), lambda v: v, x))(3.0)) == 2.0  # a literal of a Program
    value, gradient = calque.value_and_grad(lambda x: scaled(x, 2.0))(3.0)
    assert isinstance(value, calque.Array)
    assert (float(value), float(gradient)) == (6.0, 2.0)


def test_pullbacks_hand_cotangents_on():
    out, back = calque.vjp(scaled, 3.0, 2.0)
    assert (out, type(out)) == (6.0, float)
    cotangents = back(5.0)
    assert tuple(map(float, cotangents)) == (10.0, 15.0)
    # residuals that are arguments are arrays: a jitted function of the pullback is compiled once
    assert [type(x) for x in calque.tree.leaves(back)] == [calque.Array] * 2
    assert tuple(map(float, calque.jit(lambda b, c: b(c))(back, 5.0))) == (10.0, 15.0)


def test_numbers_and_arrays_beside_each_other():
    rows = jnp.asarray([1.0, 2.0])
    out, moved = calque.jvp(product, (3.0, rows), (1.0, rows))
    np.testing.assert_array_equal(out, [3.0, 6.0])
    np.testing.assert_array_equal(moved, [4.0, 8.0])
    cotangent, = calque.vjp(lambda x: product(x, rows), 3.0)[1](rows)
    assert float(cotangent) == 5.0
    np.testing.assert_array_equal(
        calque.vmap(calque.grad(product), (0, None))(rows, 4.0), [4.0, 4.0])


def test_threads_and_nested_calls_keep_their_own():
    """A number is known in the transformation that took it only."""
    kept = []
    calque.jvp(lambda x: kept.append(calque.jvp(lambda y: (x * y, y), (2.0,), (1.0,))) or x,
               (3.0,), (1.0,))
    (outer, inner), (d_outer, d_inner) = kept[0]
    assert float(inner) == 2.0 and float(d_inner) == 1.0


@pytest.mark.parametrize("number, kind, dtype", [
    (2, TypedInt, np.int32), (2.5, TypedFloat, np.float32), (1 + 2j, TypedComplex, np.complex64)])
def test_typed_numbers_are_numbers(number, kind, dtype):
    x = typed(number)
    assert type(x) is kind and x == number and x.dtype == dtype
    assert type(x * 2) is type(number) and typed(x) is x
    assert (jnp.ones(2, jnp.complex64) * x).dtype == np.complex64
    assert jnp.asarray(x).dtype == dtype and jnp.asarray(x).aval.weak_type
    assert typed(True) is True
    if kind is not TypedComplex:
        half = jnp.ones(2, jnp.float16) * x
        assert half.dtype == np.float16
        np.testing.assert_array_equal(half, np.full(2, number, np.float16))
