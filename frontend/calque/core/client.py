"""Primitives of clients: made by libraries and users through calque.extend, with JAX's conventions.

They stand in Programs as ours do, so that transformations and interpreters meet them by name.
Evaluated, they run their `impl`; lowering replaces them by what they compute (`program`, of
interpreters.mlir.lower_fun), before loops and costs are judged.
Names need not be unique: one that is taken is equal to itself only, so that no table of ours
mistakes the primitive for another.
Start reading at `ClientPrimitive`.  Imports core only.
"""
from __future__ import annotations

import types
from typing import Any

from calque.core.errors import explain
from calque.core.primitive import Primitive, UndefinedPrimal, registry
from calque.core.types import Function
from calque.core.zeros import Zero

_names: set[str] = set()


class _Name(str):
    """A name that another primitive has, too: equal to itself only."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self)


_MISSING = {
    "abstract": "Abstract evaluation for '{}' not implemented",
    "jvp": "Differentiation rule for '{}' not implemented",
    "transpose": "Transpose rule (for reverse-mode differentiation) for '{}' not implemented",
    "batch": "Batching rule for '{}' not implemented"}
_WHERE = {
    "abstract": "give one with {}_p.def_abstract_eval",
    "jvp": "set interpreters.ad.primitive_jvps[{}_p]",
    "transpose": "set interpreters.ad.primitive_transposes[{}_p]",
    "batch": "set interpreters.batching.primitive_batchers[{}_p]"}


class ClientPrimitive(Primitive):
    """The record of a client's primitive; public as extend.core.Primitive."""

    __slots__ = ("by_platform", "impl", "lowering", "is_effectful", "tables")
    call_primitive = False
    map_primitive = False

    def __init__(self, name: str) -> None:
        taken = name in registry or name in _names
        _names.add(name)
        super().__init__(_Name(name) if taken else name, client=True)
        kind: Any = type(self)
        if isinstance(kind.impl, types.MemberDescriptorType):  # else a method of its own
            self.impl: Function = self._no_impl
        if isinstance(kind.multiple_results, bool):  # stated in a class of a library's
            self.multiple_results = kind.multiple_results
        if kind.abstract_eval is not ClientPrimitive.abstract_eval:
            self.def_effectful_abstract_eval(self.abstract_eval)
        self.lowering: Function | None = None  # in MLIR: interpreters.mlir
        # (program, lowering) of each platform that one was given for; None: of all others
        self.by_platform: dict[str | None, tuple[Function | None, Function | None]] = {}
        self.inline = self._run
        self.is_effectful = False
        self.effects = lambda params: self.is_effectful
        self.tables: dict[str, Any] = {}  # rules as they were given, in JAX's conventions

    def __repr__(self) -> str:
        return str(self.name)

    __str__ = __repr__

    def _no_impl(self, *args: Any, **params: Any) -> Any:
        raise NotImplementedError(explain(
            f"Evaluation rule for '{self.name}' not implemented",
            fix=f"give one with {self.name}_p.def_impl, or call it inside jit."))

    def _run(self, *args: Any, **params: Any) -> Any:
        return self.impl(*args, **params)

    def rule(self, kind: str) -> Function:
        """The rule of a kind, or JAX's error that says which is missing."""
        found = getattr(self, kind)
        if found is None:
            said = _MISSING.get(kind, "{}: no " + kind + " rule").format(self.name)
            raise NotImplementedError(explain(said, fix=_WHERE.get(kind, "set it").format(self.name)
                                           + "."))
        return found

    def rule_for(self, platform: str) -> tuple[Function | None, Function | None]:
        """(program, lowering) for a platform; (None, None): there is none."""
        if not self.by_platform:
            return self.program, self.lowering
        return self.by_platform.get(platform) or self.by_platform.get(None) or (None, None)

    # ---- JAX's methods
    def def_impl(self, impl: Function) -> Function:
        """Set what the primitive does to values: impl(*arrays, **params)."""
        self.impl = impl
        return impl

    def def_abstract_eval(self, rule: Function) -> Function:
        """Set the types of results: rule(*avals, **params) -> ShapedArray, or a list of them."""
        self.abstract = lambda *avals, **params: self._typed(rule(*avals, **params))
        return rule

    def _typed(self, out: Any) -> Any:
        """What an abstract rule gave, which must be types of arrays."""
        for a in out if self.multiple_results else (out,):
            if not hasattr(a, "dtype"):
                raise TypeError(explain(
                    f"The abstract evaluation of '{self.name}' gave {a!r}, which is no type of an "
                    "array.", fix="return core.ShapedArray(shape, dtype), a list of them with "
                    "multiple_results; tokens are left out: effects keep the program's order."))
        return out

    def def_effectful_abstract_eval(self, rule: Function) -> Function:
        """The same with effects: rule(*avals, **params) -> (types, set of effects)."""
        def abstract(*avals: Any, **params: Any) -> Any:
            out, effects = rule(*avals, **params)
            self.is_effectful = self.is_effectful or bool(effects)
            return self._typed(out)
        self.abstract = abstract
        return rule

    def abstract_eval(self, *avals: Any, **params: Any) -> tuple[Any, frozenset[Any]]:
        """(types of the results, effects)."""
        return self.rule("abstract")(*avals, **params), frozenset()


def transposing(rule: Function) -> Function:
    """A transpose rule of ours from one of JAX's: no cotangent may be None, Zero or its class."""
    def transpose(ct: Any, *args: Any, **params: Any) -> list[Any]:
        found = rule(ct, *args, **params)
        if found is None or isinstance(found, Zero):
            return [None] * len(args)
        return [None if c is None or c is Zero or not isinstance(a, UndefinedPrimal) else c
                for c, a in zip(found, args)]
    return transpose
