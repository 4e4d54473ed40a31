"""Contexts that jitted functions depend on, and options that forbid something, as JAX has them."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax


def test_a_context_of_ones_own_is_part_of_the_key() -> None:
    seen: list[Any] = []
    mode = calque.make_user_context("train")

    @calque.jit
    def f(x: Any) -> Any:
        seen.append(mode.value)
        return x + (1.0 if mode.value == "test" else 0.0)
    for _ in range(2):
        assert f(1.0) == 1.0
        with mode("test"):
            assert f(1.0) == 2.0 and mode.get_global() == "train"
            with mode("train"):
                assert f(1.0) == 1.0
    assert seen == ["train", "test"]
    mode.set_global("test")
    assert f(1.0) == 2.0 and mode.value == mode.get_global() == "test" and len(seen) == 2
    with mode(["a list"]), pytest.raises(TypeError, match="unhashable"):
        f(1.0)


def test_options_of_contexts_are_read_for_the_process() -> None:
    assert calque.numpy_rank_promotion.get_global() == "allow"
    with calque.numpy_rank_promotion("raise"):
        assert calque.numpy_rank_promotion.get_global() == "allow"


def test_no_execution() -> None:
    f = calque.jit(lambda: jnp.ones(3))
    f()
    with calque.no_execution():
        for _ in range(2):
            with pytest.raises(RuntimeError, match="'no_execution' is set"):
                f()
    assert f().sum() == 3


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_halves_are_refused(dtype: str) -> None:
    x = jnp.ones((1, 3), dtype)
    assert lax.reduce_sum(x, (1,))[0] == 3
    with calque.allow_f16_reductions(False):
        with pytest.raises(ValueError, match="reduce_sum on operand .* is not allowed"):
            lax.reduce_sum(x, (1,))
        assert lax.reduce_sum(x, (0,)).shape == (3,) and jnp.sum(x) == 3
        assert lax.reduce_max(x, (1,))[0] == 1


def test_tokens_go_through_functions() -> None:
    from calque.extend.core import Token
    token = lax.create_token(1.0)
    x, found = calque.jit(lambda x, t: (x + 1, lax.after_all(t)))(1.0, token)
    assert x == 2.0 and isinstance(found, Token) and found is not token
    assert isinstance(calque.jit(lax.create_token)(1.0), Token)
    with pytest.raises(TypeError, match="must be tokens"):
        lax.after_all(1.0)  # type: ignore[arg-type]


def test_derivatives_by_integers_leave_jit_as_numpys() -> None:
    f = calque.jit(calque.grad(lambda x, i: x[i], argnums=(0, 1), allow_int=True))
    for _ in range(2):
        slope, by_index = f(np.ones(2, np.float32), 1)
        np.testing.assert_array_equal(slope, [0, 1])
        assert type(by_index) is np.ndarray and by_index.dtype == calque.float0


def test_words_for_cotangents_leave_jit() -> None:
    def f(x: Any) -> Any:
        _, back = calque.vjp(lambda a, b: a * b, x, 3.0)
        return back.with_refs(calque.ad.GradValue(), calque.ad.DontWant())(1.0)
    slope, other = calque.jit(f)(2.0)
    assert slope == 3.0 and other == calque.ad.DidntWant()


def test_residuals_of_arguments_have_their_structure() -> None:
    out, back = calque.vjp(lambda x, y: x["a"] * x["b"] * y, {"a": 2.0, "b": 3.0}, 4.0)
    assert back.args_res[0].keys() == {"a", "b"} and len(back.args_res) == 2
    back = calque.jit(lambda back: back)(back)
    back.args_res = [None, None]
    back.args_res = [{"a": 5.0, "b": 3.0}, 4.0]
    assert back(1.0)[0]["b"] == 5.0 * 4.0
    with pytest.raises(ValueError, match="3 values for 2 primals"):
        back.args_res = [1.0, 2.0, 3.0]


@pytest.mark.parametrize(("f", "x"), [
    (lambda x: 2.0 * x, 1), (lambda x: x.astype(int), 1.0)])
def test_linear_transposes_keep_floats_and_integers_apart(f: Any, x: Any) -> None:
    with pytest.raises(TypeError, match="linear_transpose only supports"):
        calque.linear_transpose(f, x)


def test_linear_transposes_of_what_has_a_shape_and_a_dtype() -> None:
    class Like:
        shape, dtype = (3,), np.dtype("float32")
    found, = calque.linear_transpose(lambda x: 2 * x, Like())(jnp.ones(3))
    np.testing.assert_array_equal(found, [2, 2, 2])
    assert calque.linear_transpose(lambda x: 2 * x, 1)(3) == (6,)


@pytest.mark.parametrize("wrong", [False, True, 1.0, "a"])
@pytest.mark.parametrize("mapped", [calque.vmap, calque.pmap])
def test_axes_are_integers(mapped: Any, wrong: Any) -> None:
    for axes in ({"in_axes": (wrong,)}, {"out_axes": wrong}, {"out_axes": {"a": (wrong,)}}):
        with pytest.raises(TypeError, match="must be an int, None, or"):
            mapped(lambda x: x, **axes)(jnp.zeros(1))


def test_checkpointed_functions_are_traced_once_for_a_signature() -> None:
    seen: list[Any] = []

    @calque.checkpoint
    def f(x: Any) -> Any:
        seen.append(x.shape)
        return jnp.sin(x)
    for _ in range(3):
        f(2.0)
        calque.grad(f)(1.0)
    f(jnp.ones(2))
    assert seen == [(), (2,)]
    calque.vmap(lambda y: calque.checkpoint(lambda x: x * y)(1.0))(jnp.ones(2))


def test_checkpointed_functions_close_over_other_values() -> None:
    """What is closed over at one call does not stay for the next."""
    box: list[Any] = []
    f = calque.checkpoint(lambda x: x * box[-1])
    for k in (2.0, 3.0):
        def g(y: Any) -> Any:
            box.append(y)
            return calque.grad(f)(1.0) * y
        assert calque.grad(g)(k) == 2 * k
        box.clear()


class Peculiar:
    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        raise NotImplementedError("no comparison")


def test_static_arguments_that_cannot_be_compared() -> None:
    f = calque.jit(lambda x, y: x, static_argnums=1)
    f(1.0, Peculiar())
    for _ in range(5):
        with pytest.raises(ValueError, match="comparable using __eq__(.|\n)*no comparison"):
            f(1.0, Peculiar())


class Convertible:
    def __jax_array__(self) -> Any:
        return jnp.arange(3.0)


@pytest.mark.parametrize("mapped", [calque.jit, calque.grad, calque.vmap])
def test_objects_that_convert_themselves_are_no_arguments(mapped: Any) -> None:
    with pytest.raises(ValueError, match=r"Triggering __jax_array__\(\) during abstractification"):
        mapped(lambda x: x)(Convertible())


@pytest.mark.parametrize("optimized", [False, True])
def test_forward_rules_that_wait_for_the_backward_pass(optimized: bool) -> None:
    """Values as jax 0.10.2 gives them; the rule's value is another one, so that it tells."""
    @calque.custom_vjp
    def f(x: Any) -> Any:
        return jnp.tan(x)
    f.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (jnp.cos(x) * ct,),
             optimize_remat=optimized)
    x = np.float32(0.7)
    saved = np.tan(x) if optimized else np.sin(x)
    for g, batched, value in ((f, False, np.sin(x)), (calque.checkpoint(f), False, saved),
                              (calque.checkpoint(calque.jit(f)), False, saved),
                              (calque.checkpoint(f), True, saved)):
        both = calque.value_and_grad(g)
        got = calque.vmap(both)(jnp.full(2, x)) if batched else both(x)
        np.testing.assert_allclose(got[0], np.full(np.shape(got[0]), value), rtol=1e-6)
        np.testing.assert_allclose(got[1], np.full(np.shape(got[1]), np.cos(x)), rtol=1e-6)


