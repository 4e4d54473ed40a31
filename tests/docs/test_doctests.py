"""Every public name has a docstring with all its parts, and its example runs as it stands.

A function has Args (where it has parameters), Returns, Raises and Example; a class an Example; an
error class a failing and a mended example (or, if it is a base or never raised, an Example); the
methods of arrays an Example; the methods of other classes a sentence.
"""
from __future__ import annotations

import doctest
import functools
import importlib.util
import inspect
import types
from collections.abc import Iterator
from typing import Any

import pytest
from support.harness import drawn

import calque
import calque.numpy
from calque import errors, lax, models, random, runtime, tree, tree_util
from calque.numpy.at import At, Ref

MODULES = {"calque": calque, "api_util": calque.api_util, "core": calque.core,
           "checkpoints": calque.checkpoints,
           "debug": calque.debug, "errors": errors,
           "distributed": calque.distributed, "experimental": calque.experimental,
           "experimental.checkify": calque.experimental.checkify, "ad": calque.ad,
           "ref": calque.ref, "extend.random": calque.extend.random,
           "extend.backend": calque.extend.backend,
           "experimental.colocated_python": calque.experimental.colocated_python,
           "experimental.multihost_utils": calque.experimental.multihost_utils,
           "experimental.pallas": calque.experimental.pallas,
           "experimental.sparse": calque.experimental.sparse,
           "experimental.sparse.linalg": calque.experimental.sparse.linalg,
           "export": calque.export,
           "example_libraries": calque.example_libraries,
           "example_libraries.optimizers": calque.example_libraries.optimizers,
           "example_libraries.stax": calque.example_libraries.stax,
           "extend": calque.extend, "extend.core": calque.extend.core,
           "extend.mlir": calque.extend.mlir,
           "experimental.compilation_cache.compilation_cache":
               calque.experimental.compilation_cache.compilation_cache,
           "extend.linear_util": calque.extend.linear_util,
           "extend.source_info_util": calque.extend.source_info_util,
           "flatten_util": calque.flatten_util, "interpreters": calque.interpreters,
           **{f"interpreters.{n}": getattr(calque.interpreters, n)
              for n in calque.interpreters.__all__},
           "lax": lax, "lax.linalg": lax.linalg,
           "monitoring": calque.monitoring, "profiler": calque.profiler,
           "nn": calque.nn, "nn.initializers": calque.nn.initializers, "ops": calque.ops,
           "numpy": calque.numpy, "numpy.fft": calque.numpy.fft,
           "numpy.linalg": calque.numpy.linalg, "random": random,
           "runtime": runtime, "models": models,
           "dlpack": calque.dlpack, "image": calque.image,
           "scipy": calque.scipy, "scipy.fft": calque.scipy.fft,
           "scipy.cluster": calque.scipy.cluster, "scipy.cluster.vq": calque.scipy.cluster.vq,
           "scipy.integrate": calque.scipy.integrate,
           "scipy.interpolate": calque.scipy.interpolate, "scipy.ndimage": calque.scipy.ndimage,
           "scipy.spatial": calque.scipy.spatial,
           "scipy.spatial.transform": calque.scipy.spatial.transform,
           "scipy.linalg": calque.scipy.linalg, "scipy.optimize": calque.scipy.optimize,
           "scipy.sparse": calque.scipy.sparse, "scipy.sparse.linalg": calque.scipy.sparse.linalg,
           "scipy.signal": calque.scipy.signal,
           "scipy.special": calque.scipy.special,
           "scipy.stats": calque.scipy.stats,
           **{f"scipy.stats.{n}": getattr(calque.scipy.stats, n) for n in calque.scipy.stats.__all__
              if isinstance(getattr(calque.scipy.stats, n), types.ModuleType)},
           "test_util": calque.test_util, "tree": tree, "tree_util": tree_util}
if all(map(importlib.util.find_spec, ("aiohttp", "prometheus_client"))):
    MODULES["runtime.serving"] = importlib.import_module("calque.runtime.serving")
METHODS = {"Array": calque.Array, "at": At, "at[]": Ref,
           "config": type(calque.config), "ShapeDtypeStruct": calque.ShapeDtypeStruct}
