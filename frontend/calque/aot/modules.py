"""Modules: classes whose methods become entry points of one artifact, and whose arrays its state.

A method is traced as a function of the leaves that it reads or writes and of its own arguments; the
leaves that it writes are donated, and the record says which argument and result is which leaf
(aot/records.State), so that a session (runtime/session.py, C++'s Session) holds them by name.  An
entry point `initial_state` gives the values that the module has when it is compiled.

Start reading at `Module`.
"""
from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from calque import lax
from calque.aot.artifacts import (
    ArgumentError,
    Artifact,
    Traced,
    build_all,
    for_platforms,
    link,
    trace_all,
)
from calque.aot.records import State
from calque.core import dtypes
from calque.core.avals import aval_of
from calque.core.errors import explain
from calque.core.trace import Tracer
from calque.core.types import Function
from calque.dispatch.array import Array
from calque.dispatch.eager import named_target
from calque.dispatch.tracing import ShapeDtypeStruct
from calque.lowering.target.targets import Target
from calque.runtime.session import INITIAL_STATE, Session
from calque.trees import util as tree_util

_SPECS = "_calque_export"  # of an exported method: the types of its arguments
Specs = Sequence[Any]


def export(*specs: Any) -> Callable[[Function], Function]:
    """Mark a method of an `aot.Module` as an entry point of its artifact.

    Args:
      *specs: the types of its arguments behind self, as for `aot.compile`; they may be given to
        `Module.compile` instead.

    Returns:
      A decorator, which gives the method back as it is.

    Raises:
      ArgumentError: the decorator is used without its parentheses.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import aot
      >>> class Mean(aot.Module):
      ...     def __init__(self):
      ...         self.total, self.count = jnp.zeros(2), jnp.zeros((), int)
      ...     @aot.export("f32[2]")
      ...     def add(self, x):
      ...         self.total, self.count = self.total + x, self.count + 1
      ...         return self.total / self.count
      >>> session = aot.load(Mean().compile()).session()
      >>> session.add(np.array([1, 2], np.float32)).numpy()
      array([1., 2.], dtype=float32)
      >>> session.add(np.array([3, 4], np.float32)).numpy()
      array([2., 3.], dtype=float32)
    """
    if len(specs) == 1 and inspect.isfunction(specs[0]):
        raise ArgumentError(explain(
            f"export is given the method {specs[0].__name__} where types are wanted.",
            fix='write @aot.export("f32[2]"), or @aot.export() without arguments.'))

    def mark(method: Function) -> Function:
        setattr(method, _SPECS, specs)
        return method

    return mark


@dataclass(frozen=True, slots=True)
class _Leaf:
    """An array of a module: its name (attribute and path), its attribute and its value."""

    name: str
    attribute: str
    value: Any


