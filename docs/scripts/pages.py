"""Runs the Python blocks of pages: python docs/scripts/pages.py README.md docs/sharp_edges.md.

The blocks of a page are one program, which imports what it uses; a number in a comment behind an
expression is its value.
"""
from __future__ import annotations

import ast
import contextlib
import importlib.util
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/custom_rules.md", "docs/transformations.md", "docs/eager.md",
         "docs/sharp_edges.md", "docs/coming_from_jax.md", "docs/coming_from_numpy.md",
         "docs/export.md", "docs/pallas.md", "docs/profiling.md", "docs/sparse.md",
         "docs/dynamic_shapes.md", "docs/your_jax_code_here.md", "docs/callbacks.md",
         "docs/checks.md", "docs/jit.md", "docs/references.md", "docs/typing.md", "docs/index.md",
         "docs/quickstart.md", "docs/tutorials/arrays.md", "docs/tutorials/gradients.md",
         "docs/tutorials/jit.md", "docs/tutorials/network.md", "docs/mixing.md", "docs/gpu.md",
         "docs/save_and_load.md", "docs/many_devices.md", "docs/cli.md", "docs/processes.md")
# packages of extras, which a bare environment lacks
NEEDS = {"docs/save_and_load.md": "tensorstore", "docs/processes.md": "tensorstore"}
OWN_PROCESS = ("docs/many_devices.md",)  # says how many devices there are before any is used
BLOCK = re.compile(r"```python\n(.*?)```", re.S)
NUMBERS = re.compile(r"#\s*(-?\d+(?:\.\d+)?(?:,\s*-?\d+(?:\.\d+)?)*)\s*$")


def run(page: Path) -> int:
    """Run a page in an empty folder; how many blocks it has."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return _run(page)


def _run(page: Path) -> int:
    namespace: dict[str, Any] = {}
    blocks = BLOCK.findall(page.read_text("utf-8"))
    for block in blocks:
        lines = block.splitlines()
        for node in ast.parse(block).body:
            source = ast.get_source_segment(block, node) or ""
            said = NUMBERS.search(lines[(node.end_lineno or 1) - 1])
            if isinstance(node, ast.Expr) and said:
                got = np.asarray(eval(source, namespace))
                want = [float(x) for x in said[1].split(",")]
                np.testing.assert_allclose(got.reshape(-1), want, rtol=1e-3, atol=1e-3)
            else:
                with np.errstate(all="ignore"):
                    exec(compile(ast.Module([node], []), str(page), "exec"), namespace)
    return len(blocks)


if __name__ == "__main__":
    for name in sys.argv[1:] or [p for p in PAGES if p not in OWN_PROCESS]:
        if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
            print(f"{name}: left out, as {NEEDS[name]} is not installed", file=sys.stderr)
            continue
        print(f"{name}: {run(ROOT / name)} blocks", file=sys.stderr)
