"""Operators and methods of arrays: on either side of NumPy arrays and scalars, on tracers too."""
from __future__ import annotations

import operator as op
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.harness import by_each

import calque
import calque.numpy as jnp
from calque.core.trace import Tracer
from calque.dispatch.array import Array

X = np.array([1.5, -2.0, 3.0], np.float32)
N = np.array([1, -2, 3], np.int32)
BINARY = (op.add, op.sub, op.mul, op.truediv, op.floordiv, op.mod, op.eq, op.ne, op.lt, op.le,
          op.gt, op.ge, divmod)
BITS = (op.and_, op.or_, op.xor, op.lshift, op.rshift)


def both(f: Callable[..., Any], *args: Any) -> list[Any]:
    """f eagerly and in a program."""
    return [f(*map(jnp.asarray, args)), calque.jit(f)(*args)]


@pytest.mark.parametrize("jit, binary", by_each(BINARY, 0.2))
def test_operators_of_floats_agree_with_numpy(jit: Any, binary: list[Any]) -> None:
    def floats(x: Any, y: Any) -> Any:
        return [[f(x, y), f(x, 2), f(2.5, y)] for f in binary] + [
            -x, +x, abs(x), y ** 2, 2 ** y, x @ y, y ** 0.5]

    y = np.array([2.0, 4.0, 0.5], np.float32)
    got, want = jit(floats)(X, y), floats(X, y)
    for g, w in zip(calque.tree_util.tree_leaves(got), calque.tree_util.tree_leaves(want)):
        np.testing.assert_allclose(g, w, rtol=1e-5)


@pytest.mark.parametrize("jit, operators", by_each(BITS, 0.3))
def test_operators_of_integers_agree_with_numpy(jit: Any, operators: list[Any]) -> None:
    def bits(n: Any) -> Any:
        return [[f(n, 3), f(3, abs(n)), f(n, abs(n))] for f in operators] + [~n, n ** 2]

    for g, w in zip(calque.tree_util.tree_leaves(jit(bits)(N)),
                    calque.tree_util.tree_leaves(bits(N))):
        assert np.array_equal(g, w)


def test_numpy_on_either_side() -> None:
    x = jnp.asarray(X)
    for made in (X + x, x + X, np.float32(2) * x, x * np.float32(2), np.float64(2) - x,
                 np.ones(3) / x, np.ones(3, np.float32) @ x, np.ones(3) == x, np.int32(2) ** x):
        assert type(made) is Array
    assert (X + x).dtype == np.float32  # np.float64 arrays are cut
    in_program = calque.jit(lambda x: (X + x, np.float32(2) * x, x == X))(X)
    assert np.array_equal(in_program[0], 2 * X) and bool(in_program[2].all())
    assert isinstance(np.sin(x), np.ndarray)


def test_unknown_operands() -> None:
    x = jnp.asarray(X)
    assert (x == None) is False and (x != None) is True and (x == "a") is False  # noqa: E711
    assert x.__add__(None) is NotImplemented
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: x + None, r"unsupported operand type\(s\) for \+"),
        (lambda: x + "a", r"unsupported operand"),
        (lambda: x + [1, 2, 3], r"unsupported operand type\(s\) for \+: 'Array' and 'list'"),
        (lambda: [1] + x, r"unsupported operand type\(s\) for \+: 'list' and 'Array'"),
        (lambda: x == [1], r"unsupported operand type\(s\) for ==: 'Array' and 'list'"),
        (lambda: x < None, "not supported between instances"),
        (lambda: x < [1], "unsupported operand|not supported"),
        (lambda: x @ (1, 2), "unsupported operand"),
        (lambda: x & 1, "and does not accept dtype float32"),
        (lambda: ~x, "not does not accept dtype float32"),
        (lambda: -(x > 0), "neg does not accept dtype bool"),
        (lambda: x + jnp.ones(4), "incompatible shapes")]
    for f, text in cases:
        with pytest.raises(TypeError, match=text):
            f()


