"""Random small programs against the NumPy interpreter: `python tests/fuzz.py --count 2000`.

A program is up to 24 primitives on a pool of values with shapes that have 0 and 1 in them; it
returns some of its intermediate values and arguments.  Updates in place, views and out-of-range
indices are frequent.  Arguments lie against inaccessible pages (guard.py), without a copy.
Everything follows from the seed.  A module holds 25 programs and runs in a worker process; when
that dies, halves are run in new ones until the program is alone.
`--log FILE` writes a line per module, `--resume` goes on behind the seeds that are in it.
`--whole` draws programs that become one kernel of ours each, and compiles each alone.
Start reading at `make`, then `search`.
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

if __name__ == "__main__":
    os.environ["CALQUE_CHECK"] = "1"
    os.environ.setdefault("CALQUE_CACHE", "0")  # no program comes twice

import fuzz_steps
import fuzz_wide
import oracle
from fuzz_pool import DTYPES, SHAPES, Pool, Value
from guard import Guarded
from harness import Case, Failure, outputs
from oracle import difference, interpret

import calque
from calque.array import from_numpy
from calque.core.avals import ShapedArray
from calque.core.program import Program, eliminate_dead_code
from calque.lowering.passes import cost, loops
from calque.lowering.passes.hoist import hoist
from calque.transforms.stage import replay, stage

GROUP = 25
LIFETIME = 40  # modules per worker: compiled programs stay in its memory
PATIENCE = 300.0  # seconds for a module, after which its worker is ended
STEPS = [*fuzz_steps.STEPS, *fuzz_wide.STEPS]
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


# ---- workers
class Worker:
    """A process that runs programs; it may die."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True)
        self.asked = 0

    def ask(self, seeds: Sequence[int]) -> list[str] | None:
        """Failures; None when the process died or did not answer in time."""
        self.asked += 1
        assert self.process.stdin is not None and self.process.stdout is not None
        timer = threading.Timer(PATIENCE, self.process.kill)
        timer.start()
        try:
            self.process.stdin.write(json.dumps(list(seeds)) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        return json.loads(line) if line.endswith("\n") else None

    def close(self) -> int:
        """End the process; its exit status."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        code = self.process.wait()
        self.process.stdout.close()
        return code


def work() -> None:
    """Answer lines of seeds with lines of failures; what else is printed goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        answers.write(json.dumps(failures(json.loads(line))) + "\n")
        answers.flush()


def _alone(seeds: Sequence[int]) -> list[str]:
    """The programs that end a process (the group of them did): halves, each in a new worker."""
    worker = Worker()
    found = worker.ask(seeds)
    code = worker.close()
    if found is not None:
        return found
    if len(seeds) == 1:
        return [f"seed {seeds[0]}: the process died or hung (status {code})"]
    half = len(seeds) // 2
    parts = [*_alone(seeds[:half]), *_alone(seeds[half:])]
    return parts or [f"seeds {list(seeds)}: the process died (status {code}), but not on halves"]




def search(seeds: Sequence[int]) -> Iterator[tuple[list[int], list[str]]]:
    """(group of seeds, failures), each group in a worker process."""
    worker = Worker()
    for i in range(0, len(seeds), GROUP):
        group = list(seeds[i:i + GROUP])
        if worker.asked >= LIFETIME:
            worker.close()
            worker = Worker()
        found = worker.ask(group)
        if found is None:
            worker.close()
            found, worker = _alone(group), Worker()
        yield group, found
    worker.close()


def _logged(path: pathlib.Path | None) -> set[int]:
    """Seeds that a log holds; a last line cut off by a kill does not count."""
    done: set[int] = set()
    if path is not None and path.exists():
        for line in path.read_text().splitlines():
            try:
                done.update(json.loads(line)["seeds"])
            except ValueError:
                continue
    return done


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=pathlib.Path)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--explain", type=int, metavar="SEED",
                        help="print the first wrong value of a failing program")
    parser.add_argument("--whole", action="store_true",
                        help="programs that become one kernel each")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work()
        return 0
    if options.whole and not WHOLE:
        os.environ["CALQUE_FUZZ"] = "whole"
        os.execv(sys.executable, [sys.executable, *sys.argv])
    if options.explain is not None:
        with calque.enable_x64(True):
            print(explain(options.explain))
        return 0
    done = _logged(options.log) if options.resume else set()
    seeds = [s for s in range(options.seed, options.seed + options.count) if s not in done]
    if options.log is not None:
        options.log.parent.mkdir(parents=True, exist_ok=True)
        if not options.resume:
            options.log.write_text("")
    start, bad, ran = time.monotonic(), 0, 0
    for group, found in search(seeds):
        bad, ran = bad + len(found), ran + len(group)
        if options.log is not None:
            with options.log.open("a") as log:
                log.write(json.dumps({"seeds": group, "failures": found}) + "\n")
        print(*found, sep="\n", end="\n" if found else "")
        print(f"seeds {group[0]}..{group[-1]}: {len(found)} failures; {ran} programs, {bad} "
              f"failures, {time.monotonic() - start:.0f} s so far", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
