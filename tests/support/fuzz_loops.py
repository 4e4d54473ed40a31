"""Loops of random programs: bodies of a few random steps, draws among them (see fuzz.py)."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray
from calque.primitives.control import scan
from calque.primitives.while_loop import while_loop
from calque.transforms.stage import stage
from support.fuzz_pool import Pool, Step, Value, bind, convert

INT = np.dtype("i4")


def _drawn(p: Pool) -> Value | None:
    """Bits of a key that is made of an integer, folded and split."""
    v = p.pick(lambda v: v.exact and v.kind in "iu" and v.x.size > 0)
    if v is None:
        return None
    new = bool(p.number(0, 2))
    key = bind("random_seed", v.x, impl="fry")
    if p.number(0, 2):
        key = bind("random_fold_in", key, convert(v.x, "u4"))
    if p.number(0, 2):
        keys = bind("random_split", key, shape=(2,), partitionable=new)
        last = len(v.shape)
        key = bind("squeeze", bind("slice", keys, start_indices=(0,) * last + (1,),
                                   limit_indices=(*v.shape, 2), strides=None), dimensions=(last,))
    shape = p.one_of([(), (3,), (2, 2)])
    return Value(bind("random_bits", key, bit_width=p.one_of([8, 16, 32, 32]), shape=shape,
                      partitionable=new), True)


def looping(steps: Sequence[Step], lengths: Sequence[int] = (3, 70)) -> Step:
    """A step that is a scan or a while over some of these steps."""
    def loop(p: Pool) -> Value | None:
        v = p.pick(lambda v: 0 < v.x.size <= 64 and v.kind != "c")
        w = p.pick(lambda w: 0 < w.x.size <= 64 and w.kind != "c")
        if v is None or w is None:
            return None
        avals = [ShapedArray(x.shape, x.x.dtype) for x in (w, v)]
        length, exact = p.one_of(lengths), [v.exact, False]

        def values(const: Any, i: Any, x: Any) -> list[Value]:
            inner = Pool(p.rng, [Value(const, w.exact), Value(i, True), Value(x, v.exact)])
            for _ in range(p.number(2, 7)):
                made = p.one_of([*steps, _drawn, _drawn])(inner)
                if made is not None and 0 < made.x.size <= 512:
                    inner.values.append(made)
            carry = inner.like(v, lambda c: c.exact or not v.exact)
            assert carry is not None  # x itself is one
            return [carry, inner.values[-1]]

        index = ShapedArray((), INT)
        if p.number(0, 3) == 0:
            def body(const: Any, i: Any, x: Any) -> list[Any]:
                carry, _ = values(const, i, x)
                return [bind("add", i, np.int32(1)), carry.x]

            inside = stage(body, [avals[0], index, avals[1]], "body")
            goes = stage(lambda i, x: [bind("lt", i, np.int32(length))], [index, avals[1]], "goes")
            outs = while_loop(goes, [], inside, [w.x], [np.int32(0), v.x])
            return Value(outs[1], exact[0])

        def step(const: Any, i: Any, x: Any) -> list[Any]:
            carry, last = values(const, i, x)
            exact[1] = last.exact
            return [bind("add", i, np.int32(1)), carry.x, last.x]

        inside = stage(step, [avals[0], index, avals[1]], "body")
        outs = scan(inside, [w.x], [np.int32(0), v.x], [], length=length)
        k = p.number(0, 2)
        return Value(outs[1 + k], exact[k])

    return loop
