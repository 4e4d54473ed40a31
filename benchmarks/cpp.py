"""Artifacts called from C++ beside IREE's own benchmark, torch's AOTInductor and ONNX Runtime.

    python benchmarks/cpp.py [--native PREFIX] [--peers PYTHON] [--rounds 7] [--threads 1,2,8]
                             [--write]

The same artifact goes through calque::runtime (benchmarks/throughput/runtime.cc) and
iree-benchmark-module, each in a process of its own, in turn, at the same number of worker threads.
PREFIX is where IREE's C runtime is installed (then both backends are measured), PYTHON an
interpreter with torch, onnx and onnxruntime, of an environment of its own; without them the table
has fewer columns.  --write puts the tables into docs/cpp.md.  Needs CMake and a C++
compiler.  Start reading at `main`.
"""
from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import calque.numpy as jnp
from calque import aot

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "cpp.md"
HERE = Path(__file__).parent / "throughput"
BUILD = ROOT / "build" / "throughput"
SECONDS = 0.5  # a stretch of calls whose mean is one measurement

SHAPES = {"add": ((4,), (4,)), "matmul": ((1024, 1024), (1024, 1024)), "small": ((64, 1),),
          "wide": ((64, 784),)}
LAYERS = {"small": (1, 128, 128, 1), "wide": (784, 512, 10)}
TITLES = {"add": "4 + 4 floats", "matmul": "matmul 1024 f32",
          "small": "MLP 1-128-128-1, batch 64", "wide": "MLP 784-512-10, batch 64"}


# ---- what is run
def weights() -> dict[str, Any]:
    """"name/0" is the first matrix of an MLP."""
    rng = np.random.default_rng(0)
    return {f"{name}/{i}": (rng.standard_normal((m, n)) / np.sqrt(m)).astype(np.float32)
            for name, sizes in LAYERS.items() for i, (m, n) in enumerate(zip(sizes, sizes[1:]))}


def make() -> None:
    """The artifacts, and what the peers make theirs of."""
    BUILD.mkdir(parents=True, exist_ok=True)
    given = weights()
    np.savez(BUILD / "weights.npz", **given)
    (BUILD / "shapes.json").write_text(json.dumps(SHAPES))

    def layers(name: str) -> Any:
        matrices = [jnp.asarray(w) for key, w in given.items() if key.startswith(name + "/")]

        def f(x: Any) -> Any:
            for w in matrices[:-1]:
                x = jnp.tanh(x @ w)
            return x @ matrices[-1]
        return f

    plain = {"add": lambda x, y: x + y, "matmul": lambda x, y: x @ y}
    for name, shapes in SHAPES.items():
        specs = [f"f32[{','.join(map(str, s))}]" for s in shapes]
        made = aot.compile(plain.get(name) or layers(name), *specs, targets=["cpu"], name=name)
        (BUILD / f"{name}.vmfb").write_bytes(made.vmfb)


def answer(name: str) -> float:
    """The sum of the result, by NumPy."""
    x = [np.full(s, 0.5) for s in SHAPES[name]]
    if len(x) == 2:
        return float(np.sum(x[0] @ x[1] if name == "matmul" else x[0] + x[1]))
    matrices = [w.astype(np.float64) for k, w in weights().items() if k.startswith(name + "/")]
    y = x[0]
    for w in matrices[:-1]:
        y = np.tanh(y @ w)
    return float(np.sum(y @ matrices[-1]))


