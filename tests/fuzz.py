"""Random small programs against the NumPy interpreter: `python tests/fuzz.py --count 2000`.

A program is up to 20 primitives on a pool of values with shapes that have 0 and 1 in them; it
returns some of its intermediate values and arguments.  Updates in place, views and out-of-range
indices are frequent.  Everything follows from the seed; a failing program prints its own.
Start reading at `make`.
"""
from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

if __name__ == "__main__":
    os.environ["CALQUE_CHECK"] = "1"

from harness import Case, Failure, outputs
from oracle import difference, interpret

import calque
from calque.core.avals import ShapedArray
from calque.core.primitive import registry
from calque.transforms.stage import replay, stage

SHAPES = [(), (1,), (4,), (0,), (2, 3), (3, 1), (1, 1), (2, 0), (6,), (2, 3, 2)]
DTYPES = [np.dtype(d) for d in ("f4", "f4", "i4", "u1", "f8", "?")]


def bind(name: str, /, *xs: Any, **params: Any) -> Any:
    return registry[name].bind(*xs, **params)


@dataclass(slots=True)
class Value:
    """A traced value; exact: its bits are those of the oracle (no rounding on the way)."""

    x: Any
    exact: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.x.shape)

    @property
    def kind(self) -> str:
        return str(self.x.dtype.kind)


class Pool:
    """The values so far and the random choices among them."""

    def __init__(self, rng: Any, values: list[Value]) -> None:
        self.rng, self.values = rng, values

    def pick(self, test: Callable[[Value], bool] = lambda v: True) -> Value | None:
        fit = [v for v in self.values if test(v)]
        return fit[self.rng.integers(len(fit))] if fit else None

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high))

    def start(self) -> Any:
        """A start index, often out of range, of several dtypes."""
        dtype = np.dtype(str(self.rng.choice(["i4", "i8", "u1", "i1"])))
        info = np.iinfo(dtype)
        return np.asarray(self.rng.choice([0, 1, 2, info.max, info.min, 3])).astype(dtype)[()]


Step = Callable[[Pool], Value | None]


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


def make(seed: int) -> Case:
    """The program of a seed with its arguments and the check against the interpreter."""
    rng = np.random.default_rng(seed)
    args = []
    for _ in range(rng.integers(2, 6)):
        shape = SHAPES[rng.integers(len(SHAPES))]
        dtype = DTYPES[rng.integers(len(DTYPES))]
        if dtype.kind == "f":
            args.append(np.asarray(rng.uniform(-2, 2, shape)).astype(dtype))
        else:
            args.append(np.asarray(rng.integers(0, 2 if dtype.kind == "b" else 7,
                                                shape)).astype(dtype))

    def run(*xs: Any) -> list[Any]:
        pool = Pool(rng, [Value(x, True) for x in xs])
        for _ in range(rng.integers(2, 24)):  # about half of the tries find operands
            made = STEPS[rng.integers(len(STEPS))](pool)
            if made is not None and made.x.size < 4000:
                pool.values.append(made)
        count = int(rng.integers(2, 6))
        chosen = [pool.values[rng.integers(len(pool.values))] for _ in range(count)]
        return [v.x for v in [*chosen, pool.values[-1]]]

    program = stage(run, [ShapedArray(a.shape, a.dtype) for a in args], f"seed_{seed}")
    wants = interpret(program, args)

    def check(outs: Sequence[Any]) -> str:
        # rounding errors pass through up to 12 operations
        found = [difference(o, w, 30.0, normwise=True) for o, w in zip(outs, wants, strict=True)]
        wrong = "; ".join(f for f in found if f)
        return f"{wrong}\n{program}" if wrong else ""

    return Case(f"seed {seed}", lambda *xs: replay(program, *xs), args, check)


def failures(seeds: Sequence[int], group: int = 25) -> list[str]:
    """What goes wrong with the programs of these seeds."""
    wrong = []
    with calque.enable_x64(True):
        for i in range(0, len(seeds), group):
            cases = [make(s) for s in seeds[i:i + group]]
            for c, out in zip(cases, outputs(cases)):
                text = out if isinstance(out, Failure) else c.check(out)
                if text:
                    wrong.append(f"{c.name}: {text}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    start, bad = time.monotonic(), 0
    for first in range(options.seed, options.seed + options.count, 100):
        seeds = range(first, min(first + 100, options.seed + options.count))
        found = failures(seeds)
        bad += len(found)
        print(*found, sep="\n", end="\n" if found else "")
        print(f"seeds {seeds[0]}..{seeds[-1]}: {len(found)} failures, "
              f"{time.monotonic() - start:.0f} s so far", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
