"""int4, float8_e4m3 and the like as users meet them: creation, types, indices, NumPy, errors.

What is computed with them is tests/lowering/test_narrow.py and test_float8.py.
"""
from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import calque
import calque.aot
import calque.numpy as jnp
from calque import lax, random
from calque.core import dtypes
from calque.core.errors import TypePromotionError

NAMES = [d.name for d in (*dtypes.SMALL_INTEGERS, *dtypes.SMALL_FLOATS)]


@pytest.mark.parametrize("name", NAMES)
def test_creation(name: str) -> None:
    kind = getattr(jnp, name)
    made = np.asarray(jnp.array([1, 0, 1], kind))
    assert made.dtype == kind.dtype == jnp.zeros(2, name).dtype == getattr(ml_dtypes, name)
    for x, want in ((jnp.ones(2, kind), [1, 1]), (kind(1), 1), (jnp.full((2,), 1, name), [1, 1]),
                    (lax.full_like(jnp.ones(2), 1, kind), [1, 1]), (jnp.eye(1, dtype=name), [[1]])):
        np.testing.assert_array_equal(np.asarray(x).astype(np.float32), np.asarray(
            want).astype(kind.dtype).astype(np.float32))
    assert jnp.ones(3, kind).nbytes == 3 and calque.ShapeDtypeStruct((2,), kind).dtype == kind
    assert str(calque.make_jaxpr(lambda: jnp.ones(2, kind))().out_avals[0]) == f"{name}[2]"
    again = pickle.loads(pickle.dumps(jnp.array([1, 0, 1], kind)))
    assert again.dtype == kind and np.asarray(again).tobytes() == made.tobytes()


def test_arrays_are_shown_and_read() -> None:
    x = jnp.array([1, 7, -8, 9], jnp.int4)
    assert repr(x) == "Array([1, 7, -8, -7], dtype=int4)" and x.tolist() == [1, 7, -8, -7]
    assert repr(jnp.array([1.5, -7, 0.25], "float4_e2m1fn")) == (
        "Array([1.5, -6, 0], dtype=float4_e2m1fn)")
    assert (int(x[1]), float(x[2]), x[3].item(), bool(x[0])) == (7, -8.0, -7, True)
    assert str(calque.make_jaxpr(lambda v: v + v)(x).jaxpr).startswith("{ lambda ; a:i4[4]. let")
    assert jnp.array(100, jnp.int4) == 4 and (x + 9)[0] == -6
    assert calque.eval_shape(lambda v: v @ v, x).dtype == jnp.int4
    assert calque.device_get(x).dtype == jnp.asarray(np.asarray(x)).dtype == jnp.int4


def test_kinds_and_limits() -> None:
    for n in ("int2", "int4"):
        assert jnp.issubdtype(getattr(jnp, n), jnp.signedinteger) and jnp.isdtype(n, "integral")
        assert jnp.isdtype(f"u{n}", "unsigned integer") and not jnp.isdtype(n, "unsigned integer")
        assert not jnp.issubdtype(n, jnp.floating) and jnp.issubdtype(n, np.number)
    for d in dtypes.SMALL_FLOATS:
        assert jnp.issubdtype(d, jnp.floating) and jnp.isdtype(d, "real floating")
        assert jnp.finfo(d).dtype == d
    assert not jnp.issubdtype(jnp.int4, jnp.int2)
    info = jnp.iinfo(jnp.int4)
    assert (info.min, info.max, info.bits, jnp.iinfo("uint2").max) == (-8, 7, 4, 3)
    assert [calque.dtypes.itemsize_bits(n) for n in ("int2", "int4", "float4_e2m1fn", "float8_e3m4",
                                                     "float6_e2m3fn")] == [2, 4, 4, 8, 6]
    assert calque.dtypes.scalar_type_of(jnp.uint4) is int


def test_promotion() -> None:
    """With themselves, booleans and Python integers; floats of a byte also with all others."""
    for d in (*dtypes.SMALL_INTEGERS, *dtypes.SMALL_FLOATS, *dtypes.FLOAT6):
        floating = jnp.issubdtype(d, jnp.floating)
        for other in (d, "bool", int):
            assert jnp.promote_types(d, other) == jnp.promote_types(other, d) == d
        for other in ("int8", "uint32", float):
            if floating:
                assert jnp.promote_types(d, other) == d
            else:
                with pytest.raises(TypePromotionError, match="no available implicit dtype promo"):
                    jnp.promote_types(d, other)
        for other in ("float32", "bfloat16", "complex64", "int4" if floating else "uint4"):
            with pytest.raises(TypePromotionError, match="avoid unintended promotion"):
                jnp.promote_types(d, jnp.dtype(other) if d.name != other else "int2")
    with pytest.raises(TypePromotionError, match=(
            r"Input dtypes \(.<class 'float'>., 'int4'\).*4-bit integers do not support implicit")):
        jnp.int4(1) + 1.5
    with calque.numpy_dtype_promotion("strict"), pytest.raises(
            TypePromotionError, match="path when jax_numpy_dtype_promotion=strict"):
        jnp.promote_types("int8", "int16")
    # 64-bit floats stay, as in JAX; integers that hold those of both are cut
    assert jnp.promote_types("float64", "complex64") == np.complex128
    assert jnp.promote_types("int8", "uint32") == np.int32


