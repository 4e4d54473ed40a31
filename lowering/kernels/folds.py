"""Folds in a kernel, vector by vector: sums and the like, and the place of an extremum.

A fold has accumulators (`specs`: their dtypes and what they start from); `take` puts one more
vector in, `join` makes one of two; `Chains` are those of several folds.  Start reading at `Fold`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calque.core.dtypes import extreme
from calque.core.program import Equation
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Value, int_array
from calque.lowering.emit.dtypes import BF16, F16, F32, HALVES, I16, I32, summed
from calque.lowering.kernels import memory
from calque.lowering.kernels.memory import Index
from calque.lowering.kernels.reductions import FOLDS
from calque.lowering.kernels.values import SCALAR, KernelBuilder

CHAIN = 64  # additions in a row of one lane
_NUMBERS = {F16: 0x3FF, BF16: 0x7F}  # bits of a mantissa, and as many NaNs of each sign


class Fold:
    """reduce_sum and its like."""

    def __init__(self, e: Equation) -> None:
        dtype = e.inputs[0].aval.dtype
        self.how, _, start = FOLDS[e.name]
        if start is None:
            start = extreme(dtype, self.how == "minimum")
        self.kind = summed(dtype) if self.how in ("add", "multiply") else dtype
        self.dtype, self.specs = dtype, [(self.kind, start)]

    def take(self, b: KernelBuilder, totals: Sequence[Value], x: Value, mask: Value | None,
             place: Callable[[], Value]) -> list[Value]:
        """The accumulators with x put in (where the mask is set); place: its indices."""
        x = b.convert(x, self.kind)
        if mask is not None:
            x = b.select(mask, x, b.splat(self.specs[0][1], (), self.kind))
        return self.join(b, totals, [x])

    def join(self, b: KernelBuilder, x: Sequence[Value], y: Sequence[Value]) -> list[Value]:
        return [b.binary(self.how, x[0], y[0])]

    def result(self, b: KernelBuilder, totals: Sequence[Value]) -> Value:
        return b.convert(totals[0], self.dtype)


class Order(Fold):
    """reduce_max and reduce_min of halves, by integers of their order: no conversion, and twice
    as many in a vector.

    All bits of a negative number but its sign are inverted.  Its NaNs then come before -inf, those
    of positive sign behind inf: as many steps, and the integers wrap, so that for the largest both
    lie behind inf, for the least before -inf.
    """

    def __init__(self, e: Equation) -> None:
        super().__init__(e)
        least = self.how == "minimum"
        self.kind, self.steps = I16, _NUMBERS[self.dtype] * (1 if least else -1)
        self.specs = [(I16, extreme(I16, least))]

    def take(self, b: KernelBuilder, totals: Sequence[Value], x: Value, mask: Value | None,
             place: Callable[[], Value]) -> list[Value]:
        return super().take(b, totals, _ordered(b.bitcast(x, I16)) + self.steps, mask, place)

    def result(self, b: KernelBuilder, totals: Sequence[Value]) -> Value:
        return b.bitcast(_ordered(totals[0] - self.steps), self.dtype)


def _ordered(x: Value) -> Value:
    """The bits of a half as an integer of its order, or back."""
    return x ^ ((x >> 15) & 0x7FFF)


class Extremum(Fold):
    """argmax and argmin: a NaN is the extremum, the first of equals wins."""

    def __init__(self, e: Equation) -> None:
        dtype = e.inputs[0].aval.dtype
        self.kind = F32 if dtype in (F16, BF16) else dtype
        self.dtype = e.outputs[0].aval.dtype
        largest = e.name == "argmax"
        self.before = "GT" if largest else "LT"
        self.specs = [(self.kind, extreme(self.kind, not largest)), (I32, 0)]

    def take(self, b: KernelBuilder, totals: Sequence[Value], x: Value, mask: Value | None,
             place: Callable[[], Value]) -> list[Value]:
        """No mask: to meet an element twice changes nothing.  Equal ones come later here."""
        best, at = totals
        x = b.convert(x, self.kind)
        found = self.better(b, x, best)
        return [b.select(found, x, best), b.select(found, place(), at)]

    def better(self, b: KernelBuilder, x: Value, best: Value) -> Value:
        found = b.compare(self.before, x, best)
        if self.kind.kind != "f":
            return found
        return (found | x.ne(x)) & best.eq(best)

    def join(self, b: KernelBuilder, x: Sequence[Value], y: Sequence[Value]) -> list[Value]:
        (v, i), (w, j) = x, y
        same = v.eq(w)
        if self.kind.kind == "f":
            same = same | v.ne(v) & w.ne(w)
        found = self.better(b, w, v) | same & (j < i)
        return [b.select(found, w, v), b.select(found, j, i)]

    def result(self, b: KernelBuilder, totals: Sequence[Value]) -> Value:
        return b.convert(totals[1], self.dtype)


def fold_of(e: Equation) -> Fold:
    if e.name in ("argmax", "argmin"):
        return Extremum(e)
    ordered = e.inputs[0].aval.dtype in HALVES and e.name in ("reduce_max", "reduce_min")
    return Order(e) if ordered else Fold(e)


def across(fold: Fold, xs: Sequence[Value]) -> list[Value]:
    """All lanes of the accumulators folded, halves onto each other."""
    b = xs[0].b
    assert isinstance(b, KernelBuilder)
    if b.lanes == 1:
        return list(xs)
    half = KernelBuilder(b.lanes // 2) if b.lanes > 2 else SCALAR
    parts = [[_half(half, x, i) for x in xs] for i in (0, b.lanes // 2)]
    return across(fold, fold.join(half, *parts))


def _half(half: KernelBuilder, x: Value, first: int) -> Value:
    kind = half.type_of(x.dtype)
    if half.lanes == 1:
        made = mlir.value("vector.extract", kind, [x.ir], static_position=int_array([first]))
    else:
        made = mlir.value("vector.extract_strided_slice", kind, [x.ir], offsets=f"[{first}]",
                          sizes=f"[{half.lanes}]", strides="[1]")
    return Value(half, made, (), x.dtype)


class Chains:
    """Accumulators of several folds, and several of each, as what a loop carries."""

    def __init__(self, b: KernelBuilder, folds: list[Fold]) -> None:
        self.b, self.folds = b, folds
        self.specs = [s for f in folds for s in f.specs]
        self.start = [b.splat(start, (), dtype).ir for dtype, start in self.specs]

    def values(self, raw: Sequence[Any]) -> list[Value]:
        return [Value(self.b, r, (), dtype) for r, (dtype, _) in zip(raw, self.specs)]

    def by_fold(self, raw: Sequence[Any]) -> list[list[Value]]:
        """The accumulators of each fold."""
        rest, found = self.values(raw), []
        for f in self.folds:
            found.append(rest[:len(f.specs)])
            rest = rest[len(f.specs):]
        return found

    def joined(self, raw: Sequence[Any]) -> list[list[Value]]:
        """One of each fold: neighbours are joined until one is left."""
        k = len(self.specs)
        row = [self.by_fold(raw[i:i + k]) for i in range(0, len(raw), max(1, k))]
        while len(row) > 1:
            row = [*[[f.join(self.b, x, y) for f, x, y in zip(self.folds, p, q)]
                     for p, q in zip(row[::2], row[1::2])], *row[len(row) // 2 * 2:]]
        return row[0] if row else []

    def loop(self, stop: int, step: int, body: Callable[..., list[Any]], carry: list[Any]
             ) -> list[Any]:
        """memory.loop, in blocks whose totals are joined: no long chain of additions."""
        if stop // step <= 2 * CHAIN or not self.specs:
            return memory.loop(stop, body, carry, step=step)
        k, count = len(self.specs), len(carry) // len(self.specs)

        def block(i: Index, *totals: Any) -> list[Any]:
            end = memory.computed("minsi", memory.add(i, CHAIN * step), stop)
            found = memory.loop(end, body, self.start * count, start=i, step=step)
            return [v.ir for c in range(0, len(carry), k) for f, x, y in zip(
                self.folds, self.by_fold(totals[c:c + k]), self.by_fold(found[c:c + k]))
                for v in f.join(self.b, x, y)]

        return memory.loop(stop, block, carry, step=CHAIN * step)
