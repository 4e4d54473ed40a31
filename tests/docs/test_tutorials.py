"""The tutorials run from top to bottom and print what they say.

Numbers may differ by two units of the last printed digit (the tutorials' numbers come from other
machines), everything else to the letter, up to blanks.
"""
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.printed import check

import calque

PAGES = sorted((Path(__file__).parents[2] / "docs" / "tutorials").glob("*.py"))


@pytest.fixture
def settings() -> Iterator[None]:
    yield
    calque.config.update("jax_enable_x64", False)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_tutorial(page: Path, settings: None) -> None:
    with np.errstate(all="ignore"):
        assert check(page) >= 10
