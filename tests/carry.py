"""Compiles the primitives' samples for a device that is elsewhere, with what they should give.

    python tests/carry.py FOLDER [--target cuda:sm_80] [--only add,sin]

No such device is needed here.  FOLDER then holds .vmfb files of some 40 samples each, their
arguments and the oracles' results, run.py (tests/carried.py), and calque's runtime:

    python -m pip install numpy ml_dtypes iree-base-runtime==3.13.* && python FOLDER/run.py

What does not compile is halved until the sample is alone; run.py reports these with the reason.
Not collected by pytest.  Start reading at `main`.
"""
from __future__ import annotations

import argparse
import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from carried import TIMED, pack
from support import ffi_kernels
from support.harness import expected, function, words
from support.samples import ROWS
from vulkan_share import cases_of

import calque
import calque.numpy as jnp
from calque import aot
from calque.core.precision import EXACT
from calque.lowering.compiler.compile import CompileError
from calque.lowering.target.targets import parse_target

ROOT = Path(__file__).parents[1]
GROUP = 40


def cases(name: str) -> list[dict[str, Any]]:
    """name, f, args, wants, and how they are compared, of all samples of a primitive; of ffi_call,
    kernels for GPUs."""
    if name == "ffi_call":
        return ffi_kernels.cases()
    row, found = ROWS[name], []
    for number, dtype in cases_of(name):
        sample = row.every[number]
        params, arrays = sample.parameters(dtype), row.arrays(sample, dtype)
        if "precision" in params and params["precision"] is None:
            params = {**params, "precision": EXACT}  # (carry_tables.py has TF32's)
        found.append({
            "name": f"[{sample.label}] {dtype}", "f": function(row, sample, params),
            "args": words(row, sample, arrays), "wants": expected(row, params, arrays),
            "factor": row.factor, "normwise": row.normwise})
    return found


def build(group: Sequence[dict[str, Any]], target: str
          ) -> Iterator[tuple[Sequence[dict[str, Any]], bytes | Exception]]:
    """(cases, an artifact of all of them, or why there is none)."""
    def suite(every: Any) -> Any:
        return [out for case, args in zip(group, every) for out in case["f"](*args)]

    specs = [[calque.ShapeDtypeStruct(np.shape(a), np.asarray(a).dtype) for a in case["args"]]
             for case in group]
    try:
        with calque.default_matmul_precision("highest"):  # (carry_tables.py has TF32's)
            yield group, aot.compile(suite, specs, targets=[target]).vmfb
    except Exception as error:  # any error of calque is a result here
        if len(group) == 1:
            yield group, error
            return
        half = len(group) // 2
        yield from build(group[:half], target)
        yield from build(group[half:], target)


def write(folder: Path, name: str, group: Sequence[dict[str, Any]], vmfb: bytes, primitive: str
          ) -> dict[str, Any]:
    """Write a file and its data; its entry in suite.json."""
    (folder / f"{name}.vmfb").write_bytes(vmfb)
    data: dict[str, Any] = {}
    args, listed, at = [], [], 0
    for case in group:
        for a in case["args"]:
            data[f"i{len(args)}"], kind = pack(a)
            args.append(kind)
        wants = []
        for w in case["wants"]:
            data[f"w{at}"], kind = pack(w)
            wants.append(kind)
            at += 1
        listed.append({"name": case["name"], "wants": wants, "factor": case["factor"],
                       "normwise": case["normwise"]})
    np.savez_compressed(folder / f"{name}.npz", **data)
    return {"file": name, "primitive": primitive, "args": args, "cases": listed}


def copy_runtime(folder: Path) -> None:
    """calque's runtime, its tables too: what a machine without the rest of calque loads."""
    runtime = folder / "calque" / "runtime"
    runtime.mkdir(parents=True, exist_ok=True)
    for source in (ROOT / "runtime").iterdir():
        if source.suffix in (".py", ".json"):
            shutil.copy(source, runtime)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target", default="cuda:sm_80")
    parser.add_argument("--only", default="", help="primitives, with commas between")
    args = parser.parse_args()
    folder, target = args.folder, parse_target(args.target)
    folder.mkdir(parents=True, exist_ok=True)
    suite: dict[str, Any] = {"target": target.name, "platform": target.platform, "files": [],
                             "refused": [], "timed": {}}
    calque.config.update("jax_enable_x64", True)
    ffi_kernels.register(target.platform)
    kernels = ["ffi_call"] * (target.platform != "cpu")
    for name in args.only.split(",") if args.only else [*ROWS, *kernels]:
        every = cases(name)
        count: Counter[str] = Counter()
        for at in range(0, len(every), GROUP):
            for group, made in build(every[at:at + GROUP], args.target):
                if isinstance(made, bytes):
                    file = f"{name}-{sum(count.values())}"
                    suite["files"].append(write(folder, file, group, made, name))
                    count["compiled"] += len(group)
                else:
                    kind = "rejected" if isinstance(made, CompileError) else "refused"
                    text = f"{type(made).__name__}: {made}"
                    suite["refused"].append([name, group[0]["name"], kind, text])
                    count[kind] += 1
                    print(f"  {name} {group[0]['name']}: {kind}: {text.splitlines()[0][:200]}")
        print(f"{name}: " + ", ".join(f"{n} {k}" for k, n in count.items()), flush=True)
    calque.config.update("jax_enable_x64", False)
    for i, (name, (f, shapes)) in enumerate(TIMED.items()):
        specs = [calque.ShapeDtypeStruct(s, np.float32) for s in shapes]

        def timed(every: Any, f: Any = f) -> Any:
            return f(jnp, *every)
        made = aot.compile(lambda xs, timed=timed: timed(xs), specs, targets=[args.target],
                           name="timed")
        (folder / f"timed-{i}.vmfb").write_bytes(made.vmfb)
        suite["timed"][name] = f"timed-{i}"
    (folder / "suite.json").write_text(json.dumps(suite))
    shutil.copy(Path(__file__).with_name("carried.py"), folder / "run.py")
    shutil.copy(Path(__file__).parent / "support" / "tolerances.py", folder / "tolerances.py")
    copy_runtime(folder)
    total = sum(len(e["cases"]) for e in suite["files"])
    print(f"{total} samples in {len(suite['files'])} files, {len(suite['refused'])} without one")


if __name__ == "__main__":
    main()
