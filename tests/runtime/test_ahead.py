"""The compiler's process is started before the first program is lowered, where nothing is cached."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

SCRIPT = """
import calque, calque.numpy as jnp
from calque.lowering.compiler import process
from calque.lowering.driver import module
real, before = module._lower, []
def watched(*args):
    before.append(len(process._servers))
    return real(*args)
module._lower = watched
print(calque.jit(lambda x: x * 3 + 1)(jnp.arange(3.0)), before[0], len(process._servers))
"""


@pytest.mark.parametrize("more", [{}, {"CALQUE_CACHE": "0"}])
def test_nothing_is_cached(run_python: Any, tmp_path: Path, more: dict[str, str]) -> None:
    done = run_python(SCRIPT, CALQUE_CACHE_DIR=str(tmp_path / "cache"), **more)
    assert done.stdout.split() == ["[1.", "4.", "7.]", "1", "1"], done.stderr


def test_what_is_cached_starts_no_process(run_python: Any, tmp_path: Path) -> None:
    for count in ("1 1", "0 0"):
        done = run_python(SCRIPT, CALQUE_CACHE_DIR=str(tmp_path / "cache"))
        assert done.stdout.split(maxsplit=3)[3].strip() == count, done.stderr


def test_inside_there_is_none(run_python: Any, tmp_path: Path) -> None:
    done = run_python(SCRIPT, CALQUE_CACHE_DIR=str(tmp_path / "cache"), CALQUE_COMPILE="inside")
    assert done.stdout.split()[3:] == ["0", "0"], done.stderr
