"""Names of arrays beside an artifact, and archives of them from Python.

A function's captured arrays are called by the variable that holds them and their path in its tree,
WEIGHTS['layer1']['w'], so that other values can be put in their place without compiling; what no
variable holds is called by its type and contents.  Start reading at `names_of`.
"""
from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calque import runtime
from calque.core import dtypes
from calque.core.errors import explain
from calque.core.naming import attribute
from calque.core.types import Function, Ndarray
from calque.dispatch.array import Array
from calque.runtime import ArtifactError, archives
from calque.runtime import parameters as archive
from calque.trees import util as tree_util

ARCHIVED_BYTES = 1024  # captured arrays that have no name go to an archive from this size on
_MOST_FUNCTIONS = 1000  # that are looked into
_FOREIGN = frozenset({"calque", "numpy", "jax", "ml_dtypes", "scipy", *sys.stdlib_module_names})


@dataclass(frozen=True, slots=True)
class Stored:
    """A captured array in an archive."""

    name: str
    value: Ndarray
    digest: str


def stored(arrays: Sequence[Ndarray], names: Sequence[str]) -> dict[int, Stored]:
    """Which captured arrays go to an archive, by their id: those that have a name, whatever their
    size, and larger ones without, which are called by their contents."""
    return {id(c): Stored(name or f"{c.dtype.name}[{','.join(map(str, c.shape))}]-{digest}", c,
                          digest)
            for name, c in zip(names, arrays, strict=True)
            if c.size and (name or c.nbytes >= ARCHIVED_BYTES)
            and (c.dtype.kind in "iuf" or c.dtype == dtypes.bfloat16)
            for digest in [digest_of(c)]}


def digest_of(value: Ndarray) -> str:
    """Of an array's bytes."""
    return archive.digest_of(np.ascontiguousarray(value).reshape(-1).view(np.uint8))


def names_of(fun: Function, arrays: Sequence[Any]) -> tuple[str, ...]:
    """What captured arrays are called, "" for those that no variable holds.

    Looked at are the closure variables, globals, defaults and bound arguments of the function and
    of those that it names, first come first.  A name that two arrays would have is neither's.
    """
    wanted = {id(x) for x in arrays if isinstance(x, Array | np.ndarray)}
    found: dict[int, str] = {}
    taken: dict[str, set[int]] = {}
    for root, value in _variables(fun) if wanted else ():
        for path, leaf in _leaves(value):
            if id(leaf) in wanted:
                name = root + tree_util.keystr(path)
                found.setdefault(id(leaf), name)
                if found[id(leaf)] == name:
                    taken.setdefault(name, set()).add(id(leaf))
    return tuple(name if (name := found.get(id(x), "")) and len(taken[name]) == 1 else ""
                 for x in arrays)


def _leaves(value: Any) -> Sequence[tuple[Any, Any]]:
    if isinstance(value, Array | np.ndarray):
        return [((), value)]
    try:
        return tree_util.tree_leaves_with_path(value)
    except Exception:  # trees of others' making, which may raise anything: it has no names then
        return []


def _variables(fun: Function) -> Iterator[tuple[str, Any]]:
    """(name, value) of what a function, and those that it calls by name, can see."""
    waiting: list[Any] = [fun]
    seen: set[int] = set()
    while waiting and len(seen) < _MOST_FUNCTIONS:
        f = waiting.pop(0)
        if id(f) in seen:
            continue
        seen.add(id(f))
        for name, value in _of_one(f):
            if callable(value) and not isinstance(value, Array | type):
                waiting.append(value)
            if not isinstance(value, types.ModuleType | types.FunctionType | type):
                yield name, value


def _of_one(f: Any) -> Iterator[tuple[str, Any]]:
    """What one callable can see."""
    if isinstance(f, functools.partial):
        names = _positional(f.func)
        for i, value in enumerate(f.args):
            yield (names[i] if i < len(names) else f"args[{i}]"), value
        yield from f.keywords.items()
        yield "", f.func
    elif isinstance(f, types.MethodType):
        yield "self", f.__self__
        yield "", f.__func__
    elif isinstance(f, types.FunctionType):
        yield from _of_function(f)
    inner = attribute(f, "__wrapped__")  # jit(f), vmap(f)
    if callable(inner):
        yield "", inner
    call = attribute(type(f), "__call__")
    if isinstance(call, types.FunctionType) and (
            type(f).__module__.partition(".")[0] not in _FOREIGN):
        yield "self", f
        yield "", call


