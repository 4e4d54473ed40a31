"""Runs the commands shown in a page of docs and writes what they print below them.

A page holds files, in blocks ```python model.py, and ```console blocks: each line `$ calque ...` is
run in an empty folder with those files, and the lines below it are replaced by its output.
`python docs/scripts/console.py docs/cli.md` rewrites the page; `--check` only compares (exit code 1
where they differ; tests/cli/test_docs.py does it).  Commands run in this process.
"""
from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from calque_cli import app
from typer.testing import CliRunner

_SIZE = re.compile(r"\([\d.]+ [KM]?i?B\)")  # of artifacts: a byte more does not age a page
_BLOCK = re.compile(r"^```(?P<kind>python|console)(?: (?P<name>\S+))?\n(?P<body>.*?)^```\n",
                    re.MULTILINE | re.DOTALL)


@contextlib.contextmanager
def _folder(files: dict[str, str]) -> Iterator[None]:
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            Path(folder, name).write_text(text)
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def output_of(command: str) -> str:
    """What `calque ...` prints, stderr included, and its exit code where it is not 0."""
    words = shlex.split(command.replace("\\\n", " "))
    if words[0] != "calque":
        raise SystemExit(f"console.py runs calque only, not {command!r}")
    result = CliRunner().invoke(app, words[1:])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    text = result.output.rstrip("\n").replace(os.getcwd() + os.sep, "")
    if result.exit_code:
        text += f"\n(exit code {result.exit_code})"
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def _commands(body: str) -> list[str]:
    """The `$ ` lines of a block; a line that ends in a backslash goes on."""
    joined = body.replace("\\\n", "\\\n\0")
    lines = joined.split("\n")
    commands: list[str] = []
    for line in lines:
        if line.startswith("\0") and commands:
            commands[-1] += "\n" + line[1:]
        elif line.startswith("$ "):
            commands.append(line[2:])
    return commands


def rendered(page: str) -> str:
    """The page with the outputs as they are now."""
    files = {m["name"]: m["body"] for m in _BLOCK.finditer(page)
             if m["kind"] == "python" and m["name"]}

    def block(found: re.Match[str]) -> str:
        if found["kind"] != "console":
            return found[0]
        body = "".join(f"$ {c}\n{output_of(c)}" for c in _commands(found["body"]))
        return f"```console\n{body}```\n"

    with _folder(files):
        return _BLOCK.sub(block, page)


def main() -> None:
    check = "--check" in sys.argv
    stale = []
    for path in [Path(a) for a in sys.argv[1:] if a != "--check"]:
        old = path.read_text()
        new = rendered(old)
        if _SIZE.sub("", new) != _SIZE.sub("", old):
            stale.append(str(path))
            if not check:
                path.write_text(new)
    if check and stale:
        raise SystemExit(f"out of date: {', '.join(stale)}; run docs/scripts/console.py")


if __name__ == "__main__":
    main()
