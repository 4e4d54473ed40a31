"""Which name of JAX's is which module of ours, and the finder that answers imports of them.

`jax.numpy` is `calque.numpy`, the same object, and so on for every public module.  `jax` itself is
a module of its own: it has calque's names and JAX's version, and says of a name that it is absent.
Private modules are made from private.py when they are imported.  Start reading at `install`.
"""
from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import pathlib
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import calque_as_jax

import calque
from calque.compat import addresses, identity, libraries, private, versions
from calque.core.config import config
from calque.core.errors import explain
from calque.core.refused import suggestion

JAX_VERSION = private.JAX_VERSION
assert libraries.MODULES is addresses.MODULES is private.MODULES  # (their rows are in it)
TOPS = ("jax", "jaxlib")

# JAX's modules that are modules of ours, by name; others of the same name below need no row
SAME = {
    "jax.ad", "jax.ad_checkpoint", "jax.api_util", "jax.core", "jax.custom_batching",
    "jax.custom_derivatives", "jax.debug", "jax.dlpack", "jax.dtypes", "jax.errors",
    "jax.example_libraries", "jax.example_libraries.optimizers", "jax.example_libraries.stax",
    "jax.distributed", "jax.experimental.buffer_callback", "jax.experimental.checkify",
    "jax.experimental.colocated_python",
    "jax.experimental.compilation_cache", "jax.experimental.custom_partitioning",
    "jax.experimental.compute_on", "jax.experimental.jet", "jax.experimental.key_reuse",
    "jax.experimental.layout", "jax.experimental.mesh_utils",
    "jax.experimental.multihost_utils", "jax.experimental.ode",
    "jax.experimental.pallas", "jax.experimental.pjit",
    "jax.experimental.random", "jax.experimental.rnn", "jax.experimental.scheduling_groups",
    "jax.experimental.serialize_executable", "jax.experimental.shard_alike",
    "jax.experimental.shard_map",
    "jax.experimental.sparse", "jax.experimental.sparse.linalg",
    "jax.experimental.topologies", "jax.experimental.xla_metadata", "jax.export", "jax.extend",
    "jax.extend.backend", "jax.extend.lowering", "jax.extend.mlir", "jax.extend.xla", "jax.ffi",
    "jax.extend.core", "jax.extend.core.primitives", "jax.extend.linear_util", "jax.extend.random",
    "jax.extend.source_info_util", "jax.flatten_util", "jax.image", "jax.interpreters",
    "jax.interpreters.ad", "jax.interpreters.batching", "jax.interpreters.mlir",
    "jax.interpreters.partial_eval", "jax.interpreters.pxla", "jax.interpreters.xla", "jax.lax",
    "jax.lax.linalg", "jax.memory", "jax.monitoring", "jax.nn", "jax.nn.initializers", "jax.numpy",
    "jax.numpy.fft", "jax.numpy.linalg", "jax.ops", "jax.profiler", "jax.random", "jax.ref",
    "jax.scipy", "jax.scipy.cluster", "jax.scipy.cluster.vq", "jax.scipy.fft",
    "jax.scipy.integrate", "jax.scipy.interpolate", "jax.scipy.linalg", "jax.scipy.ndimage",
    "jax.scipy.optimize", "jax.scipy.signal", "jax.scipy.sparse", "jax.scipy.sparse.linalg",
    "jax.scipy.spatial", "jax.scipy.spatial.transform", "jax.scipy.special", "jax.scipy.stats",
    "jax.sharding", "jax.stages", "jax.test_util", "jax.tree", "jax.tree_util",
    "jax.typing"}
SAME |= {f"jax.scipy.stats.{n}" for n in calque.scipy.stats.__all__
         if isinstance(getattr(calque.scipy.stats, n), types.ModuleType)}


def installed() -> bool:
    """Whether `import jax` gives calque.

    Returns:
      A bool.

    Raises:
      Nothing.

    Example:
      >>> import calque.compat
      >>> isinstance(calque.compat.installed(), bool)
      True
    """
    return isinstance(sys.modules.get("jax"), _Module)


