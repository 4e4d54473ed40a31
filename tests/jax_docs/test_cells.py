"""What is read from pages of documentation, and how two answers differ: texts of our own."""
from __future__ import annotations

import importlib
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest

OURS = ("cells", "compare")


@pytest.fixture
def docs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Its modules, which lie beside this file and stay out of other tests' way."""
    monkeypatch.syspath_prepend(str(pathlib.Path(__file__).parent))
    yield importlib.import_module
    for name in OURS:
        sys.modules.pop(name, None)


PAGE = """# Title
```{code-cell} ipython3
:tags: [remove-cell]

%matplotlib inline
x = 1
%timeit f(x)
```
Text.
```python
y = 2
```
```python
for only a part
```
```
output
```
>>> is no example here
```python
>>> 1 + 1
2
```
"""


def test_cells_of_pages(docs: Any, tmp_path: pathlib.Path) -> None:
    cells = docs("cells")
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert cells.of_page(page) == ["x = 1\n_ = f(x)", "y = 2", "1 + 1\n"]
    page = tmp_path / "page.rst"
    page.write_text("Title\n=====\n\n.. code-block:: python\n\n   a = 1\n   b = a\n\nText\n\n"
                    ">>> c = 3\n>>> c  # doctest: +SKIP\n3\n")
    assert [c.strip() for c in cells.of_page(page)] == ["a = 1\nb = a", "c = 3"]


def test_names_of_pages(docs: Any, tmp_path: pathlib.Path) -> None:
    cells = docs("cells")
    page = tmp_path / "jax.some.rst"
    page.write_text(".. currentmodule:: jax.some\n\n.. autosummary::\n  :toctree: _a\n\n    sin\n"
                    "    jax.some.cos\n\nText\n\n.. autofunction:: tan\n")
    assert [(n.module, n.name) for n in cells.names(page)] == [
        ("jax.some", "sin"), ("jax.some", "cos"), ("jax.some", "tan")]


@pytest.mark.parametrize("ours, theirs, want", [
    ({"printed": "1.0000001"}, {"printed": "1.0"}, "same"),
    ({"value": "Array([1., 2.])"}, {"value": "Array([1., 2.5])"}, "value"),
    ({"printed": "a\nb"}, {"printed": "b\na"}, "same"),
    ({"printed": "size 3"}, {"printed": "length 3"}, "text"),
    ({"error": "TypeError", "message": ""}, {"printed": "3"}, "error"),
    ({"error": "NameError", "message": ""}, {"printed": "3"}, "after"),
    ({"error": "AttributeError", "message": "module 'calque' has no attribute 'x'"}, {}, "missing"),
    ({}, {"error": "TypeError", "message": ""}, "noraise"),
    ({"error": "TypeError", "message": ""}, {"error": "TypeError", "message": "x"}, "same"),
    ({}, {"error": "ModuleNotFoundError", "message": ""}, "jax"),
    (None, {"printed": "3"}, "crash")])
def test_kinds(docs: Any, ours: Any, theirs: Any, want: str) -> None:
    assert docs("compare").kind("x", ours, theirs, True) == want
