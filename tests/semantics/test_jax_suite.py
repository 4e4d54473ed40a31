"""What JAX's own tests and published programs found (docs/jax_tests.md), each once mended.

The values beside the calls are what JAX 0.10.2 gives, where nothing else is said.
"""
from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax


def test_vmap_passes_what_it_does_not_map_as_it_is() -> None:
    def f(act: Any, x: Any, options: Any) -> Any:
        return act(x) * (2 if options["how"] == "twice" else 1)
    got = calque.vmap(f, (None, 0, None))(lambda v: v + 1, np.arange(3.), {"how": "twice"})
    assert got.tolist() == [2, 4, 6]
    with pytest.raises(TypeError, match="passed to the function at path args"):
        calque.vmap(f, (None, 0, 0))(lambda v: v + 1, np.arange(3.), {"how": "twice"})
    with pytest.raises(ValueError, match="had size 3: axis 0 of argument x of type float32.3."):
        calque.vmap(lambda f, x, y: x, (None, 0, 0))(abs, np.ones(3, "f4"), np.ones(2, "f4"))


def test_an_operand_of_cond_may_be_none() -> None:
    assert lax.cond(True, lambda _: 1., lambda _: 2., operand=None) == 1
    assert calque.grad(lambda x: lax.cond(x > 0, lambda _: x * x, lambda _: x, operand=None))(
        3.) == 6
    assert lax.switch(1, [lambda _: 1., lambda _: 2.], operand=None) == 2
    assert lax.switch(1, [lambda x: x, lambda x: 2 * x], 3.) == 6
    with pytest.raises(TypeError, match="both operands and the keyword"):
        lax.cond(True, lambda x: x, lambda x: x, 1., operand=None)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.complex64, float])
def test_limits_of_numpys_float_types(kind: Any) -> None:
    assert jnp.finfo(kind).eps == np.finfo(kind).eps and jnp.finfo(kind).dtype == np.finfo(
        kind).dtype
    with pytest.raises(ValueError):
        jnp.iinfo(kind)


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.uint32, np.int64])
def test_limits_of_numpys_integer_types(kind: Any) -> None:
    assert jnp.iinfo(kind).max == np.iinfo(kind).max
    with pytest.raises(ValueError):
        jnp.finfo(kind)


def test_axis_types_are_the_third_argument_of_make_mesh() -> None:
    auto = calque.sharding.AxisType.Auto
    assert calque.make_mesh((1,), ("x",), (auto,)).axis_types == (auto,)


def test_functions_of_ours_align_their_own_operands() -> None:
    """Under strict options only what the user mixes is refused."""
    x, y = np.ones((2, 3), np.float32), np.ones(3, np.float32)
    key = calque.random.key(0)
    with calque.numpy_rank_promotion("raise"):
        assert calque.image.resize(x, (4, 6), "linear").shape == (4, 6)
        assert calque.nn.initializers.orthogonal()(key, (3, 2)).shape == (3, 2)
        assert calque.random.multivariate_normal(key, y, np.eye(3), (4,)).shape == (4, 3)
        assert jnp.matmul(np.ones((2, 2, 2)), np.ones((3, 2, 2, 2))).shape == (3, 2, 2, 2)
        assert jnp.maximum.outer(x, y).shape == (2, 3, 3)
        assert calque.jit(lambda x: calque.image.resize(x, (3, 3), "cubic"))(x).shape == (3, 3)
        for mixed in (lambda x, y: x + y, jnp.maximum,
                      jnp.logaddexp, calque.jit(lambda x, y: x * y), jnp.isclose, jnp.clip):
            with pytest.raises(ValueError, match="rank_promotion='raise'"):
                mixed(jnp.asarray(x), y)
    with calque.numpy_dtype_promotion("strict"):
        assert jnp.polyfit(y.cumsum(), y, 1).shape == (2,)
        with pytest.raises(ValueError, match="promotion=strict"):
            jnp.add(y, np.arange(3))


def test_ufuncs_of_one_function_are_equal_and_do_not_change() -> None:
    f = jnp.frompyfunc(max, 2, 1)
    assert f == jnp.frompyfunc(max, 2, 1) and hash(f) == hash(jnp.frompyfunc(max, 2, 1))
    assert f != jnp.frompyfunc(min, 2, 1) and f != jnp.frompyfunc(max, 2, 1, identity=0)
    with pytest.raises(AttributeError, match="nin cannot be set"):
        f.nin = 3


