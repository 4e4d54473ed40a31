"""Builds hlo operations with lowering's Builder interface, so that its decompositions of functions
(lowering/math with `bodies=False`) and threefry serve here too, in StableHLO operations alone.

Start reading at `PortableBuilder`.
"""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from calque.core.dims import Dim, is_static, max_dim
from calque.core.dtypes import is_signed, is_whole, itemsize_bits
from calque.core.lists import types_of
from calque.core.types import Dtype, Ndarray, Shape
from calque.export import hlo
from calque.export.errors import UnsupportedOperationError
from calque.export.hlo import DYNAMIC, Block, Enum, Number, Op, Tensor
from calque.export.solve import plan
from calque.lowering.emit.builder import Builder, Value

I32, I64 = np.dtype("i4"), np.dtype("i8")
Spec = tuple[tuple[int, ...], Dtype]


def ints(values: Sequence[int]) -> Ndarray:
    """A vector of 64-bit integers as an attribute."""
    return np.asarray(list(values), I64)


def number(value: int) -> Number:
    return Number(int(value), I64)


def tensor(shape: Sequence[Any], dtype: Dtype) -> Tensor:
    """The type of a shape; Dims are not known in it."""
    return Tensor(tuple(DYNAMIC if isinstance(n, Dim) else int(n) for n in shape), dtype)


