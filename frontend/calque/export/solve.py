"""Sizes by name from the sizes of arrays: which equation gives which variable, and in what order.

`plan` looks at the symbolic shapes alone, so that a call (shapes.check) and the module that is
written (build.bind_sizes) take the same steps; `conditions` is what both check then.  Start reading
at `plan`.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from calque.core.dimension import Dim, build
from calque.core.dims import APPLY, SymbolicScope
from calque.core.errors import explain


@dataclass(frozen=True, slots=True)
class Step:
    """Equation `index` gives a variable, as (size - rest) / factor; without a name it holds."""

    index: int
    name: str = ""
    factor: int = 1
    rest: Any = 0


def plan(sizes: Sequence[Dim]) -> tuple[list[Step], list[int]]:
    """The steps that solve `sizes[i] = number i`, and the equations that cannot be solved."""
    steps: list[Step] = []
    left, known = list(range(len(sizes))), set[str]()
    while left:
        later = []
        for i in left:
            step = _step(i, sizes[i], known)
            if step is None:
                later.append(i)
            else:
                steps.append(step)
                known |= {step.name} - {""}
        if len(later) == len(left):
            break
        left = later
    return steps, left


def _step(index: int, size: Dim, known: set[str]) -> Step | None:
    unknown = size.variables() - known
    if len(unknown) != 1:
        return None if unknown else Step(index)
    (name,) = unknown
    alone = ((name, 1),)
    factor = dict(size.terms).get(alone, 0)
    rest = build({m: c for m, c in size.terms if m != alone}, size.scope)
    if not factor or isinstance(rest, Dim) and name in rest.variables():
        return None
    return Step(index, name, factor, rest)


def value_of(size: Any, found: Mapping[str, Any]) -> Any:
    """A size where the variables have these values: ints, or sizes of another scope."""
    if not isinstance(size, Dim):
        return size
    return size.compute(lambda name: found[name], lambda n: n, lambda f, x, y: APPLY[f](x, y))


@dataclass(frozen=True, slots=True)
class Condition:
    """left kind right, kind being >=, == or !=; `told`: where not, {0} being the difference.
    noted: nobody gave it (SymbolicScope.noted)."""

    kind: str
    left: Any
    right: Any
    told: str
    noted: bool = False


_WANTED = {">=": "greater or equal to 0", "==": "equal to 0", "!=": "different from 0"}


def conditions(scope: SymbolicScope, known: Set[str]) -> list[Condition]:
    """What calls that give these variables are checked for."""
    made = [Condition(kind, d, 0, "Input shapes do not match the polymorphic shapes specification. "
                      f"Expected '{d}' to be {_WANTED[kind]}, but found {{0}}.", True)
            for d, kind in scope.needs(known)]
    for kind, left, right in scope.constraints:
        sign = ">=" if kind == "<=" else kind
        high, low = (right, left) if kind == "<=" else (left, right)
        made.append(Condition(
            sign, high, low, f"Input shapes do not match the symbolic shape constraint "
            f"{left}{kind}{right}. Expected '{high} - {low}' to be {_WANTED[sign]}, but found "
            "{0}. "))
    return made


PAGE = "https://docs.jax.dev/en/latest/export/shape_poly.html"


def unsolved(left: Sequence[tuple[Dim, str]], known: set[str], shapes: str) -> str:
    """What is said of equations that give no variable."""
    names = {v for n, _ in left for v in n.variables()} - known
    rest = ", ".join(f"'{n}' for dimension size {place}" for n, place in left)
    return explain(
        f"Cannot solve for values of dimension variables {names}. We can only solve linear "
        f"uni-variate constraints. Using the following polymorphic shapes specifications: {shapes}."
        f" Unprocessed specifications: {rest}. Please see "
        f"{PAGE}#dimension-variables-must-be-solvable-from-the-input-shapes for more details.",
        fix="let an argument have a size in which the variable stands alone, like 2*b + 1.")


__all__ = ["PAGE", "Condition", "Step", "conditions", "plan", "unsolved", "value_of"]
