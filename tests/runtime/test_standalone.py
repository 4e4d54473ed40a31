"""`import calque.runtime` needs no compiler and nothing else of calque.

(That `import calque` loads no compiler either: tests/test_structure.py.)
"""
from pathlib import Path


def test_the_runtime_itself_imports_neither(run_python):
    """The same with calque/__init__ out of the way: what calque.runtime is answerable for."""
    done = run_python("""
import importlib.util, sys, types
package = types.ModuleType("calque")
package.__path__ = list(importlib.util.find_spec("calque").submodule_search_locations)
sys.modules["calque"] = package
import calque.runtime
print(sorted(m for m in sys.modules if m.startswith("iree.compiler")
             or m.startswith("calque.") and not m.startswith("calque.runtime")))
""")
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_without_the_compiler_or_the_runtime_it_says_what_to_install(run_python):
    done = run_python("""
import sys
sys.modules["iree.compiler"] = None
import calque, calque.numpy as jnp
from importlib.metadata import version
print(jnp.ones(3) + 1)
try:
    calque.jit(lambda x: jnp.sin(x) @ x)(jnp.ones(3))
except ModuleNotFoundError as error:
    assert error.name == "iree.compiler"
    assert f"Fix: pip install 'iree-base-compiler=={version('iree-base-runtime')}'" in str(error)
    print("said")
""", CALQUE_CACHE="0")
    assert (done.returncode, done.stdout) == (0, "[2. 2. 2.]\nsaid\n"), done.stderr
    for gone in ("iree", "iree.runtime"):
        done = run_python(f"""
import sys
class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name == {gone!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Nowhere())
import calque
""")
        last = done.stderr.split("ModuleNotFoundError: ")[-1]
        assert last.startswith(f"calque runs programs by IREE's runtime (No module named {gone!r}")
        assert "Fix: pip install 'iree-base-runtime==3.13.*', which has wheels for" in last
        pinned = (Path(__file__).parents[2] / "pyproject.toml").read_text()
        assert '"iree-base-runtime==3.13.*"' in pinned
