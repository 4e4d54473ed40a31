"""The Primitive record: a name and its rules.  A transformation looks a rule up here and never
imports a primitive, so that the rules of control flow may use the transformations.

Conventions (single-result primitives; with `multiple_results` values become lists):
  abstract(*avals, **params) -> ShapedArray               raises the user-facing shape/dtype errors
  jvp(primals, tangents, **params) -> (out, tangent)      tangents may be Zero; so may the result
  linearize(nonzero, primals, **params) -> (outs, nonzero_out, apply)    higher-order primitives
  transpose(ct, *args, **params) -> list of cotangents    linear operands are UndefinedPrimals
  batch(size, args, dims, **params) -> (out, dim)         dims: axis or None per operand
  program(*avals, **params) -> Program                    what it is in other primitives, where
                                                          lowering has no form of its own
Facts (what eager evaluation, lowering, costs and export ask; docs/add_a_primitive.md):
  elementwise     operands of one shape or rank 0 give a result of that shape, element by element
  function        sine and the like: a result of one is a transcendental in XLA's sense
  moves           it moves, chooses or reinterprets elements: no flops
  weight          what an element costs, an addition being 1: measured (core/weights), else as given
  memory          what its result is: "fresh", new memory whatever the operands; "folds", an operand
                  where the others are constants; "view", an operand seen otherwise; "updates", its
                  first operand written into; "", not known, so maybe an operand
  kernel          its form in kernels of ours: "map", "view", "fold", "loop", "nest" (a loop nest of
                  its own), "expanded" (others: primitives/expansions); elementwise ones have "map"
                  unless `no_kernel` gives the reason
  keys            whether it takes PRNG keys
  calls_python    whether it calls a function of the user's when it runs
  static_operand  the operand that has a better form where its value is known
Start reading at `Primitive.bind`.  Imports core.avals, core.errors, core.trace, core.weights.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from calque.core.avals import HasAval, ShapedArray
from calque.core.errors import explain
from calque.core.trace import as_current, current
from calque.core.types import Function, Params
from calque.core.weights import MEASURED

registry: dict[str, Primitive] = {}

RULES = ("abstract", "jvp", "linearize", "transpose", "batch")
FACTS = ("elementwise", "arity", "function", "moves", "weight", "memory", "kernel", "no_kernel",
         "keys", "calls_python", "static_operand", "differentiable", "multiple_results",
         "higher_order")


class Primitive:
    """One operation: `bind` applies it under the current trace."""

    __slots__ = ("name", *RULES, "program", "words", "pairs", "collective", "inline", "opened",
                 "staged", "within", "effects", "varying", "mixed", "factors", "client", *FACTS,
                 "__weakref__")

    call_primitive = map_primitive = False  # interpreters of jaxprs ask (distrax)

    def __init__(self, name: str, *, multiple_results: bool = False, differentiable: bool = True,
                 higher_order: bool = False,
                 effects: Callable[[dict[str, Any]], bool] | None = None,
                 elementwise: bool = False, arity: int | None = None, function: bool = False,
                 moves: bool = False, weight: int = 1, memory: str = "", kernel: str = "",
                 no_kernel: str = "", keys: bool = False, calls_python: bool = False,
                 static_operand: int | None = None, client: bool = False) -> None:
        self.name = name
        self.client = client  # not ours (core/client): not in the registry, expanded by lowering
        self.elementwise, self.arity, self.function = elementwise, arity, function
        self.moves, self.memory = moves, memory
        self.weight = MEASURED.get(name, weight)
        self.kernel = "map" if elementwise and not no_kernel else kernel
        self.no_kernel, self.keys, self.calls_python = no_kernel, keys, calls_python
        self.static_operand = static_operand
        self.multiple_results = multiple_results
        self.differentiable = differentiable
        self.higher_order = higher_order
        self.effects = effects
        self.abstract: Function | None = None
        self.jvp: Function | None = None
        self.linearize: Function | None = None
        self.transpose: Function | None = None
        self.batch: Function | None = None
        self.program: Function | None = None
        # a loop on the words of keys, in operations that kernels have: primitives/words
        self.words: Function | None = None
        self.pairs: Function | None = None  # a loop on parts of complex numbers: primitives/pairs
        self.collective: Function | None = None  # over a named axis, see collectives.py
        # which dimensions of operands are which of results, see primitives/factors
        self.factors: Function | None = None
        # axes over which results vary, of operands' axes and params; None: over all of them
        self.varying: Callable[..., frozenset[Any]] | None = None
        # operands need not be reduced alike (transforms/sums): its transpose where one is so over
        # an axis that splits another, (ct, primitive, operands, params) -> cotangents or None
        self.mixed: Function | None = None
        # primitives that hold Python functions: run one on values; (operands, params) of a record
        self.inline: Function | None = None
        # of one that is compiled as a whole: what runs it on values in its place, or None; (params)
        self.opened: Callable[[dict[str, Any]], Function | None] | None = None
        self.staged: Callable[..., tuple[Any, dict[str, Any]]] | None = None
        # under a vmap trace, while it holds Python functions, which may close over mapped values
        self.within: Function | None = None
        if not client:
            assert name not in registry, name
            registry[name] = self

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__

    def has_effects(self, params: Params) -> bool:
        return self.effects is not None and self.effects(params)

    def rule(self, kind: str) -> Function:
        """The rule of a kind, or an error that names what is missing."""
        found = getattr(self, kind)
        if found is None:
            have = ", ".join(k for k in RULES if getattr(self, k) is not None) or "none"
            raise NotImplementedError(explain(
                f"{self.name}: no {kind} rule; it has: {have}.",
                fix=f"set {self.name}_p.{kind} in its section of frontend/calque/primitives/."))
        return found

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply to values under the current trace: a value, or a list with multiple_results."""
        return current.get().process(self, args, params)

    def bind_with_trace(self, trace: Any, args: Sequence[Any], *rest: Any) -> Any:
        """The same under a trace that need not be the current one, as JAX's traces of libraries
        call it: the operands, their avals (which older JAX did not take), and the parameters."""
        with as_current(trace):
            return trace.process(self, args, rest[-1])

    def get_bind_params(self, params: Params) -> Params:
        """What bind takes beside the operands of an equation: evaluators of jaxprs ask."""
        return params


@dataclass(frozen=True, slots=True)
class UndefinedPrimal(HasAval):
    """Stands for a linear operand in a transpose rule: known by its aval only.

    Args:
      aval: its type.

    Example:
      >>> import calque
      >>> from calque.interpreters import ad
      >>> ad.is_undefined_primal(ad.UndefinedPrimal(calque.core.ShapedArray((), "float32")))
      True
    """

    aval: ShapedArray


def is_linear(x: Any) -> bool:
    return isinstance(x, UndefinedPrimal)
