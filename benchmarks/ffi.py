"""A kernel of the user's beside our own loop: the cost of its call, and 10M f32.

python benchmarks/ffi.py: medians of calls measured in turn.
"""
from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import calque
import calque.numpy as jnp
from calque import ffi

ffi.register_ffi_target("twice_plus", ffi.Kernel("""
void twice_plus(const float *restrict x, float *restrict y, long n, long group, long groups) {
  for (long i = n * group / groups; i < n * (group + 1) / groups; ++i) y[i] = 2 * x[i] + 1;
}""", "twice_plus", scalars=lambda ins, outs: (outs[0].size,),
    grid=lambda ins, outs: max(1, min(64, outs[0].size >> 16))))


def seconds(f: Callable[[Any], Any], x: Any, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        f(x).block_until_ready()
    return (time.perf_counter() - start) / calls


def main() -> None:
    kernel = calque.jit(lambda x: ffi.ffi_call("twice_plus", x)(x))
    ours = calque.jit(lambda x: 2 * x + 1)
    for size, calls, rounds in ((16, 2000, 15), (10_000_000, 5, 15)):
        x = jnp.asarray(np.arange(size, dtype=np.float32))
        assert np.array_equal(kernel(x), ours(x))
        pairs = [(seconds(kernel, x, calls), seconds(ours, x, calls)) for _ in range(rounds)]
        a, b = (statistics.median(t) for t in zip(*pairs))
        print(f"{size:>9} f32: kernel {a * 1e6:9.2f} us, ours {b * 1e6:9.2f} us, "
              f"ratio {a / b:.3f}, difference {(a - b) * 1e6:.2f} us")


if __name__ == "__main__":
    main()
