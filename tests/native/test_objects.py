"""What the objects may ask of whom links them (nothing), and the kernels under the sanitizers."""
from __future__ import annotations

import concurrent.futures
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.harness import partly_slow

from calque.lowering.native import build
from calque.lowering.native.toolchain import compiler_for, flags_for
from tests.native.kernels import FOLDER, compiler, families, fresh

LEVELS = [line.split() for line in (FOLDER / "LEVELS").read_text("utf-8").splitlines()]
HERE = Path(__file__).resolve().parent


@pytest.mark.parametrize("level", [level for level, *_ in LEVELS])
def test_objects_need_nothing(level: str, tmp_path: Path) -> None:
    """Those that the package was built with, or compiled here where they are missing or old."""
    arch, *flags = next(rest for name, *rest in LEVELS if name == level)
    command = compiler_for(arch)
    if not command or not shutil.which("nm"):
        pytest.skip(f"no compiler for {arch} on this machine")

    def needs(family: str) -> str:
        made = FOLDER / "objects" / level / f"{family}.o"
        if not fresh(made):
            made = tmp_path / f"{family}.o"
            # -O1 calls at least what -O3 calls
            subprocess.run([*command, *flags_for(command, flags), "-O1", "-c",
                            str(FOLDER / f"{family}.c"), "-o", str(made)], check=True)
        return subprocess.run(["nm", "-u", str(made)], check=True, capture_output=True,
                              text=True).stdout
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        assert list(pool.map(needs, families())) == [""] * len(families())


@pytest.mark.parametrize("family", families())
def test_stack_is_small(family: str, tmp_path: Path) -> None:
    """IREE's worker threads have small stacks: 32 KiB for the deepest chain of calls.

    The largest frame is multiply's (16 KiB of packed rows); what calls it needs a few hundred bytes
    a level, and recursions have at most log2(n / 8) levels.
    """
    arch, *_ = next(rest for name, *rest in LEVELS if name == "x86-64-v4")
    made = FOLDER / "objects" / "x86-64-v4" / f"{family}.o"
    if platform.machine() != arch or not shutil.which("objdump") or not fresh(made):
        pytest.skip("no objdump, or the objects are not built from these sources")
    text = subprocess.run(["objdump", "-d", str(made)], check=True, capture_output=True,
                          text=True).stdout
    frames = [int(size, 16) for size in re.findall(r"sub +\$0x([0-9a-f]+),%rsp", text)]
    assert frames and max(frames) < 18 * 1024
    assert sum(frame > 8 * 1024 for frame in frames) <= 4  # multiply of the four types


def test_a_build_keeps_what_is_newer_than_its_sources(tmp_path: Path, monkeypatch: Any) -> None:
    compiled: list[Path] = []

    def compile_one(job: tuple[list[str], Path]) -> str:
        job[1].parent.mkdir(parents=True, exist_ok=True)
        job[1].write_bytes(b"")
        compiled.append(job[1])
        return ""

    if not any(compiler_for(arch) for _, arch, *_ in LEVELS):
        pytest.skip("no C compiler on this machine")
    monkeypatch.setattr(build, "_compile", compile_one)
    build.build_objects(tmp_path)
    first = compiled.pop()
    build.build_objects(tmp_path)
    assert len(compiled) == len(set(compiled)) > 5 and first not in compiled
    os.utime(first, (0, 0))
    build.build_objects(tmp_path)
    assert compiled[-1] == first and compiled.count(first) == 1


@pytest.mark.parametrize("family", partly_slow(families(), 0.15))
def test_under_sanitizers(family: str, tmp_path: Path) -> None:
    program = tmp_path / "driver"
    sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g1"]
    common = [compiler(), "-std=gnu11", "-O0", "-march=native", "-Wno-psabi", *sanitizers]
    made = subprocess.run([*common, "-fcx-limited-range", "-fno-math-errno", "-I", str(FOLDER),
                           "-I", str(HERE), str(HERE / "driver.c"), str(FOLDER / f"{family}.c"),
                           "-o", str(program)],
                          capture_output=True, text=True)
    if made.returncode and "san" in made.stderr:
        pytest.skip("no sanitizers on this machine: " + made.stderr[-200:])
    assert made.returncode == 0, made.stderr
    done = subprocess.run([str(program), family], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "ok\n", done.stderr[:3000]
