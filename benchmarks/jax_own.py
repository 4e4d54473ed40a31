"""JAX's own benchmarks (the folder benchmarks/ of its sources), with calque and with jax.

    python benchmarks/jax_own.py FOLDER [--only WORD] [--seconds S] [--write]

They are not in this repository: FOLDER is that of a checkout of JAX.  Each file runs as it is, but
for imports of private modules, in a process of its own, the two libraries in turn, twice, with one
CPU device and with eight; of each benchmark the faster time counts.  It needs jax and
google-benchmark beside calque (`make jax-benchmarks`).  --write puts the table into
docs/jax_benchmarks.md.  Start at `FILES`.
"""
from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "jax_benchmarks.md"
BEGIN, END = "<!-- jax own: begin -->", "<!-- jax own: end -->"
FILES = ("api", "linalg", "math", "random", "sparse", "tracing")  # of FILE_benchmark.py
# Benchmarks of JAX's private functions, of kernels for TPUs, and of more devices than CPUs have.
PRIVATE = ("safe_map|safe_zip|hlo_shard|check_aval|shaped_abstractify|array_arrays|4000|splash|"
           "replica_id")
EIGHT = "8_dev|4_dev|2_dev|addressable|callback|host_local|pmap|from_jax_array|sda_index"
_IMPORT = re.compile(r"from jax\._src(?:\.\S+)? import (.*?)(?:  #.*)?")
_PUBLIC = {"api": "import jax as api", "array": "import jax as array", "core": "import jax as core",
           "checkpoint": "from jax import checkpoint"}
ROUNDS = 2


def prepared(text: str, library: str) -> str:
    """A file as it runs: calque has JAX's public names, and reads no flags of absl."""
    text = text.replace("jax.config.parse_flags_with_absl()", "")
    if library == "jax":
        return text
    lines = []
    for line in text.split("\n"):
        found = _IMPORT.fullmatch(line)
        if found is not None:
            name = found[1].strip()
            line = _PUBLIC.get(name, f"{name.split(' as ')[-1]} = None")
        lines.append(line)
    head = "import calque.compat\ncalque.compat.install()\n"
    # (an attribute of JAX's arrays that is not public ends the file; its row is left out)
    return head + "\n".join(lines).replace("from __future__ import annotations", "").replace(
        "x._arrays", "x")


def run(folder: Path, name: str, library: str, wanted: str, devices: int, seconds: float
        ) -> dict[str, float]:
    """Microseconds of each benchmark of a file."""
    with tempfile.TemporaryDirectory() as where:
        script = Path(where) / f"{name}_benchmark.py"
        script.write_text(prepared((folder / script.name).read_text(), library))
        environment = {**os.environ, "CALQUE_CACHE_DIR": f"{where}/cache",
                       "PYTHONPATH": f"{ROOT}/frontend:{ROOT}" if library == "calque" else "",
                       "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
        done = subprocess.run(
            [sys.executable, str(script), f"--benchmark_min_time={seconds}s",
             f"--benchmark_filter={wanted}", "--benchmark_format=json"],
            env=environment, capture_output=True, text=True, timeout=600)
    if done.returncode or "{" not in done.stdout:
        raise RuntimeError(f"{name} with {library} ended with {done.returncode}: "
                           f"{done.stdout[-300:]}{done.stderr[-2000:]}")
    found = json.loads(done.stdout[done.stdout.index("{"):])["benchmarks"]
    units = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}
    made: dict[str, float] = {}
    for b in found:
        if not b.get("error_occurred") and b.get("real_time"):
            time = b["real_time"] * units[b["time_unit"]]
            made[b["name"]] = min(time, made.get(b["name"], math.inf))
    return made


def compared(folder: Path, name: str, devices: int, seconds: float, only: str
             ) -> list[tuple[str, float, float]]:
    """(benchmark, calque's time, jax's time) of a file."""
    wanted = f"-{PRIVATE}|{EIGHT}" if devices == 1 else EIGHT
    best: dict[str, dict[str, float]] = {"calque": {}, "jax": {}}
    for _ in range(ROUNDS):
        for library, known in best.items():
            for case, time in run(folder, name, library, wanted, devices, seconds).items():
                known[case] = min(time, known.get(case, math.inf))
    private = re.compile(PRIVATE)
    return [(case, best["calque"][case], time) for case, time in best["jax"].items()
            if case in best["calque"] and only in case and not private.search(case)]


def table(groups: dict[str, list[tuple[str, float, float]]]) -> str:
    """Of all files, the slowest beside jax first, and a line for each file."""
    lines = ["| file | benchmarks | calque / jax, geometric mean | above 1.2 |",
             "|---|---|---|---|"]
    every = list[tuple[str, str, float, float]]()
    for title, rows in groups.items():
        ratios = [a / b for _, a, b in rows]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        lines.append(f"| {title} | {len(rows)} | {mean:.2f} | {sum(r > 1.2 for r in ratios)} |")
        every += [(title, *row) for row in rows]
    lines += ["", "| benchmark | calque, us | jax, us | calque / jax |", "|---|---|---|---|"]
    for _, case, a, b in sorted(every, key=lambda row: -row[2] / row[3]):
        name = case.removesuffix("/process_time")
        lines.append(f"| {name} | {a:,.1f} | {b:,.1f} | {a / b:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """As the module says."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="benchmarks/ of a checkout of JAX")
    parser.add_argument("--only", default="", help="benchmarks with this in their names")
    parser.add_argument("--files", nargs="*", default=FILES)
    parser.add_argument("--seconds", type=float, default=0.05, help="of each, at least")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    asked = parser.parse_args()
    groups = {}
    for name in asked.files:
        for devices in (1, 8) if name == "api" else (1,):
            rows = compared(asked.folder, name, devices, asked.seconds, asked.only)
            if rows:
                groups[name if devices == 1 else f"{name}, eight devices"] = rows
    made = table(groups)
    print(made)
    if asked.write:
        text = PAGE.read_text()
        before, after = text[:text.index(BEGIN)], text[text.index(END):]
        PAGE.write_text(f"{before}{BEGIN}\n{made}\n{after}")


if __name__ == "__main__":
    main()