def test_rules_of_a_partial_with_keywords() -> None:
    f = functools.partial(lambda x, y, a: x + y * a, a=.5)
    g = calque.custom_jvp(f)
    g.defjvp(lambda primals, tangents: calque.jvp(f, primals, tangents))
    assert g(1., 2.) == 2 and calque.grad(g, 1)(1., 2.) == .5


def test_map_in_batches_of_none() -> None:
    assert lax.map(lambda x: x ** 2, np.arange(4), batch_size=0).tolist() == [0, 1, 4, 9]


def test_options_that_say_little_here_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    from calque.core import config as module
    monkeypatch.setattr(module, "_told", set())
    config = module.Config()
    config.update("jax_persistent_cache_min_compile_time_secs", 0.)
    assert config.jax_persistent_cache_min_compile_time_secs == 0
    with pytest.warns(UserWarning, match="jax_pallas_enable_debug_checks has no effect"):
        config.update("jax_pallas_enable_debug_checks", True)
    config.update("jax_pallas_enable_debug_checks", True)  # said once
    with pytest.raises(AttributeError, match="Unrecognized config option: jax_nothing"):
        config.update("jax_nothing", 1)
    assert calque.config.x64_enabled is False


def test_seeds_are_moved_by_the_offset() -> None:
    words = calque.random.key_data(calque.random.key(20))
    with calque.config.context("jax_random_seed_offset", 3):
        for make in (calque.random.key, calque.jit(calque.random.key),
                     calque.jit(lambda _: calque.random.key(17))):
            np.testing.assert_array_equal(calque.random.key_data(make(17)), words)


def test_keys_of_the_old_form_are_told_of() -> None:
    key = calque.random.PRNGKey(0)
    with calque.legacy_prng_key("error"), pytest.raises(ValueError, match="Legacy uint32 key"):
        calque.random.uniform(key)
    with calque.legacy_prng_key("warn"), pytest.warns(UserWarning, match="Legacy uint32 key"):
        calque.random.normal(key)


def test_no_tracing() -> None:
    f = calque.jit(lambda x: x + 1)
    f(1.)
    with calque.no_tracing():
        assert f(2.) == 3
        with pytest.raises(RuntimeError, match="'no_tracing' is set"):
            f(np.ones(3))


@pytest.mark.parametrize("shape, index, where", [
    ((2,), -4, "index -4 out of bounds for axis 0 with size 2"),
    ((2, 3), np.s_[:, 4], "index 4 out of bounds for axis 1 with size 3"),
    ((2, 3, 5), np.s_[:, [1, 2], 6], "index 6 out of bounds for axis 2 with size 5"),
    ((2, 3), np.s_[np.arange(3), 6, None], "index 6 out of bounds for axis 1 with size 3")])
def test_known_indices_outside_are_refused_where_asked(shape: Any, index: Any, where: str) -> None:
    x = jnp.zeros(shape)
    x[index]
    with calque.config.context("jax_check_static_indices", True):
        for read in (lambda x: x[index], calque.jit(lambda x: x[index]),
                     lambda x: x.at[index].get()):
            with pytest.raises(IndexError, match=where):
                read(x)


def test_compiled_programs_are_kept_where_jaxs_option_says(
        monkeypatch: pytest.MonkeyPatch) -> None:
    from calque.lowering.compiler import folders
    monkeypatch.delenv("CALQUE_CACHE_DIR", raising=False)
    with calque.config.context("jax_compilation_cache_dir", "/somewhere"):
        assert str(folders.cache_directory()) == "/somewhere/calque"
        monkeypatch.setenv("CALQUE_CACHE_DIR", "/elsewhere")
        assert str(folders.cache_directory()) == "/elsewhere"


def test_what_logsumexp_leaves_out_has_no_derivative() -> None:
    x = jnp.array([0., 0., 0., 0., 100.])
    got = calque.grad(lambda x: calque.scipy.special.logsumexp(x, where=np.arange(5) < 4))(x)
    assert got.tolist() == [.25, .25, .25, .25, 0]


def test_arrays_of_other_shapes_are_not_equivalent() -> None:
    assert not jnp.array_equiv(jnp.ones(2), jnp.ones((2, 4)))
    assert jnp.array_equiv(jnp.ones(2), jnp.ones((3, 2)))


def test_sizes_and_diagonals_may_be_traced() -> None:
    np.testing.assert_array_equal(calque.jit(lambda k: jnp.tri(3, k=k))(1), np.tri(3, k=1))
    with pytest.raises(OverflowError):
        jnp.tri(3, k=2**33)
    flat = np.array([3, -1, 99, -99])
    np.testing.assert_array_equal(calque.jit(jnp.unravel_index)(flat, (2, 3)),
                                  jnp.unravel_index(flat, (2, 3)))


