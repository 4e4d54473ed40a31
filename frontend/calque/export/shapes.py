"""Types of arguments and results: as the container keeps them, and sizes that are symbolic.

Start reading at `check`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.dimension import Dim, floordiv, is_nonnegative, mod
from calque.core.dims import SymbolicScope, symbolic_shape
from calque.core.errors import explain
from calque.core.memories import Space
from calque.export.container import Aval
from calque.export.solve import PAGE, Step, conditions, plan, unsolved, value_of
from calque.export.stream import damaged
from calque.lowering.emit.context import physical

Bound = tuple[tuple[str, Any], ...]  # sizes by name: ints, or sizes of the caller's


def is_static(a: ShapedArray) -> bool:
    return not any(isinstance(n, Dim) for n in a.shape)


def written(avals: Sequence[ShapedArray]) -> tuple[Aval, ...]:
    """For the container."""
    return tuple(Aval(tuple(map(str, a.shape)), a.dtype, 2 if a.memory_space is Space.Host else 1)
                 for a in avals)


def read(ins: Sequence[Aval], outs: Sequence[Aval]
         ) -> tuple[tuple[ShapedArray, ...], tuple[ShapedArray, ...]]:
    """From the container: symbolic sizes of one scope."""
    scope = SymbolicScope()
    plain = [ShapedArray(_sizes(a, scope), a.dtype) for a in (*ins, *outs)]
    made = [p.in_memory("pinned_host") if a.memory == 2 else p
            for p, a in zip(plain, (*ins, *outs))]
    return tuple(made[:len(ins)]), tuple(made[len(ins):])


def _sizes(a: Aval, scope: SymbolicScope) -> tuple[Any, ...]:
    if all(n.isascii() and n.isdigit() and len(n) < 19 for n in a.shape):
        return tuple(map(int, a.shape))
    try:
        return tuple(symbolic_shape(", ".join(a.shape) + ",", scope=scope))
    except Exception as error:
        raise damaged(f"sizes that are none ({', '.join(a.shape)[:80]}: {error})") from None


def check_scopes(name: str, found: Sequence[Any], where: Callable[[int], str]) -> None:
    """ValueError where arguments' symbolic sizes are of several scopes, or a constraint of theirs
    mentions what no argument has."""
    first: tuple[int, Any] | None = None
    for i, shape in enumerate(found):
        for n in shape:
            if not isinstance(n, Dim):
                continue
            if first is None:
                first = i, n.scope
            elif n.scope is not first[1]:
                raise ValueError(explain(
                    f"Invalid mixing of symbolic scopes when exporting {name}.\nExpected current "
                    f"(from {where(first[0])}) scope {first[1]}\nand found for '{n}' ({where(i)}) "
                    f"scope {n.scope}.\nSee {PAGE}#user-specified-symbolic-constraints.",
                    fix="make all shapes in one call of symbolic_args_specs, or give scope=."))
    if first is None:
        return
    known = {v for shape in found for n in shape if isinstance(n, Dim) for v in n.variables()}
    for _, left, right in first[1].constraints:
        for side in (left, right):
            if isinstance(side, Dim) and (more := side.variables() - known):
                raise ValueError(explain(
                    f"Encountered dimension variable '{min(more)}' that is not appearing in the "
                    "shapes of the function arguments.\nThe following dimension variables are "
                    f"appearing in the shapes of the function arguments: {sorted(known)}.\nPlease "
                    f"see {PAGE}#dimension-variables-must-be-solvable-from-the-input-shapes for "
                    "more details.", fix="leave it out of the constraints."))


def concrete(a: ShapedArray, bound: Bound) -> ShapedArray:
    """The type for certain sizes."""
    if is_static(a):
        return a
    sizes = dict(bound)
    return a.update(shape=tuple(value_of(n, sizes) for n in a.shape))


def check(wants: Sequence[ShapedArray], avals: Sequence[ShapedArray],
          where: Callable[[int], str]) -> Bound:
    """The sizes that the arguments have, numbers or symbols of their own; ValueError where one does
    not fit, or is not known to."""
    sizes: list[tuple[Dim, Any, str]] = []
    for i, (want, have) in enumerate(zip(wants, avals)):
        if len(want.shape) != len(have.shape):
            raise ValueError(explain(
                f"Rank mismatch for {where(i)}: expected {want.shape} and called with "
                f"{have.shape}", fix="pass an array of that rank."))
        for axis, (n, m) in enumerate(zip(want.shape, have.shape)):
            if isinstance(n, Dim):
                sizes.append((n, m, f"{where(i)}.shape[{axis}]"))
            elif n != m:
                raise ValueError(explain(
                    f"Shape mismatch for {where(i)}.shape[{axis}] (expected same constant): "
                    f"expected {want.shape} and called with {have.shape}",
                    fix="pass an array of the exported shape."))
        if want.dtype != have.dtype:
            raise ValueError(explain(
                f"Dtype mismatch for {where(i)}: expected {want.dtype.name} and called with "
                f"{have.dtype.name}", fix=f"cast it to {want.dtype.name}."))
    if not sizes:
        return ()
    shapes = [f"{where(i)}.shape = {a.shape}" for i, a in enumerate(wants) if not is_static(a)]
    return _Solver(sizes, ", ".join(shapes)).solve()


_MISMATCH = "Input shapes do not match the polymorphic shapes specification."


class _Solver:
    """Takes the steps of a plan for the sizes of a call."""

    def __init__(self, sizes: Sequence[tuple[Dim, Any, str]], shapes: str) -> None:
        self.sizes, self.shapes = sizes, shapes
        self.found: dict[str, Any] = {}
        self.obtained = ""

    def solve(self) -> Bound:
        steps, left = plan([n for n, _, _ in self.sizes])
        if left:
            raise ValueError(unsolved([self.sizes[i][::2] for i in left],
                                      {step.name for step in steps}, self.shapes))
        for step in steps:
            try:
                if step.name:
                    self._take(step)
                else:
                    self._hold(*self.sizes[step.index])
            except ZeroDivisionError:
                n, m, place = self.sizes[step.index]
                raise self._error(f"{_MISMATCH} '{n}', for dimension {place} (= {m}), divides by "
                                  "0.") from None
        self._conditions()
        return tuple(sorted(self.found.items()))

    def _take(self, step: Step) -> None:
        n, m, place = self.sizes[step.index]
        rest = m - value_of(step.rest, self.found)
        if mod(rest, step.factor) != 0:
            raise self._error(f"{_MISMATCH} Division had remainder {mod(rest, step.factor)} when "
                              f"computing the value of '{step.name}'.")
        value = self.found[step.name] = floordiv(rest, step.factor)
        self.obtained += (f"'{step.name}' = {value} from specification '{n}' for dimension {place} "
                          f"(= {m}), ")
        if not _surely(value, 1):
            raise self._error(f"{_MISMATCH} Expected value >= 1 for dimension variable "
                              f"'{step.name}'.")

    def _hold(self, n: Dim, m: Any, place: str) -> None:
        value = value_of(n, self.found)
        if value != m:
            raise self._error(f"{_MISMATCH} Found inconsistency between dimension size {place} (= "
                              f"{m}) and the specification '{n}' (= {value}).")

    def _conditions(self) -> None:
        """What the scope of the function's sizes promises."""
        for c in conditions(self.sizes[0][0].scope, self.found.keys()):
            difference = value_of(c.left, self.found) - value_of(c.right, self.found)
            found = _fulfilled(difference, c.kind)
            if found is None and c.noted:
                difference.scope.noted[difference] = c.kind  # (calls of the caller's check it)
            elif not found:
                raise self._error(c.told.format(difference))

    def _error(self, what: str) -> ValueError:
        return ValueError(explain(
            f"{what} Using the following polymorphic shapes "
            f"specifications: {self.shapes}. Obtained dimension variables: {self.obtained}. Please "
            f"see {PAGE}#shape-assertion-errors for more details.",
            fix="pass arguments whose sizes go together and are at least 1."))


def _fulfilled(size: Any, kind: str) -> bool | None:
    """Whether a size compares so with 0; None where it depends."""
    if not isinstance(size, Dim):
        return {">=": size >= 0, "==": size == 0, "!=": size != 0}[kind]
    if kind == ">=":
        return is_nonnegative(size)
    apart = is_nonnegative(size - 1) or is_nonnegative(-size - 1) or None
    return apart if kind == "!=" else apart and False


def _surely(size: Any, least: int) -> bool:
    """Whether a size is known to be so large."""
    return size >= least if not isinstance(size, Dim) else is_nonnegative(size - least) is True


__all__ = ["Bound", "check", "check_scopes", "concrete", "is_static", "physical", "read", "written"]
