"""Where the native C++ library of calque is installed, for CMake.

    cmake -S . -B build -DCMAKE_PREFIX_PATH=$(python -m calque_native)

It imports nothing of calque; the library needs no Python.
"""
from pathlib import Path


def prefix() -> str:
    """The folder that holds include, lib and lib/cmake/calque."""
    return str(Path(__file__).resolve().parent / "prefix")
