"""What an element of each elementwise primitive costs, an addition being 1: `python weights.py`.

    python benchmarks/weights.py [--write] [--only igamma,zeta]

Each runs inside the call, on one core, over 400,000 elements drawn where its samples are drawn
(tests/support/samples.py), in f32 or what comes nearest, compiled for x86-64-v3 (wider vectors make
functions cheaper, and additions not); counted is the time of the thread.  --write puts the weights
into frontend/calque/core/weights.py.  Start reading at `measure`.
"""
from __future__ import annotations

import argparse
import dataclasses
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

os.environ["CALQUE_WARMUP"] = "0"
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np
from support.harness import function
from support.samples import ELEMENTWISE, ROWS

import calque
from calque.core.config import config
from calque.core.primitive import registry
from calque.lowering.passes import cost
from calque.lowering.target.targets import TargetError, runnable_target

SIZE = 400_000
LEVEL = "x86-64-v3"
TABLE = Path(__file__).resolve().parents[1] / "frontend" / "calque" / "core" / "weights.py"


def measure(name: str) -> float:
    """Nanoseconds an element: the least of several runs."""
    row = ROWS[name]
    sample = row.samples[0]
    wide = dataclasses.replace(sample, operands=tuple(
        dataclasses.replace(o, shape=(SIZE,)) for o in sample.operands))
    arrays = [calque.device_put(x if x.shape == (SIZE,) else np.resize(x, SIZE))
              for x in row.arrays(wide, row.main)]  # (some have values of their own)
    f = calque.jit(lambda xs: function(row, sample, sample.parameters(row.main))(*xs))
    times = []
    for _ in range(3):  # compiled, and warm
        calque.block_until_ready(f(arrays))
    end = time.monotonic() + 0.2
    while time.monotonic() < end or len(times) < 3:
        start = time.thread_time_ns()
        calque.block_until_ready(f(arrays))
        times.append(time.thread_time_ns() - start)
    return min(times) / SIZE


def runs(level: str) -> bool:
    """Whether this machine has all of a level."""
    with config.context("calque_cpu", level):
        try:
            runnable_target()
        except TargetError:
            return False
    return True


def rounded(name: str, x: float) -> int:
    """Two digits.  What only stores bools, chooses or moves costs what an addition does, fused."""
    if not registry[name].function and x < 4:
        return 1
    scale = 10 ** max(0, int(np.log10(max(x, 1))) - 1)
    return max(1, scale * round(x / scale))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="primitives, with commas between")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    if runs(LEVEL):
        config.update("calque_cpu", LEVEL)
    cost.runs_inline = lambda p: True  # inside the call, so on this thread
    names = args.only.split(",") if args.only else sorted(ELEMENTWISE)
    unit = measure("add")
    found: dict[str, Any] = {}
    for name in names:
        ns = measure(name)
        found[name] = rounded(name, ns / unit)
        print(f"{name}: {ns:.3f} ns, {found[name]}", flush=True)
    print(f"an addition: {unit:.3f} ns")
    if args.write and not args.only:
        rows = "".join(f'    "{n}": {w},\n' for n, w in found.items())
        text = TABLE.read_text()
        TABLE.write_text(re.sub(r"(?s)(\nMEASURED = \{\n).*?(\})", rf"\g<1>{rows}\g<2>", text))


if __name__ == "__main__":
    main()
