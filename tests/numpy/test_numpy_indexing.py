"""Basic indexing and .at of calque.numpy against NumPy: every index form, static and traced."""
from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from support.harness import by_each, numpys
from support.oracle import interpret

import calque
import calque.numpy as jnp
from calque import lax
from calque.core.errors import NonConcreteBooleanIndexError

VALUE = np.arange(4 * 5 * 3, dtype=np.float32).reshape(4, 5, 3)
INDICES: list[Any] = [
    0, -1, 3, (1, 2), (1, 2, 0), (), ..., slice(None), slice(1, 3), slice(None, None, 2),
    slice(None, None, -1), slice(None, None, -2), slice(3, 0, -2), slice(-3, None), slice(5, 1),
    slice(2, 2), slice(-9, 9), None, (None, 1), (..., 0), (..., None), (0, ..., -1),
    (slice(1, 3), None, 2), (slice(None), slice(4, None, -3), slice(None, None, 2)),
    (None, slice(0, 2), ..., None, slice(None, None, -1)), (slice(None), 1), (1, slice(2)),
    (slice(0, 0), 1), np.int64(2), np.array(1), (np.uint8(1), slice(None, None, -1))]


@pytest.mark.parametrize("jit, indices", by_each(INDICES, 0.3))
def test_static_indices_in_a_program(jit: Any, indices: list[Any]) -> None:
    got = jit(lambda x: [x[i] for i in indices])(VALUE)
    for i, g in zip(indices, got, strict=True):
        assert np.array_equal(g, VALUE[i]) and g.shape == VALUE[i].shape, i


def test_static_indices_eagerly() -> None:
    x = jnp.asarray(VALUE)
    for i in INDICES:
        assert np.array_equal(x[i], VALUE[i]), i


def test_large_arrays_share_one_program_for_all_ints() -> None:
    large = np.arange(300 * 100, dtype=np.int32).reshape(300, 100)
    x = jnp.asarray(large)
    assert [int(x[i, 3]) for i in (0, 7, -1)] == [int(large[i, 3]) for i in (0, 7, -1)]
    assert np.array_equal(x[10:20], large[10:20])


def test_ints_out_of_bounds_are_clamped() -> None:
    x = jnp.arange(3)
    assert (int(x[5]), int(x[-7]), x[7:].shape) == (2, 0, (0,))
    f = calque.jit(lambda x, i: x[i])
    assert [int(f(x, i)) for i in (5, -7, -1)] == [2, 0, 2]


def test_traced_positions() -> None:
    def f(x: Any, i: Any, j: Any) -> Any:
        return x[i], x[i, j], x[:, j], x[1:3, i, ::-1], x[..., j], x[None, i, ::2]

    compiled = calque.jit(f)
    for i, j in ((0, 1), (-1, 2), (3, -3)):
        for got, want in zip(compiled(VALUE, i, j), f(VALUE, i, j)):
            assert np.array_equal(got, want), (i, j)


def test_dtypes_of_positions() -> None:
    at = [np.asarray(2, dtype) for dtype in ("int8", "uint8", "int32", "uint32")]
    assert calque.jit(lambda x, at: jnp.stack([x[i] for i in at]))(np.arange(5), at).tolist() == (
        [2] * 4)


def test_indexing_is_differentiable_and_maps() -> None:
    x = np.arange(6.0, dtype=np.float32)
    grad = calque.grad(lambda x: (x[1:5:2] * x[::-1][1:3]).sum() + x[2] ** 2)(x)
    eps, numeric = 1e-2, []

    def value(x: Any) -> Any:
        return (x[1:5:2] * x[::-1][1:3]).sum() + x[2] ** 2

    for k in range(6):
        d = np.zeros(6)
        d[k] = eps
        numeric.append((value(x + d) - value(x - d)) / (2 * eps))
    np.testing.assert_allclose(grad, numeric, rtol=1e-3, atol=1e-3)
    rows = calque.vmap(lambda r, i: r[i])(VALUE[:, :, 0], np.array([0, 1, -1, 2]))
    assert rows.tolist() == [VALUE[k, i, 0] for k, i in enumerate((0, 1, -1, 2))]


def test_a_program_for_a_slice_prints_as_in_jax() -> None:
    text = str(calque.make_jaxpr(lambda x: x[-1, :2])(VALUE[:, :, 0]))
    assert "slice[" in text and "squeeze[" in text and "dynamic_slice" not in text
    text = str(calque.make_jaxpr(lambda x, i: x[i])(VALUE, 1))
    for word in ("lt b 0:i32[]", "add b 4:i32[]", "select_n", "dynamic_slice[", "squeeze["):
        assert word in text
    assert not calque.make_jaxpr(lambda x: x[:])(jnp.ones(3)).equations


