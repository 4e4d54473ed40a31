"""Sizes for which an artifact holds programs of their own, beside the one of any size.

Start reading at `combinations`.
"""
from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.dims import Dim, scope_of
from calque.core.errors import explain

Buckets = Sequence[int] | Mapping[str, Sequence[int]]


class BucketError(ValueError):
    """Buckets that do not go with the types of the arguments."""


def combinations(buckets: Buckets, avals: Sequence[ShapedArray]) -> list[dict[str, int]]:
    """The sizes of each program: every combination of the sizes of all names.

    Args:
      buckets: sizes of the only name, or of each name.
      avals: of the arguments.

    Raises:
      BucketError: no size has that name, or not every one is named; a size is no number from 1 on,
        or against a constraint.
    """
    if not buckets:
        return []
    names = sorted({n for a in avals for d in a.shape if isinstance(d, Dim)
                    for n in d.variables()})  # type: ignore[attr-defined]
    if not isinstance(buckets, Mapping):
        if len(names) != 1:
            raise BucketError(explain(
                f"buckets {tuple(buckets)} are sizes of one name, and the arguments have "
                f"{', '.join(names) or 'none'}.", where="buckets",
                fix="say of which, {'b': (1, 8)}; on the command line --buckets b=1,8."
                if names else "give a type with a name for a size, f32[b,128]."))
        buckets = {names[0]: buckets}
    if set(buckets) != set(names):
        raise BucketError(explain(
            f"buckets are of {', '.join(sorted(buckets))}, and the arguments have sizes "
            f"{', '.join(names) or 'without names'}.", where="buckets",
            fix="give sizes for each name, and for no other."))
    for name, sizes in buckets.items():
        for n in sizes:
            if isinstance(n, bool) or not isinstance(n, int) or n < 1:
                raise BucketError(explain(f"the bucket {n!r} of {name} is no size.",
                                          where="buckets", fix="give whole numbers from 1 on."))
    made = [dict(zip(buckets, values))
            for values in itertools.product(*[dict.fromkeys(s) for s in buckets.values()])]
    for each in made:
        _check(each, avals)
    return made


_COMPARED: dict[str, Callable[[int, int], bool]] = {
    ">=": operator.ge, "<=": operator.le, "==": operator.eq, "!=": operator.ne}


def _check(sizes: dict[str, int], avals: Sequence[ShapedArray]) -> None:
    scope = scope_of([a.shape for a in avals])
    if scope is None:
        return
    noted = [(kind, d, 0) for d, kind in scope.needs(sizes.keys())]
    for kind, left, right in (*noted, *scope.constraints):
        if not _COMPARED[kind](size_in(left, sizes), size_in(right, sizes)):
            raise BucketError(explain(
                f"the bucket {', '.join(f'{n} = {v}' for n, v in sizes.items())} is against the "
                f"constraint {left} {kind} {right}.", where="buckets",
                fix="leave it out, or the constraint."))


def with_sizes(aval: ShapedArray, sizes: Mapping[str, int]) -> ShapedArray:
    """An array's type where sizes with these names are known."""
    return aval.update(shape=tuple(size_in(d, sizes) for d in aval.shape))


def size_in(d: Any, sizes: Mapping[str, int]) -> int:
    """A size where those with names are known."""
    return d.evaluate(sizes) if isinstance(d, Dim) else int(d)


__all__ = ["BucketError", "Buckets", "combinations", "size_in", "with_sizes"]
