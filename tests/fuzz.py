"""Random small programs against the NumPy interpreter: `python tests/fuzz.py --count 2000`.

A program is up to 24 primitives on a pool of values with shapes that have 0 and 1 in them; it
returns some of its intermediate values and arguments.  Updates in place, views and out-of-range
indices are frequent.  Arguments lie against inaccessible pages (guard.py), without a copy.
Everything follows from the seed.  A module holds 25 programs and runs in a worker process; when
that dies, halves are run in new ones until the program is alone.
`--log FILE` writes a line per module, `--resume` goes on behind the seeds that are in it,
`--level x86-64-v3` compiles for that CPU.
`--whole` draws programs that become one kernel of ours each, and compiles each alone.
Start reading at `make`; fuzz_search.py has workers and logs.
"""
from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

if __name__ == "__main__":
    os.environ["CALQUE_CHECK"] = "1"
    os.environ.setdefault("CALQUE_CACHE", "0")  # no program comes twice

import fuzz_search
from support import fuzz_loops, fuzz_steps, fuzz_wide, oracle
from support.fuzz_pool import DTYPES, SHAPES, Pool, Value
from support.guard import Guarded
from support.harness import Case, Failure, outputs
from support.oracle import difference, interpret

import calque
from calque.core.avals import ShapedArray
from calque.core.program import Program, eliminate_dead_code
from calque.dispatch.array import from_numpy
from calque.lowering.passes import cost, loops
from calque.lowering.passes.hoist import hoist
from calque.transforms.stage import replay, stage

GROUP = 25
STEPS = [*fuzz_steps.STEPS, *fuzz_wide.STEPS]
_INNER = fuzz_loops.looping(tuple(STEPS), [3])
STEPS += [fuzz_loops.looping(tuple(STEPS)), fuzz_loops.looping((*STEPS, _INNER, _INNER))] * 2
WHOLE = os.environ.get("CALQUE_FUZZ") == "whole"  # set by --whole, for the workers too
if WHOLE:
    UNKNOWN = ("_argmax", "_sort", "_top_k", "_cumulative", "_reduce_window",
               "_conv", "_bits", "_linear", "_fft", "_complex")
    STEPS = [s for s in STEPS if s.__name__ not in UNKNOWN]
    DTYPES = [d for d in DTYPES if d in loops.DTYPES]
    SHAPES = [s for s in SHAPES if 0 not in s]
FACTOR = 30.0  # rounding errors pass through up to 12 operations


def _argument(rng: Any) -> Any:
    shape = SHAPES[rng.integers(len(SHAPES))]
    dtype = DTYPES[rng.integers(len(DTYPES))]
    if dtype.kind in "fV":
        x = rng.uniform(-2, 2, shape)
        if rng.integers(8) == 0:
            x = np.where(rng.integers(0, 4, shape) == 0, rng.choice([np.nan, np.inf, -np.inf, -0.0],
                                                                    shape), x)
    elif dtype.kind == "c":
        x = rng.uniform(-2, 2, shape) + 1j * rng.uniform(-2, 2, shape)
    elif dtype.kind == "b":
        x = rng.integers(0, 2, shape)
    else:
        info = np.iinfo(dtype)
        near = rng.integers(0 if dtype.kind == "u" else -2, 7, shape)
        far = rng.choice(np.array([info.min, info.max, info.max - 1, 5], dtype), shape)
        # half of the integers are small, the others have extremes in every third place
        pick = rng.integers(0, 3, shape) == 0 if rng.integers(2) else np.zeros(shape, bool)
        return np.asarray(np.where(pick, far, near.astype(dtype)), dtype)
    return np.asarray(x).astype(dtype)


def make(seed: int) -> Case:
    """The program of a seed with its arguments and the check against the interpreter."""
    return checked(f"seed {seed}", *draw(seed))


def draw(seed: int) -> tuple[Program, list[Any]]:
    """The program of a seed and its arguments."""
    rng = np.random.default_rng(seed)
    args = [_argument(rng) for _ in range(rng.integers(2, 7))]

    def run(*xs: Any) -> list[Any]:
        pool = Pool(rng, [Value(x, True) for x in xs])
        for _ in range(rng.integers(2, 24)):  # about half of the tries find operands
            made = STEPS[rng.integers(len(STEPS))](pool)
            if made is not None and made.x.size < 1500:
                pool.values.append(made)
        count = int(rng.integers(2, 6))
        chosen = [pool.values[rng.integers(len(pool.values))] for _ in range(count)]
        return [v.x for v in [*chosen, pool.values[-1]]]

    program = stage(run, [ShapedArray(a.shape, a.dtype) for a in args], f"seed_{seed}")
    return program, args


