"""Elementwise functions of calque.numpy against NumPy: one program per dtype, with NaN, infinities,
-0 and extreme integers among the operands, and sizes 0 and 1."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy.integrate
from support.harness import by_each

import calque
import calque.numpy as jnp

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 1e-3, 88.0, -88.0, np.inf, -np.inf, np.nan]
UNARY_FLOAT = ("negative", "absolute", "fabs", "sign", "floor", "ceil", "trunc", "rint", "exp",
               "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "square",
               "reciprocal", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh",
               "tanh", "arcsinh", "arccosh", "arctanh", "degrees", "radians", "isnan", "isinf",
               "isfinite", "signbit", "positive", "logical_not", "isposinf", "isneginf", "real",
               "imag", "conj", "nan_to_num", "isreal", "iscomplex")
BINARY_FLOAT = ("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "fmod",
                "power", "arctan2", "hypot", "maximum", "minimum", "fmax", "fmin", "equal",
                "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and",
                "logical_or", "logical_xor", "copysign", "heaviside", "logaddexp", "logaddexp2",
                "nextafter", "isclose")
UNARY_INT = ("negative", "absolute", "sign", "floor", "ceil", "trunc", "square", "invert",
             "positive", "logical_not", "conj", "isnan", "isfinite")
BINARY_INT = ("add", "subtract", "multiply", "floor_divide", "remainder", "fmod", "maximum",
              "minimum", "equal", "less", "greater_equal", "bitwise_and", "bitwise_or",
              "bitwise_xor", "left_shift", "right_shift", "power")
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-6, "float64": 1e-14,
             "complex64": 1e-5, "complex128": 1e-13}


Jit = Callable[[Callable[..., Any]], Callable[..., Any]]


def shared(names: tuple[str, ...], dtypes: dict[str, float]) -> list[Any]:
    """Parameters (dtype, jit, functions): all by NumPy and a part compiled by default."""
    return [pytest.param(dtype, *p.values, marks=p.marks, id=f"{dtype}-{p.id}")
            for dtype, share in dtypes.items() for p in by_each(names, share) if p.values[1]]


def tables(jit: Jit, parts: list[tuple[Sequence[str], tuple[Any, ...]]]) -> list[dict[str, Any]]:
    """All functions of some operands, and of others, in one program."""
    return jit(lambda every: [
        {n: getattr(jnp, n)(*xs) for n in names} for (names, _), xs in zip(parts, every)])(
            [operands for _, operands in parts])


def table(jit: Jit, names: Sequence[str], *operands: Any) -> dict[str, Any]:
    return tables(jit, [(names, operands)])[0]


def compare(names: Sequence[str], got: dict[str, Any], operands: tuple[Any, ...],
            dtype: Any) -> list[str]:
    wide = [np.asarray(x).astype(np.float64) if dtype.kind in "fV" else np.asarray(x)
            for x in operands]
    wrong = []
    with np.errstate(all="ignore"):
        for name in names:
            want = np.asarray(getattr(np, name)(*(
                operands if name in ("nextafter", "nan_to_num") else wide)))
            have = np.asarray(got[name])
            if dtype.kind in "iub" or have.dtype == bool:
                good = np.array_equal(have, want.astype(have.dtype))
            else:
                scale = TOLERANCE[have.dtype.name]
                with np.errstate(over="ignore"):
                    rounded = want.astype(have.dtype).astype(np.float64)
                good = np.allclose(have.astype(np.float64), rounded, rtol=scale,
                                   atol=scale * 1e-3, equal_nan=True)
            if not good:
                wrong.append(f"{name}: {have} is not {want} of {operands}")
    return wrong


def pairs(values: list[Any], dtype: Any) -> tuple[Any, Any]:
    grid = np.array([(a, b) for a in values for b in values]).T
    with np.errstate(all="ignore"):
        return tuple(np.ascontiguousarray(g).astype(dtype) for g in grid)  # type: ignore


@pytest.mark.parametrize("name, jit, names", shared(UNARY_FLOAT, {
    "float32": 0.3, "float64": 0.2, "float16": 0.1, "bfloat16": 0.1}))
def test_unary_floats(name: str, jit: Jit, names: list[str]) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    x = np.array(SPECIAL).astype(dtype)
    names = [n for n in names if n != "nan_to_num" or dtype.kind == "f"]
    with calque.enable_x64(True):
        assert not compare(names, table(jit, names, x), (x,), dtype)


@pytest.mark.parametrize("name, jit, names", shared(BINARY_FLOAT, {
    "float32": 0.3, "float64": 0.15}))
def test_binary_floats(name: str, jit: Jit, names: list[str]) -> None:
    dtype = np.dtype(name)
    x, y = pairs(SPECIAL, dtype)
    # NumPy's floor_divide of infinities gives NaN (test_special_values_of_division)
    finite = np.isfinite(x) & np.isfinite(y) & (y != 0)
    parts = [([n for n in names if n != "floor_divide"], (x, y)),
             ([n for n in names if n == "floor_divide"], (x[finite], y[finite]))]
    with calque.enable_x64(True):
        for (part, operands), got in zip(parts, tables(jit, parts)):
            assert not compare(part, got, operands, dtype)


@pytest.mark.parametrize("name, jit, names", shared((*UNARY_INT, *BINARY_INT), {
    "int32": 0.25, "int8": 0.15, "uint64": 0.15, **dict.fromkeys((
        "int16", "int64", "uint8", "uint16", "uint32"), 0.0)}))
def test_integers(name: str, jit: Jit, names: list[str]) -> None:
    dtype = np.dtype(name)
    limits = np.iinfo(dtype)
    values = [limits.min, limits.max, 0, 1, 2, 3, 7] + ([-1, -3] if dtype.kind == "i" else [])
    x = np.array(values, dtype)
    a, b = (np.repeat(x, len(x)), np.tile(x, len(x)))
    whole = (b != 0) & ~((a == limits.min) & (b.astype(object) == -1))
    small = (b.astype(object) >= 0) & (b.astype(object) < 8)
    shifts = ("left_shift", "right_shift", "power")
    parts = [([n for n in names if n in UNARY_INT], (x,)),
             ([n for n in names if n in BINARY_INT and n not in shifts], (a[whole], b[whole])),
             ([n for n in names if n in shifts], (a[small], b[small]))]
    with calque.enable_x64(True):
        for (part, operands), got in zip(parts, tables(jit, parts)):
            with np.errstate(all="ignore"):
                assert not compare(part, got, operands, dtype)


def test_nan_to_num_replaces_one_after_the_other() -> None:
    """As in JAX: what stands in for NaN may itself be infinite, and is then replaced."""
    x = np.array([np.nan, np.inf, -np.inf, 1], np.float32)
    low, high = np.finfo(np.float32).min, np.finfo(np.float32).max
    for options, want in (({"nan": -np.inf}, [low, high, low, 1]),
                          ({"posinf": -np.inf, "neginf": 3}, [0, 3, 3, 1]),
                          ({"nan": np.inf, "posinf": 2}, [2, 2, low, 1]),
                          ({"nan": -np.inf, "neginf": -np.inf}, [-np.inf, high, -np.inf, 1])):
        np.testing.assert_array_equal(jnp.nan_to_num(x, **options), np.float32(want))


def test_division_by_zero_keeps_xlas_rules() -> None:
    quotient, remainder, rest = calque.jit(lambda n: (
        jnp.floor_divide(n, 0), jnp.remainder(n, 0), jnp.fmod(n, 0)))(np.arange(3, dtype=np.int32))
    assert quotient.tolist() == [-1, -2, -2]
    assert remainder.tolist() == rest.tolist() == [0, 0, 0]


UNARY_COMPLEX = ("negative", "absolute", "square", "sqrt", "exp", "log", "sin", "cos", "tanh",
                 "conj", "real", "imag", "angle", "reciprocal", "isfinite", "rint", "log10")
BINARY_COMPLEX = ("add", "subtract", "multiply", "divide", "equal", "less", "greater_equal",
                  "power")


@pytest.mark.parametrize("name, jit, names", shared((*UNARY_COMPLEX, *BINARY_COMPLEX), {
    "complex64": 0.25, "complex128": 0.15}))
def test_complex(name: str, jit: Jit, names: list[str]) -> None:
    dtype = np.dtype(name)
    values = [0.5 + 1j, -2 - 0.25j, 1j, 3 + 0j, -1 + 1e-3j]
    x, y = pairs(values, dtype)
    parts = [([n for n in names if n in UNARY_COMPLEX], (x,)),
             ([n for n in names if n in BINARY_COMPLEX], (x, y))]
    with calque.enable_x64(True):
        results = tables(jit, parts)
    for (part, operands), got in zip(parts, results):
        for n in part:
            np.testing.assert_allclose(
                np.asarray(got[n]), getattr(np, n)(*operands), rtol=20 * TOLERANCE[name],
                atol=TOLERANCE[name], err_msg=n)


@pytest.mark.parametrize("jit, names", by_each((
    "add", "multiply", "logical_and", "logical_xor", "bitwise_or", "maximum", "equal", "less"),
    0.25))
def test_bools(jit: Jit, names: list[str]) -> None:
    a, b = pairs([False, True], np.dtype(bool))
    got = table(jit, names, a, b)
    for n in names:
        assert np.array_equal(got[n], getattr(np, n)(a, b)), n
    for f in (jnp.subtract, jnp.left_shift):
        if f is jnp.subtract:
            with pytest.raises(TypeError, match="sub does not accept dtype bool"):
                f(a, b)


@pytest.mark.parametrize("jit, shapes", by_each([(0,), (1,), (2, 0, 3), ()], 0.25))
def test_empty_and_single(jit: Jit, shapes: list[tuple[int, ...]]) -> None:
    def run(x: Any) -> list[Any]:
        return [jnp.sin(x), jnp.hypot(x, 2), jnp.where(x > 0, x, 0), x // 2,
                jnp.logaddexp(x, x), jnp.round(x, 1), jnp.clip(x, 0, 0.25)]

    xs = [np.full(shape, 0.5, np.float32) for shape in shapes]
    for x, got in zip(xs, jit(lambda xs: [*map(run, xs)])(xs)):
        want = [np.sin(x), np.hypot(x, 2), x, x // 2, np.logaddexp(x, x), x, np.minimum(x, 0.25)]
        for g, w in zip(got, want, strict=True):
            assert g.shape == x.shape
            np.testing.assert_allclose(g, w, rtol=1e-6, err_msg=str(x.shape))


def test_powers_take_the_form_of_their_exponent() -> None:
    x, n = jnp.ones(3), jnp.arange(3)
    cases: list[tuple[Callable[..., Any], str]] = [
        (lambda x, n: x ** 2, "integer_pow[y=2]"), (lambda x, n: x ** 2.0, "pow a 2.0:f32[]"),
        (lambda x, n: jnp.power(x, 3), "integer_pow[y=3]"), (lambda x, n: x ** n, "pow a b"),
        (lambda x, n: 2 ** x, "pow 2.0:f32[] a"), (lambda x, n: n ** 2.0, "pow c 2.0:f32[]")]
    for f, text in cases:
        assert text in str(calque.make_jaxpr(f)(x, n)), text
    assert str(calque.make_jaxpr(lambda x, y: 2 * x ** 2 + y)(x, jnp.float32(1))) == (
        "{ lambda ; a:f32[3] b:f32[]. let\n    c:f32[3] = integer_pow[y=2] a\n"
        "    d:f32[3] = mul 2.0:f32[] c\n    e:f32[3] = add d b\n  in (e,) }")
    with pytest.raises(TypeError, match="Integers cannot be raised to negative powers"):
        n ** -1


def test_gradients_have_no_nan_where_a_branch_is_discarded() -> None:
    inf = float("inf")
    cases = [(lambda x: jnp.sinc(x), 0.0), (lambda x: jnp.logaddexp(x, -inf), 0.0),
             (lambda x: jnp.hypot(x, 0.0), 1.0), (lambda x: jnp.logaddexp(-inf, x), -inf)]
    slopes = calque.jit(lambda xs: [calque.grad(f)(x) for (f, _), x in zip(cases, xs)])(
        [x for _, x in cases])
    assert np.isfinite(slopes).all(), slopes


def test_arguments_are_checked() -> None:
    x = jnp.ones(3)
    cases: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: jnp.sin([1.0]), TypeError,
         "sin requires ndarray or scalar arguments, got <class 'list'> at position 0"),
        (lambda: jnp.add(x, "a"), TypeError, "got <class 'str'> at position 1"),
        (lambda: jnp.add(x, jnp.ones(4)), TypeError,
         r"add got incompatible shapes for broadcasting: \(3,\), \(4,\)"),
        (lambda: x + jnp.ones((2, 4)), ValueError,
         r"Incompatible shapes for broadcasting: shapes=\[\(3,\), \(2, 4\)\]"),
        (lambda: jnp.where(x > 0, x, jnp.ones(4)), ValueError,
         r"Incompatible shapes for broadcasting: shapes=\[\(3,\), \(3,\), \(4,\)\]"),
        (lambda: jnp.bitwise_and(x, x), TypeError, "and does not accept dtype float32"),
        (lambda: jnp.fabs(1j), TypeError, "'fabs' does not support complex"),
        (lambda: jnp.hypot(1j, 1), ValueError, "not well defined for complex"),
        (lambda: jnp.clip(1j, 0, 1), ValueError, "Clip received a complex value"),
        (lambda: jnp.round(jnp.arange(3), -1), NotImplementedError, "decimals < 0"),
        (lambda: jnp.round(x, out=x), NotImplementedError, "The 'out' argument to jnp.round"),
        (lambda: jnp.where(x, [1], 2), TypeError, "where requires ndarray.*list.*position 1"),
        (lambda: jnp.select([], []), ValueError, "condlist must be non-empty"),
        (lambda: jnp.add(x, x, out=x), NotImplementedError, "out argument"),
        (lambda: jnp.sin(x=x), TypeError, "positional-only")]
    for f, kind, text in cases:
        with pytest.raises(kind, match=text) as error:
            f()
        if "positional" not in text and kind is not NotImplementedError:
            assert "Fix:" in str(error.value) or "\n" in str(error.value), text


def test_rank_promotion_can_be_refused() -> None:
    config = calque.core.config.config
    with config.context("jax_numpy_rank_promotion", "raise"):
        with pytest.raises(ValueError, match="rank_promotion='raise'"):
            jnp.add(jnp.ones((2, 3)), jnp.ones(3))
        jnp.add(jnp.ones((2, 3)), 1.0)


def test_weak_types_of_comparisons_and_powers():
    """As JAX 0.10.2 has them: weak where both promoted operands are; bools make a power strong."""
    weak, strong = jnp.asarray(2), jnp.asarray([1, 2, 3])
    bools = jnp.asarray([True, False, True])
    assert (weak == weak).weak_type and (strong > 2.0).weak_type and (weak >= bools).weak_type
    assert not (strong == 2).weak_type and not (bools == bools).weak_type
    made = [jnp.power(2, bools), jnp.power(bools, weak), jnp.power(bools, 2)]
    assert [(m.dtype.name, m.weak_type) for m in made] == [("int32", False)] * 3
    # a known integer exponent leaves the other's dtype alone, whatever its own is
    small = jnp.asarray([1, 2], jnp.uint8) ** jnp.asarray(3, jnp.uint32)
    assert small.dtype == np.uint8 and small.tolist() == [1, 8]
    with pytest.raises(TypeError, match="negative powers"):
        jnp.power(strong, jnp.asarray(-1))


@pytest.mark.parametrize("jit, exponents", by_each([2 + 1j, 2 + 3j, 2 - 1j, 1 + 1j], 0.5))
def test_complex_exponents_are_told_apart(jit: Jit, exponents: list[complex]) -> None:
    x = jnp.asarray([1.5, 2.0], jnp.complex64)
    for exponent, got in zip(exponents, jit(lambda x: [x ** e for e in exponents])(x)):
        # f32: exponential and logarithm of numbers near 1
        np.testing.assert_allclose(got, np.asarray([1.5, 2.0]) ** exponent, rtol=1e-5)


def test_bools_choose_in_products_of_vectors():
    """False chooses nothing of infinities and NaN (recorded from JAX: -inf)."""
    bools = jnp.asarray([True, False, True])
    floats = jnp.asarray([1.5, np.nan, -np.inf], jnp.float32)
    for product in (bools @ floats, floats @ bools, jnp.dot(bools, floats)):
        assert product.dtype == np.float32 and float(product) == -np.inf
    assert float(bools @ jnp.asarray([1.5, 7.0, 2.0])) == 3.5


@pytest.mark.parametrize("name, compiled", [
    ("float32", True), ("bfloat16", True), ("float32", False),
    *[pytest.param(name, compiled, marks=pytest.mark.slow) for name, compiled in (
        ("float64", True), ("float16", True), ("float64", False), ("float16", False),
        ("bfloat16", False))]])
def test_special_values_of_division(name: str, compiled: bool) -> None:
    """Values and signs of zeros are NumPy's, but for those of sign, which are its operand's, as JAX
    has them; infinity // finite is the array API's infinity."""
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    x, y = pairs([0.0, -0.0, 1.0, -1.0, 2.5, -7.0, np.inf, -np.inf, np.nan], dtype)
    names = ("floor_divide", "remainder", "divmod[0]", "divmod[1]", "sign")

    def run(x: Any, y: Any) -> Any:
        return [jnp.floor_divide(x, y), jnp.remainder(x, y), *jnp.divmod(x, y), jnp.sign(x)]

    with calque.enable_x64(True):
        got = [np.asarray(v, np.float64) for v in (calque.jit(run) if compiled else run)(x, y)]
    wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
    with np.errstate(all="ignore"):
        quotient, rest = np.divmod(wide_x, wide_y)
        quotient = np.where(np.isinf(wide_x) & np.isfinite(wide_y), wide_x / wide_y, quotient)
    want = [quotient, rest, quotient, rest, np.copysign(np.sign(wide_x), wide_x)]
    for have, expected, place in zip(got, want, names, strict=True):
        np.testing.assert_array_equal(have, expected, err_msg=place)
        known = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(have[known]), np.signbit(expected[known]),
                                      err_msg=f"{place}: signs of zeros")


