"""What things say they are under `import jax`, as libraries ask; nothing is renamed before.

One process is enough: what is asked stands in PROGRAM, whose last line ends the test.
"""
from __future__ import annotations

import subprocess
import sys

import pytest

import calque
import calque.numpy as jnp

PROGRAM = """
import copy, importlib.metadata, importlib.util, inspect, pickle, sys, typing
import calque
before = calque.sharding.NamedSharding, typing.get_type_hints(calque.core.ShapedArray)
import jax, jax.numpy as jnp

def says(x):
    return x.__module__.split(".")[0]

x, seen = jnp.ones((2, 3)), []
def f(v):
    seen.append(says(type(v)))
    return v.sum()
f(x), jax.jit(f)(x), jax.grad(f)(x), jax.vmap(f)(x), jax.jvp(f, (x,), (x,))
assert set(seen) <= {"jax", "jaxlib"} and len(seen) == 5, seen
things = [jax.devices()[0], jax.jit(f), jax.tree.structure([1]), x.sharding, jax.typeof(x),
          jax.ShapeDtypeStruct((1,), "float32"), jax.random.key(0), jax.devices()[0].client]
assert {says(type(t)) for t in things} <= {"jax", "jaxlib"}, things
assert type(jax.jit(f)).__name__ == "PjitFunction"
names = [jnp.sin, jnp.add, jax.jit, jax.lax.scan, jax.random.normal, jax.nn.relu, jnp.linalg.norm,
         jax.tree.map, jax.scipy.special.erf, jax.scipy.stats.norm.pdf, jax.Array, jnp.float32,
         jax.sharding.Mesh, jax.errors.TracerBoolConversionError, jax.nn.initializers.zeros]
assert {says(n) for n in names} <= {"jax", "jaxlib"}, names
assert all(pickle.loads(pickle.dumps(n)) is n and copy.deepcopy(n) is n for n in names)
assert all(n.__module__ in sys.modules for n in names)
things[1] = jax.jit(jnp.sin)
again = pickle.loads(pickle.dumps([things[i] for i in (1, 2, 3, 5, 6)]))
assert [type(a) for a in again] == [type(things[i]) for i in (1, 2, 3, 5, 6)]

modules = "numpy lax random nn core tree_util sharding numpy.linalg dtypes interpreters.ad stages"
for name in modules.split():
    module = sys.modules["jax." + name]
    assert module.__name__ == "jax." + name and module is sys.modules["calque." + name], name
assert {"jaxlib", "jaxlib.xla_client", "jax.version"} <= set(sys.modules)
assert importlib.util.find_spec("jax").origin and jax.__file__ and inspect.getsourcefile(jax)
assert inspect.getsourcefile(jnp.sin) and "def jit" in inspect.getsource(jax.jit)
assert importlib.metadata.packages_distributions()["jax"] == ["jax"]
import jax.numpy.picking as one, calque.numpy.picking as other
assert one is other, "loaded a second time"
assert before == (jax.NamedSharding, typing.get_type_hints(jax.core.ShapedArray))

try:
    from jaxtyping import Array, Float, Key
    assert isinstance(jax.random.key(0), Key[Array, ""]) and isinstance(x, Float[Array, "2 3"])
    assert not isinstance(x, Float[Array, "3 2"])
except ImportError:
    pass
try:
    import autoray
    assert autoray.infer_backend(x) == "jax" and autoray.get_lib_fn("jax", "cos") is jnp.cos
except ImportError:
    pass
print("all is JAX's")
"""


def test_things_say_they_are_jaxs() -> None:
    done = subprocess.run([sys.executable, "-m", "calque.compat", "-c", PROGRAM],
                          capture_output=True, text=True)
    assert done.stdout == "all is JAX's\n", done.stderr


@pytest.mark.parametrize("found", [calque.jit, calque.Array, jnp.sin, calque.sharding.Mesh,
                                   calque.errors.TracerBoolConversionError])
def test_nothing_is_renamed_before(found: type) -> None:
    assert found.__module__.partition(".")[0] == "calque" and jnp.__name__ == "calque.numpy"


def test_scipys_own_names_of_namespaces() -> None:
    """SciPy and array-api-compat know a namespace by its name."""
    helpers = pytest.importorskip("scipy._lib.array_api_compat.common._helpers")
    code = ("import jax.numpy as jnp\n"
            "from scipy._lib.array_api_compat.common import _helpers as h\n"
            "x = jnp.ones(2)\n"
            "print(h.is_jax_array(x), h.is_jax_namespace(jnp), h.array_namespace(x) is jnp)")
    done = subprocess.run([sys.executable, "-m", "calque.compat", "-c", code],
                          capture_output=True, text=True)
    assert done.stdout == "True True True\n" and helpers, done.stderr
