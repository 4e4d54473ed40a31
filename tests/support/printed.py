"""What a tutorial says that its statements print, and whether they do."""
from __future__ import annotations

import ast
import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
    """Whether two texts are equal up to blanks and two units of the last printed digit."""
    if numbers(got)[0] != numbers(said)[0]:
        return False
    for a, b in zip(numbers(got)[1], numbers(said)[1]):
        digits = len(b.split("e")[0].partition(".")[2])
        if abs(float(a) - float(b)) > 2.01 * 10.0 ** -digits:
            return False
    return True


def check(page: Path) -> int:
    """Run a tutorial; the number of statements that print what it says."""
    namespace: dict[str, Any] = {"__name__": "tutorial"}
    checked = 0
    for line, source, said in statements(page):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile("\n" * (line - 1) + source, str(page), "exec", dont_inherit=True),
                 namespace)
        got = out.getvalue().rstrip("\n")
        assert agree(got, said), f"{page.name}:{line}\n{source}\nprints\n{got}\nsays\n{said}"
        checked += bool(said)
    return checked