@pytest.mark.parametrize("dtype, jit", [
    *[(d, numpys) for d in ("float32", "bool", "uint8", "complex64")], ("float32", calque.jit), *[
        pytest.param(d, calque.jit, marks=pytest.mark.slow)
        for d in ("bool", "uint8", "complex64")]])
def test_slices_with_negative_steps(dtype: str, jit: Any) -> None:
    """A strided slice and its reversal, in whatever order: IREE compiles no reversal of a slice."""
    x = (np.arange(8 * 7) % 5).astype(dtype).reshape(8, 7)
    at = [np.s_[::-2], np.s_[-2:1:-3], np.s_[..., ::-2], np.s_[::-2, ::-3], np.s_[1::-1, ::2],
          np.s_[5:5:-2], np.s_[0:1, ::-7]]

    def read(x: Any) -> Any:
        return [x[i] for i in at], [(x == x[0])[i] for i in at], lax.rev(lax.slice(
            lax.rev(x, (1,)), (1, 0), (8, 7), (3, 2)), (0, 1))

    parts, equal, both = jit(read)(x)
    for i, part, same in zip(at, parts, equal):
        np.testing.assert_array_equal(part, x[i])
        np.testing.assert_array_equal(same, (x == x[0])[i])
        np.testing.assert_array_equal(jnp.asarray(x)[i], x[i])
    np.testing.assert_array_equal(both, x[:, ::-1][1:8:3, ::2][::-1, ::-1])


def test_negative_steps_of_constants_and_of_many_carries() -> None:
    x = np.arange(40, dtype=np.float32).reshape(8, 5)
    every = (lambda: jnp.asarray(x), lambda: jnp.arange(40.0).reshape(8, 5),
             lambda: jnp.full((8, 5), 3.0), lambda: jnp.asarray(x)[1:] + 1)
    at = (np.s_[::-2], np.s_[::-3, ::-2], np.s_[-2:1:-3])
    parts = calque.jit(lambda: [[f()[i] for i in at] for f in every])()
    for f, got in zip(every, parts):
        for part, i in zip(got, at):
            np.testing.assert_array_equal(part, np.asarray(f())[i])

    def step(carry: Any, _: Any) -> Any:
        return tuple(v.at[::-2].add(v[::-2][::-1]) for v in carry), carry[0][::-2]

    carried = [x * (i + 1) for i in range(12)]
    outs = [calque.jit(lambda *c: lax.scan(step, c, None, length=3))(*carried),
            calque.jit(lambda: lax.scan(step, tuple(map(jnp.asarray, carried)), None, length=3))()]
    rows = []
    for _ in range(3):
        rows.append(carried[0][::-2])
        carried = [v.copy() for v in carried]
        for v in carried:
            v[::-2] += v[::-2][::-1].copy()
    for last, ys in outs:  # sums of small integers: exact
        np.testing.assert_array_equal(ys, rows)
        for got, want in zip(last, carried, strict=True):
            np.testing.assert_array_equal(got, want)


# ---- .at
UPDATES: list[tuple[Any, Any]] = [
    (0, 5.0), ((1, 2), 7.0), (slice(1, 3), np.ones((5, 3))), (slice(None, None, 2), 2.0),
    ((slice(None), slice(None, None, -2)), np.arange(9.0).reshape(3, 3)), (..., 1.0), ((), 3.0),
    ((..., -1), np.arange(5.0)), ((None, 1), np.ones((1, 5, 3))), (slice(2, 2), 1.0),
    ((slice(3, None, -2), 1, slice(0, 3, 2)), 4.0), ((1, slice(None), 0), np.arange(5.0))]
FORMS: dict[str, Any] = {
    "set": lambda a, b: b, "add": np.add, "multiply": np.multiply, "min": np.minimum,
    "max": np.maximum, "subtract": np.subtract, "divide": np.divide, "power": np.power}


@pytest.mark.parametrize("jit, cases", by_each(
    [(i, v, n) for i, v in UPDATES for n in FORMS], 0.08, lambda c: c[2]))
