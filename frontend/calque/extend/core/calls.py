"""Primitives that call a jaxpr: one of its parameters, `call_jaxpr`, says what they compute."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core.client import ClientPrimitive
from calque.core.program import Program
from calque.extend.core.jaxprs import jaxpr_as_fun
from calque.interpreters import ad, batching, mlir
from calque.transforms.jvp import jvp_flat
from calque.transforms.vmap import vmap_flat


def register_call_primitive_rules(prim: Any, name: str | None = None, transpose_rule: Any = None,
                                  inline_jax_late: bool = True) -> None:
    """Give a primitive the rules of a call: prim.bind(*arrays, call_jaxpr=jaxpr) gives the jaxpr's
    results, under every transformation.  (JAX has it since 0.11.1, in place of CallPrimitive.)

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


__all__ = ["create_call_primitive", "register_call_primitive_rules"]
