"""Rows of the benchmark table for transforms: against jax, and NumPy where the bar is NumPy's.

`rows()` is what benchmarks/run.py shows; NumPy's rows stand in place of jax's where they say so.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from pairs import Row, compare

import calque
import calque.numpy as cnp

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
