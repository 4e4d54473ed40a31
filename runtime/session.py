"""Sessions: the state of a module beside its program, by name.

An artifact of an `aot.Module` says of each function which of its arguments and results are leaves
of the state ("state" in its record).  A Session holds these leaves, passes them, and takes what
comes back; those that a function writes are donated, so that no call copies them.

Start reading at `Session.call`.
"""
from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from calque.runtime import archives
from calque.runtime.buffer import Buffer
from calque.runtime.errors import ArtifactError, explain
from calque.runtime.parameters import load_arrays

if TYPE_CHECKING:
    from calque.runtime.aot import ArgumentRecord, Artifact, ArtifactFunction, FunctionRecord

INITIAL_STATE = "initial_state"  # the function that gives the leaves of a new session


@dataclass(frozen=True, slots=True)
class StateRecord:
    """Which arguments and results of a function are leaves of the state: position -> name.

    Attributes:
      args: what it reads; those that are donated it writes, too.
      results: what it writes.
      initial: it gives the whole state as a session begins with it.
    """

    args: Mapping[int, str]
    results: Mapping[int, str]
    initial: bool = False


def parse_state(raw: Any) -> StateRecord | None:
    """The StateRecord of a record's JSON, None where it has none."""
    if raw is None:
        return None
    initial = raw.get("initial", False)
    if not isinstance(initial, bool):
        raise TypeError(f"initial is {initial!r}")
    args, results = (_leaves_of(raw[side]) for side in ("args", "results"))
    return StateRecord(args, results, initial)


def _leaves_of(raw: Any) -> dict[int, str]:
    made: dict[int, str] = {}
    if not isinstance(raw, list):
        raise TypeError(f"{raw!r} is no list of leaves")
    for entry in raw:
        position, name = entry
        if type(position) is not int or not isinstance(name, str) or not name:
            raise TypeError(f"{entry!r} is no leaf of the state")
        if position in made or name in made.values():
            raise ValueError("a leaf of the state is named twice")
        made[position] = name
    return made


def check_state(record: FunctionRecord) -> None:
    """ValueError where leaves are no arguments or results, or come back as another type."""
    state = record.state
    if state is None:
        return
    types = {}
    for position, name in state.args.items():
        types[name] = record.args[_position(position, record.args)]
    for position, name in state.results.items():
        made = record.results[_position(position, record.results)]
        old = types.get(name, made)
        if (old.shape, old.dtype) != (made.shape, made.dtype) or not all(
                isinstance(d, int) for d in made.shape):
            raise ValueError(f"the leaf {name} comes back as {made}")
    if {n for i, n in state.args.items() if i in record.donated} - {*state.results.values()}:
        raise ValueError("a leaf of the state is given away and does not come back")


def _position(position: int, of: Sequence[Any]) -> int:
    if not 0 <= position < len(of):
        raise IndexError(f"a leaf beyond the {len(of)} that there are")
    return position


