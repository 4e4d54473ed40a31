"""Operations that give what is there already: IREE 3.13 must not find them out by itself.

Where a dispatch gives one value twice, IREE drops the second and reads the first result of all in
its place (dropUnusedAndRedundantDispatchRegionResults notes the number of the result that is
dropped, not of the one it equals).  A dispatch comes to that when an operation is fused with what
it reads and folds to it: `where(m, 0, where(m, 0, x))` beside the inner one, which other work
reads, too.  So what folds is folded here (tests/lowering/test_folds.py).  Start reading at
`Folds.found`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.lowering.value import Value

_DEEP = 6  # operations that are compared behind each other
_SAME_TWICE = frozenset(("minimum", "maximum", "and", "or"))
_INVERSE = frozenset(("negate", "not"))
_AGAIN = frozenset(("abs", "floor", "ceil", "round_nearest_even", "round_nearest_afz", "sign"))
_NEUTRAL = {"multiply": 1, "divide": 1, "add": 0, "subtract": 0, "or": 0, "xor": 0,
            "shift_left": 0, "shift_right_logical": 0, "shift_right_arithmetic": 0}
_COMMUTES = frozenset(("multiply", "add", "or", "xor", "and", "minimum", "maximum"))


class Folds:
    """What made the values of a function, as far as it may fold."""

    def __init__(self) -> None:
        self.made: dict[Value, tuple[str, tuple[Value, ...], Any]] = {}

    def note(self, value: Value, name: str, operands: Sequence[Value], attributes: Any) -> None:
        if name != "custom_call":
            self.made[value] = name, tuple(operands), attributes

    def same(self, a: Value, b: Value, deep: int = _DEEP) -> bool:
        """Whether two values are surely one: computed in the same way from the same values."""
        if a is b or a.ir == b.ir:
            return True
        first, second = self.made.get(a), self.made.get(b)
        return (first is not None and second is not None and deep > 0 and first[0] == second[0]
                and a.shape == b.shape and a.dtype == b.dtype and first[2] == second[2]
                and len(first[1]) == len(second[1])
                and all(self.same(x, y, deep - 1) for x, y in zip(first[1], second[1])))

    def found(self, name: str, operands: Sequence[Value], dtype: Any) -> Value | None:
        """The value that an operation gives again, None where it computes one."""
        if name == "select":
            return self._chosen(*operands)
        x = operands[0] if operands else None
        inner = None if x is None else self.made.get(x)
        if name in _INVERSE or name in _AGAIN or name in ("convert", "bitcast_convert"):
            if inner is None:
                return None
            if name in _AGAIN:
                return x if inner[0] == name and dtype.kind != "c" else None
            if inner[0] == name and inner[1][0].dtype == dtype and (
                    name != "convert" or _holds(x.dtype, dtype)):  # type: ignore[union-attr]
                return inner[1][0]
            return None
        if len(operands) != 2:
            return None
        x, y = operands
        if name in _SAME_TWICE:
            return self._absorbed(name, x, y)
        return self._neutral(name, x, y) or self._undone(name, x, y)

    def chosen_of(self, pred: Value, x: Value, y: Value) -> tuple[Value, Value]:
        """What a choice is between: not a choice by the same predicate."""
        while (inner := self.made.get(x)) is not None and inner[0] == "select" and (
                self.same(inner[1][0], pred)):
            x = inner[1][1]
        while (inner := self.made.get(y)) is not None and inner[0] == "select" and (
                self.same(inner[1][0], pred)):
            y = inner[1][2]
        return x, y

    def _chosen(self, pred: Value, x: Value, y: Value) -> Value | None:
        if self.same(x, y):
            return x
        first, second = self.chosen_of(pred, x, y)
        for given in (x, y):  # a choice by this predicate between the same two
            inner = self.made.get(given)
            if inner is not None and inner[0] == "select" and self.same(inner[1][0], pred) and all(
                    map(self.same, self.chosen_of(pred, *inner[1][1:]), (first, second))):
                return given
        return None

    def _absorbed(self, name: str, x: Value, y: Value) -> Value | None:
        if self.same(x, y):
            return x
        for a, b in ((x, y), (y, x)):
            inner = self.made.get(a)
            if inner is not None and inner[0] == name and any(self.same(v, b) for v in inner[1]):
                return a
        return None

    def _neutral(self, name: str, x: Value, y: Value) -> Value | None:
        if name not in _NEUTRAL or x.dtype.kind == "c" or name == "divide" and x.dtype.kind in "iu":
            return None
        for given, other in ((y, x), (x, y))[:2 if name in _COMMUTES else 1]:
            number = self._number(given)
            if number is not None and number == _NEUTRAL[name] and (
                    x.dtype.kind not in "fV" or name in ("multiply", "divide")
                    or bool(np.signbit(number)) == (name == "add")):
                return other
        return None

    def _number(self, x: Value) -> Any:
        """The number that all elements are, None where they may differ."""
        made = self.made.get(x)
        while made is not None and made[0] == "broadcast_in_dim":
            made = self.made.get(made[1][0])
        if made is None or made[0] != "constant":
            return None
        return np.frombuffer(made[2], x.dtype)[0]

    def _undone(self, name: str, x: Value, y: Value) -> Value | None:
        """(a - y) + y and the like, of integers."""
        if x.dtype.kind not in "iu" and not (x.dtype.kind == "b" and name == "xor"):
            return None
        for given, other in ((x, y), (y, x))[:2 if name in ("add", "xor") else 1]:
            inner = self.made.get(given)
            if inner is None:
                continue
            if (name, inner[0]) in (("add", "subtract"), ("xor", "xor")) and (
                    self.same(inner[1][1], other)):
                return inner[1][0]
            if (name, inner[0]) in (("subtract", "add"), ("xor", "xor")):
                for a, b in (inner[1], inner[1][::-1]):
                    if self.same(b, other):
                        return a
        inner = self.made.get(y)
        if name == "subtract" and inner is not None and inner[0] == "subtract" and (
                self.same(inner[1][0], x)):
            return inner[1][1]
        return None


def _holds(wide: Any, dtype: Any) -> bool:
    """Whether every number of a dtype is one of a wider dtype."""
    return bool(wide.kind == dtype.kind and wide.itemsize > dtype.itemsize
                and dtype.kind in "iuf") or bool(
        wide.kind == "i" and dtype.kind == "u" and wide.itemsize > dtype.itemsize)
