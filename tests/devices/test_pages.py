"""The blocks of docs/many_devices.md run, and say what they say."""
from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np

PAGE = Path(__file__).parents[2] / "docs" / "many_devices.md"
NUMBERS = re.compile(r"#\s*(-?\d+(?:\.\d+)?(?:,\s*-?\d+(?:\.\d+)?)*)\s*$")


def test_python_blocks_run() -> None:
    namespace: dict[str, Any] = {}
    exec("import calque, calque.numpy as jnp", namespace)
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S):
        lines = block.splitlines()
        for node in ast.parse(block).body:
            source = ast.get_source_segment(block, node) or ""
            said = NUMBERS.search(lines[(node.end_lineno or 1) - 1])
            if isinstance(node, ast.Expr) and said:
                got = np.asarray(eval(source, namespace)).reshape(-1)
                np.testing.assert_allclose(got, [float(v) for v in said[1].split(",")])
            else:
                exec(compile(ast.Module([node], []), str(PAGE), "exec"), namespace)