def checked(name: str, program: Any, args: Sequence[Any]) -> Case:
    """A program with arguments and the check against the interpreter."""
    wants = interpret(program, args)

    def check(outs: Sequence[Any]) -> str:
        found = [difference(o, w, FACTOR, normwise=True) for o, w in zip(outs, wants, strict=True)]
        if any(found):
            spread = sensitivity(program, args, wants)
            found = [f if f and not _within(o, w, s) else ""
                     for f, o, w, s in zip(found, outs, wants, spread)]
        wrong = "; ".join(f for f in found if f)
        return f"{wrong}\n{program}" if wrong else ""

    return Case(name, lambda *xs: replay(program, *xs), args, check)


def _within(got: Any, want: Any, spread: Any) -> bool:
    """Whether got is as near to want as rounding errors in between explain."""
    if spread is None or got.shape != want.shape or got.dtype != want.dtype:
        return False
    g, w = oracle.wide(got), oracle.wide(want)
    with np.errstate(all="ignore"):
        near = (g == w) | ((g != g) & (w != w)) | (np.abs(g - w) <= FACTOR * spread) | (
            ~np.isfinite(spread))
    return bool(near.all())


def sensitivity(program: Any, args: Sequence[Any], wants: Sequence[Any]) -> list[Any]:
    """How far outputs move when every float on the way is off by its dtype's tolerance."""
    plain, spread = oracle.evaluate, [None if w.dtype.kind in "biu" else np.zeros(w.shape)
                                      for w in wants]
    for trial in range(4):
        rng = np.random.default_rng(trial)

        def shaken(name: str, avals: Any, params: Any, *xs: Any, rng: Any = rng) -> Any:
            outs = plain(name, avals, params, *xs)
            return [o if o.dtype.kind in "biu" else np.asarray(oracle.wide(o) * (
                1 + rng.choice([-1, 1], o.shape) * oracle.tolerance(o.dtype))).astype(o.dtype)
                for o in outs]

        oracle.evaluate = shaken
        try:
            with np.errstate(all="ignore"):
                moved = interpret(program, args)
                for i, (m, w) in enumerate(zip(moved, wants)):
                    if spread[i] is not None:
                        spread[i] = np.fmax(spread[i], np.abs(oracle.wide(m) - oracle.wide(w)))
        finally:
            oracle.evaluate = plain
    return spread


def failures(seeds: Sequence[int], group: int = 1 if WHOLE else GROUP) -> list[str]:
    """What goes wrong with the programs of these seeds, in this process."""
    wrong = []
    with calque.enable_x64(True):
        for i in range(0, len(seeds), group):
            cases = [make(s) for s in seeds[i:i + group] if not WHOLE or _is_whole(s)]
            if not cases:
                continue
            guards: list[Guarded] = []

            def put(x: Any, guards: list[Guarded] = guards) -> Any:
                guards.append(Guarded(x, at_end=len(guards) % 2 == 0))
                return from_numpy(guards[-1].array, alias=True)

            for c, out in zip(cases, outputs(cases, put)):
                text = out if isinstance(out, Failure) else c.check(out)
                if text:
                    wrong.append(f"{c.name}: {text}")
            if any(g.changed() for g in guards):
                wrong.append(f"seeds {seeds[i:i + group]}: bytes of or beside an argument changed")
    return wrong


def _is_whole(seed: int) -> bool:
    program = hoist(eliminate_dead_code(draw(seed)[0]))
    return cost.is_whole(program) and all(v.aval.size and v.aval.dtype in loops.DTYPES
                                          for v in (*program.inputs, *program.outputs))


def explain(seed: int) -> str:
    """The first value on a failing program's way that is wrong by itself, with what it takes."""
    program, args = draw(seed)
    for e in program.equations:
        for v in e.outputs:
            small = eliminate_dead_code(Program(program.inputs, program.equations, [v],
                                                program.const_vars, program.consts))
            text = _wrong(small, args)
            if text:
                return text
    return "every value by itself is right"


def _wrong(program: Any, args: Sequence[Any]) -> str:
    case = checked("part", program, args)
    out = outputs([case])[0]
    return f"{out}\n{program}" if isinstance(out, Failure) else case.check(out)


def main() -> int:
    parser = fuzz_search.arguments(__doc__)
    parser.add_argument("--explain", type=int, metavar="SEED",
                        help="print the first wrong value of a failing program")
    parser.add_argument("--whole", action="store_true",
                        help="programs that become one kernel each")
    options = parser.parse_args()
    if options.worker:
        fuzz_search.work(failures)
        return 0
    wanted = {"CALQUE_FUZZ": "whole"} if options.whole else {}
    wanted["CALQUE_CPU"] = options.level
    if any(os.environ.get(k) != v for k, v in wanted.items()):  # both are read at import
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **wanted})
    if options.explain is not None:
        with calque.enable_x64(True):
            print(explain(options.explain))
        return 0
    name = "fuzz.py --whole" if WHOLE else "fuzz.py"
    return fuzz_search.run(__file__, name, options, GROUP)


if __name__ == "__main__":
    sys.exit(main())
