"""Public functions on concrete arrays: what they do for a signature is recorded, then replayed.

`planned(f)` is f; outside a transformation it stages f for the avals of its arrays (and the values
of everything else) and keeps what came out.  A plan of small arrays is a list of NumPy rules
(numpy_rules) and elementwise executables for any shape, run without a wrapper around each value;
any other plan is one Program.  Where f cannot be staged, because it looks at values or warns, it
runs as it is.  Start reading at `planned`.
"""
from __future__ import annotations

import enum
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray
from calque.core.config import config, is_off
from calque.core.memo import Memo
from calque.core.primitive import Primitive
from calque.core.program import Atom, Equation, Literal, Program, Var, eliminate_dead_code
from calque.core.trace import Tracer, as_current, current, eval_trace
from calque.core.tracebacks import hide_ours
from calque.core.types import Function, Params
from calque.dispatch import key_reuse, numpy_rules, shape_polymorphic, transfers
from calque.dispatch.array import HOST_BYTES, Array, current_device, from_numpy
from calque.dispatch.eager import is_literal, lazy_eval, prepared, run_program
from calque.dispatch.host_arguments import ndarray
from calque.dispatch.nonfinite import check_floats
from calque.dispatch.same_bits import exact
from calque.dispatch.sharded import labels
from calque.dispatch.sharded.partition import has_own
from calque.dispatch.sharded.spanning import made
from calque.lowering.driver.flat import flatten, is_flat
from calque.runtime import Buffer
from calque.transforms.explicit import of_types, resolved
from calque.transforms.stage import StageTrace, literal_value
from calque.trees import util as tree_util

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_KNOWN = frozenset(dtypes.ALL)
_PLAIN = frozenset((int, bool, str, bytes, complex, type(None), type(Ellipsis)))
_plans = Memo(4096)  # (they hold their executables)
_trees: set[type] = set()  # classes whose arrays an argument or a result may hold: `plan_tree`
_STREAK = 16  # new signatures of a function in a row; then one is recorded when it comes again


_NEW, _SEEN = object(), object()
_OFF = is_off("plans")


class Unplanned(Exception):
    """What was called depends on more than its signature."""


def planned(f: F) -> F:
    """Decorator: eagerly, what f does for a signature is recorded once and run as a whole."""
    name = f.__name__
    streak = 0

    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        nonlocal streak
        if current.get() is not eval_trace:
            return f(*args, **kwargs)
        arrays: list[Any] = []
        try:
            try:
                key: Any = (f, config.key(), *[_part(a, arrays) for a in args])
                if kwargs:
                    key += tuple((k, _part(v, arrays)) for k, v in kwargs.items())
                plan = _plans.get(key, _NEW)
            except TypeError:  # no key: a value without a hash, a function
                plan = None
            for a in args if config.guards else ():
                if isinstance(a, np.ndarray):
                    transfers.check("host_to_device", a)
            if plan is _NEW and streak >= _STREAK:  # numbers that are others each time
                _plans.keep(key, _SEEN)
                plan = None
            elif plan is _NEW or plan is _SEEN:
                streak += 1
                plan = _plans.keep(key, _learn(f, args, kwargs, arrays))
            else:
                streak = 0
            if plan is not None:
                done = plan.run([
                    a if type(a) is Array else ndarray(a, key[1], True) if type(a) is np.ndarray
                    else from_numpy(a) for a in arrays])
                if done is not None:
                    return plan.pack(done)
            if config.jax_debug_nans or config.jax_debug_infs:
                return _checked(wrapper, name, args, kwargs)
            with lazy_eval(name):
                if config.jax_debug_key_reuse:
                    return key_reuse.called(f, args, kwargs, lambda: f(*args, **kwargs))
                return f(*args, **kwargs)
        except Exception as error:
            hide_ours(error)
            raise

    return wrapper  # type: ignore[return-value]


def plan_tree(cls: type[T]) -> type[T]:
    """Class decorator: planned functions take and give objects of this class of pytree nodes, whose
    tree_flatten gives Arrays and, with a hash, everything else."""
    _trees.add(cls)
    return cls


def _checked(f: Function, name: str, args: Any, kwargs: Any) -> Any:
    """Under jax_debug_nans and jax_debug_infs: what f returns is checked, not what it computes on
    the way, which may well be NaN where it chooses another value (as in JAX's jitted functions)."""
    with config.context("jax_debug_nans", False), config.context("jax_debug_infs", False):
        out = f(*args, **kwargs)
    check_floats([x for x in tree_util.tree_leaves(out) if type(x) is Array], name)
    return out


def refuse() -> None:
    """Called by what must not be remembered, such as a warning: f runs as it is."""
    trace: Any = current.get()
    while trace is not None:
        if trace.kind == "plan":
            raise Unplanned
        trace = trace.parent


