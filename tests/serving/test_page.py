"""The files and commands of docs/serving.md, one after another."""
from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"
FILES = re.compile(r"^```python (\S+)\n(.*?)^```$", re.M | re.S)
COMMANDS = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)


def matches(wanted: str, got: str) -> bool:
    """Whether a text is the page's, where ... is any text of a line."""
    return re.fullmatch(re.escape(wanted).replace(r"\.\.\.", ".*"), got) is not None


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page's commands take curl")
def test_the_page(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    text = PAGE.read_text("utf-8").replace("8000", port)
    for name, body in FILES.findall(text):
        (tmp_path / name).write_text(body)
    (tmp_path / "calque").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m calque "$@"\n')
    (tmp_path / "calque").chmod(0o755)
    paths = f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    server: subprocess.Popen[str] | None = None
    try:
        for block in COMMANDS.findall(text):
            for part in block.split("$ ")[1:]:
                command, _, wanted = part.partition("\n")
                started = subprocess.Popen(["bash", "-c", f"exec {command}" if "serve" in command
                                            else command], stdout=subprocess.PIPE, text=True,
                                           cwd=tmp_path, env={**os.environ, "PATH": paths})
                assert started.stdout is not None
                if command.startswith("calque serve"):
                    server = started
                    got = "".join(started.stdout.readline() for _ in wanted.splitlines())
                else:
                    got = started.communicate(timeout=120)[0]
                assert matches(wanted.rstrip("\n"), got.rstrip("\n")), (command, got)
    finally:
        if server is not None:
            server.terminate()
            server.communicate(timeout=60)
    assert server is not None and server.returncode == 0
