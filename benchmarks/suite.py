"""76 workloads, calque against jax on the CPU: first calls, new shapes, warm cache, steady calls.

    python benchmarks/suite.py [--only WORD] [--level x86-64-v3] [--jax PYTHON] [--write]

Each workload runs in two fresh processes, one a library, with empty caches, call by call in turn.
CPU time counts all threads and the compiler's process.  --level holds both sides to AVX2
(x86-64-v3: CALQUE_CPU, XLA's --xla_cpu_max_isa, ONEDNN_MAX_CPU_ISA).  --write puts the table, a
plot and the reasons for what is above 1.3 (reasons.py) into docs/.  Start at `measure`.
"""
from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent / "docs"
_HELD = {"x86-64-v2": "SSE4_2", "x86-64-v3": "AVX2", "x86-64-v4": "AVX512"}
WORSE = 1.3  # a ratio that asks for a reason
COLUMNS = ("first CPU", "first wall", "shape CPU", "shape wall", "warm wall", "steady")


# ---- in a process of its own
def serve(name: str) -> None:
    """Answer requests (one JSON text a line) with JSON texts."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import resource

    import numpy
    import workloads
    lib = workloads.library(name)
    made: dict[str, Any] = {}

    def call(n: int = 1) -> float:
        start = time.perf_counter()
        for _ in range(n):  # (each is waited for: a result that is dropped need not be computed)
            lib.top.block_until_ready(made["jit"](*made["args"]))
        return time.perf_counter() - start

    lib.top.block_until_ready(lib.top.jit(lambda x: x - 3)(lib.np.zeros(2)))  # devices are up
    for line in sys.stdin:
        what, *given = json.loads(line)
        answer: Any = None
        if what == "make":
            f, args = workloads.WORKLOADS[given[0]](lib, given[1])
            made.update(jit=lib.top.jit(f), args=[lib.top.device_put(a) for a in args])
        elif what == "chain":
            import chains
            f, x = chains.program(lib, *given)
            made.update(jit=lib.top.jit(f), args=[x])
        elif what == "part":
            import parts
            f, args = parts.program(lib, *given)
            made.update(jit=lib.top.jit(f), args=args)
        elif what == "phases":
            import first_call
            answer = first_call.phases(call)
        elif what == "first":
            cpu, wall = processor_time(), call()
            answer = [processor_time() - cpu, wall]
        elif what == "run":
            answer = call(given[0])
        elif what == "short":  # (shortcuts.py)
            from calque.lowering.compiler.compile import shortcut_counts
            leaves = lib.top.tree.leaves(made["jit"](*made["args"]))
            data = b"".join(lib.top.random.key_data(v).tobytes() if "key" in str(v.dtype)
                            else numpy.asarray(v).tobytes() for v in leaves)
            answer = [hashlib.sha256(data).hexdigest(), shortcut_counts()]
        elif what == "memory":
            answer = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(answer), file=answers, flush=True)


def processor_time() -> float:
    """Seconds of this process and of the compiler's, all threads."""
    total = time.process_time()
    module = sys.modules.get("calque.lowering.compiler.process")
    for server in getattr(module, "_servers", {}).values():
        fields = Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        # (its own, and that of the linkers it started)
        total += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return total


