"""Every primitive against its oracle: the dtype grid, all shapes, special values; eager = jit."""
from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support.harness import Case, case, compare, drawn, expected, function, partly_slow, run, words
from support.samples import C64, F64, FUNCTIONS, ROWS, Row, Sample

import calque
from calque.core.primitive import registry
from calque.dispatch import eager
from calque.dispatch.eager import lazy_eval

pytestmark = pytest.mark.usefixtures("x64")


def grid(row: Row) -> list[tuple[Sample, Any]]:
    """Special values over all dtypes where the row has them, else the first sample; and the other
    samples in the main dtype."""
    first = row.specials or row.samples[:1]
    rest = row.samples if row.specials else row.samples[1:]
    return [(s, d) for s in first for d in row.dtypes] + [(s, row.main) for s in rest]


# of these few shapes and parameters by default: they take long to compile
LONG = ("conv_general_dilated", "eig", "eigh", "fft", "gather", "igamma", "igamma_grad_a",
        "igammac", "pinv", "polygamma", "qr", "random_bits", "random_gamma_grad", "random_split",
        "regularized_incomplete_beta", "rng_bit_generator", "scatter", "schur", "sort", "svd",
        "top_k", "zeta")


def value_cases(row: Row, more: bool = False) -> list[Case]:
    """By default some of what is in the main dtype and of the others; with `more` the rest.

    Of functions, all in the main dtype, each second one in another, f64 or c64 in turn, each third
    one in another shape.
    """
    if row.name in FUNCTIONS and not more:
        turn = FUNCTIONS.index(row.name)
        second = [d for d in (F64, C64) if d in row.dtypes and turn % 2]
        found = [(row.samples[0], d) for d in (row.main, *second[turn // 2 % 2:][:1])]
        if not turn % 3:
            found += drawn([(s, row.main) for s in row.samples[1:]], 0.1, turn)[0]
    elif row.name in FUNCTIONS:
        found = grid(row)
    else:
        first, *main = [g for g in grid(row) if g[1] == row.main]
        main, rest = drawn(main, 0.06 if row.name in LONG else 0.16, len(row.name))
        others = drawn([g for g in grid(row) if g[1] != row.main],
                       0.03 if row.name not in LONG else 0, len(row.name))
        found = rest + others[1] if more else [first, *main, *others[0]]
    return [case(row, s, d) for s, d in found]


NAMES = list(ROWS)
STRIDE = 8  # rows a test


@pytest.mark.parametrize("start", range(0, len(NAMES), STRIDE))
def test_compiled_result_equals_the_oracle(start: int) -> None:
    run([c for name in NAMES[start:start + STRIDE] for c in value_cases(ROWS[name])])


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, len(NAMES), 4))
def test_every_dtype(start: int) -> None:
    found = [c for name in NAMES[start:start + 4] for c in value_cases(ROWS[name], more=True)]
    if found:
        run(found)


ONE_BY_ONE = ("add", "sin", "convert_element_type", "reduce_max", "reshape", "dot_general",
              "dynamic_update_slice", "random_bits", "cond", "scan", "jit")


def eager_check(names: Sequence[str]) -> None:
    wrong = []
    found = []
    with contextlib.ExitStack() as stack:
        if len(names) > 1:  # recorded, run as one program
            stack.enter_context(lazy_eval())
        for name in names:
            row = ROWS[name]
            sample = row.samples[0]
            arrays = row.arrays(sample, row.main)
            params = sample.parameters(row.main)
            outs = function(row, sample, params)(*words(row, sample, arrays))
            found.append((name, outs, compare(expected(row, params, arrays), row)))
    for name, outs, check in found:
        text = check([np.asarray(o) for o in outs])
        if text:
            wrong.append(f"{name}: {text}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_eager_equals_the_oracle(name: str) -> None:
    eager_check([name])


@pytest.mark.parametrize("start", partly_slow(range(0, len(ROWS), 11), 0.3, 1))
def test_recorded_equals_the_oracle(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eager, "_at_once", lambda prim, args, params: None)  # no short ways
    eager_check(list(ROWS)[start:start + 11])


def test_weak_operands_give_weak_results() -> None:
    f = registry["mul"].bind
    assert f(calque.device_put(np.float64(2.0)), 3.0).weak_type is False
    assert f(2.0, 3.0).weak_type is True
