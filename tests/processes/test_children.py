"""calque as jax in processes that a process starts, and the ways in that are Python's own.

The variable alone does it where calque is installed; here PYTHONPATH does, as nothing is installed.
"""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FRONTEND = Path(__file__).parents[2] / "frontend"
POOLS = """
import multiprocessing, sys
import jax, jax.numpy as jnp

def f(call, x):
    import jax
    return float(call(x)), jax.__version__

if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        print(pool.apply_async(f, (jnp.sin, 0.0)).get(60))
"""
ANOTHER = "raise SystemExit('the other jax')"


def run(*args: str, folder: Path, said: str = "", **environ: str
        ) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if k not in ("CALQUE_AS_JAX", "PYTHONPATH")}
    return subprocess.run([sys.executable, *args], capture_output=True, text=True, cwd=folder,
                          input=said, env={**clean, "PYTHONPATH": str(FRONTEND), **environ})


@pytest.mark.parametrize("how", [
    "spawn", pytest.param("forkserver", marks=pytest.mark.slow)])
def test_pools_that_spawn(how: str, tmp_path: Path) -> None:
    (tmp_path / "pools.py").write_text(POOLS)
    done = run("-m", "calque.compat", "pools.py", how, folder=tmp_path)
    assert done.stdout == "(0.0, '0.10.2')\n", done.stderr


def test_another_jax_is_installed(tmp_path: Path) -> None:
    """Calque is jax all the same, in children too; it is said once; 0 leaves children alone."""
    (tmp_path / "other" / "jax").mkdir(parents=True)
    (tmp_path / "other" / "jax" / "__init__.py").write_text(ANOTHER)
    path = os.pathsep.join([str(FRONTEND), str(tmp_path / "other")])
    child = "import jax; print(jax.__version__)"
    parent = f"import subprocess, sys; print(subprocess.call([sys.executable, '-c', '{child}']))"
    code = f"import calque.compat as c\nc.install()\n{parent}"
    done = run("-c", code, folder=tmp_path, PYTHONPATH=path)
    assert done.stdout.split() == ["0.10.2", "0"], done.stderr
    assert done.stderr.count("`import jax` gives calque") == 1
    assert f"not the jax in {tmp_path / 'other' / 'jax'}." in done.stderr
    done = run("-c", code, folder=tmp_path, PYTHONPATH=path, CALQUE_AS_JAX="0")
    assert done.stdout.split() == ["1"] and "the other jax" in done.stderr


@pytest.mark.parametrize("args", [
    pytest.param(("-",), marks=pytest.mark.slow), ("-i", "-c", "pass")])
def test_pythons_own_ways(args: tuple[str, ...], tmp_path: Path) -> None:
    """A program on stdin, and a prompt (Python's own, so that one load of calque is enough)."""
    said = "import jax, sys\nprint(jax.__version__, sys.argv[1:])\n"
    done = run("-m", "calque.compat", *args, "x", folder=tmp_path, said=said)
    assert done.stdout == "0.10.2 ['x']\n", done.stderr


def test_pytest_and_ipython(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("import jax\nassert jax.jit")
    (tmp_path / "test_one.py").write_text(
        "def test_one():\n    import calque.compat as c, jax\n    assert c.installed()\n"
        "    c.load_ipython_extension(None)\n")
    done = run("-m", "pytest", "-p", "calque.compat", "-p", "no:cacheprovider", folder=tmp_path)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


def test_the_line_of_pth(tmp_path: Path) -> None:
    """It loads nothing where the variable is unset, and not calque before jax where it is set."""
    (tmp_path / "calque_as_jax.pth").write_bytes((FRONTEND / "calque_as_jax.pth").read_bytes())
    code = (f"import site, sys; site.addsitedir({str(tmp_path)!r})\n"
            "print('calque_as_jax' in sys.modules, 'calque' in sys.modules)\n")
    for value, loaded in (("", False), ("0", True), ("1", True)):
        done = run("-c", code, folder=tmp_path, CALQUE_AS_JAX=value)
        assert done.stdout == f"{loaded} False\n", done.stderr
    asked = code + ("import importlib.metadata, importlib.util\n"
                    "assert importlib.util.find_spec('jax') and 'jax' not in sys.modules\n"
                    "print(importlib.metadata.version('jaxlib'))\nimport jax\nassert jax.jit")
    done = run("-c", asked, folder=tmp_path, CALQUE_AS_JAX="1")
    assert done.stdout.split() == ["True", "False", "0.10.2"], done.stderr
    assert len((FRONTEND / "calque_as_jax.pth").read_text().splitlines()) == 1


def test_a_sitecustomize_of_the_users_own_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("MINE = 1")
    import calque_as_jax
    environ = {"PYTHONPATH": os.pathsep.join([str(FRONTEND), str(tmp_path)])}
    before = calque_as_jax._is_told
    try:
        calque_as_jax._is_told = lambda: False
        calque_as_jax.for_children(environ, "1")
        calque_as_jax.for_children(environ, "1")
    finally:
        calque_as_jax._is_told = before
    assert environ["PYTHONPATH"].count("children") == 1
    code = ("import sitecustomize, sys\nprint(sitecustomize.MINE, 'calque' in sys.modules,"
            "'Waiting' in [type(f).__name__ for f in sys.meta_path],"  # setuptools has one, too
            "any('children' in p for p in sys.path))")
    done = run("-c", code, folder=tmp_path, **environ)
    assert done.stdout.split() == ["1", "False", "True", "False"], done.stderr
