"""Programs for CUDA run without a card: IREE's own CUDA driver on a libcuda that interprets PTX.

tests/support/cuda_machine is that library: slow, and strict about memory (what lies outside of
every allocation, or is not aligned, loses the device, as on a card).  It is of compute capability
8.0, so kernels for 9.0 do not run here.  A child process runs what this one compiled.
"""
from __future__ import annotations

import functools
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import aot, lax

SOURCES = Path(__file__).parents[1] / "support" / "cuda_machine"
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

_CHILD = """
import pickle, sys
import numpy as np
from calque import runtime
device = runtime.devices("cuda")[0]
for vmfb, args in pickle.load(open(sys.argv[1], "rb")):
    call = runtime.load(vmfb, device)["main"]
    pickle.dump([b.numpy() for b in call(*args)], sys.stdout.buffer)
sys.stdout.buffer.flush()
"""

TF32 = 2e-3  # of a product's norm: operands of 11 bits, cut, 7e-4 on a card (docs/cuda_kernels.md)
Program = tuple[Any, Sequence[Any]]  # a function, its arguments


@functools.cache
def library() -> str:
    """The folder of the library, built once for a set of sources."""
    import hashlib
    files = sorted(SOURCES.iterdir())
    digest = hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"calque-tests-{os.getuid()}" / digest
    if not (folder / "libcuda.so").exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f"part-{os.getpid()}.so"
        subprocess.run(["g++", "-O2", "-std=c++17", "-shared", "-fPIC", "-o", part,
                        *[f for f in files if f.suffix == ".cpp"]], check=True)
        part.replace(folder / "libcuda.so")
    return str(folder)


def run(programs: Sequence[Program], tmp_path: Path) -> list[list[Any]]:
    """What each program gives on the machine."""
    made = []
    for f, args in programs:
        specs = [calque.ShapeDtypeStruct(a.shape, a.dtype) for a in args]
        made.append((aot.compile(f, *specs, targets=["cuda:sm_80"], name="main").vmfb, args))
    path = tmp_path / "programs"
    path.write_bytes(pickle.dumps(made))
    done = subprocess.run([sys.executable, "-c", _CHILD, str(path)], capture_output=True,
                          env={**os.environ, "LD_LIBRARY_PATH": library()})
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    found, rest = [], done.stdout
    while rest:
        outs = pickle.loads(rest)
        found.append(outs)
        rest = rest[len(pickle.dumps(outs)):]
    return found


def numbers(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed + sum(shape))
    return (rng.random(shape, np.float32) * 2 - 1).astype(dtype)


def check(programs: dict[str, tuple[Any, Sequence[Any], Any, float]], tmp_path: Path) -> None:
    """Programs beside NumPy in float64: error in norm."""
    found = run([(f, args) for f, args, _, _ in programs.values()], tmp_path)
    for (name, (_, args, want, bound)), outs in zip(programs.items(), found, strict=True):
        wide = [a.astype(np.float64) if a.dtype.kind == "f" or a.dtype == ml_dtypes.bfloat16
                else a for a in args]
        wants = want(*wide)
        for got, expected in zip(outs, wants if isinstance(wants, tuple) else (wants,),
                                 strict=True):
            assert got.shape == np.shape(expected), name
            error = np.linalg.norm(got.astype(np.float64) - expected)
            assert error <= bound * max(np.linalg.norm(expected), 1e-30), (name, error)


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_products(tmp_path: Path) -> None:
    """Every layout, odd sizes, vectors, parts of sums, halves, a piece, two strides of a batch."""
    def product(x: Any, y: Any) -> Any:
        return x @ y
    programs: dict[str, Any] = {
        "nn": (product, (numbers(64, 128), numbers(128, 96)), np.matmul, TF32),
        "tn": (lambda x, y: x.T @ y, (numbers(128, 64), numbers(128, 96)),
               lambda x, y: x.T @ y, TF32),
        "nt": (lambda x, y: x @ y.T, (numbers(64, 128), numbers(96, 128)),
               lambda x, y: x @ y.T, TF32),
        "odd": (product, (numbers(33, 77), numbers(77, 19)), np.matmul, TF32),
        "parts": (product, (numbers(16, 2048), numbers(2048, 64)), np.matmul, TF32),
        "vector": (product, (numbers(96, 256), numbers(256)), np.matmul, TF32),
        "row": (product, (numbers(256), numbers(256, 96)), np.matmul, TF32),
        "piece": (lambda x, y: x[1:] @ y, (numbers(33, 64), numbers(64, 64)),
                  lambda x, y: x[1:] @ y, TF32),
        "batch": (lambda q, k: jnp.einsum("bqhd,bkhd->bhqk", q, k),
                  (numbers(2, 33, 3, 32), numbers(2, 33, 3, 32, seed=1)),
                  lambda q, k: np.einsum("bqhd,bkhd->bhqk", q, k), TF32),
        "highest": (lambda x, y: jnp.matmul(x, y, precision="highest"),
                    (numbers(64, 128), numbers(128, 96)), np.matmul, 1e-6),
        "high": (lambda x, y: jnp.matmul(x, y, precision="high"),
                 (numbers(64, 128), numbers(128, 96)), np.matmul, 1e-6),
    }
    for kind, bound in ((np.float16, 1e-3), (ml_dtypes.bfloat16, 5e-3)):  # (rounded results)
        programs[np.dtype(kind).name] = (
            product, (numbers(64, 128, dtype=kind), numbers(128, 96, dtype=kind)), np.matmul, bound)
    check(programs, tmp_path)