def install() -> None:
    """Make `import jax` and `import jaxlib` give calque, in this process and those it starts.

    The random stream is today's JAX's (jax_threefry_partitionable), as libraries expect, unless
    the environment says otherwise.  Child processes are told by the variable CALQUE_AS_JAX, which
    is set in os.environ (and PYTHONPATH, where calque is not installed by pip); one that is 0
    stays, and children are left as they are.  Where another jax is installed, a line on stderr
    says that this one is used in its place; CALQUE_AS_JAX=quiet leaves that out.

    Returns:
      Nothing; a second call does nothing.

    Raises:
      ImportError: jax is imported already.

    Example:
      >>> import subprocess, sys
      >>> code = "import calque.compat as c; c.install(); import jax; print(jax.__version__)"
      >>> print(subprocess.run([sys.executable, "-c", code], capture_output=True).stdout.decode())
      0.10.2
      <BLANKLINE>
    """
    if installed():
        return
    finder()
    importlib.import_module("jax")


def finder() -> _Finder:
    """The finder, in its place: jax is calque's from now on, and imported by nobody yet."""
    for found in sys.meta_path:
        if isinstance(found, _Finder):
            return found
    there = [m for m in TOPS if m in sys.modules]
    if there:
        raise ImportError(explain(
            f"calque.compat.install: {there[0]} is already imported, from "
            f"{getattr(sys.modules[there[0]], '__file__', 'elsewhere')}.",
            fix="call calque.compat.install() before the first import of jax and of every library "
            "that imports it, or run the program by python -m calque.compat prog.py."))
    said = _say_which()
    calque_as_jax.disarm()
    made = _Finder()
    sys.meta_path.insert(0, made)
    calque_as_jax.for_children(os.environ, "quiet" if said else "1")
    if "JAX_THREEFRY_PARTITIONABLE" not in os.environ:
        config.update("jax_threefry_partitionable", True)
    identity.rename_types()
    return made


def _say_which() -> bool:
    """Say that another jax is installed, unless it was said; whether children are to be quiet."""
    if os.environ.get(calque_as_jax.VARIABLE) == "quiet":
        return True
    other = importlib.machinery.PathFinder.find_spec("jax")
    if other is None or other.origin is None:
        return False
    print(f"calque.compat: `import jax` gives calque {calque.__version__}, here and in child "
          f"processes, not the jax in {os.path.dirname(other.origin)}.\n  (For that one: no "
          f"calque.compat, and no {calque_as_jax.VARIABLE} in the environment.)", file=sys.stderr)
    return True


class _Module(types.ModuleType):
    """A module of JAX's that is made here; `rest` is asked for what it lacks."""

    def __init__(self, name: str, names: dict[str, Any] | None = None, rest: Any = None) -> None:
        super().__init__(name, f"{name}, as calque.compat has it.")
        self.__file__ = calque.__file__
        self.__dict__.update(names or {})
        self.__dict__["_rest"] = rest
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        rest = self.__dict__.get("_rest")
        if rest is not None and not name.startswith("__") and hasattr(rest, name):
            found = getattr(rest, name)
            if vars(rest).get(name) is found:  # (nnx asks for a hundred names in a step)
                self.__dict__[name] = found  # Python finds it by itself from now on
            return found
        if not name.startswith("__"):
            inner = f"{self.__name__}.{name}"
            if inner in SAME or inner in private.MODULES:
                return importlib.import_module(inner)
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        raise AttributeError(_absent(self.__name__, name, [*dir(rest), *self.__dict__]),
                             name=None, obj=self)  # (no name: none of Python's suggestions behind)

    def __dir__(self) -> list[str]:
        rest = self.__dict__.get("_rest")
        own = [n for n in self.__dict__ if n != "_rest"]
        return sorted({*own, *(dir(rest) if rest is not None else [])})


def _absent(module: str, name: str, names: Sequence[str]) -> str:
    return explain(f"module {module!r} has no attribute {name!r} (calque.compat has not this name "
                   "of JAX's).", where="", fix=f"{suggestion(module, name, tuple(names))}.")