def test_updates_in_a_program(jit: Any, cases: list[Any]) -> None:
    got = jit(lambda x: [getattr(x.at[i], n)(v) for i, v, n in cases])(VALUE)
    for (i, v, name), g in zip(cases, got):
        want = VALUE.astype(np.float64)
        with np.errstate(divide="ignore"):
            want[i] = FORMS[name](want[i], np.broadcast_to(v, np.shape(want[i])))
        np.testing.assert_allclose(g, want, rtol=1e-5, err_msg=f"{name} {i}")


def test_updates_at_traced_positions() -> None:
    f = calque.jit(lambda x, i: (x.at[i].set(-1), x.at[:, i].add(1), x.at[i, ::2].multiply(2),
                                 x.at[i].get(mode="fill", fill_value=9)))
    small = VALUE[:, :4, 0]
    for i in (0, -1, 2):
        want = [small.copy() for _ in range(3)]
        want[0][i] = -1
        want[1][:, i] += 1
        want[2][i, ::2] *= 2
        for g, w in zip(f(small, i), [*want, small[i]]):
            assert np.array_equal(g, w), i
    for i in (4, -5):  # outside: nothing happens, and fill fills
        a, b, c, d = f(small, i)
        assert all(np.array_equal(v, small) for v in (a, b, c)) and set(d.tolist()) == {9}


def test_modes_of_updates() -> None:
    x = jnp.arange(3.0)
    assert x.at[5].set(1).tolist() == [0, 1, 2]
    assert x.at[5].set(9, mode="clip").tolist() == [0, 1, 9]
    assert x.at[-4].set(9, mode="clip").tolist() == [9, 1, 2]
    assert np.isnan(float(x.at[5].get(mode="fill"))) and float(x.at[5].get()) == 2
    assert int(jnp.arange(3).at[5].get(mode="fill")) == -2**31
    assert x.at[1].apply(jnp.negative).tolist() == [0, -1, 2]
    with pytest.raises(ValueError, match='Unknown gather mode "foo"'):
        x.at[0].set(1, mode="foo")
    with pytest.warns(FutureWarning, match="scatter inputs have incompatible types"):
        assert jnp.arange(3).at[0].set(1.5).tolist() == [1, 1, 2]


def test_updates_keep_weak_types() -> None:
    weak = jnp.full(2, 2.0)
    assert weak.weak_type
    for made in (weak.at[0].set(1), weak.at[0].divide(2), weak.at[0].power(np.float32(2))):
        assert made.weak_type
    assert not jnp.ones(2).at[0].divide(2.0).weak_type


def test_updates_are_differentiable() -> None:
    x = np.arange(4.0, dtype=np.float32)
    g, h = calque.grad(lambda x, v: (x.at[::2].set(v) ** 2).sum(), argnums=(0, 1))(x, x[:2] + 1)
    assert g.tolist() == [0, 2, 0, 6] and h.tolist() == [2, 4]


def test_bad_indices() -> None:
    x = jnp.ones((2, 3))
    cases: list[tuple[Any, type[Exception], str]] = [
        ("a", TypeError, "JAX does not support string indexing; got idx='a'"),
        (1.5, TypeError, "Indexer must have integer or boolean type, got indexer with type float"),
        (jnp.ones(2), TypeError, "Indexer must have integer or boolean type"),
        ([0, 1], TypeError, "Using a non-tuple sequence for multidimensional indexing"),
        ((0, 0, 0), IndexError, "Too many indices: array is 2-dimensional, but 3 were indexed"),
        ((..., ...), IndexError, "single ellipsis"),
        (slice(None, 1.5), TypeError, "'float' object cannot be interpreted as an integer"),
        (slice(None, None, 0), ValueError, "slice step cannot be zero"),
        ((np.array([0, 1]), np.array([0, 1, 2])), ValueError,
         "Incompatible shapes for broadcasting"),
        (np.array([True]), IndexError, "boolean index did not match shape of indexed array"),
        ({}, IndexError, "only integers, slices")]
    for index, kind, text in cases:
        for read in (lambda i: x[i], lambda i: x.at[i].set(0)):
            with pytest.raises(kind, match=text.split("(")[0]):
                read(index)
    with pytest.raises(IndexError, match="out of bounds for axis 0 with size 0"):
        jnp.zeros((0,))[0]
    with pytest.raises(TypeError, match="JAX arrays are immutable and do not support in-place "
                                        r"item assignment. Instead of x\[idx\] = y, use x = "
                                        r"x.at\[idx\].set\(y\)"):
        x[0] = 1
    with pytest.raises(IndexError, match="Slice entries must be static integers"):
        calque.jit(lambda x, i: x[i:])(x, 1)
    with pytest.raises(NonConcreteBooleanIndexError, match="must be concrete"):
        calque.jit(lambda x: x[x > 0])(x)
    with pytest.raises(ValueError, match="Incompatible shapes|Cannot broadcast"):
        x.at[0].set(jnp.ones(4))


