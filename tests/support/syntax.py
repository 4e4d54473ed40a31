"""Source files as trees, each parsed once in a process, for tests that look at all of them."""
from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """A node and every statement in it: a tenth of all nodes, and the others are seldom wanted."""
    yield node
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        inner = getattr(node, field, ())
        for child in inner if isinstance(inner, list) else ():
            yield from statements(child)
