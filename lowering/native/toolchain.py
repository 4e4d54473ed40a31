"""The C compilers of this machine: for which architecture, with which of our flags.

What they make is linked into programs by IREE, whose CPU programs are ELF on every system: so
objects are ELF as well, also those that are made on macOS and Windows.  The package ziglang stands
in where no compiler is installed.  It imports the standard library only: the package's build
(build.py) loads it by its path.  Start reading at `compiler_for`.
"""
from __future__ import annotations

import functools
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent


def machine() -> str:
    """This machine's architecture, as Linux names it."""
    return {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())


def choices_for(arch: str) -> list[list[str]]:
    """Commands that may compile C to ELF objects of an architecture, the best first."""
    choices = [[f"{arch}-linux-gnu-gcc"], ["clang", f"--target={arch}-linux-gnu"],
               [sys.executable, "-m", "ziglang", "cc", "-target", f"{arch}-linux-gnu", "-g0"]]
    if arch != machine() or sys.platform != "linux":
        return choices
    named = shlex.split(os.environ.get("CC", ""))  # (CC may hold several words: ccache gcc)
    return [named] if named else [["cc"], ["gcc"], ["clang"], choices[-1]]


def compiler_for(arch: str) -> list[str]:
    """The command that compiles C for an architecture; [] where there is none."""
    for choice in choices_for(arch):
        if "ziglang" in choice:
            if importlib.util.find_spec("ziglang") is not None:
                return choice
        elif shutil.which(choice[0]):
            return choice
    return []


def flags_for(compiler: Sequence[str], more: Sequence[str]) -> list[str]:
    """FLAGS and more, those of them that a compiler takes (clang does not know all of gcc's)."""
    flags = [*(HERE / "FLAGS").read_text("utf-8").split(), *more]
    if "ziglang" in compiler:  # its words for CPUs
        flags = ["-mcpu=" + flag[7:].replace("armv8-a", "generic").replace("-", "_")
                 if flag.startswith("-march=") else flag for flag in flags]
    return list(_taken(tuple(compiler), tuple(flags)))


@functools.cache
def _taken(compiler: tuple[str, ...], flags: tuple[str, ...]) -> tuple[str, ...]:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "empty.c")
        source.write_text("typedef int some;\n", "utf-8")

        def takes(*some: str) -> bool:  # (warnings count for nothing: clang's of one that it obeys)
            done = subprocess.run(
                [*compiler, *some, "-c", str(source), "-o", str(source) + ".o"],
                capture_output=True, check=False)
            return done.returncode == 0
        return flags if takes(*flags) else tuple(flag for flag in flags if takes(flag))
