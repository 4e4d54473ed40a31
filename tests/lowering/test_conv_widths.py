"""With AVX-512, convolutions whose width no tile of IREE's divides are products, too."""
from __future__ import annotations

import pytest
from support.harness import run
from test_conv_products import case

import calque
from calque.core.config import config
from calque.lowering.rules.conv import _is_uneven
from calque.lowering.target.targets import parse_target


@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_widths_in_a_program(part: int) -> None:
    """Widths without a divisor from 4 to 8, and some with one; by NumPy."""
    if not set(parse_target("cpu:x86-64-v4").features) <= set(parse_target("host").features):
        pytest.skip("this machine lacks the level's instructions")
    assert [n for n in range(1, 23) if _is_uneven(n)] == [1, 2, 3, 9, 11, 13, 17, 19, 22]
    cases = [case((height, width), inputs, outputs, 1, 1, "SAME", dtype, features)
             for height, width, inputs, outputs, dtype, features in (
                 (3, 1, 8, 16, "float32", "last"), (13, 13, 32, 16, "float32", "first"),
                 (4, 11, 5, 3, "float64", "last"), (1, 9, 16, 33, "float32", "mixed"),
                 (2, 22, 4, 64, "float16", "last"), (5, 12, 8, 8, "float32", "first"),
                 (2, 3, 3, 1, "float32", "last"))]
    cases += [case((9, 19), 4, 8, 2, 1, "VALID", "float32", "last"),
              case((6, 15), 4, 8, 1, 2, "wide", "float32", "first")]
    with config.context("calque_cpu", "x86-64-v4"), calque.enable_x64(True):
        run(cases[part::2])
