"""Lowering of client primitives: by a function of arrays (lower_fun), or in MLIR.

What lower_fun is given becomes part of the program before loops and costs are judged, so that it
costs what the same operations cost elsewhere.  Start reading at `register_lowering`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.core.avals import aval_of
from calque.core.client import ClientPrimitive
from calque.core.errors import explain
from calque.core.kernel import Kernel, Kernels
from calque.core.program import Program
from calque.ffi import call_kernels
from calque.lowering import mlir as _mlir
from calque.lowering.rules.client import LoweringContext as LoweringRuleContext
from calque.transforms.stage import stage


class _LowerFun:
    """A function of arrays as a lowering rule."""

    def __init__(self, fun: Callable[..., Any], multiple_results: bool) -> None:
        self.fun, self.multiple_results = fun, multiple_results

    def program(self, *avals: Any, **params: Any) -> Program:
        """What it does to operands of these types."""
        def run(*xs: Any) -> Sequence[Any]:
            out = self.fun(*xs, **params)
            return list(out) if self.multiple_results else [out]
        return stage(run, avals, getattr(self.fun, "__name__", "lowered"))

    def __call__(self, ctx: Any, *args: Any, **params: Any) -> list[Any]:
        return ctx.emit(self.program(*ctx.avals_in, **params), args)


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> Callable[..., Any]:
    """A lowering rule from a function of arrays.

    Args:
      fun: fun(*operands, **params) of calque.numpy's and calque.lax's operations.
      multiple_results: whether it returns a list.

    Returns:
      A rule for register_lowering; called with a context and MLIR values, it gives MLIR values.

    Raises:
      Nothing.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.extend.core import Primitive
      >>> from calque.interpreters import mlir
      >>> hypot_p = Primitive("hypotenuse")
      >>> _ = hypot_p.def_abstract_eval(lambda x, y: x)
      >>> rule = mlir.lower_fun(lambda x, y: jnp.sqrt(x * x + y * y), multiple_results=False)
      >>> mlir.register_lowering(hypot_p, rule)
      >>> import calque
      >>> print(calque.jit(hypot_p.bind)(3.0, 4.0))
      5.0
    """
    return _LowerFun(fun, multiple_results)


def _kernel(prim: ClientPrimitive, kernel: Kernel) -> _LowerFun:
    """A kernel as a lowering rule; its results are what the abstract evaluation says."""
    kernels = Kernels(str(prim.name)).having("cpu", kernel)

    def run(*xs: Any, **params: Any) -> list[Any]:
        assert prim.abstract is not None  # it was bound
        out = prim.abstract(*[aval_of(x).plain for x in xs], **params)
        outs = tuple(out) if isinstance(out, (list, tuple)) else (out,)
        return call_kernels(kernels, xs, outs, None, (), params)

    return _LowerFun(run, True)


def register_lowering(prim: Any, rule: Callable[..., Any] | Kernel, platform: str | None = None,
                      inline: bool = True, cacheable: bool = True) -> None:
    """Set what a primitive is compiled to.

    Args:
      prim: from extend.core.Primitive.
      rule: from lower_fun, or rule(ctx, *values, **params) -> MLIR values of StableHLO, or an
        ffi.Kernel, for CPUs; params that are given are its attributes, numbers.
      platform: "cpu", ...; a rule for a platform other than cpu is kept only where there is no
        other: one program serves all.
      inline, cacheable: accepted.

    Returns:
      Nothing.

    Raises:
      TypeError: prim is calque's own, or rule is neither a function nor a Kernel.

    Example:
      >>> from calque.extend.core import Primitive
      >>> from calque.interpreters import mlir
      >>> mlir.register_lowering(Primitive("same"), mlir.lower_fun(lambda x: [x]))
    """
    if not isinstance(prim, ClientPrimitive):
        raise TypeError(explain(f"mlir.register_lowering: {prim} is no primitive of a client's.",
                                fix="make one: extend.core.Primitive(name)."))
    if isinstance(rule, Kernel):
        rule = _kernel(prim, rule)
    if not callable(rule):
        raise TypeError(explain(f"mlir.register_lowering: {rule!r} is no function.",
                                fix="pass mlir.lower_fun(function), or an ffi.Kernel."))
    if platform not in (None, "cpu") and (prim.program or prim.lowering):
        return
    if isinstance(rule, _LowerFun):
        prim.program, prim.lowering = rule.program, None
    else:
        prim.program, prim.lowering = None, rule


def dtype_to_ir_type(dtype: Any) -> Any:
    """MLIR's element type of a dtype.

    Args:
      dtype: a dtype.

    Returns:
      An MLIR type.

    Raises:
      KeyError: MLIR has none.

    Example:
      >>> from calque.interpreters import mlir
      >>> callable(mlir.dtype_to_ir_type)   # (inside a rule: there is a context there)
      True
    """
    return _mlir.tensor_type((), np.dtype(dtype)).element_type


def aval_to_ir_type(*ctx_and_aval: Any) -> Any:
    """MLIR's tensor type of a ShapedArray.

    Args:
      *ctx_and_aval: (the context and) the ShapedArray.

    Returns:
      An MLIR type.

    Raises:
      KeyError: MLIR has none.

    Example:
      >>> from calque.interpreters import mlir
      >>> callable(mlir.aval_to_ir_type)   # (inside a rule: there is a context there)
      True
    """
    aval = ctx_and_aval[-1]
    return _mlir.tensor_type(aval.shape, aval.dtype)


def __getattr__(name: str) -> Any:
    if name == "ir":  # loaded at its first use
        return _mlir.ir()
    raise AttributeError(f"calque.interpreters.mlir has no {name!r}.\n  Fix: write the lowering as "
                         "a function of arrays: mlir.lower_fun(function).")


__all__ = ["LoweringRuleContext", "aval_to_ir_type", "dtype_to_ir_type", "lower_fun",
           "register_lowering"]


def __dir__() -> list[str]:
    return __all__
