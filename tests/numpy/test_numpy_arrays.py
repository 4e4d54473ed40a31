"""Creation, shapes, joining, products and reductions of calque.numpy against NumPy."""
from __future__ import annotations

import array
import collections
import functools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.harness import both_ways, by_each

import calque
import calque.numpy as jnp
from calque.dispatch.array import Array

A = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 7 - 1
B = np.arange(12, dtype=np.float32).reshape(3, 4)
V = np.array([3, 1, 2, 1], np.float32)

SHAPES: list[Callable[[Any], Any]] = [
    lambda np: np.reshape(A, (4, -1)), lambda np: np.reshape(A, (6, 4), order="F"),
    lambda np: np.ravel(B), lambda np: np.ravel(B, order="F"), lambda np: np.transpose(A),
    lambda np: np.transpose(A, (1, -1, 0)), lambda np: np.moveaxis(A, (0, 1), (-1, 0)),
    lambda np: np.swapaxes(A, 0, 2), lambda np: np.squeeze(A[:, None, :1]),
    lambda np: np.squeeze(A[:, None], 1), lambda np: np.expand_dims(B, (0, -1)),
    lambda np: np.broadcast_to(V, (2, 3, 4)), lambda np: np.broadcast_arrays(B, V),
    lambda np: np.stack([B, B + 1], axis=1), lambda np: np.vstack([V, B]),
    lambda np: np.hstack([V, V]), lambda np: np.dstack([B, B]),
    lambda np: np.column_stack([V[:3], B]), lambda np: np.concatenate([B, B], axis=-1),
    lambda np: np.concatenate([B, V[None]], axis=None), lambda np: np.append(B, V),
    lambda np: np.split(V, [1, 3]), lambda np: np.array_split(V, 3), lambda np: np.hsplit(B, 2),
    lambda np: np.flip(A), lambda np: np.flip(A, (0, 2)), lambda np: np.fliplr(B),
    lambda np: np.rot90(B), lambda np: np.rot90(B, 3), lambda np: np.roll(B, 5),
    lambda np: np.roll(B, (1, -2), (0, 1)), lambda np: np.tile(V, (2, 2)),
    lambda np: np.repeat(B, 2, axis=1), lambda np: np.repeat(B, 3), lambda np: np.diff(B, axis=0),
    lambda np: np.diff(V, n=2, prepend=0), lambda np: np.atleast_3d(V),
    lambda np: np.meshgrid(V, V[:2]), lambda np: np.meshgrid(V, V[:2], indexing="ij", sparse=True),
    lambda np: np.tril(B, -1), lambda np: np.triu(B, 1), lambda np: np.diag(V, -1),
    lambda np: np.diag(B, 1), lambda np: np.diagonal(A, 1, 1, 2), lambda np: np.trace(A, 0, 1, 2),
    lambda np: np.rollaxis(A, 2), lambda np: np.select([B > 5, B > 2], [B, -B], 1),
    lambda np: np.where(B > 3, B, V), lambda np: np.clip(B, 2, V + 3),
    lambda np: np.matrix_transpose(A), lambda np: np.unstack(B)]
PRODUCTS: list[Callable[[Any], Any]] = [
    lambda np: np.dot(B, V), lambda np: np.dot(A, B.T), lambda np: np.dot(V, V),
    lambda np: np.dot(A, 2), lambda np: np.matmul(A, B.T), lambda np: np.matmul(V, B.T),
    lambda np: np.matmul(A[:, None], A.transpose(0, 2, 1)), lambda np: np.matmul(A[:1], B.T[None]),
    lambda np: np.vdot(B, B), lambda np: np.inner(A, B), lambda np: np.outer(V, B),
    lambda np: np.tensordot(A, B, 2), lambda np: np.tensordot(A, B, ([2, 1], [1, 0])),
    lambda np: np.tensordot(A, B, (1, 0)), lambda np: np.vecdot(A, B), lambda np: np.matvec(A, V),
    lambda np: np.vecmat(V[:3], A), lambda np: np.matmul(A[:, :0], B.T)]
