"""Some of the random compositions (tests/fuzz_compose.py runs any number)."""
from __future__ import annotations

import fuzz_compose
import pytest


@pytest.mark.parametrize("seeds", [
    range(12), *[pytest.param(range(i, i + 80), marks=pytest.mark.slow)
                 for i in range(1000, 1800, 80)]], ids=str)
def test_random_compositions(seeds: range) -> None:
    wrong = [f for f in fuzz_compose.failures(seeds) if not f["known"]]
    assert not wrong, "\n".join(map(fuzz_compose.show, wrong))