class Session:
    """The state of a module, and calls of its functions with it; made by `Artifact.session`.

    The functions are methods, too: `session.step(x)`.  One thread at a time changes the state;
    others wait.

    Args:
      artifact: of an `aot.Module`.

    Raises:
      ArtifactError: the artifact has no state, or its functions disagree about it.

    Example:
      >>> import numpy as np
      >>> import calque.numpy as jnp
      >>> from calque import aot
      >>> class Sum(aot.Module):
      ...     def __init__(self):
      ...         self.total = jnp.zeros(2)
      ...     @aot.export("f32[2]")
      ...     def add(self, x):
      ...         self.total = self.total + x
      >>> session = aot.load(Sum().compile()).session()
      >>> session.write("total", np.ones(2, np.float32))
      >>> session.call("add", np.ones(2, np.float32))
      >>> session.read("total")
      array([2., 2.], dtype=float32)
    """

    def __init__(self, artifact: Artifact) -> None:
        self._artifact = artifact
        self._lock = threading.RLock()
        records = artifact.functions
        initial = records.get(INITIAL_STATE)
        if initial is None or initial.state is None or not initial.state.initial:
            raise ArtifactError(explain(
                "the artifact has no state.", artifact.source,
                "compile an aot.Module whose attributes hold arrays, or call the functions "
                "themselves."))
        self._types = {name: initial.results[i] for i, name in initial.state.results.items()}
        for function in artifact.every:
            self._check(function.record)
        self._ways: dict[str, _Way] = {}  # of functions that were called
        made = artifact[INITIAL_STATE]()
        self._leaves = {name: made[i] for i, name in initial.state.results.items()}

    def _check(self, record: FunctionRecord) -> None:
        state = record.state
        for positions, given in () if state is None else (
                (state.args, record.args), (state.results, record.results)):
            for position, name in positions.items():
                known, entry = self._types.get(name), given[position]
                if known is None or (known.shape, known.dtype) != (entry.shape, entry.dtype):
                    raise ArtifactError(explain(
                        f"{record.name} has the leaf {name} of the state as {entry}, a new session "
                        f"{'has none of it' if known is None else f'as {known}'}.",
                        self._artifact.source, "compile the module anew, all of it at once."))

    @property
    def artifact(self) -> Artifact:
        """What it is a session of."""
        return self._artifact

    @property
    def leaves(self) -> Mapping[str, ArgumentRecord]:
        """The leaves of the state: their shapes and dtypes by name."""
        return MappingProxyType(self._types)

    def call(self, name: str, *args: Any) -> Any:
        """Call a function with the state.

        Args:
          name: of the function.
          *args: its own arguments, trees of arrays where it takes trees.

        Returns:
          What the method returns, in its tree; Buffers, which may be pending.

        Raises:
          ArtifactError: there is no such function.
          TypeError, ValueError: the arguments are not those it takes; the state stays as it was.
        """
        way = self._way(name)
        given: Sequence[Any] = args
        if not way.is_flat or len(args) != len(way.trees):
            given = _flatten(way.trees, args, way.function.record)
        form = way.form(given) if way.forms else way
        return _unflatten(form.tree, self._run(form, given))

    def call_flat(self, name: str, leaves: Sequence[Any]) -> list[Buffer]:
        """Call a function with the state, its own arguments and results as flat lists.

        Args:
          name: of the function.
          leaves: the arrays of its own arguments' trees, in order.

        Returns:
          The arrays of its results' tree; Buffers, which may be pending.

        Raises:
          ArtifactError: there is no such function.
          TypeError, ValueError: the arguments are not those it takes; the state stays as it was.
        """
        way = self._way(name)
        if len(leaves) != len(way.shapes):
            raise TypeError(explain(
                f"{name}() takes {len(way.shapes)} arrays besides the state, got {len(leaves)}.",
                way.function.record.signature(), "pass one for each."))
        return self._run(way.form(leaves) if way.forms else way, leaves)

    def _way(self, name: str) -> _Way:
        way = self._ways.get(name)
        if way is None:
            way = self._ways[name] = _Way(self._artifact[name])
        return way

    def _run(self, way: _Way, given: Sequence[Any]) -> list[Buffer]:
        with self._lock:
            held = self._leaves
            rest = iter(given)
            made = way.function(*[next(rest) if n is None else held[n] for n in way.args])
            for i, n in way.state:
                held[n] = made[i]
        return [made[i] for i in way.own]

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name in self._artifact.functions:
            return lambda *args: self.call(name, *args)
        raise AttributeError(f"no function {name!r} in {self._artifact!r}")

    def read(self, name: str) -> np.ndarray[Any, Any]:
        """The value of a leaf, waited for: a copy.

        Args:
          name: of the leaf: count, cache['k'].

        Returns:
          A NumPy array of the leaf's shape and dtype.

        Raises:
          ArtifactError: there is no such leaf.
        """
        with self._lock:
            return np.array(self._leaf(name).numpy())

    def _leaf(self, name: str) -> Buffer:
        if name not in self._types:
            raise self._unknown(name)
        return self._leaves[name]

    def _unknown(self, name: str) -> ArtifactError:
        return ArtifactError(explain(
            f"the state has no leaf {name!r}; it has {', '.join(self._types)}.",
            self._artifact.source, "name one of those."))

    def write(self, name: str, value: Any) -> None:
        """Set a leaf.

        Args:
          name: of the leaf.
          value: an array of its shape and dtype; it is copied.

        Raises:
          ArtifactError: there is no such leaf.
          TypeError, ValueError: its dtype or its shape is another.
        """
        self._set({name: value})

    def _set(self, values: Mapping[str, Any]) -> None:
        made = {}
        for name, value in values.items():
            if name not in self._types:
                raise self._unknown(name)
            wanted = self._types[name]
            held = np.asarray(value, wanted.dtype if isinstance(
                value, int | float | bool) else None)
            where = f"the state of {self._artifact.source}"
            if held.dtype != wanted.dtype:
                raise TypeError(explain(f"{name} must be {wanted}, got dtype {held.dtype}.", where,
                                        f"pass value.astype({str(wanted.dtype)!r})."))
            if held.shape != wanted.shape:
                raise ValueError(explain(f"{name} must be {wanted}, got shape {held.shape}.", where,
                                         "pass an array of that shape."))
            made[name] = held
        with self._lock:
            for name, held in made.items():
                self._leaves[name] = Buffer.from_numpy(np.array(held), self._artifact.device)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the state to an archive, each leaf under its name.

        Args:
          path: .irpa or .safetensors.

        Returns:
          The path.

        Raises:
          ArtifactError: the file's name says no format, or the format has not a leaf's type.
        """
        with self._lock:
            archives.write(Path(path), {name: self.read(name) for name in self._types})
        return Path(path)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Read the state from an archive; all of it, or nothing where something is wrong.

        Args:
          path: what `save` has written, here or in C++.

        Raises:
          ArtifactError: the file cannot be read, or lacks a leaf.
          TypeError, ValueError: a leaf has another dtype or shape.
        """
        found = load_arrays(Path(path))
        missing = [name for name in self._types if name not in found]
        if missing:
            raise ArtifactError(explain(
                f"{path} has no leaf {missing[0]}.", f"the state of {self._artifact.source}",
                "give an archive that a session of this module has saved."))
        self._set({name: found[name] for name in self._types})

    def __repr__(self) -> str:
        return f"<session of {self._artifact.source}: {', '.join(map(str, self._types))}>"