def test_iteration() -> None:
    x = jnp.asarray(VALUE)
    assert [r.shape for r in x] == [(5, 3)] * 4
    assert all(np.array_equal(a, b) for a, b in itertools.zip_longest(x, VALUE))
    assert np.array_equal(next(reversed(x)), VALUE[-1])
    assert calque.jit(lambda x: sum(x))(np.arange(4)) == 6
    with pytest.raises(TypeError, match="iteration over a 0-d array"):
        iter(jnp.float32(1))


# ---- axes of more positions than int32 counts
FAR = 2_200_000_000
FAR_READS: list[Any] = [
    lambda x, i: x[-5], lambda x, i: x[FAR - 5], lambda x, i: x[i], lambda x, i: x[i[0]],
    lambda x, i: x[FAR - 6:FAR - 4][1], lambda x, i: x.at[i].get(mode="fill", fill_value=1),
    lambda x, i: jnp.take(x, i), lambda x, i: jnp.take(x, i, mode="wrap"),
    lambda x, i: jnp.take_along_axis(x, i), lambda x, i: lax.dynamic_index_in_dim(x, -5),
    lambda x, i: lax.dynamic_index_in_dim(x, FAR - 5), lambda x, i: lax.dynamic_slice(x, i, (1,)),
    lambda x, i: x[np.array([FAR - 5])], lambda x, i: x[jnp.array([-5])]]


@pytest.mark.parametrize("f", FAR_READS)
def test_positions_beyond_int32(f: Any) -> None:
    """Counted in int64 without x64, too (evaluated by NumPy from what was traced: no page of x but
    one is touched)."""
    x, i = np.zeros(FAR, np.int8), np.array([-5], np.int32)
    x[-5] = 7
    made = calque.make_jaxpr(f)(calque.ShapeDtypeStruct(x.shape, x.dtype), i)
    (out,) = interpret(made.jaxpr.consts_as_inputs(), [*map(np.asarray, made.jaxpr.consts), x, i])
    assert out.dtype == np.int8 and out.ravel().tolist() == [7]


@pytest.mark.slow
def test_positions_beyond_int32_compiled() -> None:
    host = np.zeros(FAR, np.int8)
    host[-5] = 7
    x, i = jnp.asarray(host), jnp.array([-5])
    for f in FAR_READS:
        assert np.ravel(f(x, i)).tolist() == np.ravel(calque.jit(f)(x, i)).tolist() == [7]
    for write in (lambda x, i: x.at[i].set(3), lambda x, i: x.at[-5].set(3),
                  lambda x, i: x.at[i].add(-4), lambda x, i: x.at[i[0]].set(3),
                  lambda x, i: lax.dynamic_update_slice(x, jnp.full(1, 3, np.int8), i)):
        out = calque.jit(write)(x, i)
        assert out[-5] == 3 and jnp.count_nonzero(out) == 1
        assert write(x, i)[-5] == 3


@pytest.mark.parametrize("f, always", [
    (jnp.argmax, False), (jnp.argmin, False), (jnp.argsort, False),
    (lambda x: jnp.nonzero(x, size=1), False),
    (lambda x: jnp.arange(FAR) + x[0], False), (lambda x: lax.iota(np.int32, FAR) + x[0], True)])
def test_results_that_int32_does_not_hold_are_refused(f: Any, always: bool) -> None:
    """jax gives positions modulo 2**32 for most of them."""
    x = calque.ShapeDtypeStruct((FAR,), np.int8)
    with pytest.raises(OverflowError, match=r"too large to convert to int32\.(?s:.*)Fix: enable"):
        calque.eval_shape(f, x)
    if not always:
        with calque.enable_x64(True):
            calque.eval_shape(f, x)


def test_positions_of_top_k_are_int32() -> None:
    with pytest.raises(ValueError, match="top_k returns int32 indices, which will overflow"):
        calque.eval_shape(lambda x: lax.top_k(x, 1), calque.ShapeDtypeStruct((FAR,), np.int8))


