"""A Builder for programs with sizes that are known at the call only (`Dim`s in shapes).

StableHLO's dynamic operations take sizes as tensors and IREE's knowledge of them is thin, so most
of what moves elements is written with tensor ops, whose sizes are operands (lowering.sizes).
`tensor` ops know no unsigned integers: `_signless` goes round them.  Start reading at
`DynamicBuilder`.  Imports lowering.builder and what it imports.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.core.dims import Dim, is_static, max_dim, quotient
from calque.core.types import Dtype, Shape
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Builder, int_array
from calque.lowering.emit.dtypes import I64, signed
from calque.lowering.emit.folding import unequal
from calque.lowering.emit.value import Value

DYNAMIC = -(2**63)  # MLIR's mark for sizes that are operands


class DynamicBuilder(Builder):
    """Takes another form where a shape holds a Dim."""

    def emit(self, name: str, operands: Sequence[Value], shape: Shape, dtype: Dtype,
             attributes: dict[str, str] | None = None) -> Value:
        if name in ("compare", "subtract") and not is_static(shape):
            operands = [operands[0], unequal(*operands)]
        return super().emit(name, operands, shape, dtype, attributes)

    def _make(self, name: str, x: Value, shape: tuple[Any, ...], operands: Sequence[Any],
              attributes: dict[str, str]) -> Value:
        """An operation of any dialect with one result, of x's dtype."""
        made = mlir.value(name, mlir.tensor_type(shape, x.dtype), operands, **attributes)
        return Value(self, made, shape, x.dtype)

    def _signless(self, move: Callable[..., Value], *xs: Value) -> Value:
        """move(*xs), through a signed type where they are unsigned and as two halves where they
        are complex."""
        dtype = xs[0].dtype
        if dtype.kind == "u":
            return move(*[x.view(signed(dtype)) for x in xs]).view(dtype)
        if dtype.kind == "c":
            return self.complex(move(*map(self.real, xs)), move(*map(self.imag, xs)))
        return move(*xs)

    def lengths(self, shape: Shape) -> list[Any]:
        return self.extents.dynamic(shape)

    # ---- constants
    def splat(self, value: Any, shape: Shape, dtype: Any) -> Value:
        if isinstance(value, Dim):
            one = self.number(value, dtype)
            return one if not shape else self.broadcast(one, shape, ())
        if is_static(shape) or np.dtype(dtype).kind == "c":
            return super().splat(value, shape, dtype)
        return self.full(self.splat(value, (), dtype), shape)

    def full(self, value: Value, shape: Shape) -> Value:
        """One value everywhere, as linalg.fill: IREE makes one for each use.  Of another operation
        it makes one for all, and updates of several overwrite each other
        (tests/lowering/test_dynamic.py)."""
        def fill(v: Value) -> Value:
            one = mlir.value("tensor.extract", v.ir.type.element_type, [v.ir])
            return Value(self, mlir.fill(one, self.empty(shape, v.dtype)), shape, v.dtype)

        return self._signless(fill, value)

    def number(self, size: Any, dtype: Any) -> Value:
        if not isinstance(size, Dim):
            return super().number(size, dtype)
        ir, dtype = mlir.ir(), np.dtype(dtype)
        kind = signed(dtype) if dtype.kind in "iu" else I64
        element = ir.IntegerType.get_signless(8 * kind.itemsize, mlir.context())
        cast = mlir.value("arith.index_cast", element, [self.extents.of(size)])
        # (of tensor.from_elements IREE makes one of the unsigned type that it is converted to, and
        # rejects that: tests/lowering/test_dynamic_windows.py)
        made = Value(self, mlir.fill(cast, self.empty((), kind)), (), kind)
        return made.view(dtype) if dtype.kind == "u" else made.astype(dtype)

    def iota(self, shape: Shape, dtype: Any, axis: int) -> Value:
        if is_static(shape):
            return super().iota(shape, dtype, axis)
        dtype = np.dtype(dtype)
        made = mlir.value("stablehlo.dynamic_iota", mlir.tensor_type(shape, dtype),
                          [self.extents.vector(shape)], iota_dimension=f"{axis} : i64")
        return Value(self, made, shape, dtype)

    # ---- shape
    def reshape(self, x: Value, shape: Shape) -> Value:
        """Axes that belong together are merged, then split."""
        if x.shape == shape or is_static((*x.shape, *shape)):
            return super().reshape(x, shape)
        if not x.shape or not shape:  # rank 0 on a side: all sizes there are 1 in disguise
            return self._signless(lambda v: self._by_flow(v, shape), x)
        groups = _groups(x.shape, shape)
        if groups is None:
            groups = [(list(range(x.ndim)), list(range(len(shape))))]
        merged = tuple(math.prod(x.shape[i] for i in ins) for ins, _ in groups)

        def move(v: Value) -> Value:
            if len(merged) != v.ndim or any(len(i) != 1 for i, _ in groups):
                v = self._make("tensor.collapse_shape", v, merged, [v.ir],
                               {"reassociation": _nested([i for i, _ in groups])})
            if len(merged) != len(shape) or any(len(o) != 1 for _, o in groups):
                v = self._make("tensor.expand_shape", v, shape,
                               [v.ir, *self.lengths(shape)],
                               {"reassociation": _nested([o for _, o in groups]),
                                "static_output_shape": _numbers(shape)})
            return v

        return self._signless(move, x)

    def _by_flow(self, x: Value, shape: tuple[Any, ...]) -> Value:
        before, after = self.lengths(x.shape), self.lengths(shape)
        return self._make("flow.tensor.reshape", x, shape, [x.ir, *before, *after],
                          {"operandSegmentSizes": _segments(1, len(before), len(after))})

    def broadcast(self, x: Value, shape: Shape, dims: Sequence[int]) -> Value:
        """broadcast_in_dim to sizes that are operands: a linalg.generic that reads along some
        axes."""
        if is_static(shape) or x.shape == shape and tuple(dims) == tuple(range(len(shape))):
            return super().broadcast(x, shape, dims)
        if not x.shape:
            return self.full(x, shape)
        kept = [i for i, d in enumerate(dims) if x.shape[i] == shape[d]]
        if len(kept) < len(dims):  # the others are 1
            x = self.reshape(x, tuple(x.shape[i] for i in kept))
            dims = [dims[i] for i in kept]
        every = [f"d{i}" for i in range(len(shape))]

        def broadcast(v: Value) -> Value:
            (made,) = mlir.generic(every, 0, [[every[d] for d in dims], every], [v.ir],
                                   [self.empty(shape, v.dtype)], lambda element, _: [element])
            return Value(self, made, shape, v.dtype)

        return self._signless(broadcast, x)

    def slice(self, x: Value, start: Sequence[int], limit: Sequence[int],
              strides: Sequence[int] | None = None) -> Value:
        if is_static((*x.shape, *start, *limit)):
            return super().slice(x, start, limit, strides)
        strides = strides or [1] * len(start)
        counts = tuple(max_dim(0, -(-(e - s) // t)) for s, e, t in zip(start, limit, strides))
        return x if counts == x.shape else self._extract(x, start, counts, strides)

    def dynamic_slice(self, x: Value, starts: Sequence[Value], sizes: Shape) -> Value:
        if is_static(sizes):
            return super().dynamic_slice(x, starts, sizes)
        return self._extract(x, self._places(starts, x.shape, sizes), sizes, [1] * len(sizes))

    def dynamic_update_slice(self, x: Value, update: Value, starts: Sequence[Value]) -> Value:
        if is_static((*x.shape, *update.shape)):
            return super().dynamic_update_slice(x, update, starts)
        return self._insert(x, update, self._places(starts, x.shape, update.shape))

    def _places(self, starts: Sequence[Value], shape: Sequence[Any], sizes: Sequence[Any]
                ) -> list[Any]:
        """Clamped start indices as what tensor operations take; 0 where an axis is whole."""
        def place(s: Value) -> Any:
            element = mlir.value("tensor.extract", s.ir.type.element_type, [s.ir])
            return mlir.value("arith.index_cast", mlir.ir().IndexType.get(), [element])

        return [0 if n == k else place(s) for s, n, k in zip(starts, shape, sizes)]

    def _at(self, start: Sequence[Any]) -> tuple[list[Any], str]:
        """Places (ints, Dims or index values) as operands and as a static array attribute."""
        at = [self.extents.of(s) if isinstance(s, Dim) else s
              for s in start if not isinstance(s, int)]
        return at, _numbers([s if isinstance(s, int) else DYNAMIC for s in start])

    def _extract(self, x: Value, start: Sequence[Any], sizes: tuple[Any, ...],
                 strides: Sequence[int]) -> Value:
        """tensor.extract_slice."""
        at, offsets = self._at(start)
        dynamic, steps = self.lengths(sizes), self.extents.dynamic(strides)
        return self._signless(lambda v: self._make(
            "tensor.extract_slice", v, sizes, [v.ir, *at, *dynamic, *steps], {
                "static_offsets": offsets, "static_sizes": _numbers(sizes),
                "static_strides": _numbers(strides),
                "operandSegmentSizes": _segments(1, len(at), len(dynamic), len(steps))}), x)

    def _insert(self, x: Value, update: Value, start: Sequence[Any]) -> Value:
        """tensor.insert_slice of update into x."""
        def move(x: Value, update: Value) -> Value:
            at, offsets = self._at(start)
            dynamic = self.lengths(update.shape)
            return self._make("tensor.insert_slice", x, x.shape, [update.ir, x.ir, *at, *dynamic], {
                "static_offsets": offsets, "static_sizes": _numbers(update.shape),
                "static_strides": _numbers([1] * len(start)),
                "operandSegmentSizes": _segments(1, 1, len(at), len(dynamic), 0)})

        return self._signless(move, x, update)

    def concatenate(self, xs: Sequence[Value], axis: int) -> Value:
        """Parts written behind each other into new memory."""
        if all(is_static(x.shape) for x in xs):
            return super().concatenate(xs, axis)
        shape = list(xs[0].shape)
        shape[axis] = sum(x.shape[axis] for x in xs)

        def join(*xs: Value) -> Value:
            dtype, at = xs[0].dtype, 0
            out = Value(self, self.empty(tuple(shape), dtype), tuple(shape), dtype)
            for x in xs:
                out = self._insert(out, x, [at if i == axis else 0 for i in range(len(shape))])
                at = at + x.shape[axis]
            return out

        return self._signless(join, *xs)

    def padded(self, x: Value, value: Value, config: Sequence[tuple[Any, Any, int]]) -> Value:
        """x in the middle of an array full of value; no size is negative."""
        if is_static(x.shape) and all(map(is_static, config)):
            return super().padded(x, value, config)
        if x.dtype.kind == "u":
            kind = signed(x.dtype)
            return self.padded(x.view(kind), value.view(kind), config).view(x.dtype)
        if all(i == 0 for _, _, i in config):
            return self._framed(x, value, config)
        for axis, (_, _, i) in enumerate(config):
            if i:  # a column of values behind each element, but the last
                before, n, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1:]
                x = self._framed(self.reshape(x, (*before, n, 1, *after)), value, [
                    *[(0, 0, 0)] * (axis + 1), (0, i, 0), *[(0, 0, 0)] * len(after)])
                x = self.reshape(x, (*before, n * (1 + i), *after))
                limit = [*before, n + i * max_dim(0, n - 1), *after]
                x = self.cropped(x, tuple(limit))
        return self.pad(x, value, [(lo, hi, 0) for lo, hi, _ in config])

    def _framed(self, x: Value, value: Value, config: Sequence[tuple[Any, Any, int]]) -> Value:
        shape = tuple(lo + hi + n for n, (lo, hi, _) in zip(x.shape, config))
        return self._insert(self.full(value, shape), x, [lo for lo, _, _ in config])

    def tied(self, x: Value) -> Value:
        """x, its sizes said again: behind loops, branches and barriers IREE loses those that are
        known at the call only."""
        return x if is_static(x.shape) else self._signless(lambda v: self._make(
            "flow.tensor.tie_shape", v, v.shape, [v.ir, *self.lengths(v.shape)], {}), x)


def _groups(old: Sequence[Any], new: Sequence[Any]) -> list[tuple[list[int], list[int]]] | None:
    """Runs of axes with equal products, as short as possible; None where only all agree."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        ins, outs = [], []
        p: Any = 1
        q: Any = 1
        if i < len(old):
            ins.append(i)
            p, i = old[i], i + 1
        if j < len(new):
            outs.append(j)
            q, j = new[j], j + 1
        while p != q:
            more = quotient(q, p)
            if more is not None and i < len(old) and more != 1:
                ins.append(i)
                p, i = p * old[i], i + 1
            elif quotient(p, q) is not None and j < len(new):
                outs.append(j)
                q, j = q * new[j], j + 1
            elif i < len(old):
                ins.append(i)
                p, i = p * old[i], i + 1
            elif j < len(new):
                outs.append(j)
                q, j = q * new[j], j + 1
            else:
                return None
        groups.append((ins, outs))
    # axes of size 1 that belong to nothing join a neighbour
    result: list[tuple[list[int], list[int]]] = []
    for ins, outs in groups:
        if result and (not ins or not outs or not result[-1][0] or not result[-1][1]):
            result[-1] = (result[-1][0] + ins, result[-1][1] + outs)
        else:
            result.append((ins, outs))
    if len(result) > 1 and (not result[-1][0] or not result[-1][1]):
        last = result.pop()
        result[-1] = (result[-1][0] + last[0], result[-1][1] + last[1])
    return result if all(ins and outs for ins, outs in result) else None


def _nested(groups: Sequence[Sequence[int]]) -> str:
    rows = ", ".join("[" + ", ".join(f"{i} : i64" for i in g) + "]" for g in groups)
    return f"[{rows}]"


def _numbers(values: Sequence[Any]) -> str:
    """A static array attribute, DYNAMIC for what is an operand."""
    return int_array([DYNAMIC if isinstance(v, Dim) else v for v in values])


def _segments(*counts: int) -> str:
    return f"array<i32: {', '.join(map(str, counts))}>"
