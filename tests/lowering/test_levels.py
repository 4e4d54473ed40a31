"""A cut through what we compile, at the level that most machines share, whatever this one has.

What LLVM makes of a program depends on the CPU: what links at this machine's level may not link at
another one, or give other digits.  `make levels` runs all samples at every level.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.harness import Case, case, compare, drawn, expected, function, run
from support.samples import ANY, C64, F64, FLOAT8, FUNCTIONS, ROWS, Sample, op, special

import calque.numpy as jnp
from calque.core.config import config
from calque.core.dtypes import bfloat16
from calque.lowering.target.targets import TargetError, runnable_target

LEVEL = "x86-64-v3"


@pytest.fixture(autouse=True)
def at_level(x64: None) -> Iterator[None]:
    if config.calque_cpu == LEVEL:
        pytest.skip(f"the whole suite runs at {LEVEL}")
    with config.context("calque_cpu", LEVEL):
        try:
            runnable_target()
        except TargetError as error:
            pytest.skip(str(error).splitlines()[0])
        yield


SOME = [True, pytest.param(False, marks=pytest.mark.slow)]  # a part, and all


def conversions(source: Any, share: float) -> Case:
    """Of a dtype's special values to others."""
    row = ROWS["convert_element_type"]
    others, _ = drawn([d for d in ANY + FLOAT8 if d != source], share, len(str(source)))
    samples = [Sample(f"to {d}", (op(values=special),),
                      {"new_dtype": d, "weak_type": False, "sharding": None}) for d in others]
    arrays = row.arrays(samples[0], source)
    every = [function(row, s, s.parameters(source)) for s in samples]
    wants = [w for s in samples for w in expected(row, s.parameters(source), arrays)]
    return Case(f"conversions of {source}", lambda x: [o for f in every for o in f(x)], arrays,
                compare(wants, row))


@pytest.mark.parametrize("some", SOME)
def test_conversions(some: bool) -> None:
    run([conversions(d, 0.05 if some else 1) for d in (ANY + FLOAT8)[::2 if some else 1]])


ARITHMETIC = ("add", "mul", "div", "rem", "neg", "max", "lt", "and", "shift_right_arithmetic",
              "select_n", "reduce_sum")


@pytest.mark.parametrize("some", SOME)
def test_arithmetic(some: bool) -> None:
    """Of every dtype."""
    run([case(ROWS[n], (ROWS[n].specials or ROWS[n].samples)[0], d)
         for n in (*ARITHMETIC, "iota")
         for d in drawn(ROWS[n].dtypes, 0.15 if some else 1, len(n))[0]], 80)


@pytest.mark.parametrize("some", SOME)
def test_products(some: bool) -> None:
    rng = np.random.default_rng(0)

    def product(dtype: Any) -> Case:
        x, y = (np.asarray(rng.integers(0, 5, shape)).astype(dtype) for shape in ((9, 40), (40, 7)))
        want = x.astype(np.complex128) @ y.astype(np.complex128)
        return Case(f"product of {dtype}", lambda x, y: [jnp.matmul(x, y)], [x, y],
                    compare([want.astype(dtype) if dtype.kind == "c" else want.real.astype(dtype)],
                            ROWS["dot_general"]))
    dtypes = [d for d in ANY if d.kind != "b" and d.itemsize > 1]
    run([product(d) for d in drawn(dtypes, 0.4 if some else 1)[0]])


WHOLE = ("sort", "top_k", "argmax", "cumsum", "cumlogsumexp", "scan", "while", "cond", "gather",
         "scatter-add", "dynamic_update_slice", "concatenate", "reduce_window_max",
         "conv_general_dilated", "random_bits", "random_split", "fft", "cholesky", "lu", "qr",
         "triangular_solve", "eigh", "svd", "eig", "schur")


@pytest.mark.parametrize("some", SOME)
def test_algorithms_and_functions(some: bool) -> None:
    """Kernels of ours, in MLIR and in C, and some of the functions."""
    found = [case(ROWS[n], ROWS[n].samples[0], ROWS[n].main) for n in WHOLE[::4 if some else 1]]
    functions, _ = drawn([(n, d) for n in FUNCTIONS for d in (F64, C64, bfloat16)
                          if d in ROWS[n].dtypes], 0.05 if some else 0.15)
    found += [case(ROWS[n], ROWS[n].samples[0], d) for n, d in functions]
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((30, 30)), rng.standard_normal((30, 2))
    found += [Case("solve", lambda a, b: [jnp.linalg.solve(a, b)], [a, b], compare(
        [np.linalg.solve(a, b)], ROWS["lu"]))]
    run(found)


def test_code_outside_jit() -> None:
    x = np.arange(70_000)  # (more than NumPy's rules take)
    for dtype in (np.int32, bool):
        out = jnp.asarray(x.astype(dtype)).astype(bfloat16)
        assert np.array_equal(np.asarray(out), x.astype(dtype).astype(bfloat16))
