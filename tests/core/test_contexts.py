"""Options as contexts, and questions about processes: what a wrong value or number answers."""
from __future__ import annotations

from typing import Any

import pytest

import calque
import calque.numpy as jnp

BOOLS = ("enable_x64", "debug_nans", "debug_infs", "disable_jit", "log_compiles",
         "threefry_partitionable", "check_tracer_leaks", "enable_custom_prng")
VALUED = {"numpy_dtype_promotion": "strict", "numpy_rank_promotion": "raise",
          "default_matmul_precision": "highest", "default_prng_impl": "threefry2x32",
          "default_device": "cpu"}


def test_contexts_set_and_restore() -> None:
    for name, value in {**dict.fromkeys(BOOLS, True), **VALUED}.items():
        before = getattr(calque.config, f"jax_{name}")
        with getattr(calque, name)(value):
            assert getattr(calque.config, f"jax_{name}") == value
        assert getattr(calque.config, f"jax_{name}") == before


def test_only_bools_have_a_value_of_their_own() -> None:
    for name in BOOLS:
        with getattr(calque, name)():
            assert getattr(calque.config, f"jax_{name}") is True
    for name, value in VALUED.items():
        with pytest.raises(TypeError, match="requires an argument representing") as caught:
            getattr(calque, name)()
        assert name in str(caught.value) and "Fix:" in str(caught.value), value


def test_typed_keys_by_the_older_name() -> None:
    with calque.enable_custom_prng():
        key = calque.random.PRNGKey(3)
    assert key.dtype == calque.random.key(3).dtype and key.shape == ()
    assert calque.random.PRNGKey(3).shape == (2,)


def test_a_context_has_one_argument() -> None:
    with calque.disable_jit(disable=True):
        assert calque.config.read("jax_disable_jit")
    with pytest.raises(TypeError, match="unexpected keyword argument 'disabled'"):
        calque.disable_jit(disabled=True)


def test_there_is_one_process() -> None:
    assert calque.local_devices(process_index=0) == calque.devices()
    with pytest.raises(ValueError, match="Unknown process_index 1"):
        calque.local_devices(process_index=1)


def test_errors_go_by_their_public_names() -> None:
    assert calque.errors.TracerBoolConversionError.__module__ == "calque.errors"
    assert calque.dtypes.TypePromotionError is calque.errors.TypePromotionError


def test_texts_of_tracers() -> None:
    """What JAX 0.10.2 prints."""
    said: list[str] = []

    def f(x: Any) -> Any:
        said.append(f"{x}")
        return x * 1.0

    x = jnp.ones(3)
    for transformed in (lambda: calque.jit(f)(1.0), lambda: calque.vmap(f)(x),
                        lambda: calque.jit(calque.grad(f))(2.0), lambda: calque.jacfwd(f)(2.0),
                        lambda: calque.grad(lambda x: f(x).sum())(x)):
        transformed()
    assert said[:3] == ["JitTracer(~float32[])", "VmapTracer(aval=float32[], batched=float32[3])",
                        "GradTracer(primal=JitTracer(~float32[]), typeof(tangent)=f32[])"]
    assert said[3].startswith("JVPTracer(primal=2.0, tangent=VmapTracer(")
    assert said[4] == "GradTracer(primal=[1. 1. 1.], typeof(tangent)=f32[3])"


def test_updates_are_seen_inside_of_other_contexts() -> None:
    """An option that is set for the process while another one is set for a context is part of what
    programs are traced for, inside and afterwards."""
    traced = []

    @calque.jit
    def f(x: Any) -> Any:
        traced.append(calque.config.jax_default_matmul_precision)
        return x @ x

    x = jnp.ones((2, 2))
    f(x)
    try:
        with calque.numpy_rank_promotion("warn"):
            f(x)
            calque.config.update("jax_default_matmul_precision", "highest")
            f(x)
            with calque.default_matmul_precision("float32"):
                f(x)
                calque.config.update("jax_default_matmul_precision", "high")
                f(x)
            f(x)
        f(x)
    finally:
        calque.config.update("jax_default_matmul_precision", None)
    assert traced == [None, None, "highest", "float32", "high", "high"]
    f(x)
    assert len(traced) == 6