def _part(x: Any, arrays: list[Any]) -> Any:
    """What of an argument the plan depends on; the Arrays in it, and NumPy's, are collected."""
    kind = type(x)
    if kind is Array:
        arrays.append(x)
        return x.aval
    if kind in _PLAIN:
        return kind, x
    if kind is np.ndarray and x.dtype in _KNOWN:
        arrays.append(x)
        return kind, x.shape, x.dtype
    if kind is float:
        return x.hex()  # 0.0 == -0.0, and 1.0 == 1 == True
    if kind is tuple or kind is list:
        return kind, *[_part(v, arrays) for v in x]
    if kind in _trees:
        children, aux = x.tree_flatten()
        return kind, aux, *[_part(v, arrays) for v in children]
    if isinstance(x, (type, np.dtype, enum.Enum)):
        return kind, x
    if isinstance(x, np.generic):
        return kind, x.tobytes()
    raise TypeError


# ---- recording
class _PlanTrace(StageTrace):
    """Stages what would run eagerly: nested jits are opened."""

    __slots__ = ()
    kind = "plan"

    def process(self, prim: Primitive, args: Sequence[Any], params: Params) -> Any:
        if prim.inline is not None:
            with as_current(self):
                return prim.inline(*args, **params)
        if prim.opened is not None and (run := prim.opened(params)) is not None:
            with as_current(self):
                return run(*args, **params)
        return super().process(prim, args, params)


def _learn(f: Function, args: Any, kwargs: Any, arrays: list[Any]) -> Any:
    """The plan of a signature, None where f has to run as it is."""
    if config.jax_debug_nans or config.jax_debug_infs or config.jax_disable_jit or (
            config.jax_debug_key_reuse) or _OFF or (
            resolved.get()):
        return None
    try:
        return _record(f, args, kwargs, arrays)
    except Exception:  # whatever it was, f says it again when it runs
        return None


def _record(f: Function, args: Any, kwargs: Any, arrays: list[Any]) -> _OnHost | _Whole:
    trace = _PlanTrace(f.__name__, eval_trace)
    avals = [a.aval if type(a) is Array else ShapedArray(a.shape, dtypes.canonical(a.dtype))
             for a in arrays]
    inputs = [trace.new(a) for a in of_types(avals)]
    rest = iter(inputs)

    def traced(x: Any) -> Any:
        if type(x) is Array or type(x) is np.ndarray:
            return next(rest)
        if type(x) in _trees:
            children, aux = x.tree_flatten()
            return type(x).tree_unflatten(aux, [traced(v) for v in children])
        return type(x)(map(traced, x)) if type(x) in (tuple, list) else x

    try:
        with as_current(trace):
            out = f(*[traced(a) for a in args], **{k: traced(v) for k, v in kwargs.items()})
        kind, aux = type(out), None
        if kind in _trees:
            out, aux = out.tree_flatten()
        outs = list(out) if isinstance(out, (tuple, list)) else [out]
        if not outs or not all(type(o) is Array or isinstance(o, Tracer) for o in outs):
            raise Unplanned
        program = _folded(_lifted(eliminate_dead_code(trace.program(inputs, outs))))
    finally:
        trace.close()
    if not isinstance(out, (tuple, list)):
        pack: Callable[[list[Array]], Any] = _only
    elif kind in _trees:
        pack = functools.partial(kind.tree_unflatten, aux)
    else:
        pack = kind if kind in (tuple, list) else kind._make
    if labels.any_of(avals) or labels.program_places(program):
        pack = _labelling(pack, labels.of_program(program, avals, lambda i: f"args[{i}]"))
    steps = _steps(program)
    if steps is None or (_is_slow(program) or _is_flat_alone(program)) and (
            flatten(program) is not None):
        return _Whole(program, pack)  # (one executable serves all shapes)
    return _OnHost(program, steps, pack)


def _only(outs: list[Array]) -> Array:
    return outs[0]


def _labelling(pack: Callable[[list[Array]], Any], avals: Sequence[ShapedArray]
               ) -> Callable[[list[Array]], Any]:
    return lambda outs: pack([made(o._own, a, o._pending) for o, a in zip(outs, avals)])


def _lifted(p: Program) -> Program:
    """Numbers as constants that are passed: one executable for all of them."""
    variables, values = list(p.const_vars), list(p.consts)
    equations = []

    def constant(a: Literal) -> Var:
        variables.append(Var(a.aval))
        values.append(Array(from_numpy(np.asarray(a.value))._own, a.aval))
        return variables[-1]

    for e in p.equations:
        shaped = e.inputs[1:] if e.name == "select_n" else e.inputs
        known = all(isinstance(a, Literal) for a in shaped)  # programs for any shape take none
        equations.append(e.replace(inputs=tuple(
            constant(a) if isinstance(a, Literal)
            and (known or not is_literal(a.value, e.primitive)) else a for a in e.inputs)))
    outputs = [constant(o) if isinstance(o, Literal) else o for o in p.outputs]
    return Program(p.inputs, equations, outputs, variables, values, p.name)


