"""The compiler's process is started before a program is lowered, where nothing is cached; what it
has compiled once it hands out again, for products of other sizes."""
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


def test_products_of_other_sizes_are_compiled_once(run_python: Any, tmp_path: Path) -> None:
    """By the stages that IREE's answers name; values by NumPy's."""
    done = run_python("""
import numpy as np
import calque
from calque.core import monitoring
stages = []
old = monitoring.past
monitoring.past = lambda name, *rest: (stages.append(name), old(name, *rest))[1]
f = calque.jit(lambda x, y: x @ y)
for n in (200, 210, 222, 256, 301):
    x, y = np.random.default_rng(n).normal(size=(2, n, n)).astype(np.float32)
    np.testing.assert_allclose(f(x, y), x.astype(np.float64) @ y.astype(np.float64), atol=1e-3)
    print(stages.count("executable-targets"), end=" ")
""", CALQUE_CACHE_DIR=str(tmp_path / "cache"))
    counts = list(map(int, done.stdout.split()))
    assert len(counts) == 5 and counts[-1] <= 2, (counts, done.stderr)  # (packed ones are another)
