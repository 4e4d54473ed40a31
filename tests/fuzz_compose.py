"""Random compositions, with NumPy and JAX as oracles: `python tests/fuzz_compose.py --count 500`.

What fuzz.py and fuzz_api.py do not reach: arrays packed of up to 130 small ones, loops written out,
nested derivatives of branches, chains of calls without waiting, trees of up to 300 leaves of NumPy
and Python, functions that are dropped, odd Python values, linear maps as trees, float0, loops that
write elements of arrays and read them.
Each program is of one of these kinds.  Those that are compiled are one module per group, on
arguments between inaccessible pages; the others run by themselves.  CALQUE_FUZZ_JAX names a Python
that has JAX, which answers the texts of the last kinds.

    python tests/fuzz_compose.py --explain 17        the program and what is wrong with it

Files: fuzz_compose_draw, _built (compiled), _calls, _values, _texts, _writes, _jax (the other
worker) and _known.  Start reading at `failures`.
"""
from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

if __name__ == "__main__":
    os.environ["CALQUE_CHECK"] = "1"
    os.environ.setdefault("CALQUE_CACHE", "0")  # no program comes twice

import fuzz_search
from support import (
    fuzz_compose_built,
    fuzz_compose_calls,
    fuzz_compose_known,
    fuzz_compose_texts,
    fuzz_compose_values,
    fuzz_compose_writes,
)
from support.fuzz_api_run import Jax
from support.fuzz_compose_draw import Trial
from support.guard import Guarded
from support.harness import Case, Failure, outputs

import calque
from calque.dispatch.array import from_numpy

GROUP = 80
LIFETIME = 50  # groups per worker: the functions that chains call are compiled once in each
KINDS = [(fuzz_compose_built.packed, 1), (fuzz_compose_built.unrolled, 1),
         (fuzz_compose_built.branches, 2), (fuzz_compose_calls.chain, 30),
         (fuzz_compose_calls.dropped, 2), (fuzz_compose_values.tree, 25),
         (fuzz_compose_values.linear_map, 2), (fuzz_compose_texts.odd, 28),
         (fuzz_compose_texts.float0, 6), (fuzz_compose_writes.writes, 4)]
_jax: list[Jax] = []


def draw(seed: int) -> Trial:
    """The program of a seed."""
    rng = np.random.default_rng(seed)
    every = [kind for kind, weight in KINDS for _ in range(weight)]
    with calque.enable_x64(True):
        return every[rng.integers(len(every))](rng)


def failures(seeds: Sequence[int]) -> list[Any]:
    """What goes wrong with the programs of these seeds, in this process."""
    warnings.simplefilter("ignore")
    trials = {s: draw(s) for s in seeds}
    known = fuzz_compose_known.known
    if not _jax:
        _jax.append(Jax("fuzz_compose_jax.py"))
    texts = [(s, t) for s, t in trials.items() if t.question]
    _jax[0].ask([(t.question, t.told.startswith("x64 True")) for _, t in texts])
    found = [(s, _acted(t)) for s, t in trials.items() if t.act is not None]
    cases = [(s, t.case) for s, t in trials.items() if t.case is not None]
    found += _compiled([s for s, _ in cases], [c for _, c in cases if c is not None])
    for (s, t), said in zip(texts, _jax[0].answer(), strict=True):
        if said is not None and t.answered is not None:
            try:
                found.append((s, t.answered(said)))
            except Exception as e:  # answers that cannot be compared
                found.append((s, f"{type(e).__name__}: {e}"))
    return [{"seed": s, "line": trials[s].told, "detail": text,
             "known": known(trials[s].told, text)} for s, text in found if text]


def _acted(t: Trial) -> str:
    assert t.act is not None
    try:
        return t.act()
    except Exception as e:  # any error of calque is a result here
        return f"{type(e).__name__}: {e}"


def _compiled(seeds: Sequence[int], cases: Sequence[Case]) -> list[tuple[int, str]]:
    """What is wrong with the programs that are one module."""
    if not cases:
        return []
    guards: list[Guarded] = []

    def put(x: Any) -> Any:
        guards.append(Guarded(x, at_end=len(guards) % 2 == 0))
        return from_numpy(guards[-1].array, alias=True)

    found = []
    with calque.enable_x64(True):
        for s, c, out in zip(seeds, cases, outputs(cases, put), strict=True):
            found.append((s, str(out) if isinstance(out, Failure) else c.check(out)))
    if any(g.changed() for g in guards):
        found.append((seeds[0], f"bytes of or beside an argument changed, in one of {seeds}"))
    return found


def show(f: Any) -> str:
    return f"seed {f['seed']}: {f['line']}\n    {f['detail']}" if isinstance(f, dict) else str(f)


def main() -> int:
    parser = fuzz_search.arguments(__doc__)
    parser.add_argument("--explain", type=int, metavar="SEED", help="one program and its failure")
    options = parser.parse_args()
    if options.worker:
        fuzz_search.work(failures)
        return 0
    if os.environ.get("CALQUE_CPU") != options.level:  # read at import
        os.execve(sys.executable, [sys.executable, *sys.argv],
                  {**os.environ, "CALQUE_CPU": options.level})
    if options.explain is not None:
        print(draw(options.explain).told)
        print(*[show(f) for f in failures([options.explain])] or ["nothing is wrong"], sep="\n")
        return 0
    return fuzz_search.run(__file__, "fuzz_compose.py", options, GROUP, LIFETIME, show)


if __name__ == "__main__":
    sys.exit(main())
