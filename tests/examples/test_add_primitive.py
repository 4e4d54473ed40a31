"""docs/add_a_primitive.md, applied to a copy of the sources: what it says suffices, and no less."""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"In `([^`]+)`, below `([^\n]+)`:\n```python\n(.*?)```", re.S)
SOURCES = ("*.py", "*.pyc", "*.pyi", "*.json", "FLAGS", "LEVELS", "*.o")

MISSING = """
import sys
sys.path.insert(0, "tests")
from calque.core.primitive import registry
sys.path.insert(0, "tests/lowering")
from test_completeness import missing
print(missing(registry["softsign"]))
"""

USE = """
import numpy as np
import calque, calque.numpy as jnp
from calque import lax
x = np.float32([-3, -0.5, 0, 2, np.inf])
want = np.float32([-0.75, -1 / 3, 0, 2 / 3, 1])
np.testing.assert_allclose(lax.softsign(x), want, rtol=1e-6)           # 1.2e-7 is an ulp
np.testing.assert_allclose(calque.jit(lax.softsign)(x), want, rtol=1e-6)
slope = calque.vmap(calque.grad(lax.softsign))(x[:4])
np.testing.assert_allclose(slope, 1 / (1 + np.abs(x[:4])) ** 2, rtol=1e-6)
def steps(c, _):
    return lax.softsign(c) + 1, ()
c = np.float32([0.25, 1])
got = calque.jit(lambda c: lax.scan(steps, c, length=300)[0])(c)
np.testing.assert_allclose(got, np.float32([1 + 0.618034] * 2), rtol=1e-5)  # c = c / (1 + c) + 1
assert "divide" in calque.export.export(calque.jit(lax.softsign))(x).mlir_module()
"""


def changed(folder: Path, leave_out: tuple[str, ...] = ()) -> Path:
    """A copy of the sources with the page's blocks, but for those of some files."""
    for top in ("lowering", "runtime", "frontend", "tests"):
        for path in (ROOT / top).rglob("*"):
            if path.is_file() and any(path.match(p) for p in SOURCES):
                target = folder / path.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target)  # with its time: what is unchanged is not compiled anew
    for name in ("lowering", "runtime"):
        (folder / "frontend" / "calque" / name).symlink_to(f"../../{name}")
    blocks = BLOCK.findall((ROOT / "docs" / "add_a_primitive.md").read_text())
    assert len(blocks) == 8
    for file, anchor, code in blocks:
        if file in leave_out:
            continue
        path = folder / file
        lines = path.read_text().splitlines(keepends=True)
        (at,) = (i for i, line in enumerate(lines) if line.strip().startswith(anchor)
                 or line.rstrip().endswith(anchor))
        path.write_text("".join([*lines[:at + 1], code, *lines[at + 1:]]))
    return folder


def run(folder: Path, code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(folder / "frontend"), "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_page_suffices(tmp_path: Path) -> None:
    folder = changed(tmp_path)
    assert run(folder, USE + MISSING) == "[]\n"


@pytest.mark.parametrize("left_out, said", [
    (("lowering/math/table.py", "frontend/calque/core/weights.py", "tests/support/samples.py",
      "tests/support/oracle.py"),
     ["lowering rule (lowering/rules)", "weight (python benchmarks/weights.py --write)",
      "portable form (calque/export/forms.py)", "samples (tests/support/samples.py)",
      "oracle (tests/support/oracle.py)"])])
def test_what_is_left_out_is_missed(left_out: tuple[str, ...], said: list[str],
                                    tmp_path: Path) -> None:
    assert run(changed(tmp_path, left_out), MISSING) == f"{said}\n"
