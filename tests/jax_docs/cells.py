"""What JAX's documentation has to type: the cells of its pages, the examples of its docstrings.

`of_page` reads Markdown (code-cell and python fences), notebooks and reStructuredText (>>>,
code-block); `of_docstring` reads examples.  A cell is a text of Python; magics are dropped.
"""
from __future__ import annotations

import doctest
import json
import pathlib
import re
from collections.abc import Iterator
from typing import NamedTuple

_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<kind>[^`]*)$")
_CODE = re.compile(r"\{code-cell\}.*|\{testcode\}|python|py|ipython3?")
_SINGLE = re.compile(
    r" *\.\. auto(?:function|class|data|exception|attribute|method):: *([\w.]+)")
_BLOCK = re.compile(r"\.\. (?:code-block:: *python|testcode::)[^\n]*\n")
_OPTION = re.compile(r"^ *:[\w-]+:.*$|^---$")
_MAGIC = re.compile(r"^( *)(%timeit(?: -\S+ \d+)*|%time)\s+(.*)$")


class Name(NamedTuple):
    """A documented name: where the page says it is, and the page."""
    module: str
    name: str
    page: str


def of_page(path: pathlib.Path) -> list[str]:
    """The cells of a page, in their order."""
    text = path.read_text(errors="replace")
    if path.suffix == ".ipynb":
        cells = ["".join(c["source"]) for c in json.loads(text)["cells"]
                 if c["cell_type"] == "code"]
    elif path.suffix == ".md":
        cells = list(_fenced(text))
    else:
        cells = list(_of_rst(text))
    return [c for c in map(_without_magics, cells) if c.strip()]


def of_docstring(text: str) -> list[str]:
    """The examples of a docstring; those to be skipped are left out."""
    try:
        found = doctest.DocTestParser().get_examples(text or "")
    except ValueError:
        return []
    return [e.source for e in found if doctest.SKIP not in e.options]


def names(page: pathlib.Path) -> Iterator[Name]:
    """What a page of the API lists: summaries, functions and classes."""
    module = page.stem
    listing: int | None = None
    for line in page.read_text().splitlines():
        stated = re.match(r" *\.\. (?:currentmodule|module|automodule):: *(\S+)", line)
        if stated:
            module, listing = stated[1], None
            continue
        single = _SINGLE.match(line)
        if single:
            yield Name(module, single[1].removeprefix(module + "."), page.stem)
            listing = None
            continue
        if re.match(r" *\.\. autosummary::", line):
            listing = len(line) - len(line.lstrip())
            continue
        if listing is None or not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        if indent <= listing:
            listing = None
        elif not line.strip().startswith(":"):
            yield Name(module, line.strip().lstrip("~").removeprefix(module + "."), page.stem)


def _fenced(text: str) -> Iterator[str]:
    lines = iter(text.splitlines())
    for line in lines:
        opening = _FENCE.match(line)
        if not opening:
            continue
        body = []
        for inner in lines:
            if inner.strip() == opening["ticks"]:
                break
            body.append(inner[len(opening["indent"]):])
        kind = opening["kind"].strip()
        if _CODE.fullmatch(kind):
            yield from _of_fence(kind, body)


def _of_fence(kind: str, body: list[str]) -> Iterator[str]:
    while body and kind.startswith("{") and (_OPTION.match(body[0]) or not body[0].strip()):
        del body[0]
    text = "\n".join(body)
    if re.search(r"^ *>>> ", text, re.M):
        yield from of_docstring(text)
    elif kind.startswith("{"):
        yield text
    else:  # (a fence of Python may be a part of a function, or no program at all)
        try:
            compile(_without_magics(text), "cell", "exec")
        except SyntaxError:
            return
        yield text


def _of_rst(text: str) -> Iterator[str]:
    blocks = re.split(r"^(?=\S)", text, flags=re.M)
    for block in blocks:
        if re.search(r"^ *>>> ", block, re.M):
            yield from of_docstring(block)
            continue
        code = _BLOCK.match(block)
        if code:
            lines = [line for line in block[code.end():].split("\n") if not _OPTION.match(line)]
            indent = min((len(x) - len(x.lstrip()) for x in lines if x.strip()), default=0)
            body = "\n".join(x[indent:] for x in lines)
            try:
                compile(body, "cell", "exec")
            except SyntaxError:
                continue
            yield body


def _without_magics(cell: str) -> str:
    """IPython's own lines go; what they time is run."""
    lines = []
    for line in cell.split("\n"):
        timed = _MAGIC.match(line)
        if timed:
            lines.append(f"{timed[1]}_ = {timed[3]}" if "=" not in timed[3].split("(")[0]
                         else timed[1] + timed[3])
        elif not line.lstrip().startswith(("%", "!")):
            lines.append(line)
        elif line[0] == " ":  # (it may be all that a block holds)
            lines.append(line[:len(line) - len(line.lstrip())] + "pass")
    return "\n".join(lines)
