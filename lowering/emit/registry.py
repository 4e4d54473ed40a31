"""The table of lowering rules.

A rule is `f(op) -> Value | list[Value]`: `Op` is the equation that is lowered.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.types import Params
from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.context import Context


@dataclass(frozen=True, slots=True)
class Use:
    """A use of a primitive: `use["axes"]` is its parameter axes.

    Attributes:
      operands: Values; x: the first of them.
      params: the primitive's parameters.
      outs: the avals of the results (keys already turned into uint32 words); out: the first.
    """

    operands: list[Value]
    params: Params
    outs: list[ShapedArray]

    def __getitem__(self, name: str) -> Any:
        return self.params[name]

    @property
    def x(self) -> Value:
        return self.operands[0]

    @property
    def out(self) -> ShapedArray:
        return self.outs[0]


@dataclass(frozen=True, slots=True)
class Op(Use):
    """An equation that is lowered; ctx: the Context (lowering/emit/context) of its function."""

    ctx: Context

    @property
    def b(self) -> Builder:
        return self.ctx.b


Rule = Callable[[Op], Any]
rules: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a lowering rule under these primitive names."""
    def register(f: Rule) -> Rule:
        for name in names:
            assert name not in rules, name
            rules[name] = f
        return f
    return register