def test_marks_for_xla_are_taken() -> None:
    from calque.experimental.xla_metadata import set_xla_metadata

    @set_xla_metadata(a="b")
    def double(x: Any) -> Any:
        return set_xla_metadata({"y": x * 2}, a=1)["y"]
    assert calque.jit(double)(2.0) == double(2.0) == 4.0
    assert calque.grad(lambda x: set_xla_metadata(x * x, a=1))(1.0) == 2.0
    with set_xla_metadata(a=None), pytest.raises(TypeError, match="not a valid JAX type"):
        set_xla_metadata("x", a=1)


def test_contexts_of_the_users_are_no_options() -> None:
    before = dict(calque.config.values)
    mode = calque.make_user_context("train")
    with mode("test"):
        assert dict(calque.config.values) == before


def test_scheduling_groups_are_taken() -> None:
    from calque.experimental.scheduling_groups import scheduling_group, xla_metadata_call
    double = scheduling_group("a")(xla_metadata_call(key=1)(lambda x: x * 2))
    assert calque.jit(double)(2.0) == 4.0 and calque.grad(double)(1.0) == 2.0
    with pytest.raises(TypeError, match="callable"):
        xla_metadata_call(3, key=1)


def test_auto_pcast() -> None:
    """Off, operands that vary over other axes are an error, as a value that was forgotten is."""
    mesh = calque.make_mesh((1,), ("x",), (calque.sharding.AxisType.Auto,))
    specs = (calque.P("x"), calque.P())

    def mapped(f: Any) -> Any:
        return calque.shard_map(f, mesh=mesh, in_specs=specs, out_specs=calque.P("x"))(
            jnp.ones(2), jnp.ones(2))
    assert mapped(lambda a, b: a + b).sum() == 4
    with calque.auto_pcast(False):
        with pytest.raises(ValueError, match=r"add requires varying(.|\n)*\{x\}, \{\}(.|\n)*pcast"):
            mapped(lambda a, b: a + b)
        marked = mapped(lambda a, b: 2 * a + calque.lax.pcast(b, "x", to="varying"))
        assert marked.sum() == 6
        assert mapped(lambda a, b: a * 3).sum() == 6  # (a number of Python's has no axes)


def test_older_names_of_processes() -> None:
    for name, now in (("host_count", 1), ("host_id", 0), ("host_ids", [0])):
        with pytest.warns(UserWarning, match="has been renamed to calque.process_"):
            assert getattr(calque, name)() == now
