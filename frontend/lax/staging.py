"""lax functions that say how a program is made, not what it computes: optimization_barrier,
composite, platform_dependent, stage, dce_sink; accuracies that elementwise functions accept.
"""
from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from calque import devices, tree_util
from calque.core.errors import explain
from calque.lax.operands import as_operand
from calque.lax.shape import unchanged
from calque.primitives.generator import optimization_barrier_p


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


def composite(decomposition: Callable[..., Any], name: str, version: int = 0
              ) -> Callable[..., Any]:
    """A function with a name that a compiler may know; it is its decomposition.

    Args:
      decomposition: function of arrays; keyword arguments are attributes.
      name: of the operation, such as "my.softmax".
      version: of its meaning.

    Returns:
      A function of the same arguments.

    Raises:
      TypeError: name is no string.

    Example:
      >>> from calque import lax
      >>> lax.composite(lambda x: lax.sin(x) / lax.cos(x), name="my.tangent")(0.0)
      Array(0., dtype=float32, weak_type=True)
    """
    if not isinstance(name, str):
        raise TypeError(explain(f"composite: name must be a string, got {name!r}."))

    @functools.wraps(decomposition)
    def named(*args: Any, **attributes: Any) -> Any:
        return decomposition(*args, **attributes)

    return named


def platform_dependent(*args: Any, default: Callable[..., Any] | None = None,
                       **per_platform: Callable[..., Any]) -> Any:
    """The function for the platform that the program is traced for, called.

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
    platform = devices.default_backend()
    names = (platform,) if platform == "cpu" else (platform, "gpu")
    found = next((per_platform[n] for n in names if n in per_platform), default)
    if found is None:
        raise NotImplementedError(explain(
            f"platform_dependent: no function for platform {platform}; there are: "
            f"{', '.join(per_platform) or 'none'}.", fix="pass one by keyword, or a default."))
    return found(*args)


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
