"""Lowering of client primitives: by a function of arrays (lower_fun), or in MLIR.

What lower_fun is given becomes part of the program before loops and costs are judged, so that it
costs what the same operations cost elsewhere.  Start reading at `register_lowering`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.api.callbacks import io_callback, pure_callback
from calque.api.ffi import call_kernels
from calque.core.avals import aval_of
from calque.core.client import ClientPrimitive
from calque.core.errors import explain
from calque.core.kernel import PLATFORMS, Kernel, Kernels
from calque.core.program import Program
from calque.core.types import Function
from calque.dispatch.tracing import ShapeDtypeStruct
from calque.lowering.emit import mlir as _mlir
from calque.lowering.rules.client import LoweringContext as LoweringRuleContext
from calque.transforms.stage import stage

_GPUS = ("cuda", "rocm", "vulkan")


class _LowerFun:
    """A function of arrays as a lowering rule."""

    def __init__(self, fun: Function, multiple_results: bool) -> None:
        self.fun, self.multiple_results = fun, multiple_results
        self.kernels: Kernels | None = None  # where it is the call of kernels

    def program(self, *avals: Any, **params: Any) -> Program:
        """What it does to operands of these types."""
        def run(*xs: Any) -> Sequence[Any]:
            out = self.fun(*xs, **params)
            return list(out) if self.multiple_results else [out]
        return stage(run, avals, getattr(self.fun, "__name__", "lowered"))

    def __call__(self, ctx: Any, *args: Any, **params: Any) -> list[Any]:
        return ctx.emit(self.program(*ctx.avals_in, **params), args)


def lower_fun(fun: Function, multiple_results: bool = True) -> Function:
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


def _kernel(prim: ClientPrimitive, kernel: Kernel, platform: str | None) -> _LowerFun:
    """A kernel as a lowering rule, beside those of other platforms that it got before; its results
    are what the abstract evaluation says."""
    known = getattr(getattr(prim.program, "__self__", None), "kernels", None)
    place = {None: "cpu", "gpu": "cuda"}.get(platform, platform)
    if place not in PLATFORMS:
        raise ValueError(explain(
            f"mlir.register_lowering: no kernels for platform {platform!r}.",
            fix=f"pass one of {', '.join(PLATFORMS)}."))
    kernels = (known or Kernels(str(prim.name))).having(place, kernel)

    def run(*xs: Any, **params: Any) -> list[Any]:
        assert prim.abstract is not None  # it was bound
        out = prim.abstract(*[aval_of(x).plain for x in xs], **params)
        outs = tuple(out) if isinstance(out, (list, tuple)) else (out,)
        return call_kernels(kernels, xs, outs, None, (), params)

    made = _LowerFun(run, True)
    made.kernels = kernels
    return made


def _text(name: str, text: str) -> Function:
    """A lowering rule from one function in MLIR's text."""
    def error(what: str, ctx: Any, fix: str) -> Exception:
        return ValueError(explain(f"{name}: its lowering in StableHLO {what}.",
                                  where=str(ctx.source), fix=fix))

    def rule(ctx: Any, *operands: Any, **params: Any) -> list[Any]:
        ir = _mlir.ir()
        if params:
            raise error(f"is a text, and gets the params {', '.join(params)}", ctx,
                        "register a function rule(ctx, *values, **params).")
        try:
            module = ir.Module.parse(text)  # (owns what is in it)
        except Exception as failed:  # MLIR's own class
            raise error(f"cannot be read:\n{failed}", ctx, "mend the text.") from None
        functions = [op.operation for op in module.body.operations]
        if [f.name for f in functions] != ["func.func"]:
            raise error("must be one func.func", ctx,
                        "write func.func @f(%x: tensor<...>) -> tensor<...> { ... }.")
        kind = functions[0].attributes["function_type"].value
        given = [_mlir.tensor_type(a.shape, a.dtype) for a in ctx.avals_in]
        if list(kind.inputs) != given:
            raise error(f"takes {', '.join(map(str, kind.inputs))}, and the call gives "
                        f"{', '.join(map(str, given))}", ctx, "let both have the same types.")
        return ctx.call(functions[0], operands, list(kind.results))

    return rule


