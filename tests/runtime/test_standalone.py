"""`import calque.runtime` loads no compiler and nothing else of calque."""
import pytest


@pytest.mark.xfail(strict=False, reason="calque/__init__ is made lazy by the frontend")
def test_the_runtime_stands_alone(run_python):
    done = run_python("""
import sys
import calque.runtime
print(sorted(m for m in sys.modules if m.startswith("iree.compiler")
             or m.startswith("calque.") and not m.startswith("calque.runtime")))
""")
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


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