REDUCTIONS: list[Callable[[Any], Any]] = [
    lambda np: np.sum(A), lambda np: np.sum(A, (0, 2), keepdims=True),
    lambda np: np.sum(A, 1, initial=2), lambda np: np.sum(B, where=B > 3),
    lambda np: np.prod(V), lambda np: np.prod(A, -1, where=A > 0), lambda np: np.max(A, 1),
    lambda np: np.min(A, initial=-7), lambda np: np.max(A, 0, where=A > 0, initial=-9),
    lambda np: np.all(B), lambda np: np.any(B, 0), lambda np: np.mean(A, (0, 1)),
    lambda np: np.mean(B, where=B > 3), lambda np: np.var(A, 1), lambda np: np.std(B, ddof=1),
    lambda np: np.var(B, where=B > 3), lambda np: np.argmax(B), lambda np: np.argmin(A, 1),
    lambda np: np.argmax(V, keepdims=True), lambda np: np.count_nonzero(B, axis=1),
    lambda np: np.ptp(A, 0), lambda np: np.average(B, axis=1, weights=V),
    lambda np: np.sum(A[:0]), lambda np: np.prod(A[:0], 0), lambda np: np.max(A[:0], 0, initial=1),
    lambda np: np.sum(A, ()), lambda np: np.max(np.sum(A, 0), keepdims=True),
    lambda np: np.isclose(B, V), lambda np: np.allclose(B, B + 1e-9),
    lambda np: np.array_equal(B, B)]


@pytest.mark.parametrize("jit, table", [
    pytest.param(*p.values, marks=p.marks, id=f"{name}-{p.id}")
    for name, table in (("shapes", SHAPES), ("products", PRODUCTS), ("reductions", REDUCTIONS))
    for p in by_each(table, 0.25)])
def test_functions_agree_with_numpy(jit: Any, table: list[Callable[[Any], Any]]) -> None:
    # operands are arguments, so that nothing is known while tracing
    def run(*operands: Any) -> list[Any]:
        names = dict(zip("ABV", operands))
        saved = {n: globals()[n] for n in names}
        globals().update(names)
        try:
            return [f(jnp) for f in table]
        finally:
            globals().update(saved)

    got = jit(run)(A, B, V)
    for i, (f, g) in enumerate(zip(table, got)):
        try:
            want = f(np)
        except (AttributeError, TypeError):  # a function that this NumPy has not
            continue
        leaves = want if isinstance(want, (list, tuple)) else [want]
        mine = g if isinstance(g, (list, tuple)) else [g]
        assert len(leaves) == len(mine), i
        for m, w in zip(mine, leaves):
            assert m.shape == np.shape(w), (i, m.shape, np.shape(w))
            np.testing.assert_allclose(m, w, rtol=1e-5, atol=1e-6, err_msg=str(i))


@pytest.mark.parametrize("jit, names", by_each(["max", "min", "argmax", "argmin", "sum"], 0.4))
def test_nan_and_infinity_in_reductions(jit: Any, names: list[str]) -> None:
    x = np.array([[1, np.nan, -np.inf], [np.inf, 2, 3]], np.float32)
    got = jit(lambda x: [getattr(jnp, n)(x, axis) for n in names for axis in (0, 1)])(x)
    with np.errstate(invalid="ignore"):
        want = [getattr(np, n)(x, axis) for n in names for axis in (0, 1)]
    for g, w in zip(got, want):
        assert np.array_equal(g, w, equal_nan=g.dtype == np.float32)


def test_half_precision_sums_are_taken_in_float32() -> None:
    for dtype in ("float16", "bfloat16"):
        x = jnp.ones(4096, dtype)
        assert float(x.sum()) == 4096 and float(x.mean()) == 1


# ---- creation
class _Described:
    """Values that say where they lie and are no NumPy array: a picture of PIL is such a one."""
    def __init__(self, values: Any) -> None:
        self.values, self.__array_interface__ = values, values.__array_interface__


def test_array_takes_what_numpy_takes() -> None:
    cases: list[Any] = [1, 2.5, True, 1j, [1, 2], [[1.0], [2]], (), [[], []], range(3),
                        np.arange(3, dtype=np.int8), np.float16(2), memoryview(b"ab"),
                        [np.float32(1), 2], [[True, False]], np.arange(6).reshape(2, 3).T[::-1],
                        collections.deque([1, 2]), collections.deque([np.ones(2), np.zeros(2)]),
                        array.array("d", [1, 2]), _Described(np.arange(6.0).reshape(2, 3))]
    for value in cases:
        got, want = jnp.array(value), np.array(value)
        assert got.shape == want.shape and np.array_equal(got, want.astype(got.dtype))
    for value, dtype, weak in ((1, "int32", True), (1.0, "float32", True), (True, "bool", False),
                               ([1], "int32", False), (np.float64(1), "float32", False)):
        made = jnp.asarray(value)
        assert (made.dtype.name, made.weak_type) == (dtype, weak)


