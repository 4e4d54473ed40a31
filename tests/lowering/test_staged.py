"""Reductions of more than a cache holds (passes/staged), against NumPy in float64."""
import numpy as np
import pytest

import calque
import calque.numpy as jnp

RNG = np.random.RandomState(11)
# (the last three are cut into parts and a rest: 2 primes, and one number more than whole parts)
SHAPES = [(600_000,), (2, 300_000), (700, 900), (3, 40, 5_000), (599_930,), (599_999,),
          (2, 299_993), (2, 262_147)]


def is_of_kernels(f, *args):
    return "IREE" not in str(calque.jit(f).lower(*args).plan()).split("\n", 1)[0]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_first_extremum_of_all(shape, name):
    x = RNG.randint(-30_000, 30_000, shape).astype(np.float32)  # with equal ones
    f, g = getattr(jnp, name), getattr(np, name)
    assert calque.jit(f)(x) == g(x)
    np.testing.assert_array_equal(calque.jit(lambda x: f(x, axis=-1))(x), g(x, axis=-1))
    small = (x / 300).astype(np.int8)
    assert calque.jit(f)(small) == g(small)
    x.reshape(-1)[[123_456, 234_567]] = np.nan  # the first NaN
    assert calque.jit(f)(x) == 123_456


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float16])
@pytest.mark.parametrize("f, g", [(jnp.argmax, np.argmax), (jnp.argmin, np.argmin)])
def test_extrema_in_the_rest_and_before_it(dtype, f, g):
    n = 786_433  # prime: 96 parts of 8,192, and one number
    x = (RNG.rand(n) * 100).astype(dtype)
    value = 1000 if f is jnp.argmax else -1000
    for places in ([n - 1], [n - 2], [3, n - 1], [n - 2, n - 1]):
        y = x.copy()
        y[places] = value
        assert calque.jit(f)(y) == places[0] == g(y)
        if dtype != np.int32:
            y[-1] = np.nan  # behind an extremum
            assert calque.jit(f)(y) == n - 1
            y[5] = np.nan
            assert calque.jit(f)(y) == 5
    assert calque.jit(f)(np.zeros(n, dtype)) == 0


def test_of_equal_elements_it_is_the_first():
    assert calque.jit(jnp.argmax)(np.zeros(1_000_000, np.float32)) == 0
    x = np.zeros(1_000_000, np.float32)
    x[-1] = 1
    assert calque.jit(jnp.argmax)(x) == 999_999


@pytest.mark.parametrize("shape", SHAPES)
def test_folds_of_what_is_computed(shape):
    """Relative to the sum of magnitudes: float32 sums in blocks lose a few units of 2^-24."""
    x = (RNG.rand(*shape) * 4 - 1).astype(np.float32)
    wide = x.astype(np.float64)
    cases = [
        (lambda x: jnp.exp(x).sum(), np.exp(wide).sum()),
        (lambda x: (x - x.mean()).std(), wide.std()),
        (lambda x: jnp.log(jnp.exp(x - x.max()).sum()) + x.max(),
         np.log(np.exp(wide).sum())),
        (lambda x: (jnp.abs(x) * jnp.arange(x.shape[-1])).sum(-1),
         (np.abs(wide) * np.arange(shape[-1])).sum(-1)),
        (lambda x: calque.nn.logsumexp(x, axis=-1), np.log(np.exp(wide).sum(-1))),
        (lambda x: (x * x).max() - (x * 2).min(), (wide * wide).max() - (wide * 2).min()),
        (lambda x: jnp.where(x > 0, 1, 0).sum(), (wide > 0).sum()),
    ]
    for f, want in cases:
        np.testing.assert_allclose(calque.jit(f)(x), want, rtol=3e-6)


def test_what_is_folded_is_not_written_to_memory():
    x = RNG.rand(1_000_000).astype(np.float32)
    plan = str(calque.jit(lambda x: (jnp.exp(x) * 2).sum()).lower(x).plan())
    assert "exp, mul, reduce_sum" in plan.replace("\n", " ") and is_of_kernels(jnp.argmax, x)


def test_what_is_folded_and_a_result():
    x = RNG.rand(600_000).astype(np.float32)
    made, total, other = calque.jit(lambda x: (jnp.exp(x), jnp.exp(x).sum(), (x * 2)[::-1]))(x)
    np.testing.assert_allclose(made, np.exp(x.astype(np.float64)), rtol=3e-7)
    np.testing.assert_allclose(total, np.exp(x.astype(np.float64)).sum(), rtol=1e-6)
    np.testing.assert_array_equal(other, (x * 2)[::-1])


def test_narrow_floats_are_rounded_once():
    x = RNG.rand(900_000).astype(np.float16)
    total = calque.jit(lambda x: x.sum(dtype=jnp.float32))(x)
    np.testing.assert_allclose(total, x.astype(np.float64).sum(), rtol=1e-6)
    assert calque.jit(lambda x: x.max())(x) == x.max()


def test_integers_wrap_around():
    x = RNG.randint(-2**31, 2**31 - 1, 500_000).astype(np.int32)
    assert calque.jit(lambda x: x.sum())(x) == np.add.reduce(x, dtype=np.int32)
    assert calque.jit(lambda x: x.prod())(x | 1) == np.multiply.reduce(x | 1, dtype=np.int32)


def test_folds_of_parts_that_are_cut_out():
    """Neighbours' differences are read where they lie."""
    x = RNG.rand(400, 500).astype(np.float32)

    def variation(x):
        return jnp.abs(x[1:] - x[:-1]).sum() + jnp.abs(x[:, 1:] - x[:, :-1]).sum()

    wide = x.astype(np.float64)
    want = np.abs(np.diff(wide, axis=0)).sum() + np.abs(np.diff(wide, axis=1)).sum()
    np.testing.assert_allclose(calque.jit(variation)(x), want, rtol=1e-6)
    plan = str(calque.jit(variation).lower(x).plan())
    assert "chain" not in plan, plan  # nothing is written between


def test_lengths_of_any_size_are_looked_at_quickly():
    """Of programs that nothing can hold the error is the runtime's, at once."""
    from calque.lowering.passes import staged

    for n in (2**60 - 93, 2**61 - 1, 2**40):
        assert staged._divisor(n) in (0, staged.MOST)


@pytest.mark.parametrize(("shape", "axes"), [
    ((4, 32, 32, 8, 2), (1, 2, 4)), ((16, 64, 64, 3), (0, 1, 2)), ((300, 40, 4), (0, 2)),
    ((16, 60, 61, 3), (1, 2)), ((5, 9, 1, 130, 1, 2), (1, 5)), ((64, 5, 5, 5), (0, 2, 3))])
@pytest.mark.parametrize("name", ["sum", "max", "prod"])
def test_few_elements_side_by_side(shape, axes, name):
    """Outer axes are reduced first, and the inner ones of what is left."""
    x = (1 + np.random.default_rng(0).normal(size=shape) / 50).astype(np.float32)

    def f(x):
        return getattr(jnp, name)(x * 1.5 - 0.5, axes)

    wanted = getattr(np, name)(x.astype(np.float64) * 1.5 - 0.5, axes)
    # sums and products of up to 65,536 numbers near 1, rounded in blocks
    np.testing.assert_allclose(calque.jit(f)(x), wanted, rtol=2e-4)
    assert is_of_kernels(f, x)
