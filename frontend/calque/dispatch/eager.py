"""Running Programs now: the evaluator of the bottom trace, and lazy recording.

Outside a transformation a primitive runs as a program of its own; a block under `lazy_eval()`
(eager grad, jvp, vmap, and public functions of many operations) is recorded and run as one program
when it ends, or as soon as Python needs a value.  `compiled` is the memory cache of executables,
keyed by the structure of the Program.  Start reading at `Compiled` and `LazyTrace`.
"""
from __future__ import annotations

import contextlib
import itertools
import math
import os
import pathlib
import re
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calque.core import dtypes, numbers
from calque.core.avals import aval_of
from calque.core.config import config
from calque.core.formats import order_of
from calque.core.lists import flagged
from calque.core.memo import Memo, Recent
from calque.core.primitive import Primitive
from calque.core.program import (
    Atom,
    Equation,
    Literal,
    Program,
    Var,
    eliminate_dead_code,
)
from calque.core.source import here
from calque.core.trace import (
    Trace,
    Tracer,
    as_current,
    at_bottom,
    current,
    escaped_tracer_error,
    eval_trace,
    scopes,
)
from calque.core.types import Function, Params
from calque.dispatch import numpy_rules, shape_polymorphic
from calque.dispatch.array import (
    Array,
    as_values,
    current_device,
    from_numpy,
    from_scalar,
    on_device,
    on_one,
    to_array,
)
from calque.dispatch.laid import relaid
from calque.dispatch.nonfinite import check_floats, check_program
from calque.dispatch.sharded import labels
from calque.dispatch.sharded.partial_arrays import unreduced_axes
from calque.dispatch.sharded.partition import has_own, name_messages, own_program
from calque.dispatch.sharded.spanning import elsewhere, made
from calque.dispatch.strings import refuse as refuse_strings
from calque.lowering.driver.attempts import compile_lowered
from calque.lowering.driver.module import Lowered, LowerOptions, lower, module_text
from calque.lowering.target import cuda
from calque.lowering.target.targets import (
    Target,
    TargetError,
    parse_target,
    runnable_target,
    vulkan_target,
)
from calque.runtime import Buffer, Device, Executable, Module, devices
from calque.runtime.callbacks import of_program
from calque.runtime.device import check_not_forked
from calque.runtime.target import check_target

# ---- compiled Programs


def _without_arrays(p: Program) -> Program:
    """The Program with its consts' types in the place of their values."""
    return Program(p.inputs, p.equations, p.outputs, p.const_vars,
                   [v.aval for v in p.const_vars], p.name) if p.consts else p


