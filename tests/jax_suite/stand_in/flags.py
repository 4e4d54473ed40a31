"""JAX's configuration flags as its tests use them: `config.enable_x64(True)`, `config.x.value`.

A flag that calque has is calque's; one that it lacks is a value in STORE that nothing reads.
"""
from __future__ import annotations

import contextlib
import enum
import os
from collections.abc import Callable, Iterator
from typing import Any

from stand_in.private import Private, PrivateUse

STORE: dict[str, Any] = {"jax_enable_checks": None, "jax_legacy_prng_key": None,
                         "jax_numpy_rank_promotion": None}
NAMES = [
    "enable_x64", "numpy_dtype_promotion", "numpy_rank_promotion", "debug_nans", "debug_infs",
    "disable_jit", "log_compiles", "default_device", "default_matmul_precision",
    "default_prng_impl", "check_tracer_leaks", "enable_custom_prng", "threefry_partitionable",
    "traceback_filtering", "enable_checks", "legacy_prng_key", "enable_compilation_cache",
    "debug_key_reuse", "use_direct_linearize", "use_simplified_jaxpr_constants",
    "eager_constant_folding", "_check_vma", "softmax_custom_jvp", "mutable_array_checks",
    "check_static_indices", "explain_cache_misses", "num_cpu_devices",
    "captured_constants_warn_bytes", "use_emit_pipeline_primitive", "random_seed_offset",
    "remove_size_one_mesh_axis_from_type", "auto_pcast", "enable_remat_opt_pass",
    "explicit_x64_dtypes", "disable_bwd_checks"]


class Flag:
    """A flag: calling it gives a context manager, `value` reads it."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def value(self) -> Any:
        return read(self.name)

    @value.setter
    def value(self, value: Any) -> None:
        STORE[self.name] = value

    @contextlib.contextmanager
    def __call__(self, value: Any = None) -> Iterator[None]:
        import jax
        if self.name in jax.config.values and not isinstance(
                value, str | bool | int | type(None)):
            value = getattr(value, "value", value)  # a member of an enumeration
        own = getattr(jax, self.name.removeprefix("jax_"), None)
        if self.name in jax.config.values and own and self.name != "jax_num_cpu_devices":
            with own(value):
                yield
            return
        before = read(self.name)
        update(self.name, value)
        try:
            yield
        finally:
            update(self.name, before)

    def set_local(self, value: Any) -> None:
        raise PrivateUse(f"config.{self.name}.set_local")

    set_global = swap_local = set_local

    def get_local(self) -> Any:
        return self.value

    get_global = get_local

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Private(f"jax._src.config.{self.name}.{name}")

    def __bool__(self) -> bool:
        raise PrivateUse(self.name)


class Flags(dict[str, Flag]):
    """A flag for each name that is asked for."""

    def __missing__(self, name: str) -> Flag:
        self[name] = Flag(name)
        return self[name]


FLAGS = Flags()


class View:
    """jax.config for the tests' helpers: calque's, and the flags in STORE."""

    @property
    def values(self) -> dict[str, Any]:
        import jax
        return {n: v for n, v in jax.config._values.items() if n in jax.config.values}

    def __getattr__(self, name: str) -> Any:
        import jax
        if name.startswith("__"):
            raise AttributeError(name)
        return STORE[name] if name in STORE else getattr(jax.config, name)

    def update(self, name: str, value: Any) -> None:
        update(name, value)


def update(name: str, value: Any) -> None:
    import jax
    if name in jax.config.values:
        jax.config.update(name, value)
    else:
        STORE[name] = value


def read(name: str) -> Any:
    import jax
    return jax.config.values[name] if name in jax.config.values else STORE.get(name)


class Option:
    """A flag of the tests' own (`bool_flag(name, default, help)`)."""

    def __init__(self, name: str, default: Any, *args: Any, **kwargs: Any) -> None:
        self.name, self.value = name, default
        STORE[name] = default

    def __call__(self, value: Any) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


class NumpyDtypePromotion(enum.StrEnum):
    STANDARD = "standard"
    STRICT = "strict"


class ExplicitX64Mode(enum.IntEnum):
    WARN = 1
    ERROR = 2
    ALLOW = 3


def _bool_of_environment(name: str, default: bool) -> bool:
    value = os.environ.get(name)
    return default if value is None else value.lower() in ("1", "true", "yes", "on", "y", "t")


class ContextMesh:
    """The context's mesh, which tests take away in the end."""

    def set_local(self, value: Any) -> None:
        import jax
        jax.set_mesh(None)


def config_module() -> dict[str, Any]:
    """The names of jax._src.config."""
    view = View()
    none: Callable[[], None] = lambda: None  # noqa: E731
    names: dict[str, Any] = {
        "config": view, "FLAGS": view, "update": update, "_read": read, "config_states": FLAGS,
        "bool_flag": Option, "int_flag": Option, "string_flag": Option, "float_flag": Option,
        "enum_flag": Option, "bool_env": _bool_of_environment,
        "int_env": lambda name, default: int(os.environ.get(name, default)),
        "parse_flags_with_absl": none, "NumpyDtypePromotion": NumpyDtypePromotion,
        "ExplicitX64Mode": ExplicitX64Mode,
        "checking_leaks": lambda: FLAGS["jax_check_tracer_leaks"](True)}
    names |= {name: FLAGS[f"jax_{name.lstrip('_')}"] for name in NAMES}
    names |= {name: FLAGS[name] for name in (
        "jax_export_calling_convention_version", "jax_pallas_use_mosaic_gpu")}
    names |= {name: ContextMesh() for name in ("abstract_mesh_context_manager", "device_context")}
    for name, value in (("use_shardy_partitioner", True), ("custom_vjp3", False)):
        names[name] = Option(name, value)
    return names