def _moved(start: int, size: int, stride: int, length: int) -> slice:
    """Where a window lies, moved inside."""
    extent = (size - 1) * stride + 1
    first = min(max(start, 0), length - extent)
    return slice(first, first + extent, stride)


@pytest.mark.parametrize("start, size, stride", [(1, 2, 1), (9, 2, 1), (0, 2, 2), (2, 1, 3)])
def test_slices_with_computed_starts(start: int, size: int, stride: int) -> None:
    """calque.ds as an index of arrays and of `.at`: read, beside everything else, and written."""
    x = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    s = _moved(start, size, stride, 4)

    def read(x: Any, start: Any) -> list[Any]:
        w = calque.ds(start, size, stride)
        return [x[:, w], x[1, w], x[..., w, 2], x[0, w, [4, 0]], x[:, w, None, ::2],
                x.at[:, w].get()]

    want = [x[:, s], x[1, s], x[..., s, 2], x[0, s, [4, 0]], x[:, s, None, ::2], x[:, s]]
    for got in (read(jnp.asarray(x), start), calque.jit(read)(x, start)):
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b)
    changed = x.copy()
    changed[:, s, 1] += 2
    changed[2, s] = 7
    up = calque.jit(lambda x, i: x.at[:, calque.ds(i, size, stride), 1].add(2).at[
        2, calque.ds(i, size, stride)].set(7))
    np.testing.assert_array_equal(up(x, start), changed)
    rows = calque.vmap(lambda i: jnp.asarray(x)[0, calque.ds(i, 2)])(np.array([0, 2, 1]))
    np.testing.assert_array_equal(rows, np.stack([x[0, i:i + 2] for i in (0, 2, 1)]))


def test_a_computed_slice_longer_than_its_axis_is_refused() -> None:
    with pytest.raises(TypeError, match="slice_sizes must be less than or equal to operand"):
        jnp.zeros((3, 4))[calque.ds(0, 5)]


def test_columns_and_rows_by_letter() -> None:
    """NumPy's documentation of r_ and c_, whose matrices are arrays here."""
    for letter in "rc":
        np.testing.assert_array_equal(jnp.c_[letter, [1, 2, 3], [4, 5, 6]],
                                      [[1, 4], [2, 5], [3, 6]])
    np.testing.assert_array_equal(jnp.r_["r", [1, 2], [4]], [[1, 2, 4]])
    np.testing.assert_array_equal(jnp.r_["c", [1, 2], [4]], [[1], [2], [4]])


@pytest.mark.parametrize("index", [((1, 0), (2, 1)), ((1, 0),), (((1, 0), (0, 1)), 2),
                                   (0, ((1, 2), (0, 1)))])
def test_nested_sequences_of_traced_numbers(index: Any) -> None:
    """What is passed through jit as nested tuples is a tuple of index arrays as it was before."""
    x = np.arange(42.0, dtype=np.float32).reshape(2, 3, 7)
    np.testing.assert_array_equal(calque.jit(lambda x, i: jnp.asarray(x)[i])(x, index), x[index])
    wanted = x.copy()
    np.add.at(wanted, index, 1)
    np.testing.assert_array_equal(calque.jit(lambda x, i: x.at[i].add(1))(x, index), wanted)


@pytest.mark.parametrize("jit", [False, True])
def test_nothing_is_read_of_what_is_empty(jit: bool) -> None:
    """Where the result has no element, indices of an empty axis are no error (as in JAX; NumPy
    raises): Lanczos vectors of no step, `np.eye(0)[[0, -1]]`."""
    around = calque.jit if jit else lambda f: f
    none, i = jnp.zeros((0, 0)), jnp.array([0, -1])
    assert around(lambda x: x[i, :])(none).shape == (2, 0)
    assert around(lambda x: x[i, :0])(jnp.zeros((0, 3))).shape == (2, 0)
    assert around(lambda x: x[None, i])(none).shape == (1, 2, 0)
    assert around(lambda x: x.at[i].get(mode="fill", fill_value=7.0))(none).shape == (2, 0)
    assert calque.grad(lambda x: around(lambda x: x[i, :])(x).sum())(none).shape == (0, 0)
    with pytest.raises(TypeError, match="Slice size at index 0 in gather op is out of range"):
        around(lambda x: x[i])(jnp.zeros((0, 3)))
    along = around(lambda x: jnp.take_along_axis(x, jnp.zeros((1, 3), int), 0))(jnp.zeros((0, 3)))
    np.testing.assert_array_equal(along, np.zeros((1, 3)))  # (JAX's choice: zeros)
