"""Types of arguments and results: as the container keeps them, and sizes that are symbolic.

Start reading at `check`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.dims import Dim, SymbolicScope, symbolic_shape
from calque.core.errors import explain
from calque.export.container import Aval
from calque.export.errors import UnsupportedOperationError
from calque.export.stream import damaged
from calque.lowering.context import physical

Bound = tuple[tuple[str, int], ...]  # sizes by name


def is_static(a: ShapedArray) -> bool:
    return not any(isinstance(n, Dim) for n in a.shape)


def written(avals: Sequence[ShapedArray]) -> tuple[Aval, ...]:
    """For the container."""
    return tuple(Aval(tuple(map(str, a.shape)), a.dtype) for a in avals)


def read(ins: Sequence[Aval], outs: Sequence[Aval]
         ) -> tuple[tuple[ShapedArray, ...], tuple[ShapedArray, ...]]:
    """From the container: symbolic sizes of one scope."""
    scope = SymbolicScope()
    made = [ShapedArray(_sizes(a, scope), a.dtype) for a in (*ins, *outs)]
    return tuple(made[:len(ins)]), tuple(made[len(ins):])


def _sizes(a: Aval, scope: SymbolicScope) -> tuple[Any, ...]:
    if all(n.isascii() and n.isdigit() and len(n) < 19 for n in a.shape):
        return tuple(map(int, a.shape))
    try:
        return tuple(symbolic_shape(", ".join(a.shape) + ",", scope=scope))
    except Exception as error:
        raise damaged(f"sizes that are none ({', '.join(a.shape)[:80]}: {error})") from None


def concrete(a: ShapedArray, bound: Bound) -> ShapedArray:
    """The type for certain sizes."""
    if is_static(a):
        return a
    sizes = dict(bound)
    return a.update(shape=tuple(n.evaluate(sizes) if isinstance(n, Dim) else n for n in a.shape))


def check(wants: Sequence[ShapedArray], avals: Sequence[ShapedArray],
          where: Callable[[int], str]) -> Bound:
    """The sizes that the arguments have; ValueError where one does not fit."""
    bound: dict[str, int] = {}
    later: list[tuple[int, int, Any, int]] = []
    for i, (want, have) in enumerate(zip(wants, avals)):
        if len(want.shape) != len(have.shape):
            raise ValueError(explain(
                f"Rank mismatch for {where(i)}: expected {want.shape} and called with "
                f"{have.shape}", fix="pass an array of that rank."))
        if not is_static(have):
            raise UnsupportedOperationError(explain(
                f"{where(i)} has symbolic sizes {have.shape}: an exported function is called with "
                "arrays of known sizes.", fix="trace the outer function with known shapes."))
        for axis, (n, m) in enumerate(zip(want.shape, have.shape)):
            if not isinstance(n, Dim):
                if n != m:
                    raise ValueError(explain(
                        f"Shape mismatch for {where(i)}.shape[{axis}] (expected same constant): "
                        f"expected {want.shape} and called with {have.shape}",
                        fix="pass an array of the exported shape."))
                continue
            line = n.linear()
            if line is None or line[0] in bound:
                later.append((i, axis, n, m))
                continue
            name, factor, offset = line
            size, rest = divmod(m - offset, factor)
            if rest or size < 1:
                raise ValueError(explain(
                    f"Shape mismatch for {where(i)}.shape[{axis}]: expected {n} with {name} >= 1, "
                    f"called with {have.shape}",
                    fix="pass an array of such a size."))
            bound[name] = size
        if want.dtype != have.dtype:
            raise ValueError(explain(
                f"Dtype mismatch for {where(i)}: expected {want.dtype.name} and called with "
                f"{have.dtype.name}", fix=f"cast it to {want.dtype.name}."))
    for i, axis, n, m in later:
        if any(v not in bound for v in n.variables()):
            raise ValueError(explain(
                f"Cannot solve for the sizes in {where(i)}.shape[{axis}] = {n}.",
                fix="let another argument have the size alone."))
        if n.evaluate(bound) != m:
            raise ValueError(explain(
                f"Shape mismatch for {where(i)}.shape[{axis}]: expected {n} = "
                f"{n.evaluate(bound)}, called with size {m}",
                fix="pass arguments whose sizes go together."))
    return tuple(sorted(bound.items()))


__all__ = ["Bound", "check", "concrete", "is_static", "physical", "read", "written"]