def build_runtime(prefix: str = "") -> Path:
    """calque::runtime, and the program that measures it; with IREE's C runtime where given."""
    work = BUILD / ("native" if prefix else "hosting")
    library, folder = work / "library", work / "program"
    folder.mkdir(parents=True, exist_ok=True)
    backend = ["-DCALQUE_BACKEND=native", f"-DCMAKE_PREFIX_PATH={prefix}"] if prefix else []
    quiet: Any = {"check": True, "stdout": subprocess.DEVNULL}
    subprocess.run(["cmake", "-S", ROOT / "runtime/cpp", "-B", library,
                    "-DCMAKE_BUILD_TYPE=Release", f"-DPython3_EXECUTABLE={sys.executable}",
                    f"-DCMAKE_INSTALL_PREFIX={work / 'prefix'}", *backend], **quiet)
    subprocess.run(["cmake", "--build", library], **quiet)
    subprocess.run(["cmake", "--install", library], **quiet)
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(throughput LANGUAGES CXX)\n"
        "find_package(calque REQUIRED)\n"
        f"add_executable(throughput {HERE / 'runtime.cc'})\n"
        "target_link_libraries(throughput PRIVATE calque::runtime)\n")
    subprocess.run(["cmake", "-S", folder, "-B", folder / "build", "-DCMAKE_BUILD_TYPE=Release",
                    f"-DCMAKE_PREFIX_PATH={work / 'prefix'}"], **quiet)
    subprocess.run(["cmake", "--build", folder / "build"], **quiet)
    return folder / "build" / "throughput"


def build_inductor(python: str) -> Path:
    """The program that measures AOTInductor's packages; the headers are those of torch's wheel."""
    said = subprocess.run([python, "-c", "import torch; print(torch.__path__[0]); "
                           "print(int(torch._C._GLIBCXX_USE_CXX11_ABI))"],
                          check=True, capture_output=True, text=True).stdout.split()
    place, abi = Path(said[0]), said[1]
    target = BUILD / "inductor"
    if not target.exists() or target.stat().st_mtime < (HERE / "inductor.cc").stat().st_mtime:
        include, lib = place / "include", place / "lib"
        subprocess.run(
            ["c++", "-std=c++20", "-O2", f"-D_GLIBCXX_USE_CXX11_ABI={abi}", f"-I{include}",
             f"-I{include / 'torch/csrc/api/include'}", HERE / "inductor.cc", "-o", target,
             f"-L{lib}", f"-Wl,-rpath,{lib}", "-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu",
             "-lc10"], check=True)
    return target


# ---- measurements: seconds of a call with its result there
def by_runtime(program: Path, name: str, threads: int) -> dict[str, float]:
    return _json([program, BUILD / f"{name}.vmfb", SECONDS],
                 {"CALQUE_CPU_THREADS": str(threads)})


def by_iree(name: str, threads: int) -> dict[str, float]:
    record = aot.load((BUILD / f"{name}.vmfb").read_bytes()).functions[name]
    device = "local-sync" if record.call.run_inline else "local-task"
    results = {r.origin: r.shape for r in record.results}
    shapes = [*SHAPES[name], *[results["computed", k] for k in record.call.output_buffers]]
    inputs = [f"--input={'x'.join(map(str, s))}xf32=0.5" for s in shapes]
    said = _json([Path(sys.executable).parent / "iree-benchmark-module",
                  f"--module={BUILD / f'{name}.vmfb'}", f"--function={record.entry}",
                  f"--device={device}", f"--task_topology_group_count={threads}", *inputs,
                  "--benchmark_format=json", f"--benchmark_min_time={SECONDS}s",
                  f"--benchmark_min_warmup_time={SECONDS / 4}"])
    run = said["benchmarks"][0]
    return {"wait": run["real_time"] * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}[run["time_unit"]]}


def by_inductor(program: Path, name: str, threads: int) -> dict[str, float]:
    shapes = ["x".join(map(str, s)) for s in SHAPES[name]]
    return _json([program, BUILD / f"{name}.pt2", SECONDS, *shapes],
                 {"OMP_NUM_THREADS": str(threads)})


def by_onnx(python: str, name: str, threads: int) -> dict[str, float]:
    return _json([python, HERE / "peers.py", "onnx", BUILD / f"{name}.onnx", SECONDS],
                 {"OMP_NUM_THREADS": str(threads)})


def _json(command: list[Any], env: dict[str, str] | None = None) -> Any:
    done = subprocess.run([str(c) for c in command], env={**os.environ, **(env or {})},
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command} failed:\n{done.stderr[-4000:]}")
    return json.loads(done.stdout)


