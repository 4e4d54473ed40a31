"""Names of JAX's that are left out on purpose, and what is here for libraries under its names."""
from __future__ import annotations

import functools
import gc
import importlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque.core.refused import REFUSED
from calque.extend import backend, core, linear_util


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    module, _, last = name.rpartition(".")
    found = importlib.import_module(f"calque.{module}")
    assert not hasattr(found, last) and last not in dir(found)
    with pytest.raises(AttributeError, match="Fix: "):
        getattr(found, last)
    with pytest.raises(AttributeError, match=r"has no attribute 'nonsense'"):
        found.nonsense  # noqa: B018


def told(f: Any) -> list[Any]:
    """What a function that is being transformed is told of where it is."""
    seen = []

    def inside(x: Any) -> Any:
        seen.append((core.unsafe_am_i_under_a_jit_DO_NOT_USE(),
                     core.unsafe_am_i_under_a_vmap_DO_NOT_USE(),
                     core.unsafe_get_axis_names_DO_NOT_USE(), core.nonempty_axis_env_DO_NOT_USE()))
        return x * 1.0
    f(inside)
    return seen[0]


def test_where_a_function_is() -> None:
    """What JAX 0.10.2 says."""
    x = jnp.ones(2)
    assert told(lambda f: f(x)) == (False, False, [], False)
    assert told(lambda f: calque.jit(f)(x)) == (True, False, [], False)
    assert told(lambda f: calque.vmap(f)(x)) == (False, True, [], False)
    assert told(lambda f: calque.vmap(f, axis_name="b")(x)) == (False, True, ["b"], True)
    assert told(lambda f: calque.grad(lambda x: f(x).sum())(x)) == (False, False, [], False)
    assert told(lambda f: calque.jit(calque.vmap(f, axis_name="b"))(x)) == (True, True, ["b"], True)
    assert told(lambda f: calque.make_jaxpr(calque.grad(f))(1.0)) == (True, False, [], False)


def test_caches_of_libraries() -> None:
    cache = functools.lru_cache(lambda n: n)
    backend.register_backend_cache(cache, "numbers")
    cache(1)
    backend.clear_backends()
    assert cache.cache_info().currsize == 0
    with pytest.raises(TypeError, match="has no cache_clear"):
        backend.register_backend_cache({}, "numbers")


def test_core_and_random() -> None:
    assert np.float32 in core.array_types and np.ndarray in core.array_types
    assert core.call_impl(linear_util.wrap_init(lambda x, y: [x + y]), 1, 2, name="f") == [3]
    from calque.extend.random import threefry2x32_p
    words = [jnp.zeros(1, jnp.uint32)] * 4
    # the test vector of Random123 for key 0 and counter 0
    for f in (threefry2x32_p.bind, calque.jit(threefry2x32_p.bind)):
        assert [int(x[0]) for x in f(*words)] == [0x6B200159, 0x99BA4EFE]
    both = calque.vmap(threefry2x32_p.bind, (None, None, 0, None))(
        *words[:2], jnp.zeros((3, 1), jnp.uint32), words[0])
    assert [x.tolist() for x in both] == [[[0x6B200159]] * 3, [[0x99BA4EFE]] * 3]


def test_arrays_in_cycles(capfd: pytest.CaptureFixture[str]) -> None:
    def cycle(n: int) -> None:
        held: list[Any] = [jnp.ones(n)]
        held.append(held)
    gc.collect()
    cycle(2)
    gc.collect()
    assert "garbage collector" not in capfd.readouterr().err
    with calque.array_garbage_collection_guard("log"):
        cycle(3)
        kept = jnp.ones(5)
        gc.collect()
        del kept
    said = capfd.readouterr().err
    assert said.count("was deleted by the Python garbage collector") == 1 and "float32[3]" in said
    with pytest.raises(ValueError, match="array_garbage"):
        calque.config.update("jax_array_garbage_collection_guard", "perhaps")


def test_fatal_cycles() -> None:
    code = ("import gc, calque, calque.numpy as jnp\n"
            "calque.config.update('jax_array_garbage_collection_guard', 'fatal')\n"
            "a = [jnp.ones(3)]; a.append(a); del a; gc.collect(); print('alive')")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode < 0 and "float32[3]" in done.stderr and "alive" not in done.stdout


def test_options_while_collecting() -> None:
    """(A ContextVar that is asked within its own `reset`, as a collection may ask, remembers what
    goes: later reads gave methods and tracebacks.)"""
    read = calque.config.read_while_collecting
    assert not read("jax_enable_x64")
    with calque.enable_x64(True):
        assert read("jax_enable_x64") and read("jax_debug_nans") is False
        with calque.enable_x64(False):
            assert not read("jax_enable_x64")
        assert read("jax_enable_x64")
    assert not read("jax_enable_x64")


def test_portable_artifacts() -> None:
    from calque import export
    from calque.extend import lowering, mlir
    e = export.export(calque.jit(lambda x: jnp.sin(x).sum()))(
        calque.ShapeDtypeStruct(export.symbolic_shape("n"), jnp.float32))
    with pytest.raises(ValueError, match="a size that is not fixed"):
        mlir.refine_polymorphic_shapes(e.mlir_module_serialized)
    outer = export.export(calque.jit(e.call))(jnp.ones(3))
    refined = mlir.refine_polymorphic_shapes(outer.mlir_module_serialized)
    module = mlir.deserialize_portable_artifact(refined, lowering.JaxIrContext())
    assert "stablehlo.sine" in str(module) and "tensor<3xf32>" in str(module)
