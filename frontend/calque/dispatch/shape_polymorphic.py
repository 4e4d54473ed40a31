"""Elementwise work on concrete arrays of any shape, without a compile per shape.

Eagerly, `jnp.sin(x)` runs one executable for all shapes of x: the arrays are passed flat, under
one axis of unknown size (lowering/driver/flat).  Executables are those compiled ahead
(precompiled.py), else they are compiled one at a time.  Start reading at `evaluate` and `prepared`.
"""
from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray
from calque.core.config import config
from calque.core.dtypes import is_key
from calque.core.memo import Memo
from calque.core.primitive import Primitive
from calque.core.program import Atom, Equation, Literal, Program, Var
from calque.core.trace import current, eval_trace
from calque.core.types import Params
from calque.dispatch import precompiled
from calque.dispatch.array import Array, on_device, to_array
from calque.dispatch.numpy_rules import abstract
from calque.dispatch.sharded.spanning import elsewhere
from calque.lowering.driver.cache import compile_cached
from calque.lowering.driver.flat import entry_name, flat_aval, flatten, is_flat, lower_flat
from calque.lowering.passes import cost
from calque.lowering.target.targets import runnable_target
from calque.runtime import Buffer, Device, FlatExecutable, Module

_lock = threading.Lock()
_memory = Memo()
_calls = Memo(16384)  # what runs an operation on Arrays of these types, found without a search


class _Flat:
    """An executable and what a call must know."""

    __slots__ = ("avals", "executable", "weight")

    def __init__(self, program: Program, device: Device, reason: str) -> None:
        self.avals = [o.aval for o in program.outputs]
        self.weight = sum(e.primitive.weight for e in program.equations)
        name = entry_name(program)
        module = precompiled.find(name, program.inputs[-1].aval.dtype, device)
        if module is None:
            target = runnable_target()
            vmfb = compile_cached(lower_flat([(name, program)], target), target, reason=reason,
                                  name=program.name)
            module = Module(vmfb)
        self.executable = FlatExecutable(
            module, device, name, [not v.aval.shape for v in program.inputs],
            [a.dtype for a in self.avals], program.name)


def _ready(key: Any, make: Any, device: Device, reason: str) -> _Flat:
    with _lock:  # one compile at a time: they share the compiler's threads anyway
        found = _memory.get(key)
        return found or _memory.keep(key, _Flat(make(), device, reason))


def known_operand(prim: Primitive, args: Sequence[Any]) -> int | None:
    """The operand that has a better form where its value is known (an exponent), if it is."""
    i = prim.static_operand
    return None if i is None or isinstance(args[i], (Array, np.ndarray)) else i


def again(prim: Primitive, x: Array) -> Array | None:
    """prim(x), outside of transformations, where such a call was made before; else None."""
    if current.get() is not eval_trace:
        return None
    call = _calls.get((prim, config.key(), x.aval))
    return None if call is None else _again(call, (x,))


def _again(call: tuple[FlatExecutable, ShapedArray, bool], args: Sequence[Array]) -> Array | None:
    executable, out, run_inline = call
    device = executable.device
    own = [a._own for a in args]
    for a, b in zip(args, own):
        if b is None or a._pending is not None or b.device is not device:
            return None
    return Array(executable(own, out.shape, run_inline)[0], out)  # type: ignore[arg-type]


def evaluate(prim: Primitive, args: Sequence[Any], params: Params) -> Array | None:
    """The result of an elementwise primitive, None where it needs a program of its shapes."""
    if not is_flat(prim) or prim.multiple_results:
        return None
    types = None
    if all([type(a) is Array for a in args]):
        try:
            types = (prim, config.key(), *[a.aval for a in args], *params.items())
            call = _calls.get(types)
        except TypeError:  # a parameter that has no hash
            return None
        if call is not None and (done := _again(call, args)) is not None:
            return done
    literal, fixed = None, known_operand(prim, args)
    if fixed is not None:
        literal, args = args[fixed], args[:fixed]
    arrays = [to_array(a) for a in args]
    avals = [a.aval for a in arrays]
    if any([is_key(a.dtype) for a in avals]) or elsewhere(avals):
        return None
    if literal is None:
        out = abstract(prim, avals, params)
    else:
        exponent = to_array(literal).aval
        out = abstract(prim, [*avals, exponent], params)
    device = next((a._buffer.device for a in arrays if a.shape), arrays[0]._buffer.device)
    if not device.is_host or not out.size:
        return None
    scalars = [not a.shape and bool(out.shape) for a in avals]
    value = None if literal is None else (type(literal), np.asarray(literal).tobytes())
    try:
        key = (device, config.calque_cpu, prim,
               *[(a.dtype, s) for a, s in zip(avals, scalars)], value, *params.items())
        found = _memory.get(key)
    except TypeError:  # a parameter that has no hash
        return None
    if found is None:
        def make() -> Program:
            inputs = [Var(flat_aval(a, s)) for a, s in zip(avals, scalars)]
            atoms: list[Atom] = list(inputs)
            if literal is not None:
                atoms.append(Literal(literal, exponent))
            result = Var(flat_aval(out, False))
            return Program(inputs, [Equation(prim, tuple(atoms), (result,), params)], [result],
                           name=prim.name)
        found = _ready(key, make, device, f"eager {prim.name}, any shape")
    run_inline = out.size * found.weight < cost.INLINE_WORK
    if types is not None and not (config.jax_debug_nans or config.jax_debug_infs):
        _calls.keep(types, (found.executable, out, run_inline))
    buffers = [on_device(a, device) for a in arrays]
    return Array(found.executable(buffers, out.shape, run_inline)[0], out)


def prepared(program: Program, device: Device, reason: str
             ) -> Callable[[Sequence[Buffer]], list[Buffer]] | None:
    """What runs a recorded Program that is elementwise over one shape; None for others."""
    if not device.is_host:
        return None
    if "any shape" not in program.memo:  # (`derived` would check types that only `flat` allows)
        program.memo["any shape"] = flatten(program)
    flat: Program | None = program.memo["any shape"]
    if flat is None:
        return None
    key = (device, config.calque_cpu, flat.key())
    found = _memory.get(key)
    if found is None:
        found = _ready(key, lambda: flat, device, f"{reason}, any shape")
    consts = [on_device(c, device) for c in program.consts]
    shape = program.outputs[0].aval.shape
    inline = program.outputs[0].aval.size * found.weight < cost.INLINE_WORK
    executable = found.executable
    return lambda buffers: executable([*consts, *buffers], shape, inline)
