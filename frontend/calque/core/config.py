"""Options, under JAX's names.  `config.update(name, value)` sets one for the process; the context
managers (`enable_x64(True)`, ...) set one for the current thread and context.

`config.key()` is the tuple of the options that change what is traced or compiled: it is part of
every cache key, so it is kept ready.  Imports tables only (config_of_jax: options that say little
here).
"""
from __future__ import annotations

import contextlib
import contextvars
import difflib
import functools
import importlib
import itertools
import os
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from calque.core.config_of_jax import TAKEN
from calque.core.tables import from_row


@dataclass(frozen=True, slots=True)
class Option:
    """One option: default, what it accepts, whether programs depend on it."""

    name: str
    default: Any
    kind: str  # "bool", "int", "enum", "any"
    traced: bool
    help: str
    choices: tuple[Any, ...] = ()


_MATMUL = (None, "default", "high", "highest", "bfloat16", "bfloat16_3x", "tensorfloat32",
           "float32", "BF16_BF16_F32", "F32_F32_F32", "TF32_TF32_F32", "fastest")

_MISSING: Any = object()
_GUARDS = (None, "allow", "log", "disallow", "log_explicit", "disallow_explicit")
_DIRECTIONS = tuple(f"jax_transfer_guard_{d}" for d in (
    "host_to_device", "device_to_host", "device_to_device"))

OPTIONS = {o.name: o for o in (
    Option("jax_enable_x64", False, "bool", True, "64-bit dtypes are kept instead of cut to 32"),
    Option("jax_threefry_partitionable", False, "bool", True,
           "today's JAX random stream instead of the one the tutorials print"),
    Option("jax_high_dynamic_range_gumbel", False, "bool", True,
           "random.gumbel and categorical draw in mode 'high' where none is given"),
    Option("jax_numpy_dtype_promotion", "standard", "enum", True,
           "'strict' refuses implicit dtype promotion", ("standard", "strict")),
    Option("jax_numpy_rank_promotion", "allow", "enum", True,
           "'warn' or 'raise' when shapes of different rank broadcast", ("allow", "warn", "raise")),
    Option("jax_default_matmul_precision", None, "enum", True,
           "precision of dot_general where none is given", _MATMUL),
    Option("jax_debug_nans", False, "bool", True, "raise FloatingPointError when a result has NaN"),
    Option("jax_debug_infs", False, "bool", True, "raise FloatingPointError when a result is inf"),
    Option("jax_debug_key_reuse", False, "bool", True,
           "raise KeyReuseError where a typed key is used twice"),
    Option("jax_disable_jit", False, "bool", True,
           "jit runs the Python body operation by operation"),
    Option("jax_log_compiles", False, "bool", False, "log, as warnings, what is traced and why"),
    Option("jax_default_device", None, "any", True, "where new arrays are put"),
    Option("jax_platforms", None, "any", False,
           "comma-separated platforms to use: cpu,cuda,vulkan"),
    Option("jax_num_cpu_devices", 1, "int", False,
           "number of logical CPU devices (before first use)"),
    Option("jax_default_prng_impl", "threefry2x32", "enum", True, "key implementation",
           ("threefry2x32", "threefry4x32", "philox2x32", "philox4x32", "rbg", "unsafe_rbg")),
    Option("jax_enable_custom_prng", False, "bool", True, "PRNGKey gives typed keys, as key does"),
    Option("jax_check_tracer_leaks", False, "bool", True,
           "raise UnexpectedTracerError where a transformation ends while its values are held"),
    Option("jax_no_execution", False, "bool", True,
           "raise RuntimeError where a jitted function would run"),
    Option("jax_allow_f16_reductions", True, "bool", True,
           "lax.reduce_sum takes float16 and bfloat16"),
    Option("jax_platform_name", "", "any", False,
           "the platform to use where jax_platforms is not set"),
    Option("jax_compilation_cache_dir", None, "any", False,
           "folder in which compiled programs are kept (CALQUE_CACHE_DIR goes before it)"),
    Option("jax_enable_compilation_cache", True, "bool", False,
           "keep compiled programs on disk"),
    Option("jax_random_seed_offset", 0, "int", True, "is added to the seeds of keys"),
    Option("jax_legacy_prng_key", "allow", "enum", True,
           "'warn' or 'error' where a key is no typed one", ("allow", "warn", "error")),
    Option("jax_check_static_indices", False, "bool", True,
           "raise IndexError where a number or slice as an index is out of bounds"),
    Option("jax_auto_pcast", True, "bool", True,
           "inside shard_map, operands that vary over fewer axes than others are marked to vary"),
    Option("jax_thread_guard", False, "bool", False,
           "raise RuntimeError where another thread runs a program that sends messages between "
           "processes"),
    Option("jax_no_tracing", False, "bool", False,
           "raise RuntimeError where a function would be traced"),
    Option("jax_use_shardy_partitioner", True, "bool", True,
           "custom_partitioning wants sharding rules; without it, it asks its callbacks"),
    Option("jax_captured_constants_warn_bytes", 2_000_000_000, "int", False,
           "warn where a jitted function captures arrays of so many bytes; -1: never"),
    Option("calque_cpu", "host", "enum", True,
           "the CPU that code for CPU devices is compiled for",
           ("host", "x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64")),
    Option("calque_progress", True, "bool", False,
           "say on a terminal what is compiled when that takes more than a second"),
    Option("calque_collective_timeout_s", 600, "int", False,
           "seconds after which a message between processes that nobody answers is an error"),
    Option("jax_array_garbage_collection_guard", None, "enum", False,
           "'log' says which arrays were deleted because of a cycle of references, 'fatal' aborts",
           (None, "allow", "log", "fatal")),
    Option("jax_traceback_filtering", "auto", "enum", False, "hide calque's frames in tracebacks",
           ("auto", "off", "tracebackhide", "remove_frames", "quiet_remove_frames")),
    *(Option(name, None, "enum", False, "'disallow' raises where values move between Python's "
             "memory and devices, unless device_put or device_get asks for it", _GUARDS)
      for name in ("jax_transfer_guard", *_DIRECTIONS)),
    *(Option(name, default, {bool: "bool", int: "int"}.get(type(default), "any"), False,
             "taken as JAX takes it, and of no effect here")
      for name, (default, _) in TAKEN.items()),
)}
_USERS = "user_context_"  # before the number of a context of the user's
_told: set[str] = set()  # options of TAKEN that somebody set, and was told of


