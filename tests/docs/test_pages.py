"""The Python blocks of the pages run; a number in a comment behind an expression is its value."""
from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/custom_rules.md", "docs/transformations.md", "docs/eager.md",
         "docs/sharp_edges.md", "docs/coming_from_jax.md", "docs/coming_from_numpy.md",
         "docs/export.md", "docs/pallas.md", "docs/profiling.md", "docs/sparse.md",
         "docs/dynamic_shapes.md", "docs/your_jax_code_here.md")
BLOCK = re.compile(r"```python\n(.*?)```", re.S)
NUMBERS = re.compile(r"#\s*(-?\d+(?:\.\d+)?(?:,\s*-?\d+(?:\.\d+)?)*)\s*$")


@pytest.mark.parametrize("page", PAGES)
def test_python_blocks_run(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    namespace: dict[str, Any] = {}
    exec("import calque, calque.numpy as jnp", namespace)
    for block in BLOCK.findall((ROOT / page).read_text()):
        lines = block.splitlines()
        for node in ast.parse(block).body:
            source = ast.get_source_segment(block, node) or ""
            said = NUMBERS.search(lines[(node.end_lineno or 1) - 1])
            if isinstance(node, ast.Expr) and said:
                got = np.asarray(eval(source, namespace))
                want = [float(x) for x in said[1].split(",")]
                np.testing.assert_allclose(got.reshape(-1), want, rtol=1e-3, atol=1e-3)
            else:
                with np.errstate(all="ignore"):
                    exec(compile(ast.Module([node], []), page, "exec"), namespace)


def test_pages_of_the_public_names_are_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs" / "scripts")
    import api
    wrong = [file for file, text in api.pages().items()
             if not (api.FOLDER / file).exists() or (api.FOLDER / file).read_text() != text]
    assert not wrong, f"run python docs/scripts/api.py: {wrong}"


def test_page_of_jax_names_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs" / "scripts")
    import jax_names
    assert jax_names.PAGE.read_text() == jax_names.page(), "run python docs/scripts/jax_names.py"
