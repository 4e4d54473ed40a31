"""dot_general in a kernel: blocks of rows and vectors of columns stay in registers while the
contracted axis goes by.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.lowering.builder import Value
from calque.lowering.kernels import memory
from calque.lowering.kernels.memory import Index, Memory
from calque.lowering.kernels.values import SCALAR, KernelBuilder

ROWS, VECTORS = 4, 2  # accumulators held: 4 x 2 vectors


def dot_general(x: Memory, y: Memory, out: Memory, dims: Any) -> None:
    """out = x . y; every operand is a view, so that any order of axes will do."""
    (xc, yc), (xb, yb) = dims
    xf = [i for i in range(len(x.shape)) if i not in (*xc, *xb)]
    yf = [i for i in range(len(y.shape)) if i not in (*yc, *yb)]

    def parts(m: Memory, axes: Sequence[int]) -> tuple[list[int], list[int]]:
        return [m.shape[i] for i in axes], [m.strides[i] for i in axes]

    batch, contracted = parts(x, xb)[0], parts(x, xc)[0]

    def one(where: list[Index]) -> None:
        xs, ys, os = _moved(x, xb, where), _moved(y, yb, where), _moved(
            out, range(len(xb)), where)
        n = len(xb)
        a = xs.view([*parts(x, xf)[0], *contracted], [*parts(x, xf)[1], *parts(x, xc)[1]])
        b = ys.view([*contracted, *parts(y, yf)[0]], [*parts(y, yc)[1], *parts(y, yf)[1]])
        _product(a, b, os.view(out.shape[n:], out.strides[n:]), len(xf), len(contracted))

    memory.nest(batch, one)


def _moved(m: Memory, axes: Sequence[int], where: Sequence[Index]) -> Memory:
    base: Index = 0
    for axis, i in zip(axes, where):
        base = memory.add(base, memory.times(i, m.strides[axis]))
    return m.view(m.shape, m.strides, base)


def _product(a: Memory, b: Memory, out: Memory, rows: int, folded: int) -> None:
    """out[m..., n...] = sum over k... of a[m..., k...] * b[k..., n...]."""
    m_shape, k_shape, n_shape = a.shape[:rows], a.shape[rows:], b.shape[folded:]
    if not n_shape:  # a column: give it an axis
        b = b.view([*b.shape, 1], [*b.strides, 0])
        out = out.view([*out.shape, 1], [*out.strides, 0])
        n_shape = (1,)
    if n_shape[-1] == 1 and m_shape and a.strides[rows - 1] == 1 and m_shape[-1] > 1 and (
            len(n_shape) == 1):  # vectors run down the rows instead
        order = [*range(rows, len(a.shape)), *range(rows)]
        flipped = a.view([a.shape[i] for i in order], [a.strides[i] for i in order])
        column = b.view(k_shape, b.strides[:folded])
        _product(column, flipped, out.view(m_shape, out.strides[:rows]), 0, folded)
        return
    lanes = memory_lanes(b, out)
    along = lanes == 1 and k_shape and a.strides[-1] == 1 and b.strides[folded - 1] == 1
    last_m = m_shape[-1] if m_shape else 1

    def block(outer: list[Index], first: Index, count: int, columns: list[Index],
              kb: KernelBuilder, starts: list[Index]) -> None:
        """count rows from `first` on, times one vector at each of starts."""
        def row(r: int) -> list[Index]:
            return [*outer, memory.add(first, r)] if m_shape else []

        kind = memory.summed(out.dtype)
        zero = kb.splat(0, (), kind).ir

        def at(k: list[Index], accs: Sequence[Any]) -> list[Any]:
            right = [kb.convert(memory.load(kb, b, [*k, *columns, s]), kind) for s in starts]
            result = []
            for r in range(count):
                one = SCALAR.convert(memory.load(SCALAR, a, [*row(r), *k]), kind)
                left = kb.spread(one)
                for c, w in enumerate(right):
                    acc = Value(kb, accs[r * len(starts) + c], (), kind)
                    result.append(_fma(kb, left, w, acc).ir)
            return result

        accs = _folded(k_shape, at, [zero] * (count * len(starts)))
        for r in range(count):
            for c, s in enumerate(starts):
                total = Value(kb, accs[r * len(starts) + c], (), kind)
                memory.store(kb, kb.convert(total, out.dtype), out, [*row(r), *columns, s])

    def rows_of(outer: list[Index], columns: list[Index]) -> None:
        whole = last_m // ROWS * ROWS

        def blocks(first: Index) -> list[Any]:
            some(outer, columns, first, ROWS)
            return []

        memory.loop(whole, blocks, step=ROWS)
        if last_m > whole:
            some(outer, columns, whole, last_m - whole)

    def some(outer: list[Index], columns: list[Index], first: Index, count: int) -> None:
        if along:
            for r in range(count):
                where = [*outer, memory.add(first, r)] if m_shape else []

                def cell(s: Index, where: list[Index] = where) -> list[Any]:
                    memory.store(SCALAR, _inner(a, b, where, [*columns, s], k_shape, out.dtype),
                                 out, [*where, *columns, s])
                    return []

                memory.loop(n_shape[-1], cell)
            return
        at, width = 0, lanes
        while at < n_shape[-1]:
            while width > n_shape[-1] - at:
                width //= 2
            kb = SCALAR if width == 1 else KernelBuilder(width)
            many = VECTORS if n_shape[-1] - at >= VECTORS * width else 1
            step = many * width
            stop = at + (n_shape[-1] - at) // step * step

            def run(i: Index, kb: KernelBuilder = kb, width: int = width, many: int = many
                    ) -> list[Any]:
                block(outer, first, count, columns, kb,
                      [memory.add(i, v * width) for v in range(many)])
                return []

            memory.loop(stop, run, start=at, step=step)
            at = stop

    memory.nest(m_shape[:-1], lambda outer: memory.nest(
        n_shape[:-1], lambda columns: rows_of(outer, columns)))


def memory_lanes(b: Memory, out: Memory) -> int:
    """Lanes along the last axis of b and out."""
    if b.strides[-1] == 1 and (out.strides[-1] == 1 or out.shape[-1] == 1) and b.shape[-1] > 1:
        return max(2, 64 // max(4, b.dtype.itemsize))
    return 1


def _folded(shape: Sequence[int], body: Any, accs: list[Any]) -> list[Any]:
    """Loops over shape that carry the accumulators."""
    def level(done: list[Index], accs: list[Any]) -> list[Any]:
        if len(done) == len(shape):
            return list(body(done, accs))
        return memory.loop(shape[len(done)], lambda i, *a: level([*done, i], list(a)), accs)
    return level([], accs)


def _inner(a: Memory, b: Memory, row: list[Index], column: list[Index], shape: Sequence[int],
           dtype: Any) -> Value:
    """An inner product along the last contracted axis, in lanes."""
    kind = memory.summed(dtype)
    total = SCALAR.splat(0, (), kind)
    n, at = shape[-1], 0
    width = max(2, 64 // max(4, dtype.itemsize))
    while at < n:
        while width > n - at:
            width //= 2
        kb = SCALAR if width == 1 else KernelBuilder(width)
        stop = at + (n - at) // width * width

        def step(k: list[Index], i: Index, acc: Any, kb: KernelBuilder = kb) -> Any:
            left = kb.convert(memory.load(kb, a, [*row, *k, i]), kind)
            wide = b.view([*b.shape[:len(shape)]], b.strides[:len(shape)],
                          _offset(b, column, len(shape)))
            right = kb.convert(memory.load(kb, wide, [*k, i]), kind)
            return _fma(kb, left, right, Value(kb, acc, (), kind)).ir

        def body(k: list[Index], accs: Sequence[Any], kb: KernelBuilder = kb, at: int = at,
                 stop: int = stop, width: int = width) -> list[Any]:
            return memory.loop(stop, lambda i, acc: [step(k, i, acc, kb)], list(accs), start=at,
                               step=width)

        (sums,) = _folded(shape[:-1], body, [kb.splat(0, (), kind).ir])
        part = kb.horizontal("add", Value(kb, sums, (), kind))
        total = total + Value(SCALAR, part.ir, (), kind)
        at = stop
    return SCALAR.convert(total, dtype)


def _offset(m: Memory, where: Sequence[Index], axis: int) -> Index:
    base: Index = 0
    for i, s in zip(where, m.strides[axis:]):
        base = memory.add(base, memory.times(i, s))
    return base


def _fma(b: KernelBuilder, x: Value, y: Value, z: Value) -> Value:
    if x.dtype.kind == "f":
        return b.fma(x, y, z)
    return x * y + z


