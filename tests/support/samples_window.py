"""Samples of the windowed and cumulative primitives (see samples.py)."""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core.primitive import registry
from support.samples import (
    BOOL,
    FLOATS,
    INEXACT,
    NUMBER,
    REAL,
    UNARY,
    Sample,
    op,
    row,
    sample,
    special,
)


# ---- cumulative
def _along(*shape: int, axis: int = 0, reverse: bool = False) -> Sample:
    way = ", reversed" if reverse else ""
    return sample(f"{shape} over {axis}{way}", op(*shape), axis=axis, reverse=reverse)


_CUMULATIVE = (_along(5, 3), _along(3, 5, axis=1, reverse=True), _along(2, 3, 2, axis=1),
               _along(2, 17, axis=1), _along(1), _along(0, 3), _along(3, 0, axis=0))
_LONG = (_along(4500), _along(2, 2500, axis=1, reverse=True), _along(3000, 2))
# (NaN among complex numbers has no place in their order)
_NAN = (Sample("special", (op(values=lambda d: [1] if d.kind == "c" else special(d)[:, None]),), {
    "axis": 0, "reverse": False}),)
row("cumsum", NUMBER, _CUMULATIVE + _LONG, linear=(0,), normwise=True)
row("cumprod", NUMBER, _CUMULATIVE, low=0.5, factor=4.0)  # up to 17 factors, each rounded
row("cummax", NUMBER, _CUMULATIVE, specials=(*_LONG[:1], *_NAN))
row("cummin", NUMBER, _CUMULATIVE, specials=(*_LONG[:1], *_NAN))
# five or more functions of an earlier result, each within the table's tolerance; negative sums
# cancel, so errors are measured against the largest
row("cumlogsumexp", INEXACT, _CUMULATIVE, normwise=True, factor=4.0)


# ---- windows
def window(k: Any, strides: Any = None, padding: Any = None, base: Any = None,
           dilation: Any = None) -> dict[str, Any]:
    ones = (1,) * len(k)
    return {"window_dimensions": k, "window_strides": strides or ones,
            "padding": padding or ((0, 0),) * len(k), "base_dilation": base or ones,
            "window_dilation": dilation or ones}


def _windows() -> tuple[Sample, ...]:
    made = [
        ("overlapping", (5, 6), window((2, 3))),
        ("strides, padding", (5, 6), window((3, 2), (2, 1), ((1, 1), (0, 1)))),
        ("dilated", (5, 6), window((2, 2), (1, 2), ((1, 0), (-1, 0)), (2, 1), (1, 2))),
        ("between", (2, 5, 3, 6), window((1, 2, 1, 3), (1, 2, 1, 1))),
        ("last axes", (2, 5, 6, 3), window((1, 3, 3, 1), (1, 2, 2, 1),
                                           ((0, 0), (1, 1), (1, 1), (0, 0)))),
        ("three axes", (3, 4, 5), window((2, 2, 2))),
        ("one axis", (7,), window((3,), (2,), ((1, 1),))),
        ("long", (60,), window((41,), (3,), ((20, 20),))),
        ("stride only", (7, 2), window((1, 1), (3, 1))),
        ("one", (1,), window((1,))),
        ("no window", (2, 3), window((3, 1))),
        ("empty", (0, 3), window((1, 2), None, ((0, 0), (0, 1))))]
    return tuple(Sample(label, (op(*shape),), p) for label, shape, p in made)


_SPECIAL = lambda d: {**window((2,), None, ((1, 0),))}  # noqa: E731
row("reduce_window_sum", NUMBER, _windows(), linear=(0,), normwise=True)
for _name in ("reduce_window_max", "reduce_window_min"):
    row(_name, (BOOL, *REAL), _windows(),
        specials=(Sample("special", (op(values=special),), _SPECIAL), _windows()[1]))


def _selecting(scatter: bool) -> list[Sample]:
    made = []
    for s in _windows():
        p = {**s.params, "select_prim": registry["le" if s.label == "between" else "ge"]}
        shape = s.operands[0].shape
        if scatter:
            count = registry["reduce_window_sum"].rule("abstract")
            from calque.core.avals import ShapedArray
            source = count(ShapedArray(shape, np.dtype("f4")), **s.params).shape
            made.append(Sample(s.label, (op(*source), op(*shape, dtype="f8")), p))
        else:
            made.append(Sample(s.label, (op(*shape), op(*shape, dtype="f8")), p))
    return made


row("select_and_gather_add", INEXACT, _selecting(False), linear=(0,))
row("select_and_scatter_add", INEXACT, _selecting(True), linear=(0,), normwise=True)


# ---- reduce_precision: derivatives are those of the identity, rounded
def _bits(e: int, m: int) -> dict[str, int]:
    return {"exponent_bits": e, "mantissa_bits": m}


row("reduce_precision", FLOATS, [Sample(s.label, s.operands, _bits(11, 52)) for s in UNARY],
    linear=(0,), specials=[Sample(f"{e} {m}", (op(values=special),), _bits(e, m))
                           for e, m in ((5, 10), (8, 7), (4, 3), (8, 0), (2, 2), (11, 60))])