def test_lists_of_arrays_and_tracers() -> None:
    x = jnp.arange(2.0)
    assert jnp.array([x, x]).shape == (2, 2) and jnp.array([x[0], 3]).tolist() == [0, 3]
    got = calque.jit(lambda a: jnp.array([[a, 1], [2.5, a * 2]]))(3)
    assert got.tolist() == [[3, 1], [2.5, 6]] and got.dtype == np.float32
    assert jnp.array([jnp.float16(1), 2]).dtype == np.float16


def test_copies() -> None:
    source = np.arange(3.0)
    made = jnp.asarray(source)
    source[0] = 9
    assert made.tolist() == [0, 1, 2]
    assert jnp.asarray(made) is made and jnp.array(made) is not made
    assert jnp.array(made, copy=False) is made


class _Wrapper:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __jax_array__(self) -> Any:
        return self.value


def test_foreign_objects() -> None:
    class Foreign:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.arange(3)

    assert jnp.asarray(Foreign()).tolist() == [0, 1, 2]
    w = _Wrapper(jnp.arange(3))
    assert (jnp.sin(w) + 0).shape == (3,) and (jnp.ones(3) + w).tolist() == [1, 2, 3]


def test_objects_that_stand_for_arrays() -> None:
    """Functions that look at a shape or a dtype before they convert."""
    v, m = _Wrapper(jnp.array([3.0, 1.0, 2.0])), _Wrapper(jnp.arange(6.0).reshape(2, 3))
    z = _Wrapper(jnp.array([1j, 2]))
    assert jnp.shape(m) == (2, 3) and jnp.ndim(m) == 2 and jnp.size(m, 1) == 3
    assert jnp.iscomplexobj(z) and not jnp.isrealobj(z)
    sorted_ = _Wrapper(jnp.array([1.0, 2.0, 3.0]))
    numpy = {id(w): np.asarray(w.value) for w in (v, m, sorted_)}
    one = _Wrapper(jnp.array(1))
    numpy[id(one)] = np.array(1)
    for name, args in [("searchsorted", (sorted_, v)), ("digitize", (v, sorted_)),
                       ("interp", (v, sorted_, v)), ("heaviside", (v, v)), ("roll", (v, one)),
                       ("insert", (v, one, 7.0)), ("tril_indices_from", (m,)),
                       ("triu_indices_from", (m,))]:
        got = getattr(jnp, name)(*args)
        want = getattr(np, name)(*[numpy.get(id(a), a) for a in args])
        np.testing.assert_array_equal(got, want, name)


def test_other_names_of_functions_are_theirs() -> None:
    for name in ("acos", "atan2", "bitwise_not", "bitwise_left_shift", "conjugate", "deg2rad"):
        f = getattr(jnp, name)
        assert f.__name__ == f.__qualname__ == name and pickle.loads(pickle.dumps(f)) is f


def test_what_array_refuses() -> None:
    cases: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: jnp.array("a"), TypeError, "is not a valid JAX array type"),
        (lambda: jnp.array(None), ValueError, "None is not a valid value for jnp.array"),
        (lambda: jnp.array([1, None]), ValueError, "None is not a valid value"),
        (lambda: jnp.array({1}), TypeError, "not a valid JAX array type"),
        (lambda: jnp.array(np.array(["a"])), TypeError, "not a valid JAX array type"),
        (lambda: jnp.array([[1, 2], [3]]), ValueError, "inhomogeneous shape"),
        (lambda: jnp.array(1, order="F"), NotImplementedError, "order"),
        (lambda: jnp.zeros(2.0), TypeError, "expected a shape|Shapes must be 1D"),
        (lambda: jnp.zeros((2, 1.5)), TypeError, "Shapes must be 1D sequences"),
        (lambda: jnp.zeros((2, -1)), TypeError, "nonnegative"),
        (lambda: jnp.ones(2, "str"), TypeError, "dtype"),
        (lambda: jnp.full((2,), [1]), TypeError, "full requires ndarray or scalar"),
        (lambda: jnp.eye(-1), ValueError, "negative dimensions"),
        (lambda: jnp.linspace(0, 1, -1), ValueError, "must be non-negative"),
        (lambda: jnp.arange(1j), ValueError, "complex"),
        (lambda: jnp.arange(0, 3, 0), ZeroDivisionError, "step is 0"),
        (lambda: calque.jit(jnp.zeros)(3), calque.errors.ConcretizationTypeError, "Shapes must"),
        (lambda: calque.jit(jnp.arange)(3), calque.errors.ConcretizationTypeError, "arange")]
    for f, kind, text in cases:
        with pytest.raises(kind, match=text):
            f()


