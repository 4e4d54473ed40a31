"""Operators on concrete arrays, with what promotion and broadcasting said remembered.

`quick` computes x op y by NumPy where both are small Arrays (or Python numbers) and the primitive
has a rule in dispatch/numpy_rules; what promotion widens is converted by NumPy, too.  Of large
Arrays that broadcast it keeps the Program: recording one anew costs 200 us a call.  Otherwise None,
and the general road follows.  A plan is kept for each pair of types.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray
from calque.core.config import config
from calque.core.memo import Memo
from calque.core.primitive import Primitive
from calque.core.program import Program
from calque.core.trace import current, eval_trace
from calque.dispatch import numpy_rules
from calque.dispatch.array import Array
from calque.dispatch.eager import compiled
from calque.dispatch.host_arguments import NUMPYS, eager_array
from calque.dispatch.sharded import labels
from calque.numpy import util
from calque.runtime import Buffer
from calque.transforms.stage import stage

_NUMBERS = frozenset((int, float))
_RUNS = frozenset(("eval", "lazy"))  # traces under which operations run at once
_plans = Memo(16384)


def quick(prim: Primitive, inexact: bool, x: Any, y: Any) -> Array | None:
    """prim(x, y) broadcast and promoted, where that is no more than a NumPy operation (of Arrays
    and Python's numbers: `eager_arrays` first)."""
    if type(x) is Array:
        a: Any = x.aval
        b: Any = y.aval if type(y) is Array else type(y)
    elif type(y) is Array:
        a, b = type(x), y.aval
    else:
        return None
    try:
        plan = _plans[prim, inexact, a, b, config.key()]
    except KeyError:
        plan = _plans.keep((prim, inexact, a, b, config.key()), _plan(prim, inexact, a, b))
    if plan is None or current.get().kind not in _RUNS:
        return None
    if type(plan) is _Large:
        return plan.run(x, y)
    rule, dtype, out, widened = plan
    device = None
    try:
        if type(x) is Array:
            p = numpy_rules.concrete_value(x)
            device = x._own
        else:
            p = _number(x, dtype)
        if type(y) is Array:
            q = numpy_rules.concrete_value(y)
            device = device or y._own
        else:
            q = _number(y, dtype)
    except OverflowError:
        return None  # the general road says so
    if p is None or q is None:
        return None
    with np.errstate(all="ignore"):
        if widened:
            p, q = p.astype(dtype), q.astype(dtype)
        made = np.asarray(rule(out, p, q))
    return Array(Buffer.of_host(made, device.device), out)  # type: ignore[union-attr]


def eager_arrays(x: Any, y: Any) -> tuple[Any, Any]:
    """Both, where one of them is NumPy's."""
    if type(x) in NUMPYS or type(y) in NUMPYS:
        return eager_array(x), eager_array(y)
    return x, y


def _number(x: int | float, dtype: Any) -> Any:
    if type(x) is int:
        np.asarray(x, dtypes.default_dtype(int))
    return np.asarray(x, dtype)


def _plan(prim: Primitive, inexact: bool, a: Any, b: Any) -> Any:
    """(rule, dtype of operands, aval of the result, whether some are widened), None where there is
    more to do."""
    rule = numpy_rules.RULES.get(prim.name)
    if (rule is None or config.jax_debug_nans or config.jax_debug_infs
            or config.jax_numpy_rank_promotion != "allow"
            or config.jax_numpy_dtype_promotion != "standard"):
        return None
    pairs = []
    for v in (a, b):
        if isinstance(v, ShapedArray):
            pairs.append((v.dtype, v.weak_type))
        elif v in _NUMBERS:
            pairs.append((dtypes.default_dtype(v), True))
        else:
            return None
    if any(dtypes.is_key(d) for d, _ in pairs):
        return None
    dtype, weak = dtypes.promote(pairs)
    avals = [v for v in (a, b) if isinstance(v, ShapedArray)]
    widened = any(v.dtype != dtype for v in avals)
    if (inexact and not dtypes.is_inexact(dtype)) or widened and (
            dtypes.is_complex(dtype) or any(v.dtype.kind not in "biuf" for v in avals
                                            if v.dtype != dtype)):
        return None
    try:
        shape = np.broadcast_shapes(*[v.shape for v in avals])
        one = ShapedArray((), dtype, weak)
        kind = prim.rule("abstract")(one, one)
    except (TypeError, ValueError):
        return None  # the general road says what is wrong
    out = ShapedArray(shape, kind.dtype, kind.weak_type)
    if labels.any_of(avals):
        if any(v.shape != shape or v.placement is not avals[0].placement for v in avals):
            return None
        out = out.marked(avals[0].placement)
    ones = np.ones((1,) * len(shape), dtype)
    large = out.nbytes > numpy_rules.LIMIT
    if large and not widened and len(avals) == 2 and a.shape != b.shape and a.shape and b.shape:
        return _Large(prim, a, b, out)  # (others are executables for any shape)
    if large or rule(out, ones, ones) is None:
        return None
    if prim.name == "mul" and widened:
        masks = [isinstance(v, ShapedArray) and v.shape == shape and dtypes.chooses(v.dtype, dtype)
                 for v in (a, b)]
        if any(masks):  # (as numpy/ufuncs does, and programs: lowering/passes/masks)
            rule = _choice if masks[0] else _choice_behind
    return rule, dtype, out, widened


def _choice(out: ShapedArray, mask: Any, x: Any) -> Any:
    return np.where(mask, x, out.dtype.type(0))


def _choice_behind(out: ShapedArray, x: Any, mask: Any) -> Any:
    return _choice(out, mask, x)


class _Large:
    """A primitive on two large Arrays that broadcast."""

    def __init__(self, prim: Primitive, a: ShapedArray, b: ShapedArray, out: ShapedArray) -> None:
        self.prim, self.avals, self.out = prim, (a, b), out
        self.seen = False
        self.program: Program | None = None

    def run(self, x: Array, y: Array) -> Array | None:
        if not self.seen or current.get() is not eval_trace:  # what is done once is not kept
            self.seen = True
            return None
        buffers = [x._buffer, y._buffer]
        device = buffers[0].device
        if buffers[1].device is not device:
            return None
        name = self.prim.name
        if self.program is None:
            self.program = stage(lambda x, y: [self.prim.bind(*util.broadcast_all(name, x, y))],
                                 self.avals, name)
        return Array(compiled(self.program, device, reason=f"eager {name}")(buffers)[0], self.out)
