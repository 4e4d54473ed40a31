"""Compiles the kernels for CUDA: Triton's source to PTX, packed as the package holds it.

    python -m pip install triton==3.9.0
    python lowering/kernels/cuda/make.py [--check] [--only product-float32] [--jobs 2]

A tool of the developers': no GPU is needed, and users need neither Triton nor CUDA's toolkit.
Writes archives/*.xz and archives/manifest.json beside this file; --check compares the manifest with
the sources only.  Kernels for compute capability 9 are assembled here (cubins run on every driver
of CUDA 12, while their PTX wants newer ones); the others stay PTX, which drivers compile.
Start reading at `main`.
"""
from __future__ import annotations

import argparse
import hashlib
import io
import json
import lzma
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
OUT = HERE / "archives"
SHORT = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
PTX = {80: 80, 90: 86}  # the language's version that a kernel is written in


def digest() -> str:
    """What the archives were made from."""
    made = hashlib.sha256()
    for name in ("triton_kernels.py", "table.py"):
        made.update((HERE / name).read_bytes())
    return made.hexdigest()


def slim(text: str, scratch: bool, pointers: int) -> str:
    """PTX whose entry has the kernel's own parameters only, for IREE passes no others: pointers,
    with one to work space behind them where `scratch`, then numbers."""
    head = re.search(r"\.visible \.entry (\w+)\(\n(.*?)\n\)", text, re.S)
    assert head is not None
    *params, space, profile = head[2].split(",\n")
    for extra in [profile] if scratch else [profile, space]:
        assert text.count(extra.split()[-1]) == 1, extra  # it stands in the head alone
    if scratch:  # parameters have names, so their order is free
        params.insert(pointers, space)
    text = text[:head.start(2)] + ",\n".join(params) + text[head.end(2):]
    return re.sub(r"\n\s*\n+", "\n", re.sub(r"[ \t]*//[^\n]*", "", text)).lstrip()


def assembled(text: str, sm: int) -> tuple[bytes, int]:
    """Machine code of PTX for compute capability 9, and bytes of registers that were spilled."""
    import triton
    ptxas = next(p for p in Path(triton.__file__).parent.rglob("ptxas") if p.is_file())
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "k.ptx"), Path(folder, "k.cubin")
        source.write_text(text)
        done = subprocess.run([ptxas, "-v", f"--gpu-name=sm_{sm}{'a' * (sm == 90)}", "-o", made,
                               source], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr[:2000])
        spilled = re.search(r"(\d+) bytes spill stores", done.stderr)
        return made.read_bytes(), int(spilled[1]) if spilled else 0


def compiled(kernel: Any) -> tuple[str, str, bytes, dict[str, Any]]:
    """(archive, name, code, what the manifest says of it)."""
    os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
    os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"
    import triton
    import triton_kernels
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    spec = kernel.spec()
    function = getattr(triton_kernels, spec.function)
    names = function.arg_names
    kinds = {n: spec.pointers.get(n) and "*" + SHORT.get(spec.pointers[n], spec.pointers[n])
             or ("constexpr" if n in spec.constants else spec.floats.get(n, "i32"))
             for n in names}
    known = {(names.index(n),): [["tt.divisibility", by]] for n, by in spec.divisible.items()}
    made = triton.compile(
        ASTSource(fn=function, signature=kinds, constexprs=spec.constants, attrs=known),
        target=GPUTarget("cuda", kernel.sm, 32),
        options={"num_warps": spec.warps, "num_stages": spec.stages,
                 "ptx_version": PTX[kernel.sm]})
    meta = made.metadata
    assert not meta.profile_scratch_size
    text = slim(made.asm["ptx"], spec.space or bool(meta.global_scratch_size), len(spec.pointers))
    code, spilled = assembled(text, 90)
    about = {"entry": meta.name, "block": 32 * meta.num_warps, "shared": meta.shared,
             "scratch": meta.global_scratch_size}
    if spilled:
        print(f"{kernel.name}: {spilled} bytes spilled", file=sys.stderr)
        about["spilled"] = spilled
    suffix = "ptx" if kernel.sm != 90 else "cubin"
    return (kernel.archive, f"{kernel.name}.{suffix}", text.encode() if suffix == "ptx" else code,
            about)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    manifest = OUT / "manifest.json"
    found = json.loads(manifest.read_text()) if manifest.exists() else {"kernels": {}}
    if args.check:
        sys.exit(0 if found.get("source") == digest() else "the archives are older than the source")
    sys.path[:0] = [str(HERE)]
    import table
    import triton
    every = [k for k in table.kernels() if k.archive.startswith(args.only)]
    OUT.mkdir(exist_ok=True)
    files: dict[str, dict[str, bytes]] = {}
    kept = {n: a for n, a in found["kernels"].items() if not a["archive"].startswith(args.only)}
    with ProcessPoolExecutor(args.jobs) as pool:
        for archive, name, code, about in pool.map(compiled, every):
            files.setdefault(archive, {})[name] = code
            about["archive"] = archive
            kept[name] = about
            print(f"{name}: {len(code)} bytes, {about}", flush=True)
    for archive, members in files.items():
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for name, code in sorted(members.items()):
                entry = tarfile.TarInfo(name)
                entry.size = len(code)
                tar.addfile(entry, io.BytesIO(code))
        (OUT / f"{archive}.tar.xz").write_bytes(
            lzma.compress(packed.getvalue(), preset=9 | lzma.PRESET_EXTREME))
    used = {a["archive"] for a in kept.values()}
    for path in OUT.glob("*.tar.xz"):
        if path.name.removesuffix(".tar.xz") not in used:
            path.unlink()
    manifest.write_text(json.dumps({"source": digest(), "triton": triton.__version__,
                                    "kernels": dict(sorted(kept.items()))}, indent=0) + "\n")
    print(f"{len(kept)} kernels, {sum(p.stat().st_size for p in OUT.iterdir())} bytes")


if __name__ == "__main__":
    main()
