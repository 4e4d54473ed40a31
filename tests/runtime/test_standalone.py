"""`import calque.runtime` needs no compiler and nothing else of calque.

(That `import calque` loads no compiler either: tests/test_structure.py.)
"""


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