def windows(x: Any, w: Any) -> Any:
    """A 3 x 3 convolution, stride 1, padded by one: (n, h, w, c) with (3, 3, c, k)."""
    padded, (_, h, wide, _) = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), x.shape
    return sum(padded[:, i:i + h, j:j + wide] @ w[i, j] for i in range(3) for j in range(3))


def test_convolutions(tmp_path: Path) -> None:
    def conv(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, (1, 1), "SAME",
                                        dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def gradients(x: Any, w: Any, g: Any) -> Any:
        return calque.vjp(conv, x, w)[1](g)

    def their_gradients(x: Any, w: Any, g: Any) -> Any:
        padded, (_, h, wide, _) = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), x.shape
        dx, dw = np.zeros(padded.shape), np.zeros(w.shape)
        for i in range(3):
            for j in range(3):
                dw[i, j] = np.einsum("nhwc,nhwk->ck", padded[:, i:i + h, j:j + wide], g)
                dx[:, i:i + h, j:j + wide] += g @ w[i, j].T
        return dx[:, 1:-1, 1:-1], dw

    x, w = numbers(2, 9, 8, 16), numbers(3, 3, 16, 32)
    check({"channels last": (conv, (x, w), windows, TF32),
           "three channels": (conv, (numbers(2, 9, 8, 3), numbers(3, 3, 3, 8)), windows, TF32),
           "float16": (conv, (x.astype(np.float16), w.astype(np.float16)), windows, 1e-3),
           "gradients": (gradients, (x, w, numbers(2, 9, 8, 32)), their_gradients, TF32)}, tmp_path)


def test_rows_and_elements(tmp_path: Path) -> None:
    """What lowering/compiler/gpu_configuration.py cuts into other blocks."""
    def norm(x: Any) -> Any:
        return (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)
    big = numbers(200, 800)
    programs: dict[str, Any] = {
        f"softmax {n}": (calque.nn.softmax, (numbers(5, n),), softmax, 1e-6)
        for n in (64, 999, 1000, 1002, 1024)}
    programs |= {
        "layernorm": (norm, (numbers(5, 500),), norm, 1e-5),
        "negated": (lambda x: -(x * x).sum(1), (numbers(5, 512),), lambda x: -(x * x).sum(1), 1e-6),
        "subtracted": (lambda x: (x[:, :1] - x).sum(1), (numbers(5, 512),),
                       lambda x: (x[:, :1] - x).sum(1), 1e-5),
        "columns": (lambda x: x.sum(0), (numbers(300, 128),), lambda x: x.sum(0), 1e-6),
        "all": (jnp.sum, (numbers(20011),), np.sum, 1e-4),  # (numbers that cancel)
        "bias": (lambda x, b: jnp.tanh(x + b), (big, numbers(800)), lambda x, b: np.tanh(x + b),
                 1e-6),
        "plain": (jnp.exp, (big,), np.exp, 1e-6),
        "reversed": (lambda w: jnp.transpose(w[::-1, ::-1], (0, 1, 3, 2)), (numbers(3, 3, 20, 24),),
                     lambda w: np.transpose(w[::-1, ::-1], (0, 1, 3, 2)), 0),
        "solve": (jnp.linalg.solve, (numbers(20, 20) + 4 * np.eye(20, dtype=np.float32),
                                     numbers(20, 3)), np.linalg.solve, 1e-5)}
    check(programs, tmp_path)
    ((zeros,),) = run([(lambda x: (-x).sum(1), [np.zeros((2, 512), np.float32)])], tmp_path)
    assert not zeros.any() and not np.signbit(zeros).any()  # 0 and -0 add up to 0


FOLDS = {"sum": jnp.sum, "max": jnp.max, "min": jnp.min, "argmax": jnp.argmax,
         "argmin": jnp.argmin, "any": jnp.any, "all": jnp.all}


@pytest.mark.parametrize("shape, axis", [((3, 1024), 1), ((3, 1000), 1), ((3, 65), 1),
                                         ((40, 256), 0), ((2000,), 0)])
