"""Transforms inside a kernel: parts are brought into one array, number by number, the C kernels of
lowering/native/fft.c are called, and the parts of what they give are taken apart again.

A loop of transforms is one dispatch so; the bits are those of transforms that are dispatches, the
same calls.  Start reading at `transform`.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calque.core.dtypes import real_dtype
from calque.core.program import Equation
from calque.core.types import Dtype, Ndarray, Shape
from calque.lowering.emit import mlir
from calque.lowering.kernels import fft, fft_tables, memory
from calque.lowering.kernels.dispatch import Spec
from calque.lowering.kernels.memory import Index, Memory
from calque.lowering.kernels.values import SCALAR, KernelBuilder

if TYPE_CHECKING:
    from calque.lowering.kernels.tensors import Emitter


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """An array of a kernel as C takes it: dense memory, of complex numbers their parts in turn."""

    memory: Memory
    shape: Shape
    dtype: Dtype


class Inside:
    """Calls from inside a kernel."""

    groups = 1

    def __init__(self, emitter: Emitter) -> None:
        self.emitter, self.shell = emitter, emitter.shell

    def allocate(self, shape: Shape, dtype: Dtype) -> Held:
        size = math.prod(shape) * (2 if dtype.kind == "c" else 1)
        return Held(self.emitter.allocate((size,), real_dtype(dtype)), shape, dtype)

    def call(self, entry: str, x: Held, table: Ndarray, results: Sequence[Spec],
             scalars: Sequence[int], groups: int) -> list[Held]:
        outs = [self.allocate(*results[0]), *[self.work(*r) for r in results[1:]]]
        given = [*self.pointer(x), *self.shell.table(table),
                 *[v for o in outs for v in self.pointer(o)]]
        i64 = mlir.ir().IntegerType.get_signless(64)
        given += [mlir.number(n, i64) for n in scalars]
        self.shell.call_c(entry, [*given, memory.index(0), memory.index(1)])
        return outs

    def work(self, shape: Shape, dtype: Dtype) -> Held:
        """Work space, which all calls of a kernel share."""
        key = shape, dtype
        if key not in self.shell.works:
            self.shell.works[key] = self.allocate(shape, dtype)
        found: Held = self.shell.works[key]
        return found

    def pointer(self, x: Held) -> list[Any]:
        """The memory and the number of the first element in it."""
        ref, at = self.shell.pointer(x.memory, 0)
        return [ref, memory.quotient(at, memory.index(2)) if x.dtype.kind == "c" else at]


def transform(emitter: Emitter, e: Equation, parts: Sequence[Memory]) -> list[Memory]:
    """The parts of a transform along one axis."""
    kind, axis, n = e.params["kind"], e.params["axis"], e.params["n"]
    calls, x = Inside(emitter), parts[0]
    real, last = x.dtype, x.ndim - 1
    whole = np.dtype(f"c{2 * real.itemsize}")
    count = x.size // x.shape[last]
    if kind == "RFFT":
        rows = (count, n // 2 + 1)
        if n % 2 == 0 and fft_tables.is_smooth(n // 2):
            made = fft.real_rows(calls, Held(_dense(emitter, x), (count, n), real))
        else:
            z = _joined(emitter, [x, None], (count, n))
            made = z if n == 1 else fft.rows(calls, z, n, False)
        return _apart(emitter, made, e.outputs[0].aval.shape, rows[1])
    if kind == "IRFFT":
        half = n // 2 + 1
        if n % 2 == 0 and fft_tables.is_smooth(n // 2):
            found = fft.rows_to_real(calls, _joined(emitter, parts, (count, half)))
            return [found.memory.view(e.outputs[0].aval.shape,
                                      memory.row_major(e.outputs[0].aval.shape))]
        z = _mirrored(emitter, parts, count, n)
        made = z if n == 1 else fft.rows(calls, z, n, True)
        return _apart(emitter, made, e.outputs[0].aval.shape, n)[:1]
    inverse, inner = kind == "IFFT", math.prod(x.shape[axis + 1:])
    if axis != last and fft.has_axis(n, inner, whole):
        outer = x.size // (n * inner)
        made = fft.axis(calls, _joined(emitter, parts, (outer, n, inner)), inverse)
        return _apart(emitter, made, x.shape, x.shape[last])
    order = [*[i for i in range(x.ndim) if i != axis], axis]
    moved = [p.transposed(order) for p in parts]
    made = fft.rows(calls, _joined(emitter, moved, (x.size // n, n)), n, inverse)
    back = [int(i) for i in np.argsort(order)]
    return [p.transposed(back) for p in _apart(emitter, made, moved[0].shape, n)]


def _dense(emitter: Emitter, x: Memory) -> Memory:
    return x if x.is_dense() else emitter.temporary(x)


def _joined(emitter: Emitter, parts: Sequence[Memory | None], shape: Shape) -> Held:
    """Parts (None: zeros) of one shape as complex numbers."""
    x = parts[0]
    assert x is not None
    made = emitter.allocate((2 * x.size,), x.dtype)

    def put(b: KernelBuilder, where: list[Index], at: Index) -> None:
        re, im = (b.splat(0, (), x.dtype) if p is None else memory.load(b, p, where)
                  for p in parts)
        memory.store_pair(b, re, im, made, at)

    _each(x, put)
    return Held(made, shape, np.dtype(f"c{2 * x.dtype.itemsize}"))


def _apart(emitter: Emitter, z: Held, shape: Shape, kept: int) -> list[Memory]:
    """The parts, as arrays of a shape, of the first `kept` numbers of every row."""
    outs = [emitter.allocate(shape, z.memory.dtype) for _ in range(2)]
    rows = (math.prod(shape) // kept, kept)
    flat = [o.view(rows, memory.row_major(rows)) for o in outs]
    width = math.prod(z.shape) // rows[0]

    def put(b: KernelBuilder, where: list[Index], _: Index) -> None:
        at = memory.add(memory.times(where[0], width), where[1])
        for out, part in zip(flat, memory.load_pair(b, z.memory, at)):
            memory.store(b, part, out, where)

    _each(flat[0], put)
    return outs


def _mirrored(emitter: Emitter, parts: Sequence[Memory], count: int, n: int) -> Held:
    """All n numbers of rows whose second half is the first one's mirror image, conjugate; the
    imaginary part of what stands for itself is not read."""
    half, dtype = n // 2 + 1, parts[0].dtype
    made = emitter.allocate((2 * count * n,), dtype)
    re, im = (_dense(emitter, p).view((count, half), memory.row_major((count, half)))
              for p in parts)

    def row(where: list[Index]) -> None:
        (i,) = where

        def put(k: Index, to: Index, alone: bool, turned: bool) -> None:
            value = memory.load(SCALAR, im, [i, k])
            zero = SCALAR.splat(0, (), dtype)
            memory.store_pair(SCALAR, memory.load(SCALAR, re, [i, k]), zero if alone else
                              -value if turned else value, made,
                              memory.add(memory.times(i, n), to))

        def both(k: Index) -> list[Any]:
            put(k, k, False, False)
            put(k, memory.computed("subi", n, k), False, True)
            return []

        put(0, 0, True, False)
        memory.loop((n + 1) // 2, both, start=1)
        if n % 2 == 0:
            put(n // 2, n // 2, True, False)

    memory.nest((count,), row)
    return Held(made, (count, n), np.dtype(f"c{2 * dtype.itemsize}"))


def _each(x: Memory, put: Callable[[KernelBuilder, list[Index], Index], None]) -> None:
    """put(builder, place, its number) at all places of an array, by vectors along its last axis."""
    strides = memory.row_major(x.shape)

    def row(outer: list[Index]) -> None:
        def step(b: KernelBuilder, i: Index) -> None:
            at: Index = 0
            for k, s in zip([*outer, i], strides):
                at = memory.add(at, memory.times(k, s))
            put(b, [*outer, i], at)
        memory.strip(x.shape[-1], memory.widest(x.dtype) // 2, step)

    memory.nest(x.shape[:-1], row)
