"""calque compat scan: names that files write, through aliases and scopes, and what is absent."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from calque_cli.scan import uses

from calque.compat import modules

TEXT = """
import jax, numpy as np
import jax.numpy as jnp, jax.scipy.stats
from jax import lax, random as jr
from jax.nn import relu as act
from jaxlib import xla_client
from .jax import nothing
deep = jax.experimental

def f(x, lax=jnp.pi):
    import jax.ops as o
    lax.gone(x)                      # the parameter
    jr = 3; jr.gone
    return jnp.linalg.norm(x).gone + o.segment_sum(x) + np.gone(x)

class C:
    shape = act.shape
    deep = None
    def g(self):
        lax.scan, deep.checkify, [jr.bits for jr in [jax.random]], [lax.map for _ in ()]
        return getattr(lax, "cond"), getattr(jax, "one", None)

if hasattr(jax, "two"):
    jax.two
try:
    from jax.three import four
except ImportError:
    from jax import five
else:
    jax.six
if TYPE_CHECKING:
    import jax.seven
"""
FOUND = [  # name, line, whether the code does without it
    ("jax", 2, False), ("jax.numpy", 3, False), ("jax.scipy.stats", 3, False),
    ("jax.lax", 4, False), ("jax.random", 4, False), ("jax.nn.relu", 5, False),
    ("jaxlib.xla_client", 6, False), ("jax.experimental", 8, False), ("jax.numpy.pi", 10, False),
    ("jax.ops", 11, False), ("jax.numpy.linalg.norm", 14, False),
    ("jax.ops.segment_sum", 14, False), ("jax.nn.relu.shape", 17, False),
    ("jax.lax.scan", 20, False), ("jax.experimental.checkify", 20, False),
    ("jax.random", 20, False), ("jax.lax.map", 20, False), ("jax.lax.cond", 21, False),
    ("jax.one", 21, True), ("jax.two", 23, True), ("jax.two", 24, True),
    ("jax.three.four", 26, True), ("jax.five", 28, False), ("jax.six", 30, False),
    ("jax.seven", 32, True)]


def test_names_are_followed() -> None:
    assert sorted((u.name, u.line, u.guarded) for u in uses(TEXT)) == sorted(FOUND)


@pytest.mark.parametrize("name, known", [
    ("jax", ("jax", "present", "")),
    ("jax.numpy.linalg.norm.shape", ("jax.numpy.linalg.norm", "present", "")),
    ("jax.interpreters.ad", ("jax.interpreters.ad", "present", "")),
    ("jax.experimental.pallas.triton.CompilerParams",
     ("jax.experimental.pallas.triton.CompilerParams", "present", "")),
    ("jax._src.compiler.backend_compile.__name__",
     ("jax._src.compiler.backend_compile", "stub", ""))])
def test_names_are_looked_up(name: str, known: tuple[str, str, str]) -> None:
    assert modules.look_up(name) == known


def test_absent_names_say_what_to_use() -> None:
    name, status, why = modules.look_up("jax.lax.psend.bind")
    assert (name, status) == ("jax.lax.psend", "absent") and "Fix: lax.ppermute" in why
    assert modules.look_up("jax.jt")[1:] == ("absent", "module 'jax' has no attribute 'jt' "
                                             "(calque.compat has not this name of JAX's).\n"
                                             "  Fix: did you mean jax.jit? docs/jax_names.md "
                                             "lists JAX's names, those that are here and those "
                                             "that are not.")
    assert not modules.installed()


def test_the_command(calque: Any, folder: Path) -> None:
    (folder / "code" / ".hidden").mkdir(parents=True)
    (folder / "code" / ".hidden" / "a.py").write_text("import jax.hidden")
    (folder / "code" / "a.py").write_text(
        "import jax\njax.jit(jax.absent)\n\njax.absent.more, jax.jit\n")
    (folder / "code" / "b.py").write_text("import jax\nif hasattr(jax, 'maybe'): pass\n")
    (folder / "code" / "c.py").write_text("print 'Python 2'\n")
    lines = calque("compat", "scan", "code", code=1).out.splitlines()
    assert lines[:2] == ["absent:", "  jax.absent  a.py:2,4"] and "has no attribute" in lines[2]
    assert "  jax.maybe  b.py:2" in lines and "  jax.jit  a.py:2, 1 more" in lines
    assert [line for line in lines if line.startswith("not read: c.py: Missing paren")]
    assert lines[-1] == "4 names of JAX in 3 files: 2 are there, 2 absent."
    record = json.loads(calque("compat", "scan", "code", "--json", code=1).out)
    assert record["files"] == 3 and len(record["unread"]) == 1
    assert record["names"][1]["name"] == "jax.absent"
    assert record["names"][1]["places"] == [{"file": "a.py", "line": 2},
                                            {"file": "a.py", "line": 4}]
    assert "present" not in calque("compat", "scan", "code/b.py", "--absent").out
    said = calque("compat", "scan", "gone", code=2).err
    assert "there is no folder gone" in said and "Fix:" in said