def test_derivatives_of_remainder_at_its_jumps() -> None:
    """d (x % y) = dx - floor(x / y) dy, also where the remainder is a zero of either sign."""
    x = np.array([3.0, 3.0, -3.0, -3.0, 2.5, -2.5, 2.5, -2.5, 0.0, -0.0])
    y = np.array([3.0, -3.0, 3.0, -3.0, 2.0, 2.0, -2.0, -2.0, 1.0, -1.0])
    with calque.enable_x64(True):
        by_x, by_y = calque.jit(calque.vmap(calque.grad(jnp.remainder, (0, 1))))(x, y)
    np.testing.assert_array_equal(by_x, np.ones_like(x))
    np.testing.assert_array_equal(by_y, -np.floor(x / y))


@pytest.mark.parametrize("compiled", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_complex_values_beside_infinities(compiled: bool) -> None:
    """expm1 as exp has it (Annex G of C99), less 1; acos of zero beside NaN."""
    inf, nan = np.inf, np.nan
    z = np.array([complex(-inf, inf), complex(-inf, nan), complex(inf, inf), complex(inf, nan)])
    zero = np.array([complex(0.0, nan), complex(-0.0, nan)])

    def run(z: Any, zero: Any) -> Any:
        return jnp.expm1(z), jnp.arccos(zero), jnp.arccosh(zero), jnp.sign(zero[:0])

    with calque.enable_x64(True):
        f = calque.jit(run) if compiled else run
        shifted, angle, hyperbolic, none = f(jnp.asarray(z), jnp.asarray(zero))
        np.testing.assert_array_equal(np.real(shifted), [-1, -1, inf, inf])
        np.testing.assert_array_equal(np.imag(shifted), [0, 0, nan, nan])
        np.testing.assert_array_equal(np.asarray(angle), np.arccos(zero))
        np.testing.assert_array_equal(np.asarray(hyperbolic), np.arccosh(zero))
        assert none.shape == (0,)


def test_dlpack_signature_versions_and_empty_arrays() -> None:
    for x in (jnp.zeros((0, 3)), jnp.arange(3.0)):
        host = np.asarray(x)
        np.testing.assert_array_equal(np.from_dlpack(x), host)
        for options in ({}, {"copy": True}, {"max_version": (0, 0)}, {"max_version": (1, 0)},
                        {"dl_device": (1, 0), "copy": None, "stream": None}):
            assert type(x.__dlpack__(**options)).__name__ == "PyCapsule"
    with pytest.raises(TypeError, match="unknown"):
        jnp.zeros(2).__dlpack__(unknown=1)


def test_dlpack_module_says_what_exports() -> None:
    for name in ("bool", "int8", "uint32", "float16", "float32", "complex64", "bfloat16",
                 "float8_e5m2", "int4"):
        x = jnp.ones(2, name)
        if calque.dlpack.is_supported_dtype(x.dtype):
            back = calque.dlpack.from_dlpack(x)
            np.testing.assert_array_equal(np.asarray(back).astype(np.complex64), np.ones(2))
            assert type(x.__dlpack__()).__name__ == "PyCapsule"
        else:
            with pytest.raises(BufferError):
                x.__dlpack__()


def test_scipy_integrate() -> None:
    y, x = np.array([[1.0, 4.0, 9.0], [0.0, -1.0, 2.0]]), np.array([0.0, 1.0, 3.0])
    got = calque.scipy.integrate.trapezoid(y, x)
    np.testing.assert_allclose(got, scipy.integrate.trapezoid(y, x), rtol=1e-6)  # f32


def test_a_wrong_axis_is_of_both_classes() -> None:
    for wrong in (ValueError, IndexError, np.exceptions.AxisError):
        with pytest.raises(wrong, match="axis 5 is out of bounds for array of dimension 2"):
            jnp.expand_dims(jnp.zeros(3), 5)


class Held:
    """An object that answers with an array's attributes, and is none (as flax's nnx.Param)."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "value"), name)

    def __jax_array__(self) -> Any:
        return self.value


@pytest.mark.parametrize(("f", "numpy"), [
    (lambda x, y: x * y, np.multiply), (lambda x, y: x < y, np.less),
    (lambda x, y: jnp.subtract(x, y), np.subtract), (lambda x, y: jnp.maximum(x, y), np.maximum),
    (lambda x, y: x @ y, np.matmul), (lambda x, y: jnp.logaddexp(x, y), np.logaddexp)])
def test_objects_with_the_attributes_of_an_array(f: Any, numpy: Any) -> None:
    """Of the same type as the other operand, in closures and around what is traced."""
    x = np.array([1, 2, 3], np.float32)
    y = Held(jnp.asarray(x[::-1].copy()))
    for made in (f(jnp.asarray(x), y), calque.jit(lambda x: f(x, y))(x),
                 calque.jit(lambda x, v: f(x, Held(v)))(x, y.value),
                 calque.vmap(lambda a: f(a, y))(x[None])[0]):
        np.testing.assert_allclose(made, numpy(x, x[::-1]), rtol=1e-6)


def test_objects_in_loops() -> None:
    last, sums = calque.lax.scan(lambda c, v: (c + Held(v), c), jnp.float32(0),
                                 jnp.array([3.0, 2.0, 1.0]))
    assert last == 6 and sums.tolist() == [0, 3, 5]
