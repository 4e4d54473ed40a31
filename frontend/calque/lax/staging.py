"""lax functions that say how a program is made, not what it computes: optimization_barrier,
composite, platform_dependent, stage, dce_sink; accuracies that elementwise functions accept.
"""
from __future__ import annotations

import enum
import functools
from dataclasses import dataclass
from typing import Any

from calque.api.control import switch
from calque.core.avals import aval_of
from calque.core.config import config
from calque.core.errors import UnexpectedTracerError, explain
from calque.core.trace import Tracer
from calque.core.types import Function
from calque.dispatch import devices
from calque.dispatch.eager import lazy_eval
from calque.lax.operands import as_operand
from calque.lax.shape import unchanged
from calque.primitives.custom import Rule, custom_vmap_p, without_derivative
from calque.primitives.generator import optimization_barrier_p, platform_index_p
from calque.transforms.stage import replay
from calque.transforms.stage import stage as stage_program
from calque.trees import util as tree_util


def optimization_barrier(operand: Any, /) -> Any:
    """Its operands; nothing is fused or moved across, so that all are computed together.

    Args:
      operand: an array, a number, or a tree of them.

    Returns:
      The same tree.

    Raises:
      TypeError: a leaf is no array.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque import lax
      >>> calque.jit(lambda x: lax.optimization_barrier((x, x + 1)))(jnp.float32(1))
      (Array(1., dtype=float32), Array(2., dtype=float32))
    """
    leaves, tree = tree_util.tree_flatten(operand)
    values = [unchanged(as_operand("optimization_barrier", x, i)) for i, x in enumerate(leaves)]
    return tree.unflatten(optimization_barrier_p.bind(*values) if values else [])


def composite(decomposition: Function, name: str, version: int = 0
              ) -> Function:
    """A function with a name that a compiler may know; it is its decomposition.

    Args:
      decomposition: function of arrays; keyword arguments are attributes.
      name: of the operation, such as "my.softmax".
      version: of its meaning.

    Returns:
      A function of the same arguments, which has no derivatives and no batching rule.

    Raises:
      TypeError: name is no string.
      UnexpectedTracerError: (by the function) the decomposition closes over a traced value.

    Example:
      >>> from calque import lax
      >>> lax.composite(lambda x: lax.sin(x) / lax.cos(x), name="my.tangent")(0.0)
      Array(0., dtype=float32, weak_type=True)
    """
    if not isinstance(name, str):
        raise TypeError(explain(f"composite: name must be a string, got {name!r}."))

    @functools.wraps(decomposition)
    def named(*args: Any, **attributes: Any) -> Any:
        leaves, tree = tree_util.tree_flatten(args)
        values = [unchanged(as_operand("composite", x, i)) for i, x in enumerate(leaves)]
        if any(isinstance(x, Tracer) for x in tree_util.tree_leaves(attributes)):
            raise _closes_over(name, "an attribute")
        out_trees: list[Any] = []

        def flat(*xs: Any) -> list[Any]:
            outs, out_tree = tree_util.tree_flatten(
                decomposition(*tree.unflatten(xs), **attributes))
            out_trees.append(out_tree)
            return [as_operand("composite", o) for o in outs]

        program = stage_program(flat, [aval_of(x) for x in values], "composite")
        if any(isinstance(c, Tracer) for c in program.consts):
            raise _closes_over(name, "a constant")
        with lazy_eval("composite"):
            outs = replay(program, *[_opaque(x) for x in values])
            return out_trees[0].unflatten([unchanged(o) for o in outs])

    return named


def _closes_over(name: str, what: str) -> Exception:
    return UnexpectedTracerError(explain(
        f"Found a JAX Tracer as {what} in the decomposition for the composite op '{name}'. This "
        "means that the decomposition function closes over a value that is involved in a JAX "
        "transformation.", fix="pass it as an argument of the composite."))


def _refuse_jvp(*_: Any) -> Any:
    raise ValueError(explain("JVP rule for composite not implemented.",
                             fix="give the function a rule with jax.custom_jvp."))


def _refuse_vmap(*_: Any) -> Any:
    raise NotImplementedError(explain("Batching rule for 'composite' not implemented",
                                      fix="vmap inside of the decomposition."))


