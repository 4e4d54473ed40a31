"""What jax 0.10.2 takes, warns of and refuses where NumPy is silent: conversions, sizes, texts."""
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int32"])
def test_conversions_of_integers_wrap_around(dtype: str) -> None:
    """Python's % says what is left of an integer of 64 bits; NumPy's view which sign it has."""
    for n in (0, -1, 300, 2**31, -2**31 - 1, 2**32 + 3, 2**40 + 5, 2**63, 2**64 - 1, -2**63):
        bits = 8 * np.dtype(dtype).itemsize
        want = np.array([n % (1 << bits)], f"uint{bits}").view(dtype)[0]
        for made in (lax.convert_element_type(n, dtype), lax.full((), n, dtype),
                     jnp.full((), n, dtype), lax.full_like(np.zeros((), dtype), n),
                     calque.jit(lambda n=n: lax.convert_element_type(n, dtype))()):
            assert made.dtype == dtype and made == want
        assert lax.convert_element_type(n, bool) == bool(n)
        assert lax.convert_element_type(n, "float32") == np.float32(n)
    for n in (2**64, -2**63 - 1):
        with pytest.raises(OverflowError, match="too large"):
            lax.convert_element_type(n, dtype)
    with pytest.raises(OverflowError, match="out of bounds|too large"):
        jnp.asarray(2**32 + 3, dtype)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32"])
def test_floats_become_integers_towards_0_and_within_their_range(dtype: str) -> None:
    """Wherever a scalar is converted, as arrays are: NumPy's conversion of what does not fit is
    C's, which depends on the CPU."""
    info = np.iinfo(dtype)
    for v in (np.nan, np.inf, -np.inf, 1e30, -5.7, 300.0, 5.9):
        want = 0 if np.isnan(v) else int(min(max(v, info.min), info.max))
        zero = jnp.zeros(1, dtype)
        for x in (v, np.float32(v), np.float64(v), jnp.float32(v)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # (of the update, as in JAX)
                update = zero.at[0].set(x)
            for made in (jnp.full((1,), x, dtype), lax.full((), x, dtype), update,
                         jnp.full_like(zero, x), jnp.pad(zero, 1, constant_values=x),
                         jnp.array([jnp.float32(v)], dtype), lax.convert_element_type(x, dtype)):
                assert made.dtype == dtype and np.ravel(made)[0] == want, (v, type(x))
    ends = jnp.linspace(-1e30, 1e30, 3, dtype=dtype)
    assert ends.tolist() == [info.min, 0, info.max]
    assert jnp.logspace(0, 20, 2, dtype=dtype).tolist() == [1, info.max]


@pytest.mark.parametrize("dtype", ["complex64", "float32", "int32"])
def test_numpys_64_bits_are_cut_before_an_update(dtype: str) -> None:
    x, v = jnp.ones(2, dtype), np.int64(2**40 + 3)
    for at in (x.at[...], x.at[0], x.at[jnp.array([0, 1])], x.at[x > 0]):
        assert at.set(v)[0] == 3 and at.add(v)[0] == 4 and at.multiply(v)[0] == 3
        assert at.max(v)[0] == at.max(np.array(v))[0] == 3


def test_masked_arrays_are_copied_without_their_mask() -> None:
    masked = np.ma.array([1, 2], mask=[True, False])
    for f in (jnp.array, jnp.copy, lambda m: jnp.array(m, dtype=float)):
        assert f(masked).tolist() == [1, 2]
    for f in (jnp.asarray, calque.device_put, calque.jit(jnp.array), jnp.sin, jnp.nonzero):
        with pytest.raises(ValueError, match="numpy masked arrays are not supported"):
            f(masked)


def test_grids_of_mixed_slices_under_strict_promotion() -> None:
    for key in ((slice(1, 6, 8j), slice(2, 4)), (slice(0, 3.5, 0.5), slice(2, 4))):
        with calque.numpy_dtype_promotion("strict"):
            dense, sparse = jnp.mgrid[key], jnp.ogrid[key]
        np.testing.assert_allclose(dense, np.mgrid[key], rtol=1e-6)
        for ours, want in zip(sparse, np.ogrid[key], strict=True):
            assert ours.dtype == np.float32
            np.testing.assert_allclose(ours, want, rtol=1e-6)


def test_copy_order_and_ndmin_by_position() -> None:
    x = jnp.arange(3)
    for args, same, shape in (((False,), True, (3,)), ((True,), False, (3,)),
                              ((False, "K"), True, (3,)), ((True, "K", 2), False, (1, 3))):
        with pytest.warns(DeprecationWarning, match="jnp.array positionally is deprecated"):
            made = jnp.array(x, None, *args)
        assert (made is x) == same and made.shape == shape
    with pytest.raises(TypeError, match="multiple values for argument 'copy'"):
        jnp.array(x, None, True, copy=False)
    with pytest.raises(TypeError, match="takes at most 5 positional arguments but 6 were given"):
        jnp.array(x, None, True, "K", 0, "more")


@pytest.mark.parametrize("f, want", [(jnp.ndim, 1), (jnp.shape, (3,)), (jnp.size, 3)])
def test_lists_are_no_arrays(f: Callable[..., Any], want: Any) -> None:
    for given in ([1, 2, 3], (1, 2, 3)):
        with pytest.warns(DeprecationWarning, match=f"{f.__name__} requires ndarray or scalar"):
            assert f(given) == want
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert f(np.arange(3)) == f(jnp.arange(3)) == want
        f(3.0)


def test_types_of_64_bits_are_no_python_types() -> None:
    """They warn where they are cut, and are no other name of int and float."""
    for kind, of in ((jnp.int64, int), (jnp.float64, float), (jnp.complex128, complex)):
        assert kind != of and of != kind and kind == kind.dtype and kind == kind.dtype.type
        with pytest.warns(UserWarning, match="Explicitly requested dtype .*64|complex128"):
            jnp.zeros(1, kind)
    assert jnp.zeros(1, int).dtype == np.int32 and jnp.zeros(1, float).dtype == np.float32


def test_texts_of_types() -> None:
    shaped = calque.core.ShapedArray
    assert str(shaped((8, 2), np.int32)) == "int32[8,2]"
    assert str(shaped((8, 2), np.int32, weak_type=True)) == "~int32[8,2]"
    assert repr(shaped((8,), np.int32, True)) == "ShapedArray(int32[8], weak_type=True)"
    assert str(calque.typeof(jnp.asarray(1.0))) == "~float32[]"
    there = shaped((8,), np.float32, memory_space=calque.memory.Space.Host)
    assert [there.str_short(True), str(there)] == ["f32<host>[8]", "float32<host>[8]"]
    assert there.memory_space is calque.memory.Space.Host


def test_refusals() -> None:
    for shapes in (((-1,),), ((-1,), (3,)), ((1,), (-3,))):
        for f in (lax.broadcast_shapes, jnp.broadcast_shapes):
            with pytest.raises(TypeError, match="Only non-negative indices are allowed"):
                f(*shapes)
    dims = lax.ConvDimensionNumbers((0, 1, 2), (0, 1, 2), (0, 1, 2))
    with pytest.raises(ValueError, match="must have the same number of dimensions"):
        lax.conv_general_dilated(np.ones((1, 1, 1)), np.ones((1, 1, 1, 1)), (1,), ((0, 0),),
                                 dimension_numbers=dims)
    key = calque.random.key(0)
    for args in ((key, calque.dtypes.prng_key), (np.float32, key)):
        with pytest.raises(ValueError, match="Could not convert Array"):
            jnp.issubdtype(*args)
