"""What conv_general_dilated means: a sum for each result element, by loops over positions."""
from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from support.oracle import oracle, wide

Array = np.ndarray[Any, Any]


@oracle("conv_general_dilated")
def _conv(p: Any, x: Array, y: Array) -> Any:
    dn, fgroups = p["dimension_numbers"], p["feature_group_count"]
    bgroups, preferred = p["batch_group_count"], p["preferred_element_type"]
    truth = x.dtype.kind == "b"
    x, y = wide(x), wide(y)
    if x.dtype.kind in "biu" and not truth:  # as the sum wraps
        x, y = x.astype(preferred or x.dtype), y.astype(preferred or y.dtype)
    elif truth:
        x, y = x.astype(int), y.astype(int)
    lhs, rhs = np.transpose(x, dn.lhs_spec), np.transpose(y, dn.rhs_spec)
    n, c, *size = lhs.shape
    o, i, *taps = rhs.shape
    counts = []
    for m, k, s, (low, high), ld, rd in zip(size, taps, p["window_strides"], p["padding"],
                                            p["lhs_dilation"], p["rhs_dilation"]):
        room = (max(0, (m - 1) * ld + 1) if m else 0) + low + high - ((k - 1) * rd + 1)
        counts.append(0 if room < 0 else room // s + 1)
    out = np.zeros((n // bgroups, o, *counts), np.result_type(lhs, rhs))
    for at in itertools.product(*map(range, counts)):
        for tap in itertools.product(*map(range, taps)):
            place = [a * s + t * rd - low for a, s, t, rd, (low, _) in zip(
                at, p["window_strides"], tap, p["rhs_dilation"], p["padding"])]
            if not all(q % ld == 0 and 0 <= q // ld < m
                       for q, ld, m in zip(place, p["lhs_dilation"], size)):
                continue
            seen = lhs[(slice(None), slice(None),
                        *[q // ld for q, ld in zip(place, p["lhs_dilation"])])]
            kernel = rhs[(slice(None), slice(None), *tap)]
            for g in range(max(fgroups, bgroups)):
                mine = slice(g * o // max(fgroups, bgroups), (g + 1) * o // max(fgroups, bgroups))
                part = seen[:, g * i:(g + 1) * i] if fgroups > 1 else seen
                if bgroups > 1:
                    part = seen[g * n // bgroups:(g + 1) * n // bgroups]
                out[(slice(None), mine, *at)] += part @ kernel[mine].T
    out = out != 0 if truth else out
    return np.transpose(out, np.argsort(dn.out_spec))
