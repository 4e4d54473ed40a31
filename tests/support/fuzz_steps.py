"""Steps of random programs: arithmetic, shapes, updates and control flow (see fuzz.py)."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray
from calque.transforms.stage import stage
from support.fuzz_pool import DTYPES, SHAPES, Pool, Step, Value, bind


def _unary(p: Pool) -> Value | None:
    v = p.pick(lambda v: v.kind == "f")
    name = str(p.rng.choice(["sin", "tanh", "neg", "abs", "copy", "square"]))
    if v is None:
        return None
    x = bind("tanh", v.x) if name == "square" else v.x
    return Value(bind(name, x), v.exact and name in ("neg", "abs", "copy"))


def _binary(p: Pool) -> Value | None:
    v = p.pick(lambda v: v.kind in "fiu")
    if v is None:
        return None
    w = p.pick(lambda w: w.x.dtype == v.x.dtype and w.shape in (v.shape, ()))
    name = str(p.rng.choice(["add", "sub", "mul", "max", "min"]))
    exact = v.exact and w is not None and w.exact and (name in ("max", "min") or v.kind in "iu")
    return None if w is None else Value(bind(name, v.x, w.x), exact)


def _select(p: Pool) -> Value | None:
    v = p.pick()
    assert v is not None
    w = p.pick(lambda w: (w.shape, w.x.dtype) == (v.shape, v.x.dtype))
    m = p.pick(lambda m: m.kind == "b" and m.shape in (v.shape, ()))
    return None if m is None or w is None else Value(bind("select_n", m.x, v.x, w.x),
                                                     v.exact and w.exact)


def _reshape(p: Pool) -> Value | None:
    v = p.pick()
    assert v is not None
    fit = [s for s in (*SHAPES, (v.x.size,), (1, v.x.size)) if math.prod(s) == v.x.size]
    return Value(bind("reshape", v.x, new_sizes=fit[p.number(0, len(fit))], dimensions=None,
                      sharding=None), v.exact)


def _transpose(p: Pool) -> Value | None:
    v = p.pick(lambda v: len(v.shape) > 1)
    return None if v is None else Value(bind("transpose", v.x, permutation=tuple(
        int(i) for i in p.rng.permutation(len(v.shape)))), v.exact)


def _broadcast(p: Pool) -> Value | None:
    v = p.pick(lambda v: len(v.shape) < 3)
    return None if v is None else Value(bind(
        "broadcast_in_dim", v.x, shape=(2, *v.shape), sharding=None,
        broadcast_dimensions=tuple(range(1, len(v.shape) + 1))), v.exact)


def _concatenate(p: Pool) -> Value | None:
    v = p.pick(lambda v: len(v.shape) == 1)
    w = None if v is None else p.pick(lambda w: len(w.shape) == 1 and w.x.dtype == v.x.dtype)
    return None if v is None or w is None else Value(
        bind("concatenate", v.x, w.x, dimension=0), v.exact and w.exact)


def _slice(p: Pool) -> Value | None:
    v = p.pick(lambda v: len(v.shape) > 0)
    if v is None:
        return None
    start = [p.number(0, n + 1) for n in v.shape]
    limit = [p.number(s, n + 1) for s, n in zip(start, v.shape)]
    return Value(bind("slice", v.x, start_indices=tuple(start), limit_indices=tuple(limit),
                      strides=tuple(p.number(1, 3) for _ in v.shape)), v.exact)


def _rev(p: Pool) -> Value | None:
    v = p.pick(lambda v: len(v.shape) > 0)
    return None if v is None else Value(bind("rev", v.x, dimensions=(
        p.number(0, len(v.shape)),)), v.exact)


def _pad(p: Pool) -> Value | None:
    v = p.pick(lambda v: len(v.shape) == 1)
    w = None if v is None else p.pick(lambda w: w.shape == () and w.x.dtype == v.x.dtype)
    if v is None or w is None:
        return None
    low = p.number(0, 2) if v.shape[0] == 0 else p.number(-1, 3)
    return Value(bind("pad", v.x, w.x, padding_config=((low, p.number(0, 3), p.number(0, 3)),)),
                 v.exact and w.exact)


def _reduce(p: Pool) -> Value | None:
    v = p.pick(lambda v: v.kind in "fiu" and len(v.shape) > 0)
    if v is None:
        return None
    axis = p.number(0, len(v.shape))
    name = "reduce_sum" if v.shape[axis] == 0 else str(p.rng.choice(["reduce_sum", "reduce_max"]))
    return Value(bind(name, v.x, axes=(axis,), out_sharding=None),
                 v.exact and (name == "reduce_max" or v.kind in "iu"))


def _argmax(p: Pool) -> Value | None:
    v = p.pick(lambda v: v.exact and v.kind in "fiu" and len(v.shape) > 0 and v.shape[-1] > 0)
    return None if v is None else Value(bind(
        "argmax", v.x, axes=(len(v.shape) - 1,), index_dtype=np.dtype("i4")), True)


def _compare(p: Pool) -> Value | None:
    v = p.pick(lambda v: v.exact and v.kind in "fiu")
    w = None if v is None else p.pick(
        lambda w: w.exact and (w.shape, w.x.dtype) == (v.shape, v.x.dtype))
    return None if v is None or w is None else Value(bind("lt", v.x, w.x), True)


def _convert(p: Pool) -> Value | None:
    v = p.pick(lambda v: v.exact)
    dtype = DTYPES[p.number(0, len(DTYPES))]
    return None if v is None else Value(bind(
        "convert_element_type", v.x, new_dtype=dtype, weak_type=False, sharding=None), v.exact)


def _dynamic_slice(p: Pool) -> Value | None:
    v = p.pick(lambda v: len(v.shape) > 0)
    if v is None:
        return None
    return Value(bind("dynamic_slice", v.x, *[p.start() for _ in v.shape],
                      slice_sizes=tuple(p.number(0, n + 1) for n in v.shape)), v.exact)


def _update(p: Pool) -> Value | None:
    v = p.pick()
    assert v is not None
    w = p.pick(lambda w: w.x.dtype == v.x.dtype and len(w.shape) == len(v.shape)
               and all(a <= b for a, b in zip(w.shape, v.shape)))
    return None if w is None else Value(bind(
        "dynamic_update_slice", v.x, w.x, *[p.start() for _ in v.shape]), v.exact and w.exact)


def _dot(p: Pool) -> Value | None:
    v = p.pick(lambda v: v.kind in "fiu" and len(v.shape) > 0)
    w = None if v is None else p.pick(
        lambda w: w.x.dtype == v.x.dtype and len(w.shape) > 0 and w.shape[0] == v.shape[-1])
    return None if v is None or w is None else Value(bind(
        "dot_general", v.x, w.x, dimension_numbers=(((len(v.shape) - 1,), (0,)), ((), ())),
        precision=None, preferred_element_type=None, out_sharding=None),
        v.exact and w.exact and v.kind in "iu")


def _cond(p: Pool) -> Value | None:
    v, i = p.pick(), p.pick(lambda v: v.shape == () and v.x.dtype == np.dtype("i4") and v.exact)
    if v is None or i is None:
        return None
    aval = ShapedArray(v.shape, v.x.dtype)
    same = stage(lambda x: [x], [aval], "same")
    other = stage(lambda x: [bind("rev", x, dimensions=(0,)) if x.shape else x], [aval], "other")
    return Value(bind("cond", i.x, v.x, branches=(same, other, same))[0], v.exact)


def _scan(p: Pool) -> Value | None:
    """A loop that updates its carry in place; long ones are real loops."""
    v = p.pick(lambda v: len(v.shape) == 1 and v.shape[0] > 1)
    if v is None:
        return None
    aval = ShapedArray(v.shape, v.x.dtype)
    index = ShapedArray((), np.dtype("i4"))

    def body(first: Any, i: Any, x: Any) -> list[Any]:
        row = bind("dynamic_slice", first, i, slice_sizes=(1,))
        x = bind("dynamic_update_slice", x, row, bind("sub", np.int32(3), i))
        return [bind("add", i, np.int32(1)), x, bind("reshape", row, new_sizes=(),
                                                     dimensions=None, sharding=None)]

    n = 70 if p.number(0, 3) == 0 else 3
    outs = bind("scan", v.x, np.int32(0), v.x, jaxpr=stage(body, [aval, index, aval], "body"),
                length=n, reverse=False, unroll=1, num_consts=1, num_carry=2)
    return Value(outs[1 + p.number(0, 2)], v.exact)


def _jit(p: Pool) -> Value | None:
    v = p.pick()
    assert v is not None
    inner = stage(lambda x: [x, bind("copy", x)], [ShapedArray(v.shape, v.x.dtype)], "inner")
    return Value(bind("jit", v.x, jaxpr=inner, name="inner")[p.number(0, 2)], v.exact)


STEPS: list[Step] = [
    _unary, _unary, _binary, _binary, _binary, _select, _reshape, _transpose, _broadcast,
    _concatenate, _slice, _rev, _pad, _reduce, _argmax, _compare, _convert, _dynamic_slice,
    _update, _update, _update, _dot, _cond, _scan, _jit]
