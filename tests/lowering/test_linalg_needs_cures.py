"""What IREE cannot do yet and primitives/linalg_programs works around: fails when it can."""
from __future__ import annotations

import numpy as np
import pytest

import calque
from calque.lowering.compile import CompileError
from calque.primitives import linalg_programs
from calque.transforms.stage import replay


@pytest.mark.slow
def test_lu_by_halves_of_large_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linalg_programs, "HALVED", 10**9)
    from calque.core.avals import ShapedArray
    made = linalg_programs.program.__wrapped__(
        "lu", (ShapedArray((384, 384), np.dtype("f4")),), (2,), ())
    x = np.random.default_rng(0).standard_normal((384, 384)).astype("f4")
    with pytest.raises(CompileError, match="large vector sizes"):
        calque.jit(lambda x: replay(made, x))(x)
