"""Random programs over the public API, three oracles: `python tests/fuzz_api.py --count 500`.

A program is 5 to 15 lines of text over the names of numpy, lax, nn, random, scipy, linalg and fft
(fuzz_api_names.py says which are drawn), on arrays that are arguments or made by the program, and a
mode: compiled as it is, with its arguments as constants, under vmap, grad, jvp, in a scan.  Its
lines are run eagerly, each by itself, and compared with the interpreter on NumPy
(tests/support/oracle.py) and with JAX, where CALQUE_FUZZ_JAX names a Python that has it; so are
the error classes of lines that calque refuses.  The whole, in its mode, is compiled, all programs
of a group as one module, and compared with the same two.  What differs is told from noise by
perturbing every operation.
A failure prints as one line with its operands, where one line fails alone.

    CALQUE_FUZZ_JAX=/opt/jax/bin/python make fuzz MINUTES=30
    python tests/fuzz_api.py --explain 17        the program, and the least of it that fails
    python tests/fuzz_api.py --coverage          names that are drawn, and why others are not
    python tests/fuzz_search.py build/*.jsonl    the table of counts

Files: fuzz_api_numpy, fuzz_api_lax (recipes), _draw, _modes, _jax (the other worker), _check
(comparisons), _known (explained differences), _run (a group), _shrink.  Start reading at
`fuzz_api_run.findings`.
"""
from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

if __name__ == "__main__":
    os.environ["CALQUE_CHECK"] = "1"
    os.environ.setdefault("CALQUE_CACHE", "0")  # no program comes twice

import fuzz_search

LIFETIME = 12  # groups per worker
_jax: list[Any] = []


def failures(seeds: Sequence[int]) -> list[Any]:
    """What differs in the programs of these seeds, in this process."""
    from support import fuzz_api_run
    if not _jax:
        _jax.append(fuzz_api_run.Jax())
    return fuzz_api_run.findings(seeds, _jax[0])


def show(f: Any) -> str:
    if not isinstance(f, dict):
        return str(f)
    least = f"\n    least: {f['least']}" if f.get("least") else ""
    return (f"seed {f['seed']} {'x64 ' if f['x64'] else ''}{f['kind']}: {f['line']}\n"
            f"    {f['detail']}{least}")


def main() -> int:
    parser = fuzz_search.arguments(__doc__)
    parser.add_argument("--explain", type=int, metavar="SEED",
                        help="print a program and the least of it that fails")
    parser.add_argument("--lines", action="store_true",
                        help="compile nothing: lines eagerly and in JAX, modes in JAX")
    parser.add_argument("--coverage", action="store_true", help="print which names are drawn")
    options = parser.parse_args()
    if options.worker:
        fuzz_search.work(failures)
        return 0
    wanted = {"CALQUE_CPU": options.level, **({"CALQUE_FUZZ": "lines"} if options.lines else {})}
    if any(os.environ.get(k, "host") != v for k, v in wanted.items()):  # read at import
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **wanted})
    if options.coverage:
        from support import fuzz_api_names
        print(fuzz_api_names.table())
        return 0
    if options.explain is not None:
        from support import fuzz_api_shrink
        print(fuzz_api_shrink.explain(options.explain))
        return 0
    from support.fuzz_api_draw import GROUP
    name = "fuzz_api.py --lines" if options.lines else "fuzz_api.py"
    return fuzz_search.run(__file__, name, options, GROUP, LIFETIME, show)


if __name__ == "__main__":
    sys.exit(main())
