"""Runs what tests/carry.py compiled, on a machine with the runtime only, and checks every result.

    python run.py [--device cuda] [--only add,sin] [--limit 120] [--jobs 8] [--no-times]

Lies as run.py beside the .vmfb files, suite.json, tolerances.py and calque/runtime.  Needs NumPy,
ml_dtypes and iree-base-runtime; no compiler, no frontend.  Child processes do the work; one that
dies or takes too long costs a file of some cases.  Then a few programs are timed, beside JAX and
torch where they are installed and see the same kind of device.  Writes report.md; the exit status
is 1 where a result is wrong or a process died.  Start reading at `main`.
"""
from __future__ import annotations

import argparse
import json
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  (names its dtypes for NumPy)
import numpy as np

HERE = Path(__file__).parent

# name -> (function of a namespace such as jax.numpy or torch and float32 arrays, their shapes)
TIMED: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "add, 4": (lambda m, x: x + x, ((4,),)),
    "tanh, 1e7": (lambda m, x: m.tanh(x), ((10_000_000,),)),
    "sum, 1e7": (lambda m, x: m.sum(x), ((10_000_000,),)),
    "matmul, 1024": (lambda m, x, y: m.matmul(x, y), ((1024, 1024),) * 2),
    "matmul, 4096": (lambda m, x, y: m.matmul(x, y), ((4096, 4096),) * 2),
    "softmax, 1000 x 1000": (lambda m, x: m.exp(x) / m.sum(m.exp(x), 1)[:, None], ((1000, 1000),)),
    "MLP 784-512-10, batch 64": (lambda m, x, w, u: m.matmul(m.tanh(m.matmul(x, w)), u),
                                 ((64, 784), (784, 512), (512, 10))),
}


# ---- arrays as bytes
def pack(x: Any) -> tuple[np.ndarray[Any, Any], list[Any]]:
    """(bytes, [dtype, shape]); NumPy's files know no bfloat16."""
    x = np.ascontiguousarray(x).reshape(np.shape(x))
    return np.frombuffer(x.tobytes(), np.uint8), [x.dtype.name, list(x.shape)]


def unpack(raw: Any, kind: Sequence[Any]) -> Any:
    """The array of `pack`."""
    return np.frombuffer(raw.tobytes(), np.dtype(kind[0])).reshape(kind[1])


# ---- the child: checks files, one line of JSON each
def check(entry: dict[str, Any], device: Any) -> list[Any]:
    """[[primitive, case, kind, text]] of one file's cases."""
    from tolerances import difference

    from calque import runtime
    data = np.load(HERE / f"{entry['file']}.npz")
    call = runtime.load(HERE / f"{entry['file']}.vmfb", device)["suite"]
    args = [unpack(data[f"i{k}"], kind) for k, kind in enumerate(entry["args"])]
    outs = [b.numpy() for b in call(*args)]
    found, at = [], 0
    for case in entry["cases"]:
        wants = case["wants"]
        texts = [difference(outs[at + k], unpack(data[f"w{at + k}"], kind), case["factor"],
                            case["normwise"]) for k, kind in enumerate(wants)]
        at += len(wants)
        text = "; ".join(t for t in texts if t)
        found.append([entry["primitive"], case["name"], "wrong" if text else "right", text])
    return found


def serve(platform: str) -> None:
    """Positions in suite.json come in, a line of results goes out."""
    import os

    from calque import runtime
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # drivers print
    device = runtime.devices(platform)[0]
    suite = json.loads((HERE / "suite.json").read_text())
    for line in sys.stdin:
        entry = suite["files"][int(line)]
        try:
            found = check(entry, device)
        except Exception as error:  # whatever the runtime raises is a result here
            text = f"{type(error).__name__}: {str(error)[:400]}"
            found = [[entry["primitive"], c["name"], "failed", text] for c in entry["cases"]]
            answers.write(json.dumps(found) + "\n")
            answers.flush()
            os._exit(0)  # the device may be lost, and nothing after this would be right
        answers.write(json.dumps(found) + "\n")
        answers.flush()