class PortableBuilder(Builder):
    """Appends operations to `block`.  `variables` holds the sizes that Dims are made of."""

    def __init__(self) -> None:
        # relaxed: XLA simplifies (x + c) - c to x, which exact rounding relies on elsewhere
        super().__init__(f64_ok=True, bodies=False, relaxed=True)
        self.block = Block()
        self.variables: dict[str, Value] = {}
        self.guarded = False  # whether a divisor may be 0, which is asserted beside

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
             regions: Sequence[Block] = (), /, **attributes: Any) -> list[Value]:
        op = Op(name, [v.ir for v in operands],
                [hlo.Value(tensor(s, d)) for s, d in results], attributes, list(regions))
        self.block.ops.append(op)
        return [Value(self, r, tuple(s), d) for r, (s, d) in zip(op.results, results)]

    def emit(self, name: str, operands: Sequence[Value], shape: Shape, dtype: Dtype,
             attributes: dict[str, Any] | None = None) -> Value:
        return self.make(name, operands, [(shape, dtype)], **(attributes or {}))[0]

    def bitcast(self, x: Value, dtype: Dtype) -> Value:
        if x.dtype == dtype:
            return x
        if itemsize_bits(x.dtype) != itemsize_bits(dtype):
            raise UnsupportedOperationError(
                f"an operation on the bits of {x.dtype.name} has no portable form.\n"
                "  Fix: convert to float32 first.")
        return self.emit("bitcast_convert", [x], x.shape, dtype)

    def one(self, name: str, operands: Sequence[Value], shape: Sequence[int], dtype: Any,
            **attributes: Any) -> Value:
        """An operation with one result."""
        return self.make(name, operands, [(tuple(shape), np.dtype(dtype))], **attributes)[0]

    def op(self, name: str, *args: Any, **kwargs: Any) -> Any:
        raise UnsupportedOperationError(
            f"{name}: this form of an operation is for IREE alone.\n"
            "  Fix: compile the function with calque.aot instead.")

    def arguments(self, block: Block, specs: Sequence[Spec]) -> list[Value]:
        """New arguments of a block."""
        made = [hlo.Value(tensor(s, d)) for s, d in specs]
        block.arguments += made
        return [Value(self, v, tuple(s), d) for v, (s, d) in zip(made, specs)]

    def region(self, specs: Sequence[Spec],
               body: Callable[..., Value | Sequence[Value]]) -> Block:
        """A block of these arguments that returns body(*arguments)."""
        with self.inside(Block()) as block:
            out = body(*self.arguments(block, specs))
            outs = [out] if isinstance(out, Value) else list(out)
            block.ops.append(Op("return", [v.ir for v in outs]))
        return block

    def iterate(self, go: Callable[..., Value], step: Callable[..., Sequence[Value]],
                start: Sequence[Value], rounds: int) -> list[Value]:
        """step each element's values while go(*values) of it, at most `rounds` times."""
        specs: list[Spec] = [((), I32), *types_of(start)]
        one: Spec = ((), np.dtype(bool))

        def more(n: Value, *vs: Value) -> Value:
            running = go(*vs)
            some = self.make("reduce", [running, self.splat(False, (), bool)], [one],
                             [self.region([one, one], lambda p, q: p | q)],
                             dimensions=ints(range(len(running.shape))))[0] \
                if running.shape else running
            return (n < rounds) & some

        def body(n: Value, *vs: Value) -> list[Value]:
            running = go(*vs)
            return [n + 1, *[self.select(running, new, old) for new, old in zip(step(*vs), vs)]]

        return self.make("while", [self.splat(0, (), I32), *start], specs,
                         [self.region(specs, more), self.region(specs, body)])[1:]

    # ---- what Builder spells with attributes in MLIR's text
    def _dense(self, a: Ndarray) -> Value:
        return self.one("constant", [], a.shape, a.dtype, value=np.array(a))

    def splat(self, value: Any, shape: Shape, dtype: Any) -> Value:
        dtype = np.dtype(dtype)
        if isinstance(value, Dim):
            return self.broadcast(self.number(value, dtype), shape, ())
        if not is_static(shape):
            return self.broadcast(self.splat(value, (), dtype), shape, ())
        with np.errstate(all="ignore"):
            a = np.asarray(value).astype(dtype)
        return self.one("constant", [], shape, dtype, value=np.broadcast_to(a, tuple(shape)))

    def compare(self, direction: str, x: Value, y: Any, kind: str = "") -> Value:
        x, y = self.match(x, y)
        kind = kind or ("SIGNED" if is_signed(x.dtype) else
                        "UNSIGNED" if is_whole(x.dtype) else "FLOAT")
        return self.one("compare", [x, y], x.shape, bool,
                        compare_type=Enum("comparison_type", kind),
                        comparison_direction=Enum("comparison_direction", direction))

    def convert(self, x: Value, dtype: Dtype) -> Value:
        return x if x.dtype == dtype else self.one("convert", [x], x.shape, dtype)

    def reshape(self, x: Value, shape: Shape) -> Value:
        if x.shape == tuple(shape):
            return x
        if not is_static(shape):
            return self.one("dynamic_reshape", [x, self.vector(shape)], shape, x.dtype)
        return self.one("reshape", [x], shape, x.dtype)

    def broadcast(self, x: Value, shape: Shape, dims: Sequence[int]) -> Value:
        if x.shape == tuple(shape) and tuple(dims) == tuple(range(len(shape))):
            return x
        if not is_static(shape):
            return self.one("dynamic_broadcast_in_dim", [x, self.vector(shape)], shape, x.dtype,
                            broadcast_dimensions=ints(dims), known_expanding_dimensions=ints(()),
                            known_nonexpanding_dimensions=ints(()))
        return self.one("broadcast_in_dim", [x], shape, x.dtype, broadcast_dimensions=ints(dims))

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        if tuple(perm) == tuple(range(len(x.shape))):
            return x
        return self.one("transpose", [x], [x.shape[p] for p in perm], x.dtype,
                        permutation=ints(perm))

    def slice(self, x: Value, start: Sequence[int], limit: Sequence[int],
              strides: Sequence[int] | None = None) -> Value:
        strides = strides or [1] * len(start)
        if not (is_static(x.shape) and is_static(start) and is_static(limit)):
            return self._real_slice(x, start, limit, strides)
        shape = [max(0, -(-(e - s) // t)) for s, e, t in zip(start, limit, strides)]
        return self.one("slice", [x], shape, x.dtype, start_indices=ints(start),
                        limit_indices=ints(limit), strides=ints(strides))

    def _real_slice(self, x: Value, start: Sequence[Any], limit: Sequence[Any],
                    strides: Sequence[Any]) -> Value:
        shape = [max_dim(0, -(-(e - s) // t)) for s, e, t in zip(start, limit, strides)]
        if tuple(shape) == x.shape:
            return x
        return self.one("real_dynamic_slice", [x, *map(self.vector, (start, limit, strides))],
                        shape, x.dtype)

    def concatenate(self, xs: Sequence[Value], axis: int) -> Value:
        shape = list(xs[0].shape)
        shape[axis] = sum(x.shape[axis] for x in xs)
        return self.one("concatenate", xs, shape, xs[0].dtype, dimension=number(axis))

    def reverse(self, x: Value, axes: Sequence[int]) -> Value:
        return self.one("reverse", [x], x.shape, x.dtype, dimensions=ints(axes))

    def pad(self, x: Value, value: Any, config: Sequence[tuple[int, int, int]]) -> Value:
        shape = [lo + hi + n + i * max_dim(0, n - 1) if i else lo + hi + n
                 for n, (lo, hi, i) in zip(x.shape, config)]
        if not isinstance(value, Value):
            value = self.splat(value, (), x.dtype)
        low, high, interior = zip(*config) if config else ((), (), ())
        if not all(map(is_static, (low, high, interior))):
            return self.one("dynamic_pad", [x, value, *map(self.vector, (low, high, interior))],
                            shape, x.dtype)
        return self.one("pad", [x, value], shape, x.dtype, edge_padding_low=ints(low),
                        edge_padding_high=ints(high), interior_padding=ints(interior))

    def iota(self, shape: Shape, dtype: Any, axis: int) -> Value:
        if not is_static(shape):
            return self.one("dynamic_iota", [self.vector(shape)], shape, dtype,
                            iota_dimension=number(axis))
        return self.one("iota", [], shape, dtype, iota_dimension=number(axis))

    # ---- sizes that are known when the module is called
    def number(self, size: Any, dtype: Any) -> Value:
        """A size as an array of rank 0."""
        if not isinstance(size, Dim):
            return self.splat(size, (), dtype)
        value = size.compute(lambda name: self.variables[name], lambda n: self.splat(n, (), I32),
                             self._apply)
        return value.astype(dtype)

    def _apply(self, name: str, x: Value, y: Value) -> Value:
        if name in ("add", "mul"):
            return x + y if name == "add" else x * y
        if name in ("max", "min"):
            return self.binary(f"{name}imum", x, y)
        if self.guarded:  # XLA divides at once where it knows sizes, also by 0, and dies of it
            y = self.select(y.eq(0), self.like(y, 1), y)
        rest = self.binary("remainder", x, y)
        # of what XLA folds when it refines shapes (which xor is not)
        below = ((rest < 0) & (y > 0)) | ((rest > 0) & (y < 0))
        if name == "floordiv":
            return self.binary("divide", x, y) - below.astype(I32)
        return rest + self.select(below, y, self.like(y, 0))

    def vector(self, sizes: Sequence[Any]) -> Value:
        """Sizes as a vector of int32."""
        if is_static(sizes):
            return self._dense(np.asarray(list(sizes), I32))
        return self.concatenate(
            [self.reshape(self.number(n, I32), (1,)) for n in sizes], 0)

    @contextlib.contextmanager
    def own_sizes(self) -> Iterator[None]:
        """For what is a function of its own: no sizes of its caller's."""
        outer, self.variables = self.variables, {}
        try:
            yield
        finally:
            self.variables = outer

    def bind_sizes(self, xs: Sequence[Value]) -> list[int]:
        """The variables that sizes of these arrays give; the equations that give none are left."""
        sizes: list[tuple[Value, int, Any]] = [
            (x, axis, n) for x in xs for axis, n in enumerate(x.shape) if isinstance(n, Dim)]
        steps, left = plan([n for _, _, n in sizes])
        for step in steps:
            if step.name:
                x, axis, _ = sizes[step.index]
                size = self.one("get_dimension_size", [x], (), I32, dimension=number(axis))
                size = size - self.number(step.rest, I32) if step.rest != 0 else size
                self.variables[step.name] = size if step.factor == 1 else self.binary(
                    "divide", size, self.splat(step.factor, (), I32))
        return left

    def barrier(self, *xs: Value) -> list[Value]:
        return list(xs)

    def optimization_barrier(self, *xs: Value) -> list[Value]:
        return self.make("optimization_barrier", xs, types_of(xs))

    def materialize_slice(self, x: Value) -> Value:
        return x
