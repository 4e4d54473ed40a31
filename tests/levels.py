"""The samples at each level of CPU, not only at what this machine has: `make levels`.

    python tests/levels.py [x86-64-v2 ...] [--jobs 2] [--limit 3]

For each level, with CALQUE_CPU set to it: all samples of all primitives, loops, sorts, moves,
functions, linear algebra and FFT by our kernels and by those in C, the eager pack, and the
conformance sample (../shared/conformance, where it is there), whose results are compared with those
at this machine's own level.  A level that this machine lacks is skipped with a sentence.  Not
collected by pytest.  Start reading at `main`.
"""
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from calque.core.config import config
from calque.lowering.target.targets import TargetError, runnable_target

ROOT = Path(__file__).resolve().parents[1]
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
CONFORMANCE = ROOT.parent / "shared" / "conformance"
ALL = ("tests/primitives/test_values.py",)  # with what is slow
QUICK = (  # what is in the default suite; all of it compiles
    "tests/primitives", "tests/native", *(f"tests/lowering/test_{name}.py" for name in (
        "kernels", "sort", "move", "whole", "flat", "native", "linalg_forms", "fourier",
        "many_arrays", "math_exact", "math_float", "math_special", "math_complex")))


def lacking(level: str) -> str:
    """Why this machine cannot run a level; '' where it can."""
    try:
        with config.context("calque_cpu", level):
            runnable_target()
    except TargetError as error:
        return str(error).splitlines()[0]
    return ""


def command(level: str, *words: str) -> int:
    """Run one at a level."""
    print(f"== {level}: {' '.join(words)}", flush=True)
    began = time.monotonic()
    done = subprocess.run([sys.executable, *words], cwd=ROOT, check=False,
                          env={**os.environ, "CALQUE_CPU": level})
    print(f"== {level}: {time.monotonic() - began:.0f} s, exit {done.returncode}", flush=True)
    return done.returncode


def tests(level: str, jobs: int) -> int:
    """Exit status of pytest."""
    spread = ("-n", str(jobs), "--dist", "worksteal") if jobs > 1 else ()
    return command(level, "-m", "pytest", *spread, "-m", "not vulkan and not cuda", *ALL) | command(
        level, "-m", "pytest", *spread, "-m", "not slow and not vulkan and not cuda", *QUICK)


def conformance(level: str, jobs: int, limit: int) -> dict[str, Any]:
    """What did not pass: by the case's key."""
    out = ROOT / "build" / f"conformance-{level}.json"
    out.parent.mkdir(exist_ok=True)
    command(level, str(CONFORMANCE / "replay.py"), "--package", "calque", "--limit", str(limit),
            "--jobs", str(jobs), "--timeout", "120", "--quiet", "--top", "0", "--out", str(out))
    return {f["key"]: f for f in json.loads(out.read_text())["failures"]}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("levels", nargs="*", default=LEVELS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=int, default=3, help="conformance cases of a function")
    args = parser.parse_args(arguments)
    failed = []
    here: dict[str, Any] | None = None
    for level in args.levels:
        why = lacking(level)
        if why:
            print(f"== {level} is skipped: {why}")
            continue
        if tests(level, args.jobs):
            failed.append(f"{level}: tests")
        if command(level, "-c", "from calque_cli import main; main()", "warmup"):
            failed.append(f"{level}: the eager pack")
        if not (CONFORMANCE / "replay.py").exists():
            print(f"== {level}: no conformance sample: {CONFORMANCE} is missing")
            continue
        if here is None:
            here = conformance("host", args.jobs, args.limit)
        for key, case in conformance(level, args.jobs, args.limit).items():
            if key not in here:
                failed.append(f"{level}: {key} {case['status']}: {case['msg'][:200]}")
    print("\n".join(failed) or "== all is well at every level that this machine has")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
