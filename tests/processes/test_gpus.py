"""A GPU for each of two processes (lavapipe here): messages go through the host's memory."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from gpus import PROGRAM
from jobs import HEAD, TESTS, by_hand
from test_programs import GRID

pytestmark = pytest.mark.vulkan
GPU = {"JAX_PLATFORMS": os.environ.get("CALQUE_TEST_GPU", "vulkan"), "TESTS": TESTS}


def test_arrays_programs_and_training() -> None:
    for done in by_hand(PROGRAM, 2, **GPU):
        assert (done.code, "all is well" in done.out) == (0, True), done.out


def test_collectives() -> None:
    contexts = """
    CONTEXTS = [("pmap", "float32"), ("checked", "int32"), ("unchecked", "float32")]
"""
    for done in by_hand(contexts + GRID, 2, **GPU):
        assert done.code == 0, done.out


def test_numbers_of_gpus_that_are_not_there() -> None:
    body = f"""
    fails(RuntimeError, lambda: jax.devices(), "local_device_ids",
          "has one {GPU['JAX_PLATFORMS']} device")
"""
    for given in ("[7]", "[0, 1]"):
        for done in by_hand(body, 2, HEAD.replace("rank,\n", f"rank, {given},\n", 1), **GPU):
            assert done.code == 0, done.out


def test_what_is_carried_to_a_card(tmp_path: Path) -> None:
    """Compiled here, looked up there: the programs of both processes, on lavapipe."""
    folder = tmp_path / "carried"
    subprocess.run([sys.executable, f"{TESTS}/carry_processes.py", str(folder), "--target",
                    "vulkan:lavapipe"], check=True, capture_output=True, timeout=120)
    ran = subprocess.run([str(Path(sys.executable).parent / "mpiexec"), "-n", "2", sys.executable,
                          str(folder / "run.py"), "--platform", "vulkan"], capture_output=True,
                         text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout.count("all is well")) == (0, 2), ran.stdout + ran.stderr