def test_filled_arrays() -> None:
    for made, want in ((jnp.zeros((2, 3)), np.zeros((2, 3))), (jnp.ones(2, int), np.ones(2, int)),
                       (jnp.full((2,), 7.0), np.full(2, 7.0)), (jnp.eye(3, 2, k=-1),
                                                                 np.eye(3, 2, k=-1)),
                       (jnp.full((2, 3), V[:3]), np.full((2, 3), V[:3])), (jnp.tri(3, 4, 1),
                                                                           np.tri(3, 4, 1)),
                       (jnp.zeros_like(N := jnp.arange(3)), np.zeros(3)),
                       (jnp.full_like(N, 2.9), [2, 2, 2]), (jnp.indices((2, 3)),
                                                            np.indices((2, 3)))):
        assert type(made) is Array and np.array_equal(made, want)
    assert jnp.full(2, 1).weak_type and jnp.zeros_like(1.0).weak_type
    staged = calque.jit(lambda: [jnp.eye(3, k=1), jnp.tri(3), jnp.arange(1, 7, 2.5),
                                 jnp.linspace(0, 1, 5), jnp.indices((2, 3)), jnp.zeros((0, 2))])()
    eager = [np.eye(3, k=1), np.tri(3), np.arange(1, 7, 2.5), np.linspace(0, 1, 5),
             np.indices((2, 3)), np.zeros((0, 2))]
    for s, e in zip(staged, eager):
        np.testing.assert_allclose(s, e, rtol=1e-6)


def test_ranges() -> None:
    assert jnp.arange(5).dtype == np.int32 and jnp.arange(5.0).dtype == np.float32
    assert jnp.arange(np.int8(3)).dtype == np.int8
    for args in ((5,), (2, 9), (9, 2, -3), (0, 1, 0.25), (3, 3), (0.0, 1.0, 0.1)):
        np.testing.assert_allclose(jnp.arange(*args), np.arange(*args), rtol=1e-6)
    line, step = jnp.linspace(0, 10, 5, retstep=True)
    assert line.tolist() == [0, 2.5, 5, 7.5, 10] and float(step) == 2.5
    assert jnp.linspace(0, 10, 4, dtype=int).tolist() == [0, 3, 6, 10]
    assert float(jnp.linspace(0.1, 0.7, 7)[-1]) == np.float32(0.7)  # the endpoint is exact
    np.testing.assert_allclose(jnp.linspace(V, 2, 3, axis=-1), np.linspace(V, 2, 3, axis=-1))
    np.testing.assert_allclose(jnp.linspace(0, 1, 4, endpoint=False), [0, 0.25, 0.5, 0.75])
    assert jnp.linspace(0, 1, 0).shape == (0,) and jnp.linspace(2, 3, 1).tolist() == [2]
    np.testing.assert_allclose(jnp.logspace(0, 2, 3), [1, 10, 100], rtol=1e-5)
    np.testing.assert_allclose(jnp.geomspace(1, 100, 3), [1, 10, 100], rtol=1e-5)
    # float32 values are those of XLA: its order of operations, one multiply-add
    assert jnp.linspace(0.1, 0.7, 7).tolist() == [
        0.10000000149011612, 0.20000000298023224, 0.30000001192092896, 0.4000000059604645, 0.5,
        0.6000000238418579, 0.699999988079071]


