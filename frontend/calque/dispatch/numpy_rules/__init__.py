"""Small arrays, eagerly: primitives that NumPy computes at once, so that nothing is compiled.

Outside a transformation an operation on small arrays that are ready in host memory costs more to
hand to a compiled program than to do.  A primitive has a rule here where NumPy gives the bits that
our compiled form gives (moving elements, IEEE arithmetic, integers, comparisons, random bits);
sums and products of floats are the exception, they agree within rounding.  A rule is
f(out, *values, **params) -> array, or None for dtypes and sizes that it leaves to the compiler.
PRNG keys come as uint64, their two words in one.  The rules: elementwise.py, shape.py (moving),
reduce.py (with running sums and products), index.py (gather, scatter), draw.py (random bits);
small.py runs what lowering makes of computations in dtypes that these do not know (int4).
Start reading at `evaluate`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray, aval_of
from calque.core.config import config, is_off
from calque.core.memo import Memo
from calque.core.primitive import Primitive
from calque.core.trace import EvalTrace, current
from calque.core.types import Function, Ndarray, Params
from calque.dispatch.array import HOST_BYTES, Array, current_device
from calque.dispatch.numpy_rules import draw, elementwise, index, reduce, shape, small
from calque.dispatch.sharded import labels
from calque.runtime import Buffer
from calque.transforms.explicit import resolved

RULES: dict[str, Function] = {} if is_off("numpy") else {
    **elementwise.RULES, **shape.RULES, **reduce.RULES, **index.RULES, **draw.RULES}

_outs = Memo(16384)
_BOUND = frozenset((int, type(None)))  # types of a slice's bounds
_WHOLE = frozenset((int, np.int64, np.int32))
_POSITIONS = frozenset((np.dtype(np.int32), np.dtype(np.int64)))
_UNKNOWN = object()
_current = current.get
LIMIT = HOST_BYTES

# These read no more of their first operand than they return: it may be large.
READS_PARTS = frozenset(("slice", "dynamic_slice", "gather"))
# One core copies as much in half a millisecond, strides and all; each slice is another program.
PARTS = {"slice": 1 << 22, "dynamic_slice": 1 << 22}  # bytes of a result at most


def concrete_value(x: Any, limit: float = LIMIT) -> Ndarray | None:
    """The value of an operand, when it is small and at hand without waiting."""
    if type(x) is not Array:
        aval = aval_of(x)
        if aval.placement is not None:  # it spans processes
            return None
        number = np.asarray(x, aval.dtype)
        return number if number.nbytes <= limit else None
    buffer = x._own
    if buffer is None or x._pending is not None:
        return None
    value = buffer._host
    if value is None:
        if (x.aval.nbytes > limit or buffer.is_deleted() or not buffer.device.is_host
                or not buffer.is_ready()):
            return None
        value = buffer.numpy()
    if dtypes.is_key(x.aval.dtype):
        return value.view(np.uint64)[..., 0] if x.aval.dtype == dtypes.key_dtype else None
    return value


def part_of(x: Any, index: Any) -> Array | None:
    """x[index] of whole numbers, slices, None and `...`, outside of transformations, where the
    value is at hand; None elsewhere, of indices that are out of bounds, and of all of x."""
    if type(x) is not Array or type(_current()) is not EvalTrace or not RULES:
        return None
    if type(index) is tuple:
        index = tuple(map(_item, index))
        known = _UNKNOWN not in index
    else:
        index = _item(index)
        known = index is not _UNKNOWN
    aval = x.aval
    if not known or aval.placement is not None or config.jax_debug_nans or config.jax_debug_infs:
        return None
    value = concrete_value(x, math.inf)
    if value is None:
        return None
    try:
        part = value[index]
    except (IndexError, ValueError):
        return None
    shape = part.shape
    if shape == value.shape or part.nbytes > PARTS["dynamic_slice"]:
        return None
    made = ShapedArray(shape, aval.dtype, aval.weak_type)
    # a copy: a view would keep all of x alive, and x may be donated
    return result(made, np.array(part), x._own.device)  # type: ignore[union-attr]


def _item(item: Any) -> Any:
    """A part of a basic index as NumPy takes it; _UNKNOWN for what is none, or not at hand."""
    kind = type(item)
    if kind in _WHOLE or item is None or item is Ellipsis:
        return item
    if kind is slice:
        bounds = type(item.start) in _BOUND and type(item.stop) in _BOUND and (
            type(item.step) in _BOUND)
        return item if bounds else _UNKNOWN
    if kind is Array and not item.aval.shape and item.aval.dtype in _POSITIONS and (
            item.aval.placement is None):
        value = concrete_value(item)
        return _UNKNOWN if value is None else int(value)
    return _UNKNOWN


def result(aval: ShapedArray, value: Any, device: Any) -> Array:
    """An Array of what a rule computed."""
    value = np.asarray(value)
    if not value.flags.c_contiguous:
        value = value.copy()
    if aval.dtype == dtypes.float0:
        value = np.zeros(aval.shape, bool)
    if dtypes.is_key(aval.dtype):
        value = value.reshape(*aval.shape, 1).view(np.uint32)
    return Array(Buffer.of_host(value, device), aval)


def abstract(prim: Primitive, avals: Sequence[ShapedArray], params: Params) -> Any:
    """The abstract rule, remembered."""
    try:
        key = (prim, *avals, *params.items())
        found = _outs.get(key)
    except TypeError:  # a parameter that has no hash
        return labels.typed(prim, avals, params, prim.rule("abstract")(*avals, **params))
    if found is not None:
        return found
    out = labels.typed(prim, avals, params, prim.rule("abstract")(*avals, **params))
    return out if resolved.get() else _outs.keep(key, out)


def evaluate(prim: Primitive, args: Sequence[Any], params: Params) -> Any:
    """The result(s) of a primitive on small concrete values, None where a program must run."""
    rule = RULES.get(prim.name)
    if rule is None:
        return None
    values: list[Any] = []
    avals: list[ShapedArray] = []
    device = None
    theirs: list[Ndarray] = []  # the caller's own memory
    limit: float = math.inf if prim.name in READS_PARTS else LIMIT
    for x in args:
        if type(x) is Array:
            value = concrete_value(x, limit)
            avals.append(x.aval)
        else:
            aval = aval_of(x)
            if aval.placement is not None:
                return None
            dtypes.check_fits(x)
            value = np.asarray(x, aval.dtype)
            if isinstance(x, np.ndarray):
                theirs.append(value)
            avals.append(aval)
            if value.nbytes > limit:
                return None
        if value is None:
            return None
        if device is None and type(x) is Array:
            device = x._own.device  # type: ignore[union-attr]
        limit = LIMIT
        values.append(value)
    out = abstract(prim, avals, params)
    if prim.multiple_results:
        if any(o.nbytes > LIMIT for o in out):
            return None
    elif out.nbytes > PARTS.get(prim.name, LIMIT):
        return None
    with np.errstate(all="ignore"):
        if small.is_computed(prim, avals, out):
            made = small.computed(prim, avals, params, values, RULES)
        else:
            made = rule(out, *values, **params)
    if made is None:
        return None
    device = device or current_device()
    if theirs:
        made = [_own(v, theirs) for v in made] if prim.multiple_results else _own(made, theirs)
    if prim.multiple_results:
        return [result(a, v, device) for a, v in zip(out, made)]
    return result(out, made, device)


def _own(value: Any, theirs: Sequence[Ndarray]) -> Ndarray:
    """The value, copied where it may lie in the memory of the caller's arrays."""
    value = np.asarray(value)
    return value.copy() if any(np.may_share_memory(value, x) for x in theirs) else value
