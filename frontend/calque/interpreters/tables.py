"""A table of rules by primitive, as JAX has them: reading gives what was set, or a rule of ours."""
from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

from calque.core.client import ClientPrimitive
from calque.core.errors import explain
from calque.core.primitive import Primitive, registry

Rule = Callable[..., Any]


class Table(MutableMapping[Any, Any]):
    """Rules in JAX's conventions; `there` makes one of ours of one, `back` the other way."""

    def __init__(self, name: str, kind: str, there: Callable[[Rule], Rule],
                 back: Callable[[Rule], Rule]) -> None:
        self.name, self.kind, self.there, self.back = name, kind, there, back
        self._set: dict[int, tuple[Any, Rule]] = {}

    def __setitem__(self, prim: Any, rule: Rule) -> None:
        if not isinstance(prim, Primitive):
            raise TypeError(explain(f"{self.name}: {prim!r} is no Primitive.",
                                    fix="make one: extend.core.Primitive(name)."))
        if not isinstance(prim, ClientPrimitive) and getattr(prim, self.kind) is not None:
            raise ValueError(explain(
                f"{self.name}: {prim.name} is calque's own and has a {self.kind} rule.",
                fix="use custom_jvp or custom_vjp for a function with another rule."))
        self._set[id(prim)] = (prim, rule)
        setattr(prim, self.kind, self.there(rule))

    def __getitem__(self, prim: Any) -> Rule:
        if id(prim) in self._set:
            return self._set[id(prim)][1]
        found = getattr(prim, self.kind, None) if isinstance(prim, Primitive) else None
        if found is None:
            raise KeyError(prim)
        return self.back(found)

    def __delitem__(self, prim: Any) -> None:
        del self._set[id(prim)]
        setattr(prim, self.kind, None)

    def __iter__(self) -> Iterator[Any]:
        ours = [p for p in registry.values() if getattr(p, self.kind) is not None]
        return iter([*ours, *[p for p, _ in self._set.values()
                              if isinstance(p, ClientPrimitive)]])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, prim: object) -> bool:
        return isinstance(prim, Primitive) and getattr(prim, self.kind) is not None
