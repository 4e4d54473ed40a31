"""Random calls of Pallas, and an interpreter of them in NumPy: one cell after the other."""
from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Index = Callable[..., tuple[Any, ...]]


@dataclass(frozen=True)
class Array:
    """Of shape (), ... ; block: a size, None or ("element", size, padding) for each axis."""

    shape: tuple[int, ...]
    block: tuple[Any, ...]
    index: Index


@dataclass(frozen=True)
class Call:
    grid: tuple[int, ...]
    ins: tuple[Array, ...]
    outs: tuple[Array, ...]
    kinds: tuple[str, ...]  # what the kernel does with each result
    scratch: bool
    aliased: bool


def _sizes(a: Array) -> list[tuple[int, int, tuple[int, int], bool]]:
    """(size, step of the index, padding, seen) for each axis."""
    return [(1, 1, (0, 0), False) if b is None else (b[1], 1, b[2], True) if isinstance(b, tuple)
            else (b, b, (0, 0), True) for b in a.block]


def interpreted(call: Call, xs: Sequence[np.ndarray], kernel: Callable[..., None]
                ) -> list[np.ndarray]:
    """The results, by slices of padded arrays in the grid's order."""
    def padded(a: Array, x: np.ndarray) -> np.ndarray:
        pads = [(lo, -(-(n + lo + hi) // b) * b - n - lo)
                for n, (b, _, (lo, hi), _) in zip(a.shape, _sizes(a))]
        return np.pad(x, pads, constant_values=np.nan) if pads else np.array(x)

    def window(a: Array, place: tuple[int, ...], whole: np.ndarray) -> tuple[slice, ...]:
        found = []
        for i, (b, step, _, _), n in zip(a.index(*place), _sizes(a), whole.shape):
            start = int(i) * step
            start = min(max(start + n if start < 0 else start, 0), n - b)
            found.append(slice(start, start + b))
        return tuple(found)

    arrays = [*call.ins, *call.outs]
    before = [np.full(a.shape, np.nan, np.float32) for a in call.outs]
    if call.aliased:
        before[0] = xs[0]
    wholes = [padded(a, x) for a, x in zip(arrays, [*xs, *before])]
    scratch = [np.full((2,), np.nan, np.float32)] if call.scratch else []
    for place in itertools.product(*map(range, call.grid)):
        windows = [window(a, place, w) for a, w in zip(arrays, wholes)]
        refs = [np.array(w[at]).reshape([s[0] for s in _sizes(a) if s[3]])
                for a, w, at in zip(arrays, wholes, windows)]
        kernel(place, *refs, *scratch)
        for w, at, r in zip(wholes, windows, refs):
            w[at] = r.reshape(w[at].shape)
    return [w[tuple(slice(s[2][0], s[2][0] + n) for s, n in zip(_sizes(a), a.shape))]
            for a, w in zip(call.outs, wholes[len(call.ins):])]


JOINS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "-": lambda xp, o, x: x - o, "+": lambda xp, o, x: o + x,
    ">": lambda xp, o, x: xp.maximum(x, o), "<": lambda xp, o, x: xp.minimum(o, x)}


def kernel_of(call: Call, xp: Any, when: Any, total: Any) -> Callable[..., None]:
    """The kernel for NumPy and for calque: `total` adds up what is no NaN."""
    n_in, n_out = len(call.ins), len(call.outs)

    def kernel(place: Sequence[Any], *refs: Any) -> None:
        ins, outs, rest = refs[:n_in], refs[n_in:n_in + n_out], refs[n_in + n_out:]
        value = sum((total(r[...]) * (k + 1) for k, r in enumerate(ins)),
                    xp.asarray(1, np.float32))
        for g, p in enumerate(place):
            value = value + xp.asarray(p * (g + 2)).astype(np.float32)
        for s in rest:
            s[...] = xp.where(xp.isnan(s[...]), 0, s[...]) + value
            value = value + s[0]
        for o, kind in zip(outs, call.kinds):
            full = xp.zeros(o.shape, np.float32) + value
            if kind == "set":
                o[...] = full
            elif kind == "add":
                o[...] = xp.where(xp.isnan(o[...]), 0, o[...]) + full
            else:
                join, axis = JOINS[kind[0]], int(kind[1])

                def start(o: Any = o, full: Any = full) -> None:
                    o[...] = full

                def go_on(o: Any = o, full: Any = full, join: Any = join) -> None:
                    o[...] = join(xp, o[...], full)

                when(place[axis] == 0)(start)
                when(place[axis] != 0)(go_on)

    return kernel


def drawn(rng: np.random.Generator) -> Call:
    grid = tuple(int(n) for n in rng.integers(1, 4, rng.integers(0, 4)))
    if rng.random() < 0.05 and grid:
        grid = (0, *grid[1:])

    def entry() -> tuple[str, Callable[..., Any]]:
        if not grid:
            return "0", lambda *p: 0
        g, h = rng.integers(len(grid)), rng.integers(len(grid))
        c = int(rng.integers(-1, 3))
        return [("const", lambda *p: max(c, 0)), ("place", lambda *p: p[g]),
                ("place", lambda *p: p[g]), ("shift", lambda *p: p[g] + c),
                ("turn", lambda *p: grid[g] - 1 - p[g]), ("half", lambda *p: p[g] // 2),
                ("rest", lambda *p: p[g] % 2), ("both", lambda *p: p[g] * grid[h] + p[h])
                ][rng.integers(8)]

    def array(ndim: int) -> Array:
        shape, block, index = [], [], []
        for _ in range(ndim):
            size, kind = int(rng.integers(1, 4)), rng.random()
            count = int(rng.integers(1, 5))
            block.append(None if kind < 0.25 else ("element", size, (
                int(rng.integers(0, 2)), int(rng.integers(0, 2)))) if kind < 0.35 else size)
            size = 1 if block[-1] is None else size
            shape.append(max(count * size - int(rng.integers(0, 2)), 1))
            index.append(entry()[1])
        return Array(tuple(shape), tuple(block), lambda *p: tuple(f(*p) for f in index))

    ins = tuple(array(int(rng.integers(0, 4))) for _ in range(rng.integers(0, 3)))
    outs = tuple(array(int(rng.integers(0, 4))) for _ in range(rng.integers(1, 3)))
    aliased = bool(ins) and rng.random() < 0.3
    if aliased:
        outs = (Array(ins[0].shape, outs[0].block, outs[0].index) if len(
            ins[0].shape) == len(outs[0].shape) else ins[0], *outs[1:])
    joins = [f"{join}{g}" for join in JOINS for g in range(len(grid))]
    kinds = tuple(["set", "add", *joins][rng.integers(2 + len(joins))] for _ in outs)
    return Call(grid, ins, outs, kinds, bool(rng.random() < 0.3), aliased)


def values_of(call: Call, rng: np.random.Generator) -> list[np.ndarray]:
    return [rng.integers(0, 9, a.shape).astype(np.float32) for a in call.ins]
