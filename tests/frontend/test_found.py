"""What tests/fuzz_api.py found in functions of numpy, nn, random and scipy, each once mended.

The values beside the calls are what JAX 0.10.2 gives, where nothing else is said.
"""
from __future__ import annotations

import numpy as np
import pytest

import calque
import calque.numpy as jnp


@pytest.mark.parametrize("f", ["setxor1d", "intersect1d"])
def test_sets_without_an_element_are_filled_with_zeros(f: str) -> None:
    x = jnp.array([1.2, -1, 2, 3], "float32")
    y = x if f == "setxor1d" else x + 10
    call = getattr(jnp, f)
    for size in (2, 4, 9):
        np.testing.assert_array_equal(call(x, y, size=size), np.zeros(size, "float32"))
        np.testing.assert_array_equal(calque.jit(lambda a, b: call(a, b, size=size))(x, y),  # noqa: B023
                                      np.zeros(size, "float32"))
    some = call(x, jnp.array([2., 3, 10], "float32"), size=6)
    assert some[-1] == some.min() != 0


def test_trapezoid_of_int32_is_float32_in_x64() -> None:
    with calque.enable_x64(True):
        assert jnp.trapezoid(jnp.array([1, 2], "int32")).dtype == "float32"
        assert jnp.trapezoid(jnp.array([1, 2], "int64")).dtype == "float64"
        assert jnp.trapezoid(jnp.array([1., 2], "float32"), dx=jnp.float64(1)).dtype == "float64"


@pytest.mark.parametrize("order, want", [(1, 6), (np.inf, 3), (-np.inf, 1)])
def test_vector_norms_that_keep_integers(order: float, want: int) -> None:
    out = jnp.linalg.vector_norm(jnp.array([1, -2, 3], "int32"), ord=order)
    assert out.dtype == "int32" and out == want


def test_poly_of_nothing_is_a_scalar() -> None:
    out = jnp.poly(jnp.array([], "float32"))
    assert out.shape == () and out == 1


def test_compress_to_more_than_there_is() -> None:
    x = jnp.arange(3.)
    with pytest.raises(ValueError, match="size must be positive and not greater than the size"):
        jnp.extract(x > 0, x, size=4)
    np.testing.assert_array_equal(jnp.extract(x > 0, x, size=3), [1, 2, 0])


@pytest.mark.filterwarnings("ignore:scatter inputs have incompatible types")
def test_updates_of_integers_by_floats() -> None:
    x, b = jnp.array([2, 4, 6, 8], "int16"), jnp.array([.5, 2.5], "bfloat16")
    for name, want, dtype in [("multiply", [1, 10, 6, 8], "int16"), ("add", [2, 6, 6, 8], "int16"),
                              ("power", [1, 16, 6, 8], "int16"),
                              ("divide", [np.inf, 2, 6, 8], "float32")]:
        for index in (slice(2), jnp.array([0, 1])):
            out = getattr(x.at[index], name)(b)
            assert out.dtype == dtype, name
            np.testing.assert_array_equal(out, want, err_msg=name)
    np.testing.assert_array_equal(jnp.array([-1, -1, 5]).at[:2].add(.5), [0, 0, 5])
    np.testing.assert_array_equal(
        jnp.add.at(jnp.array([-1, -1]), jnp.array([0, 1]), jnp.array([.5, 1.5]), inplace=False),
        [0, 0])


def test_log_ndtr_of_nan() -> None:
    from calque.scipy import special
    x = jnp.array([np.nan, -3.4e38, -np.inf, np.inf, -1e10, -30, 0, .5], "float32")
    for f in (special.log_ndtr, calque.jit(special.log_ndtr)):
        out = np.asarray(f(x))
        assert np.isnan(out[0])
        import scipy.special as sp
        np.testing.assert_allclose(out[2:], sp.log_ndtr(np.asarray(x[2:], "f8")), rtol=1e-5)


@pytest.mark.parametrize("name", ["radians", "degrees"])
def test_degrees_of_weak_arrays_are_strong(name: str) -> None:
    f = getattr(jnp, name)
    assert not f(jnp.stack([jnp.asarray(4.)])).weak_type and f(2.).weak_type


def test_weak_types_of_special_functions() -> None:
    from calque.scipy import special
    weak, whole = jnp.stack([jnp.asarray(.5)]), jnp.array([1, 2], "int32")
    assert weak.weak_type
    for f in (special.rel_entr, special.kl_div):
        assert [f(whole, -1.5).weak_type, f(weak, weak).weak_type, f(2., 3.).weak_type] == [
            False, False, True]
    assert not special.logit(weak).weak_type and special.logit(.5).weak_type
    assert not special.gamma(weak).weak_type and not special.gamma(.5).weak_type


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
def test_logaddexp_of_integers_along_an_axis(name: str) -> None:
    f, x = getattr(jnp, name), jnp.array([2, 2, 5], "int16")
    assert f.reduce(x).dtype == f.accumulate(x).dtype == "float32"
    want = getattr(np, name).reduce(np.array([2., 2, 5]))
    np.testing.assert_allclose(f.reduce(x), want, rtol=1e-6)


def test_student_t_takes_its_shape_from_df() -> None:
    assert calque.random.t(calque.random.key(0), jnp.array([1., 2])).shape == (2,)


def test_choose_of_numbers_is_strong() -> None:
    out = jnp.choose(jnp.array([0, 1, 1]), [1., 2.])
    assert not out.weak_type and out.tolist() == [1, 2, 2]


def test_roll_by_a_traced_shift() -> None:
    x = jnp.arange(12.).reshape(3, 4)
    for shift, axis in [(1, 0), (-5, 1), (2, None), (jnp.array([1, 2]), (0, 1)), (3, (0, 1)),
                        (jnp.array([1, 2]), 1), (jnp.array([1], "int16"), (0, 1))]:
        out = calque.jit(lambda x, s: jnp.roll(x, s, axis=axis))(x, shift)  # noqa: B023
        np.testing.assert_array_equal(out, np.roll(x, np.asarray(shift), axis=axis))
    np.testing.assert_array_equal(
        calque.vmap(jnp.roll)(x, jnp.array([1, 2, 3])),
        np.stack([np.roll(row, k + 1) for k, row in enumerate(np.asarray(x))]))
