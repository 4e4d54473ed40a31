"""Result dtypes, weak types and promotion of calque.numpy: every pair of dtypes, against the
lattice in calque.core.dtypes itself."""
from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax, random
from calque.core import dtypes
from calque.core.avals import ShapedArray
from calque.core.errors import TypePromotionError

OPERANDS = [(d, False) for d in dtypes.ALL] + [
    (dtypes.default_dtype(t), True) for t in (int, float, complex)]
SCALARS = (True, 2, 2.5, 1j)


def out_aval(f: Callable[..., Any], *avals: ShapedArray) -> ShapedArray:
    """The abstract result of f: no program is compiled."""
    return calque.make_jaxpr(f)(*[
        calque.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type)
        for a in avals]).out_avals[0]


def expected(pairs: list[Any], kind: str) -> tuple[Any, bool]:
    dtype, weak = dtypes.promote(pairs)
    if kind == "inexact" and not dtypes.is_inexact(dtype):
        dtype = np.dtype("float64" if dtype.itemsize == 8 else "float32")
    return dtype, weak and dtype != dtypes.bool_


PAIRWISE: list[tuple[str, Callable[..., Any], str]] = [
    ("where", lambda x, y: jnp.where(np.True_, x, y), "same"),
    ("maximum", jnp.maximum, "same"),
    ("concatenate", lambda x, y: jnp.concatenate([x[None], y[None]]), "same"),
    ("true_divide", jnp.true_divide, "inexact"),
]


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("name, f, kind", PAIRWISE, ids=[p[0] for p in PAIRWISE])
def test_every_pair_of_dtypes(name: str, f: Callable[..., Any], kind: str, x64: bool) -> None:
    wrong = []
    with calque.enable_x64(x64):
        for a, b in itertools.product(OPERANDS, OPERANDS):
            a, b = ((dtypes.canonical(d), w) for d, w in (a, b))
            try:
                want = expected([a, b], kind)
            except TypePromotionError:
                with pytest.raises(TypePromotionError):
                    out_aval(f, ShapedArray((), *a), ShapedArray((), *b))
                continue
            got = out_aval(f, ShapedArray((), *a), ShapedArray((), *b))
            if (got.dtype, got.weak_type) != want:
                wrong.append(f"{name}({a}, {b}) is {got!r}, not {want}")
    assert not wrong, wrong[:5]


@pytest.mark.parametrize("scalar", SCALARS, ids=str)
def test_python_scalars_give_way(scalar: Any) -> None:
    wrong = []
    for dtype in (d for d in dtypes.ALL if not dtypes.is_small(d)):
        dtype = dtypes.canonical(dtype)
        want = dtypes.promote([(dtype, False), dtypes.scalar_info(scalar)])
        x = ShapedArray((3,), dtype)
        for f in (lambda x: jnp.maximum(x, scalar), lambda x: jnp.maximum(scalar, x)):
            got = out_aval(f, x)
            if (got.dtype, got.weak_type) != want:
                wrong.append((dtype, got, want))
    assert not wrong, wrong[:5]


@pytest.mark.parametrize("name", ["sum", "prod"])
def test_small_integers_are_summed_wide(name: str) -> None:
    f = getattr(jnp, name)
    for dtype, want in (("int8", "int32"), ("int16", "int32"), ("uint8", "uint32"),
                        ("bool", "int32"), ("int32", "int32"), ("float16", "float16"),
                        ("bfloat16", "bfloat16"), ("complex64", "complex64")):
        assert out_aval(f, ShapedArray((3,), np.dtype(jnp.dtype(dtype)))).dtype.name == want
        with calque.enable_x64(True):
            wide = want.replace("int32", "int64") if dtype != "int32" else "int64"
            assert out_aval(f, ShapedArray((3,), np.dtype(dtype))).dtype.name == wide


def test_means_are_floats() -> None:
    for f in (jnp.mean, jnp.var, jnp.std):
        for dtype, want in (("int8", "float32"), ("bool", "float32"), ("bfloat16", "bfloat16"),
                            ("float16", "float16")):
            assert out_aval(f, ShapedArray((3,), np.dtype(jnp.dtype(dtype)))).dtype.name == want
    assert out_aval(jnp.var, ShapedArray((3,), np.dtype("complex64"))).dtype == np.float32


