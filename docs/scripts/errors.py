"""Writes docs/errors.md from the docstrings of the error classes."""
from __future__ import annotations

import inspect
import pathlib

from calque import errors


def page() -> str:
    lines = ["# Errors", "",
             "Made by `python docs/scripts/errors.py` from the classes' docstrings. "
             "Names and bases are JAX's.", ""]
    for name in errors.__all__:
        kind = getattr(errors, name)
        bases = ", ".join(b.__name__ for b in kind.__mro__[1:-2])
        lines += [f"## {name}", "", f"({bases})", "", inspect.getdoc(kind) or "", ""]
    text = "\n".join(lines).replace("::\n", ":\n")
    return text.replace("Example:\n  ", "Example:\n\n    ").replace("\n  >>>", "\n    >>>").replace(
        "\n  True", "\n    True")


if __name__ == "__main__":
    path = pathlib.Path(__file__).parent.parent / "errors.md"
    path.write_text(page())
    print(f"wrote {path}")
