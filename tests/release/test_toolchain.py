"""Which C compiler makes the kernels, and what becomes of objects that no program could take."""
from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from calque.lowering.native import elf, toolchain

NATIVE = Path(toolchain.__file__).parent
CC = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """build.py with sources, levels and flags of its own: one function that needs nothing."""
    spec = importlib.util.spec_from_file_location("a_build", NATIVE / "build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "one.c").write_text("int one(int x) { return x + 1; }\n")
    (tmp_path / "LEVELS").write_text(f"here {toolchain.machine()}\n")
    (tmp_path / "FLAGS").write_text("-O1\n-fPIC\n")
    (tmp_path / "OVERRIDES").write_text("")
    monkeypatch.setattr(module, "HERE", tmp_path)
    monkeypatch.setattr(module.toolchain, "HERE", tmp_path)
    return module


def named(monkeypatch: pytest.MonkeyPatch, programs: set[str], package: bool = False) -> None:
    """A machine that has these programs alone, and the package ziglang or not."""
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(toolchain.shutil, "which", lambda name: name if name in programs else None)
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: package or None)


ZIG = [sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-gnu", "-g0"]


@pytest.mark.parametrize("system, machine, programs, zig, want", [
    ("linux", "x86_64", {"gcc", "aarch64-linux-gnu-gcc"}, True, ["aarch64-linux-gnu-gcc"]),
    ("linux", "x86_64", {"cc", "clang"}, True, ["clang", "--target=aarch64-linux-gnu"]),
    ("linux", "x86_64", {"cc", "gcc"}, True, ZIG),
    ("linux", "x86_64", {"cc", "gcc"}, False, []),  # cc makes code of this machine
    ("linux", "aarch64", {"cc"}, False, ["cc"]),
    ("linux", "aarch64", set(), True, ZIG),
    ("darwin", "arm64", {"cc", "clang"}, False, ["clang", "--target=aarch64-linux-gnu"]),
    ("darwin", "arm64", {"cc"}, False, []),  # Mach-O is what it makes
    ("win32", "ARM64", set(), True, ZIG)])
def test_the_compiler_for_aarch64(system: str, machine: str, programs: set[str], zig: bool,
                                  want: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    named(monkeypatch, programs, zig)
    monkeypatch.setattr(toolchain.sys, "platform", system)
    monkeypatch.setattr(toolchain.platform, "machine", lambda: machine)
    assert toolchain.compiler_for("aarch64") == want


def test_a_compiler_is_named_by_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    named(monkeypatch, {"ccache"})
    monkeypatch.setattr(toolchain.sys, "platform", "linux")
    monkeypatch.setenv("CC", "ccache gcc")
    assert toolchain.compiler_for(toolchain.machine()) == ["ccache", "gcc"]


@CC
def test_flags_that_a_compiler_does_not_know_are_left_out() -> None:
    every = (NATIVE / "FLAGS").read_text().split()
    kept = toolchain.flags_for(["cc"], ["-march=native", "-fno-such-flag-anywhere"])
    assert kept[-1] == "-march=native" and set(kept[:-1]) <= set(every) and "-fPIC" in kept


def test_words_of_zig_for_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "_taken", lambda compiler, flags: flags)
    said = toolchain.flags_for(ZIG, ["-march=x86-64-v4", "-march=armv8-a", "-O2"])
    assert said[-3:] == ["-mcpu=x86_64_v4", "-mcpu=generic", "-O2"]


@CC
def test_an_object_is_built_once(build: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert build.build_objects(out) == [] and build.expected() == ["here/one.o"]
    made = (out / "here/one.o").stat().st_mtime_ns
    assert elf.problem((out / "here/one.o").read_bytes(), toolchain.machine(), "one") == ""
    assert build.build_objects(out) == [] and (
        out / "here/one.o").stat().st_mtime_ns == made


@CC
def test_libraries_that_python_loads_are_built_once_an_architecture(
        build: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "LEVELS").write_text(
        f"low {toolchain.machine()} -O1\nhigh {toolchain.machine()} -O2\n")
    (tmp_path / "python").mkdir()
    (tmp_path / "python/two.c").write_text(
        "int outside(void);\nint two(void) { return outside(); }\n")
    out = tmp_path / "out"
    assert build.build_objects(out) == []
    assert build.expected() == ["low/one.o", "high/one.o", "low/two.so"]
    assert sorted(p.relative_to(out).as_posix() for p in out.glob("*/*")) == sorted(
        build.expected())
    code = (out / "low/two.so").read_bytes()
    assert elf.problem(code, toolchain.machine(), kind=3) == ""
    assert "is no relocatable object" in elf.problem(code, toolchain.machine())
    assert elf.problem((out / "low/one.o").read_bytes(), toolchain.machine(), kind=3) == \
        "is no shared library"


@CC
def test_objects_that_no_program_could_take_are_left_out(build: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (tmp_path / "one.c").write_text("double exp(double); double one(double x) { return exp(x); }\n")
    (said,) = build.build_objects(out)
    assert "here/one.o: what " in said and said.endswith("makes needs exp")
    assert not (out / "here/one.o").exists()
    other = {"x86_64": "aarch64", "aarch64": "x86_64"}[toolchain.machine()]
    assert "is code for" in elf.problem(_object(tmp_path), other)
    assert elf.problem(b"\xcf\xfa\xed\xfe" + bytes(60), "aarch64") == "is no ELF object file"


def _object(folder: Path) -> bytes:
    (folder / "two.c").write_text("int two(void) { return 2; }\n")
    subprocess.run(["cc", "-fPIC", "-c", "two.c"], cwd=folder, check=True)
    return (folder / "two.o").read_bytes()


def test_without_a_compiler_it_says_so(build: ModuleType, monkeypatch: pytest.MonkeyPatch,
                                       tmp_path: Path) -> None:
    monkeypatch.setattr(build.toolchain, "compiler_for", lambda arch: [])
    (said,) = build.build_objects(tmp_path / "out")
    assert said == f"here: no C compiler for {toolchain.machine()}"
