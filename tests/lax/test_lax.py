"""lax: what each function binds and refuses.  Values of the primitives are tested in
tests/primitives over all dtypes; here are the functions around them."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.harness import by_each

import calque
import calque.numpy as jnp
from calque import lax

X = np.array([1.5, -2.0, 0.25], np.float32)
N = np.array([1, 2, 3], np.int32)
M = np.arange(6, dtype=np.float32).reshape(2, 3)

UNARY = ("neg", "abs", "sign", "floor", "ceil", "exp", "exp2", "expm1", "log", "log1p", "sqrt",
         "rsqrt", "cbrt", "square", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
         "tanh", "asinh", "acosh", "atanh", "logistic", "erf", "erfc", "erf_inv", "is_finite")
BINARY = ("add", "sub", "mul", "div", "rem", "max", "min", "atan2", "pow", "nextafter", "eq", "ne",
          "lt", "le", "gt", "ge", "complex")
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right_arithmetic",
        "shift_right_logical")
PRIMITIVE = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}


def binds(f: Callable[..., Any], *args: Any) -> list[str]:
    """The names of the primitives that f binds."""
    return [e.primitive.name for e in calque.make_jaxpr(f)(*args).equations]


def test_each_function_is_its_primitive() -> None:
    for name in UNARY:
        assert binds(getattr(lax, name), X) == [name]
    for name in BINARY:
        assert binds(getattr(lax, name), X, X) == [name]
    for name in BITS:
        assert binds(getattr(lax, name), N, N) == [PRIMITIVE.get(name, name)]
    for name in ("bitwise_not", "population_count", "clz"):
        assert binds(getattr(lax, name), N) == [name.replace("bitwise_", "")]
    for name in ("real", "imag", "conj"):
        assert binds(getattr(lax, name), X.astype(np.complex64)) == [name]


def test_scalars_stay_rank_0() -> None:
    text = str(calque.make_jaxpr(lambda x: lax.mul(np.float32(2), lax.integer_pow(x, 2)))(X))
    assert "mul 2.0:f32[] b" in text and "broadcast" not in text
    for f in (lax.add, lax.max, lax.eq):
        assert binds(lambda x, f=f: f(x, 1.0), X) == [f.__name__]


def test_weak_types() -> None:
    assert lax.add(1.0, 2.0).weak_type and lax.neg(2).weak_type and lax.sin(2.0).weak_type
    assert not lax.add(jnp.float32(1), 2.0).weak_type
    assert not lax.convert_element_type(1.0, float).weak_type
    assert lax.full((2,), 1.0).weak_type and not lax.full((2,), 1.0, float).weak_type
    assert lax.full_like(jnp.asarray(1.0), 2).weak_type


def test_axes_of_size_1_broadcast() -> None:
    got = lax.add(np.ones((4, 1), np.float32), np.ones((1, 3), np.float32))
    assert got.shape == (4, 3) and got.tolist() == [[2.0] * 3] * 4


CUTS = {
    "reshape": M.reshape(3, 2), "dimensions": M.T.reshape(3, 2), "transpose": M.T,
    "broadcast": np.stack([M, M]), "in_dim": np.stack([N, N], 1), "expand": M[None, ..., None],
    "squeeze": M, "collapse": M.ravel(), "rank": N[None, None], "slice": M[:, 1::2],
    "in": M[:, :-1], "index": M[:, -1], "pad": [7, 1, 7, 2, 7], "rev": M[:, ::-1],
    "cat": np.hstack([M, M]), "tile": np.tile(N, 2), "split": N[1:], "iota": [[0, 1], [0, 1]],
    "argmax": [2, 2], "sum": M.sum(0), "prod": 6, "max": 5, "xor": 0, "and": False,
    "clamp": [2, 2, 3], "select": [-1, 2, 3], "select_n": [1, 20, 300],
    "bits": N.view(np.float32), "dot": M @ M.T, "vectors": 14,
    "batch": np.einsum("ij,ik->ijk", M, M), "general": (M * M).sum(0),
    "round": np.rint(M / 2)}


@pytest.mark.parametrize("jit, names", by_each(list(CUTS), 0.25))
def test_shapes_and_cuts(jit: Any, names: list[str]) -> None:
    def run(x: Any, n: Any) -> dict[str, Any]:
        return {
            "reshape": lax.reshape(x, (3, 2)), "dimensions": lax.reshape(x, (3, 2), (1, 0)),
            "transpose": lax.transpose(x, (1, 0)), "broadcast": lax.broadcast(x, (2,)),
            "in_dim": lax.broadcast_in_dim(n, (3, 2), (0,)),
            "expand": lax.expand_dims(x, (0, -1)), "squeeze": lax.squeeze(x[None], (0,)),
            "collapse": lax.collapse(x, 0), "rank": lax.broadcast_to_rank(n, 3),
            "slice": lax.slice(x, (0, 1), (2, 3), (1, 2)),
            "in": lax.slice_in_dim(x, 0, -1, axis=1), "index": lax.index_in_dim(x, -1, 1, False),
            "pad": lax.pad(n, np.int32(7), [(1, -1, 1)]), "rev": lax.rev(x, (1,)),
            "cat": lax.concatenate([x, x], 1), "tile": lax.tile(n, (2,)),
            "split": lax.split(n, (1, 2))[1], "iota": lax.broadcasted_iota("int32", (2, 2), 1),
            "argmax": lax.argmax(x, 1, "int32"), "sum": lax.reduce_sum(x, (0,)),
            "prod": lax.reduce_prod(n, (0,)), "max": lax.reduce_max(x, (0, 1)),
            "xor": lax.reduce_xor(n, (0,)), "and": lax.reduce_and(n > 1, (0,)),
            "clamp": lax.clamp(np.int32(2), n, np.int32(9)), "select": lax.select(n > 1, n, -n),
            "select_n": lax.select_n(n - 1, n, n * 10, n * 100),
            "bits": lax.bitcast_convert_type(n, "float32"),
            "dot": lax.dot(x, x.T), "vectors": lax.dot(n, n),
            "batch": lax.batch_matmul(x[:, :, None], x[:, None]),
            "general": lax.dot_general(x, x, (((0,), (0,)), ((1,), (1,)))),
            "round": lax.round(x / 2, lax.RoundingMethod.TO_NEAREST_EVEN)}

    def chosen(x: Any, n: Any) -> dict[str, Any]:
        made = run(x, n)
        assert set(made) == set(CUTS)
        return {name: made[name] for name in names}

    got = jit(chosen)(M, N)
    for name in names:
        assert np.array_equal(got[name], CUTS[name]), name


def test_dynamic_slices() -> None:
    f = calque.jit(lambda x, i: [
        lax.dynamic_slice(x, (i,), (2,)), lax.dynamic_slice_in_dim(x, i, 2),
        lax.dynamic_index_in_dim(x, i, keepdims=False),
        lax.dynamic_update_slice(x, np.array([8, 9], np.int32), (i,)),
        lax.dynamic_update_index_in_dim(x, np.int32(7), i, 0)])
    x = np.arange(5, dtype=np.int32)
    for i, start in ((1, 1), (-2, 3), (9, 3)):
        got = f(x, i)
        assert got[0].tolist() == got[1].tolist() == [start, start + 1]
        at = i % 5 if i < 5 else 4
        assert int(got[2]) == at
        assert got[3].tolist()[start:start + 2] == [8, 9] and int(got[4][at]) == 7
    assert binds(lambda x: lax.dynamic_slice(x, (1,), (2,)), x) == ["dynamic_slice"]


def test_identities_hand_back_the_operand() -> None:
    x = jnp.asarray(M)
    for f in (lambda x: lax.reshape(x, (2, 3)), lambda x: lax.transpose(x, (0, 1)),
              lambda x: lax.squeeze(x, ()), lambda x: lax.slice(x, (0, 0), (2, 3)),
              lambda x: lax.reduce_sum(x, ()), lambda x: lax.rev(x, ()),
              lambda x: lax.convert_element_type(x, "float32"),
              lambda x: lax.pad(x, 0.0, [(0, 0, 0)] * 2), lambda x: lax.concatenate([x], 0)):
        assert f(x) is x
    assert type(lax.reshape(M, (2, 3))) is calque.Array


def test_stop_gradient_of_trees() -> None:
    grad = calque.grad(lambda t: sum(lax.stop_gradient(t)) * t[0])((3.0, 4.0))
    assert [float(g) for g in grad] == [7.0, 0.0]
    assert lax.stop_gradient({"a": N})["a"] is N  # integers have no derivative to stop
    with pytest.raises(TypeError, match="not a valid JAX type"):
        lax.stop_gradient("a")


def test_precision() -> None:
    assert lax.Precision("highest") is lax.Precision.HIGHEST
    assert repr(lax.Precision(None)) == "Precision.DEFAULT"
    text = str(calque.make_jaxpr(lambda x: lax.dot(x, x, precision="high"))(X))
    assert "precision=(Precision.HIGH, Precision.HIGH)" in text
    with calque.core.config.config.context("jax_default_matmul_precision", "highest"):
        assert "HIGHEST" in str(calque.make_jaxpr(lambda x: lax.dot(x, x))(X))


def test_what_lax_refuses() -> None:
    x = jnp.asarray(X)
    cases: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: lax.add(x, 1), TypeError,
         "lax.add requires arguments to have the same dtypes, got float32, int32"),
        (lambda: lax.add(x, [1.0]), TypeError, "Error interpreting argument to add as a JAX value."
         ".*list.*at position 1"),
        (lambda: lax.add(x, None), TypeError, "NoneType.*at position 1"),
        (lambda: lax.sin(N), TypeError, "sin does not accept dtype int32"),
        (lambda: lax.sin("a"), TypeError, "Error interpreting argument to sin"),
        (lambda: lax.add(x, M), TypeError, "must have the same number of dimensions"),
        (lambda: lax.add(x, np.ones(4, np.float32)), TypeError, "incompatible shapes"),
        (lambda: lax.pow(2, x), TypeError, "pow does not accept dtype int32 at position 0"),
        (lambda: lax.pow(x, np.float16(2)), TypeError, "two inexact dtypes must match"),
        (lambda: lax.integer_pow(N, -1), TypeError, "Integers cannot be raised to negative"),
        (lambda: lax.select(x > 0, x, 0.0), TypeError, "select cases must have the same shapes"),
        (lambda: lax.select(x, x, x), TypeError, "`which` must be boolean or integer"),
        (lambda: lax.clamp(0, x, 1), TypeError, "clamp requires arguments to have the same dtypes"),
        (lambda: lax.reshape(x, (-1,)), TypeError, "new_sizes must all be positive"),
        (lambda: lax.reshape(x, (2, 2)), TypeError, "total size must be unchanged"),
        (lambda: lax.transpose(x, (1,)), TypeError, "isn't a permutation"),
        (lambda: lax.concatenate([], 0), ValueError, "non-empty sequence"),
        (lambda: lax.concatenate([x, N], 0), TypeError, "same dtypes"),
        (lambda: lax.slice(x, (0,), (9,)), TypeError, "limit_indices must be less than or equal"),
        (lambda: lax.index_in_dim(x, 3), IndexError, "index 3 is out of bounds for axis 0"),
        (lambda: lax.pad(x, 0, [(1, 1, 0)]), TypeError, "must be same dtype"),
        (lambda: lax.pad(x, 0.0, [(-4, 0, 0)]), ValueError, "not at least 0"),
        (lambda: lax.squeeze(M, (0,)), ValueError, "cannot select an axis to squeeze out"),
        (lambda: lax.expand_dims(x, (0, 0)), ValueError, "repeated axis"),
        (lambda: lax.broadcast_in_dim(x, (2,), (0,)), TypeError, "broadcast_in_dim"),
        (lambda: lax.reduce_sum(x, (1,)), ValueError, "out-of-bounds indices"),
        (lambda: lax.argmax(x, -1, "int32"), ValueError, "Invalid axis"),
        (lambda: lax.dot(x, M), TypeError, "Incompatible shapes for dot"),
        (lambda: lax.dot(2.0, x), ValueError, "dimension_numbers must be specified"),
        (lambda: lax.dot_general(x, x, (((0,), ()), ((), ()))), TypeError, "contracting"),
        (lambda: lax.batch_matmul(x, x), ValueError, "at least 2D"),
        (lambda: lax.dynamic_slice(x, (0, 0), (1,)), ValueError, "one entry per axis"),
        (lambda: lax.dynamic_slice(x, (0.5,), (1,)), TypeError, "must be integers"),
        (lambda: lax.dynamic_slice(x, (0,), (4,)), TypeError, "less than or equal to operand"),
        (lambda: lax.dynamic_update_slice(x, 1.0, (0,)), TypeError, "the same rank as operand"),
        (lambda: lax.full((2,), x), TypeError, "scalar fill_value"),
        (lambda: lax.broadcast_shapes((2,), (3,)), ValueError, "Incompatible shapes for broad"),
        (lambda: lax.split(x, (1, 1)), ValueError, "Sum of sizes"),
        (lambda: lax.broadcasted_iota("int32", (2,), 1), ValueError, "iota dimension"),
        (lambda: lax.convert_element_type([1], int), TypeError, "Error interpreting argument"),
        (lambda: lax.complex(1, 2), TypeError, "complex does not accept dtype int32")]
    for f, kind, text in cases:
        with pytest.raises(kind, match=text):
            f()
