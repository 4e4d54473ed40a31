"""The API fuzzer draws every public name, or says why not; and its own parts work."""
from __future__ import annotations

import numpy as np
import pytest
from support import fuzz_api_names
from support.fuzz_api_check import differences, error_class
from support.fuzz_api_draw import ENV, cleaned, draw, function
from support.fuzz_api_run import eager_line, in_mode
from support.oracle import interpret

import calque


def test_every_public_name_is_drawn_or_says_why() -> None:
    assert fuzz_api_names.missing() == []


@pytest.mark.parametrize("seed", [0, 26, 51, 104])
def test_a_drawn_program(seed: int) -> None:
    p = draw(seed)
    assert draw(seed).source() == p.source()
    with calque.enable_x64(p.x64):
        assert callable(function(p.source(), ENV))
        assert [f for line in p.lines if (f := eager_line(p, line, compiles=False))] == []
        program, args = in_mode(p)
        assert len(interpret(cleaned(program), args)) == len(program.outputs)


def test_noise_is_no_difference_and_an_error_is() -> None:
    from calque.core.avals import ShapedArray
    from calque.transforms.stage import stage
    x = np.array([1., 1 + 1e-7, 5], np.float32)
    program = stage(lambda x: [(x - x[::-1]) * 1e6 + calque.numpy.floor(calque.numpy.sin(x) * 0)],
                    [ShapedArray((3,), np.dtype("f4"))], "f")
    (want,) = interpret(program, [x])
    assert not differences([want * np.float32(1 + 1e-6)], [want], program, [x])
    assert differences([want + np.float32(1e5)], [want], program, [x])
    assert error_class(["ConcretizationTypeError", "TypeError", "Exception"]) == "TypeError"
