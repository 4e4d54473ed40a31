"""Traces and tracers that a library defines (as haiku's graphs of operations do), and evaluators of
jaxprs that call the functions of equations with rules of their own."""
from __future__ import annotations

from typing import Any

import numpy as np

import calque
import calque.numpy as jnp
from calque.extend import core


class NamedTracer(calque.core.Tracer):
    def __init__(self, trace: Any, value: Any) -> None:
        super().__init__(trace, calque.typeof(value))
        self.value = value


class NamingTrace(calque.core.Trace):
    """Notes each primitive, and runs it under the trace that was current."""

    def __init__(self, parent: Any, names: list[str]) -> None:
        super().__init__()
        self.outer, self.names = parent, names

    def process_primitive(self, primitive: Any, tracers: Any, params: Any) -> Any:
        self.names.append(primitive.name)
        values = [t.value if isinstance(t, NamedTracer) else t for t in tracers]
        out = primitive.bind_with_trace(self.outer, values, [calque.typeof(v) for v in values],
                                        params)
        return calque.tree.map(lambda v: NamedTracer(self, v), out)


def named(f: Any, names: list[str]) -> Any:
    def run(*args: Any) -> Any:
        with core.take_current_trace() as parent:
            trace = NamingTrace(parent, names)
            with core.set_current_trace(trace):
                out = f(*[NamedTracer(trace, a) for a in args])
            return out.value
    return run


def test_a_trace_of_a_library() -> None:
    names: list[str] = []
    x = jnp.arange(4.0)
    f = named(lambda x: jnp.sin(x) * 2 + x, names)
    np.testing.assert_allclose(f(x), np.sin(np.arange(4.0)) * 2 + np.arange(4.0), rtol=1e-6)
    assert names == ["sin", "mul", "add"]
    names.clear()
    assert calque.eval_shape(f, calque.ShapeDtypeStruct((3,), "float32")).shape == (3,)
    np.testing.assert_allclose(calque.jit(f)(x), f(x), rtol=1e-6)
    assert names[:3] == ["sin", "mul", "add"]


def test_bind_with_the_older_arguments() -> None:
    with core.take_current_trace() as parent:
        made = calque.lax.add_p.bind_with_trace(parent, (jnp.float32(1), jnp.float32(2)), {})
    assert float(made) == 3


@calque.custom_jvp
def doubled(x: Any) -> Any:
    return x * 2


doubled.defjvp(lambda p, t: (doubled(*p), t[0] * 20))


@calque.custom_vjp
def tripled(x: Any) -> Any:
    return x * 3


tripled.defvjp(lambda x: (tripled(x), None), lambda _, g: (g * 30,))


def test_functions_of_equations_with_rules() -> None:
    equations = calque.make_jaxpr(lambda x: (doubled(x), tripled(x)))(1.0).eqns
    for e, factor, slope in zip(equations, (2, 3), (20, 30)):
        assert e.params["call_jaxpr"].eqns[0].primitive.name == "mul"
        params = e.primitive.get_bind_params(e.params)
        assert "call_jaxpr" not in params
        assert float(params["subfuns"][0].call_wrapped(jnp.float32(5))[0]) == 5 * factor
        again = lambda x, e=e, params=params: e.primitive.bind(x, **params)[0]  # noqa: E731
        assert float(again(5.0)) == 5 * factor
        assert float(calque.grad(again)(5.0)) == slope
