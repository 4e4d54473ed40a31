"""Transforms: rows of the benchmark table, and the table of errors in docs/fft.md.

    python benchmarks/fourier.py            # prints the errors
    python benchmarks/fourier.py --write    # also writes docs/fft.md

`rows()` is what benchmarks/run.py shows; NumPy's rows stand in place of jax's where they say so.
"""
from __future__ import annotations

import argparse
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.fft
from pairs import Row, compare

import calque
import calque.numpy as cnp
from calque.lowering.kernels import native

BAR = 2.0  # times NumPy's time for one line of 2^18


def _case(name: str, x: Any, fun: Callable[[Any], Callable[..., Any]],
          bar: float | None) -> list[Row]:
    """Against NumPy, then against jax."""
    wide = x.dtype.itemsize // (2 if x.dtype.kind == "c" else 1) == 8
    with calque.enable_x64(wide), jax.enable_x64(wide):
        ours, theirs = calque.jit(fun(cnp.fft)), jax.jit(fun(jnp.fft))
        a, b = calque.device_put(x), jnp.asarray(x)
        numpy = fun(np.fft)

        def run() -> Any:
            with calque.enable_x64(wide):
                return ours(a).block_until_ready()

        def run_jax() -> Any:
            with jax.enable_x64(wide):
                return theirs(b).block_until_ready()

        return [compare(f"{name} (against NumPy)", run, lambda: numpy(x), bar),
                compare(name, run, run_jax)]


def rows() -> list[Row]:
    """One long line, many short ones, planes, real numbers, a prime length."""
    rng = np.random.default_rng(0)

    def array(*shape: int, dtype: Any = np.complex64) -> Any:
        x = rng.standard_normal(shape)
        if np.dtype(dtype).kind == "c":
            x = x + 1j * rng.standard_normal(shape)
        return x.astype(dtype)

    found = []
    for kind in (np.complex64, np.complex128):
        found += _case(f"fft 2^18 {np.dtype(kind).name}", array(1 << 18, dtype=kind),
                       lambda m: m.fft, BAR)
    for kind in (np.float32, np.float64):
        found += _case(f"rfft 2^18 {np.dtype(kind).name}", array(1 << 18, dtype=kind),
                       lambda m: m.rfft, BAR)
    found += _case("fft of 1000 rows of 1000 complex64", array(1000, 1000), lambda m: m.fft, None)
    found += _case("fft2 512 x 512 complex64", array(512, 512), lambda m: m.fft2, None)
    found += _case("fft 100003 (prime) complex64", array(100003), lambda m: m.fft, None)
    return found


LENGTHS = (8, 60, 61, 97, 1000, 1024, 1009, 2 * 1009, 10_000, 1 << 18)
HEAD = """# Fourier transforms: their errors

Root mean square errors of normal random numbers in eps (2^-23, 2^-52), relative to the root mean
square of the result, against SciPy in long double.  Native: the C kernel; portable: StableHLO.
Written by `python benchmarks/fourier.py --write`; jax 0.10.2, NumPy {numpy}, x86-64.

| transform | length | dtype | native | portable | jax | NumPy |
|---|---|---|---|---|---|---|
"""


def _results(xs: list[Any], name: str) -> list[Any]:
    calque.clear_caches()
    return [np.asarray(o) for o in calque.jit(
        lambda xs: [getattr(cnp.fft, name)(x) for x in xs])(xs)]


def errors() -> str:
    """The table."""
    rng = np.random.default_rng(0)
    lines = []
    with calque.enable_x64(True), jax.enable_x64(True):
        for name, kinds in (("fft", "c8 c16"), ("ifft", "c8 c16"), ("rfft", "f4 f8")):
            for kind in kinds.split():
                xs = [(rng.standard_normal(n) + 1j * rng.standard_normal(n)) for n in LENGTHS]
                xs = [(x if kind[0] == "c" else x.real).astype(kind) for x in xs]
                found = [_results(xs, name)]
                with tempfile.TemporaryDirectory() as empty:
                    kept, native.OBJECTS = native.OBJECTS, pathlib.Path(empty)
                    found.append(_results(xs, name))
                    native.OBJECTS = kept
                found.append([np.asarray(getattr(jnp.fft, name)(x)) for x in xs])
                found.append([getattr(np.fft, name)(x) for x in xs])
                long = "G" if kind[0] == "c" else "g"
                for i, x in enumerate(xs):
                    want = getattr(scipy.fft, name)(x.astype(long))
                    gaps = [_relative(f[i], want) / np.finfo(kind).eps for f in found]
                    cells = " | ".join(f"{g:.2f}" for g in gaps)
                    lines.append(f"| {name} | {x.size} | {x.dtype} | {cells} |")
    return HEAD.format(numpy=np.__version__) + "\n".join(lines) + "\n"


def _relative(got: Any, want: Any) -> float:
    gap = np.abs(got.astype(want.dtype) - want)
    return float(np.sqrt(np.mean(gap**2) / np.mean(np.abs(want) ** 2)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    text = errors()
    print(text)
    if parser.parse_args().write:
        (pathlib.Path(__file__).parent.parent / "docs" / "fft.md").write_text(text)