def test_reductions_are_strong() -> None:
    weak = ShapedArray((3,), np.dtype("float32"), True)
    for f in (jnp.sum, jnp.max, jnp.mean, jnp.std, jnp.prod, jnp.ptp):
        assert not out_aval(f, weak).weak_type, f.__name__


def test_scalar_types() -> None:
    assert jnp.float32 == np.float32 == jnp.float32.dtype and jnp.float32 != "float32"
    assert np.dtype(jnp.bfloat16) == dtypes.bfloat16
    assert isinstance(np.float32(1), jnp.float32) and not isinstance(jnp.ones(2), jnp.float32)
    made = jnp.int8(3)
    assert made.dtype == np.int8 and not made.weak_type and int(made) == 3
    assert jnp.issubdtype(jnp.bfloat16, jnp.floating) and jnp.isdtype("int8", "signed integer")
    assert {jnp.float32: 1}[jnp.float32] == 1
    assert jnp.promote_types("int32", "int64") == np.int64  # not cut by the 32-bit switch


def test_wide_dtypes_are_cut_with_a_warning() -> None:
    for f in (lambda: jnp.zeros(2, "float64"), lambda: jnp.ones(2).astype(np.float64),
              lambda: jnp.asarray(1, dtype="int64")):
        with pytest.warns(UserWarning, match="Explicitly requested dtype .* is not available"):
            assert f().dtype.itemsize == 4
    assert jnp.zeros(2, float).dtype == np.float32  # Python's types mean the default
    with calque.enable_x64(True):
        assert jnp.zeros(2, "float64").dtype == np.float64


def test_strict_promotion_is_refused() -> None:
    with calque.core.config.config.context("jax_numpy_dtype_promotion", "strict"):
        with pytest.raises(TypePromotionError, match="strict"):
            jnp.add(jnp.arange(2), jnp.ones(2))
        assert jnp.add(jnp.arange(2), 1).dtype == np.int32


def test_overflow_of_python_ints() -> None:
    for f in (lambda: jnp.asarray(2**40), lambda: jnp.array([2**40]), lambda: jnp.ones(2) + 2**40,
              lambda: jnp.int8(300)):
        with pytest.raises(OverflowError):
            f()
    assert (jnp.ones(1, "int8") + 300).tolist() == [45]  # wraps, as JAX
    assert jnp.asarray(2**31, dtype="uint32").tolist() == 2**31


x = np.ones(3, np.float32)


@pytest.mark.parametrize("name, f", {
    "iota": lambda: lax.iota(jnp.int64, 3), "full": lambda: lax.full((2,), 1, "float64"),
    "convert_element_type": lambda: lax.convert_element_type(x, jnp.float64),
    "bitcast_convert_type": lambda: lax.bitcast_convert_type(x[:, None].repeat(2, 1), jnp.int64),
    "dot": lambda: lax.dot(x, x, preferred_element_type=jnp.float64),
    "argmax": lambda: lax.argmax(x, 0, jnp.int64), "ones_like": lambda: jnp.ones_like(x, "float64"),
    "": lambda: random.uniform(random.key(0), (2,), jnp.float64),
    "is": lambda: random.randint(random.key(0), (2,), 0, 5, jnp.int64),
    "dtype uint64": lambda: random.bits(random.key(0), (2,), jnp.uint64),
}.items())
def test_dtypes_that_are_cut_warn_once(name: str, f: Callable[[], Any]) -> None:
    with pytest.warns(UserWarning, match=f"Explicitly requested .*{name}") as told:
        f()
    assert len(told) == 1


def test_default_dtypes_do_not_warn() -> None:
    lax.full_like(x, 1, jnp.float64)  # (as in JAX)
    assert lax.convert_element_type(x, float).dtype == random.normal(
        random.key(0), (2,), float).dtype == np.float32
    with pytest.raises(TypeError, match="'no type' is not a dtype"):
        lax.convert_element_type(x, "no type")