def _opaque(x: Any) -> Any:
    """x, which neither derivatives nor vmap pass."""
    if not isinstance(x, Tracer):
        return x
    (x,) = custom_vmap_p.bind(*without_derivative(x, _refuse_jvp), call_jaxpr=Rule(lambda v: [v]),
                              rule=Rule(_refuse_vmap), num_consts=0)
    return x


def platform_dependent(*args: Any, default: Function | None = None,
                       **per_platform: Function) -> Any:
    """The function for the platform that the program is traced for, called; exported for several
    platforms, a choice between theirs when the module runs.

    Args:
      *args: its arguments.
      default: for platforms that are not named.
      **per_platform: functions by platform: cpu, cuda, vulkan, ...; gpu for any GPU.

    Returns:
      The function's result.

    Raises:
      NotImplementedError: there is none for the platform.

    Example:
      >>> from calque import lax
      >>> lax.platform_dependent(2.0, cpu=lambda x: x + 1, default=lambda x: x)
      3.0
    """
    exported = config.exported_platforms()
    if exported is None or len(exported) == 1:
        platform = exported[0] if exported else devices.default_backend()
        return _function_of(platform, default, per_platform)(*args)
    chosen = [_function_of(platform, default, per_platform) for platform in exported]
    functions = list(dict.fromkeys(chosen))
    if len(functions) == 1:
        return functions[0](*args)
    groups = [tuple(p for p, f in zip(exported, chosen) if f is one) for one in functions]
    return switch(platform_index_p.bind(platforms=tuple(groups)), functions, *args)


def _function_of(platform: str, default: Function | None, per_platform: dict[str, Function]
                 ) -> Function:
    """The function for a platform."""
    names = (platform,) if platform in ("cpu", "tpu") else (platform, "gpu")
    found = next((per_platform[n] for n in names if n in per_platform), default)
    if found is None:
        raise NotImplementedError(explain(
            f"platform_dependent: translation rule not found for platform {platform}; there are: "
            f"{', '.join(per_platform) or 'none'}.", fix="pass one by keyword, or a default."))
    return found


def stage(x: Any, /) -> Any:
    """x as an array, or as a value of the trace at work.

    Args:
      x: array or number.

    Returns:
      An array or a tracer.

    Raises:
      TypeError: x is neither.

    Example:
      >>> from calque import lax
      >>> lax.stage(2.0)
      Array(2., dtype=float32, weak_type=True)
    """
    return unchanged(as_operand("stage", x))


def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Take a value and give nothing back; what is not used is not computed here.

    Args:
      val: array, number, or a tree of them.

    Returns:
      None.

    Raises:
      TypeError: a leaf is no array.

    Example:
      >>> from calque import lax
      >>> lax.dce_sink(2.0)
    """
    for i, x in enumerate(tree_util.tree_leaves(val)):
        as_operand("dce_sink", x, i)


class AccuracyMode(enum.Enum):
    """How exact elementwise functions are to be; they are as exact as they can be in any case.

    Example:
      >>> from calque import lax
      >>> lax.exp(0.0, accuracy=lax.AccuracyMode.HIGHEST)
      Array(1., dtype=float32, weak_type=True)
    """

    HIGHEST = 1
    DEFAULT = 2


@dataclass(frozen=True)
class Tolerance:
    """An error that is allowed, in place of an AccuracyMode.

    Args:
      atol: absolute.
      rtol: relative.
      ulps: in units of the last place.

    Raises:
      ValueError: one is negative, or none is given.

    Example:
      >>> from calque import lax
      >>> lax.Tolerance(ulps=2)
      Tolerance(atol=0.0, rtol=0.0, ulps=2)
    """

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0

    def __post_init__(self) -> None:
        if min(self.atol, self.rtol, self.ulps) < 0:
            raise ValueError(explain("Tolerances must be non-negative."))
        if not (self.atol or self.rtol or self.ulps):
            raise ValueError(explain("At least one of atol, rtol, or ulps must be set."))


__all__ = ["AccuracyMode", "Tolerance", "composite", "dce_sink", "optimization_barrier",
           "platform_dependent", "stage"]