def _of_function(f: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or ()):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not set yet
            continue
    if (f.__module__ or "").partition(".")[0] in _FOREIGN:
        return
    words = list(_words(f.__code__))
    modules = []
    for name in words:
        if name in f.__globals__:
            value = f.__globals__[name]
            yield name, value
            if isinstance(value, types.ModuleType) and (
                    value.__name__.partition(".")[0] not in _FOREIGN):
                modules.append((name, value))
    for name, module in modules:
        held = vars(module)
        yield from ((f"{name}.{word}", held[word]) for word in words if word in held)
    names = _positional(f)
    defaults = f.__defaults__ or ()
    yield from zip(names[len(names) - len(defaults):], defaults)
    yield from (f.__kwdefaults__ or {}).items()


def _words(code: types.CodeType) -> Iterator[str]:
    """Names in a function's code, and in that of functions written in it."""
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _words(const)


def _positional(f: Any) -> list[str]:
    try:
        every = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in every if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


# ---- archives
def parameters(path: str | Path) -> dict[str, Ndarray]:
    """The arrays of an archive (.irpa, .safetensors, .gguf), or beside an artifact (.vmfb).

    Args:
      path: the file.

    Returns:
      The arrays by name; they are mapped, not read, and cannot be written to.  An .irpa file of
      other tools may say no types: such an array is given as bytes.

    Raises:
      ArtifactError: the file cannot be read.

    Example:
      >>> import tempfile
      >>> from calque import aot
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     _ = aot.save_parameters(folder + "/m.irpa", {"W": {"b": np.ones(2, np.float32)}})
      ...     aot.parameters(folder + "/m.irpa")
      {"W['b']": array([1., 1.], dtype=float32)}
    """
    path = Path(path)
    if path.suffix != ".vmfb":
        return archive.load_arrays(path)
    wanted = [p for r in runtime.aot.read_records(path) for p in r.parameters]
    beside = runtime.aot.beside(str(path))
    if not wanted:
        return {}
    archive.provider(beside, wanted, str(path))
    every = archive.load_arrays(beside)
    return {p.name: every[p.name].reshape(-1).view(np.uint8).view(p.dtype).reshape(p.shape)
            for p in sorted(wanted, key=lambda p: p.name)}


def save_parameters(path: str | Path, tree: Mapping[str, Any]) -> Path:
    """Write an archive of named arrays.

    Args:
      path: the file, .irpa or .safetensors.  It takes the place of an older one at once; programs
        that have mapped that one keep it.
      tree: arrays, or trees of arrays, by name: {"WEIGHTS": tree} gives names such as
        WEIGHTS['layer1']['w'], as captured arrays of a variable WEIGHTS have.

    Returns:
      The path.

    Raises:
      ArtifactError: what is given is no dictionary of arrays, or the file's name says no format.

    Example:
      >>> import tempfile
      >>> from calque import aot
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     path = aot.save_parameters(folder + "/m.safetensors", {"w": np.ones(2, np.float32)})
      ...     sorted(aot.parameters(path))
      ['w']
    """
    archives.write(Path(path), flat(tree))
    return Path(path)


def flat(tree: Mapping[str, Any]) -> dict[str, Ndarray]:
    """Arrays by name of a dictionary of trees."""
    if not isinstance(tree, Mapping) or not all(isinstance(k, str) for k in tree):
        raise ArtifactError(explain(
            f"parameters are named: a dictionary is wanted, got {type(tree).__name__}.", "",
            'give {"WEIGHTS": tree}, by the name of the variable that holds them.'))
    made: dict[str, Ndarray] = {}
    for root, value in tree.items():
        for path, leaf in _leaves(value):
            name = root + tree_util.keystr(path)
            made[name] = leaf._numpy() if isinstance(leaf, Array) else np.asarray(leaf)
            if made[name].dtype.kind in "OUSMm":
                raise ArtifactError(explain(
                    f"{name} is a {type(leaf).__name__}, no array of numbers.", "",
                    "leave it out, or make an array of it."))
    return made
