"""lax: ragged products, random bits, barriers, stacking, and how programs are staged."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.harness import numpys, partly_slow

import calque
import calque.numpy as jnp
from calque import lax
from calque.lax import RaggedDotDimensionNumbers as Numbers

RNG = np.random.default_rng(8)
CLOSE = 2e-6  # relative to sums of at most 12 products of normal numbers, in f32


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=CLOSE * 10)


# ---- ragged products
def by_groups(lhs: Any, rhs: Any, sizes: Any) -> Any:
    out, at = np.zeros((lhs.shape[0], rhs.shape[2]), np.float64), 0
    for g, n in enumerate(sizes):
        out[at:at + n] = lhs[at:at + n].astype(float) @ rhs[g]
        at += n
    return out


@pytest.mark.parametrize("sizes", [(2, 0, 5), (0, 0, 0), (11, 0, 0), (4, 3, 4), (9, 3, 4)])
def test_ragged_dot(sizes: tuple[int, ...]) -> None:
    x, y = normal(11, 5), normal(3, 5, 7)
    close(lax.ragged_dot(x, y, np.array(sizes, np.int32)), by_groups(x, y, sizes))


def test_ragged_dot_of_batches_and_contracted_groups() -> None:
    sizes = np.array([[2, 0, 5], [5, 0, 2]], np.int32)
    x, y = normal(2, 11, 5), normal(3, 2, 5, 7)
    numbers = Numbers((([2], [2]), ([0], [1])), [1], [0])
    for s, out in ((sizes, lax.ragged_dot_general(x, y, sizes, numbers)),
                   (sizes[:1].repeat(2, 0), lax.ragged_dot_general(x, y, sizes[0], numbers))):
        close(out, np.stack([by_groups(x[i], y[:, i], s[i]) for i in (0, 1)]))
    a, b = normal(11, 4), normal(11, 6)
    out = lax.ragged_dot_general(a, b, sizes[0], Numbers((([0], [0]), ([], [])), [0], []))
    close(out, np.stack([a[:2].T @ b[:2], np.zeros((4, 6)), a[2:7].T @ b[2:7]]))
    p, q = normal(3, 4, 5), normal(3, 5, 6)
    numbers = Numbers((([2], [1]), ([0], [0])), [0], [])
    close(lax.ragged_dot_general(p, q, np.array([1, 2]), numbers), p @ q)


def test_ragged_dot_transforms() -> None:
    x, y, sizes = normal(7, 3), normal(2, 3, 4), np.array([3, 2], np.int32)
    v = normal(7, 4)
    gx, gy = calque.grad(lambda x, y: (lax.ragged_dot(x, y, sizes) * v).sum(), (0, 1))(x, y)
    owner = np.array([0, 0, 0, 1, 1, -1, -1])
    close(gx, np.stack([v[i] @ y[g].T if g >= 0 else np.zeros(3) for i, g in enumerate(owner)]))
    close(gy, np.stack([x[owner == g].T @ v[owner == g] for g in (0, 1)]))
    many = np.array([[3, 2], [0, 7]], np.int32)
    outs = calque.vmap(lambda s: lax.ragged_dot(x, y, s))(many)
    close(outs, np.stack([by_groups(x, y, s) for s in many]))


def test_scaled_dot() -> None:
    x, y = normal(4, 6), normal(6, 5)
    p, q = normal(4, 3), normal(2, 5)
    out = lax.scaled_dot(x, y, lhs_scale=p, rhs_scale=q, preferred_element_type=np.float32)
    close(out, (x * p.repeat(2, 1)) @ (y * q.repeat(3, 0)))
    assert lax.scaled_dot(x, y).dtype == jnp.bfloat16


def test_products_of_mixed_dtypes() -> None:
    """Recorded of JAX: the higher kind, the larger size, lhs's; the signed of equal integers."""
    kinds = ("float16", "float32", "int32", "uint32", "int8", "complex64", "bool")
    want = {"float16": "float16 float32 float16 float16 float16 complex64 float16",
            "int32": "float16 float32 int32 int32 int32 complex64 int32",
            "uint32": "float16 float32 int32 uint32 uint32 complex64 uint32",
            "bool": "float16 float32 int32 uint32 int8 complex64 bool",
            "bfloat16": "bfloat16 float32 bfloat16 bfloat16 bfloat16 complex64 bfloat16"}
    for kind, row in want.items():
        outs = [calque.jit(lax.dot).trace(jnp.ones((2, 3), kind), jnp.ones((3, 2), other))
                .jaxpr.outputs[0].aval.dtype.name for other in kinds]
        assert outs == row.split()
    x, y = np.array([[1, 2]], np.int8), np.array([[0.5], [0.25]], np.float32)
    np.testing.assert_array_equal(lax.dot(x, y), [[1.0]])