class Module:
    """A class whose exported methods are compiled together, and whose arrays are their state.

    A subclass sets arrays, or trees of them, as attributes; methods marked by `aot.export` read
    them and set them anew.  They run in Python as they are, too.  Attributes without arrays are
    settings, compiled in.

    A call hands the leaves that it writes over, without a copy; rows that are set by
    `lax.dynamic_update_slice` are set in place (`x.at[i].set(row)` makes a new array).

    Attributes:
      constants: names of attributes whose arrays no method sets: they are captured, as arrays are
        by functions, go to the archive beside the file (`parameters`), and are shared by sessions.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import aot
      >>> class Counter(aot.Module):
      ...     def __init__(self):
      ...         self.count = jnp.zeros((), int)
      ...     @aot.export("i32")
      ...     def add(self, n):
      ...         self.count = self.count + n
      ...         return self.count
      >>> counter = aot.load(Counter().compile())
      >>> one, other = counter.session(), counter.session()
      >>> int(one.add(2).numpy()), int(one.add(3).numpy()), int(other.add(1).numpy())
      (2, 5, 1)
      >>> one.read("count")
      array(5, dtype=int32)
    """

    constants: ClassVar[tuple[str, ...]] = ()

    def compile(self, path: str | Path | None = None, *,
                arguments: Mapping[str, Specs | list[Specs]] | None = None,
                targets: str | Target | Sequence[str | Target] = ("cpu",),
                parameters: bool | None = None, constraints: Sequence[str] = ()) -> Artifact:
        """Compile the exported methods into one artifact.

        Args:
          path: where to save it; with an archive beside it where it has parameters.
          arguments: types of arguments by the method's name, a tuple as `aot.compile` takes them,
            or a list of such tuples for several sizes; they replace those of `export`.
          targets: what to compile for.
          parameters: whether constants and initial values of the state go to an archive beside the
            file; None: where they are 1 MiB and more.
          constraints: of sizes that are known at the call only, such as 'b >= 8'.

        Returns:
          The Artifact, with the methods and `initial_state`, which gives the state's leaves.

        Raises:
          ArgumentError: no method is exported, an attribute is half an array, a method changes the
            type of a leaf, or the types given do not go with the parameters.
        """
        chosen = [named_target(t) for t in ([targets] if isinstance(targets, str | Target)
                                            else targets)]
        methods = self.exported()
        unknown = sorted(set(arguments or {}) - set(methods))
        if unknown:
            raise ArgumentError(explain(
                f"{type(self).__name__} exports no method {unknown[0]}.", "aot.Module.compile",
                f"name one of {', '.join(methods)}, or mark it by @aot.export()."))
        leaves = self._leaves()

        def build(some: list[Target]) -> Artifact:
            every: list[Traced] = []
            for name, method in methods.items():
                given = (arguments or {}).get(name, getattr(method, _SPECS))
                for specs in given if isinstance(given, list) else [given]:
                    every.append(_trace(self, name, specs, leaves, constraints))
            if leaves:
                every.append(_trace_initial(leaves))
            return link(*[build_all([traced], some, parameters) for traced in every])

        artifact = for_platforms(chosen, build)
        if path is not None:
            artifact.save(path)
        return artifact

    def exported(self) -> dict[str, Function]:
        """The exported methods of the class by name.

        Returns:
          name -> function, in the order of their definition.

        Raises:
          ArgumentError: there is none, or one has a name that a session has already.
        """
        found: dict[str, Function] = {}
        for cls in reversed(type(self).__mro__):
            for name in vars(cls):
                method = getattr(type(self), name, None)
                if callable(method) and hasattr(method, _SPECS):
                    found[name] = method
        if not found:
            raise ArgumentError(explain(
                f"{type(self).__name__} exports no method.", "aot.Module.compile",
                "mark the methods that are entry points by @aot.export(types of arguments)."))
        for name in found:
            if name == INITIAL_STATE or name.startswith("_") or hasattr(Session, name):
                raise ArgumentError(explain(
                    f"a method cannot be exported as {name}.", type(self).__name__,
                    "give it another name: sessions have this one."))
        return found

    def state(self) -> dict[str, Any]:
        """The leaves of the state by name, as they are now.

        Returns:
          name -> array: cache['k'], count.

        Raises:
          ArgumentError: an attribute is half an array.
        """
        return {leaf.name: leaf.value for leaf in self._leaves()}

    def parameter_name(self, name: str) -> str:
        """What a constant is called in the archive; a subclass may say it in its own way.

        Args:
          name: the attribute and the path in its tree, weights['layer1']['w'].

        Returns:
          The name; by default as it is given.
        """
        return name

    def _leaves(self) -> list[_Leaf]:
        """The arrays of attributes that are no constants, in the order of their names."""
        made: list[_Leaf] = []
        for attribute, value in vars(self).items():
            if attribute in self.constants:
                continue
            pairs = _pairs(value)
            arrays = [_is_array(leaf) for _, leaf in pairs]
            if any(arrays) and not all(arrays):
                path, odd = pairs[arrays.index(False)]
                raise ArgumentError(explain(
                    f"{attribute}{tree_util.keystr(path)} is a {type(odd).__name__}, and other "
                    f"leaves of {attribute} are arrays.", type(self).__name__,
                    "make an array of it, or keep settings in an attribute of their own."))
            if any(arrays):
                made += [_Leaf(attribute + tree_util.keystr(path), attribute, leaf)
                         for path, leaf in pairs]
        return sorted(made, key=lambda leaf: leaf.name)


def _is_array(x: Any) -> bool:
    return isinstance(x, Array | np.ndarray | ShapeDtypeStruct)


def _pairs(value: Any) -> list[tuple[Any, Any]]:
    """Leaves with their paths."""
    return tree_util.tree_flatten_with_path(value)[0]


def _with(module: Module, values: Mapping[str, Any]) -> Module:
    """A copy of a module whose state has other values, by name."""
    made = copy.copy(module)
    for attribute in {leaf.attribute for leaf in module._leaves()}:
        value = getattr(module, attribute)
        pairs, tree = tree_util.tree_flatten_with_path(value)
        setattr(made, attribute, tree.unflatten([
            values[attribute + tree_util.keystr(path)] for path, _ in pairs]))
    return made


def _after(module: Module, method: str, before: Sequence[_Leaf]) -> dict[str, Any]:
    """The state that a method left, by name; ArgumentError where its tree or a type changed."""
    where = f"{type(module).__name__}.{method}"
    known = vars(module)
    kept = {leaf.attribute for leaf in before}
    after = {a + tree_util.keystr(path): leaf for a in known
             if a in kept or a not in module.constants and _traced(known[a])
             for path, leaf in _pairs(known[a])}
    names = {leaf.name for leaf in before}
    if after.keys() != names:
        odd = min(after.keys() ^ names)
        raise ArgumentError(explain(
            f"the method {'adds' if odd in after else 'removes'} the leaf {odd} of the state.",
            where, "set all arrays in __init__, with the shapes that they keep."))
    for leaf in before:
        old, new = aval_of(leaf.value), aval_of(after[leaf.name])
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            raise ArgumentError(explain(
                f"the method makes {new.short()} of the leaf {leaf.name}, which is "
                f"{old.short()}.", where, "keep its shape and its type (x.astype(...))."))
    return after


