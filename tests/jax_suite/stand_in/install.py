"""Makes `import jax` calque, with modules in the place of `jax._src.*` and `jaxlib.*`.

JAX's own test helpers (FROM_JAX) are read from the installed jax and run on that.  A private
module has the names of counterparts.GIVEN, of calque.compat.private, then of its public
counterparts; any other name of it is a Private object.  Names that calque lacks, and whole files
import, are given by `_absent_names`: the tests that need them count as `missing`.
"""
from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import pathlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from stand_in.counterparts import GIVEN, PUBLIC
from stand_in.flags import FLAGS, read
from stand_in.private import Private, PrivateUse

FROM_JAX = {"public_test_util", "test_util", "test_loader", "test_warning_util", "lax_reference",
            "internal_test_util.lax_test_util", "internal_test_util",
            "internal_test_util.test_harnesses", "hypothesis_test_util",
            "pallas.pallas_test_util"}
# parts of Pallas for one backend, which calque leaves out by name
BACKENDS = {"jax.experimental.mosaic", "jax.experimental.mosaic.gpu",
            *(f"jax.experimental.pallas.{n}" for n in (
                "fuser", "mosaic_gpu", "ops", "tpu", "tpu_sc", "triton"))}


class PrivateModule(types.ModuleType):
    """A module of jax._src or jaxlib."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "in the place of a private module of JAX's")
        from calque.compat import private
        self.__path__: list[str] = []
        self._short = name.removeprefix("jax._src.")
        if name in private.MODULES:
            with contextlib.suppress(Exception):
                self.__dict__.update(private.MODULES[name]())
        if self._short in GIVEN:
            self.__dict__.update(GIVEN[self._short]())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        full = f"{self.__name__}.{name}"
        short = full.removeprefix("jax._src.")
        if short in GIVEN or short in PUBLIC or short in FROM_JAX:
            return importlib.import_module(full)
        if not name.startswith("_"):
            for place in PUBLIC.get(self._short, ()):
                with contextlib.suppress(ImportError):
                    module = importlib.import_module(f"calque.{place}".rstrip("."))
                    if hasattr(module, name):
                        return getattr(module, name)
        if name == "ArrayImpl":
            import jax.numpy as jnp
            return type(jnp.ones(()))
        return Private(full)


class Loader(importlib.abc.Loader):
    """Makes modules of a class."""

    def __init__(self, kind: Callable[[str], types.ModuleType]) -> None:
        self.kind = kind

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return self.kind(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


class Checkout:
    """Finds test helpers of JAX's checkout (we are in its tests/) that are in no wheel."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None
                  ) -> importlib.machinery.ModuleSpec | None:
        file = pathlib.Path.cwd().parent / f"{name.replace('.', '/')}.py"
        if name.startswith("jax._src.") and name.endswith("_test_util") and file.exists():
            return importlib.util.spec_from_file_location(name, file)
        return None


class Finder(importlib.abc.MetaPathFinder):
    """Finds the modules above; JAX's test helpers in the installed jax."""

    def __init__(self, jax: pathlib.Path) -> None:
        self.jax = jax

    def find_spec(self, name: str, path: Any = None, target: Any = None
                  ) -> importlib.machinery.ModuleSpec | None:
        private = importlib.machinery.ModuleSpec(name, Loader(PrivateModule), is_package=True)
        if name in BACKENDS:
            return private
        if name.startswith("jax._src."):
            short = name.removeprefix("jax._src.")
            if short not in FROM_JAX:
                return private
            base = self.jax / "_src" / short.replace(".", "/")
            if base.is_dir():
                return importlib.util.spec_from_file_location(
                    name, base / "__init__.py", submodule_search_locations=[str(base)])
            if not base.with_suffix(".py").exists():
                return Checkout.find_spec(name)
            return importlib.util.spec_from_file_location(name, base.with_suffix(".py"))
        return private if name == "jax._src" or name.startswith("jaxlib.") else None


def install() -> None:
    """From here on `jax` is calque."""
    found = importlib.util.find_spec("jax")
    assert found is not None and found.origin is not None, "jax's test helpers are not installed"
    import calque.compat
    calque.compat.install()
    sys.meta_path.insert(0, Finder(pathlib.Path(found.origin).parent))
    for name in [m for m in sys.modules if m.startswith("jax._src")]:
        del sys.modules[name]
    import jax
    jax.__dict__["_src"] = importlib.import_module("jax._src")
    import jax._src.test_util as helpers
    for name in dir(helpers):  # counters of JAX's caches
        if name.startswith("count_") or name in (
                "assert_num_jit_and_pmap_compilations", "collect_lowered_jaxprs"):
            setattr(helpers, name, _counter(name))
    import jax.test_util
    for name in ("check_grads", "check_jvp", "check_vjp"):  # JAX's own checks of derivatives
        setattr(jax.test_util, name, getattr(helpers, name))
    type(jax.config)._read = lambda self, name: read(name)
    _sparse_modules(pathlib.Path(found.origin).parent)
    _absent_names(jax)


def _sparse_modules(jax: pathlib.Path) -> None:
    """jax.experimental.sparse's inner modules, and JAX's helpers of its tests."""
    import jax.experimental.sparse as sparse

    from stand_in.sparse import NAMES
    if not hasattr(sparse, "SparseTracer"):
        sparse.SparseTracer = Private("jax.experimental.sparse.SparseTracer")
    for inner, names in NAMES.items():
        name = f"jax.experimental.sparse.{inner}"
        sys.modules[name] = PrivateModule(name)
        sys.modules[name].__dict__.update(names)
        setattr(sparse, inner, sys.modules[name])
    name = "jax.experimental.sparse.test_util"
    spec = importlib.util.spec_from_file_location(
        name, jax / "experimental" / "sparse" / "test_util.py")
    assert spec is not None and spec.loader is not None
    sys.modules[name] = sparse.test_util = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])


def _counter(name: str) -> Callable[..., Any]:
    @contextlib.contextmanager
    def count(*args: Any, **kwargs: Any) -> Iterator[None]:
        raise PrivateUse(f"test_util.{name}")
        yield
    return count


def _absent_names(jax: Any) -> None:
    """Public names that calque lacks: the rest of a file runs."""
    for name in [
        "enable_checks", "legacy_prng_key", "debug_key_reuse", "auto_pcast", "softmax_custom_jvp",
        "explain_cache_misses", "no_tracing", "no_execution", "transfer_guard",
        "remove_size_one_mesh_axis_from_type", "transfer_guard_device_to_host",
        "transfer_guard_host_to_device", "transfer_guard_device_to_device"]:
        if not hasattr(jax, name):
            jax.__dict__[name] = FLAGS[f"jax_{name}"]
    import jax.experimental
    import jax.sharding
    for module, names in ((jax.sharding, "AbstractDevice make_single_device_sharding "
                           "ManualAxisType"),
                          (jax.experimental, "primal_tangent_dtype cur_qdd EArray")):
        for name in names.split():
            if not hasattr(module, name):
                setattr(module, name, Private(f"MISSING {module.__name__}.{name}"))
    shape = jax.ShapeDtypeStruct
    if not hasattr(shape, "update"):
        shape.update = lambda self, **k: shape(k.get("shape", self.shape),
                                               k.get("dtype", self.dtype))
    if not hasattr(jax, "float0"):
        jax.__dict__["float0"] = jax.dtypes.float0
