"""Answers at the edges, as JAX 0.10.2 gives them: what is refused, and by which class of error."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax, nn, random
from calque.scipy import linalg

X = jnp.ones(3)
EMPTY = np.zeros(0, np.int32)

REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "sizes of a slice": (lambda: lax.dynamic_slice(X, (0,), (2, 2)), ValueError, "slice_sizes"),
    "starts of a slice": (lambda: lax.dynamic_slice(X, (0, 0), (2,)), ValueError, "start_ind"),
    "starts of an update": (lambda: lax.dynamic_update_slice(X, X, (0, 0)), ValueError, "start"),
    "a device's name": (lambda: calque.device_put(1.0, "gpu:7"), ValueError, "'gpu:7'"),
    "no device": (lambda: calque.device_put(1.0, 3), ValueError, "invalid value: 3"),
    "complex in int8": (lambda: jnp.full(3, 2j, "int8"), TypeError, "complex"),
    "complex in float32": (lambda: jnp.full_like(X, 2j), TypeError, "complex"),
    "fold_in below 0": (lambda: random.fold_in(random.key(0), -1), OverflowError, "-1 out of"),
    "fold_in beyond 32 bits": (lambda: random.fold_in(random.key(0), 2 ** 32), OverflowError,
                               "out of bounds for uint32"),
    "lax.full": (lambda: lax.full((2,), 2j, "float32"), TypeError, "complex"),
    "starts of two types": (lambda: lax.dynamic_slice(jnp.ones((3, 4)), (1, jnp.int8(1)), (2, 2)),
                            TypeError, "integers of the same type, got int32, int8"),
    "update at two types": (lambda: lax.dynamic_update_slice(
        jnp.ones((3, 4)), jnp.ones((1, 2)), (jnp.int8(1), jnp.uint8(1))), TypeError, "same type"),
    "order of keys": (lambda: random.key(0) < random.key(1), TypeError, "lt does not accept"),
    "largest key": (lambda: jnp.maximum(random.key(0), random.key(1)), TypeError, "max does not"),
    "nanmedian of nothing": (lambda: jnp.nanmedian(jnp.ones(0)), IndexError, "size 0"),
    "nanmedian of no rows": (lambda: jnp.nanmedian(jnp.ones((0, 3)), axis=0), TypeError, "Slice"),
    "trapezoid of nothing": (lambda: jnp.trapezoid(jnp.ones((0, 3)), axis=0), IndexError, "size 0"),
    "least of nothing": (lambda: jnp.linalg.norm(jnp.ones(0), -jnp.inf), ValueError, "identity"),
    "least of no column": (lambda: jnp.linalg.norm(jnp.ones((3, 0)), -1), ValueError, "identity"),
    "least singular value": (lambda: jnp.linalg.norm(jnp.ones((0, 3)), -2), ValueError, "identity")}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    f, kind, text = REFUSED[name]
    with pytest.raises(kind, match=text):
        f()


ACCEPTED: dict[str, tuple[Callable[[], Any], Any]] = {
    "full of bool": (lambda: jnp.full(2, 2j, "bool"), [True, True]),
    "no positions, any values": (lambda: X.at[EMPTY].mul(jnp.ones(2), mode="clip"), [1, 1, 1]),
    "no positions added to": (lambda: X.at[EMPTY].add(jnp.ones(2)), [1, 1, 1]),
    "cov of nothing": (lambda: jnp.cov(jnp.ones((2, 0))), [[np.nan] * 2] * 2),
    "cov of less than nothing": (lambda: jnp.cov(jnp.array([1., 2, 3]), ddof=5), -1),
    "one small start": (lambda: lax.dynamic_slice_in_dim(jnp.ones((3, 4)), jnp.uint8(1), 2).shape,
                        [2, 4]),
    "an update at a small start": (lambda: lax.dynamic_update_slice_in_dim(
        jnp.zeros((3, 1)), jnp.ones((1, 1)), jnp.int8(-1), 0), [[0], [0], [1]]),
    "an empty slice": (lambda: X.at[0:0].set(jnp.ones(2)), [1, 1, 1]),
    "an empty array": (lambda: jnp.ones(0).at[:].set(jnp.ones(2)), []),
    "celu": (lambda: nn.celu(jnp.array([-np.inf + 0j, 1 + 2j])), [-1, 1 + 2j])}


@pytest.mark.parametrize("name", ACCEPTED)
def test_answers(name: str) -> None:
    f, want = ACCEPTED[name]
    np.testing.assert_array_equal(f(), want)


def test_transposes_keep_weak_types() -> None:
    for x, weak in ((1.0, True), (1, True), (np.float32(1), False)):
        (got,) = calque.linear_transpose(lambda v: 2 * v, x)(x)
        assert got == 2 and got.weak_type == weak


def test_normals_of_a_half_type() -> None:
    got = calque.eval_shape(lambda: random.multivariate_normal(
        random.key(0), jnp.zeros(2), jnp.eye(2), dtype="float16"))
    assert got.dtype == np.float32  # the draws are float16, mean and cov are not


def test_cholesky_of_scipy_reads_one_triangle() -> None:
    a = jnp.array([[4, .3, -.2], [1.1, 3, .7], [.4, -.9, 5]])
    upper, (factor, _) = calque.jit(lambda a: (
        linalg.cholesky(a), linalg.cho_factor(a, lower=True)))(a)
    np.testing.assert_allclose(upper, [
        [2, .15, -.1], [0, 1.7255434, .41436223], [0, 0, 2.1950635]], rtol=1e-6)
    np.testing.assert_allclose(factor, [
        [2, 0, 0], [.55, 1.6424068, 0], [.2, -.6149512, 2.1405221]], rtol=1e-6)
