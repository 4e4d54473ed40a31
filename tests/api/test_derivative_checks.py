"""check_grads accepts right rules and names wrong ones; names of staging.py."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.core.trace import Tracer
from calque.test_util import check_grads, check_jvp, check_vjp


def scaled(rule: float) -> Any:
    """sin with a derivative that is off by a factor."""
    @calque.custom_jvp
    def f(x: Any) -> Any:
        return jnp.sin(x)
    f.defjvp(lambda p, t: (f(*p), rule * jnp.cos(p[0]) * t[0]))
    return f


def test_right_rules_pass() -> None:
    check_grads(scaled(1.0), (0.3,), order=1)
    check_grads(lambda x, p: jnp.sin(x) * p["a"].sum(), (1.0, {"a": jnp.ones(3)}), order=2)
    check_grads(lambda x, n: jnp.sin(x) * n, (1.0, 3), order=1)  # integers are not moved
    check_grads(lambda z: jnp.sin(z) * jnp.conj(z), (1.0 + 2.0j,), order=1)
    with calque.enable_x64(True):
        check_grads(lambda x: x ** 3, (jnp.float64(2.0),), order=3, modes=["rev"])


@pytest.mark.parametrize("mode, check", [("fwd", "tangent of the JVP"), ("rev", "inner product")])
def test_wrong_rules_are_found(mode: str, check: str) -> None:
    with pytest.raises(AssertionError, match=f"(?s){check}.*finite differences.*Fix: "):
        check_grads(scaled(2.0), (0.3,), order=1, modes=[mode])


def test_wrong_second_derivatives_are_found() -> None:
    @calque.custom_jvp
    def f(x: Any) -> Any:
        return jnp.sin(x)
    # the slope of f is right at 0.3, and only there
    f.defjvp(lambda p, t: (f(*p), np.float32(np.cos(0.3)) * t[0]))
    check_grads(f, (0.3,), order=1, modes=["fwd"])
    with pytest.raises(AssertionError, match="jvp of"):
        check_jvp(lambda x: calque.jvp(jnp.sin, (x,), (1.0,))[1],
                  lambda p, t: calque.jvp(lambda x: calque.jvp(f, (x,), (1.0,))[1], p, t), (0.3,),
                  err_msg="jvp of f")


def test_tolerances_and_modes() -> None:
    check_grads(scaled(1.1), (0.3,), order=1, rtol=0.2)
    check_vjp(jnp.sin, lambda x: calque.vjp(jnp.sin, x), (0.3,), eps=0.1, atol=0.1)
    with pytest.raises(ValueError, match="unknown mode 'reverse'"):
        check_grads(jnp.sin, (0.3,), order=1, modes=["reverse"])


def test_compile_time_eval_gives_values_while_tracing() -> None:
    seen = []

    def f(x: Any) -> Any:
        with calque.ensure_compile_time_eval():
            known = lax.cond(True, lambda a: a + 1, lambda a: a, jnp.sin(0.5))
            traced = 2 * x
        seen.append((float(known), isinstance(traced, Tracer)))
        return x * traced if float(known) > 1 else x

    assert calque.jit(f)(3.0) == 18 and calque.grad(f)(3.0) == 12
    np.testing.assert_allclose(calque.vmap(f)(jnp.arange(3.0)), [0, 2, 8])
    assert seen == [(pytest.approx(np.sin(0.5) + 1), True)] * 3
    with calque.ensure_compile_time_eval():
        assert float(jnp.sin(0.5)) == pytest.approx(np.sin(0.5))


def test_typeof() -> None:
    assert str(calque.typeof(jnp.ones((2, 3)))) == "float32[2,3]"
    assert calque.typeof(1).weak_type and not calque.typeof(np.int32(1)).weak_type
    assert calque.jit(lambda x: jnp.zeros(calque.typeof(x).shape))(jnp.ones(2)).shape == (2,)
    with pytest.raises(TypeError, match="(?s)not a valid JAX type.*Fix"):
        calque.typeof("a")


def test_named_call_names_what_is_traced() -> None:
    def double(x: Any) -> Any:
        return 2 * x
    text = calque.jit(calque.named_call(double)).lower(1.0).as_text(debug_info=True)
    assert "double" in text
    with pytest.raises(TypeError, match="Expected a callable value"):
        calque.named_call(3)


def test_tolerances_by_dtype() -> None:
    check_grads(jnp.sin, (1.0,), 1, atol={jnp.float32: 1e-2}, rtol={np.float32: 1e-2})
    with pytest.raises(AssertionError, match="rtol=1e-09, atol=1e-09"):
        check_grads(jnp.sin, (1.0,), 1, atol={"float32": 1e-9}, rtol={"float32": 1e-9})
    check_grads(jnp.sin, (1.0,), 1, atol={"float64": 1e-9}, rtol={"float64": 1e-9})  # of others


def test_a_bend_within_the_long_step_is_asked_again_by_the_short_one() -> None:
    bent = lambda x: jnp.sum(jnp.where(x > 1.002, 50 * (x - 1.002), 0.0) + x)  # noqa: E731
    check_grads(bent, (jnp.ones(1),), 1)
    with pytest.raises(AssertionError, match="finite differences"):
        check_grads(bent, (jnp.ones(1),), 1, eps=1e-2)  # the step that was asked for, and no other


def test_a_wrong_rule_fails_at_both_steps() -> None:
    @calque.custom_jvp
    def f(x: Any) -> Any:
        return x * x

    f.defjvp(lambda p, t: (f(*p), 1.9 * p[0] * t[0]))
    with pytest.raises(AssertionError, match="jvp of f"):
        check_grads(f, (3.0,), 1, modes=("fwd",))
