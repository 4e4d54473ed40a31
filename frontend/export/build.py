"""Builds hlo operations with lowering's Builder interface, so that its decompositions of functions
(lowering/math with `bodies=False`) and threefry serve here too, in StableHLO operations alone.

Start reading at `PortableBuilder`.
"""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from calque.export import hlo
from calque.export.hlo import Block, Enum, Number, Op, Tensor
from calque.lowering.builder import Builder, Dtype, Value

I64 = np.dtype("i8")
Spec = tuple[tuple[int, ...], Dtype]


def ints(values: Sequence[int]) -> np.ndarray[Any, Any]:
    """A vector of 64-bit integers as an attribute."""
    return np.asarray(list(values), I64)


def number(value: int) -> Number:
    return Number(int(value), I64)


class PortableBuilder(Builder):
    """Appends operations to `block`."""

    def __init__(self) -> None:
        # relaxed: XLA simplifies (x + c) - c to x, which exact rounding relies on elsewhere
        super().__init__(f64_ok=True, bodies=False, relaxed=True)
        self.block = Block()

    @contextlib.contextmanager
    def inside(self, block: Block) -> Iterator[Block]:
        """Append to another block for a while."""
        outer, self.block = self.block, block
        try:
            yield block
        finally:
            self.block = outer

    # ---- the two places where operations are made
    def make(self, name: str, operands: Sequence[Value], results: Sequence[Spec],
             regions: Sequence[Block] = (), **attributes: Any) -> list[Value]:
        op = Op(name, [v.ir for v in operands],
                [hlo.Value(Tensor(tuple(s), d)) for s, d in results], attributes, list(regions))
        self.block.ops.append(op)
        return [Value(self, r, tuple(s), d) for r, (s, d) in zip(op.results, results)]

    def emit(self, name: str, operands: Sequence[Value], shape: tuple[int, ...], dtype: Dtype,
             attributes: dict[str, Any] | None = None) -> Value:
        return self.make(name, operands, [(shape, dtype)], **(attributes or {}))[0]

    def one(self, name: str, operands: Sequence[Value], shape: Sequence[int], dtype: Any,
            **attributes: Any) -> Value:
        """An operation with one result."""
        return self.make(name, operands, [(tuple(shape), np.dtype(dtype))], **attributes)[0]

    def op(self, name: str, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError(f"{name} is not portable")

    def arguments(self, block: Block, specs: Sequence[Spec]) -> list[Value]:
        """New arguments of a block."""
        made = [hlo.Value(Tensor(tuple(s), d)) for s, d in specs]
        block.arguments += made
        return [Value(self, v, v.shape, v.dtype) for v in made]

    def region(self, specs: Sequence[Spec],
               body: Callable[..., Value | Sequence[Value]]) -> Block:
        """A block of these arguments that returns body(*arguments)."""
        with self.inside(Block()) as block:
            out = body(*self.arguments(block, specs))
            outs = [out] if isinstance(out, Value) else list(out)
            block.ops.append(Op("return", [v.ir for v in outs]))
        return block

    # ---- what Builder spells with attributes in MLIR's text
    def _dense(self, a: np.ndarray[Any, Any]) -> Value:
        return self.one("constant", [], a.shape, a.dtype, value=np.array(a))

    def splat(self, value: Any, shape: tuple[int, ...], dtype: Any) -> Value:
        dtype = np.dtype(dtype)
        with np.errstate(all="ignore"):
            a = np.asarray(value).astype(dtype)
        return self.one("constant", [], shape, dtype, value=np.broadcast_to(a, tuple(shape)))

    def compare(self, direction: str, x: Value, y: Any, kind: str = "") -> Value:
        x, y = self.match(x, y)
        kind = kind or {"b": "UNSIGNED", "u": "UNSIGNED", "i": "SIGNED"}.get(x.dtype.kind, "FLOAT")
        return self.one("compare", [x, y], x.shape, bool, compare_type=Enum("comparison_type", kind),
                        comparison_direction=Enum("comparison_direction", direction))

    def convert(self, x: Value, dtype: Dtype) -> Value:
        return x if x.dtype == dtype else self.one("convert", [x], x.shape, dtype)

    def reshape(self, x: Value, shape: tuple[int, ...]) -> Value:
        return x if x.shape == tuple(shape) else self.one("reshape", [x], shape, x.dtype)

    def broadcast(self, x: Value, shape: tuple[int, ...], dims: Sequence[int]) -> Value:
        if x.shape == tuple(shape) and tuple(dims) == tuple(range(len(shape))):
            return x
        return self.one("broadcast_in_dim", [x], shape, x.dtype, broadcast_dimensions=ints(dims))

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        if tuple(perm) == tuple(range(len(x.shape))):
            return x
        return self.one("transpose", [x], [x.shape[p] for p in perm], x.dtype,
                        permutation=ints(perm))

    def slice(self, x: Value, start: Sequence[int], limit: Sequence[int],
              strides: Sequence[int] | None = None) -> Value:
        strides = strides or [1] * len(start)
        shape = [max(0, -(-(e - s) // t)) for s, e, t in zip(start, limit, strides)]
        return self.one("slice", [x], shape, x.dtype, start_indices=ints(start),
                        limit_indices=ints(limit), strides=ints(strides))

    def concatenate(self, xs: Sequence[Value], axis: int) -> Value:
        shape = list(xs[0].shape)
        shape[axis] = sum(x.shape[axis] for x in xs)
        return self.one("concatenate", xs, shape, xs[0].dtype, dimension=number(axis))

    def reverse(self, x: Value, axes: Sequence[int]) -> Value:
        return self.one("reverse", [x], x.shape, x.dtype, dimensions=ints(axes))

    def pad(self, x: Value, value: Any, config: Sequence[tuple[int, int, int]]) -> Value:
        shape = [lo + hi + n + i * max(0, n - 1) for n, (lo, hi, i) in zip(x.shape, config)]
        if not isinstance(value, Value):
            value = self.splat(value, (), x.dtype)
        low, high, interior = zip(*config) if config else ((), (), ())
        return self.one("pad", [x, value], shape, x.dtype, edge_padding_low=ints(low),
                        edge_padding_high=ints(high), interior_padding=ints(interior))

    def iota(self, shape: tuple[int, ...], dtype: Any, axis: int) -> Value:
        return self.one("iota", [], shape, dtype, iota_dimension=number(axis))

    def barrier(self, *xs: Value) -> list[Value]:
        return list(xs)

    def optimization_barrier(self, *xs: Value) -> list[Value]:
        return self.make("optimization_barrier", xs, [(x.shape, x.dtype) for x in xs])

    def settled(self, x: Value) -> Value:
        return x