class _Way:
    """How a function is called with a state, read once from its record.

    Attributes:
      args: for each argument the leaf that it is, None for its own.
      state: (position, leaf) of results that are leaves.
      own: positions of its own results, and `tree` theirs.
      trees: of its own arguments; `is_flat` where each is an array.
      forms: of functions with several, the others.
    """

    def __init__(self, function: ArtifactFunction, is_form: bool = False) -> None:
        record = function.record
        state = record.state or StateRecord({}, {})
        self.function = function
        self.args = [state.args.get(i) for i in range(len(record.args))]
        self.state = list(state.results.items())
        self.own = [i for i in range(len(record.results)) if i not in state.results]
        self.trees = _user_tree(record)
        self.is_flat = all(isinstance(tree, int) for tree in self.trees)
        method = record.state is not None and not record.state.initial
        self.tree = record.out_tree["tuple"][0] if method else record.out_tree
        self.shapes = [a.shape for a, leaf in zip(record.args, self.args) if leaf is None]
        self.forms = [] if is_form else [_Way(f, True) for f in function.forms.values()]

    def form(self, given: Sequence[Any]) -> _Way:
        """What was compiled for arguments of these shapes; the first where nothing was."""
        shapes = [tuple(x.shape) if isinstance(x, Buffer) else np.shape(x) for x in given]
        return next((f for f in self.forms if f.shapes == shapes), self)


# ---- trees, as records write them
def _user_tree(record: FunctionRecord) -> Any:
    """The tree of a function's own arguments: of (written, read, *arguments)."""
    args = record.in_tree["tuple"][0]["tuple"]  # (positional, keywords)
    return args[2:] if record.state is not None and not record.state.initial else args


def _flatten(trees: Sequence[Any], args: Sequence[Any], record: FunctionRecord) -> list[Any]:
    leaves: list[Any] = []
    if len(args) != len(trees):
        raise TypeError(explain(
            f"{record.name}() takes {len(trees)} arguments besides the state, got {len(args)}.",
            record.signature(), "pass one value for each."))
    for position, (tree, value) in enumerate(zip(trees, args, strict=True)):
        _walk(tree, value, leaves, f"{record.name}; argument {position}")
    return leaves


def _walk(tree: Any, value: Any, leaves: list[Any], where: str) -> None:
    if isinstance(tree, int):
        leaves.append(value)
        return
    if tree is None:
        children: list[Any] = []
        values: Any = [] if value is None else None
    elif "dict" in tree:
        children = [c for _, c in tree["dict"]]
        keys = [k for k, _ in tree["dict"]]
        values = ([value[k] for k in keys]
                  if isinstance(value, Mapping) and {*value} == {*keys} else None)
    else:
        children = tree.get("tuple") or tree.get("list") or tree.get("children") or []
        values = value if isinstance(value, list | tuple) else None
    if values is None or len(values) != len(children):
        raise TypeError(explain(
            f"a {type(value).__name__} is given where the function takes "
            f"{'None' if tree is None else next(iter(tree))} of {len(children)}.", where,
            "pass the tree that it was compiled for."))
    for child, part in zip(children, values, strict=True):
        _walk(child, part, leaves, where)


def _unflatten(tree: Any, leaves: Sequence[Any]) -> Any:
    if isinstance(tree, int):
        return leaves[tree]
    if tree is None:
        return None
    if "dict" in tree:
        return {k: _unflatten(c, leaves) for k, c in tree["dict"]}
    for kind in (list, tuple):
        if kind.__name__ in tree:
            return kind(_unflatten(c, leaves) for c in tree[kind.__name__])
    return tuple(_unflatten(c, leaves) for c in tree.get("children", ()))
