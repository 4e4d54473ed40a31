"""A wheel of the checkout, with the C kernels that are there, as installed: no checkout in reach
and no compiler on PATH.  `make test-wheel` does the same, and more, with the wheel of a release.
"""
from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("release_build", ROOT / "release/build.py")
assert _spec is not None and _spec.loader is not None
build = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(build)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("setuptools", minversion="77.0.3", exc_type=ImportError)
    folder = tmp_path_factory.mktemp("wheel")
    tree = folder / "tree"
    for name in ("frontend", "lowering", "runtime", "LICENSE", "NOTICE", "README.md", "setup.py",
                 "pyproject.toml", "MANIFEST.in"):  # (git may not be here, or own the files)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=shutil.ignore_patterns(
                "__pycache__", "*.egg-info"))
        else:
            shutil.copy(ROOT / name, tree / name)
    for made in tree.glob("lowering/native/objects/*/*.*o"):
        made.touch()  # newer than the copied sources: they are not compiled again
    path, _ = build.make("wheel", tree, folder / "made", int(time.time()))
    return path


def names(folder: Path) -> list[str]:
    return [p.relative_to(ROOT).as_posix() for p in folder.rglob("*")
            if p.is_file() and not {"__pycache__", "objects"} & set(p.parts)]


def test_it_holds_what_the_package_needs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        kept = {n for n in file.namelist() if ".dist-info/" not in n}
    wanted = build.packaged([n for top in ("frontend", "lowering", "runtime")
                             for n in names(ROOT / top)])
    assert {"calque/py.typed", "calque/dispatch/array.pyi", "calque_cli/doctor.py"} <= wanted
    build.compare(wheel.name, {n for n in kept if "/objects/" not in n}, wanted)


def test_its_tag_says_what_it_holds(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        lacking = build.objects() - set(file.namelist())
    assert wheel.name.endswith("-any.whl") == (not lacking), (wheel.name, lacking)


def test_an_installed_calque_runs(wheel: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "release/installed.py"), str(wheel), "--offline", "--short",
         "--work", str(tmp_path / "work")], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and "WRONG" not in done.stdout, done.stdout + done.stderr
    assert done.stdout.count(": right (") == 5
