"""The tutorials run from top to bottom and print what they say.

Numbers may differ by two units of the last printed digit (the tutorials' numbers come from other
machines), everything else to the letter, up to blanks.
"""
from __future__ import annotations

import ast
import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calque

PAGES = sorted((Path(__file__).parents[2] / "docs" / "tutorials").glob("*.py"))
NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d*(?:e[-+]?\d+)?")


def statements(page: Path) -> Iterator[tuple[int, str, str]]:
    """(line, source, what it says that it prints) of every statement."""
    text = page.read_text()
    lines = text.splitlines()
    for node in ast.parse(text).body:
        end = node.end_lineno or node.lineno
        said = []
        for line in lines[end:]:
            if not line.startswith("#>"):
                break
            said.append(line[3:])
        start = min([node.lineno, *[d.lineno for d in getattr(node, "decorator_list", [])]])
        yield start, "\n".join(lines[start - 1:end]), "\n".join(said)


def numbers(text: str) -> tuple[str, list[str]]:
    """The text without decimals, and the decimals."""
    plain = " ".join(NUMBER.sub("#", text).split())
    return plain.replace("[ ", "[").replace(" ]", "]"), NUMBER.findall(text)


def agree(got: str, said: str) -> bool:
    if numbers(got)[0] != numbers(said)[0]:
        return False
    for a, b in zip(numbers(got)[1], numbers(said)[1]):
        digits = len(b.split("e")[0].partition(".")[2])
        if abs(float(a) - float(b)) > 2.01 * 10.0 ** -digits:
            return False
    return True


@pytest.fixture
def settings() -> Iterator[None]:
    yield
    calque.config.update("jax_enable_x64", False)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_tutorial(page: Path, settings: None) -> None:
    namespace: dict[str, Any] = {"__name__": "tutorial"}
    checked = 0
    with np.errstate(all="ignore"):
        for line, source, said in statements(page):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile("\n" * (line - 1) + source, str(page), "exec"), namespace)
            got = printed.getvalue().rstrip("\n")
            assert agree(got, said), f"{page.name}:{line}\n{source}\nprints\n{got}\nsays\n{said}"
            checked += bool(said)
    assert checked >= 10
