"""The line that a long compile writes on a terminal, and nowhere else."""
from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from typing import Any

import pytest

from calque.core.config import config
from calque.lowering.driver import progress

PROGRAM = """
import calque, calque.numpy as jnp
from calque.lowering.driver import cache, progress
import time
progress.PATIENCE = 0.05
compile = cache.compile_module
cache.compile_module = lambda *args: (time.sleep(0.2), compile(*args))[1]
def train_step(x):
    return x * {number}
calque.jit(train_step)(jnp.ones(3)).block_until_ready()
"""


def on_a_terminal(number: int, **environment: str) -> str:
    """What a program writes to a terminal that is its stderr."""
    here, there = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(number=number)], stderr=there,
        stdout=subprocess.DEVNULL, env={**os.environ, "CALQUE_CACHE": "0", **environment})
    os.close(there)
    found = b""
    while True:
        try:
            part = os.read(here, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        found += part
    os.close(here)
    assert process.wait() == 0, found
    return found.decode()


def test_terminal() -> None:
    said = on_a_terminal(3)
    lines = said.splitlines()
    assert 1 < len(lines) < 8 and all(line.startswith("calque: compil") for line in lines)
    assert "compiling train_step" in lines[0] and "CALQUE_PROGRESS=0" in lines[0]
    assert lines[-1].startswith("calque: compiled train_step, ") and "s in all" in lines[-1]


@pytest.mark.slow
def test_it_can_be_switched_off() -> None:  # (by default: test_short_silent_notebook)
    assert on_a_terminal(4, CALQUE_PROGRESS="0") == ""


def test_pipe() -> None:
    made = subprocess.run([sys.executable, "-c", PROGRAM.format(number=5)], check=True,
                          capture_output=True, env={**os.environ, "CALQUE_CACHE": "0"})
    assert made.stderr == made.stdout == b""


class Screen:
    """A stderr that is seen."""

    def __init__(self, tty: bool = True) -> None:
        self.text, self.tty = "", tty

    def isatty(self) -> bool:
        return self.tty

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass


def test_short_silent_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.02)

    def said(stream: Any, seconds: float) -> str:
        monkeypatch.setattr(sys, "stderr", stream)
        with progress.announced("f"):
            time.sleep(seconds)
        time.sleep(0.06)
        monkeypatch.undo()
        monkeypatch.setattr(progress, "PATIENCE", 0.02)
        return str(stream.text)

    notebook = type("OutStream", (Screen,), {"__module__": "ipykernel.iostream"})
    text = said(Screen(), 0.15)  # at 0.02 s, at 0.08 s, and in the end
    assert text.count("compiling f") == 2 and text.count("CALQUE_PROGRESS") == 1
    assert text.splitlines()[-1] == "calque: compiled f, 0.2 s in all" or "0.1 s" in text
    assert "compiling f" in said(notebook(False), 0.15)
    assert said(Screen(False), 0.08) == ""
    assert said(Screen(), 0.0) == ""  # it was over before
    with config.context("calque_progress", False):
        assert said(Screen(), 0.08) == ""
    monkeypatch.setattr(sys, "stderr", None)
    with progress.announced("f"):
        pass
