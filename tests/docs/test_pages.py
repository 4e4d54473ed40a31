"""The Python blocks of the pages run; a number in a comment behind an expression is its value."""
from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("pages", ROOT / "docs/scripts/pages.py")
assert _spec is not None and _spec.loader is not None
pages = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(pages)


@pytest.mark.parametrize("page", [
    pytest.param(p, marks=[pytest.mark.slow] if p in pages.OWN_PROCESS else [])
    for p in pages.PAGES])
def test_python_blocks_run(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    if page in pages.OWN_PROCESS:
        subprocess.run([sys.executable, ROOT / "docs/scripts/pages.py", page], check=True,
                       capture_output=True)
    else:
        assert pages.run(ROOT / page)


def test_every_page_with_blocks_is_run() -> None:
    """A page of another way says so here."""
    elsewhere = {"docs/add_a_primitive.md"}  # tests/examples/test_add_primitive.py
    found = {str(p.relative_to(ROOT)) for p in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
             if pages.BLOCK.search(p.read_text())}
    assert found - elsewhere == set(pages.PAGES)


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
