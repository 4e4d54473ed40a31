"""AArch64: programs compiled here for it, run under QEMU, against the oracles.

IREE's runtime wheel for that machine is downloaded by pip and unpacked outside the repository; its
`iree-run-module` runs the .vmfb files.  That covers generated code, the C kernels and the loader,
neither calque.runtime nor the C++ library (they would need an AArch64 Python, or its compiler).

    apt-get install qemu-user-static libc6-arm64-cross libstdc++6-arm64-cross gcc-aarch64-linux-gnu
    python lowering/native/build.py && pytest -m slow tests/lowering/test_aarch64.py
"""
from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from carry import build, cases
from support.samples import ROWS
from support.tolerances import difference

import calque
import calque.numpy as jnp
from calque import aot
from calque.lowering.kernels.native import OBJECTS
from calque.runtime.aot import read_records

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("x64")]
ROOT = Path("/usr/aarch64-linux-gnu")  # Debian's libc6-arm64-cross
WORDS = {"bool": "i8", "bfloat16": "bf16"}
C_KERNELS = ("cholesky", "triangular_solve", "lu", "geqrf", "geqp3", "householder_product", "eigh",
             "svd", "tridiagonal", "tridiagonal_solve", "hessenberg", "eig", "schur", "fft",
             "top_k")
NAMES = [n for n in ROWS if n not in C_KERNELS]


@pytest.fixture(scope="module")
def run_module(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs IREE's AArch64 iree-run-module here."""
    qemu = shutil.which("qemu-aarch64-static")
    if qemu is None or not (ROOT / "lib").exists():
        pytest.skip("needs qemu-user-static, libc6-arm64-cross and libstdc++6-arm64-cross")
    folder = tmp_path_factory.mktemp("aarch64")
    wanted = f"iree-base-runtime=={version('iree-base-runtime')}"
    made = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--platform",
         "manylinux_2_28_aarch64", "--python-version", "311", "-d", str(folder), wanted],
        capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if not wheels:
        pytest.skip(f"pip has no {wanted} for AArch64: {made.stderr[-300:]}")
    with zipfile.ZipFile(wheels[0]) as wheel:
        wheel.extractall(folder)
    (command,) = folder.glob("iree/_runtime_libs/iree-run-module")
    command.chmod(0o755)
    return [qemu, "-L", str(ROOT), str(command), "--device=local-sync"]


def described(x: Any) -> str:
    """Shape and type as IREE's tools take them: 2x3xf32."""
    x = np.asarray(x)
    kind = WORDS.get(x.dtype.name, "")
    if x.dtype.name.startswith("float8"):
        kind = f"f8{x.dtype.name[7:].upper()}"
    elif not kind:
        kind = f"{'f' if x.dtype.kind == 'f' else 'i'}{8 * x.dtype.itemsize}"
    return "x".join([*map(str, x.shape), kind])


def on_aarch64(command: Sequence[str], folder: Path, vmfb: bytes,
               args: Sequence[Any]) -> list[Any]:
    """The results of an artifact's function; files hold bytes, for .npy lacks dtypes."""
    (folder / "a.vmfb").write_bytes(vmfb)
    (record,) = read_records(vmfb)
    line = [*command, f"--module={folder / 'a.vmfb'}", f"--function={record.entry or 'main'}"]
    for i in record.passed:
        x = np.ascontiguousarray(args[i]).reshape(np.shape(args[i]))
        if x.dtype.kind == "c":  # "complex" has an x: IREE's tool takes it for that of a shape
            np.save(folder / f"i{i}.npy", x)
            line.append(f"--input=@{folder / f'i{i}.npy'}")
        else:
            (folder / f"i{i}.bin").write_bytes(x.tobytes())
            line.append(f"--input={described(x)}=@{folder / f'i{i}.bin'}")
    computed = {r.origin[1]: r for r in record.results if r.origin and r.origin[0] == "computed"}
    for i in record.call.output_buffers:  # memory for large results
        line.append(f"--input={described(np.empty(computed[i].shape, computed[i].dtype))}")
    line += [f"--output=@{folder / f'o{i}.bin'}" for i in range(len(computed))]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    results = []
    for r in record.results:
        kind, i = r.origin or ("empty", -1)
        if kind == "argument":
            results.append(np.asarray(args[i]))
        else:
            raw = (folder / f"o{i}.bin").read_bytes() if kind == "computed" else b""
            results.append(np.frombuffer(raw, r.dtype).reshape(r.shape))
    return results


def check(command: Sequence[str], folder: Path, group: Sequence[dict[str, Any]]) -> None:
    wrong = []
    for part, made in build(group, "cpu:aarch64"):
        names = [c["label"] for c in part]
        if isinstance(made, Exception):
            wrong.append(f"{names}: {type(made).__name__}: {str(made)[:300]}")
            continue
        args = [a for c in part for a in c["args"]]
        outs = iter(on_aarch64(command, folder, made, args))
        for c in part:
            texts = [difference(next(outs), w, c["factor"], c["normwise"]) for w in c["wants"]]
            wrong += [f"{c['label']}: {text}" for text in texts if text]
    assert not wrong, "\n".join(wrong)


def sampled(names: Sequence[str], keep: Callable[[int], bool]) -> list[dict[str, Any]]:
    return [{**c, "label": f"{n} {c['name']}"} for n in names
            for i, c in enumerate(cases(n)) if keep(i)]


@pytest.mark.parametrize("start", range(0, len(NAMES), 20))
def test_primitives(start: int, run_module: list[str], tmp_path: Path) -> None:
    """Every fifth sample of each."""
    group = sampled(NAMES[start:start + 20], lambda i: i % 5 == 0)
    for at in range(0, len(group), 40):
        check(run_module, tmp_path, group[at:at + 40])


@pytest.mark.parametrize("name", [n for n in C_KERNELS if n in ROWS])
def test_c_kernels(name: str, run_module: list[str], tmp_path: Path) -> None:
    """All samples; complex ones and halves among them."""
    if not (OBJECTS / "aarch64" / "factor.o").exists():
        pytest.skip("needs gcc-aarch64-linux-gnu when the kernels are built")
    group = sampled([name], lambda i: True)
    for at in range(0, len(group), 40):
        check(run_module, tmp_path, group[at:at + 40])


def test_programs(run_module: list[str], tmp_path: Path) -> None:
    """A product, a loop, a sort, random bits: what samples are too small for."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 200, 200)).astype(np.float32)

    def f(a: Any, b: Any) -> Any:
        last, rows = calque.lax.scan(lambda c, r: (c * 0.5 + r, c.sum()), a[0], b)
        bits = calque.random.bits(calque.random.key(0), (1000,))
        return a @ b, last, rows, jnp.sort(a.ravel()), bits

    spec = calque.ShapeDtypeStruct(a.shape, a.dtype)
    made = aot.compile(f, spec, spec, targets=["cpu:aarch64"], name="f")
    wants = [np.asarray(o) for o in calque.jit(f)(a, b)]
    outs = on_aarch64(run_module, tmp_path, made.vmfb, [a, b])
    for out, want in zip(outs, wants, strict=True):
        # sums of 200 products in another order
        np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-4)
