"""Examples in docstrings of the package's modules, also of names that are not public."""
from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from calque.runtime import serving

MODULES = [m.name for m in pkgutil.iter_modules(serving.__path__) if m.name != "__main__"]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    module = importlib.import_module(f"calque.runtime.serving.{name}")
    assert doctest.testmod(module, optionflags=doctest.ELLIPSIS).failed == 0
