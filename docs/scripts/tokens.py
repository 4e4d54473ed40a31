"""Counts the tokens of our Python: no comments, no docstrings, no tests.

    python docs/scripts/tokens.py [--folders]

Lines say little where one may join them; tokens say how much there is to read.
"""
from __future__ import annotations

import argparse
import ast
import io
import pathlib
import tokenize
from collections import Counter

ROOT = pathlib.Path(__file__).parents[2]
_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
           tokenize.ENCODING, tokenize.ENDMARKER}


def tokens(source: str) -> int:
    """Tokens of a module without its comments and docstrings."""
    texts = {node.body[0].lineno for node in ast.walk(ast.parse(source))
             if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
             and ast.get_docstring(node, clean=False) is not None}
    return sum(t.type not in _LAYOUT and not (t.type == tokenize.STRING and t.start[0] in texts)
               for t in tokenize.generate_tokens(io.StringIO(source).readline))


def by_folder() -> Counter[str]:
    """Tokens of each folder of the package (links to folders are not followed)."""
    found: Counter[str] = Counter()
    for top in ("frontend", "lowering", "runtime"):
        for path in (ROOT / top).rglob("*.py"):
            if not path.is_relative_to(ROOT / "runtime" / "cpp"):
                folder = path.relative_to(ROOT).parent.as_posix().removeprefix("frontend/")
                found[folder] += tokens(path.read_text("utf-8"))
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folders", action="store_true", help="a line for each folder")
    counted = by_folder()
    if parser.parse_args().folders:
        for name, number in sorted(counted.items()):
            print(f"{number:8} {name}")
    print(sum(counted.values()))
