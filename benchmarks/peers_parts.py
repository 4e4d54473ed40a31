"""Where the time of rows of peers.py goes, for peers_reasons.py: parts of a row alone, in calque.

    python benchmarks/peers_parts.py [WORD]

Each line: microseconds of a call, best of several stretches, and CPU time over wall time, the
threads that were at work.
"""
from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
from peers import stretch
from peers_libraries import Call
from peers_networks import ROWS
from peers_workloads import normal, uniform
from workloads import library

PARTS: dict[str, tuple[Any, ...]] = {
    "a call, 4 numbers": (lambda j, x: x + 1, normal(4)),
    "a call on the caller's thread, 100,000 numbers": (lambda j, x: x + 1, normal(100_000)),
    "a queued call, 600,000 numbers": (lambda j, x: x + 1, normal(600_000)),
    "1m: x + 1": (lambda j, x: x + 1, normal(1_000_000)),
    "1m: exp": (lambda j, x: j.np.exp(x), normal(1_000_000)),
    "1m: log": (lambda j, x: j.np.log(x), uniform(1_000_000) + 1),
    "1m: erf": (lambda j, x: j.lax.erf(x), normal(1_000_000)),
    "1m: erfc": (lambda j, x: j.lax.erfc(x), normal(1_000_000)),
    "1m: ndtr": (lambda j, x: j.special.ndtr(x), normal(1_000_000)),
    "1m: gelu by erf": (lambda j, x: 0.5 * x * (1 + j.lax.erf(x * 0.70710678)), normal(1_000_000)),
    "softmax: the maximum of rows": (lambda j, x: x.max(-1), normal(2048, 2048)),
    "softmax: exp": (lambda j, x: j.np.exp(x), normal(2048, 2048)),
    "softmax: x + 1": (lambda j, x: x + 1, normal(2048, 2048)),
    "cumsum: of 100,000": (lambda j, x: j.np.cumsum(x), uniform(100_000)),
    "cumsum: of 4m": (lambda j, x: j.np.cumsum(x), uniform(4_000_000)),
    "cumsum: a loop": (lambda j, x: j.lax.scan(lambda c, v: (c + v,) * 2, j.np.float32(0), x)[1],
                       uniform(1_000_000)),
    "mlp: 1 x 784 by 512": (lambda j, x, w: x @ w, normal(1, 784), normal(784, 512)),
    "mlp: 64 x 784 by 512": (lambda j, x, w: x @ w, normal(64, 784), normal(784, 512)),
    "resnet18: convolution of 128 x 16 x 16": (
        lambda j, x, w: j.lax.conv_general_dilated(x, w, (1, 1), "SAME"),
        normal(1, 128, 16, 16), normal(128, 128, 3, 3)),
    "resnet18: convolution of 512 x 4 x 4": (
        lambda j, x, w: j.lax.conv_general_dilated(x, w, (1, 1), "SAME"),
        normal(1, 512, 4, 4), normal(512, 512, 3, 3)),
    "resnet18: convolution of 64 x 32 x 32": (
        lambda j, x, w: j.lax.conv_general_dilated(x, w, (1, 1), "SAME"),
        normal(1, 64, 32, 32), normal(64, 64, 3, 3)),
    "resnet18: the first, 7 x 7 by 2": (
        lambda j, x, w: j.lax.conv_general_dilated(x, w, (2, 2), [(3, 3)] * 2),
        normal(1, 3, 128, 128), normal(64, 3, 7, 7)),
    "resnet18: the pool": (
        lambda j, x: j.lax.reduce_window(x, -np.inf, j.lax.max, (1, 1, 3, 3), (1, 1, 2, 2), "SAME"),
        normal(1, 64, 64, 64)),
    "cnn: the second convolution": (
        lambda j, x, w: j.lax.conv_general_dilated(x, w, (1, 1), "SAME"),
        normal(1, 32, 14, 14), normal(64, 32, 3, 3)),
    "depthwise, 30 x 30, not padded": (
        lambda j, x, w: j.lax.conv_general_dilated(x, w, (1, 1), "VALID", feature_group_count=128),
        normal(8, 128, 30, 30), normal(128, 1, 3, 3)),
    "depthwise: pad": (lambda j, x: j.np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))),
                       normal(8, 128, 28, 28)),
    "prefill: 512 x 512 by 1536": (lambda j, x, w: x @ w, normal(512, 512), normal(512, 1536)),
    "prefill: 512 x 512 by 2048": (lambda j, x, w: x @ w, normal(512, 512), normal(512, 2048)),
    "prefill: 512 x 2048 by 512": (lambda j, x, w: x @ w, normal(512, 2048), normal(2048, 512)),
    "prefill: gelu of 512 x 2048": (lambda j, x: j.nn.gelu(x, approximate=False),
                                    normal(512, 2048)),
    "prefill: causal attention of 8 x 512 x 64": (
        lambda j, x: j.nn.dot_product_attention(x, x, x, is_causal=True), normal(1, 512, 8, 64)),
    "conv_3x3: pad": (lambda j, x: j.np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))),
                      normal(8, 64, 56, 56)),
    "token: copies of rows into caches": (
        lambda j, k, x: j.lax.dynamic_update_slice(k, x, (0, 700, 0, 0)),
        normal(1, 704, 8, 64), normal(1, 1, 8, 64)),
}


def main() -> None:
    j, word = library("calque"), (sys.argv[1:] or [""])[0]
    rows = {n: (r.calque, *r.arguments(), *r.weights()) for n, r in ROWS.items()
            if word and word in n and not r.carry and not r.low}
    rows |= {f"{n}, weights as constants": (
        lambda j, *x, r=ROWS[n]: r.calque(j, *x, *r.weights()), *ROWS[n].arguments())
        for n in rows if ROWS[n].weights()}
    for name, (f, *args) in {**PARTS, **rows}.items():
        if word not in name:
            continue
        given = [j.top.device_put(a) for a in args]
        jitted = j.top.jit(lambda *a, f=f: f(j, *a))
        call = Call(lambda: jitted(*given), j.top.block_until_ready, np.asarray)  # noqa: B023
        once = stretch(call, 1, 3)
        count = max(1, round(0.002 / once))
        least = min(stretch(call, count, 30) for _ in range(5))
        wall, cpu = time.perf_counter(), time.process_time()
        call(max(1, round(0.2 / least)))
        used = (time.process_time() - cpu) / (time.perf_counter() - wall)
        print(f"{name:50} {least * 1e6:9.1f} us, {used:.2f} threads", flush=True)


if __name__ == "__main__":
    main()