def test_rows_and_columns_are_joined() -> None:
    assert jnp.r_["r", [1, 2], [3]].tolist() == [[1, 2, 3]]
    assert jnp.r_["c", [1, 2], [3]].tolist() == [[1], [2], [3]]


def test_in_looks_for_scalars_in_vectors() -> None:
    assert 1 in jnp.arange(4) and 100 not in jnp.arange(4)
    with pytest.raises(ValueError, match="search array must be one-dimensional"):
        assert 1 in jnp.array(1)
    with pytest.raises(ValueError, match="query value must be a scalar"):
        assert jnp.arange(2) in jnp.arange(2)
    for item in ("abc", None):
        with pytest.raises(TypeError, match="equal"):
            assert item in jnp.arange(2)


def test_kinds_of_small_floats() -> None:
    import ml_dtypes
    for t in (ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3b11fnuz,
              ml_dtypes.float4_e2m1fn):
        assert jnp.issubdtype(t, jnp.floating) and jnp.issubdtype(np.dtype(t), np.inexact)
        assert jnp.issubdtype(t, t) and not jnp.issubdtype(t, np.float32)
        assert not jnp.issubdtype(t, jnp.integer)


def test_a_rule_may_give_digits_that_nobody_asked_for() -> None:
    f = calque.custom_vjp(lambda x: x.astype(np.float32) * 2)
    f.defvjp(lambda x: (f(x), None), lambda _, c: (c * 2,))
    got = calque.grad(lambda x: f(x).sum())(jnp.ones(2, "bfloat16"))
    assert got.dtype == "bfloat16" and got.tolist() == [2, 2]


def test_a_rule_may_give_an_array_for_a_node_of_one_leaf() -> None:
    f = calque.custom_vjp(lambda p: p[0] * p[0])
    f.defvjp(lambda p: (f(p), p), lambda p, c: (c * 3 * p[0],))
    assert calque.grad(f)((2.,)) == (6.,)
    f.defvjp(lambda p: (f(p), p), lambda p, c: ((c, c),))
    with pytest.raises(TypeError, match="with the structure of the arguments"):
        calque.grad(f)((2.,))


def test_jit_refuses_what_it_cannot_call() -> None:
    def generator(x: Any) -> Any:
        yield x

    def f(a: Any, /, b: Any, *args: Any, c: Any = 1, **more: Any) -> Any:
        return b
    for make in (calque.jit, calque.vmap, calque.grad):
        with pytest.raises(TypeError, match="got a generator function"):
            make(generator)
    with pytest.raises(TypeError, match="staticmethod arguments are not supported"):
        calque.jit(staticmethod(abs))
    calque.jit(f, static_argnames=("b", "c", "anything"))
    for name in ("a", "args"):
        for kind in ("static", "donate"):
            with pytest.raises(ValueError, match=f"in {kind}_argnames. These are positional-only"):
                calque.jit(f, **{f"{kind}_argnames": name})
    assert "Original documentation:\n\nSays so." in calque.vmap(_documented).__doc__


class _AnyName:
    """An object that has any attribute one asks for, its name too."""
    def __getattr__(self, name: str) -> int:
        return 7

    def __call__(self, x: Any) -> Any:
        return x * 2


def test_functions_without_a_proper_name() -> None:
    f = _AnyName()
    assert calque.vmap(f)(jnp.ones(2)).tolist() == [2, 2] == calque.jit(f)(jnp.ones(2)).tolist()
    assert calque.grad(f)(3.0) == 2 and calque.checkpoint(f)(3.0) == 6
    assert "_AnyName" in calque.vmap(f).__doc__ and calque.eval_shape(f, 1.0).shape == ()


def test_jitted_functions_are_pickled_by_value() -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    inner = calque.jit(lambda a: a * 2)
    f = calque.jit(lambda a, n: inner(a) + n, static_argnums=1)
    assert f(1., 1) == 3
    again = cloudpickle.loads(cloudpickle.dumps(f))
    assert again(2., 1) == 5
    with pytest.raises(ValueError, match="Non-hashable static arguments"):
        again(2., [1])
    placed = calque.jit(lambda a: a + 1, device=calque.devices()[0])
    assert cloudpickle.loads(cloudpickle.dumps(placed))(placed(1.)) == 3


