"""define_prng_impl: keys of a stream of functions of a library's own.

The stream here is a Weyl sequence on two words, so that every answer is a line of NumPy.
"""
import pickle

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import random
from calque.extend.random import define_prng_impl, random_seed

STEP = np.uint32(0x9E3779B9)


def seed(s):
    return jnp.stack([jnp.asarray(s).astype("uint32"), jnp.uint32(0)])


def split(words, shape):
    number = jnp.arange(int(np.prod(shape)), dtype="uint32").reshape(*shape, 1)
    return words + jnp.concatenate([number * 0, number + 1], -1)


def fold_in(words, number):
    return words ^ jnp.stack([number, number])


def random_bits(words, width, shape):
    count = jnp.arange(int(np.prod(shape)), dtype="uint32").reshape(shape)
    return ((words[0] + words[1]) * STEP + count * STEP).astype(f"uint{width}")


IMPL = define_prng_impl(key_shape=(2,), seed=seed, split=split, fold_in=fold_in,
                        random_bits=random_bits, name="weyl", tag="w")


def wanted(first, second, n):
    with np.errstate(over="ignore"):
        return (np.uint32(first) + np.uint32(second)) * STEP + np.arange(n, dtype=np.uint32) * STEP


def test_keys_and_their_names():
    key = random.key(7, impl=IMPL)
    assert str(key.dtype) == "key<w>" and key.shape == () and repr(IMPL) == "PRNGSpec('weyl')"
    assert random.key_impl(key) == IMPL and random.key_dtype(IMPL) == key.dtype
    assert key.dtype != random.key(7).dtype and jnp.issubdtype(key.dtype, calque.dtypes.prng_key)
    np.testing.assert_array_equal(random.key_data(key), [7, 0])
    np.testing.assert_array_equal(random.key_data(random_seed(7, IMPL)), [7, 0])
    again = random.wrap_key_data(random.key_data(key), impl=key.dtype)
    assert again.dtype == key.dtype and pickle.loads(pickle.dumps(key.dtype)) == key.dtype


def test_what_is_drawn():
    key = random.key(7, impl=IMPL)
    np.testing.assert_array_equal(random.bits(key, (3,)), wanted(7, 0, 3))
    keys = random.split(key, 3)
    np.testing.assert_array_equal(random.key_data(keys), [[7, 1], [7, 2], [7, 3]])
    assert random.split(key, (2, 3)).shape == (2, 3)
    np.testing.assert_array_equal(random.key_data(random.fold_in(key, 3)), [4, 3])
    want = (wanted(7, 0, 4) >> 9 | np.uint32(0x3F800000)).view(np.float32) - 1
    np.testing.assert_array_equal(random.uniform(key, (4,)), want)
    np.testing.assert_array_equal(
        calque.jit(lambda k: random.bits(random.split(k)[1], (2,)))(key), wanted(7, 2, 2))
    np.testing.assert_array_equal(
        calque.vmap(lambda k: random.bits(k, (2,)))(keys), [wanted(7, i, 2) for i in (1, 2, 3)])
    _, bits = calque.lax.scan(lambda k, _: (random.fold_in(k, 1), random.bits(k)), key, None, 2)
    np.testing.assert_array_equal(bits, [wanted(7, 0, 1)[0], wanted(6, 1, 1)[0]])
    assert random.gamma(key, 2.0, (3,)).shape == (3,)


def test_words_of_more_axes():
    impl = define_prng_impl(key_shape=(4, 2), seed=lambda s: jnp.ones((4, 2), "uint32"),
                            split=split, fold_in=fold_in, random_bits=random_bits)
    assert random.key_data(random.key(0, impl=impl)).shape == (4, 2)
    assert random.wrap_key_data(jnp.ones((3, 4, 2), "uint32"), impl=impl).shape == (3,)
    with pytest.raises(TypeError, match=r"uint32 of shape \(4, 2\)"):
        random.wrap_key_data(jnp.ones((3, 8), "uint32"), impl=impl)