def register_lowering(prim: Any, rule: Function | Kernel | str | None,
                      platform: str | None = None, inline: bool = True,
                      cacheable: bool = True) -> None:
    """Set what a primitive is compiled to.

    Args:
      prim: from extend.core.Primitive.
      rule: from lower_fun, or rule(ctx, *values, **params) -> MLIR values of StableHLO, or the
        text of one func.func in StableHLO, or ffi.ffi_lowering(name), or an ffi.Kernel; params that
        are given are a kernel's attributes, numbers; None: the rule that there is is taken back.
      platform: "cpu", "cuda", "tpu", ...; "gpu": any GPU; None: all others.  Here one rule serves
        all devices: cpu's, else the first; calque.export takes each platform's own.  A primitive
        may have a Kernel for each platform.
      inline, cacheable: accepted.

    Returns:
      Nothing.

    Raises:
      TypeError: prim is calque's own, or rule is neither a function nor a text nor a Kernel.
      ValueError: there are no kernels for the platform.

    Example:
      >>> from calque.extend.core import Primitive
      >>> from calque.interpreters import mlir
      >>> mlir.register_lowering(Primitive("same"), mlir.lower_fun(lambda x: [x]))
    """
    if not isinstance(prim, ClientPrimitive):
        raise TypeError(explain(f"mlir.register_lowering: {prim} is no primitive of a client's.",
                                fix="make one: extend.core.Primitive(name)."))
    if rule is None:  # a rule is taken back
        prim.lowering = prim.program = None
        prim.by_platform.clear()
        return
    if isinstance(rule, Kernel):
        rule = _kernel(prim, rule, platform)
    if isinstance(rule, str):
        rule = _text(str(prim.name), rule)
    if not callable(rule):
        raise TypeError(explain(f"mlir.register_lowering: {rule!r} is no function.",
                                fix="pass mlir.lower_fun(function), or an ffi.Kernel."))
    made = (rule.program, None) if isinstance(rule, _LowerFun) else (None, rule)
    prim.by_platform |= dict.fromkeys(_GPUS if platform == "gpu" else (platform,), made)
    if platform not in (None, "cpu") and (prim.program or prim.lowering) and not (
            isinstance(rule, _LowerFun) and rule.kernels):
        return
    prim.program, prim.lowering = made


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


def emit_python_callback(ctx: Any, callback: Function, token: Any, operands: Sequence[Any],
                         operand_avals: Sequence[Any], result_avals: Sequence[Any], *,
                         has_side_effect: bool = True, **options: Any) -> tuple[Any, Any, Any]:
    """A call of a Python function, in a lowering rule (equinox's noinline).

    Args:
      ctx: the rule's context.
      callback: takes arrays and returns a sequence of them.
      token: passed on.
      operands, operand_avals: MLIR values and their ShapedArrays.
      result_avals: ShapedArrays of what it returns.
      has_side_effect: whether it is called where nobody uses its results.
      **options: accepted.

    Returns:
      MLIR values, the token, and None, what is to be kept alive.

    Raises:
      TypeError: callback cannot be called, or an aval is none.

    Example:
      >>> from calque.interpreters import mlir
      >>> callable(mlir.emit_python_callback)   # (inside a rule: there is a context there)
      True
    """
    call = io_callback if has_side_effect else pure_callback
    shapes = [ShapeDtypeStruct(a.shape, a.dtype) for a in result_avals]
    p = stage(lambda *xs: call(lambda *ys: tuple(callback(*ys)), tuple(shapes), *xs),
              list(operand_avals), "callback")
    return ctx.emit(p, operands), token, None


def __getattr__(name: str) -> Any:
    if name == "ir":  # loaded at its first use
        return _mlir.ir()
    raise AttributeError(f"calque.interpreters.mlir has no {name!r}.\n  Fix: write the lowering as "
                         "a function of arrays: mlir.lower_fun(function).")


__all__ = ["LoweringRuleContext", "aval_to_ir_type", "dtype_to_ir_type",
           "emit_python_callback", "lower_fun",
           "register_lowering"]


def __dir__() -> list[str]:
    return __all__