# ---- random bits: values recorded of JAX
STATE = np.array([1, 2, 3, 4], np.uint32)
LATE = np.array([1, 2, 0xFFFFFFFF, 0xFFFFFFFF], np.uint32)
RECORDED = [
    ("RNG_PHILOX", STATE, (6,), [1, 2, 5, 4], [512747620, 1298009047, 1267190206, 761827841,
                                              1383286907, 1639995030]),
    ("RNG_DEFAULT", LATE, (10,), [1, 2, 2, 0], [
        875035680, 2457449792, 952865925, 536199321, 67759320, 265751716, 222428074, 2049345928,
        2818318232, 2031644422]),
    ("RNG_THREE_FRY", STATE, (3, 3), [1, 2, 9, 4], [
        1576285164, 740599976, 2436392515, 2249660814, 2425682526, 1497962777, 1335360347,
        3981753173, 3812192618]),
    ("RNG_THREE_FRY", STATE, (5,), [1, 2, 6, 4], [1576285164, 2249660814, 740599976, 2425682526,
                                                 2436392515]),
    ("RNG_THREE_FRY", LATE, (10,), [1, 2, 4, 0], [
        3850963268, 2619805951, 629071667, 2343584484, 2271449651, 1211544305, 2527474599,
        2772174290, 2392469163, 879280621])]


@pytest.mark.parametrize("recorded, jit", [
    *[(r, numpys) for r in RECORDED],
    *[pytest.param(*p.values, calque.jit, marks=p.marks) for p in partly_slow(RECORDED, 0.2)]])
def test_bits(recorded: Any, jit: Any) -> None:
    kind, state, shape, after, bits = recorded
    (new, made), *narrower = jit(lambda state: [
        lax.rng_bit_generator(state, shape, *dtype, algorithm=lax.RandomAlgorithm[kind])
        for dtype in ((), ("uint8",), ("uint16",))])(state)
    np.testing.assert_array_equal(new, after)
    np.testing.assert_array_equal(np.ravel(made), bits)
    for width, (_, narrow) in zip((8, 16), narrower, strict=True):
        np.testing.assert_array_equal(np.ravel(narrow), np.array(bits) % 2**width)


def test_wide_bits(x64: None) -> None:
    wants = {"RNG_PHILOX": 5574906407289874532, "RNG_THREE_FRY": 9662219624799024108}
    found, (after, made) = calque.jit(lambda state, wide: (
        [lax.rng_bit_generator(state, (1,), np.uint64, lax.RandomAlgorithm[k])[1] for k in wants],
        lax.rng_bit_generator(wide, (3,), np.uint64)))(STATE, np.array([1, 2], np.uint64))
    assert [int(one[0]) for one in found] == [*wants.values()]
    np.testing.assert_array_equal(after, np.array([1, 4], np.uint64))
    np.testing.assert_array_equal(made, np.array(
        [12229731395331991369, 3437131457114678231, 13465615291114923006], np.uint64))


def test_bits_under_vmap() -> None:
    states = np.stack([STATE, LATE])
    (news, bits), *ones = calque.jit(lambda states: [
        calque.vmap(lambda s: tuple(lax.rng_bit_generator(s, (3,))))(states),
        *[lax.rng_bit_generator(states[i], (3,)) for i in (0, 1)]])(states)
    for i, (new, one) in enumerate(ones):
        np.testing.assert_array_equal(news[i], new)
        np.testing.assert_array_equal(bits[i], one)


def test_rng_uniform_is_new_at_every_call() -> None:
    f = calque.jit(lambda: (lax.rng_uniform(np.float32(2), np.float32(3), (2000,)),
                            lax.rng_uniform(np.int32(-3), np.int32(4), (2000,))))
    (x, k), (y, _) = (tuple(map(np.asarray, f())) for _ in range(2))
    assert ((x >= 2) & (x < 3)).all() and (x != y).mean() > 0.99
    assert abs(x.mean() - 2.5) < 0.05  # eight standard deviations
    assert set(k.tolist()) == set(range(-3, 4))


# ---- barriers and staging
def test_optimization_barrier() -> None:
    tree = {"a": jnp.arange(3.0), "b": (1, np.array([True, False]))}
    f = lambda x: jnp.sin(lax.optimization_barrier(x * x)).sum()  # noqa: E731
    x = np.linspace(0.1, 1, 4, dtype=np.float32)
    out, slope, rows = calque.jit(lambda tree, x: (
        lax.optimization_barrier(tree), calque.grad(f)(x), calque.vmap(f)(x)))(tree, x)
    np.testing.assert_array_equal(out["a"], tree["a"])
    np.testing.assert_array_equal(out["b"][1], [True, False])
    assert lax.optimization_barrier(()) == () and lax.optimization_barrier(2.0).weak_type
    close(slope, 2 * x * np.cos(x * x))
    close(rows, np.sin(x * x))
    assert "optimization_barrier" in str(calque.make_jaxpr(f)(x))


