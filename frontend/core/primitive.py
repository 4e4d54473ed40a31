"""The Primitive record: a name and its rules.  A transformation looks a rule up here and never
imports a primitive, so that the rules of control flow may use the transformations.

Conventions (single-result primitives; with `multiple_results` values become lists):
  abstract(*avals, **params) -> ShapedArray               raises the user-facing shape/dtype errors
  jvp(primals, tangents, **params) -> (out, tangent)      tangents may be Zero; so may the result
  linearize(nonzero, primals, **params) -> (outs, nonzero_out, apply)    higher-order primitives
  transpose(ct, *args, **params) -> list of cotangents    a linear operand arrives as Linear(aval)
  batch(size, args, dims, **params) -> (out, dim)         dims: axis or None per operand
  program(*avals, **params) -> Program                    what it is in other primitives, for those
                                                          that lowering has no form of its own for
Start reading at `Primitive.bind`.  Imports core.avals, core.errors.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.errors import explain

registry: dict[str, Primitive] = {}

RULES = ("abstract", "jvp", "linearize", "transpose", "batch")


class RuleMissingError(NotImplementedError):
    """A primitive lacks a rule that was asked for."""


class Primitive:
    """One operation: `bind` applies it under the current trace."""

    __slots__ = ("name", "multiple_results", "abstract", "jvp", "linearize", "transpose", "batch",
                 "program", "collective", "inline", "staged", "effects", "differentiable",
                 "higher_order", "varying", "factors", "__weakref__")

    def __init__(self, name: str, *, multiple_results: bool = False, differentiable: bool = True,
                 higher_order: bool = False,
                 effects: Callable[[dict[str, Any]], bool] | None = None) -> None:
        self.name = name
        self.multiple_results = multiple_results
        self.differentiable = differentiable
        self.higher_order = higher_order
        self.effects = effects
        self.abstract: Callable[..., Any] | None = None
        self.jvp: Callable[..., Any] | None = None
        self.linearize: Callable[..., Any] | None = None
        self.transpose: Callable[..., Any] | None = None
        self.batch: Callable[..., Any] | None = None
        self.program: Callable[..., Any] | None = None
        self.collective: Callable[..., Any] | None = None  # over a named axis, see collectives.py
        # which dimensions of operands are which of results, see primitives/factors
        self.factors: Callable[..., Any] | None = None
        # axes over which results vary, of operands' axes and params; None: over all of them
        self.varying: Callable[..., frozenset[Any]] | None = None
        # primitives that hold Python functions: run one on values; (operands, params) of a record
        self.inline: Callable[..., Any] | None = None
        self.staged: Callable[..., tuple[Any, dict[str, Any]]] | None = None
        assert name not in registry, name
        registry[name] = self

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__

    def has_effects(self, params: dict[str, Any]) -> bool:
        return self.effects is not None and self.effects(params)

    def rule(self, kind: str) -> Callable[..., Any]:
        """The rule of a kind, or an error that names what is missing."""
        found = getattr(self, kind)
        if found is None:
            have = ", ".join(k for k in RULES if getattr(self, k) is not None) or "none"
            raise RuleMissingError(explain(
                f"{self.name}: no {kind} rule; it has: {have}.",
                fix=f"set {self.name}_p.{kind} in its section of frontend/primitives/."))
        return found  # type: ignore[no-any-return]

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply to values under the current trace: a value, or a list with multiple_results."""
        from calque.core import trace
        return trace.current.get().process(self, args, params)


@dataclass(frozen=True, slots=True)
class Linear:
    """Stands for a linear operand in a transpose rule: known by its aval only."""

    aval: ShapedArray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self.aval.dtype


def is_linear(x: Any) -> bool:
    return isinstance(x, Linear)
