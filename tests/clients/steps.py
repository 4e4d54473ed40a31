"""Runs a program statement by statement: what one raises is printed, and the next one runs.

    python -m calque.compat tests/clients/steps.py PROGRAM.py     (or plain Python, with jax)

So that a program whose third result fails still shows the others; so do the rounds of a loop over a
tuple that is written out.  tests/clients/compare.py reads it.
"""
from __future__ import annotations

import ast
import sys


def _single(body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements, loops over tuples being taken apart."""
    found: list[ast.stmt] = []
    for node in body:
        if isinstance(node, ast.For) and isinstance(node.iter, ast.Tuple):
            for value in node.iter.elts:
                one = ast.For(node.target, ast.Tuple([value], ast.Load()), node.body, [])
                found.append(ast.fix_missing_locations(ast.copy_location(one, value)))
        else:
            found.append(node)
    return found


def run(path: str) -> None:
    with open(path) as file:
        source = file.read()
    scope = {"__name__": "__main__", "__file__": path}
    for node in _single(ast.parse(source).body):
        try:
            exec(compile(ast.Module([node], []), path, "exec"), scope)
        except Exception as error:
            first = (str(error).splitlines() or [""])[0]
            print(f"FAILED line {node.lineno}: {type(error).__name__}: {first[:200]}")


if __name__ == "__main__":
    run(sys.argv[1])
