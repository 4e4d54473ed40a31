"""The outputs in docs/cli.md are what the commands print."""
import importlib.util
import re
from pathlib import Path

import pytest

from calque.runtime.target import cpu_flags

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def console():
    spec = importlib.util.spec_from_file_location("console", DOCS / "scripts" / "console.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif("avx2" not in cpu_flags(), reason="the pages run code for x86-64-v3")
@pytest.mark.parametrize("name", ["cli.md", "why_slow.md"])
def test_the_page_shows_what_the_commands_print(console, name):
    page = (DOCS / name).read_text()
    assert console._SIZE.sub("", console.rendered(page)) == console._SIZE.sub("", page), (
        f"run `python docs/scripts/console.py docs/{name}`")


def test_every_command_is_on_the_page():
    page = (DOCS / "cli.md").read_text()
    for command in ("compile", "run", "inspect", "dump", "explain", "doctor", "cache", "link",
                    "bench", "verify", "warmup", "run-many", "header", "generate"):
        assert re.search(rf"calque {command}\b", page.replace("\n", " "))


def test_commands_go_on_after_a_backslash(console):
    assert console._commands("$ calque a \\\n  --b\nout\n$ calque c\n") == [
        "calque a \\\n  --b", "calque c"]
