"""Results of rules that do not fit the function: an error that names both, never another shape."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax


def stepped(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """f in a loop, where its results' types are known before its rule runs."""
    return lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0]


@pytest.mark.parametrize("wrong, said", [
    (lambda x: (x, x), r"structure:\n    \(float32\[\], float32\[\]\)\n.*structure:\n    float32"),
    (lambda x: jnp.zeros((3,)), r"shapes/dtypes of:\n    float32\[3\]\n.*of:\n    float32\[\]")])
def test_primal_results_of_another_kind(wrong: Callable[[Any], Any], said: str) -> None:
    """(Another shape was an assertion of ours without a text.)"""
    f = calque.custom_jvp(lambda x: x)
    f.defjvp(lambda p, t: (wrong(*p), wrong(*t)))
    with pytest.raises(TypeError, match="Custom JVP rule .* for function .*element had (contain.*|)"
                       + said):
        calque.jvp(stepped(f), (np.float32(1),), (np.float32(1),))
    g = calque.custom_vjp(lambda x: x)
    g.defvjp(lambda x: (wrong(x), None), lambda res, ct: (ct,))
    with pytest.raises(TypeError, match="Custom VJP fwd rule .* residuals .* had (contain.*|)"
                       + said):
        calque.grad(stepped(g))(np.float32(1))


def test_cotangents_name_their_place() -> None:
    f = calque.custom_vjp(lambda x, y: x)
    f.defvjp(lambda x, y: (x, None), lambda res, ct: (ct, {"a": jnp.zeros(3)}))
    with pytest.raises(ValueError, match=r"at output\[1\]\['a'\] .* of type float32\[3\] correspond"
                       r"ing to an input of type float32\[4\], so the shapes do not match"):
        calque.grad(lambda x: f(x, {"a": jnp.ones(4)}))(1.0)
    zero = calque.custom_derivatives.SymbolicZero(calque.core.ShapedArray((3,), "float32"))
    f.defvjp(lambda x, y: (x.value, None), lambda res, ct: (ct, zero), symbolic_zeros=True)
    with pytest.raises(ValueError, match="Consider just returning a None here"):
        calque.grad(f, (0, 1))(1.0, jnp.ones(4))


@pytest.mark.parametrize("kind", [calque.custom_jvp, calque.custom_vjp,
                                  calque.custom_batching.custom_vmap])
def test_arguments_that_do_not_bind(kind: Any) -> None:
    f = kind(lambda x, *, k=None: x)
    if kind is calque.custom_jvp:
        f.defjvp(lambda p, t: (p[0], t[0]))
    elif kind is calque.custom_vjp:
        f.defvjp(lambda x: (x, None), lambda res, ct: (ct,))
    else:
        f.def_vmap(lambda size, mapped, x: (x, mapped[0]))
    start = f"The input arguments to the {kind.__name__}-decorated function "
    with pytest.raises(TypeError, match=start + r".*\nmissing a required argument: 'x'"):
        f()
    with pytest.raises(TypeError, match=start + r".*\n.*could not be resolved to positions: k"):
        f(1.0, k=2.0)


def test_zero_tangents_of_a_rule_stay_known_under_vmap() -> None:
    seen: list[type] = []
    f = calque.custom_jvp(lambda x, y: y)

    def rule(primals: Any, tangents: Any) -> Any:
        seen.append(type(tangents[1]))
        return primals[1], tangents[1]

    f.defjvp(rule, symbolic_zeros=True)
    out, moved = calque.jvp(calque.vmap(lambda x: f(x, f(x, 1.0))), (np.ones(3, np.float32),),
                            (np.ones(3, np.float32),))
    assert seen == [calque.custom_derivatives.SymbolicZero] * 2
    assert moved.tolist() == [0, 0, 0] and out.tolist() == [1, 1, 1]


def test_values_of_a_converted_closure_are_the_last_arguments() -> None:
    """As many as were taken out: what is given beside them belongs to the arguments."""
    converted, values = calque.closure_convert(lambda x: 2 * x, 1.0)
    assert values == [] and float(converted(3.0)) == 6
    with pytest.raises(TypeError, match="same Pytree structure as the example arguments"):
        converted(3.0, [])


def test_cotangents_of_keys_and_integers_among_others() -> None:
    """They have the dtype float0, which NumPy compares with nothing."""
    f = calque.custom_vjp(lambda x, state: state)
    f.defvjp(lambda x, state: (state, None), lambda res, ct: (ct[0], ct))
    state = (8.0, calque.random.key(1), 3)
    assert float(calque.grad(lambda x: f(x, state)[0])(3.0)) == 1


def test_residuals_of_a_pullback_are_set() -> None:
    """Left away, handed through jit, and set again; other values give another point's."""
    back = calque.jit(lambda x, y: calque.vjp(lambda x, y: x * y, x, y)[1])(2.0, 3.0)
    back.args_res = [None, None]
    assert len(calque.tree.leaves(back)) == 0
    back = calque.jit(lambda b: b)(back)
    back.args_res = [5.0, 7.0]
    assert [float(c) for c in back(1.0)] == [7, 5]
    with pytest.raises(ValueError, match="args_res: 1 values for 2 primals"):
        back.args_res = [1.0]


def test_checks_of_backward_rules_may_be_left_out():
    @calque.custom_vjp
    def f(x, y):
        return x

    f.defvjp(lambda x, y: (x, y), lambda y, ct: (ct, ct))  # y's cotangent has x's shape

    def g(x, y):
        return f(x, y).sum()

    x, y = np.ones(3, np.float32), np.ones(4, np.float32)
    with pytest.raises(ValueError, match="bwd rule"):
        calque.grad(g, 1)(x, y)
    with calque.config.context("jax_disable_bwd_checks", True):
        assert calque.grad(g, 1)(x, y).shape == (3,)


def test_linear_maps_that_differ_in_their_rules_only() -> None:
    """A pullback that passed through a tree or a jitted function was that of the first rule."""
    apply = calque.jit(lambda back, ct: back(ct)[0])
    held = []
    for k in (2.0, 3.0):
        f = calque.custom_vjp(lambda x: x)
        f.defvjp(lambda x: (x, None), lambda _, ct, k=k: (k * ct,))
        g = calque.jit(lambda x, f=f: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0])
        for h, slope in ((f, k), (g, k * k)):
            _, back = calque.vjp(h, 1.0)
            held.append(back)
            assert calque.tree.map(lambda x: x, back)(1.0) == (slope,)
            assert apply(back, 1.0) == slope
            assert calque.jit(lambda h=h: calque.vjp(h, 1.0)[1])()(1.0) == (slope,)
        r = calque.custom_jvp(lambda x: x)
        r.defjvp(lambda p, t, k=k: (p[0], k * t[0]))
        turned = calque.linear_transpose(r, 1.0)
        held.append(turned)
        assert calque.grad(calque.linearize(r, 1.0)[1])(1.0) == k
    assert len({calque.tree.structure(b) for b in held}) == len(held)


def test_a_constant_cotangent_is_summed_over_the_batch() -> None:
    """Of an argument that is not mapped, as a loop over the batch sums it."""
    f = calque.custom_vjp(lambda x, s: x * s)
    f.defvjp(lambda x, s: (x * s, None), lambda _, g: (g, jnp.full((), 7.)))

    def loop(x: Any, s: Any) -> Any:
        return f(x[0], s) + f(x[1], s) + f(x[2], s)

    def mapped(x: Any, s: Any) -> Any:
        return calque.vmap(f, (0, None))(x, s).sum()

    for loss in (loop, mapped):
        assert calque.grad(loss, 1)(jnp.ones(3), 3.) == 21
