"""What a wheel holds is all that an installed calque needs: it is built from a copy of the sources
and runs where no checkout is to be seen.  (`wheel` and the network are not needed: build_py makes
the folder that a wheel is an archive of.)
"""
from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
CODE = '''
import re, sys
from pathlib import Path
import calque, calque.numpy as jnp
from calque import ffi
assert Path(calque.__file__).is_relative_to(Path(sys.argv[1])), calque.__file__

# kernels in C of one's own
SOURCE = """
static float less(float x, float by) { return x > by ? x - by : x < -by ? x + by : 0; }
void shrink(const float *x, float *y, long n, double by) {
    for (long i = 0; i < n; ++i) y[i] = less(x[i], by);
}"""
ffi.register_ffi_target("shrink", ffi.Kernel(
    SOURCE, "shrink", scalars=lambda inputs, outputs, by: (outputs[0].size, by)))
x = jnp.array([-2.0, -0.25, 0.5, 3.0])
if sys.argv[2] == "cc":
    f = calque.jit(lambda x: ffi.ffi_call("shrink", x, vmap_method="expand_dims")(x, by=0.5))
    assert f(x).tolist() == [-1.5, 0, 0, 2.5], f(x)

# ours, and the pages
assert jnp.linalg.eigvalsh(jnp.diag(jnp.array([2.0, 1.0]))).tolist() == [1, 2]
for page in sys.argv[3:]:
    names = {}
    exec("import calque, calque.numpy as jnp", names)
    for block in re.findall(r"```python\\n(.*?)```", Path(page).read_text(), re.S):
        exec(compile(block, page, "exec"), names)
print("whole")
'''


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what a wheel holds; the C kernels are those that are there."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("installed")
    for name in ("frontend", "lowering", "runtime"):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns(
            "__pycache__", "objects", "*.egg-info"))
    for name in ("setup.py", "pyproject.toml", "README.md", "MANIFEST.in"):
        shutil.copy(ROOT / name, source / name)
    objects = ROOT / "lowering/native/objects"
    if objects.exists():  # newer than the copied sources: they are not compiled again
        shutil.copytree(objects, out / "calque/lowering/native/objects", copy_function=shutil.copy)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "setup.py", "-q", "build_py", "--build-lib", str(out)],
        cwd=source, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(source)
    return out


def test_an_installed_calque_runs(installed: Path, tmp_path: Path) -> None:
    packages = {str(Path(m.__file__ or "").parents[1]) for m in (np, pytest)}
    compiler = "cc" if shutil.which("cc") else "none"
    done = subprocess.run(
        [sys.executable, "-S", "-c", CODE, str(installed), compiler, str(ROOT / "README.md"),
         str(ROOT / "docs/sharp_edges.md")],
        capture_output=True, text=True, timeout=600, cwd=tmp_path, env={
            "PYTHONPATH": ":".join([str(installed), *packages]), "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path)})
    assert done.returncode == 0 and done.stdout.endswith("whole\n"), done.stderr[-2000:]


def test_the_command_runs(installed: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-c", "from calque_cli import main; main()", "--help"],
        capture_output=True, text=True, timeout=600, cwd=tmp_path, env={"PYTHONPATH": ":".join(
            [str(installed), str(Path(np.__file__).parents[1])]), "PATH": "/usr/bin:/bin"})
    assert done.returncode == 0 and "compile" in done.stdout, done.stderr[-2000:]


def test_files_that_code_reads_are_in_it(installed: Path) -> None:
    """Every file of the package's folders that is no module is data of a package, or for builds."""
    kept = {p.relative_to(installed).as_posix() for p in installed.rglob("*") if p.is_file()}
    assert {"calque/py.typed", "calque/dispatch/array.pyi", "calque/runtime/features.json",
            "calque/lowering/native/FLAGS", "calque/lowering/native/LEVELS",
            "calque/lowering/native/OVERRIDES"} <= kept
    sources = [p.relative_to(ROOT) for folder in ("lowering", "runtime", "frontend/calque")
               for p in (ROOT / folder).rglob("*.py") if "examples" not in p.parts]
    missing = [name for name in map(str, sources)
               if "calque/" + re.sub("^frontend/calque/", "", name) not in kept]
    assert not missing, missing