def test_shape_errors() -> None:
    x = jnp.ones((2, 3))
    cases: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: x.reshape(4), TypeError, r"cannot reshape array of shape \(2, 3\) \(size 6\)"),
        (lambda: x.reshape(-1, -1), TypeError, "only specify one unknown axis"),
        (lambda: x.reshape(-1, 4), TypeError, "does not evenly divide 6"),
        (lambda: jnp.reshape([1], 1), TypeError, "reshape requires ndarray or scalar"),
        (lambda: jnp.sum([1]), TypeError, "sum requires ndarray or scalar arguments, got "
                                          "<class 'list'> at position 0"),
        (lambda: jnp.sum(x, axis=3), ValueError, "axis 3 is out of bounds for array of dimension"),
        (lambda: jnp.sum(x, axis=(0, 0)), ValueError, "duplicate value in 'axis'"),
        (lambda: jnp.sum(x, axis=1.5), TypeError, "axis must be"),
        (lambda: jnp.sum(x, out=x), NotImplementedError, "'out' argument to jnp.sum"),
        (lambda: jnp.sum(x, initial=x), ValueError, "initial value must be a scalar"),
        (lambda: jnp.max(jnp.zeros((0, 2)), 0), ValueError, "zero-size array to reduction"),
        (lambda: jnp.max(x, where=x > 0), ValueError, "does not have an identity"),
        (lambda: jnp.argmax(jnp.zeros(0)), ValueError, "attempt to get argmax of an empty"),
        (lambda: jnp.transpose(x, (0, 0)), TypeError, "isn't a permutation"),
        (lambda: jnp.squeeze(x, 0), ValueError, "cannot select an axis to squeeze"),
        (lambda: jnp.broadcast_to(x, (2, 2)), ValueError, "Incompatible"),
        (lambda: jnp.concatenate([]), ValueError, "Need at least one array"),
        (lambda: jnp.concatenate([1, x]), ValueError, "Zero-dimensional"),
        (lambda: jnp.concatenate([x, x[0]]), TypeError, "different numbers of dimensions"),
        (lambda: jnp.stack([x, [1]]), TypeError, "stack requires ndarray.*position 1"),
        (lambda: jnp.split(x, 4), ValueError, "equal division"),
        (lambda: jnp.matmul(x, x), TypeError, "contracting dimensions"),
        (lambda: jnp.matmul(2, x), ValueError, "operand 0 must have ndim at least 1"),
        (lambda: jnp.matmul(jnp.ones((2, 3, 4)), jnp.ones((3, 4, 5))), ValueError, "Incompatible"),
        (lambda: jnp.dot(x, [1]), TypeError, "dot requires ndarray.*position 1"),
        (lambda: jnp.dot(x, x.T, precision="foo"), ValueError, "Precision"),
        (lambda: jnp.repeat(x, jnp.array([1, 2, 3]), axis=0), ValueError, "length 2 or 1"),
        (lambda: jnp.mean(x, axis=2), IndexError, "tuple index out of range"),
        (lambda: jnp.var(x[0, 0], axis=-1), IndexError, "tuple index out of range"),
        (lambda: jnp.std(x, axis=(0, 5)), IndexError, "tuple index out of range"),
        (lambda: jnp.tril(x[0]), ValueError, "at least 2D")]
    for f, kind, text in cases:
        with pytest.raises(kind, match=text) as error:
            f()
        assert "\n" in str(error.value) or kind is TypeError, text


def test_eager_functions_are_one_program() -> None:
    """A function of many operations compiles once, and a second call runs no Python rules."""
    from calque.dispatch import eager
    x = jnp.arange(6.0).reshape(2, 3)
    jnp.std(x)
    before = len(eager._memory)
    jnp.std(x + 0)
    assert len(eager._memory) - before <= 1


def test_scalars_repeat_along_any_axis() -> None:
    for axis in (None, 0, -1, 1):
        got = jnp.repeat(jnp.float32(2.5), 3, axis=axis)
        assert got.tolist() == [2.5, 2.5, 2.5]


