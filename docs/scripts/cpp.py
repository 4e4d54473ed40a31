"""Measures what docs/cpp.md says of times and sizes and writes it there: cpp.py [BUILD [NATIVE]].

BUILD is the folder in which tests/cpp/test_cpp.py built the library (build/cpp), NATIVE one in
which it is built with CALQUE_BACKEND=native; without it the page keeps what it says of that.
"""
from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "cpp.md"


def size(folder: Path, suffixes: tuple[str, ...] = ()) -> float:
    """Megabytes of a folder's files, caches left out."""
    return sum(Path(root, name).stat().st_size for root, _, names in os.walk(folder)
               for name in names if "__pycache__" not in root
               and (not suffixes or name.endswith(suffixes))) / 1e6


def place(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations)))


def numbers(build: Path) -> str:
    iree = place("iree.runtime").parent
    runtime = sum(size(iree / name) for name in ("runtime", "_runtime_libs"))
    numpy = size(place("numpy")) + size(place("numpy").with_name("numpy.libs"))
    return (f"{runtime:.0f} MB of IREE's runtime, {numpy:.0f} MB of numpy, "
            f"{size(ROOT / 'runtime', ('.py',)) * 1000:.0f} KB of ours, and the library with "
            f"{(build / 'libcalque_runtime.so').stat().st_size / 1000:.0f} KB.")


def rows_of(build: Path, artifacts: Path) -> str:
    best: dict[str, list[float]] = {}
    for _ in range(3):
        said = subprocess.run([build / "tests" / "bench", artifacts, "5000"], check=True,
                              capture_output=True, text=True).stdout
        for line in said.splitlines():
            found = re.match(r"(.*?)  +([\d.]+) us(?:  \(thread +([\d.]+) us\))?", line)
            if found:
                times = [float(time) for time in found.groups()[1:] if time]
                best[found[1]] = [min(pair) for pair in zip(best.get(found[1], times), times)]
    rows = ["| | time | thread |", "|---|---|---|"]
    for name, (wall, *own) in best.items():
        rows.append(f"| {name} | {_time(wall)} | {_time(own[0]) if own else ''} |")
    return "\n".join(rows)


def table(build: Path) -> str:
    rows = [rows_of(build, build / "artifacts")]
    device = {"add": "local-sync", "matmul": "local-task"}
    for name, shape, arrays in (("add", "4xf32=1", 2), ("matmul", "1024x1024xf32=1", 3)):
        real, cpu = _iree(build / "artifacts" / f"{name}.vmfb", device[name], [shape] * arrays)
        rows.append(f"| iree-benchmark-module: {name} on {device[name]} | {real} "
                    f"| ({cpu}, all threads) |")
    return "\n".join(rows)


def _iree(path: Path, device: str, shapes: list[str]) -> tuple[str, ...]:
    """The best of IREE's own benchmark: (real time, processor time of all threads).

    The shapes are those of the arguments and of memory for the result.
    """
    tool = Path(sys.executable).parent / "iree-benchmark-module"
    calls = "20x" if device == "local-task" else "5000x"
    said = subprocess.run(
        [tool, f"--module={path}", "--function=main", f"--device={device}",
         *[f"--input={shape}" for shape in shapes], "--benchmark_format=json",
         f"--benchmark_min_time={calls}", "--benchmark_repetitions=10"],
        check=True, capture_output=True, text=True)
    runs = [r for r in json.loads(said.stdout)["benchmarks"] if r["run_type"] == "iteration"]
    scale = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}
    best = min(runs, key=lambda r: r["real_time"])
    return tuple(_time(best[k] * scale[best["time_unit"]]) for k in ("real_time", "cpu_time"))


def _time(value: float) -> str:
    """Microseconds in words."""
    return f"{value:.2g} us" if value < 100 else f"{value:.0f} us" if value < 1000 else (
        f"{value / 1000:.3g} ms")


def main() -> None:
    build = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "cpp").resolve()
    page = PAGE.read_text()
    made = {"numbers": numbers(build), "bench": table(build)}
    if len(sys.argv) > 2:
        native = Path(sys.argv[2]).resolve()
        made["native"] = rows_of(native, build / "artifacts")
    for name, text in made.items():
        page = re.sub(f"(<!-- {name}: begin -->\n).*?(<!-- {name}: end -->)",
                      lambda m, text=text: f"{m[1]}{text}\n{m[2]}", page, flags=re.DOTALL)
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