def test_indices() -> None:
    x, i = jnp.arange(10), jnp.array([1, 3, -1], jnp.int4)
    np.testing.assert_array_equal(x[i], [1, 3, 9])
    np.testing.assert_array_equal(x[np.asarray(i)], [1, 3, 9])
    np.testing.assert_array_equal(calque.jit(lambda x, i: x[i])(x, i), [1, 3, 9])
    np.testing.assert_array_equal(jnp.zeros(10).at[i].set(1)[9], 1)
    np.testing.assert_array_equal(jnp.take(x, i), [1, 3, 9])
    np.testing.assert_array_equal(lax.dynamic_slice(x, (i[1],), (2,)), [3, 4])
    np.testing.assert_array_equal(calque.jit(lambda x, i: lax.dynamic_slice(x, (i,), (2,)))(
        jnp.arange(300), jnp.int4(-2)), [298, 299])
    np.testing.assert_array_equal(jnp.bincount(jnp.array([1, 3, 3], jnp.uint4)), [0, 1, 0, 2])
    np.testing.assert_array_equal(calque.nn.one_hot(i, 4)[1], [0, 0, 0, 1])


def test_functions() -> None:
    """Sums count in int32, as those of int8; functions give float32; views have as many bits."""
    x = jnp.array([1, 7, -8, 5], jnp.int4)
    assert jnp.sum(x).dtype == jnp.prod(x).dtype == np.int32 and int(jnp.sum(x)) == 5
    assert x.sum(dtype=jnp.int4).dtype == jnp.sort(x).dtype == jnp.int4
    assert jnp.mean(x).dtype == jnp.exp(x).dtype == (x / x).dtype == np.float32
    assert int(jnp.sum(jnp.array([15, 15], jnp.uint4))) == 30
    np.testing.assert_array_equal(x // 2, np.array([0, 3, -4, 2], ml_dtypes.int4))
    np.testing.assert_array_equal(x % 3, np.array([1, 1, 1, 2], ml_dtypes.int4))
    np.testing.assert_array_equal(jnp.unique(x), np.array([-8, 1, 5, 7], ml_dtypes.int4))
    np.testing.assert_array_equal(jnp.clip(x, 0, 100), np.array([1, 7, 0, 5], ml_dtypes.int4))
    assert jnp.zeros((2, 2), jnp.int8).view(jnp.int4).shape == (2, 4)
    np.testing.assert_array_equal(x.view(jnp.uint8), np.array([0x71, 0x58], np.uint8))
    np.testing.assert_array_equal(jnp.array([0x71, 0x58], jnp.uint8).view(jnp.int4), x)
    draws = random.randint(random.key(0), (200,), -8, 8, jnp.int4)
    assert draws.dtype == jnp.int4 and set(draws.tolist()) == set(range(-8, 8))
    assert random.bits(random.key(0), (2,), jnp.uint4).dtype == np.uint8  # JAX's: whole bytes
    for call in (lambda: jnp.abs(x), lambda: lax.abs(x), lambda: lax.abs(x.astype(jnp.uint4)),
                 lambda: lax.conj(x.astype(jnp.float4_e2m1fn)),
                 lambda: calque.grad(lambda v: v * v)(x[0]),
                 lambda: random.normal(random.key(0), (), jnp.int4),
                 lambda: jnp.zeros(2, jnp.float6_e2m3fn)):
        with pytest.raises((TypeError, ValueError), match="int4|float4|float6"):
            call()


def test_artifacts(tmp_path: Path) -> None:
    def f(x: Any, w: Any) -> Any:
        return x + x, jnp.sum(w), lax.scan(lambda c, v: (c * v, c), w[0], w)[1]

    artifact = calque.aot.compile(f, "i4[n]", "f8_e4m3[n]", name="main")
    artifact.save(path := tmp_path / "f.vmfb")
    x, w = np.arange(-3, 3).astype(ml_dtypes.int4), np.arange(1, 7).astype(ml_dtypes.float8_e4m3)
    for got, want in zip(calque.aot.load(path)["main"](x, w), f(x, w), strict=True):
        got, want = np.asarray(got), np.asarray(want)
        assert got.dtype == want.dtype and got.tolist() == want.tolist()
