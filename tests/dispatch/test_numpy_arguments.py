"""Eager functions of NumPy's arrays and numbers are recorded as those of Arrays are: they give the
same types and bits, keep nothing of the caller's memory, and look at values where they have to."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.ndimage

import calque
import calque.numpy as jnp
from calque import lax, nn
from calque.dispatch import replay
from calque.scipy import ndimage, special

RNG = np.random.default_rng(3)
X = RNG.normal(size=(7, 11)).astype(np.float32)
I = RNG.integers(0, 7, size=(7, 11)).astype(np.int32)
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "softmax": (nn.softmax, (X,)), "log_softmax": (nn.log_softmax, (X,)), "silu": (nn.silu, (X,)),
    "elu": (nn.elu, (X,)), "standardize": (nn.standardize, (X,)), "std": (jnp.std, (X, 0)),
    "nan_to_num": (jnp.nan_to_num, (np.where(X > 0, X, np.inf),)), "hypot": (jnp.hypot, (X, X[0])),
    "tril": (jnp.tril, (X,)), "cov": (jnp.cov, (X,)), "gcd": (jnp.gcd, (I, 4)),
    "take_along_axis": (jnp.take_along_axis, (X, I[:, :1], 1)), "modf": (jnp.modf, (X,)),
    "interp": (jnp.interp, (X, np.arange(5.0), np.arange(5) ** 2)), "unwrap": (jnp.unwrap, (X,)),
    "isclose": (jnp.isclose, (X, X + 1e-9)), "block": (jnp.block, ([[X, X], [X, X + 1]],)),
    "meshgrid": (jnp.meshgrid, (X[0], I[0])), "geomspace": (jnp.geomspace, (1.0, 100.0, 5)),
    "split": (lax.split, (X, (2, 5))), "gammaln": (special.gammaln, (I + 0.5,)),
    "logspace": (jnp.logspace, (0, X[0, :3], 4)), "exp": (jnp.exp, (X,)),
    "minimum": (jnp.minimum, (X, 0)), "of int64": (jnp.sin, (I.astype(np.int64),)),
    "of float64": (jnp.add, (X.astype(np.float64), X)), "of bools": (jnp.add, (X > 0, X < 0)),
    "of halves": (nn.softmax, (X.astype(np.float16),)), "turned": (jnp.mean, (X.T[::-2], 1)),
    "number": (jnp.multiply, (X, np.float64(np.sqrt(2)))),
    "numbers": (jnp.add, (np.int64(3), np.float32(0.5))), "rank 0": (jnp.exp, (np.array(2),)),
    "empty": (jnp.std, (np.zeros((3, 0), np.float32), 0)), "argument by name": (
        lambda x: jnp.clip(x, min=X[0], max=X[0] + 1), (X,))}


@pytest.mark.filterwarnings("ignore:Mean of empty|invalid|divide")
@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_of_arrays(name: str, x64: bool) -> None:
    f, args = FUNCTIONS[name]
    with calque.enable_x64(x64):
        own = calque.tree.map(lambda a: jnp.asarray(a) if isinstance(a, (np.ndarray, np.generic))
                              else a, list(args))
        wants = calque.tree.leaves(f(*own))
        for _ in range(replay._OFTEN + 2):  # (then it is one program)
            gots = calque.tree.leaves(f(*args))
            for got, want in zip(gots, wants, strict=True):
                assert (got.shape, got.dtype, got.weak_type) == (
                    want.shape, want.dtype, want.weak_type)
                np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


@pytest.mark.parametrize("f", [nn.softmax, jnp.exp, jnp.ravel, lambda x: jnp.minimum(x, 9),
                               lambda x: lax.reshape(x, (77,)), jnp.asarray, jnp.real,
                               lambda x: jnp.squeeze(x[None]), lambda x: jnp.array(x) + x,
                               lambda x: lax.convert_element_type(x, np.float32),
                               lambda x: lax.bitcast_convert_type(x, np.int32), jnp.atleast_3d,
                               lambda x: jnp.expand_dims(x, 0), jnp.transpose])
def test_the_callers_memory_is_its_own(f: Any) -> None:
    for _ in range(replay._OFTEN + 2):
        x = X.copy()
        got = f(x)
        want = np.array(f(jnp.array(X)))
        x[:] = np.nan  # (it stays writable)
        np.testing.assert_array_equal(np.asarray(got), want)


def test_values_are_looked_at() -> None:
    """Sizes and places that NumPy's arrays say."""
    x = np.arange(12)
    for _ in range(3):
        parts = jnp.array_split(x, np.array([2, 5]))
        assert [p.shape for p in parts] == [(2,), (3,), (7,)]
        np.testing.assert_array_equal(jnp.repeat(x[:3], np.array([1, 0, 2])), [0, 2, 2])
        np.testing.assert_array_equal(jnp.tile(x[:2], np.array([2, 1])), np.tile(x[:2], (2, 1)))
        np.testing.assert_array_equal(jnp.unique(x % 3), [0, 1, 2])
        np.testing.assert_array_equal(jnp.nonzero(x > 9)[0], [10, 11])
        np.testing.assert_array_equal(jnp.roll(x, np.array(3)), np.roll(x, 3))
        assert jnp.linspace(0, 1, np.array(3)).shape == (3,)
    for k in (1, 2):  # the same types, other values
        assert jnp.repeat(x[:2], np.array([k, 1])).shape == (k + 1,)


def test_other_values_of_the_same_types() -> None:
    for k in range(5):
        np.testing.assert_allclose(jnp.std(X * k), np.std(X * k), rtol=1e-5)  # sums of float32
        np.testing.assert_array_equal(jnp.maximum(X, np.float32(k)), np.maximum(X, np.float32(k)))


def test_what_is_no_array_of_numbers() -> None:
    for bad in (np.array(["a"]), np.array([None]), np.array([1], "M8[s]")):
        for f in (nn.softmax, jnp.exp, lambda x: jnp.add(x, 1)):
            with pytest.raises(TypeError):
                f(bad)
    for f in (nn.softmax, jnp.exp, lambda x: jnp.add(x, 1)):
        with pytest.raises(TypeError, match="not a valid array dtype"):
            f(X.astype(">f4"))
    with pytest.raises(ValueError, match="[Mm]asked"):
        jnp.exp(np.ma.masked_array(X, X > 0))


def test_under_transformations() -> None:
    """NumPy's arrays are constants there."""
    np.testing.assert_allclose(calque.grad(lambda a: jnp.sum(jnp.minimum(X, a) * X))(0.5),
                               X[X > 0.5].sum(), rtol=1e-5)  # (another order)
    np.testing.assert_array_equal(calque.jit(lambda a: a * X)(2.0), 2 * X)
    np.testing.assert_array_equal(calque.vmap(lambda a: jnp.exp(X[0]) * a)(jnp.ones(3)),
                                  np.tile(np.asarray(jnp.exp(X[0])), (3, 1)))


def test_coordinates() -> None:
    places = [RNG.uniform(-1, 8, 20), RNG.uniform(-1, 12, 20)]
    want = scipy.ndimage.map_coordinates(X.astype(np.float64), places, order=1, mode="nearest")
    for _ in range(replay._OFTEN + 2):
        np.testing.assert_allclose(ndimage.map_coordinates(X, places, 1, "nearest"), want,
                                   rtol=0, atol=2e-6)  # four products of float32
