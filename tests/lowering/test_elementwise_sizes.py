"""Primitives of single elements where compilers for GPUs choose by size, over all dtypes.

Compiled here, without a device.  The same samples run on Vulkan by tests/vulkan_share.py and on a
card, or on the machine of test_cuda_machine.py, by tests/carry.py; their counts stand in
docs/vulkan.md and docs/status.md.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.harness import drawn, function
from support.samples import ROWS

import calque
from calque import aot

CASES = [(name, dtype, sample) for name, row in ROWS.items() for sample in row.at_sizes
         for dtype in row.dtypes]
INTEGERS = [case for case in CASES if case[0] in ("rem", "div") and case[1] == np.dtype("i4")]
OTHERS = [case for case in CASES if case not in INTEGERS]
TARGETS = ["vulkan:lavapipe", "vulkan:host", "cuda:sm_80"]
MARKED = [pytest.param(t, marks=pytest.mark.vulkan) if t == "vulkan:host" else t for t in TARGETS]
GROUP = 20


def compiles(cases: list[Any], target: str) -> None:
    calls, specs = [], []
    for name, dtype, sample in cases:
        row = ROWS[name]
        calls.append(function(row, sample, sample.parameters(dtype)))
        specs.append([calque.ShapeDtypeStruct(a.shape, a.dtype)
                      for a in row.arrays(sample, dtype)])

    def every(arguments: Any) -> Any:
        return [f(*args) for f, args in zip(calls, arguments, strict=True)]

    with calque.enable_x64(True):
        made = aot.compile(every, specs, targets=[target])
    assert len(made.vmfb) > 1000


@pytest.mark.parametrize("target", MARKED)
def test_a_part_compiles(target: str) -> None:
    """`%`, `//` of int32 did not for Vulkan, from 16 elements on."""
    compiles([*INTEGERS, *drawn(OTHERS, 0.005, TARGETS.index(target))[0]], target)


@pytest.mark.slow
@pytest.mark.parametrize("target", MARKED)
def test_all_compile(target: str) -> None:
    for at in range(0, len(CASES), GROUP):
        compiles(CASES[at:at + GROUP], target)
