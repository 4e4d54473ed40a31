"""`calque run-many`: a program in several processes on this machine, by mpiexec."""
from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from calque_cli.report import UsageError

# a pipe's output would come in blocks, and unbuffered in parts of lines
_BY_LINES = """import runpy, os, sys
sys.stdout.reconfigure(line_buffering=True, write_through=False)
sys.argv = sys.argv[1:]
sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")"""


def run_many(count: int, program: Path, arguments: Sequence[str], label: bool) -> NoReturn:
    """Become mpiexec, so that Ctrl-C and exit codes are its own; output comes line by line."""
    if not program.is_file():
        raise UsageError(f"there is no program {program}.", "give a Python file.")
    command = [_mpiexec(), *(["-l"] if label else []), "-n", str(count), sys.executable,
               "-c", _BY_LINES, str(program), *arguments]
    os.execv(command[0], command)


def _mpiexec() -> str:
    """The mpiexec of this environment's wheel, else the one on the path."""
    if importlib.util.find_spec("mpi4py") is not None:
        for found in (Path(sys.executable).parent / "mpiexec", shutil.which("mpiexec")):
            if found is not None and os.access(found, os.X_OK):
                return str(found)
    raise UsageError("programs of several processes take mpi4py and MPI's mpiexec.",
                     "pip install 'calque[distributed]' (mpi4py and mpich).")