class _Finder:
    """Finds jax, jaxlib and what lies in them; answers for their distributions (importlib calls
    find_spec, find_distributions and invalidate_caches)."""

    def find_spec(self, name: str, path: Any = None, target: Any = None
                  ) -> importlib.machinery.ModuleSpec | None:
        if name.split(".")[0] not in TOPS:
            versions.check(name)
            return None
        if name not in TOPS and name not in SAME and name not in private.MODULES and not (
                # a module within one of ours: it is that, and not loaded a second time
                name.rpartition(".")[0] in SAME and importlib.util.find_spec(_our_name(name))):
            return None
        return importlib.machinery.ModuleSpec(name, _Loader(), origin=calque.__file__,
                                              is_package=True)

    def find_distributions(self, context: Any = None) -> Iterator[importlib.metadata.Distribution]:
        wanted = getattr(context, "name", None)
        for name in TOPS:
            if wanted is None or wanted.lower().replace("-", "_") == name:
                yield _Distribution(name)

    def invalidate_caches(self) -> None:
        """Nothing is cached."""


class _Distribution(importlib.metadata.Distribution):
    """What importlib.metadata says of jax and jaxlib (it calls read_text and locate_file)."""

    def __init__(self, name: str) -> None:
        self._is = name

    def read_text(self, filename: str) -> str | None:
        if filename == "METADATA":
            return f"Metadata-Version: 2.1\nName: {self._is}\nVersion: {JAX_VERSION}\n"
        if filename == "top_level.txt":
            return self._is
        return None

    def locate_file(self, path: Any) -> Any:
        return pathlib.Path(calque.__file__).parent / path


def _make(name: str) -> types.ModuleType:
    """A module of JAX's that is none of ours."""
    if name == "jax":
        return _Module("jax", _versions(), calque)
    if name == "jaxlib":
        return _Module("jaxlib", _versions())
    make: Callable[[], dict[str, Any]] = private.MODULES[name]
    return _Module(name, make(), _ours(name))


def look_up(name: str) -> tuple[str, str, str]:
    """Whether a name of JAX's is there, without installing anything.

    Returns:
      The name up to what is no module, or is absent; present, stub (it raises when it is used) or
      absent; and what is said to whoever asks for one that is absent.
    """
    here, *rest = name.split(".")
    module: Any = _make(here)
    for part in rest:
        inner = f"{here}.{part}"
        if inner in SAME or inner in private.MODULES:
            here = inner
            module = _ours(here) if here in SAME else _make(here)
            continue
        try:
            found = getattr(module, part)
        except AttributeError as error:
            return inner, "absent", str(error)
        if not isinstance(found, types.ModuleType):
            return inner, "stub" if hasattr(found, private.STUB) else "present", ""
        here, module = inner, found
    return here, "present", ""


class _Loader(importlib.abc.Loader):
    """Gives a module of ours under JAX's name, or makes one (importlib calls create_module and
    exec_module)."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        if _is_made(spec.name):
            return _make(spec.name)
        return types.ModuleType(spec.name)  # exec_module puts our module in its stead

    def exec_module(self, module: types.ModuleType) -> None:
        name = module.__name__
        if not _is_made(name):
            module = sys.modules[name] = importlib.import_module(_our_name(name))
            self._add_parts(name, module)
            if name in SAME:
                identity.rename(module, name)
        parent, _, last = name.rpartition(".")
        if parent and isinstance(sys.modules.get(parent), _Module):
            sys.modules[parent].__dict__[last] = module
        if name == "jax":
            identity.rename_loaded(SAME)

    def _add_parts(self, name: str, module: types.ModuleType) -> None:
        """The modules made here that JAX has within one of ours."""
        parts = [m for m in private.MODULES if m.rpartition(".")[0] == name]
        if parts and not hasattr(module, "__path__"):
            module.__path__ = []  # a package in JAX, a file here
        for part in parts:
            setattr(module, part.rpartition(".")[2], importlib.import_module(part))


def _is_made(name: str) -> bool:
    return name in TOPS or name in private.MODULES and name not in SAME


def _our_name(name: str) -> str:
    return "calque" + name[len("jax"):]


def _ours(name: str) -> Any:
    """The module of ours that a made one stands beside, if there is one."""
    try:
        return importlib.import_module(_our_name(name))
    except ImportError:
        return None


_versions = private.MODULES["jax.version"]
