"""Runs one client program of libs/: each public function that it defines is a use of the
library, and what it returns is the result.

    python -m calque.compat tests/clients/run_library.py NAME     (or plain Python, with jax)

The first line on stdout is JSON: the results, the failures and the seconds since Python started.
Each number read from stdin then asks for the time of `step` when called again and again for so many
seconds: the median in milliseconds is printed.  tests/clients/table.py reads it.
"""
from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import statistics
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

HERE = pathlib.Path(__file__).parent / "libs"


def since_start() -> float:
    """Seconds since this process began."""
    ticks = float(pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def numbers(value: Any) -> list[list[float]]:
    """The first numbers of every leaf, complex ones as two; strings and the rest as text."""
    import jax
    import numpy as np
    found: list[Any] = []
    for leaf in jax.tree.leaves(value):
        if isinstance(leaf, str) or leaf is None:
            found.append([str(leaf)])
            continue
        flat = np.asarray(leaf).ravel()
        if flat.dtype.kind == "c":
            flat = np.stack([flat.real, flat.imag], -1).ravel()
        flat = flat.astype(np.float64)
        some = flat if flat.size <= 200 else np.concatenate([flat[:199], [flat.mean()]])
        found.append([repr(float(n)) for n in some])
    return found


def failure() -> str:
    """One line of the exception that is being handled, and where in the library it was raised."""
    kind, error, trace = sys.exc_info()
    where = [f for f in traceback.extract_tb(trace) if "run_library" not in f.filename]
    place = f" ({pathlib.Path(where[-1].filename).name}:{where[-1].lineno})" if where else ""
    lines = (str(error).splitlines() or [""])
    return f"{kind.__name__ if kind else ''}: {lines[0][:200]}{place}"


def load(name: str) -> dict[str, Callable[[], Any]]:
    """The uses that a program defines, in its order."""
    spec = importlib.util.spec_from_file_location(f"client_{name}", HERE / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return {key: value for key, value in vars(module).items() if callable(value)
            and not key.startswith("_") and getattr(value, "__module__", "") == spec.name
            and not isinstance(value, type)}


def main() -> None:
    warnings.simplefilter("ignore")
    results, failed, uses = {}, {}, {}
    answers = os.fdopen(os.dup(1), "w")  # what the libraries print goes to stderr
    os.dup2(2, 1)
    try:
        uses = load(sys.argv[1])
    except BaseException:
        failed["import"] = failure()
        traceback.print_exc()
    for name, use in uses.items():
        try:
            results[name] = numbers(use())
        except Exception:
            failed[name] = failure()
            traceback.print_exc()
    print(json.dumps({"results": results, "failed": failed, "first": since_start(),
                      "step": "step" in results}), file=answers, flush=True)
    import jax
    for line in sys.stdin:
        taken, end = [], time.perf_counter() + float(line)
        while not taken or time.perf_counter() < end:
            start = time.perf_counter()
            jax.block_until_ready(uses["step"]())
            taken.append(time.perf_counter() - start)
        print(1e3 * statistics.median(taken), file=answers, flush=True)


if __name__ == "__main__":
    main()