def test_stack_unstack_and_like() -> None:
    x, y = np.arange(6).reshape(2, 3), np.arange(6, 12).reshape(2, 3)
    for axis in (0, 1, -1):
        np.testing.assert_array_equal(lax.stack([x, y], axis), np.stack([x, y], axis))
    for axis in (0, 1, -2):
        for got, want in zip(lax.unstack(x, axis), np.moveaxis(x, axis, 0), strict=True):
            np.testing.assert_array_equal(got, want)
    assert lax.unstack(np.zeros((0, 3))) == ()
    assert lax.broadcast_like(1.0, np.zeros((2, 3))).shape == (2, 3)


def test_staging() -> None:
    assert float(lax.composite(lambda x, *, by: x * by, "my.scale")(3.0, by=2.0)) == 6.0
    assert lax.platform_dependent(3, default=lambda x: x + 1) == 4
    assert lax.add_p.name == "add" and lax.scatter_add_p.name == "scatter-add"
    assert lax.dce_sink([1.0]) is None


BAD = [
    (lambda: lax.ragged_dot(normal(4, 3), normal(2, 3, 4), np.ones(2, np.float32)), TypeError,
     "subtype of np.integer"),
    (lambda: lax.ragged_dot(normal(4, 3), normal(3, 3, 4), np.ones(2, int)), TypeError,
     "expected rhs group dimension size to be 2, got 3"),
    (lambda: lax.ragged_dot(normal(4, 3), normal(2, 5, 4), np.ones(2, int)), TypeError,
     "requires contracting dimensions to have the same shape"),
    (lambda: lax.ragged_dot(normal(4, 3), normal(2, 3, 4), np.ones((1, 2), int)), TypeError,
     "expected group_sizes to have shape"),
    (lambda: lax.ragged_dot(normal(4, 3), normal(2, 3, 4), np.ones(2, int), group_offset=1),
     NotImplementedError, "group_offset is not supported"),
    (lambda: lax.ragged_dot_general(normal(4, 3), normal(4, 3), np.ones(2, int), Numbers(
        (([0], [0]), ([], [])), [0, 1], [])), TypeError, "exactly one lhs ragged dimension"),
    (lambda: lax.ragged_dot_general(normal(4, 3), normal(4, 3), np.ones(2, int), Numbers(
        (([0], [0]), ([], [])), [0], [1])), TypeError, "zero group dimensions"),
    (lambda: lax.rng_bit_generator(STATE[:2], (3,)), TypeError, "key must be uint32"),
    (lambda: lax.rng_bit_generator(STATE, (3,), np.int32), TypeError, "unsupported dtype int32"),
    (lambda: lax.rng_bit_generator(STATE, (3,), algorithm="x"), ValueError, "unknown algorithm"),
    (lambda: lax.rng_uniform(0, 1.0, (3,)), TypeError, "identical dtypes"),
    (lambda: lax.optimization_barrier("a"), TypeError, "passed to optimization_barrier"),
    (lambda: lax.stack([]), IndexError, "no operands"),
    (lambda: lax.stack([np.zeros(2), np.zeros(3)]), ValueError, "must have the same shape"),
    (lambda: lax.stack([np.zeros(2), np.zeros(2, int)]), TypeError, "same dtypes"),
    (lambda: lax.unstack(np.zeros(2), 1), ValueError, "axis 1 is out of bounds"),
    (lambda: lax.broadcast_like(np.zeros(2), np.zeros(3)), ValueError, "Incompatible types"),
    (lambda: lax.platform_dependent(1, tpu=lambda x: x), NotImplementedError, "rule not found for"),
    (lambda: lax.Tolerance(), ValueError, "At least one"),
    (lambda: lax.nothing_p, AttributeError, "no attribute 'nothing_p'"),
]


@pytest.mark.parametrize("f, kind, text", BAD)
def test_errors(f: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        f()


def test_algorithms_of_products() -> None:
    x = normal(2, 3)
    for name in ("DEFAULT", "BF16_BF16_F32", "F32_F32_F32"):
        close(lax.dot(x, x.T, precision=lax.DotAlgorithmPreset[name]), x @ x.T)
    for bad in (lax.DotAlgorithmPreset.TF32_TF32_F32,
                lax.DotAlgorithm(np.float32, np.float32, np.float32)):
        with pytest.raises(ValueError, match="is not supported by dot_general on CPU"):
            lax.dot(x, x.T, precision=bad)
