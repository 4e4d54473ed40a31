"""What tests/carry.py compiles is run and checked by its run.py."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

pytestmark = pytest.mark.slow
CARRY = Path(__file__).parents[1] / "carry.py"


def carried(folder: Path, target: str, primitives: str, *options: str) -> tuple[int, str]:
    """The exit status of run.py and what it prints."""
    subprocess.run([sys.executable, CARRY, folder, "--target", target, "--only", primitives],
                   check=True, capture_output=True, text=True)
    # without .pth files (-S), by which the checkout would be found: with what FOLDER holds alone
    packages = {str(Path(m.__file__).parents[1]) for m in (ml_dtypes, np)}
    done = subprocess.run([sys.executable, "-S", folder / "run.py", "--no-times", *options],
                          text=True, capture_output=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(packages)})
    return done.returncode, done.stdout + done.stderr


def test_a_suite_is_carried(tmp_path: Path) -> None:
    status, said = carried(tmp_path, "cpu", "add,eig")
    assert status == 0 and "105 samples: 105 right, 0 refused" in said, said


def test_what_fails_and_what_is_refused_is_said(tmp_path: Path) -> None:
    """The samples of size 0 compile, for a device that is not here."""
    status, said = carried(tmp_path, "cuda:sm_80", "schur", "--device", "cpu")
    assert status == 1 and "schur: no form of it for cuda:sm_80" in said and "2 failed" in said