@both_ways
def test_degrees_of_half_precision(jit: Any) -> None:
    """dtypes and values as jax 0.10.2."""
    dtypes = (jnp.float16, jnp.bfloat16)
    many, ones, got = jit(lambda many, ones, x: (
        [jnp.angle(v, deg=True) for v in many], [jnp.angle(v, deg=True) for v in ones],
        jnp.spacing(x)))([jnp.asarray([-1, 2], d) for d in dtypes],
                         [jnp.asarray(-1.918, d) for d in dtypes],
                         jnp.asarray([1.42188, -1.26562], jnp.bfloat16))
    for dtype, two, one in zip(dtypes, many, ones):
        assert two.dtype == dtype and one.dtype == jnp.float32 and float(one) == 180.0
    assert got.tolist() == [0.0078125, -0.0078125]


@pytest.mark.parametrize("make", [
    lambda: jnp.arange(2**62), lambda: jnp.arange(2**52), lambda: jnp.linspace(0, 1, 2**62),
    lambda: jnp.logspace(0, 1, 2**52), lambda: jnp.geomspace(1, 2, 2**52), lambda: jnp.eye(2**31),
    lambda: jnp.eye(2**70), lambda: jnp.identity(2**28), lambda: jnp.tri(2**28),
    lambda: jnp.indices((2**26, 2**26)), lambda: jnp.hanning(2**52), lambda: jnp.kaiser(2**52, 1.0),
    lambda: jnp.tril_indices(2**28), lambda: jnp.diag_indices(2**52),
    lambda: jnp.fft.fftfreq(2**52), lambda: jnp.zeros(2**70), lambda: jnp.ones((2**31, 2**31)),
    lambda: jnp.full(10**30, 1),
    lambda: jnp.repeat(jnp.zeros(3), np.array([1, 2, 3]), total_repeat_length=2**52)])
def test_more_than_any_memory_is_a_lack_of_memory(make: Any) -> None:
    """Whoever computes it: what NumPy says of a size is said as of a device's memory."""
    with pytest.raises(calque.errors.JaxRuntimeError,
                       match=r"(?s)RESOURCE_EXHAUSTED.*\n  In .*\n  Fix: "):
        make()


def test_a_size_beyond_64_bits_is_told() -> None:
    with pytest.raises(OverflowError, match=r"2\*\*63 or more\.(?s:.*)Fix: "):
        calque.jit(lambda x: jnp.broadcast_to(x, (2**70,)).sum())(1.0)


def test_reshape_of_a_numpy_array_is_numpys() -> None:
    # As in JAX, under jit too: checks in Python of values that are known stay possible (numpyro's
    # supports); ravel and the others give Arrays.
    x = np.arange(4.0)
    seen: list[Any] = []

    @calque.jit
    def f() -> Any:
        seen.extend((jnp.reshape(x == x, (2, -1)).all(-1), jnp.reshape(x[0], (1,))))
        return jnp.reshape(jnp.asarray(x), (2, 2), order="F")

    np.testing.assert_array_equal(f(), x.reshape((2, 2), order="F"))
    assert all(type(s) is np.ndarray for s in seen)
    assert jnp.reshape(x, (2, 2), "F").dtype == x.dtype and jnp.ravel(x).dtype == np.float32
    assert isinstance(jnp.ravel(x), calque.Array) and not np.shares_memory(
        jnp.reshape(x, (2, 2), copy=True), x)
    with pytest.raises(ValueError, match="cannot reshape array of size 4"):
        jnp.reshape(x, 3)


@pytest.mark.parametrize("k", [1 - 2**31, 2**31 - 1, -5, 0, 4])
def test_diagonals_that_no_matrix_has(k: int) -> None:
    near = max(-9, min(k, 9))
    assert jnp.tri(4, 0, 2**40).shape == (4, 0)
    with pytest.raises(OverflowError):
        jnp.tril(jnp.ones((2, 2)), 2**40)
    for shape in ((4, 0), (3, 5), (4, 4)):
        np.testing.assert_array_equal(jnp.tri(*shape, k), np.tri(*shape, near))
        jitted = calque.jit(functools.partial(jnp.tri, *shape, k))
        np.testing.assert_array_equal(jitted(), np.tri(*shape, near))
        x = np.arange(1.0, 1 + np.prod(shape), dtype=np.float32).reshape(shape)
        np.testing.assert_array_equal(jnp.tril(x, k), np.tril(x, near))
        np.testing.assert_array_equal(calque.jit(lambda a: jnp.triu(a, k))(x), np.triu(x, near))
