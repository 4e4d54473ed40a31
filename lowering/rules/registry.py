"""The table of lowering rules.

A rule is `f(ctx, inputs, params, outs) -> Value | list[Value]`: ctx is the Context
(lowering/context) of the function that is written, inputs are Values, outs the avals of the results
(keys already turned into uint32 words).
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calque.core.avals import ShapedArray
from calque.lowering.builder import Value
from calque.lowering.context import Context

Rule = Callable[[Context, list[Value], dict[str, Any], list[ShapedArray]], Any]
rules: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a lowering rule under these primitive names."""
    def register(f: Rule) -> Rule:
        for name in names:
            assert name not in rules, name
            rules[name] = f
        return f
    return register
