"""Some of the random programs over random meshes (tests/fuzz_devices.py runs any number)."""
from __future__ import annotations

import fuzz_devices
import pytest


@pytest.mark.parametrize("seeds", [
    range(2), *[pytest.param(range(i, i + 6), marks=pytest.mark.slow) for i in range(0, 90, 6)]],
    ids=str)
def test_random_programs(seeds: range) -> None:
    wrong = fuzz_devices.failures(list(seeds))
    assert not wrong, "\n".join(wrong)