def _folded(p: Program) -> Program:
    """Without the equations of numbers that are known: they are computed now, once."""
    known: dict[Atom, Any] = {v: value for v, c in zip(p.const_vars, p.consts)
                              if (value := numpy_rules.concrete_value(c)) is not None}
    equations, made = [], dict(zip(p.const_vars, p.consts))
    device = current_device()
    for e in p.equations:
        rule = numpy_rules.RULES.get(e.name)
        values = [known.get(a) if isinstance(a, Var) else np.asarray(a.value) for a in e.inputs]
        out = e.outputs[0]
        if (rule is None or e.primitive.multiple_results or out.aval.nbytes > HOST_BYTES
                or _foreign(out.aval) or any(v is None for v in values)):
            equations.append(e)
            continue
        with np.errstate(all="ignore"):
            value = rule(out.aval, *values, **e.params)
        if value is None:
            equations.append(e)
            continue
        made[out] = numpy_rules.result(out.aval, value, device)
        known[out] = numpy_rules.concrete_value(made[out])
    folded = eliminate_dead_code(Program(p.inputs, equations, p.outputs, list(made),
                                         list(made.values()), p.name))
    # (numbers are arguments, each of which costs a call something)
    return folded if len(folded.consts) <= len(p.consts) + MORE_NUMBERS else p


# ---- plans
class _Whole:
    """One Program."""

    __slots__ = ("avals", "device", "pack", "program", "reason", "ready", "spans")

    def __init__(self, program: Program, pack: Callable[[list[Array]], Any]) -> None:
        self.program, self.pack = program, pack
        self.reason = f"eager {program.name}"
        self.avals = [o.aval for o in program.outputs]
        self.spans = has_own(program, [v.aval for v in program.inputs])
        self.ready: Any = None  # what ran last, on this device, and for these processors
        self.device: Any = None

    def run(self, arrays: list[Array]) -> list[Array] | None:
        buffers = [a._own or a._buffer for a in arrays]
        device = buffers[0].device if buffers else current_device()
        for b in buffers:
            if b.device is not device:
                return None
        if self.spans:
            return run_program(self.program, arrays, self.reason)
        place = device, config.calque_cpu
        if self.device != place:
            self.ready, self.device = prepared(self.program, device, self.reason), place
        return [Array(b, a) for b, a in zip(self.ready(buffers), self.avals)]


Step = tuple[Any, ShapedArray | list[ShapedArray], dict[str, Any], tuple[int, ...], Any]
Steps = tuple[list[Any], list[Step], list[int], list[float]]


class _OnHost:
    """Steps by NumPy over numbered values; the Program where a rule turns out to leave a dtype, and
    where a signature whose steps take longer than a compiled call comes again and again."""

    __slots__ = ("avals", "constants", "left", "limits", "outs", "pack", "program", "steps",
                 "together", "whole")

    def __init__(self, program: Program, steps: Steps, pack: Callable[[list[Array]], Any]) -> None:
        self.program, self.pack = program, pack
        self.constants, self.steps, self.outs, self.limits = steps
        self.avals = [o.aval for o in program.outputs]
        self.whole: _Whole | None = None
        # calls until it is compiled; 0: never, as where one call would not give the next one's bits
        slow = _is_slow(program) or _us(program) > _FLAT_US and flatten(program) is not None
        self.together = exact(program) if len(steps[1]) < _LONG and slow else None
        self.left = _OFTEN if self.together is not None else 0

    def run(self, arrays: list[Array]) -> list[Array] | None:
        if self.left:
            self.left -= 1
            if not self.left and self.together is not None:
                self.whole = _Whole(self.together, self.pack)
        if self.whole is not None:
            return self.whole.run(arrays)
        concrete_value = numpy_rules.concrete_value
        values = []
        for x, limit in zip(arrays, self.limits):
            value = concrete_value(x, limit)
            if value is None:
                return None
            values.append(value)
        device: Any = arrays[0]._own.device if arrays else current_device()  # type: ignore[union-attr]
        for x in arrays:
            if x._own.device is not device:  # type: ignore[union-attr]
                return None
        values += self.constants
        with np.errstate(all="ignore"):
            for rule, out, params, ins, to in self.steps:
                made = rule(out, *[values[i] for i in ins], **params)
                if made is None:
                    self.whole = _Whole(self.program, self.pack)
                    return self.whole.run(arrays)
                if to is None:
                    values.append(np.asarray(made))
                else:
                    values.extend(np.asarray(m) for m in made)
        return [numpy_rules.result(a, values[i], device) for a, i in zip(self.avals, self.outs)]


