"""Arrays that a traced function captured, so that they are few arguments of its program.

Each is an argument of every call, and kernels read few arrays: a function that Python calls fifty
times and that makes `jnp.array([i, i + 1])` in each captures fifty.  Numbers are written into the
program; small arrays lie in one, behind one another.  Start reading at `with_few_captured`.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray
from calque.core.config import config
from calque.core.dims import is_static
from calque.core.primitive import registry
from calque.core.program import Equation, Program, Var
from calque.core.types import Dtype
from calque.dispatch.array import Array, from_numpy

MOST_NUMBERS = 16  # captured, that are arguments of a program; more are written into it
MOST_ARRAYS = 8  # small ones of a dtype that are arguments; more are parts of one
SMALL = 256  # elements


def with_few_captured(p: Program) -> Program:
    """p with many captured numbers in it, and many small captured arrays as parts of one."""
    numbers = {v: c for v, c in zip(p.const_vars, p.consts)
               if not v.aval.shape and v.aval.dtype.kind in "biufcV"}
    if len(numbers) > MOST_NUMBERS:
        p = p.with_numbers({v: np.asarray(c) for v, c in numbers.items()})
    groups: dict[Dtype, dict[Var, Any]] = {}
    for v, c in zip(p.const_vars, p.consts):
        if _is_small(v.aval) and type(c) in (Array, np.ndarray):
            groups.setdefault(v.aval.dtype, {})[v] = c
    for group in groups.values():
        if len(group) > MOST_ARRAYS:
            p = _packed(p, group)
    return p


def _is_small(a: ShapedArray) -> bool:
    return (bool(a.shape) and is_static(a.shape) and 0 < a.size <= SMALL and a.placement is None
            and not dtypes.is_key(a.dtype) and a.dtype != dtypes.float0)


def _packed(p: Program, group: dict[Var, Any]) -> Program:
    """p with these consts as parts of one array."""
    with config.context("jax_transfer_guard", "allow"):  # (guards are of what the user moves)
        packed = from_numpy(np.concatenate([np.asarray(c).reshape(-1) for c in group.values()]))
    whole = Var(packed.aval)
    parts: list[Equation] = []
    at = 0
    for v in group:
        size = math.prod(v.aval.shape)
        flat = Var(ShapedArray((size,), v.aval.dtype))
        parts += [
            Equation(registry["slice"], (whole,), (flat,), {
                "start_indices": (at,), "limit_indices": (at + size,), "strides": None}),
            Equation(registry["reshape"], (flat,), (v,), {
                "dimensions": None, "new_sizes": v.aval.shape, "sharding": None})]
        at += size
    rest = [(v, c) for v, c in zip(p.const_vars, p.consts) if v not in group]
    return p.replace(equations=[*parts, *p.equations],
                     const_vars=[*[v for v, _ in rest], whole],
                     consts=[*[c for _, c in rest], packed])


__all__ = ["with_few_captured"]