class Compiled:
    """A Program ready to run on a device, on Buffers (consts are leading arguments)."""

    __slots__ = ("__weakref__", "lowered", "executable", "device", "identity_abi", "vmfb")

    def __init__(self, lowered: Lowered, device: Device, vmfb: bytes | None) -> None:
        # (arrays that a function captured live as long as that function)
        lowered = replace(lowered, program=_without_arrays(lowered.program))
        self.lowered, self.device, self.vmfb = lowered, device, vmfb
        self.executable = None if vmfb is None else Executable(
            Module(vmfb, lowered.callbacks), device, lowered.call, name=lowered.program.name)
        count = len(lowered.program.const_vars) + len(lowered.program.inputs)
        # the common case: every argument is passed, every result computed, in order
        self.identity_abi = (
            self.executable is not None and lowered.arguments == tuple(range(count))
            and all(r.kind == "computed" and r.position == i
                    for i, r in enumerate(lowered.results)))

    def __call__(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        """Run; results come back at once, ready or behind a fence."""
        if self.identity_abi:
            return self.executable(buffers)  # type: ignore[misc]
        low = self.lowered
        for b in buffers:
            if b.is_deleted():
                raise b.deleted_error()
        computed = [] if self.executable is None else self.executable(
            [buffers[i] for i in low.arguments])
        taken: set[int] = set()
        results = []
        for r in low.results:
            if r.kind == "argument":
                results.append(buffers[r.position].with_shape(r.aval.shape))
            elif r.kind == "empty":
                results.append(Buffer.of_host(np.zeros(r.aval.shape, r.aval.dtype), self.device))
            else:
                one = computed[r.position]
                results.append(one.with_shape(r.aval.shape) if r.position in taken else one)
                taken.add(r.position)
        return results


_memory = Recent(128)  # executables: 57 KB each, which functions hold that may be dropped,
_lasting = Memo(4096)  # and those of eager work, which nobody else holds
_memory_lock = threading.Lock()
_in_flight: dict[Any, threading.Event] = {}


def target_of(device: Device) -> Target:
    """The compile target of a device."""
    if device.platform == "cpu":
        return runnable_target()
    if device.platform == "cuda":
        return parse_target(f"cuda:{_sm_of(device, at_most=(8, 0))}")
    from calque.runtime import vulkan  # (5 ms)
    there = vulkan.features_of(device)
    if not isinstance(there, str):
        return vulkan_target(vulkan.words(there), there.name, there.kind)
    lavapipe = "llvmpipe" in device.device_kind  # or else the most portable one
    return parse_target("vulkan:lavapipe" if lavapipe else "vulkan:vp_android_baseline_2022")


def _sm_of(device: Device, at_most: tuple[int, int] = (99, 0)) -> str:
    """IREE's name for a card, or for an older one of a capability.

    Programs that run here are compiled for 8.0 on newer cards: IREE gains nothing by their names,
    and the driver compiles its PTX for them.
    """
    from calque.runtime import cuda as card  # (asks the driver)
    there, driver = card.capability(device.index), card.driver_version()
    return cuda.name_of(min(there or (8, 0), at_most),
                        None if driver is None else card.newest_ptx(driver))


def named_target(name: str | Target) -> Target:
    """The target of a name; vulkan:host and cuda:host are the first such devices here."""
    text = name.strip() if isinstance(name, str) else ""
    try:
        if text == "vulkan:host":
            return target_of(devices("vulkan")[0])
        if text in ("cuda:host", "gpu:host"):
            return parse_target(f"cuda:{_sm_of(devices('cuda')[0])}")
    except RuntimeError as error:
        raise TargetError(f"target {name!r}: {error}") from error
    return parse_target(name)


def compiled(program: Program, device: Device, donated: tuple[int, ...] = (),
             reason: str = "", lasting: bool = True) -> Compiled:
    """The executable of a Program, compiled at most once per structure; `lasting`: it is kept here,
    where else it lives as long as the caller holds it, or is among the latest."""
    key = (program.key(), device, config.calque_cpu, donated)
    found: Compiled | None = _lasting.get(key)
    if found is None:
        found = _memory.find(key) or _compile_once(key, program, device, donated, reason)
        if lasting:
            _lasting.keep(key, found)
    return found


def _compile_once(key: Any, program: Program, device: Device, donated: tuple[int, ...],
                  reason: str) -> Compiled:
    """Compile, while other threads that want the same program wait for this one."""
    while True:
        with _memory_lock:
            found: Compiled | None = _memory.find(key)
            if found is not None:
                return found
            waiting = _in_flight.get(key)
            if waiting is None:
                mine = _in_flight[key] = threading.Event()
                break
        waiting.wait()
    try:
        made = compile_program(program, device, donated, reason)
        _memory.keep(key, made)
        return made
    finally:
        with _memory_lock:
            del _in_flight[key]
        mine.set()


def compile_program(program: Program, device: Device, donated: tuple[int, ...] = (),
                    reason: str = "") -> Compiled:
    """Lower and compile, past the memory cache."""
    check_not_forked()
    target = target_of(device)
    options = LowerOptions(donated=donated, output_buffers=target.takes_memory,
                           transients=target.takes_storage, in_process=True)
    lowered, vmfb = compile_lowered(
        lambda **how: lower(program, target, replace(options, **how)), target,
        lambda lowered: lowered.options, reason or program.name, program.name)
    if vmfb is not None:
        _dump(lowered, vmfb)
    if lowered.needs or device.platform == "cuda":
        check_target({**target.record(), "features": [*target.uses(), *lowered.needs]}, device,
                     lowered.program.name)
    return Compiled(lowered, device, vmfb)


def _dump(lowered: Lowered, vmfb: bytes) -> None:
    """CALQUE_DUMP=dir: keep each program as traced text, StableHLO and vmfb."""
    folder = os.environ.get("CALQUE_DUMP")
    if not folder or lowered.module is None:
        return
    name = re.sub(r"\W+", "_", lowered.program.name) or "program"
    base = pathlib.Path(folder) / f"{next(_dumps):04d}-{name}"
    base.parent.mkdir(parents=True, exist_ok=True)
    base.with_suffix(".traced.txt").write_text(f"{lowered.program}\n")
    base.with_suffix(".stablehlo.mlir").write_text(module_text(lowered.module))
    base.with_suffix(".vmfb").write_bytes(vmfb)


_dumps = itertools.count()


def run_program(program: Program, args: Sequence[Array], reason: str = "") -> list[Array]:
    """Run a Program on Arrays (consts included in the Program)."""
    if has_own(program, [a.aval for a in args]):
        return _run_spanning(program, args, reason)
    device = _device_of(args)
    if any([a._buffer.device is not device for a in args]):
        device, moved = on_one(args, [a._buffer for a in args])
        args = [Array(b, a.aval) for b, a in zip(moved, args)]
    outs = prepared(program, device, reason)([a._buffer for a in args])
    arrays = [Array(b, o.aval) for b, o in zip(outs, program.outputs)]
    check_program(arrays, program, [*program.consts, *args])
    return arrays


def prepared(program: Program, device: Device, reason: str
             ) -> Callable[[Sequence[Buffer]], list[Buffer]]:
    """What runs a Program on buffers of a device (its consts are there)."""
    flat = shape_polymorphic.prepared(program, device, reason)
    if flat is not None:
        return flat
    made = compiled(program, device, reason=reason)
    consts = [on_device(c, device) for c in program.consts]
    return lambda buffers: made([*consts, *buffers])


def _device_of(args: Sequence[Array]) -> Device:
    return next((a._buffer.device for a in args), None) or current_device()


_localized = Memo(4096)  # of programs over arrays that span processes


def _run_spanning(program: Program, args: Sequence[Array], reason: str) -> list[Array]:
    """The same over arrays that span processes, or are of summands."""
    avals = (*[aval_of(c) for c in program.consts], *[a.aval for a in args])
    device = _device_of(args)
    key = (program.key(), avals, tuple(o.aval for o in program.outputs), device)
    found = _localized.get(key)
    if found is None:
        local = own_program(program, avals, program.out_avals)
        run = compiled(local, device, reason=reason)
        name_messages(run.lowered, program)
        found = _localized.keep(key, (run, [on_device(c, device) for c in local.consts]))
    run, places = found
    outs = run([*places, *[on_device(c, device) for c in program.consts],
                *[a._buffer for a in args]])
    return [made(b, o.aval) for b, o in zip(outs, program.outputs)]


# ---- the bottom trace
def evaluate(prim: Primitive, args: Sequence[Any], params: Params) -> Any:
    """Run one primitive on concrete values."""
    done = _at_once(prim, args, params)
    if done is not None:
        return done
    arrays = [to_array(a) for a in args]
    variables = [Var(a.aval) for a in arrays]
    inputs: list[Atom] = list(variables)
    fixed = shape_polymorphic.known_operand(prim, args)
    if fixed is not None:
        inputs[fixed] = Literal(args[fixed], arrays[fixed].aval)
    out = numpy_rules.abstract(prim, [a.aval for a in arrays], params)
    outputs = [Var(a) for a in (out if prim.multiple_results else (out,))]
    program = Program(variables, [Equation(prim, tuple(inputs), tuple(outputs), params, here())],
                      outputs, name=prim.name)
    results = run_program(program, arrays, reason=f"eager {prim.name}")
    return results if prim.multiple_results else results[0]


def _at_once(prim: Primitive, args: Sequence[Any], params: Params) -> Any:
    """The results without a program of these shapes, by the first that has them."""
    for way in LADDER:
        done: Any = way(prim, args, params)
        if done is not None:
            break
    if done is not None and (config.jax_debug_nans or config.jax_debug_infs):
        check_floats(done if prim.multiple_results else [done], prim.name)
    return done


def _by_view(prim: Primitive, args: Sequence[Any], params: Params) -> Any:
    """What moves nothing (reshape, squeeze, a change of the weak type only), and callbacks."""
    shortcut = _called if prim.calls_python else _SHORTCUTS.get(prim.name)
    return None if shortcut is None else shortcut(prim, args, params)


def _reshaped(prim: Primitive, args: Sequence[Any], params: Params) -> Any:
    """reshape and squeeze share the memory."""
    (x,) = args
    if type(x) is not Array or x._pending is not None:
        return None
    out = numpy_rules.abstract(prim, [x.aval], params)
    shape = (*out.shape, out.dtype.words) if dtypes.is_key(out.dtype) else out.shape
    return Array(x._buffer.with_shape(shape), out)


def _converted(prim: Primitive, args: Sequence[Any], params: Params) -> Any:
    """A conversion that changes only the weak type."""
    (x,) = args
    if type(x) is not Array or x._pending is not None or x.aval.dtype != params["new_dtype"]:
        return None
    out = x.aval.update(weak_type=bool(params["weak_type"]))
    return Array(x._buffer.with_shape(x._buffer.shape), out)


def _placed(prim: Primitive, args: Sequence[Any], params: Params) -> Any:
    """A constraint of where a value is: another label."""
    x = to_array(args[0])
    if type(x) is not Array or x._pending is not None or params["sharding"].spans:
        return None
    out = numpy_rules.abstract(prim, [x.aval], params)
    if unreduced_axes(out):
        return None
    return Array(x._buffer.with_shape(x._buffer.shape), out)


def _relaid(prim: Primitive, args: Sequence[Any], params: Params) -> Any:
    """A constraint of how an array lies moves it."""
    (x,) = args
    aval = aval_of(x)
    if elsewhere([aval]):
        return None
    return relaid(x, order_of("with_layout_constraint", params["layout"], aval.shape))


def _called(prim: Primitive, args: Sequence[Any], params: Params) -> list[Any] | None:
    """A callback on concrete values needs no program."""
    if elsewhere([aval_of(a) for a in args]):
        return None
    for a in args:
        refuse_strings(a)
    try:
        outs = params["callback"]([np.asarray(a, aval_of(a).dtype) for a in args])
    except Exception as error:
        raise of_program(error) from error  # as a program's that calls Python
    return [from_numpy(o, False) for o in outs]


def _alike(prim: Primitive, args: Sequence[Any], params: Params) -> list[Array] | None:
    """Two arrays spread alike: other labels."""
    xs = [to_array(a) for a in args]
    avals = [x.aval for x in xs]
    if elsewhere(avals):
        return None
    return [Array(x._buffer.with_shape(x._buffer.shape), a)
            for x, a in zip(xs, numpy_rules.abstract(prim, avals, params))]


_SHORTCUTS: dict[str, Function] = {
    "reshape": _reshaped, "squeeze": _reshaped, "convert_element_type": _converted,
    "sharding_constraint": _placed, "layout_constraint": _relaid,
    "shard_alike": _alike}

# "How a call is dispatched" in docs/eager.md: ways to run an operation now, the cheapest first.
# One gives None for what it leaves to the next; what all leave is a program of its shapes
# (`evaluate`).
LADDER = (numpy_rules.evaluate, _by_view, shape_polymorphic.evaluate)


# ---- lazy recording
LITERALS = frozenset((0, 1, -1, 2, 0.5))  # scalars written into programs; others are arguments
LONGEST = 1000  # equations recorded before they are run


class LazyTrace(Trace):
    """Records eager operations; their results are Arrays whose values come at `flush`."""

    __slots__ = ("equations", "inputs", "arrays", "lock", "name", "numbers")
    kind = "lazy"

    def __init__(self, name: str) -> None:
        super().__init__(eval_trace)
        self.name = name
        self.lock = threading.RLock()
        self.numbers: dict[int, tuple[Array, Any]] = {}  # arguments that are Python's
        self._reset()

    def _reset(self) -> None:
        self.equations: list[Equation] = []
        self.inputs: dict[int, tuple[Var, Array]] = {}
        self.arrays: list[weakref.ref[Array]] = []

    def number(self, x: Any) -> Any:
        return self.numbers[id(x)][1] if id(x) in self.numbers else x

    def atom(self, x: Any, prim: Primitive) -> Atom:
        if isinstance(x, Tracer):
            raise escaped_tracer_error(x, prim)
        if isinstance(x, (bool, int, float, np.generic)) and is_literal(x, prim):
            return Literal(x, aval_of(x))
        array = to_array(x)
        pending = array._pending
        if pending is not None and pending[0] is self:
            return pending[1]
        found = self.inputs.get(id(array))
        if found is None:
            _ = array._buffer  # runs what another thread's recording still holds
            found = self.inputs[id(array)] = (Var(array.aval), array)
        return found[0]

    def _now(self, prim: Primitive, args: Sequence[Any], params: Params) -> Any:
        """The results of an operation on small, known values; None for what is recorded."""
        limit = math.inf if prim.name in numpy_rules.READS_PARTS else numpy_rules.LIMIT
        if any(type(a) is Array and numpy_rules.concrete_value(a, limit) is None for a in args):
            return None
        with as_current(eval_trace):
            return _at_once(prim, args, params)

    def process(self, prim: Primitive, args: Sequence[Any], params: Params) -> Any:
        if prim.inline is not None:
            with as_current(self):
                return prim.inline(*args, **params)
        if prim.opened is not None and (run := prim.opened(params)) is not None:
            with as_current(self):
                return run(*args, **params)
        if not any(isinstance(a, Tracer) for a in args):
            done = self._now(prim, args, params)
            if done is not None:
                return done
        with self.lock:
            atoms = tuple(self.atom(a, prim) for a in args)
            avals = [a.aval for a in atoms]
            out = labels.typed(prim, avals, params, prim.rule("abstract")(*avals, **params))
            variables = tuple(Var(a) for a in (out if prim.multiple_results else (out,)))
            self.equations.append(Equation(prim, atoms, variables, params, here(), scopes.get()))
            arrays = [made(None, v.aval, (self, v)) for v in variables]
            self.arrays.extend(weakref.ref(a) for a in arrays)
            if len(self.equations) >= LONGEST or prim.has_effects(params):  # effects come now
                self.flush()
            return arrays if prim.multiple_results else arrays[0]

    def flush(self) -> None:
        """Run what was recorded; Arrays that are still alive get their values."""
        with self.lock:
            alive = [a for r in self.arrays if (a := r()) is not None]
            pairs, equations = list(self.inputs.values()), self.equations
            self._reset()
            if not alive and not any(e.primitive.has_effects(e.params) for e in equations):
                return
            program = eliminate_dead_code(Program(
                [v for v, _ in pairs], equations, [a._pending[1] for a in alive],
                name=self.name))
            try:
                results = run_program(program, [a for _, a in pairs], f"eager {self.name}")
            except BaseException:
                for a in alive:  # they can never get a value: say so when they are used
                    a._pending = None
                raise
            for a, r in zip(alive, results):
                a._own, a._pending = r._own, None


def operands(leaves: Sequence[Any]) -> list[Any]:
    """Arguments of a transformation as arrays or tracers, whose numbers are `remembered`."""
    return remembered(leaves, as_values(leaves))


def remembered(leaves: Sequence[Any], values: list[Any]) -> list[Any]:
    """The values; outside of other transformations the trace knows those made of Python's numbers
    again (Trace.number)."""
    trace = current.get()
    if type(trace) is LazyTrace:
        for x, a in zip(leaves, values):
            if type(x) in numbers.KINDS and type(a) is Array:
                trace.numbers[id(a)] = (a, x)
    return values


def results(outs: Sequence[Any]) -> list[Any]:
    """What a transformed function returns, as arrays or tracers; outside of other transformations
    its Python numbers stay what they are."""
    if type(current.get()) is not LazyTrace:
        return as_values(outs)
    known = list(map(as_given, outs))
    numeric = [isinstance(x, (int, float, complex)) and not isinstance(x, np.generic)
               for x in known]
    for x in flagged(known, numeric):
        dtypes.check_fits(x)
    return [x if n else as_values([x])[0] for x, n in zip(known, numeric)]


def as_given(x: Any) -> Any:
    """A value, or the Python number that it was made of (Trace.number)."""
    return current.get().number(x)


def stands_for_number(x: Any) -> bool:
    """Whether a traced value is one of Python's numbers that nothing has touched since."""
    while isinstance(x, Tracer) and hasattr(x, "primal"):
        outer, x = x._trace.parent, x.primal
        if outer is not None and outer.number(x) is not x:
            return True
    return False


def is_literal(x: Any, prim: Primitive) -> bool:
    """Whether a scalar is written into the program of an operation; other scalars are arguments."""
    if isinstance(x, (complex, np.complexfloating)):
        return False
    if prim.higher_order and isinstance(x, (float, np.floating)):
        return False  # (a loop from 0. goes on from an array: one program for both)
    return prim.static_operand is not None or float(x) in LITERALS


@contextlib.contextmanager
def lazy_eval(name: str = "eager") -> Iterator[None]:
    """Record the eager operations of the block and run them as one program at its end.

    Inside a transformation it does nothing: operations are recorded there anyway.
    """
    if not at_bottom() or config.jax_disable_jit:
        yield
        return
    trace = LazyTrace(name)
    token = current.set(trace)
    try:
        yield
    finally:
        current.reset(token)
        trace.flush()


__all__ = ["Compiled", "LazyTrace", "as_given", "compile_program",
           "compiled", "evaluate", "from_scalar", "is_literal", "lazy_eval", "named_target",
           "operands", "remembered", "results", "run_program", "stands_for_number", "target_of"]
