"""calque-runtime, the distribution of calque.runtime alone, in an environment without a compiler.

The package is laid out by setuptools from runtime/pyproject.toml; what it depends on comes as links
to this environment's packages, of IREE only the runtime, so that nothing is downloaded.
"""
from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

import calque.aot
import calque.numpy as jnp

ROOT = Path(__file__).parents[2]
WANTED = {"numpy", "ml_dtypes", "iree"}


def place(package: str) -> Path:
    """The folder of an installed package."""
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations)))


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment with calque-runtime and what it needs."""
    folder = tmp_path_factory.mktemp("deployed")
    source = folder / "source"  # setuptools leaves files behind where it works
    source.mkdir()
    for path in (ROOT / "runtime").glob("*"):
        if path.suffix in (".py", ".json", ".toml", ".md"):
            (source / path.name).symlink_to(path)
    (source / "serving").symlink_to(ROOT / "runtime/serving")
    venv.create(folder / "venv", with_pip=False)
    site = folder / f"venv/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    subprocess.run([sys.executable, "-W", "ignore", "-c", "import setuptools; setuptools.setup()",
                    "-q", "build_py", "--build-lib", str(site)],
                   cwd=source, check=True, capture_output=True)
    for package in ("numpy", "ml_dtypes"):
        (site / package).symlink_to(place(package))
        for name in (package, package.replace("_", "-")):
            libraries = place(package).parent / f"{name}.libs"
            if libraries.exists() and not (site / libraries.name).exists():
                (site / libraries.name).symlink_to(libraries)
    (site / "iree").mkdir()
    for part in ("runtime", "_runtime_libs", "_runtime"):
        found = place("iree.runtime").parent / part
        if found.exists():
            (site / "iree" / part).symlink_to(found)
    for distribution in ("iree-base-runtime", "numpy", "ml_dtypes"):
        found = Path(str(importlib.metadata.distribution(distribution).locate_file("")))
        for path in found.glob("*-info"):
            if path.name.lower().replace("-", "_").startswith(distribution.replace("-", "_")):
                (site / path.name).symlink_to(path)
    return folder / "venv" / "bin" / "python"


def run(python: Path, code: str, *words: str) -> str:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run([str(python), "-W", "error", "-c", code, *words], env=clean, text=True,
                          capture_output=True, cwd=python.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_artifact_runs_without_a_compiler(python: Path, tmp_path: Path) -> None:
    path = tmp_path / "layer.vmfb"
    made = calque.aot.compile(lambda x, w: jnp.tanh(x @ w), "f32[2,3]", "f32[3,4]", name="layer")
    made.save(path)
    said = json.loads(run(python, """
import importlib.util, json, sys
import numpy as np
from calque import runtime
layer = runtime.load(sys.argv[1]).layer
x, w = np.ones((2, 3), np.float32), np.full((3, 4), 0.5, np.float32)
(y,) = layer(x, w)
assert np.allclose(y.numpy(), np.tanh(1.5)), y.numpy()  # one float32 rounding, numpy's rtol 1e-5
print(json.dumps({
    "compiler": importlib.util.find_spec("iree.compiler") is not None,
    "frontend": importlib.util.find_spec("calque.numpy") is not None,
    "loaded": sorted(m for m in sys.modules if m.startswith(("calque", "iree", "jax")))}))
""", str(path)))
    assert not said["compiler"] and not said["frontend"]
    loaded = {m.rpartition(".")[0] or m for m in said["loaded"]}
    assert all(m.startswith(("calque", "iree")) for m in loaded)
    assert [m for m in said["loaded"] if m.startswith("calque") and m != "calque"
            and not m.startswith("calque.runtime")] == []


def test_serving_says_what_it_takes(python: Path) -> None:
    done = subprocess.run([str(python), "-W", "error", "-m", "calque.runtime.serving", "x.vmfb"],
                          text=True, capture_output=True, cwd=python.parent,
                          env={k: v for k, v in os.environ.items() if not k.startswith("PYTHON")})
    assert done.returncode == 1 and done.stderr.splitlines()[-1] == (
        "  Fix: pip install 'calque[serve]' (or 'calque-runtime[serve]').")


def test_it_is_the_same_version_with_the_same_dependencies() -> None:
    small = tomllib.loads((ROOT / "runtime/pyproject.toml").read_text())["project"]
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert small["version"] == whole["version"]
    assert set(small["dependencies"]) <= set(whole["dependencies"])
    assert small["requires-python"] == whole["requires-python"]


def test_every_module_of_the_runtime_is_in_it(python: Path) -> None:
    site = next(python.parents[1].glob("lib/python*/site-packages"))
    for folder in ("", "serving"):
        laid_out = {p.name for p in (site / "calque/runtime" / folder).glob("*.py")}
        assert laid_out == {p.name for p in (ROOT / "runtime" / folder).glob("*.py")}
    assert not (site / "calque/__init__.py").exists()


def size(folder: Path) -> int:
    """Bytes of a package, links followed."""
    return sum(Path(root, name).stat().st_size
               for root, _, names in os.walk(folder, followlinks=True) for name in names
               if not name.endswith(".pyc"))


def test_it_is_small_and_starts_fast(python: Path) -> None:
    """The numbers of docs/cpp.md; the bounds leave room for other machines."""
    site = next(python.parents[1].glob("lib/python*/site-packages"))
    serving = size(site / "calque/runtime/serving")
    assert size(site / "calque") - serving < 300 << 10, "calque.runtime itself: under 300 KiB"
    assert serving < 150 << 10
    assert size(site / "iree") < 80 << 20
    code = """
import time
start = time.process_time()
import calque.runtime
print(time.process_time() - start)
"""
    tries = (float(run(python, code)) for _ in range(3))
    assert any(seconds < 1.0 for seconds in tries), "importing took a second of processor time"
