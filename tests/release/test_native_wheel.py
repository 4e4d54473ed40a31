"""calque-native: what its script refuses, what a wheel may hold, where CMake is sent.

(The wheel itself is built where an IREE runtime is: tests/cpp/test_cpp.py, docs/native_log.md.)
"""
from __future__ import annotations

import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("release_native", ROOT / "release/native.py")
assert _spec is not None and _spec.loader is not None
native = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(native)
IN = "calque_native/prefix/"


def wheel(path: Path, change: set[str]) -> Path:
    names = {"calque_native/__init__.py", IN + "lib/libcalque_runtime.so",
             *[f"{IN}include/calque/{p.name}"
               for p in (ROOT / "runtime/cpp/include/calque").iterdir()],
             *[f"{IN}lib/cmake/calque/calque-{n}.cmake"
               for n in ("config", "config-version", "targets", "targets-release")]}
    for name in change:
        names = names - {name[1:]} if name[0] == "-" else names | {name}
    with zipfile.ZipFile(path, "w") as file:
        for name in names:
            file.writestr(name, b"")
    return path


@pytest.mark.parametrize("change, said", [
    ("", ""), (f"-{IN}include/calque/array.hpp", "holds"),
    (f"-{IN}lib/libcalque_runtime.so", "holds"),
    (f"-{IN}lib/cmake/calque/calque-targets.cmake", "holds"),
    (f"{IN}include/iree/base/api.h", "should not hold .*iree/base/api.h")])
def test_what_the_wheel_holds(change: str, said: str, tmp_path: Path) -> None:
    made = wheel(tmp_path / "n.whl", {change} - {""})
    if not said:
        native.check(made)
    else:
        with pytest.raises(native.Unfit, match=said):
            native.check(made)


def say(*words: str) -> str:
    done = subprocess.run([sys.executable, ROOT / "release/native.py", *words], text=True,
                          capture_output=True)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    return done.stderr


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    assert "Fix: give --iree PREFIX, which holds IREERuntimeConfig.cmake" in say()
    assert f"no IREE runtime in {tmp_path}" in say("--iree", str(tmp_path))
    work = ("--work", str(tmp_path / "work"))
    assert f"lacks third_party/flatcc.\n  Fix: git -C {tmp_path} submodule update --init" in say(
        "--iree-source", str(tmp_path), *work)
    (tmp_path / "third_party/flatcc/src").mkdir(parents=True)
    assert "vulkan_headers, or leave vulkan out (--drivers)" in say(
        "--iree-source", str(tmp_path), *work)
    assert "there is no driver metall" in say(
        "--iree-source", str(tmp_path), "--drivers", "local-sync,metall", *work)


def test_drivers_are_switched_on_by_name() -> None:
    said = native.switches(["local-sync", "vulkan"])
    assert [s for s in said if s.endswith("=ON")] == [
        "-DIREE_HAL_DRIVER_LOCAL_SYNC=ON", "-DIREE_HAL_DRIVER_VULKAN=ON"]
    assert {"-DIREE_BUILD_BENCHMARKS=OFF", "-DIREE_BUILD_COMPILER=OFF"} <= set(said)
    page = (ROOT / "docs/native.md").read_text()
    assert not [s for s in said if s not in page]


def test_cmake_is_sent_to_the_package(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "calque_native"], cwd=ROOT / "runtime/cpp",
                          capture_output=True, text=True)
    assert done.stdout == f"{ROOT / 'runtime/cpp/calque_native/prefix'}\n", done.stderr
