"""The C kernel of sparse products (spmm.c) at every level: orders, steps between indices, ranges,
and widths around vectors, against NumPy."""
from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from tests.native.kernels import call
from tests.native.test_products import at_levels


@at_levels
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f32", "f64"])
def test_sums_of_rows(level: str, dtype: Any) -> None:
    rng = np.random.default_rng(3)
    for seed in range(60):
        height, depth, count = (int(n) for n in rng.integers(1, (30, 30, 200)))
        width, groups = int(rng.integers(1, 80)), int(rng.integers(1, 4))
        steps, places = rng.integers(1, 4, 2), rng.integers(0, 2, 2)
        rows, columns = (rng.integers(-2, n + 2, (count, step)).astype(np.int32)
                         for n, step in zip((height, depth), steps))
        places = np.minimum(places, steps - 1)
        r, c = rows[:, places[0]], columns[:, places[1]]
        if seed % 2:
            r.sort()
        weighted, clips, clips_rows = (bool(seed >> k & 1) for k in (1, 2, 3))
        fill = (0.0, np.nan, 1.5)[seed % 3]
        values, dense = (rng.standard_normal(s).astype(dtype) for s in (count, (depth, width)))
        (bits,) = struct.unpack("<i", struct.pack("<f", fill))
        out, = call("spmm", "spmm", dtype, [values, rows, columns, dense],
                    [((height, width), dtype)],
                    [count, height, depth, width, places[0], steps[0], places[1], steps[1],
                     weighted, clips, clips_rows, bits, int(rng.integers(1, 40))], groups, level)
        at = np.clip(c, 0, depth - 1)
        read = np.where(((c == at) | clips)[:, None], dense[at].astype(np.float64), fill)
        to = np.clip(r, 0, height - 1)
        written = (r == to) | clips_rows
        want = np.zeros((height, width))
        np.add.at(want, to[written], (read * (values[:, None] if weighted else 1))[written])
        np.testing.assert_allclose(out, want, rtol=1e-12 if dtype is np.float64 else 1e-4,
                                   atol=1e-12 if dtype is np.float64 else 2e-5)
