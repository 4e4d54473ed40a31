"""What tests/fuzz_api.py found in functions of numpy, nn, random and scipy, each once mended.

The values beside the calls are what JAX 0.10.2 gives, where nothing else is said.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.harness import both_ways, by_each, numpys

import calque
import calque.numpy as jnp
from calque import lax
from calque.errors import UnexpectedTracerError


@pytest.mark.parametrize("jit, f, sizes", [
    (numpys, "setxor1d", (2, 4, 9)), (numpys, "intersect1d", (2, 4, 9)),
    (calque.jit, "setxor1d", (4,)), *[pytest.param(*case, marks=pytest.mark.slow) for case in (
        (calque.jit, "setxor1d", (2, 9)), (calque.jit, "intersect1d", (2, 4, 9)))]])
def test_sets_without_an_element_are_filled_with_zeros(
        jit: Any, f: str, sizes: tuple[int, ...]) -> None:
    x = jnp.array([1.2, -1, 2, 3], "float32")
    y = x if f == "setxor1d" else x + 10
    call = getattr(jnp, f)
    found = jit(lambda a, b: [call(a, b, size=size) for size in sizes])(x, y)
    for size, jitted in zip(sizes, found, strict=True):
        np.testing.assert_array_equal(call(x, y, size=size), np.zeros(size, "float32"))
        np.testing.assert_array_equal(jitted, np.zeros(size, "float32"))


@both_ways
@pytest.mark.parametrize("f", ["setxor1d", "intersect1d"])
def test_other_sets_are_filled_with_their_least_element(jit: Any, f: str) -> None:
    x, y = jnp.array([1.2, -1, 2, 3], "float32"), jnp.array([2., 3, 10], "float32")
    some = jit(lambda a, b: getattr(jnp, f)(a, b, size=6))(x, y)
    assert some[-1] == some.min() != 0


def test_trapezoid_of_int32_is_float32_in_x64() -> None:
    with calque.enable_x64(True):
        assert jnp.trapezoid(jnp.array([1, 2], "int32")).dtype == "float32"
        assert jnp.trapezoid(jnp.array([1, 2], "int64")).dtype == "float64"
        assert jnp.trapezoid(jnp.array([1., 2], "float32"), dx=jnp.float64(1)).dtype == "float64"


@pytest.mark.parametrize("order, want", [(1, 6), (np.inf, 3), (-np.inf, 1)])
def test_vector_norms_that_keep_integers(order: float, want: int) -> None:
    out = jnp.linalg.vector_norm(jnp.array([1, -2, 3], "int32"), ord=order)
    assert out.dtype == "int32" and out == want


def test_poly_of_nothing_is_a_scalar() -> None:
    out = jnp.poly(jnp.array([], "float32"))
    assert out.shape == () and out == 1


def test_compress_to_more_than_there_is() -> None:
    x = jnp.arange(3.)
    with pytest.raises(ValueError, match="size must be positive and not greater than the size"):
        jnp.extract(x > 0, x, size=4)
    np.testing.assert_array_equal(jnp.extract(x > 0, x, size=3), [1, 2, 0])


@pytest.mark.filterwarnings("ignore:scatter inputs have incompatible types")
def test_updates_of_integers_by_floats() -> None:
    x, b = jnp.array([2, 4, 6, 8], "int16"), jnp.array([.5, 2.5], "bfloat16")
    wants = [("multiply", [1, 10, 6, 8], "int16"), ("add", [2, 6, 6, 8], "int16"),
             ("power", [1, 16, 6, 8], "int16"), ("divide", [np.inf, 2, 6, 8], "float32")]
    indices = (slice(2), jnp.array([0, 1]))
    found = calque.jit(lambda x, b: [
        [getattr(x.at[i], name)(b) for i in indices] for name, *_ in wants])(x, b)
    for (name, want, dtype), outs in zip(wants, found, strict=True):
        for out in outs:
            assert out.dtype == dtype, name
            np.testing.assert_array_equal(out, want, err_msg=name)
    np.testing.assert_array_equal(jnp.array([-1, -1, 5]).at[:2].add(.5), [0, 0, 5])
    np.testing.assert_array_equal(
        jnp.add.at(jnp.array([-1, -1]), jnp.array([0, 1]), jnp.array([.5, 1.5]), inplace=False),
        [0, 0])


def test_log_ndtr_of_nan() -> None:
    from calque.scipy import special
    x = np.array([np.nan, -3.4e38, -np.inf, np.inf, -1e10, -30, 0, .5], "float32")
    for f in (numpys(special.log_ndtr), calque.jit(special.log_ndtr)):
        out = np.asarray(f(x))
        assert np.isnan(out[0])
        import scipy.special as sp
        np.testing.assert_allclose(out[2:], sp.log_ndtr(np.asarray(x[2:], "f8")), rtol=1e-5)


@pytest.mark.parametrize("name", ["radians", "degrees"])
def test_degrees_of_weak_arrays_are_strong(name: str) -> None:
    f = getattr(jnp, name)
    assert not f(jnp.stack([jnp.asarray(4.)])).weak_type and f(2.).weak_type


def test_weak_types_of_special_functions() -> None:
    from calque.scipy import special
    weak, whole = jnp.stack([jnp.asarray(.5)]), jnp.array([1, 2], "int32")
    assert weak.weak_type

    def weak_types(f: Any, *calls: Any) -> list[bool]:
        return [s.weak_type for s in calque.eval_shape(lambda: [f(*xs) for xs in calls])]

    for f in (special.rel_entr, special.kl_div):
        assert weak_types(f, (whole, -1.5), (weak, weak), (2., 3.)) == [False, False, True]
    assert weak_types(special.logit, (weak,), (.5,)) == [False, True]
    assert weak_types(special.gamma, (weak,), (.5,)) == [False, False]
    assert weak_types(special.gammasgn, (weak,), (4,)) == [False, False]
    assert not special.logit(weak).weak_type and special.logit(.5).weak_type


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
def test_logaddexp_of_integers_along_an_axis(name: str) -> None:
    f, x = getattr(jnp, name), jnp.array([2, 2, 5], "int16")
    whole, parts = calque.jit(lambda x: (f.reduce(x), f.accumulate(x)))(x)
    assert whole.dtype == parts.dtype == "float32"
    want = getattr(np, name).reduce(np.array([2., 2, 5]))
    np.testing.assert_allclose(whole, want, rtol=1e-6)


@pytest.mark.parametrize("jit, names", by_each(["logaddexp", "logaddexp2"], 0.5))
def test_logaddexp_of_complex_nan(jit: Any, names: list[str]) -> None:
    """Both parts: an exponential of NaN has no angle."""
    odd = jnp.array([complex(np.nan, 1), complex(1, np.nan), 1 + 1j], "complex64")
    for got in jit(lambda odd: [getattr(jnp, n)(odd, 1 + 1j) for n in names])(odd):
        got = np.asarray(got)
        assert np.isnan(got[:2].real).all() and np.isnan(got[:2].imag).all()
        assert np.isfinite(got[2])


def test_student_t_takes_its_shape_from_df() -> None:
    key, df = calque.random.key(0), jnp.array([1., 2])
    assert calque.eval_shape(calque.random.t, key, df).shape == (2,)


def test_choose_of_numbers_is_strong() -> None:
    out = jnp.choose(jnp.array([0, 1, 1]), [1., 2.])
    assert not out.weak_type and out.tolist() == [1, 2, 2]


def test_roll_by_a_traced_shift() -> None:
    x = jnp.arange(12.).reshape(3, 4)
    cases = [(1, 0), (-5, 1), (2, None), (jnp.array([1, 2]), (0, 1)), (3, (0, 1)),
             (jnp.array([1, 2]), 1), (jnp.array([1], "int16"), (0, 1))]
    found = calque.jit(lambda x, shifts: [
        jnp.roll(x, s, axis=axis) for s, (_, axis) in zip(shifts, cases)])(x, [s for s, _ in cases])
    for out, (shift, axis) in zip(found, cases, strict=True):
        np.testing.assert_array_equal(out, np.roll(x, np.asarray(shift), axis=axis))
    np.testing.assert_array_equal(
        calque.vmap(jnp.roll)(x, jnp.array([1, 2, 3])),
        np.stack([np.roll(row, k + 1) for k, row in enumerate(np.asarray(x))]))


# ---- refusals that JAX has
_DOT = (((0,), (0,)), ((), ()))


@pytest.mark.parametrize("dtype, preferred", [
    ("int32", "int8"), ("int32", "int16"), ("int32", "float16"), ("int32", "bool")])
def test_products_of_integers_are_not_preferred_narrower(dtype: str, preferred: str) -> None:
    x = jnp.array([1, 2, 3], dtype)
    for call in (lambda: lax.dot_general(x, x, _DOT, preferred_element_type=preferred),
                 lambda: jnp.dot(x, x, preferred_element_type=preferred),
                 lambda: lax.ragged_dot(x[None], x[None, :, None], jnp.array([1]),
                                        preferred_element_type=preferred)):
        with pytest.raises(TypeError, match="must not be narrower than the original type, got"):
            call()


@pytest.mark.parametrize("dtype, preferred, want", [
    ("float32", "float16", 14), ("float32", "int32", 14), ("uint8", "int8", 14),
    ("int32", "float32", 14), ("int32", "uint32", 14), ("bfloat16", "float16", 14)])
def test_products_that_may_be_preferred(dtype: str, preferred: str, want: int) -> None:
    x = jnp.array([1, 2, 3], dtype)
    out = lax.dot_general(x, x, _DOT, preferred_element_type=preferred)
    assert out.dtype == preferred and out == want


def test_convolutions_are_not_preferred_narrower() -> None:
    for dtype, preferred in [("float32", "float16"), ("int32", "int16")]:
        x = jnp.array([1, 2, 3], dtype)
        for call in (lambda: jnp.convolve(x, x, preferred_element_type=preferred),  # noqa: B023
                     lambda: lax.conv(x[None, None], x[None, None], (1,), "SAME",  # noqa: B023
                                      preferred_element_type=preferred)):  # noqa: B023
            with pytest.raises(TypeError, match="must not be narrower than the original type."):
                call()


def test_nextafter_has_no_derivative() -> None:
    x = jnp.array([1., 2.])
    for call in (lambda: calque.jvp(lax.nextafter, (x, x), (x, x)),
                 lambda: calque.grad(lambda v: jnp.nextafter(v, x).sum())(x),
                 lambda: calque.linearize(lambda v: lax.nextafter(v, x), x)):
        with pytest.raises(NotImplementedError, match="rule for 'nextafter' not implemented"):
            call()
    still = calque.grad(lambda v: (v * lax.nextafter(x, x)).sum())(x)
    np.testing.assert_array_equal(still, [1, 2])


def test_composites_are_opaque() -> None:
    x = jnp.array([1., 2.])
    double = lax.composite(lambda v, *, by=2: (v * by, {"v": v}), name="my.double")
    np.testing.assert_array_equal(calque.jit(double)(x)[0], [2, 4])
    np.testing.assert_array_equal(double(x, by=3)[1]["v"], [1, 2])
    with pytest.raises(ValueError, match="JVP rule for composite not implemented"):
        calque.jvp(double, (x,), (x,))
    with pytest.raises(ValueError, match="JVP rule for composite not implemented"):
        calque.grad(calque.jit(lambda v: double(v)[0].sum()))(x)
    with pytest.raises(NotImplementedError, match="Batching rule for 'composite'"):
        calque.vmap(double)(x)
    with pytest.raises(UnexpectedTracerError, match="as a constant in the decomposition"):
        calque.jit(lambda y: lax.composite(lambda v: v * y, name="my.times")(x))(x)
    with pytest.raises(UnexpectedTracerError, match="as an attribute in the decomposition"):
        calque.jit(lambda y: double(x, by=y))(x)


def test_scatter_apply_has_no_derivative() -> None:
    x, i = jnp.array([1., 2, 3]), jnp.array([[0], [2], [0]])
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))

    def f(v):
        return lax.scatter_apply(v, i, lambda e: e * 2, numbers, update_shape=(3,))

    np.testing.assert_array_equal(calque.jit(f)(x), [4, 2, 6])
    np.testing.assert_array_equal(calque.vmap(f)(x[None]), [[4, 2, 6]])
    for call in (lambda: calque.jvp(f, (x,), (x,)), lambda: calque.grad(lambda v: f(v).sum())(x),
                 lambda: calque.grad(lambda v: v.at[i].apply(jnp.sin).sum())(x)):
        with pytest.raises(NotImplementedError, match="scatter_apply JVP not implemented"):
            call()


@pytest.mark.parametrize("call, error", [
    (lambda: jnp.partition(jnp.ones((2, 2)), 1, axis=None), TypeError),
    (lambda: jnp.argpartition(jnp.ones((2, 2)), 1, axis=None), TypeError),
    (lambda: jnp.polyadd(1., 2.), IndexError), (lambda: jnp.polysub(jnp.ones(2), 2.), IndexError),
    (lambda: jnp.polymul(1., 2.), TypeError), (lambda: jnp.polydiv(jnp.ones(2), 2.), TypeError),
    (lambda: jnp.polyder(2.), TypeError), (lambda: jnp.polyint(2.), TypeError),
    (lambda: jnp.meshgrid(1., jnp.ones(2)), ValueError), (lambda: jnp.meshgrid(1.), ValueError),
    (lambda: lax.associative_scan(jnp.add, jnp.ones((2, 3)), axis=-1, reverse=True), TypeError)])
def test_what_jax_refuses(call: Callable[[], object], error: type[Exception]) -> None:
    with pytest.raises(error) as found:
        call()
    assert type(found.value) is error and "Fix:" in str(found.value)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_exponentials_of_half_matrices(dtype: str) -> None:
    from calque.scipy import linalg
    with pytest.raises(TypeError, match=f"A.dtype={dtype} is not supported."):
        linalg.expm(jnp.ones((2, 2), dtype))


# ---- and what it does not refuse
def test_derivatives_of_zeta_by_its_order() -> None:
    from calque.scipy import special
    x, q = jnp.array([1., 1.5, 2, 40]), jnp.array([1., .1, 2.5, 1])
    found = calque.jit(calque.vmap(calque.grad(special.zeta)))(x, q)
    np.testing.assert_allclose(found, [-np.inf, 68.823586, -0.84430106, -6.3041378e-13], rtol=3e-6)
    np.testing.assert_array_equal(
        numpys(calque.grad(lambda v: (special.zeta(v + 1, q), v.sum())[1]))(x), np.ones(4))
    with calque.enable_x64(True):
        slope = numpys(calque.grad(special.zeta))(jnp.float64(2), jnp.float64(1))
        np.testing.assert_allclose(slope, -0.937548254315844, rtol=1e-14)  # DLMF 25.6.11


@pytest.mark.parametrize("dtype, most, least", [
    ("float32", -np.inf, np.inf), ("int32", -2**31, 2**31 - 1), ("uint8", 0, 255),
    ("bool", False, True), ("bfloat16", -np.inf, np.inf), ("complex64", -np.inf, np.inf)])
def test_extrema_of_nothing(dtype: str, most: complex, least: complex) -> None:
    x = jnp.zeros((0, 3), dtype)

    def both(v: Any) -> tuple[Any, Any]:
        return lax.reduce_max(v, (0,)), lax.reduce_min(v, (0,))

    for outs in (numpys(both)(x), calque.jit(both)(x)):
        for out, want in zip(outs, (most, least), strict=True):
            assert out.dtype == dtype
            np.testing.assert_array_equal(out, [want] * 3)
    with pytest.raises(ValueError, match="zero-size array to reduction operation max"):
        jnp.max(x, axis=0)


def test_bool_positions() -> None:
    x, i = jnp.array([1., 2, 3]), jnp.array([True, False, True])
    for out in (jnp.take(x, i), *calque.jit(lambda x, i: (
            jnp.take(x, i), jnp.take(x, i, mode="fill"), x.take(i)))(x, i)):
        np.testing.assert_array_equal(out, [2, 1, 2])
    assert np.isnan(jnp.take(x[:1], i)).tolist() == [True, False, True]
    with pytest.raises(ValueError, match="indices must have an integer type"):
        jnp.take(x, i, mode="clip")
    np.testing.assert_array_equal(jnp.add.reduceat(x, i), [2, 1, 5])


# ---- dtypes and weak types
def kinds(x: object) -> str:
    return f"{x.dtype}{list(x.shape)}{'w' * x.weak_type}"  # type: ignore[attr-defined]


def test_arithmetic_of_bools_is_int32_in_x64() -> None:
    with calque.enable_x64(True):
        b = jnp.array([True, False])
        for out in calque.eval_shape(lambda: (
                jnp.square(b), jnp.power(b, b), jnp.mod(b, True), *jnp.divmod(b, True))):
            assert out.dtype == "int32"
        assert jnp.square(2).dtype == "int64"


def test_angles_of_numbers() -> None:
    weak, half = jnp.stack([jnp.asarray(.5)]), np.float16(2)
    cases = [2, 2., 2j, jnp.asarray(2j), weak, weak * 1j, half, np.float32(2), jnp.bfloat16(2)]
    want = ["float32[]", "float32[]", "float32[]w", "float32[]w", "float32[1]w", "float32[1]w",
            "float32[]", "float32[]", "float32[]"]

    def kinds_of(*zs: Any, **options: Any) -> list[str]:
        return [kinds(s) for s in calque.eval_shape(lambda: [jnp.angle(z, **options) for z in zs])]

    assert kinds_of(*cases) == want and kinds(jnp.angle(weak)) == "float32[1]w"
    assert kinds_of(2j, weak, deg=True) == ["float32[]w", "float32[1]"]
    with calque.enable_x64(True):
        assert kinds_of(np.float32(2), 2.) == ["float64[]"] * 2
        assert kinds_of(jnp.ones(1, "float32")) == ["float32[1]"]


def test_weak_types_of_logic() -> None:
    two, vector = jnp.asarray(2), jnp.stack([jnp.asarray(2)])
    assert two.weak_type and vector.weak_type
    for f in (jnp.logical_and, jnp.logical_or, jnp.logical_xor):
        assert [f(*xs).weak_type for xs in [(2, 3.), (two, two), (True, 2), (vector, 2), (
            vector, vector), (True, True), (np.int32(2), 2)]] == [True] * 3 + [False] * 4
    assert [jnp.logical_not(x).weak_type for x in (2, two, vector)] == [True, True, False]
    for f in (jnp.isreal, jnp.iscomplex):
        assert [f(x).weak_type for x in (2., two, vector * 1j, np.float32(2))] == [
            True, True, False, False]
    assert [jnp.heaviside(*xs).weak_type for xs in [(1., 2.), (1, two), (True, 1.), (
        vector, vector), (np.float32(2), 1)]] == [True] * 3 + [False] * 2
    for f in (lax.reduce_and, lax.reduce_or, lax.reduce_xor):
        assert not f(vector, (0,)).weak_type
    assert lax.reduce_max(vector, (0,)).weak_type
    assert jnp.take(vector, jnp.array([], int)).weak_type


def test_numbers_count_as_the_dtype_beside_them() -> None:
    x = jnp.array([1., 2.], "float32")
    with calque.enable_x64(True):
        assert not jnp.logical_and(x, 1e-300).any()
    assert not jnp.logical_and(x, 1e-300).any() and jnp.logical_or(x, 1e300).all()
    with pytest.raises(OverflowError):
        jnp.logical_and(x, 2**40)


def test_weak_types_of_sets() -> None:
    with calque.enable_x64(True):
        i, u = jnp.array([1, 2, 3], "int32"), jnp.array([1, 2, 3], "uint64")
        assert kinds(jnp.intersect1d(i, u)) == "float64[3]w"
        assert kinds(jnp.intersect1d(i, u, size=4)) == "float64[4]"
        assert kinds(jnp.setxor1d(i, u)) == "float64[0]w"
        assert kinds(jnp.setxor1d(i, u, size=2)) == "float64[2]"
    weak = jnp.stack([jnp.asarray(.5)])
    assert jnp.setdiff1d(weak, weak + 1, size=2).weak_type


def test_reduceat_keeps_dtypes() -> None:
    zero, weak = jnp.array([0]), jnp.stack([jnp.asarray(2)])
    for name in ("add", "multiply", "maximum", "bitwise_xor", "subtract", "logical_or"):
        out = calque.eval_shape(getattr(jnp, name).reduceat, weak, zero)
        assert kinds(out) == "int32[1]w"
    out = jnp.logical_or.reduceat(jnp.array([2, 0, 3]), jnp.array([0, 1]))
    assert kinds(out) == "int32[2]" and out.tolist() == [2, 1]
    with pytest.raises(TypeError, match="logaddexp.reduceat"):
        jnp.logaddexp.reduceat(jnp.array([1, 2, 3]), zero)
    with pytest.raises(ValueError, match="reduceat requires a single integer axis"):
        jnp.add.reduceat(weak, zero, axis=None)


def test_ufuncs_at_positions_promote() -> None:
    zero, i, b = jnp.array([0]), jnp.array([1, 2, 3], "int32"), jnp.array([100], "int8")
    assert jnp.maximum.at(i, zero, 1.5, inplace=False).tolist() == [1.5, 2, 3]
    for f, x, y, want in [
            (jnp.maximum, b, i[:1], "int32[1]"), (jnp.logaddexp, b, i[:1], "float32[1]"),
            (jnp.logical_and, i, 1, "bool[3]"),
            (jnp.minimum, jnp.stack([jnp.asarray(.5)]), 1., "float32[1]")]:
        out = calque.eval_shape(lambda: f.at(x, zero, y, inplace=False))  # noqa: B023
        assert kinds(out) == want


def test_weak_types_of_linear_maps() -> None:
    weak, strong = jnp.stack([jnp.asarray(.5)]), jnp.ones(1, "float32")
    for f in (jnp.sin, lambda x: x, lambda x: x * 2.):
        assert not calque.linearize(f, weak)[1](strong).weak_type
        assert calque.linearize(f, weak)[1](weak).weak_type
        assert not calque.vjp(f, weak)[1](strong)[0].weak_type
        assert calque.vjp(f, weak)[1](weak)[0].weak_type
    assert calque.vjp(lambda x: x, strong)[1](weak)[0].weak_type
    assert not calque.linear_transpose(lambda x: x * 2, weak)(strong)[0].weak_type
    assert calque.grad(jnp.sin)(.5).weak_type


def test_linear_maps_refuse_other_types() -> None:
    with calque.enable_x64(True):
        single, double = jnp.ones(1, "float32"), jnp.ones(1, "float64")
        with pytest.raises(ValueError, match="inconsistent with the original primal values"):
            calque.linearize(jnp.sin, double)[1](single)
        with pytest.raises(TypeError, match="cotangent type does not match function output"):
            calque.linear_transpose(lambda x: x * 2, double)(single)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_mantissas_are_differentiated(dtype: str) -> None:
    x = jnp.array([3., .3, -5, 1, 2, 0, np.inf, np.nan], dtype)
    for wrap in (numpys, calque.jit):
        out = wrap(calque.vmap(calque.grad(lambda v: jnp.frexp(v)[0])))(x)
        assert out.dtype == dtype
        np.testing.assert_array_equal(out, [.25, 2, .125, .5, .25, 1, 1, 1])


def test_copies_of_known_booleans_in_loops() -> None:
    """A loop in registers evaluates what is known: np.positive has no booleans."""
    def step(c: Any) -> Any:
        known = lax.copy_p.bind(jnp.ones((), bool))
        return c[0] + 1, jnp.where(known, c[1] * 2, c[1])
    assert calque.jit(lambda x: lax.while_loop(lambda c: c[0] < 3, step, (0, x)))(1.0)[1] == 8


def test_checkpoint_takes_keys() -> None:
    """As in flax's remat, whose dropout gets a key."""
    key = calque.random.key(0)

    def f(k: Any, x: Any) -> Any:
        return (x * calque.random.normal(k, (3,))).sum()

    x = jnp.arange(3.0)
    jitted, want = calque.jit(lambda key, x: (
        calque.grad(calque.checkpoint(f), argnums=1)(key, x), calque.random.normal(key, (3,))))(
            key, x)
    np.testing.assert_allclose(jitted, want)
    slope = calque.grad(calque.checkpoint(lambda data, x: f(
        calque.random.wrap_key_data(data), x)), argnums=1)
    slopes, want = numpys(lambda data, x: (
        slope(data, x), calque.random.normal(calque.random.wrap_key_data(data), (3,))))(
            calque.random.key_data(key), x)
    np.testing.assert_allclose(slopes, want)


def test_signs_of_python_integers_are_no_weak_bools() -> None:
    for x in (3, -3, 2**31 - 1):
        assert not jnp.signbit(x).weak_type and bool(jnp.signbit(x)) == (x < 0)


@pytest.mark.parametrize("exponent", [1.5, 1e40, [2], "2"])
def test_exponents_that_are_no_integers_are_refused(exponent: Any) -> None:
    with pytest.raises(TypeError, match=r"exponent must be a whole number[\s\S]*Fix:"):
        lax.integer_pow(jnp.ones(2), exponent)