# ---- the parent
def results(entries: Sequence[tuple[int, dict[str, Any]]], platform: str, limit: float
            ) -> Iterator[list[Any]]:
    """What the child says of each file; a new child where one died."""
    child: subprocess.Popen[str] | None = None
    for i, entry in entries:
        if child is None:
            child = subprocess.Popen([sys.executable, __file__, "--serve", platform], text=True,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert child.stdin is not None and child.stdout is not None
        line = ""
        try:
            child.stdin.write(f"{i}\n")
            child.stdin.flush()
            ready, _, _ = select.select([child.stdout], [], [], limit)
            line = child.stdout.readline() if ready else ""
            why = "the process died" if ready else f"no result within {limit:.0f} s"
        except BrokenPipeError:
            why = "the process died"
        if line:
            yield from json.loads(line)
            if child.poll() is None and json.loads(line)[0][2] != "failed":
                continue
            child.wait()
            child = None
            continue
        child.kill()
        child.wait()
        child = None
        yield from ([entry["primitive"], c["name"], "crash", why] for c in entry["cases"])
    if child is not None and child.stdin is not None:
        child.stdin.close()
        child.wait()


# ---- times
def median(call: Callable[[], Any], seconds: float = 1.0) -> float:
    """Median seconds of a call, after two to warm up."""
    call(), call()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def times(platform: str, files: dict[str, str]) -> list[str]:
    """The rows of the table of times."""
    from calque import runtime
    device = runtime.devices(platform)[0]
    peers = {"JAX": jax_peer(platform), "torch": torch_peer(platform)}
    peers = {name: peer for name, peer in peers.items() if peer is not None}
    rows = [" | ".join(["| ", "calque", *peers]) + " |", "|---" * (2 + len(peers)) + "|"]
    for name, file in files.items():
        f, shapes = TIMED[name]
        rng = np.random.default_rng(0)
        arrays = [rng.standard_normal(s).astype(np.float32) * 0.1 for s in shapes]
        call = runtime.load(HERE / f"{file}.vmfb", device)["timed"]
        buffers = [runtime.Buffer.from_numpy(a, device) for a in arrays]
        found = [median(lambda c=call, b=buffers: [r.wait() for r in c(*b)])]
        found += [median(peer(f, arrays)) for peer in peers.values()]
        rows.append(f"| {name} | " + " | ".join(f"{1e6 * t:.1f} us" for t in found) + " |")
        print(rows[-1], flush=True)
    return rows


def jax_peer(platform: str) -> Any:
    """(function, arrays) -> call that waits; None where JAX has no such device."""
    try:
        import jax
        device = jax.devices({"cuda": "gpu"}.get(platform, platform))[0]
    except Exception:  # not installed, or no such backend
        return None

    def peer(f: Any, arrays: Any) -> Any:
        given = [jax.device_put(a, device) for a in arrays]
        jitted = jax.jit(lambda *xs: f(jax.numpy, *xs))
        return lambda: jitted(*given).block_until_ready()
    return peer


def torch_peer(platform: str) -> Any:
    """(function, arrays) -> call that waits; None where torch has no such device."""
    try:
        import torch
    except ImportError:
        return None
    if platform not in ("cpu", "cuda") or platform == "cuda" and not torch.cuda.is_available():
        return None

    def peer(f: Any, arrays: Any) -> Any:
        given = [torch.tensor(a, device=platform) for a in arrays]

        def call() -> None:
            with torch.no_grad():
                f(torch, *given)
            if platform == "cuda":
                torch.cuda.synchronize()
        return call
    return peer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--device", default="", help="cpu, cuda, vulkan: what it was made for")
    parser.add_argument("--only", default="", help="primitives, with commas between")
    parser.add_argument("--limit", type=float, default=120, help="seconds for a file")
    parser.add_argument("--jobs", type=int, default=1, help="child processes at once")
    parser.add_argument("--no-times", action="store_true")
    args = parser.parse_args()
    if args.serve:
        serve(args.serve)
        return 0
    suite = json.loads((HERE / "suite.json").read_text())
    platform = args.device or suite["platform"]
    chosen = set(args.only.split(",")) if args.only else None
    entries = [(i, e) for i, e in enumerate(suite["files"])
               if chosen is None or e["primitive"] in chosen]
    with ThreadPoolExecutor(args.jobs) as pool:
        parts = pool.map(lambda part: list(results(part, platform, args.limit)),
                         [entries[i::args.jobs] for i in range(args.jobs)])
        found = [case for part in parts for case in part]
    found += [r for r in suite["refused"] if chosen is None or r[0] in chosen]
    count = Counter(kind for _, _, kind, _ in found)
    kinds = ("right", "refused", "rejected", "failed", "wrong", "crash")
    lines = [f"# {suite['target']} on {platform}", "",
             f"{len(found)} samples: " + ", ".join(f"{count[k]} {k}" for k in kinds), ""]
    lines += [f"* {p} {name}: {kind}: {text.splitlines()[0] if text else ''}"
              for p, name, kind, text in found if kind != "right"]
    print("\n".join(lines), flush=True)
    if not args.no_times and suite["timed"]:
        lines += ["", *times(platform, suite["timed"])]
    (HERE / "report.md").write_text("\n".join(lines) + "\n")
    return int(any(count[k] for k in ("failed", "wrong", "crash")))


if __name__ == "__main__":
    sys.exit(main())
