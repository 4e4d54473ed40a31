"""vmap of every primitive against a loop over the oracle: every axis, -1, mixtures with None."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from support.harness import Case, compare, drawn, expected, function, physical, run
from support.samples import ELEMENTWISE, FUNCTIONS, KEY, ROWS, Row, Sample

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


# Every third shape and every other mixture by default, the rest slow: they take long to compile,
# and most have the rule of another that is here whole (special functions that of add, joins of
# scatter that of scatter-add).
FEWER = ("random_bits", "scan", "cond", "while", "qr", "svd", "polygamma", "zeta", "igamma",
         "igammac", "igamma_grad_a", "random_gamma_grad", "regularized_incomplete_beta", "scatter",
         "scatter-sub", "scatter-mul", "scatter-min", "scatter-max", "gather", "fft",
         "conv_general_dilated", "sort", "top_k")


def cases_of(row: Row, rest: bool = False) -> list[Case]:
    if row.name in FUNCTIONS and row.name != "sin":  # all have one rule
        return [batch_case(row, row.samples[0], (1,), 3), batch_case(row, row.samples[1], (0,), 3)]
    cases = []
    for k, sample in enumerate(row.samples):
        if not sample.operands or (row.name in FEWER and k and bool(k % 3) != rest):
            continue
        few: Sequence[Axes] = list(axes_of(sample))
        if k:  # other parameters and shapes: the first mixtures only
            few = few[k % 2:k % 2 + 1]
        elif row.name in FEWER:
            few = few[rest::2]
        cases += [batch_case(row, sample, axes, 3) for axes in few]
    if rest:
        return cases
    first = row.samples[0]
    if first.operands:
        axes = (0,) * len(first.operands)
        cases += [batch_case(row, first, axes, 1), batch_case(row, first, axes, 0)]
        if row.name not in ("random_wrap",):
            cases.append(batch_case(row, first, axes, 3, -1))
    return cases


NAMES = list(ROWS)


def parts(name: str) -> tuple[list[Case], list[Case]]:
    """What is run by default, which has elements but for every eighth primitive, and the rest.
    What maps elements has one rule: of these every fourth."""
    cases = cases_of(ROWS[name])
    more = cases_of(ROWS[name], rest=True) if name in FEWER else []
    if name in ELEMENTWISE and ELEMENTWISE.index(name) % 4:
        return [], cases + more
    empty = [c for c in cases if not all(x.size for x in c.args)]
    first, rest = drawn([c for c in cases if not any(c is e for e in empty)], 0.04, len(name))
    few = int(NAMES.index(name) % 8 == 0) if first else len(empty)
    return first + empty[:few], rest + empty[few:] + more


@pytest.mark.parametrize("start", range(0, len(NAMES), 18))
def test_vmap_equals_a_loop(start: int) -> None:
    run([c for name in NAMES[start:start + 18] for c in parts(name)[0]], 60)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, len(NAMES), 6))
def test_more_mixtures_and_shapes(start: int) -> None:
    run([c for name in NAMES[start:start + 6] for c in parts(name)[1]], 60)