def _traced(value: Any) -> bool:
    return any(isinstance(leaf, Tracer) for _, leaf in _pairs(value))


def _trace(module: Module, method: str, specs: Specs, leaves: Sequence[_Leaf],
           constraints: Sequence[str]) -> Traced:
    """A method as a function of the leaves that it writes, those that it only reads, and its
    arguments."""
    p = _trace_with(module, method, specs, leaves, [], constraints).program
    results = len(p.outputs) - len(leaves)
    used = {id(v) for e in p.equations for v in e.inputs}
    used |= {id(v) for v in p.outputs[:results]}
    written, read = [], []
    for leaf, old, new in zip(leaves, p.inputs, p.outputs[results:], strict=False):
        if new is not old:
            written.append(leaf)
            used.add(id(new))  # another leaf's value, maybe
    for leaf, old in zip(leaves, p.inputs, strict=False):
        if leaf not in written and id(old) in used:
            read.append(leaf)
    return _trace_with(module, method, specs, written, read, constraints)


def _trace_with(module: Module, method: str, specs: Specs, written: Sequence[_Leaf],
                read: Sequence[_Leaf], constraints: Sequence[str]) -> Traced:
    function = getattr(type(module), method)
    every = module._leaves()
    given = [leaf.name for leaf in (*written, *read)]
    rest = {leaf.name: leaf.value for leaf in every}

    def pure(new: Sequence[Any], old: Sequence[Any], *args: Any, **constants: Any) -> Any:
        made = _with(module, {**rest, **dict(zip(given, [*new, *old], strict=True))})
        for name, value in constants.items():
            setattr(made, name, value)
        result = function(made, *args)
        after = _after(made, method, every)
        return result, tuple(after[leaf.name] for leaf in written)

    fun = functools.partial(pure, **{name: getattr(module, name) for name in module.constants})
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    fun.__signature__ = inspect.Signature([  # type: ignore[attr-defined]
        inspect.Parameter("_written", kind), inspect.Parameter("_read", kind),
        *list(inspect.signature(function).parameters.values())[1:]])
    fun.__name__ = method  # type: ignore[attr-defined]
    traced = trace_all(fun, tuple(map(_spec, written)), tuple(map(_spec, read)), *specs,
                       donate_argnums=0, name=method, constraints=constraints)[0]
    results = len(traced.program.outputs) - len(written)
    return replace(
        traced, paths=(*given, *traced.paths[len(given):]),
        names=tuple(module.parameter_name(name) if name else "" for name in traced.names),
        state=State(tuple(enumerate(given)), tuple(
            (results + i, leaf.name) for i, leaf in enumerate(written))))


def _spec(leaf: _Leaf) -> ShapeDtypeStruct:
    aval = aval_of(leaf.value)
    return ShapeDtypeStruct(aval.shape, aval.dtype)


def _trace_initial(leaves: Sequence[_Leaf]) -> Traced:
    """The function of no arguments that gives the state as it is now."""
    values = {leaf.name: _filled(leaf) for leaf in leaves}

    def initial() -> Any:
        return tuple(lax.full(v.shape, v.value, v.dtype) if isinstance(v, _Filled) else v
                     for v in values.values())

    traced = trace_all(initial, name=INITIAL_STATE)[0]
    named = {f"values[{name!r}]": name for name in values}
    return replace(traced, names=tuple(named.get(name, "") for name in traced.names),
                   state=State((), tuple(enumerate(values)), True))


@dataclass(frozen=True, slots=True)
class _Filled:
    """An array with one value everywhere, which takes no room in a file."""

    shape: tuple[int, ...]
    value: Any
    dtype: Any


def _filled(leaf: _Leaf) -> Any:
    """The value of a leaf, or that it is one number everywhere; of a type alone it is zeros."""
    x = leaf.value
    if isinstance(x, ShapeDtypeStruct):
        return _Filled(tuple(x.shape), 0, x.dtype)
    if dtypes.is_key(aval_of(x).dtype):
        return x
    held = x._numpy() if isinstance(x, Array) else x
    if not held.size:
        return _Filled(held.shape, 0, held.dtype)
    rows = np.ascontiguousarray(held).reshape(-1).view(np.uint8).reshape(held.size, -1)
    if bool(np.all(rows == rows[0])):  # of one pattern of bits
        return _Filled(held.shape, held.reshape(-1)[0], held.dtype)
    return x


__all__ = ["Module", "export"]
