"""The eager pack: the common elementwise operations, compiled ahead for arrays of any shape.

Many small functions in one module cost a tenth of what each costs alone.  `calque warmup` builds
the pack, and nothing else does; it is kept in the disk cache, one module a dtype.  Start reading at
`find` and `build`.
"""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray
from calque.core.memo import Memo
from calque.core.primitive import Primitive, registry
from calque.core.program import Equation, Program, Var
from calque.lowering.compiler.compile import compile_module
from calque.lowering.driver import cache
from calque.lowering.driver.flat import entry_name, flat_aval, lower_flat
from calque.lowering.target.targets import cpu_target
from calque.runtime import Device, Module

# In the order in which they are built.
DTYPES = tuple(np.dtype(d) for d in (
    "float32", "int32", "bool", "uint32", "float64", "int64", "complex64", "complex128", "float16",
    dtypes.bfloat16, "uint8", "int8"))
# What eager code rarely asks for is not in the pack, nor what takes long to compile.
_RARE = ("bessel_i0e", "bessel_i1e", "mulhi", "conj", "complex", "add_any", "copy", "stop_gradient")
_LONG = 100  # weight
UNARY, BINARY = (tuple(sorted(
    p.name for p in registry.values() if p.elementwise and p.arity == n and p.name not in _RARE
    and p.weight < _LONG)) for n in (1, 2))
_CONVERTED = tuple(np.dtype(d) for d in ("float32", "int32", "bool", "float64", "int64"))

_lock = threading.Lock()
_loaded = Memo()  # modules by dtype and target


def find(name: str, dtype: Any, device: Device) -> Module | None:
    """The module of the pack that holds an entry point, for operands of a dtype."""
    with _lock:
        key = (dtype, cpu_target())
        if key not in _loaded:
            _loaded[key] = _load(dtype)
        found = _loaded[key]
    if found is not None and name in found.names(device.sync):
        return found
    return None


def _load(dtype: Any) -> Module | None:
    vmfb = cache.stored(_chunk(dtype), cpu_target()) if dtype in DTYPES else None
    if vmfb is None:
        return None
    return Module(vmfb)


def _chunk(dtype: Any) -> str:
    return f"eager pack {dtype.name}: {UNARY} {BINARY} {_CONVERTED}"


def programs(dtype: Any) -> Iterator[tuple[str, Program]]:
    """(entry point, flat Program) of every operation of the pack on operands of a dtype."""
    for name in UNARY:
        yield from _one(registry[name], [(dtype, False)])
    for name in BINARY:
        for scalars in ((False, False), (False, True), (True, False)):
            yield from _one(registry[name], [(dtype, s) for s in scalars])
    for to in _CONVERTED:
        if to != dtype:
            yield from _one(registry["convert_element_type"], [(dtype, False)],
                            new_dtype=to, weak_type=False, sharding=None)
    for first, second in ((False, False), (True, False), (False, True)):
        yield from _one(registry["select_n"], [
            (np.dtype(bool), False), (dtype, first), (dtype, second)])


def _one(prim: Primitive, operands: list[tuple[Any, bool]], **params: Any
         ) -> Iterator[tuple[str, Program]]:
    """The flat Program of a primitive on operands (dtype, whether rank 0), if it takes them."""
    inputs = [Var(flat_aval(ShapedArray((), d), scalar)) for d, scalar in operands]
    try:
        aval = prim.rule("abstract")(*[ShapedArray(() if s else (2,), d) for d, s in operands],
                                     **params)
    except (TypeError, ValueError):
        return
    out = Var(flat_aval(aval, False))
    program = Program(inputs, [Equation(prim, tuple(inputs), (out,), params)], [out],
                      name=prim.name)
    yield entry_name(program), program


def missing() -> list[Any]:
    """The dtypes whose part of the pack is not in the cache."""
    return [d for d in DTYPES if cache.stored(_chunk(d), cpu_target()) is None]


def build(done: Callable[[Any], None] = lambda dtype: None) -> int:
    """Build what is missing of the pack and keep it in the disk cache; the number of dtypes."""
    found = missing()
    for dtype in found:
        vmfb = compile_module(lower_flat(list(programs(dtype)), cpu_target()), cpu_target())
        cache.store(_chunk(dtype), cpu_target(), vmfb)
        done(dtype)
    with _lock:
        _loaded.clear()
    return len(found)