METHODS: list[Callable[[Any], Any]] = [
    lambda x: x.sum(), lambda x: x.sum(0, keepdims=True), lambda x: x.prod(), lambda x: x.mean(1),
    lambda x: x.std(), lambda x: x.std(ddof=1), lambda x: x.max(), lambda x: x.min(axis=0),
    lambda x: x.argmax(), lambda x: x.argmin(1), lambda x: (x > 0).all(), lambda x: x.any(),
    lambda x: x.reshape(3, 2), lambda x: x.reshape((-1,)), lambda x: x.reshape(2, -1, order="F"),
    lambda x: x.ravel(), lambda x: x.flatten("F"), lambda x: x.transpose(),
    lambda x: x.transpose(1, 0), lambda x: x.transpose((0, 1)), lambda x: x.T,
    lambda x: x.squeeze(), lambda x: x.swapaxes(0, 1), lambda x: x.dot(x.T),
    lambda x: x.conj(), lambda x: x.real, lambda x: x.imag, lambda x: x.round(1),
    lambda x: x.clip(0, 2), lambda x: x.clip(max=1), lambda x: x.copy(),
    lambda x: x.astype("int32"), lambda x: x.astype(bool), lambda x: x.view("int32"),
    lambda x: x.view("uint8"), lambda x: x.view("complex64"), lambda x: x.trace(),
    lambda x: x.diagonal(1), lambda x: x[0], lambda x: len(x), lambda x: x.nbytes]


@pytest.mark.parametrize("jit, chosen", by_each(range(len(METHODS)), 0.2))
def test_methods_agree_with_numpy(jit: Any, chosen: list[int]) -> None:
    x = np.array([[1.25, -2.0], [3.5, 0.75], [0.0, 4.0]], np.float32).T.copy()
    wide = np.array([[1.25, -2.0, 3.5, 1.0], [3.5, 0.75, 2.0, 8.0]], np.float32)

    def run(values: Any) -> list[Any]:
        a, b = values
        return [METHODS[i](b if i == 35 else a) for i in chosen]

    want = run((x, wide))
    for got in (jit(run)((x, wide)), run((jnp.asarray(x), jnp.asarray(wide)))):
        for i, g, w in zip(chosen, got, want, strict=True):
            g = np.asarray(g)
            assert g.shape == np.shape(w), i
            np.testing.assert_allclose(g, w, rtol=1e-6, err_msg=str(i))


def test_var_of_a_traced_array() -> None:
    assert float(calque.jit(lambda x: x.var())(np.array([1.0, 3.0]))) == 1


def test_complex_scalars_in_eager_functions() -> None:
    assert abs(complex(jnp.log10(jnp.array([100 + 0j]))[0]) - 2) < 1e-6


def test_views() -> None:
    assert jnp.ones(4, "uint8").view("uint16").tolist() == [257, 257]
    assert jnp.array([True, False]).view("uint8").tolist() == [1, 0]
    assert jnp.array([1 + 2j]).view("float32").tolist() == [1, 2]
    for f, text in ((lambda: jnp.ones(3).view("complex64"), "size must be a divisor"),
                    (lambda: jnp.float32(1).view("int8"), "0d array")):
        with pytest.raises(ValueError, match=text):
            f()


def test_round_and_scalars() -> None:
    x = jnp.array([1.4, 2.6])
    assert round(x).dtype == np.int32 and round(x).tolist() == [1, 3]
    assert round(x, 1).dtype == np.float32
    assert float(jnp.float32(2) ** 3) == 8 and bool(jnp.float32(2) == 2)


def test_weak_types_of_operators() -> None:
    w, x = jnp.asarray(2.0), jnp.ones(3)
    assert w.weak_type and (w + 1).weak_type and not (w + x).weak_type
    assert (jnp.ones(3, "bfloat16") * 2.5).dtype == jnp.bfloat16
    assert (jnp.arange(3) * 2.5).dtype == np.float32 and (jnp.arange(3) * 2.5).weak_type


def test_the_same_table_on_arrays_and_tracers() -> None:
    names = [n for n in vars(Array) if n in vars(Tracer)]
    for name in ("__add__", "__rmatmul__", "__getitem__", "at", "T", "astype", "sum", "__iter__"):
        assert name in names
    assert getattr(Array, "sum") is getattr(Tracer, "sum")  # noqa: B009


def test_complex_to_real_warns() -> None:
    with pytest.warns(DeprecationWarning, match="Casting from complex to real"):
        assert jnp.array([1 + 2j]).astype("float32").tolist() == [1]
