"""Primitives and jaxprs as libraries see them.  Map:

  jaxprs.py      Jaxpr, ClosedJaxpr, JaxprEqn, DropVar: JAX's constructors of Programs
  traces.py      which trace is current
  calls.py       primitives that call a jaxpr
  primitives.py  our primitives under JAX's names: sin_p, scan_p, ...

A Primitive is core/client.ClientPrimitive; its rules are set in calque/interpreters.
"""
from calque.core.checker import ProgramError as JaxprTypeError
from calque.core.checker import check as check_jaxpr
from calque.core.client import ClientPrimitive
from calque.core.errors import InconclusiveDimensionOperation
from calque.core.primitive import Primitive as _Primitive
from calque.core.program import Literal, Var
from calque.core.refused import refusing as _refusing
from calque.extend.core import primitives as primitives
from calque.extend.core.calls import (
    CallPrimitive,
    create_call_primitive,
    register_call_primitive_rules,
)
from calque.extend.core.jaxprs import (
    ClosedJaxpr,
    DebugInfo,
    DropVar,
    Effect,
    Effects,
    Jaxpr,
    JaxprEqn,
    gensym,
    jaxpr_as_fun,
    jaxprs_in_params,
    mapped_aval,
    new_jaxpr_eqn,
    no_effects,
    subjaxprs,
    unmapped_aval,
)
from calque.extend.core.traces import (
    TraceTag,
    array_types,
    call_impl,
    concrete_or_error,
    find_top_trace,
    get_opaque_trace_state,
    nonempty_axis_env_DO_NOT_USE,
    primal_dtype_to_tangent_dtype,
    set_current_trace,
    take_current_trace,
    unsafe_am_i_under_a_jit_DO_NOT_USE,
    unsafe_am_i_under_a_vmap_DO_NOT_USE,
    unsafe_get_axis_names_DO_NOT_USE,
    valid_jaxtype,
)
from calque.trees.tokens import AbstractToken, Token


class _PrimitiveMeta(type):
    """isinstance(p, Primitive) also holds for our own."""

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, _Primitive) if cls is Primitive else super().__instancecheck__(x)


class Primitive(ClientPrimitive, metaclass=_PrimitiveMeta):
    """An operation of a library's or of a user's.

    Rules are set by the methods and by the tables of calque.interpreters: an abstract one, which
    every primitive needs, an implementation for values, jvp, transpose, batching, lowering.

    Args:
      name: for messages and jaxprs; need not be unique.

    Example:
      >>> import calque, numpy as np
      >>> from calque.extend.core import Primitive
      >>> from calque.interpreters import mlir
      >>> double_p = Primitive("double")
      >>> _ = double_p.def_impl(lambda x: np.asarray(x) * 2)
      >>> _ = double_p.def_abstract_eval(lambda x: calque.core.ShapedArray(x.shape, x.dtype))
      >>> mlir.register_lowering(double_p, mlir.lower_fun(lambda x: x + x, multiple_results=False))
      >>> print(calque.jit(double_p.bind)(3.0))
      6.0
    """

    __slots__ = ("__dict__",)


__getattr__ = _refusing(__name__)
__all__ = [
    "AbstractToken", "CallPrimitive", "ClosedJaxpr", "DebugInfo", "DropVar", "Effect", "Effects",
    "InconclusiveDimensionOperation",
    "Jaxpr", "JaxprEqn", "JaxprTypeError", "Literal", "Primitive", "Token", "TraceTag", "Var",
    "array_types", "call_impl", "check_jaxpr", "concrete_or_error",
    "create_call_primitive", "find_top_trace", "gensym",
    "get_opaque_trace_state",
    "jaxpr_as_fun", "jaxprs_in_params", "mapped_aval", "new_jaxpr_eqn", "no_effects",
    "nonempty_axis_env_DO_NOT_USE",
    "primal_dtype_to_tangent_dtype", "primitives", "register_call_primitive_rules",
    "set_current_trace", "subjaxprs",
    "take_current_trace", "unmapped_aval", "unsafe_am_i_under_a_jit_DO_NOT_USE",
    "unsafe_am_i_under_a_vmap_DO_NOT_USE", "unsafe_get_axis_names_DO_NOT_USE", "valid_jaxtype"
]


def __dir__() -> list[str]:
    return __all__
