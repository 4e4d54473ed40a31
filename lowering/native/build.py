"""Builds the C kernels: objects for each level of each architecture.

commands.py does it while the package is built, `python lowering/native/build.py` in place;
CMakeLists.txt builds the same files from the same lists (FLAGS, LEVELS, OVERRIDES).  What cannot be
compiled here is left out and said: the package then takes its portable forms (`calque doctor`).
Imports the standard library, and two modules of ours by their paths.  Start reading at
`build_objects`.
"""
from __future__ import annotations

import concurrent.futures
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

HERE = Path(__file__).resolve().parent


def _beside(path: str) -> Any:
    """A module of ours, without its package: that imports what a build does not have."""
    spec = importlib.util.spec_from_file_location(f"calque_{Path(path).stem}", HERE / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if TYPE_CHECKING:
    from calque.lowering.native import elf, toolchain
else:
    elf, toolchain = _beside("elf.py"), _beside("toolchain.py")


def levels() -> list[list[str]]:
    """[level, architecture, flags...] of each."""
    return [line.split() for line in (HERE / "LEVELS").read_text("utf-8").splitlines()]


def expected() -> list[str]:
    """What a whole package has: <level>/<source>.o, and <an architecture's first level>/<name>.so
    of the libraries that Python itself loads (python/)."""
    return [f"{level}/{source.stem}.o" for level, *_ in levels()
            for source in sorted(HERE.glob("*.c"))] + \
        [f"{level}/{source.stem}.so" for level in _first_levels().values()
         for source in sorted(HERE.glob("python/*.c"))]


def _first_levels() -> dict[str, str]:
    """The first level of each architecture."""
    return {arch: level for level, arch, *_ in reversed(levels())}


def build_objects(out: Path) -> list[str]:
    """Compile every source for every level into out/<level>/; what was left out and why.

    Objects newer than everything they are made of are kept.  Builds that meet wait for one another.
    """
    with (HERE / "FLAGS").open(encoding="utf-8") as lock:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)
        return _build(out)


def _build(out: Path) -> list[str]:
    newest = max(path.stat().st_mtime for path in (
        *HERE.glob("*.[ch]"), *HERE.glob("python/*.c"),
        *[HERE / name for name in ("FLAGS", "LEVELS", "OVERRIDES")]))
    overrides = {source: own for source, *own in map(str.split, (
        HERE / "OVERRIDES").read_text("utf-8").splitlines())}
    jobs: list[tuple[list[str], Path, str]] = []
    said: list[str] = []
    for level, arch, *more in levels():
        command = toolchain.compiler_for(arch)
        if not command:
            said.append(f"{level}: no C compiler for {arch}")
            continue
        for source in sorted(HERE.glob("python/*.c")) if _first_levels()[arch] == level else []:
            made = out / level / f"{source.stem}.so"
            if made.exists() and made.stat().st_mtime >= newest:
                continue
            flags = toolchain.flags_for(command, more)
            jobs.append(([*command, *flags, "-shared", "-nostdlib", "-s",
                          source.relative_to(HERE).as_posix(), "-o", str(made)], made, arch))
        for source in sorted(HERE.glob("*.c")):
            made = out / level / f"{source.stem}.o"
            if made.exists() and made.stat().st_mtime >= newest:
                continue
            flags = toolchain.flags_for(command, [*overrides.get(source.stem, []), *more])
            jobs.append(([*command, *flags, "-c", source.name, "-o", str(made)], made, arch))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        said += [text for text in pool.map(_compile, jobs) if text]
    return said


def _compile(job: tuple[list[str], Path, str]) -> str:
    command, made, arch = job
    made.parent.mkdir(parents=True, exist_ok=True)
    part = made.with_suffix(f".{os.getpid()}.part")  # the old one serves until the new one is there
    said = ""
    try:  # (by their names alone: objects are the same wherever they are built)
        done = subprocess.run([*command[:-1], str(part.resolve())], capture_output=True, text=True,
                              check=False, cwd=HERE)
        if done.returncode:
            said = f"{' '.join(command)}\n{done.stderr}"
        else:
            code = part.read_bytes()
            library = made.suffix == ".so"  # (Python has what that lacks)
            said = elf.problem(code, arch, kind=3 if library else 1)
            lacking = [] if said or library else elf.missing(code)
            said = f"needs {', '.join(lacking)}" if lacking else said
            said = said and f"what {' '.join(command)} makes {said}"
    except OSError as error:
        said = str(error)
    if said:
        for stale in (part, made):
            stale.unlink(missing_ok=True)
        return f"{made.parent.name}/{made.name}: {said}"
    part.replace(made)
    return ""


if __name__ == "__main__":  # python lowering/native/build.py: build in place
    for line in build_objects(HERE / "objects"):
        sys.stderr.write(f"calque: C kernel left out: {line}\n")
