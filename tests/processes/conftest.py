"""Programs of several processes: a pytest command of its own (python -m pytest tests/processes), as
each job fills the cores; a run of all tests does not enter this folder."""
from __future__ import annotations

import importlib.util

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if importlib.util.find_spec("mpi4py") is None:
        for item in items:
            item.add_marker(pytest.mark.skip(reason="mpi4py is missing: pip install mpi4py mpich"))
