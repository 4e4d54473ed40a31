"""Builds the C kernels while the package is built: objects for each level of each architecture.

Named as setuptools' build_py in pyproject.toml; CMakeLists.txt builds the same files from the same
lists (FLAGS, LEVELS, OVERRIDES).  What cannot be compiled here is left out and said: the package
then takes its portable forms (`calque doctor`).  Imports the standard library and setuptools only.
Start reading at `build_objects`.
"""
from __future__ import annotations

import concurrent.futures
import os
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools.command.build_py import build_py

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

HERE = Path(__file__).resolve().parent


def compiler_for(arch: str) -> list[str]:
    """The command that compiles C for an architecture; [] where there is none."""
    machine = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    if arch == machine:
        named = os.environ.get("CC", "")
        if named:
            return shlex.split(named)
        for name in ("cc", "gcc", "clang"):
            if shutil.which(name):
                return [name]
        return []
    for name in (f"{arch}-linux-gnu-gcc",):
        if shutil.which(name):
            return [name]
    return ["clang", f"--target={arch}-linux-gnu"] if shutil.which("clang") else []


def build_objects(out: Path) -> list[str]:
    """Compile every source for every level into out/<level>/; what was left out and why.

    Objects newer than everything they are made of are kept.  Builds that meet wait for one another.
    """
    with (HERE / "FLAGS").open(encoding="utf-8") as lock:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)
        return _build(out, lock.read().split())


def _build(out: Path, flags: list[str]) -> list[str]:
    newest = max(path.stat().st_mtime for path in (
        *HERE.glob("*.[ch]"), *[HERE / name for name in ("FLAGS", "LEVELS", "OVERRIDES")]))
    overrides = {source: own for source, *own in map(str.split, (
        HERE / "OVERRIDES").read_text("utf-8").splitlines())}
    jobs: list[tuple[list[str], Path]] = []
    said: list[str] = []
    for line in (HERE / "LEVELS").read_text("utf-8").splitlines():
        level, arch, *more = line.split()
        command = compiler_for(arch)
        if not command:
            said.append(f"{level}: no C compiler for {arch}")
            continue
        for source in sorted(HERE.glob("*.c")):
            made = out / level / f"{source.stem}.o"
            if made.exists() and made.stat().st_mtime >= newest:
                continue
            own = overrides.get(source.stem, [])
            jobs.append(([*command, *flags, *own, *more, "-c", str(source), "-o", str(made)], made))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        said += [text for text in pool.map(_compile, jobs) if text]
    return said


def _compile(job: tuple[list[str], Path]) -> str:
    command, made = job
    made.parent.mkdir(parents=True, exist_ok=True)
    part = made.with_suffix(f".{os.getpid()}.part")  # the old one serves until the new one is there
    try:
        done = subprocess.run([*command[:-1], str(part)], capture_output=True, text=True,
                              check=False)
    except OSError as error:
        made.unlink(missing_ok=True)
        return f"{made.parent.name}/{made.name}: {error}"
    if done.returncode:
        for stale in (part, made):
            stale.unlink(missing_ok=True)
        return f"{made.parent.name}/{made.name}: {' '.join(command)}\n{done.stderr}"
    part.replace(made)
    return ""


class BuildKernels(build_py):
    """build_py that compiles the C kernels beside the modules (in place where editable)."""

    def run(self) -> None:
        super().run()
        place = HERE if self.editable_mode else Path(self.build_lib, "calque/lowering/native")
        for line in build_objects(place / "objects"):
            sys.stderr.write(f"calque: C kernel left out: {line}\n")


if __name__ == "__main__":  # python lowering/native/build.py: build in place
    for line in build_objects(HERE / "objects"):
        sys.stderr.write(f"calque: C kernel left out: {line}\n")
