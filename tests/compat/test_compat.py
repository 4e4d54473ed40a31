"""calque.compat: programs that import jax run on calque, in processes of their own."""
from __future__ import annotations

import pathlib
import subprocess
import sys

from calque.compat.versions import RUN

PROGRAM = """
import importlib.metadata, sys
import jax, jax.numpy as jnp, jax.scipy.stats.norm, jaxlib
from jax import lax, random, tree_util
from jax.experimental import io_callback, checkify, hijax, pallas as pl
from jax.experimental.shard_map import shard_map
from jax.extend.core import Primitive, primitives
from jax.interpreters import ad, batching, mlir
from jax.scipy.sparse.linalg import cg
from jax._src import dtypes, core as _core
from jax._src.lib.mlir.dialects import hlo
import calque
assert jax.jit is calque.jit and jnp is calque.numpy and jax.numpy.linalg is calque.numpy.linalg
import jax.lax
assert sys.modules["jax.lax"] is lax is calque.lax and jax.interpreters.ad is ad
assert jnp.__name__ == "jax.numpy" and calque.numpy.__spec__.name == "calque.numpy"
assert jax.__version_info__ == (0, 10, 2) and jaxlib.__version__ == jax.version.__version__
assert importlib.metadata.version("jax") == importlib.metadata.version("JaxLib") == "0.10.2"
assert importlib.metadata.version("numpy") and jax.config.jax_threefry_partitionable
print(float(random.uniform(random.key(0))), sys.argv[1:])
assert _core.trace_state_clean() and not jax.jit(lambda x: _core.trace_state_clean())(1)
hijax.control_flow_allowed_effects.add_type(int)

# as a pickle of an array of JAX's asks for it
from jax._src.array import _reconstruct_array
parts = __import__("numpy").arange(3, dtype="float32").__reduce__()
loaded = [_reconstruct_array(*parts, {"weak_type": weak}) for weak in (False, True)]
assert [x.weak_type for x in loaded] == [False, True] and loaded[0].tolist() == [0, 1, 2]

# the document's lowering in MLIR
p = Primitive("multiply_add")
p.def_abstract_eval(lambda x, y, z: jax.core.ShapedArray(x.shape, x.dtype))
mlir.register_lowering(p, lambda ctx, x, y, z: [hlo.AddOp(hlo.MulOp(x, y), z).result],
                       platform="cpu")
assert jax.jit(p.bind)(2.0, 3.0, 4.0) == 10

assert pl is calque.experimental.pallas and pl.pallas_call(
    lambda x, o: o.__setitem__(..., x[...] * 2), jax.ShapeDtypeStruct((2,), jnp.float32),
    interpret=True)(jnp.ones(2)).sum() == 4

# every module that JAX has, too
import importlib, pkgutil
for module in pkgutil.iter_modules(calque.experimental.__path__):
    if module.name not in ("checks", "dormand_prince", "series", "sharding_rules"):  # (parts)
        importlib.import_module(f"jax.experimental.{module.name}")

for name, code in (("AttributeError", "jax.nonsense"), ("AttributeError", "jax.devicse"),
                   ("ImportError", "import jax.nonsense"),
                   ("ImportError", "import jax._src.pallas"),
                   ("ImportError", "from jax.experimental.pallas import tpu"),
                   ("NotImplementedError", "hijax.HiPrimitive('p').bind()")):
    try:
        exec(code)
    except Exception as e:
        assert name in [k.__name__ for k in type(e).__mro__], (code, repr(e))
        print(code, "->", str(e).replace("\\n", " "))
"""


def run(*args: str, cwd: pathlib.Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *args], capture_output=True, text=True, cwd=cwd)


def test_a_program_runs(tmp_path: pathlib.Path) -> None:
    (tmp_path / "beside.py").write_text("here = True")
    (tmp_path / "prog.py").write_text("import beside\n" + PROGRAM)
    done = run("-m", "calque.compat", "prog.py", "a", "-b", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first, *rest = done.stdout.splitlines()
    number, _, words = first.partition(" ")
    assert abs(float(number) - 0.947667) < 1e-6  # today's stream, which jax 0.10.2 gives
    assert words == "['a', '-b']" and len(rest) == 6
    assert rest[0].startswith("jax.nonsense -> module 'jax' has no attribute 'nonsense'")
    assert "Fix: did you mean jax.devices? docs/jax_names.md lists" in rest[1]


def test_a_library_of_another_version_is_warned_of() -> None:
    required = (pathlib.Path(__file__).parents[1] / "clients" / "requirements.txt").read_text()
    pins = {f"{name}=={version}" for name, version in RUN.values()}
    assert pins <= set(required.split())
    code = ("import calque.compat, importlib.metadata as m, sys, warnings\n"
            "m.version = lambda name: '9.9'\n"
            "calque.compat.install()\n"
            "with warnings.catch_warnings(record=True) as seen:\n"
            "    warnings.simplefilter('always')\n"
            "    for _ in range(2):\n"
            "        try: import optax\n"
            "        except ImportError: pass\n"
            "print(*[w.message for w in seen if 'optax 9.9' in str(w.message)], sep='|')")
    done = run("-c", code)
    said = "calque.compat: optax 9.9 was not run with calque; 0.2.8 was"
    assert done.stdout.startswith(said), done
    assert done.stdout.count("was not run") == 1


def test_modules_and_code_run(tmp_path: pathlib.Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "__main__.py").write_text(
        "import sys, jax\nprint(jax.__version__, sys.argv[1:], __name__)")
    done = run("-m", "calque.compat", "-m", "inside", "x", cwd=tmp_path)
    assert done.stdout == "0.10.2 ['x'] __main__\n", done.stderr
    code = "import jax, sys; print(jax.jit(abs)(-2), sys.argv)"
    done = run("-m", "calque.compat", "-c", code, "y")
    assert done.stdout == "2 ['-c', 'y']\n", done.stderr
    for args, said in ((("-m",), "takes an argument"), (("gone.py",), "there is no file gone.py")):
        done = run("-m", "calque.compat", *args)
        assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr
    assert run("-m", "calque.compat", "--help").stdout.startswith("usage: python -m calque.compat")


def test_the_order_of_imports(tmp_path: pathlib.Path) -> None:
    """With a jax imported already an error says the order; without compat nothing is there."""
    (tmp_path / "jax.py").write_text("")
    done = run("-c", "import jax, calque.compat as c\nc.install()", cwd=tmp_path)
    assert "ImportError" in done.stderr and "jax is already imported, from" in done.stderr
    assert "Fix: call calque.compat.install() before the first import of jax" in done.stderr
    code = ("import calque.compat as c, sys\nassert 'jax' not in sys.modules\n"
            "assert not c.installed(); c.install(); c.install(); import jax\n"
            "assert c.installed() and jax.jit")
    assert run("-c", code).returncode == 0