# ---- the other side
class Process:
    """One library in a fresh process."""

    def __init__(self, python: str, name: str, level: str, cache: str) -> None:
        extra = {"CALQUE_CACHE_DIR": cache, "JAX_COMPILATION_CACHE_DIR": cache + "/jax",
                 "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        if level != "host":
            extra |= {"CALQUE_CPU": level, "XLA_FLAGS": f"--xla_cpu_max_isa={_HELD[level]} "
                      "--xla_cpu_experimental_ynn_fusion_type=",  # (YNNPACK asks the CPU)
                      "ONEDNN_MAX_CPU_ISA": _HELD[level]}
        self.process = subprocess.Popen(
            [python, str(HERE / "suite.py"), "--serve", name], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, env={**os.environ, **extra})

    def ask(self, *question: Any) -> Any:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{question}: the process ended")
        return json.loads(line)

    def close(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def measure(name: str, pythons: dict[str, str], level: str, seconds: float) -> dict[str, Any]:
    """The figures of a workload, a pair of seconds (calque, jax) each; memory in MiB."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as cache:
        both = [Process(p, lib, level, cache) for lib, p in pythons.items()]
        for place, more in (("first", 0), ("shape", 1)):
            for p in both:
                p.ask("make", name, more)
            pairs = [p.ask("first") for p in both]
            found[f"{place} CPU"], found[f"{place} wall"] = zip(*pairs)
        found["memory"] = [p.ask("memory") for p in both]
        found["steady"], found["spread"] = steady(both, seconds)
        for p in both:
            p.close()
        both = [Process(p, lib, level, cache) for lib, p in pythons.items()]
        for p in both:
            p.ask("make", name, 0)
        found["warm wall"] = [p.ask("first")[1] for p in both]
        for p in both:
            p.close()
    return found


def steady(both: list[Process], seconds: float) -> tuple[list[float], list[float]]:
    """Medians of a call, in turn for so long; and the middle half of the ratios."""
    counts = [max(1, min(1000, round(0.01 / max(p.ask("run", 3) / 3, 1e-7)))) for p in both]
    times: list[list[float]] = [[], []]
    stop = time.perf_counter() + seconds
    while len(times[0]) < 5 or (time.perf_counter() < stop and len(times[0]) < 60):
        for i in (0, 1) if len(times[0]) % 2 else (1, 0):
            times[i].append(both[i].ask("run", counts[i]) / counts[i])
    ratios = sorted(a / b for a, b in zip(*times))
    quarter = len(ratios) // 4
    return [statistics.median(t) for t in times], [ratios[quarter], ratios[-1 - quarter]]


def shown(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} us" if seconds < 1e-3 else (
        f"{seconds * 1e3:.1f} ms" if seconds < 0.1 else f"{seconds:.2f} s")


def table(found: dict[str, dict[str, Any]]) -> list[str]:
    """A line a workload: calque's time and the ratio calque / jax of each column."""
    lines = ["| workload | " + " | ".join(COLUMNS) + " | spread | memory MiB |",
             "|---" * (len(COLUMNS) + 3) + "|"]
    for name, row in found.items():
        cells = [f"{shown(row[c][0])}: {row[c][0] / row[c][1]:.2f}" for c in COLUMNS]
        low, high = row["spread"]
        lines.append(f"| {name} | {' | '.join(cells)} | {low:.2f}..{high:.2f} | "
                     f"{row['memory'][0]:.0f}, {row['memory'][1]:.0f} |")
    means = [math.exp(statistics.fmean(math.log(r[c][0] / r[c][1]) for r in found.values()))
             for c in COLUMNS]
    lines.append("| **geometric mean** | " + " | ".join(f"**{m:.2f}**" for m in means) + " | | |")
    return lines


def reasons(found: dict[str, dict[str, Any]], why: dict[str, str]) -> list[str]:
    """A line for each workload whose steady calls take more than WORSE times as long as jax's."""
    slow = {n: r["steady"][0] / r["steady"][1] for n, r in found.items()}
    return ["", f"Above {WORSE}, and where the time goes:", "",
            *[f"* {n} ({ratio:.2f}): {why.get(n, 'not looked into')}"
              for n, ratio in sorted(slow.items(), key=lambda v: -v[1]) if ratio > WORSE]]


def tick(power: int) -> str:
    """A power of two as the axis has it: 1/64, 1/2, 1, 4."""
    return f"1/{2 ** -power}" if power < 0 else str(2 ** power)


def plot(found: dict[str, dict[str, Any]], level: str) -> str:
    """Steady ratios as bars to both sides of 1, on a scale of powers of two (an SVG)."""
    ratios = sorted((math.log2(r["steady"][0] / r["steady"][1]), n) for n, r in found.items())
    high, middle, unit, bottom = 14, 460, 42, 14 * len(ratios) + 30
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="760" height="{bottom}"'
             ' font-family="sans-serif" font-size="10">',
             f'<text x="8" y="12">steady calls, calque / jax, {level}</text>',
             f'<text x="{middle - 6}" y="12" text-anchor="end" fill="#258">calque faster</text>',
             f'<text x="{middle + 6}" y="12" fill="#b33">jax faster</text>']
    for power in range(-6, 4):
        x = middle + unit * power
        lines.append(f'<path d="M{x} 30V{bottom}" stroke="#ccc"/>'
                     f'<text x="{x}" y="28" text-anchor="middle">{tick(power)}</text>')
    for i, (ratio, name) in enumerate(ratios):
        y, length = 30 + high * i, unit * max(-6.0, min(ratio, 3.0))
        left, fill = middle + min(length, 0), "#c44" if ratio > 0 else "#48a"
        lines.append(f'<text x="8" y="{y + 9}">{name}</text><rect x="{left:.0f}" y="{y}" '
                     f'width="{abs(length):.0f}" height="10" fill="{fill}"/>')
    return "\n".join([*lines, "</svg>", ""])


def write(found: dict[str, dict[str, Any]], level: str, why: dict[str, str]) -> None:
    """Put a table between the marks of its level on the page, and the plot beside it."""
    image = f"suite-{level}.svg"
    put("suite.md", level, [f"![steady calls]({image})", "", *table(found), *reasons(found, why)])
    (DOCS / image).write_text(plot(found, level))


def put(page: str, mark: str, lines: list[str]) -> None:
    """Put lines between two marks of a page."""
    text = (DOCS / page).read_text()
    begin, end = (f"<!-- {mark}: {word} -->" for word in ("begin", "end"))
    before, rest = text.split(begin)
    _, after = rest.split(end)
    (DOCS / page).write_text("\n".join([before + begin, *lines, end + after]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="workloads whose name contains this")
    parser.add_argument("--level", default="host", choices=["host", *_HELD])
    parser.add_argument("--jax", default=sys.executable, help="a Python that has jax")
    parser.add_argument("--seconds", type=float, default=4.0, help="of steady calls, both together")
    parser.add_argument("--write", action="store_true", help="put the table into docs/suite.md")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
        return
    import workloads
    from reasons import REASONS
    pythons, found = {"calque": sys.executable, "jax": given.jax}, {}
    for name in workloads.WORKLOADS:
        if given.only in name:
            try:
                found[name] = measure(name, pythons, given.level, given.seconds)
            except RuntimeError as error:
                print(f"{name}: {error}", file=sys.stderr, flush=True)
                continue
            print(table({name: found[name]})[2], flush=True)
            if given.write:
                write(found, given.level, REASONS)
    print(table(found)[-1])


if __name__ == "__main__":
    main()