def _parse(option: Option, value: Any) -> Any:
    if option.name in TAKEN and value not in (option.default, "allow", "log"):
        said = TAKEN[option.name][1]
        if said and option.name not in _told:
            _told.add(option.name)
            warnings.warn(f"config: {option.name} has no effect here: {said}", stacklevel=3)
    if option.kind == "bool":
        if isinstance(value, str):
            text = value.strip().lower()
            if text in ("1", "true", "yes", "on"):
                return True
            if text in ("0", "false", "no", "off", ""):
                return False
        elif isinstance(value, (bool, int)):
            return bool(value)
        raise ValueError(f"config: {option.name} takes a bool, got {value!r}.")
    if option.kind == "int":
        return int(value)
    if option.kind == "enum":
        if value is None and None in option.choices:
            return None
        if value not in option.choices:
            raise ValueError(
                f"config: {option.name} takes one of {option.choices}, got {value!r}.")
    return value


class _Value:
    """An option as an attribute (`__getattr__`, which Python asks last, takes seven times as long:
    traces and eager calls read options all the time)."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, config: Config | None, owner: type) -> Any:
        if config is None:
            return self
        local = config._local.get()
        if local is not None and self.name in local:
            return local[self.name]
        return config._values[self.name]


class Config:
    """The options of the process, readable by name (`config.jax_enable_x64`).

    Every option is read from the environment at import (JAX_ENABLE_X64=1) and set by `update`; the
    context managers of calque (`enable_x64(True)`, ...) set one for a block.

    Example:
      >>> import calque
      >>> calque.config.jax_numpy_rank_promotion
      'allow'
    """

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._local: contextvars.ContextVar[dict[str, Any] | None] = contextvars.ContextVar(
            "calque_config", default=None)
        self.local_key: contextvars.ContextVar[tuple[Any, ...] | None] = contextvars.ContextVar(
            "calque_config_key", default=None)
        # more that traced programs depend on (the mesh of the context), and that keys then have
        self._more: contextvars.ContextVar[Any] = contextvars.ContextVar(
            "calque_config_more", default=None)
        self._exporting: contextvars.ContextVar[tuple[str, ...] | None] = contextvars.ContextVar(
            "calque_config_exporting", default=None)
        self.guards = False  # whether a guard of transfers was ever set: until then none is read
        self.checks: dict[str, Any] = {}  # called with a new value, which they may refuse
        for o in OPTIONS.values():
            env = os.environ.get(o.name.upper())
            self._values[o.name] = o.default if env is None else _parse(o, env)
            self.guards |= env is not None and o.choices is _GUARDS
        self.process_key = self._make_key(self._values)

    def add(self, option: Option) -> None:
        """One more option, with its default.

        Example:
          >>> import calque
          >>> before = calque.config.key()
          >>> mine = calque.make_user_context()  # (it calls this)
          >>> calque.config.key() == before
          False
        """
        OPTIONS[option.name] = option
        setattr(Config, option.name, _Value(option.name))
        self._values[option.name] = option.default
        self.process_key = self._make_key(self._values)

    def read_global(self, name: str) -> Any:
        """The value of an option for the process, whatever this context has.

        Example:
          >>> import calque
          >>> with calque.enable_x64(True):
          ...     calque.config.read_global("jax_enable_x64")
          False
        """
        return self._values[name]

    @property
    def values(self) -> dict[str, Any]:
        """Every option's value now; contexts of the user's (`make_user_context`) are none.

        Example:
          >>> import calque
          >>> calque.config.values["jax_disable_jit"]
          False
        """
        found = {**self._values, **(self._local.get() or {})}
        return {n: v for n, v in found.items() if not n.startswith(_USERS)}

    @property
    def x64_enabled(self) -> bool:
        """Whether 64-bit dtypes are kept.

        Example:
          >>> import calque
          >>> calque.config.x64_enabled
          False
        """
        return bool(self.jax_enable_x64)

    @staticmethod
    def _make_key(values: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(values[o.name] for o in OPTIONS.values() if o.traced)

    def key(self) -> tuple[Any, ...]:
        """The values that traced programs depend on, in the order of OPTIONS.

        Example:
          >>> import calque
          >>> before = calque.config.key()
          >>> with calque.enable_x64(True):
          ...     calque.config.key() == before
          False
        """
        local, more = self.local_key.get(), self._more.get()
        key = self.process_key
        if local is not None and local != _AS_EVER:
            of_process, made = local
            if of_process is not key:  # `update` was called since
                made = self._keep_local_key()
            key = made
        return key if more is None else (*key, more)

    def _keep_local_key(self) -> tuple[Any, ...]:
        """The key of this context, kept with that of the process which it was made beside."""
        made = self._make_key({**self._values, **(self._local.get() or {})})
        self.local_key.set((self.process_key, made))
        return made

    @contextlib.contextmanager
    def exporting(self, platforms: tuple[str, ...]) -> Iterator[None]:
        """While a function is traced for a portable module that runs on these platforms.

        Example:
          >>> import calque
          >>> with calque.config.exporting(("cpu", "tpu")):
          ...     calque.config.exported_platforms()
          ('cpu', 'tpu')
        """
        outer, marked = self._exporting.get(), self._more.get()
        before = self.local_key.get()
        self._exporting.set(platforms)
        self._set_more(marked[0] if marked else None)
        try:
            yield
        finally:
            self._exporting.set(outer)
            self._more.set(marked)
            self.local_key.set(before)

    def exported_platforms(self) -> tuple[str, ...] | None:
        """The platforms of the module that a function is traced for; None outside of an export.

        Example:
          >>> import calque
          >>> calque.config.exported_platforms() is None
          True
        """
        return self._exporting.get()

    def depend(self, more: Any) -> None:
        """Make keys of this context depend on a further value (None: no longer).

        Example:
          >>> import calque
          >>> before = calque.config.key()
          >>> with calque.set_mesh(calque.make_mesh((1,), ("x",))):  # (it calls this)
          ...     calque.config.key() == before
          False
        """
        self._set_more(more)

    def _set_more(self, more: Any) -> None:
        marked = (more, self._exporting.get())
        self._more.set(None if marked == (None, None) else marked)
        if marked != (None, None) and self.local_key.get() is None:
            self.local_key.set(_AS_EVER)

    def read(self, name: str) -> Any:
        """The value of an option now.

        Args:
          name: of the option.

        Returns:
          Its value.

        Raises:
          AttributeError: there is no such option.

        Example:
          >>> import calque
          >>> calque.config.read("jax_disable_jit")
          False
        """
        return getattr(self, name)

    def read_while_collecting(self, name: str) -> Any:
        """The same for what Python's collector of cycles calls.

        A ContextVar keeps what it was last asked for without a reference.  Where the collector
        begins within its `reset`, asking it gives it a value that then goes, and later readers
        get whatever is in its place (CPython 3.11, contextvar_del); a copy of the context does not
        remember.

        Args:
          name: of the option.

        Returns:
          Its value.

        Raises:
          KeyError: there is no such option.

        Example:
          >>> import calque
          >>> calque.config.read_while_collecting("jax_disable_jit")
          False
        """
        local = contextvars.copy_context().get(self._local) or {}
        return local[name] if name in local else self._values[name]

    def parse_flags_with_absl(self) -> None:
        """Take options from the command line, --jax_enable_x64, --jax_platforms=cpu, as programs of
        absl's do that call this before their `main`; absl counts its flags as parsed from then on.

        Returns:
          None.

        Raises:
          ValueError: an option does not take the value that is given.

        Example:
          >>> import calque
          >>> calque.config.parse_flags_with_absl()
        """
        given = list(itertools.takewhile(lambda a: a != "--", sys.argv[1:]))
        found = []
        for at, argument in enumerate(given):
            name, equals, text = argument.lstrip("-").partition("=")
            negated = name.startswith("nojax_")
            name = name.removeprefix("no") if negated else name
            if not argument.startswith("-") or name not in OPTIONS:
                continue
            if OPTIONS[name].kind == "bool" and not equals:
                text = str(not negated)
            elif not equals:
                text = given[at + 1] if at + 1 < len(given) else ""
            self.update(name, text)
            found.append(f"--{name}={text}")
        try:
            flags = importlib.import_module("absl.flags")
        except ImportError:
            return
        for name, option in OPTIONS.items():  # absl's own parsing refuses what it does not know
            if name not in flags.FLAGS:
                kind = flags.DEFINE_bool if option.kind == "bool" else flags.DEFINE_string
                kind(name, None, "an option of calque's")
        if not flags.FLAGS.is_parsed():
            flags.FLAGS([sys.argv[0], *found])

    config_with_absl = parse_flags_with_absl

    def update(self, name: str, val: Any) -> None:
        """Set an option for the whole process.

        Args:
          name: of the option, jax_enable_x64 for example.
          val: a bool, an int, one of the option's words, or text as in the environment.

        Returns:
          None.

        Raises:
          AttributeError: there is no such option (as in JAX).
          ValueError: the option does not take the value.

        Example:
          >>> import calque
          >>> calque.config.update("jax_numpy_rank_promotion", "allow")
        """
        if name not in OPTIONS:
            raise AttributeError(f"Unrecognized config option: {name}{_no_option(name)}")
        self._values.update(self._meant(name, _parse(OPTIONS[name], val)))
        self.process_key = self._make_key(self._values)

    def _meant(self, name: str, value: Any) -> dict[str, Any]:
        """What setting an option sets: the guard of all transfers is one of each direction."""
        if name in self.checks:
            self.checks[name](value)
        self.guards |= OPTIONS[name].choices is _GUARDS
        return dict.fromkeys(
            (name, *_DIRECTIONS) if name == "jax_transfer_guard" else (name,), value)

    def __dir__(self) -> list[str]:
        return sorted((*_shown(), "context", "read", "update"))

    def __repr__(self) -> str:
        """The options that are not at their defaults."""
        names = [n for n in _shown() if getattr(self, n) != OPTIONS[n].default]
        said = ", ".join(f"{n}={getattr(self, n)!r}" for n in names)
        return f"<calque.config: {said or 'every option at its default'}>"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"config has no option {name!r}{_no_option(name)}",
                             name=None, obj=self)  # (no name: no suggestion of Python's)

    @contextlib.contextmanager
    def context(self, name: str, value: Any) -> Iterator[None]:
        """Set one option for the current thread and context only.

        Args:
          name: of the option.
          value: as for `update`.

        Returns:
          A context manager; afterwards the option has its old value.

        Raises:
          KeyError: there is no such option.
          ValueError: the option does not take the value.

        Example:
          >>> import calque
          >>> with calque.config.context("jax_numpy_rank_promotion", "raise"):
          ...     calque.config.jax_numpy_rank_promotion
          'raise'
        """
        local = {**(self._local.get() or {}), **self._meant(name, _parse(OPTIONS[name], value))}
        token, key_before = self._local.set(local), self.local_key.get()
        self._keep_local_key()
        try:
            yield
        finally:
            self._local.reset(token)
            self.local_key.set(key_before)


def _shown() -> list[str]:
    return [n for n in OPTIONS if not n.startswith(_USERS)]


def _no_option(name: str) -> str:
    near = difflib.get_close_matches(name, _shown(), 1, 0.75)
    return (".\n  Fix: " + (f"did you mean {near[0]}? " if near else "")
            + "dir(calque.config) lists the options.")


for _name in OPTIONS:
    setattr(Config, _name, _Value(_name))
_AS_EVER = ("as ever",)  # a local key that is not None, so that hot paths ask for the whole
config = Config()


_CONTEXT = """Context in which the option {option} has a value: {help}.

    Args:
      value: {takes}.

    Returns:
      A context manager for the current thread; afterwards the option has its old value.

    Raises:
      TypeError: no value is given and the option is no bool.
      ValueError: the option does not take the value.

    Example:
      >>> import calque
      >>> with calque.{name}({value}):
      ...     calque.config.{option}
      {result}
    """
_EXAMPLES = {"jax_default_device": ("calque.devices()[0]", "CpuDevice(id=0)"),
             "jax_default_matmul_precision": ("'highest'", "'highest'")}


class UserContext:
    """A value of one's own on which jitted functions depend: called with one it is a context.

    Example:
      >>> import calque
      >>> mode = calque.make_user_context("train")
      >>> with mode("test"):
      ...     mode.value, mode.get_global()
      ('test', 'train')
    """

    def __init__(self, default: Any) -> None:
        self._name = f"{_USERS}{len(OPTIONS)}"
        config.add(Option(self._name, default, "any", True, "a context of the user's"))

    @property
    def value(self) -> Any:
        return config.read(self._name)

    def get_global(self) -> Any:
        return config.read_global(self._name)

    def set_global(self, value: Any) -> None:
        config.update(self._name, value)

    def __call__(self, new_value: Any) -> contextlib.AbstractContextManager[None]:
        return config.context(self._name, new_value)


def make_user_context(default_value: Any = None) -> UserContext:
    """A context whose value jitted functions are traced anew for.

    Args:
      default_value: outside of `with` blocks; hashable, as all values.

    Returns:
      `with context(value):` sets it for a block; `.value` reads it, `.set_global(value)` sets it
      for the process and `.get_global()` reads that.

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> scale = calque.make_user_context(1.0)
      >>> f = calque.jit(lambda x: x * scale.value)
      >>> with scale(3.0):
      ...     f(2.0)
      Array(6., dtype=float32, weak_type=True)
      >>> f(2.0)
      Array(2., dtype=float32, weak_type=True)
    """
    return UserContext(default_value)


def context_manager(name: str) -> Any:
    """`enable_x64`-like: a function whose result is a context that sets option `name`."""
    option = OPTIONS[name]
    default: Any = True if option.kind == "bool" else _MISSING

    def manager(new_val: Any = default, **named: Any) -> Any:
        value = named.pop("disable", new_val) if name == "jax_disable_jit" else new_val
        if named:
            raise TypeError(f"{manager.__name__}() got an unexpected keyword argument "
                            f"{next(iter(named))!r}\n  Fix: {manager.__name__}({sample}).")
        if value is _MISSING:
            raise TypeError(
                f"Context manager for {name} config option requires an argument representing the "
                f"new value for the config option.\n  Fix: {manager.__name__}({sample}).")
        return config.context(name, value)

    manager.get_global = functools.partial(config.read_global, name)  # type: ignore[attr-defined]
    manager.set_global = functools.partial(config.update, name)  # type: ignore[attr-defined]
    shown = repr(option.choices[-1] if option.choices else True)
    if name in TAKEN:  # a value that nothing is said of
        shown = repr("allow" if option.default is None else option.default)
    sample, result = _EXAMPLES.get(name, (shown, shown))
    takes = "a bool (default True)" if option.kind == "bool" else (
        "one of " + ", ".join(map(repr, option.choices)) if option.choices else
        "a Device, a platform's name, or None")
    return from_row(manager, "calque", name.removeprefix("jax_"), _CONTEXT, option=name,
                    help=option.help, takes=takes, value=sample, result=result)


def is_off(part: str) -> bool:
    """Whether CALQUE_OFF leaves out a part ("numpy", "plans", "kernels"): docs/debugging.md."""
    return part in os.environ.get("CALQUE_OFF", "").split(",")
