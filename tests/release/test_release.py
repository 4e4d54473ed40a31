"""A release's files and its version: what build.py refuses, and what version.py writes."""
from __future__ import annotations

import importlib.util
import io
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

import calque

ROOT = Path(__file__).parents[2]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"release_{name}", ROOT / f"release/{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


build, version = script("build"), script("version")


def wheel(path: Path, names: set[str]) -> Path:
    about = "calque-1.dist-info/"
    with zipfile.ZipFile(path, "w") as file:
        for name in names | {about + n for n in (
                "METADATA", "WHEEL", "RECORD", "entry_points.txt", "top_level.txt",
                "licenses/LICENSE", "licenses/NOTICE")}:
            file.writestr(name, b"")
    return path


NAMES = ["frontend/calque/py.typed", "frontend/calque/api/grad.py", "lowering/driver/cache.py",
         "lowering/native/FLAGS", "lowering/native/eigen.c", "runtime/features.json",
         "runtime/cpp/examples/models.py", "tests/conftest.py", "README.md"]
PACKAGED = {"calque/py.typed", "calque/api/grad.py", "calque/lowering/driver/cache.py",
            "calque/lowering/native/FLAGS", "calque/runtime/features.json"}


def test_what_a_wheel_has() -> None:
    assert build.packaged(NAMES) == PACKAGED
    levels = (ROOT / "lowering/native/LEVELS").read_text().split("\n")
    made = [Path(name).suffix for name in build.objects()]
    assert made.count(".o") == 13 * len([line for line in levels if line])
    assert made.count(".so") == 2  # exporter, for each architecture


@pytest.mark.parametrize("change, said", [
    (set(), ""),
    ({"-calque/lowering/native/FLAGS"}, "lacks 1 files: calque/lowering/native/FLAGS"),
    ({"calque/scratch.py"}, "should not have 1 files: calque/scratch.py"),
    ({"-calque/lowering/native/objects/aarch64/fft.o"}, "lacks C kernels: .*aarch64/fft.o"),
    ({"-calque/lowering/native/objects/aarch64/exporter.so"}, "lacks C kernels: .*exporter.so")])
def test_other_files_are_refused(change: set[str], said: str, tmp_path: Path) -> None:
    names = PACKAGED | build.objects()
    names = (names | {n for n in change if n[0] != "-"}) - {n[1:] for n in change if n[0] == "-"}
    made = wheel(tmp_path / "calque-1-py3-none-any.whl", names)
    if not said:
        build.check_wheel(made, NAMES, "")
    else:
        with pytest.raises(build.Unfit, match=said):
            build.check_wheel(made, NAMES, "")


def test_a_wheel_of_one_platform_or_too_large_is_refused(tmp_path: Path,
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    names = PACKAGED | build.objects()
    with pytest.raises(build.Unfit, match="tagged for a platform"):
        build.check_wheel(wheel(tmp_path / "calque-1-py3-none-linux_x86_64.whl", names), NAMES, "")
    monkeypatch.setattr(build, "LARGEST", 100)
    with pytest.raises(build.Unfit, match="more than 100"):
        build.check_wheel(wheel(tmp_path / "calque-1-py3-none-any.whl", names), NAMES, "")


def test_an_sdist_is_the_same_whenever_it_is_made(tmp_path: Path) -> None:
    made = []
    for i, order in enumerate(("ab", "ba")):
        path = tmp_path / f"{i}.tar.gz"
        with tarfile.open(path, "w:gz") as file:
            for name in order:
                entry = tarfile.TarInfo(name)
                entry.mtime, entry.uid, entry.mode = time.time() + i, i, 0o600 + i * 0o44
                entry.size = 1
                file.addfile(entry, io.BytesIO(name.encode()))
        build.normal(path, 1)
        made.append(path.read_bytes())
    assert made[0] == made[1]


def copy_of_places(to: Path) -> Path:
    for name in version.PLACES:
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, to / name)
    return to


def test_the_version_is_the_same_everywhere() -> None:
    done = subprocess.run([sys.executable, ROOT / "release/version.py"], capture_output=True,
                          text=True)
    assert done.stdout == f"{calque.__version__}\n", done.stderr


def test_the_version_is_set_everywhere(tmp_path: Path) -> None:
    root = copy_of_places(tmp_path)
    version.write(calque.__version__, root, "2027-01-02")  # a release
    changes = root / "CHANGELOG.md"
    assert f"\n## {calque.__version__}, 2027-01-02\n" in changes.read_text()
    version.write("77.0.1", root)
    assert set(map(frozenset, version.found(root).values())) == {frozenset({"77.0.1"})}
    text = changes.read_text()
    assert "\n## 77.0.1, not released yet\n\n## " + calque.__version__ in text
    assert calque.__version__ not in (root / "docs/cli.md").read_text()


@pytest.mark.parametrize("new, said", [("2.x", "is no version"), ("0.0.1", "is before")])
def test_no_versions(new: str, said: str, tmp_path: Path) -> None:
    root = copy_of_places(tmp_path)
    with pytest.raises(ValueError, match=said):
        version.write(new, root)
    assert version.found(root) == version.found()