@pytest.mark.parametrize("kind", ["bfloat16", "float16", "float32"])
def test_numbers_moved_out_of_their_range(kind: str) -> None:
    x = jnp.array([np.inf, -np.inf, np.nan, 0., -0., 1., -3.], kind)
    for n in (300, -300, 2**31 - 1, -2**31):
        want = [np.inf, -np.inf, np.nan, 0., -0., *((np.inf, -np.inf) if n > 0 else (0., -0.))]
        for f in (jnp.ldexp, calque.jit(jnp.ldexp)):
            got = np.asarray(f(x, jnp.full(7, n)), np.float64)
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(np.signbit(got[3:]), np.signbit(want[3:]))


def test_leaves_are_chosen_by_their_paths() -> None:
    tree = {"a": [1, (2, 3), None], "b": 3, "c": {"d": []}}
    seen: list[Any] = []

    def second(path: Any, node: Any) -> bool:
        seen.append((calque.tree_util.keystr(path), node))
        return len(path) == 2
    leaves = calque.tree.leaves_with_path(tree, is_leaf=second, is_leaf_takes_path=True)
    assert [(calque.tree_util.keystr(p), x) for p, x in leaves] == [
        ("['a'][0]", 1), ("['a'][1]", (2, 3)), ("['a'][2]", None), ("['b']", 3), ("['c']['d']", [])]
    assert seen[0] == ("", tree) and ("['b']", 3) in seen
    named = calque.tree.map_with_path(lambda p, x, y: (len(p), x, y), tree, tree, is_leaf=second,
                                      is_leaf_takes_path=True)
    assert named["a"][1] == (2, (2, 3), (2, 3)) and named["b"] == (1, 3, 3)


def test_what_stands_beside_a_complex_diagonal_stands_above_it() -> None:
    d, e = np.arange(1, 5).astype("c8"), np.array([1 + 2j, .5 - 1j, 2j], "c8")
    w, v = calque.scipy.linalg.eigh_tridiagonal(d, e)
    matrix = np.diag(d) + np.diag(e, 1) + np.diag(e.conj(), -1)
    np.testing.assert_allclose(matrix @ v, v * w, atol=1e-5)


class _Boxed(NamedTuple):
    x: Any

    def __rmul__(self, other: Any) -> Any:
        return _Boxed(other * self.x)


def test_operators_leave_derived_tuples_to_these() -> None:
    assert type(jnp.ones(2) * _Boxed(3)) is _Boxed
    assert type(calque.jit(lambda a, b: a * b)(jnp.ones(2), _Boxed(3.))) is _Boxed
    for other in ((1, 2), [1], {}, set()):
        with pytest.raises(TypeError, match="unsupported operand type"):
            jnp.ones(2) * other
    with pytest.raises(TypeError, match="unsupported operand type"):
        jnp.ones(2) + _Boxed(3)


def test_an_interpolator_of_traced_values() -> None:
    def f(values: Any, fill: Any, at: Any) -> Any:
        return calque.scipy.interpolate.RegularGridInterpolator(
            (np.arange(3.),), values, "linear", False, fill)(at)
    at = np.array([[.5], [1.25], [9.]])
    got = calque.jit(f)(np.array([0., 2., 6.]), np.float32(-1), at)
    np.testing.assert_allclose(got, [1, 3, -1], rtol=1e-6)


def _documented(x: Any) -> Any:
    """Says so."""
    return x


@pytest.mark.parametrize("jitted", [True, False])
def test_forward_and_backward_passes(jitted: bool) -> None:
    traces: list[Any] = []

    def f(x: Any, w: Any) -> Any:
        traces.append(x)
        return jnp.sin(x) * w["a"], x
    fwd, bwd = calque.fwd_and_bwd(f, argnums=(0, 1), has_aux=True, jitted=jitted)
    for x in (2., 3.):
        out, residuals, aux = fwd(x, {"a": 4.})
        assert aux == x
        np.testing.assert_allclose(out, 4 * np.sin(x), rtol=1e-6)
        by_x, by_w = bwd(residuals, 10.)
        np.testing.assert_allclose([by_x, by_w["a"]], [40 * np.cos(x), 10 * np.sin(x)], rtol=1e-6)
    assert len(traces) == (1 if jitted else 2)
    fwd, bwd = calque.fwd_and_bwd(lambda x, w: x * w, argnums=1)
    assert bwd(fwd(2., 3.)[1], 1.) == 2
    with pytest.raises(ValueError, match="argnums"):
        calque.fwd_and_bwd(lambda x: x, argnums=1)[0](1.)
