"""CallPrimitive: functions bound to a primitive give what they give when they are called, under
every transformation; and the types and registries that come with it."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.extend import core, lowering
from calque.extend import linear_util as lu

call_p = core.CallPrimitive("my_call")
call_p.def_impl(core.call_impl)
X = np.array([0.5, -1.0, 2.0], np.float32)


def call(f: Callable[..., Any], *xs: Any, **params: Any) -> Any:
    (out,) = call_p.bind(*xs, subfuns=(lu.wrap_init(lambda *ys: [f(*ys)]),), **params)
    return out


def cubes(x: Any) -> Any:
    """x**3, of which one factor is an operand, one captured, one of the outer function."""
    return call(lambda y: call(lambda z: z * x, y) * y, x)


@pytest.mark.parametrize(("f", "want"), [
    (cubes, X**3),
    (calque.jit(cubes), X**3),
    (calque.vmap(cubes), X**3),
    (lambda x: calque.grad(lambda y: cubes(y).sum())(x), 3 * X**2),
    (calque.vmap(calque.grad(cubes)), 3 * X**2),
    (calque.jit(calque.vmap(calque.grad(calque.grad(cubes)))), 6 * X),
    (lambda x: calque.jvp(cubes, (x,), (x,))[1], 3 * X**3),
    (lambda x: lax.map(calque.checkpoint(cubes), x), X**3),
    (lambda x: lax.scan(lambda c, y: (call(lambda z: z + c, y), None), 0.0, x)[0], X.sum()),
    (calque.vmap(lambda x: call(lambda y: y * x, 3.0)), 3 * X),
    (calque.vmap(lambda x: lax.cond(x > 0, cubes, lambda y: call(jnp.negative, y), x)),
     np.where(X > 0, X**3, -X)),
])
def test_is_the_function(f: Callable[..., Any], want: Any) -> None:
    np.testing.assert_allclose(f(jnp.asarray(X)), want, rtol=1e-6)


def test_equations_bind_again() -> None:
    closed = calque.make_jaxpr(lambda x: call(lambda y: y * y + 1, x, hint="a"))(X)
    (equation,) = closed.eqns
    assert equation.primitive is call_p and equation.params["hint"] == "a"
    params = equation.primitive.get_bind_params(equation.params)
    assert set(params) == {"subfuns", "hint"}
    (again,) = call_p.bind(X, **params)
    np.testing.assert_allclose(again, X * X + 1, rtol=1e-6)
    np.testing.assert_allclose(call_p.bind(X, **equation.params)[0], again)


def test_impl_gets_the_function_and_the_parameters() -> None:
    seen: list[Any] = []
    own_p = core.CallPrimitive("own_call")
    with pytest.raises(NotImplementedError, match="Evaluation rule for 'own_call'"):
        own_p.bind(2.0, subfuns=(lu.wrap_init(lambda x: [x]),))

    @own_p.def_impl
    def _(f: Any, *args: Any, **params: Any) -> Any:
        seen.append((args, params))
        return f.call_wrapped(*args)

    # values are there while the function runs
    assert own_p.bind(2.0, subfuns=(lu.wrap_init(lambda x: [x if x > 1 else -x]),), k=3) == [2.0]
    assert seen == [((2.0,), {"k": 3})]
    with pytest.raises(TypeError, match=r"(?s)own_call\.bind: there is no function.*Fix: pass"):
        own_p.bind(2.0)


def test_types_of_tokens() -> None:
    kind = calque.typeof(lax.create_token())
    assert isinstance(kind, core.AbstractToken) and kind == core.AbstractToken() != X
    assert hash(kind) == hash(core.AbstractToken()) and kind.str_short() == "Tok"
    assert kind.to_tangent_aval() == kind
    made_p = core.Primitive("made_token")
    made_p.def_abstract_eval(lambda _: core.AbstractToken())
    with pytest.raises(TypeError, match=r"(?s)'made_token' gave AbstractToken\(\), .*Fix: return"):
        calque.make_jaxpr(made_p.bind)(1.0)


def test_dialects_of_a_context_of_ones_own() -> None:
    from iree.compiler import ir
    context = lowering.JaxIrContext()
    context.append_dialect_registry(lowering.upstream_dialects)
    with context, ir.Location.unknown():
        module = ir.Module.parse("func.func @f(%x: f32) -> f32 {\n%y = math.sin %x : f32\n"
                                 "return %y : f32\n}")
    assert "math.sin" in str(module)
