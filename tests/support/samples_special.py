"""Samples of the special functions (see samples.py); accuracy: lowering/test_math_special.py."""
from __future__ import annotations

import numpy as np

from support.samples import (
    BINARY,
    FLOATS,
    INTS,
    SPECIAL_PAIRS,
    UNARY,
    Operand,
    Sample,
    op,
    row,
    sample,
)

row("lgamma", FLOATS, UNARY, low=0.3, high=4.0)
row("digamma", FLOATS, UNARY, low=1.6, high=4.0)
row("bessel_i0e", FLOATS, UNARY, low=0.2, high=9.0)
row("bessel_i1e", FLOATS, UNARY, low=0.2, high=9.0)

_ORDER = {"values": lambda d: np.arange(12).reshape(3, 4) % 4}


def _ordered(first: Operand, scalar: Operand) -> tuple[Sample, ...]:
    """Binary samples whose first operand has values of its own."""
    return (Sample("normal", (first, op(3, 4))), Sample("right scalar", (first, op())),
            Sample("left scalar", (scalar, op(3, 4))), Sample("scalar", (scalar, op())),
            Sample("one", (Operand((1, 1), values=[[2.0]]), op(1, 1))),
            sample("empty", op(0, 3), op(0, 3)))


# fixed: operands by which there is no derivative
row("polygamma", FLOATS, _ordered(op(3, 4, **_ORDER), op(values=2.0)), low=0.5, high=4.0,
    fixed=(0,))
row("zeta", FLOATS, _ordered(op(3, 4, low=1.5, high=5.0), op(low=1.5, high=5.0)), low=0.5,
    high=4.0)
# (the derivative by a: lowering/test_math_special.py; a second one by a does not exist)
row("igamma", FLOATS, BINARY, low=0.5, high=4.0, fixed=(0,))
row("igammac", FLOATS, BINARY, low=0.5, high=4.0, fixed=(0,))
row("igamma_grad_a", FLOATS, BINARY, low=0.5, high=4.0, fixed=(0, 1))
row("random_gamma_grad", FLOATS, BINARY, low=0.5, high=4.0, fixed=(0, 1))
row("regularized_incomplete_beta", FLOATS, (
    sample("normal", op(3, 4, low=0.5, high=4), op(3, 4, low=0.5, high=4), op(3, 4)),
    sample("scalars", op(low=0.5, high=4), op(3, 4, low=0.5, high=4), op()),
    sample("scalar", op(low=0.5, high=4), op(low=0.5, high=4), op()),
    sample("one", op(1, low=0.5, high=4), op(1, low=0.5, high=4), op(1)),
    sample("empty", op(0, 3), op(0, 3), op(0, 3))), low=0.1, high=0.9, fixed=(0, 1))
row("mulhi", INTS, BINARY, specials=SPECIAL_PAIRS)
