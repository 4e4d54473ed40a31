"""Primitives that call a jaxpr: one of its parameters, `call_jaxpr`, says what they compute."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core.avals import aval_of
from calque.core.client import ClientPrimitive
from calque.core.errors import explain
from calque.core.program import Program
from calque.core.trace import EvalTrace, current
from calque.core.types import Params
from calque.extend import linear_util
from calque.extend.core.jaxprs import jaxpr_as_fun
from calque.interpreters import ad, batching, mlir
from calque.transforms.jvp import jvp_flat
from calque.transforms.stage import closed, stage
from calque.transforms.vmap import vmap_flat


def register_call_primitive_rules(prim: Any, name: str | None = None, transpose_rule: Any = None,
                                  inline_jax_late: bool = True) -> None:
    """Give a primitive the rules of a call: prim.bind(*arrays, call_jaxpr=jaxpr) gives the jaxpr's
    results, under every transformation.  (JAX has it since 0.11.1, in place of CallPrimitive, which
    takes a function.)

    Args:
      prim: a Primitive of yours.
      name, inline_jax_late: accepted.
      transpose_rule: in place of the one that is derived.

    Returns:
      Nothing.

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> from calque.extend import core
      >>> call_p = core.Primitive("my_call")
      >>> core.register_call_primitive_rules(call_p)
      >>> jaxpr = calque.make_jaxpr(lambda x: x * x)(1.0)
      >>> calque.grad(lambda x: call_p.bind(x, call_jaxpr=jaxpr)[0])(3.0)
      Array(6., dtype=float32, weak_type=True)
    """
    prim.multiple_results = True

    def results(*args: Any, call_jaxpr: Program, **params: Any) -> list[Any]:
        return list(jaxpr_as_fun(call_jaxpr)(*args))

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        return jvp_flat(lambda *xs: results(*xs, **params), primals, tangents)

    def batch(axis: Any, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        return vmap_flat(lambda *xs: results(*xs, **params), axis.size, args, dims, axis.name)

    prim.def_impl(results)
    ad.primitive_jvps[prim], batching.fancy_primitive_batchers[prim] = jvp, batch
    if transpose_rule is not None:
        ad.primitive_transposes[prim] = transpose_rule
    prim.def_abstract_eval(lambda *avals, call_jaxpr, **params: list(call_jaxpr.out_avals))
    mlir.register_lowering(prim, mlir.lower_fun(results))


class CallPrimitive(ClientPrimitive):
    """A primitive that calls a function of arrays, its parameter `subfuns`: evaluated, its impl
    gets the function itself; under a transformation it is traced to the parameter `call_jaxpr`, and
    the results are the jaxpr's.  What the function captures becomes operands.

    Args:
      name: for jaxprs.

    Example:
      >>> import calque
      >>> from calque.extend import core, linear_util
      >>> my_call_p = core.CallPrimitive("my_call")
      >>> _ = my_call_p.def_impl(core.call_impl)
      >>> fun = linear_util.wrap_init(lambda x: [x * x])
      >>> calque.grad(lambda x: my_call_p.bind(x, subfuns=(fun,))[0])(3.0)
      Array(6., dtype=float32, weak_type=True)
    """

    __slots__ = ("__dict__",)
    call_primitive = True

    def __init__(self, name: str) -> None:
        super().__init__(name)
        register_call_primitive_rules(self)
        self.impl = self._no_impl

    def bind(self, *args: Any, **params: Any) -> Any:
        """Call a function: subfuns=(linear_util.WrappedFun,), and further parameters."""
        if "subfuns" not in params:
            if "call_jaxpr" not in params:
                raise TypeError(explain(
                    f"{self}.bind: there is no function to call.",
                    fix="pass subfuns=(linear_util.wrap_init(f),), f a function of arrays that "
                        "returns a list."))
            params = self.get_bind_params(params)
        (fun,) = params.pop("subfuns")
        if isinstance(current.get(), EvalTrace):
            return self.impl(fun, *args, **params)
        program, captured = closed(stage(fun.call_wrapped, [aval_of(x) for x in args], self.name))
        return super().bind(*captured, *args, call_jaxpr=program, **params)

    def get_bind_params(self, params: Params) -> Params:
        """What bind takes for an equation's parameters: the jaxpr as a function."""
        rest = dict(params)
        called = jaxpr_as_fun(rest.pop("call_jaxpr"))
        return {**rest, "subfuns": (linear_util.wrap_init(called),)}

    def _run(self, *args: Any, **params: Any) -> Any:
        given = self.get_bind_params(params)
        (fun,) = given.pop("subfuns")
        return self.impl(fun, *args, **given)


def create_call_primitive(name: str, inline_jax_late: bool = True) -> Any:
    """A primitive that calls its parameter `call_jaxpr`.

    Args:
      name: for jaxprs.
      inline_jax_late: accepted.

    Returns:
      A Primitive.

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> from calque.extend import core
      >>> call_p = core.create_call_primitive("my_call")
      >>> call_p.bind(2.0, call_jaxpr=calque.make_jaxpr(lambda x: x + 1)(1.0))
      [Array(3., dtype=float32, weak_type=True)]
    """
    made = ClientPrimitive(name)
    register_call_primitive_rules(made, name, inline_jax_late=inline_jax_late)
    return made


__all__ = ["CallPrimitive", "create_call_primitive", "register_call_primitive_rules"]