def test_folds_of_integers(shape: tuple[int, ...], axis: int, tmp_path: Path) -> None:
    """Signs matter: IREE starts maxima of signed integers from 0, minima from -1, where blocks of
    threads take rows (lowering/rules/reduce._extremum_of_signed)."""
    kinds = [np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32, np.bool_]
    args, rng = [], np.random.default_rng(0)
    for kind in kinds:
        if kind == np.bool_:
            args += [rng.random(shape) < 0.999, np.ones(shape, bool)]
            continue
        low = -100 if np.dtype(kind).kind == "i" else 1
        args += [rng.integers(low, 0 if low < 0 else 100, shape).astype(kind),
                 rng.integers(1, 100, shape).astype(kind)]
    (outs,) = run([(lambda *xs: [f(x, axis=axis) for f in FOLDS.values() for x in xs], args)],
                  tmp_path)
    at = iter(outs)
    for name in FOLDS:
        for x in args:
            got = next(at)
            want = getattr(np, name)(x, axis=axis)
            assert np.array_equal(got, np.asarray(want).astype(got.dtype)), (name, x.dtype)


def test_wide_sums_compile(tmp_path: Path) -> None:
    """Sums that widen to 64 bits, and complex ones, of rows that 32 divides and others."""
    calque.config.update("jax_enable_x64", True)
    try:
        rng = np.random.default_rng(0)
        args = []
        for n in (1024, 1000):
            args += [rng.integers(-9, 9, (3, n)).astype(np.int8),
                     (rng.random((3, n)) + 1j * rng.random((3, n))).astype(np.complex64)]
        found = run([(lambda *xs: [x.sum(1) for x in xs], args),
                     (lambda *xs: [x.max(1) for x in xs], args)], tmp_path)
    finally:
        calque.config.update("jax_enable_x64", False)
    for outs, f in zip(found, (np.sum, np.max), strict=True):
        for got, x in zip(outs, args, strict=True):
            assert np.allclose(got, f(x, axis=1), rtol=1e-5)


def test_a_read_outside_of_memory_is_an_error(tmp_path: Path) -> None:
    """The machine notices: a kernel that reads behind its argument fails, it gives no number."""
    ptx = """.version 7.0
.target sm_80
.address_size 64
.visible .entry f(.param .u64 x, .param .u64 y) {
 .reg .b64 %rd<3>; .reg .b32 %r<2>;
 ld.param.u64 %rd0, [x]; ld.param.u64 %rd1, [y];
 ld.global.b32 %r0, [%rd0+OFFSET]; st.global.b32 [%rd1], %r0; ret;
}"""
    from calque import ffi
    for offset, good in ((0, True), (1 << 20, False), (2, False)):
        name = f"reads_{offset}"
        ffi.register_ffi_target(name, ffi.Kernel(ptx.replace("OFFSET", str(offset)), "f", block=1),
                                platform="cuda")
        spec = calque.ShapeDtypeStruct((1,), np.float32)
        program = (lambda x, n=name, s=spec: ffi.ffi_call(n, s)(x), (numbers(4),))
        if good:
            assert run([program], tmp_path)[0][0] == numbers(4)[0]
        else:
            with pytest.raises(AssertionError, match="outside of every allocation|misaligned"):
                run([program], tmp_path)


@pytest.mark.slow
def test_iree_still_starts_maxima_of_signed_integers_from_zero(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """_extremum_of_signed in lowering/rules/reduce.py."""
    from calque.lowering.rules import reduce

    def plain(ctx: Any, x: Any, axes: Any, name: str) -> Any:
        init = np.iinfo(x.dtype).min if name == "maximum" else np.iinfo(x.dtype).max
        return reduce.emit_reduce(ctx.b, [x], [init], list(axes), reduce.fold(name))[0]

    x = -np.arange(1, 3 * 1024 + 1, dtype=np.int32).reshape(3, 1024)
    assert np.array_equal(run([(lambda x: x.max(1), [x])], tmp_path)[0][0], x.max(1))
    monkeypatch.setattr(reduce, "_extremum_of_signed", plain)
    calque.clear_caches()
    assert np.array_equal(run([(lambda x: x.max(1), [x])], tmp_path)[0][0], [0, 0, 0])


@pytest.mark.slow
def test_iree_still_compiles_no_rows_that_widen_to_64_bits(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Builder.barrier in `_by_blocks`, lowering/rules/reduce.py."""
    from calque.lowering.compiler.compile import CompileError
    from calque.lowering.emit.builder import Builder
    calque.config.update("jax_enable_x64", True)
    try:
        spec = calque.ShapeDtypeStruct((3, 1024), np.int8)
        assert aot.compile(lambda x: x.sum(1), spec, targets=["cuda:sm_80"])
        monkeypatch.setattr(Builder, "barrier", lambda self, *xs: list(xs))
        calque.clear_caches()
        with pytest.raises(CompileError, match="distribute"):
            aot.compile(lambda x: x.sum(1), spec, targets=["cuda:sm_80"])
    finally:
        calque.config.update("jax_enable_x64", False)