# messages are long and tested elsewhere: an example of a failure names the error's class only
FLAGS = doctest.IGNORE_EXCEPTION_DETAIL


def public(module: types.ModuleType) -> dict[str, Any]:
    """The functions and classes of a module by name, each once (aliases share their docstring)."""
    found: dict[int, tuple[str, Any]] = {}
    for name in sorted(module.__all__):
        f = getattr(module, name)
        if isinstance(f, (types.FunctionType, type)) and (
                getattr(f, "__module__", "").startswith("calque")):
            found.setdefault(id(f), (name, f))
    return dict(found.values())


def methods(kind: type) -> dict[str, Any]:
    """The public methods and properties of a class."""
    return {name: f for name, f in vars(kind).items() if not name.startswith("_")
            and (callable(f) or isinstance(f, (property, staticmethod, functools.cached_property)))}


def documented() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, module in MODULES.items():
        yield name, public(module)
    for name, kind in METHODS.items():
        yield name, {**methods(kind), "": kind}


def parts_missing(f: Any) -> list[str]:
    doc = inspect.getdoc(f) or ""
    if isinstance(f, type) and issubclass(f, Exception):
        parts = ("Example:",) if "Fails" not in doc else ("Fails", "Mended")
    elif isinstance(f, type):
        parts = ("Example:",)
    else:
        parts = ("Args:", "Returns:", "Raises:", "Example:")[not inspect.signature(f).parameters:]
    return [s for s in parts if s not in doc]


# Examples are compiled: of modules with many a tenth by default, of half of the modules.
LONG = [group for group, found in documented() if len(found) > 5]


@pytest.mark.parametrize("group, more", [
    *[pytest.param(group, False, marks=[pytest.mark.slow] if i % 2 else [])
      for i, group in enumerate(dict(documented()))],
    *[pytest.param(group, True, marks=pytest.mark.slow) for group in LONG]])
def test_examples(group: str, more: bool) -> None:
    runner = doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
    failed = []
    names = list(dict(documented())[group].items())
    for name, f in drawn(names, 0.1, len(group))[more] if group in LONG else names:
        made = doctest.DocTestParser().get_doctest(inspect.getdoc(f) or "", {}, name, None, 0)
        if not made.examples:
            failed.append(f"{group}.{name} has no example")
        text: list[str] = []
        if runner.run(made, out=text.append).failed:
            failed.append("".join(text))
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("module", MODULES)
def test_docstrings_have_all_parts(module: str) -> None:
    missing = [f"{name}: {s}" for name, f in public(MODULES[module]).items()
               for s in parts_missing(f)]
    assert not missing


def test_methods_of_classes_have_a_sentence() -> None:
    from calque import jit
    kinds = {k.__name__: k for m in MODULES.values() for k in public(m).values()
             if isinstance(k, type) and k.__module__.startswith("calque")}
    kinds["JitFunction"] = type(jit(lambda: 0))
    bare = [f"{kind}.{name}" for kind, k in kinds.items() for name, f in methods(k).items()
            if not inspect.getdoc(f)]
    assert not bare


@pytest.mark.parametrize("module", MODULES)
def test_modules_show_their_public_names_only(module: str) -> None:
    """No helper, and none of what a module imports, is offered by `import *` or dir()."""
    names = set(MODULES[module].__all__)
    shown = {n: getattr(MODULES[module], n) for n in dir(MODULES[module]) if n[0] != "_"}
    below = {n for n, v in shown.items() if isinstance(v, types.ModuleType)
             and v.__name__ == f"{MODULES[module].__name__}.{n}"}  # (numpy.fft)
    assert set(shown) - below == names - below
    starred: dict[str, Any] = {}
    exec(f"from {MODULES[module].__name__} import *", starred)
    assert set(starred) - {"__builtins__"} == names
    foreign = {n for n, v in starred.items() if isinstance(v, types.FunctionType)
               and not v.__module__.startswith("calque")}
    assert not foreign


def test_signatures_do_not_leak_helpers() -> None:
    for module in MODULES.values():
        for name, f in public(module).items():
            assert f.__name__.lstrip("_") == f.__name__, name
