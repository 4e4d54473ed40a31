"""What jax.dtypes says of dtypes."""
from __future__ import annotations

import collections.abc

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import dtypes


def test_bits_and_kinds() -> None:
    for dtype, bits, kind in ((np.int8, 8, int), ("float32", 32, float), (jnp.bfloat16, 16, float),
                              (bool, 8, bool), (np.dtype("complex64"), 64, complex),
                              (int, 64, int), (np.uint32, 32, int)):
        assert dtypes.itemsize_bits(dtype) == bits and dtypes.scalar_type_of(dtype) is kind
        assert dtypes.scalar_type_of(np.ones(2, dtype)) is kind
    assert dtypes.scalar_type_of(2.0) is float
    with pytest.raises(ValueError, match="dtype cannot be None"):
        dtypes.itemsize_bits(None)
    for wrong in (None, "S3", calque.random.key(0)):
        with pytest.raises(TypeError, match="of no kind of numbers"):
            dtypes.scalar_type_of(wrong)


def test_kinds_of_extended_dtypes() -> None:
    key = calque.random.key(0).dtype
    for a, b, wanted in (
            (dtypes.extended, dtypes.extended, True), (dtypes.prng_key, dtypes.extended, True),
            (dtypes.prng_key, np.generic, True), (dtypes.extended, dtypes.prng_key, False),
            (key, dtypes.extended, True), (key, dtypes.prng_key, True), (key, np.integer, False),
            (np.float32, dtypes.extended, False), (dtypes.prng_key, np.number, False)):
        assert dtypes.issubdtype(a, b) is wanted, (a, b)


def test_canonical_dtypes() -> None:
    key = calque.random.key(0).dtype
    assert dtypes.canonicalize_dtype("int64", allow_extended_dtype=True) == np.int32
    assert dtypes.canonicalize_dtype(key, allow_extended_dtype=True) is key
    with pytest.raises(ValueError, match="extended dtype key<fry>"):
        dtypes.canonicalize_dtype(key)


def test_arrays_are_not_hashable() -> None:
    assert not isinstance(jnp.ones(2), collections.abc.Hashable)
    with pytest.raises(TypeError, match="unhashable type: 'Array'"):
        hash(jnp.ones(2))


def test_tracers_are_not_hashable() -> None:
    met = []

    def f(x):
        met.append(isinstance(x, collections.abc.Hashable))
        with pytest.raises(TypeError, match="unhashable type: '[A-Za-z]*Tracer'"):
            hash(x)
        return x * 1.0

    for run in (calque.jit(f), calque.grad(f), lambda x: calque.jvp(f, (x,), (x,))):
        run(2.0)
    calque.vmap(f)(jnp.ones(2))
    assert met == [False] * 4


def test_keys_on_devices() -> None:
    keys = calque.random.split(calque.random.key(3), 1)
    for found in (calque.device_put_sharded(list(keys), calque.devices()[:1]),
                  calque.device_put_replicated(keys[0], calque.devices()[:1])):
        assert found.dtype == keys.dtype and found.shape == (1,)
        np.testing.assert_array_equal(calque.random.key_data(found), calque.random.key_data(keys))