MORE_NUMBERS = 8  # that a program may take because they are computed before
_OFTEN = 16  # calls of a signature
_LONG = 256  # equations, from which on none is compiled to save microseconds
_CALL_US = 20  # what a compiled call costs, twice, in microseconds
_FLAT_US = 8  # what one costs that serves all shapes
_SLOW_STEPS = {"random_bits": 60, "random_split": 25, "random_fold_in": 25, "random_seed": 10,
               "sort": 8, "top_k": 8, "gather": 8, "scatter": 8, "scatter-add": 8}


def _is_slow(p: Program) -> bool:
    """Whether its steps by NumPy take longer than a compiled call."""
    return _us(p) > _CALL_US


def _us(p: Program) -> int:
    """What its steps take by NumPy, about, on a few elements."""
    return sum(map(_step_us, p.equations))


def _is_flat_alone(p: Program) -> bool:
    """Whether all there is to do is an operation that NumPy has no rule for."""
    return len(p.equations) == 1 and p.equations[0].name not in numpy_rules.RULES


def _step_us(e: Equation) -> int:
    """What an equation takes by NumPy, about, on a few elements."""
    return _SLOW_STEPS.get(e.name, 2 if e.name in numpy_rules.RULES else 9)


def _steps(p: Program) -> Steps | None:
    """(constants, steps, numbers of the outputs, most bytes of each input); None for programs."""
    place: dict[Var, int] = {v: i for i, v in enumerate(p.inputs)}
    constants: list[Any] = []
    steps: list[Step] = []

    def number(a: Atom) -> int:
        if isinstance(a, Var):
            return place[a]
        constants.append(np.asarray(a.value))
        return len(p.inputs) + len(constants) - 1

    for v, c in zip(p.const_vars, p.consts):
        place[v] = len(p.inputs) + len(constants)
        constants.append(numpy_rules.concrete_value(
            c if type(c) is Array else from_numpy(np.asarray(c))))
    limits = [math.inf if _parts_only(v, p) else HOST_BYTES for v in p.inputs]
    if (any(c is None for c in constants)
            or any(v.aval.nbytes > limit for v, limit in zip(p.inputs, limits))):
        return None
    literals = [[number(a) if isinstance(a, Literal) else None for a in e.inputs]
                for e in p.equations]  # (all constants come before the first result)
    count = len(p.inputs) + len(constants)
    for e, known in zip(p.equations, literals):
        avals = [v.aval for v in e.outputs]
        if any(a.nbytes > HOST_BYTES or _foreign(a) for a in avals):
            return None
        rule = numpy_rules.RULES.get(e.name)
        ins = tuple(place[a] if k is None else k for a, k in zip(e.inputs, known))  # type: ignore[index]
        several = e.primitive.multiple_results
        if rule is None:
            if several or not is_flat(e.primitive) or not avals[0].size:
                return None
            rule, ins = _flat(e, ins)
            steps.append((rule, avals[0], {}, ins, None))
        else:
            steps.append((rule, avals if several else avals[0], e.params, ins,
                          len(avals) if several else None))
        for v in e.outputs:
            place[v] = count
            count += 1
    if any(_foreign(a.aval) for a in (*p.inputs, *p.outputs)):
        return None
    return constants, steps, [number(o) for o in p.outputs], limits


def _foreign(a: ShapedArray) -> bool:
    """Keys of generators that NumPy has no rules for."""
    return dtypes.is_key(a.dtype) and a.dtype != dtypes.key_dtype


def _parts_only(v: Var, p: Program) -> bool:
    """Whether only parts of an input are read: it may be large."""
    uses = [(e, i) for e in p.equations for i, a in enumerate(e.inputs) if a is v]
    return bool(uses) and v not in p.outputs and all(
        i == 0 and e.name in numpy_rules.READS_PARTS for e, i in uses)


def _flat(e: Equation, ins: tuple[int, ...]) -> tuple[Any, tuple[int, ...]]:
    """A rule that runs the executable for any shape, and the operands that it takes."""
    prim, params = e.primitive, e.params
    avals = [a.aval for a in e.inputs]
    i = prim.static_operand
    known = [] if i is None else [literal_value(a) for a in e.inputs[i:] if isinstance(a, Literal)]

    def rule(out: Any, *values: Any) -> Any:
        device = current_device()
        args: list[Any] = [
            Array(Buffer.of_host(np.ascontiguousarray(v).reshape(a.shape), device), a)
            for v, a in zip(values, avals)]
        made = shape_polymorphic.evaluate(prim, args + known, params)
        return None if made is None else made._numpy()

    return rule, ins[:len(ins) - len(known)]


__all__ = ["Unplanned", "plan_tree", "planned", "refuse"]