def measure(rounds: int, threads: list[int], peers: str, native: str
            ) -> dict[tuple[str, int], dict[str, Any]]:
    """{(case, threads): {who: [what each round found]}}."""
    make()
    program = build_runtime()
    who: dict[str, Any] = {"calque": lambda n, t: by_runtime(program, n, t), "iree": by_iree}
    if native:
        other = build_runtime(native)
        who["native"] = lambda n, t: by_runtime(other, n, t)
    if peers:
        if not all((BUILD / f"{name}.pt2").exists() for name in SHAPES):  # (weights are the same)
            subprocess.run([peers, HERE / "peers.py", "make", BUILD], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        inductor = build_inductor(peers)
        who |= {"torch": lambda n, t: by_inductor(inductor, n, t),
                "onnx": lambda n, t: by_onnx(peers, n, t)}
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for name in SHAPES:
        want = answer(name)
        for count in threads:
            if name in ("add", "small") and count != threads[0]:
                continue  # they run in the calling thread
            row = found[name, count] = {w: [] for w in who}
            for _ in range(rounds):
                for w, f in who.items():
                    row[w].append(f(name, count))
                    got = row[w][-1].get("sum", want)
                    assert abs(got - want) <= 1e-4 * max(abs(want), 1), (w, name, got, want)
            print(line(name, count, row), flush=True)
    return found


# ---- tables
def median(runs: list[dict[str, float]], key: str = "wait") -> float:
    return float(np.median([r[key] for r in runs]))


def line(name: str, threads: int, row: dict[str, Any]) -> str:
    """One row; in brackets the median of the rounds' ratios to IREE's own."""
    alone = name in ("add", "small")
    cells = [TITLES[name], "" if alone else str(threads), words(median(row["iree"]))]
    for who in ("calque", "native"):
        if who in row:
            ratio = np.median([a["wait"] / b["wait"] for a, b in zip(row[who], row["iree"])])
            cells.append(f"{words(median(row[who]))} ({ratio:.2f})")
    cells += [words(median(row[w])) for w in ("torch", "onnx") if w in row]
    return "| " + " | ".join(cells) + " |"


def words(seconds: float) -> str:
    """A time."""
    us = seconds * 1e6
    return f"{us:.1f} us" if us < 100 else f"{us:.0f} us" if us < 1000 else f"{us / 1e3:.2f} ms"


def tables(found: dict[tuple[str, int], dict[str, Any]], peers: str) -> str:
    """What goes into the page."""
    rows = list(found.values())
    head = ["", "threads", "iree-benchmark-module", "calque::runtime, hosting"]
    head += ["calque::runtime, native"] if "native" in rows[0] else []
    text = f"iree {version('iree-base-runtime')}"
    if peers:
        said = subprocess.run(
            [peers, "-c", "import torch, onnxruntime; print(torch.__version__, "
             "onnxruntime.__version__)"], check=True, capture_output=True, text=True).stdout.split()
        head += ["AOTInductor, C++", "ONNX Runtime, Python"]
        text += f", torch {said[0]}, onnxruntime {said[1]}"
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += [line(*key, row) for key, row in found.items()]
    ours = [w for w in ("calque", "native") if w in rows[0]]
    small = ["| calls of 4 + 4 floats | " + " | ".join(
        {"calque": "hosting", "native": "native"}[w] for w in ours) + " | bar |",
        "|---" * (len(ours) + 2) + "|"]
    for title, key, bar in (("until it returns", "call", "10 us"),
                            ("load of the artifact", "load", "5 ms")):
        small.append(f"| {title} | " + " | ".join(
            words(median(rows[0][w], key)) for w in ours) + f" | {bar} |")
    cores = os.cpu_count()
    load = os.getloadavg()[2]  # beyond the cores: other work, and times as good as noise
    return "\n".join([f"{cores} cores, load {load:.0f}; {text}.", "", *lines, "", *small])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", default="", help="a Python with torch, onnx and onnxruntime")
    parser.add_argument("--native", default="", help="where IREE's C runtime is installed")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", default="1,2,8")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    found = measure(args.rounds, [int(t) for t in args.threads.split(",")], args.peers,
                    args.native)
    text = tables(found, args.peers)
    print(text)
    if args.write:
        page = PAGE.read_text()
        PAGE.write_text(re.sub(
            "(<!-- throughput: begin -->\n).*?(<!-- throughput: end -->)",
            lambda m: f"{m[1]}{text}\n{m[2]}", page, flags=re.DOTALL))


if __name__ == "__main__":
    main()
