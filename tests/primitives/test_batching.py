"""vmap of every primitive against a loop over the oracle: every axis, -1, mixtures with None.

All by NumPy from what was traced, a few compiled; in the slow suite all compiled.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from support.harness import Case, compare, expected, function, physical, run, run_traced
from support.samples import FUNCTIONS, KEY, ROWS, Row, Sample

import calque

pytestmark = pytest.mark.usefixtures("x64")

Axes = tuple[int | None, ...]


def axes_of(sample: Sample) -> Iterator[Axes]:
    """Which axis of each operand is mapped: every axis of one operand, mixtures of several."""
    ranks = [len(o.shape) if o.values is None else 0 for o in sample.operands]
    n = len(ranks)
    if n == 1:
        for axis in range(ranks[0] + 1):
            yield (axis,)
        yield (-1,)
        return
    yield (0,) * n
    yield (-1,) * n
    yield tuple((0, -1)[i % 2] for i in range(n))
    for i in range(n):
        yield tuple(-1 if j == i else None for j in range(n))
    if n > 2:
        yield tuple(0 if j < 2 else None for j in range(n))
        yield tuple(0 if j != 1 else None for j in range(n))


def batch_case(row: Row, sample: Sample, axes: Axes, size: int, out_axis: int = 0) -> Case:
    dtype = row.main
    params = sample.parameters(dtype)
    batch = [row.arrays(Sample(f"{sample.label} {i}", sample.operands), dtype)
             for i in range(max(size, 1))]
    ranks = [x.ndim for x in batch[0]]
    first = [x for x in batch[0]]
    arrays: list[Any] = []
    for j, axis in enumerate(axes):
        if axis is None:
            arrays.append(first[j])
        else:
            stacked = np.stack([b[j] for b in batch], axis % (ranks[j] + 1))
            arrays.append(stacked if size else np.take(stacked, [], axis % (ranks[j] + 1)))
    rows = [expected(row, params, [first[j] if axis is None else b[j]
                                   for j, axis in enumerate(axes)]) for b in batch]
    wants = [np.stack(column, out_axis) for column in zip(*rows)]
    wants = [w if size else np.take(w, [], out_axis) for w in wants]
    keys = [o.dtype == KEY for o in sample.operands]
    words = [physical(a) if k else a for a, k in zip(arrays, keys)]
    # the axis of words lies behind all others
    shifted = tuple(a if a is None or not k or a >= 0 else a - 1 for a, k in zip(axes, keys))
    f = calque.vmap(function(row, sample, params), in_axes=shifted, out_axes=out_axis)
    return Case(f"vmap({row.name}) [{sample.label}] in_axes={axes} size {size} out {out_axis}",
                f, words, compare(wants, row))


def cases_of(row: Row) -> list[Case]:
    if row.name in FUNCTIONS and row.name != "sin":  # all have one rule
        return [batch_case(row, row.samples[0], (1,), 3), batch_case(row, row.samples[1], (0,), 3)]
    cases = []
    for k, sample in enumerate(row.samples):
        if sample.operands:
            few: Sequence[Axes] = list(axes_of(sample))
            if k:  # other parameters and shapes: the first mixtures only
                few = few[k % 2:k % 2 + 1]
            cases += [batch_case(row, sample, axes, 3) for axes in few]
    first = row.samples[0]
    if first.operands:
        axes = (0,) * len(first.operands)
        cases += [batch_case(row, first, axes, 1), batch_case(row, first, axes, 0)]
        if row.name not in ("random_wrap",):
            cases.append(batch_case(row, first, axes, 3, -1))
    return cases


NAMES = list(ROWS)


@pytest.mark.parametrize("start", range(0, len(NAMES), 18))
def test_vmap_equals_a_loop(start: int) -> None:
    run_traced([c for name in NAMES[start:start + 18] for c in cases_of(ROWS[name])])


def test_compiled_vmap() -> None:
    """Of each fourth primitive one mixture, which has elements; of each 24th none."""
    found = []
    for i, name in enumerate(NAMES[::4]):
        cases = cases_of(ROWS[name])
        found += [c for c in cases if all(x.size for x in c.args)][i % 3:][:1]
        found += [c for c in cases if not all(x.size for x in c.args)][:i % 6 == 0]
    run(found, 60)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, len(NAMES), 6))
def test_every_compiled_vmap(start: int) -> None:
    run([c for name in NAMES[start:start + 6] for c in cases_of(ROWS[name])], 60)
