"""Samples of conv_general_dilated (see samples.py)."""
from __future__ import annotations

from typing import Any

from calque.primitives.conv import ConvDimensionNumbers
from support.samples import ANY, Sample, op, row


def layout(lhs: str, rhs: str, out: str) -> ConvDimensionNumbers:
    space = [c for c in rhs if c not in "OI"]
    return ConvDimensionNumbers(*[tuple(spec.index(c) for c in (*first, *space))
                                  for spec, first in ((lhs, "NC"), (rhs, "OI"), (out, "NC"))])


def _conv(label: str, lhs: Any, rhs: Any, strides: Any = None, padding: Any = None,
          holes: Any = None, dilation: Any = None, groups: int = 1, batches: int = 1,
          numbers: Any = None) -> Sample:
    rank = len(lhs) - 2
    axes = tuple(range(rank + 2))
    return Sample(label, (op(*lhs), op(*rhs)), {
        "window_strides": strides or (1,) * rank, "padding": padding or ((0, 0),) * rank,
        "lhs_dilation": holes or (1,) * rank, "rhs_dilation": dilation or (1,) * rank,
        "dimension_numbers": numbers or ConvDimensionNumbers(axes, axes, axes),
        "feature_group_count": groups, "batch_group_count": batches, "precision": None,
        "preferred_element_type": None, "out_sharding": None})


SAME = ((1, 1), (1, 1))
# (sums of up to 60 products that cancel: errors are measured against the largest)
row("conv_general_dilated", ANY, (
    _conv("channels first", (2, 3, 5, 6), (4, 3, 3, 2)),
    _conv("channels last", (2, 5, 6, 3), (3, 3, 3, 4), (2, 1), SAME,
          numbers=layout("NHWC", "HWIO", "NHWC")),
    _conv("odd layout", (5, 2, 6, 3), (3, 4, 2, 3), padding=((1, 0), (-1, 2)),
          numbers=layout("HNWC", "HOWI", "NCWH")),
    _conv("dilated", (2, 3, 4, 6), (4, 3, 3, 2), (2, 3), ((1, 2), (0, -1)), (2, 1), (1, 2)),
    _conv("feature groups", (2, 4, 5, 4), (6, 2, 2, 2), (1, 2), SAME, groups=2),
    _conv("depthwise", (2, 3, 5, 4), (3, 1, 3, 2), (2, 1), SAME, groups=3),
    _conv("batch groups", (4, 3, 4, 4), (4, 3, 2, 2), batches=2),
    _conv("one axis", (2, 3, 9), (4, 3, 4), (2,), ((2, 1),)),
    _conv("three axes", (1, 2, 3, 4, 3), (3, 2, 2, 2, 2)),
    _conv("four axes", (1, 2, 3, 2, 2, 3), (2, 2, 2, 2, 1, 2)),
    _conv("no axis", (2, 3), (4, 3)),
    _conv("one result", (2, 3, 4, 3), (4, 3, 4, 3)),
    _conv("few results", (2, 4, 6, 6), (4, 2, 5, 4), dilation=(1, 1), groups=2),
    _conv("few results of batch groups", (4, 3, 6, 5), (2, 3, 5, 4), batches=2),
    _conv("one", (1, 1, 1), (1, 1, 1)),
    _conv("empty batch", (0, 3, 4), (2, 3, 2)),
    _conv("no feature", (2, 0, 4), (3, 0, 2)),
    _conv("no result", (1, 2, 2), (3, 2, 3))), linear=(0, 1), normwise=True)
